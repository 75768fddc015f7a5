#include "guest/guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 64 * 1024 * 1024, NAMES_FIRST = 4096 };

bool names_is_stage(const char *name)
{
    size_t len = sizeof(GUEST_STAGE_PREFIX) - 1;
    return strncmp(name, GUEST_STAGE_PREFIX, len) == 0 && strlen(name) == len + 16 &&
           strspn(name + len, "0123456789abcdef") == 16;
}

static int add(struct names *names, size_t *size, const char *name)
{
    size_t need = names->len + strlen(name) + 1;
    if (need > *size) {
        size_t more = *size == 0 ? NAMES_FIRST : 2 * *size;
        char *grown = more > NAMES_MAX ? NULL : realloc(names->text, more);
        if (grown == NULL) {
            errno = ENOMEM;
            return -1;
        }
        names->text = grown;
        *size = more;
    }
    memcpy(names->text + names->len, name, need - names->len);
    names->len = need;
    names->count++;
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int sort(struct names *names)
{
    if (names->count < 2) {
        return 0;
    }
    const char **order = malloc(names->count * sizeof(char *));
    char *text = malloc(names->len);
    if (order == NULL || text == NULL) {
        free(order);
        free(text);
        errno = ENOMEM;
        return -1;
    }
    const char *at = names->text;
    for (size_t i = 0; i < names->count; i++, at += strlen(at) + 1) {
        order[i] = at;
    }
    qsort(order, names->count, sizeof(char *), compare);
    size_t used = 0;
    for (size_t i = 0; i < names->count; i++) {
        size_t len = strlen(order[i]) + 1;
        memcpy(text + used, order[i], len);
        used += len;
    }
    free(order);
    free(names->text);
    names->text = text;
    return 0;
}

static int collect(DIR *dir, bool skip_stages, struct names *out)
{
    size_t size = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            return errno == 0 ? 0 : -1;
        }
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            (skip_stages && names_is_stage(name))) {
            continue;
        }
        if (add(out, &size, name) != 0) {
            return -1;
        }
    }
}

int names_read(int dir_fd, bool skip_stages, struct names *out)
{
    struct names names = {0};
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        guest_close(&fd);
        return -1;
    }
    int result = collect(dir, skip_stages, &names);
    int errnum = errno;
    closedir(dir);
    errno = errnum;
    if (result != 0 || sort(&names) != 0) {
        names_done(&names);
        return -1;
    }
    *out = names;
    return 0;
}

void names_done(struct names *names)
{
    int errnum = errno;
    free(names->text);
    *names = (struct names){0};
    errno = errnum;
}
