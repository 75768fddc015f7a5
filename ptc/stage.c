#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "ptc/files.h"
#include "ptc/inside/protocol.h"
#include "ptc/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { DIR_MODE = 0755, FILE_MODE = 0644, CACHE_MAX = 4 * 1024 * 1024 };

/* Enough to be somebody and to look up localhost; nothing of the machine's own. */
static const char passwd[] = "program:x:1000:1000:program:/:/bin/sh\n"
                             "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";
static const char group[] = "program:x:1000:\nnogroup:x:65534:\n";
static const char hosts[] = "127.0.0.1 localhost\n::1 localhost\n";
static const char nsswitch[] = "passwd: files\ngroup: files\nhosts: files dns\n";

/* Not by the process's umask. */
static int put_directory(int root, const char *name, struct error *err)
{
    if ((mkdirat(root, name, DIR_MODE) != 0 && errno != EEXIST) ||
        fchmodat(root, name, DIR_MODE, 0) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "making %s for programs", name);
    }
    return 0;
}

static int put_file(int root, const char *name, const char *data, size_t len, struct error *err)
{
    _cleanup_close_ int fd =
        openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (fd < 0 || fchmod(fd, FILE_MODE) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "making %s for programs", name);
    }
    return file_write_all(fd, data, len, err);
}

static int put_bootstrap(int root, struct error *err)
{
    if (put_directory(root, "bootstrap", err) != 0) {
        return -1;
    }
    for (const struct ptc_file *file = ptc_bootstrap_files; file->name != NULL; file++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "bootstrap/%s", file->name);
        if (put_file(root, name, file->start, (size_t)(file->end - file->start), err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int copy_file(int root, const char *from, const char *to, struct error *err)
{
    _cleanup_buf_ struct buf text;
    struct error ignored = ERROR_INIT;
    buf_init(&text, CACHE_MAX);
    if (file_read(from, &text, &ignored) != 0) {
        return 0;
    }
    return put_file(root, to, buf_str(&text), text.len, err);
}

static int put_named(int root, const char *directory, const char *name, const char *text,
                     struct error *err)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    return put_file(root, path, text, strlen(text), err);
}

static int put_etc(int root, const char *directory, struct error *err)
{
    char path[64];
    if (put_directory(root, directory, err) != 0 ||
        put_named(root, directory, "passwd", passwd, err) != 0 ||
        put_named(root, directory, "group", group, err) != 0 ||
        put_named(root, directory, "hosts", hosts, err) != 0 ||
        put_named(root, directory, "nsswitch.conf", nsswitch, err) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/ld.so.cache", directory);
    return copy_file(root, "/etc/ld.so.cache", path, err);
}

/* A second one for programs that have the machine's network. */
static int put_both_etc(int root, struct error *err)
{
    return put_etc(root, "etc", err) != 0 || put_etc(root, "etc-host", err) != 0
               ? -1
               : copy_file(root, "/etc/resolv.conf", "etc-host/resolv.conf", err);
}

/* Copies of libraries are kept from one life of the service to the next: a disk that has become
 * full meanwhile would not hold them again. `aside` is where they are while the rest is made anew.
 */
static void keep_libraries(const struct ptc_engine *e, bool aside)
{
    char within[PATH_MAX];
    char beside[PATH_MAX];
    (void)snprintf(within, sizeof(within), "%s/lent/" INSIDE_LIBRARIES, e->stage);
    (void)snprintf(beside, sizeof(beside), "%s.libraries", e->stage);
    /* Neither has to be there; a directory that is full is not replaced. */
    (void)(aside ? rename(within, beside) : rename(beside, within));
}

static int put_lent(struct ptc_engine *e, struct error *err)
{
    struct error missing = ERROR_INIT;
    if (put_directory(e->stage_fd, "lent", err) != 0) {
        return -1;
    }
    e->lent_fd = openat(e->stage_fd, "lent", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (e->lent_fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "making a directory to lend");
    }
    keep_libraries(e, false);
    if (put_file(e->lent_fd, "node", "", 0, err) != 0 || put_bootstrap(e->lent_fd, err) != 0) {
        return -1;
    }
    if (ptc_lend_make(e, e->lent_fd, &missing) != 0) {
        log_warn("Node.js can't be lent to executions", "reason", missing.detail, NULL);
    }
    return 0;
}

int ptc_stage_make(struct ptc_engine *e, struct error *err)
{
    struct buf path;
    buf_init(&path, ERROR_DETAIL_MAX);
    if (buf_addf(&path, "%s/ptc", e->hidden) != 0) {
        buf_done(&path);
        return error_set(err, ERROR_INTERNAL, "the data directory's path is too long");
    }
    e->stage = buf_take(&path, NULL);
    keep_libraries(e, true);
    if (dir_empty(e->stage, DIR_MODE, err) != 0 || chmod(e->stage, DIR_MODE) != 0) {
        return err->code != ERROR_NONE
                   ? -1
                   : error_set_errno(err, ERROR_INTERNAL, errno, "%s", e->stage);
    }
    e->stage_fd = open(e->stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (e->stage_fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "%s", e->stage);
    }
    return put_directory(e->stage_fd, "workspace", err) != 0 ||
                   put_file(e->stage_fd, "node", "", 0, err) != 0 ||
                   put_bootstrap(e->stage_fd, err) != 0 || put_both_etc(e->stage_fd, err) != 0 ||
                   put_lent(e, err) != 0
               ? -1
               : 0;
}

void ptc_stage_remove(struct ptc_engine *e)
{
    struct error ignored = ERROR_INIT;
    if (e->stage != NULL) {
        keep_libraries(e, true);
        (void)!dir_remove(e->stage, &ignored);
    }
    free(e->stage);
    e->stage = NULL;
}
