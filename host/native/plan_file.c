#include "host/native/native_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

enum { PLAN_MAX = 64 * 1024 * 1024 };

int native_memory_file(const char *name, const void *data, size_t len, struct error *err)
{
    _cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "a memory file");
    }
    for (size_t at = 0; at < len;) {
        ssize_t n = pwrite(fd, (const char *)data + at, len - at, (off_t)at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, ERROR_RUNTIME, errno, "writing a memory file");
        }
        at += (size_t)n;
    }
    return TAKE_FD(fd);
}

static uint32_t count_of(char *const *list)
{
    uint32_t count = 0;
    while (list[count] != NULL) {
        count++;
    }
    return count;
}

static int add_strings(struct buf *out, char *const *list)
{
    for (; *list != NULL; list++) {
        if (buf_add(out, *list, strlen(*list) + 1) != 0) {
            return -1;
        }
    }
    return 0;
}

int native_plan_file(const char *const *argv, char *const *environment, const char *cwd,
                     struct error *err)
{
    char *const *words = (char *const *)(uintptr_t)argv;
    struct shim_plan head = {.argc = count_of(words), .envc = count_of(environment)};
    size_t table = ((size_t)head.argc + head.envc + 2) * sizeof(char *);
    _cleanup_buf_ struct buf text;
    buf_init(&text, PLAN_MAX);
    char *room = buf_reserve(&text, sizeof(head) + table);
    if (room != NULL) {
        memset(room, 0, sizeof(head) + table);
        text.len += sizeof(head) + table;
    }
    if (room == NULL || add_strings(&text, words) != 0 || add_strings(&text, environment) != 0 ||
        buf_add(&text, cwd, strlen(cwd) + 1) != 0) {
        return error_set(err, ERROR_INTERNAL, "the command is too long");
    }
    head.size = text.len;
    memcpy(text.data, &head, sizeof(head));
    return native_memory_file("plan", text.data, text.len, err);
}
