#include "store/run_log.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/macros.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct store_run_log {
    int fd;
    int64_t size;
    bool named; /* its name is durable */
    char directory[PATH_MAX];
};

static int directory_of(const struct store_run_log_name *name, char out[PATH_MAX],
                        struct error *err)
{
    int len = snprintf(out, PATH_MAX, "%s/runs/%s", name->directory, name->tenant);

    return len < PATH_MAX ? 0 : error_set(err, ERROR_INTERNAL, "the path of a run is too long");
}

static int path_of(const struct store_run_log_name *name, char out[PATH_MAX], struct error *err)
{
    int len = snprintf(out, PATH_MAX, "%s/runs/%s/%s.ndjson", name->directory, name->tenant,
                       name->run_id);

    return len < PATH_MAX ? 0 : error_set(err, ERROR_INTERNAL, "the path of a run is too long");
}

/* --- writing --- */

static int open_log(const struct store_run_log_name *name, int64_t size, struct store_run_log **out,
                    struct error *err)
{
    char path[PATH_MAX];
    struct store_run_log *log = calloc(1, sizeof(*log));

    if (log == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    log->fd = -1;
    log->size = size;
    if (directory_of(name, log->directory, err) != 0 || path_of(name, path, err) != 0 ||
        dir_make(log->directory, 0700, err) != 0) {
        store_run_log_close(log);
        return -1;
    }
    int fault = fault_point("store.run.open");
    if (fault != 0) {
        store_run_log_close(log);
        return error_set_errno(err, ERROR_INTERNAL, fault, "cannot open the log of run %s",
                               name->run_id);
    }
    log->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log->fd < 0 || ftruncate(log->fd, size) != 0 || lseek(log->fd, size, SEEK_SET) < 0) {
        error_set_errno(err, ERROR_INTERNAL, errno, "cannot open the log of run %s", name->run_id);
        store_run_log_close(log);
        return -1;
    }
    *out = log;
    return 0;
}

int store_run_log_create(const struct store_run_log_name *name, struct store_run_log **out,
                         struct error *err)
{
    return open_log(name, 0, out, err);
}

int store_run_log_reopen(const struct store_run_log_name *name, int64_t size,
                         struct store_run_log **out, struct error *err)
{
    return open_log(name, size, out, err);
}

int store_run_log_append(struct store_run_log *log, const void *data, size_t len, struct error *err)
{
    int fault = fault_point("store.run.append");

    if (fault != 0) {
        return error_set_errno(err, ERROR_INTERNAL, fault, "cannot write the log of a run");
    }
    if (file_write_all(log->fd, data, len, err) != 0) {
        if (ftruncate(log->fd, log->size) != 0 || lseek(log->fd, log->size, SEEK_SET) < 0) {
            return error_set_errno(err, ERROR_INTERNAL, errno, "the log of a run cannot be cut");
        }
        return -1;
    }
    log->size += (int64_t)len;
    return 0;
}

int store_run_log_sync(struct store_run_log *log, struct error *err)
{
    int fault = fault_point("store.run.fsync");

    if (fault != 0 || fdatasync(log->fd) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, fault != 0 ? fault : errno,
                               "cannot sync the log of a run");
    }
    if (!log->named && dir_sync(log->directory, err) != 0) {
        return -1;
    }
    log->named = true;
    return 0;
}

int64_t store_run_log_size(const struct store_run_log *log)
{
    return log->size;
}

void store_run_log_close(struct store_run_log *log)
{
    if (log != NULL && log->fd >= 0) {
        close(log->fd);
    }
    free(log);
}

/* --- reading --- */

int store_run_log_open(const struct store_run_log_name *name, struct error *err)
{
    char path[PATH_MAX];
    int fd;

    if (path_of(name, path, err) != 0) {
        return -1;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return error_set_errno(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_INTERNAL, errno,
                               "cannot open the log of run %s", name->run_id);
    }
    return fd;
}

int64_t store_run_log_read(int fd, int64_t place, void *data, size_t len, struct error *err)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, (char *)data + got, len - got, place + (int64_t)got);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set_errno(err, ERROR_INTERNAL, errno, "cannot read the log of a run");
        }
        if (n == 0) {
            break;
        }
        got += (size_t)n;
    }
    return (int64_t)got;
}

int store_run_log_remove(const struct store_run_log_name *name, struct error *err)
{
    char path[PATH_MAX];

    if (path_of(name, path, err) != 0) {
        return -1;
    }
    if (unlink(path) != 0 && errno != ENOENT) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot remove the log of run %s",
                               name->run_id);
    }
    return 0;
}
