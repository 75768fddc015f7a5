#include "store/store.h"

#include "store/readers.h"
#include "store/schema.h"
#include "store/transaction.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

enum { INSTANCE_ID_LEN = 16, RESERVE_BYTES = 1024 * 1024 };
enum { LOCK_WAIT_MS = 5000, LOCK_PAUSE_MS = 10 };

static const struct sql_points INSTANCE_POINTS = SQL_POINTS_POWER_LOSS("instance");

/* A service that is killed while it starts a process leaves a child that has all its descriptors,
 * the lock's too, until it reaches its exec: a moment where the machine is idle. 0 or an errno. */
static int lock_soon(int fd)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000L};
    int64_t deadline = clock_mono_ms() + LOCK_WAIT_MS;

    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EINTR && (errno != EWOULDBLOCK || clock_mono_ms() >= deadline)) {
            return errno;
        }
        nanosleep(&pause, NULL);
    }
    return 0;
}

static int take_lock(const char *directory, int *out, struct error *err)
{
    _cleanup_free_ char *path = NULL;
    _cleanup_close_ int fd = -1;

    if (asprintf(&path, "%s/exechost.lock", directory) < 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot open %s", path);
    }
    int errnum = lock_soon(fd);
    if (errnum == EWOULDBLOCK) {
        return error_set(err, ERROR_INTERNAL, "the data directory %s is in use by another service",
                         directory);
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot lock %s", path);
    }
    *out = TAKE_FD(fd);
    return 0;
}

/* SQLite would make it readable for everybody. Must come before SQLite opens it: closing any
 * descriptor of the file lets go of the process's locks on it. */
static int make_file(const char *path, const char *directory, struct error *err)
{
    int errnum = fault_point("store.file.create");
    int fd = errnum != 0 ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum != 0 ? errnum : errno, "cannot open %s",
                               path);
    }
    close(fd);
    errnum = fault_point("store.file.sync");
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot sync %s", directory);
    }
    return dir_sync(directory, err);
}

/* Makes the id unless there is one, and reads it. */
static int settle_instance(struct sql *s, void *ctx, struct error *err)
{
    char id[ID_SIZE];
    char **out = ctx;
    _cleanup_statement_ sqlite3_stmt *insert = NULL;
    _cleanup_statement_ sqlite3_stmt *select = NULL;

    id_generate("i", id);
    id[2 + INSTANCE_ID_LEN] = '\0';
    if (sql_prepare(s,
                    "INSERT INTO service (key, value) VALUES ('instance_id', :id)"
                    " ON CONFLICT DO NOTHING",
                    &insert, err) != 0 ||
        sql_prepare(s, "SELECT value FROM service WHERE key = 'instance_id'", &select, err) != 0) {
        return -1;
    }
    sql_bind_text(insert, ":id", id + 2);
    if (sql_run(s, insert, err) != 0 || sql_run(s, select, err) != 0) {
        return -1;
    }
    free(*out);
    *out = strdup((const char *)sqlite3_column_text(select, 0));
    return *out == NULL ? error_set(err, ERROR_INTERNAL, "out of memory") : 0;
}

static int read_instance(struct sql *s, void *ctx, struct error *err)
{
    char **out = ctx;
    _cleanup_statement_ sqlite3_stmt *select = NULL;
    int got;

    if (sql_prepare(s, "SELECT value FROM service WHERE key = 'instance_id'", &select, err) != 0) {
        return -1;
    }
    got = sql_step(s, select, err);
    if (got > 0) {
        *out = strdup((const char *)sqlite3_column_text(select, 0));
    }
    return got < 0 ? -1 : 0;
}

/* Takes `writer` in every case. Reads first: a start on a full disk must not need a write. */
static int open_connections(struct store *s, struct sql *writer, struct error *err)
{
    if (schema_migrate(writer, err) != 0 || read_instance(writer, &s->instance_id, err) != 0 ||
        (s->instance_id == NULL &&
         sql_write(writer, &INSTANCE_POINTS, settle_instance, &s->instance_id, err) != 0)) {
        sql_close(writer);
        return -1;
    }
    return sql_pool_new(s->path, writer, &s->pool, err);
}

/* --- the reserve --- */

/* On a full disk nothing could be deleted, because a row's deletion is written down before its room
 * is free: this file's room is given to that. */
void store_reserve_make(struct store *s)
{
    _cleanup_close_ int fd = -1;
    int errnum = fault_point("store.reserve.make");

    if (errnum == 0) {
        fd = open(s->reserve, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        errnum = fd < 0 ? errno : posix_fallocate(fd, 0, RESERVE_BYTES);
    }
    if (errnum != 0) {
        unlink(s->reserve);
    }
    atomic_store(&s->reserve_out, errnum != 0);
}

bool store_reserve_use(struct store *s)
{
    atomic_store(&s->reserve_out, true);
    return unlink(s->reserve) == 0;
}

void store_keep_reserve(struct store *s)
{
    if (atomic_load(&s->reserve_out)) {
        store_reserve_make(s);
    }
}

static int open_all(struct store *s, const char *directory, struct error *err)
{
    struct sql *writer = NULL;

    if (store_readers_new(&s->readers, err) != 0 || dir_make(directory, 0700, err) != 0 ||
        take_lock(directory, &s->lock_fd, err) != 0) {
        return -1;
    }
    if (asprintf(&s->path, "%s/exechost.db", directory) < 0) {
        s->path = NULL;
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (asprintf(&s->reserve, "%s/exechost.reserve", directory) < 0) {
        s->reserve = NULL;
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (make_file(s->path, directory, err) != 0 || sql_open(s->path, true, &writer, err) != 0) {
        return -1;
    }
    if (open_connections(s, writer, err) != 0) {
        return -1;
    }
    store_reserve_make(s);
    return 0;
}

int store_open(const char *directory, struct store **out, struct error *err)
{
    struct store *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    s->lock_fd = -1;
    if (open_all(s, directory, err) != 0) {
        store_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

void store_close(struct store *s)
{
    if (s == NULL) {
        return;
    }
    sql_pool_free(s->pool);
    free(s->path);
    free(s->reserve);
    store_readers_free(s->readers);
    free(s->instance_id);
    if (s->lock_fd >= 0) {
        close(s->lock_fd);
    }
    free(s);
}

const char *store_instance_id(const struct store *s)
{
    return s->instance_id;
}

struct store_readers *store_readers(struct store *s)
{
    return s->readers;
}

void store_text_set(char **slot, const char *text)
{
    free(*slot);
    *slot = text == NULL || text[0] == '\0' ? NULL : strdup(text);
}
