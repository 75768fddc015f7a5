#include "store/transcript_format.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { DIRECTORIES_ABOVE = 4 }; /* <row>, <tenant>, transcripts and the data directory */

struct store_transcript {
    int fd;
    char *path;
    uint32_t marker;
    int64_t size;    /* whole records */
    int64_t durable; /* as far as it was synced */
    bool names_durable;
    bool broken; /* a partial record could not be cut: nothing may follow it */
};

static int fail_errno(const struct store_transcript *t, int errnum, const char *what,
                      struct error *err)
{
    /* A file that may not grow further is as full as a disk. */
    return error_set_errno(err, errnum == EFBIG ? ERROR_STORAGE_FULL : ERROR_INTERNAL, errnum,
                           "cannot %s transcript %s", what, t->path);
}

void store_transcript_close(struct store_transcript *t)
{
    if (t != NULL) {
        cleanup_close(&t->fd);
        free(t->path);
        free(t);
    }
}

static struct store_transcript *transcript_new(const struct store_transcript_name *name,
                                               struct error *err)
{
    struct store_transcript *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        error_set(err, ERROR_INTERNAL, "out of memory");
        return NULL;
    }
    t->fd = -1;
    t->path = transcript_path(name, err);
    if (t->path == NULL) {
        store_transcript_close(t);
        return NULL;
    }
    return t;
}

/* pwritev over short writes and EINTR; what was written is in *written also on failure. 0 or errno.
 */
static int write_all(int fd, struct iovec *iov, int count, int64_t offset, size_t *written)
{
    *written = 0;
    while (count > 0) {
        ssize_t n = pwritev(fd, iov, count, offset + (int64_t)*written);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno;
        }
        *written += (size_t)n;
        while (count > 0 && (size_t)n >= iov->iov_len) {
            n -= (ssize_t)iov->iov_len;
            iov++;
            count--;
        }
        if (count > 0) {
            iov->iov_base = (char *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
    return 0;
}

/* Writes at the end, or leaves the file as it was. */
static int extend(struct store_transcript *t, struct iovec *iov, int count, struct error *err)
{
    size_t written = 0;
    int errnum = fault_point("transcript.write");

    if (errnum == 0) {
        errnum = write_all(t->fd, iov, count, t->size, &written);
    }
    if (errnum == 0) {
        t->size += (int64_t)written;
        return 0;
    }
    if (written > 0 && ftruncate(t->fd, t->size) != 0) {
        t->broken = true;
    }
    return fail_errno(t, errnum, "write", err);
}

static int write_header(struct store_transcript *t, struct error *err)
{
    unsigned char header[TRANSCRIPT_HEADER_SIZE];
    struct iovec iov = {header, sizeof(header)};

    if (getrandom(&t->marker, sizeof(t->marker), 0) != (ssize_t)sizeof(t->marker)) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "no randomness");
    }
    transcript_header_write(t->marker, header);
    return extend(t, &iov, 1, err);
}

static int make_directories(const struct store_transcript *t, struct error *err)
{
    _cleanup_free_ char *directory = strndup(t->path, (size_t)(strrchr(t->path, '/') - t->path));

    if (directory == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return dir_make(directory, 0700, err);
}

/* 0 or errno. */
static int open_new(struct store_transcript *t)
{
    int errnum = fault_point("transcript.create");

    if (errnum != 0) {
        return errnum;
    }
    t->fd = open(t->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return t->fd < 0 ? errno : 0;
}

static int create_file(struct store_transcript *t, struct error *err)
{
    int errnum = open_new(t);

    /* The directories are there but for the first command. */
    if (errnum == ENOENT) {
        if (make_directories(t, err) != 0) {
            return -1;
        }
        errnum = open_new(t);
    }
    if (errnum != 0) {
        return fail_errno(t, errnum, "create", err);
    }
    if (write_header(t, err) != 0) {
        unlink(t->path);
        return -1;
    }
    return 0;
}

int store_transcript_create(const struct store_transcript_name *name, struct store_transcript **out,
                            struct error *err)
{
    struct store_transcript *t = transcript_new(name, err);

    if (t == NULL) {
        return -1;
    }
    if (create_file(t, err) != 0) {
        store_transcript_close(t);
        return -1;
    }
    *out = t;
    return 0;
}

/* --- again --- */

/* Reads all records; where the last whole one ends. */
static int find_end(const struct store_transcript_name *name, int64_t *end, struct error *err)
{
    struct store_transcript_reader *r = NULL;
    struct store_record record;
    int got;

    if (store_transcript_open(name, &r, err) != 0) {
        return -1;
    }
    do {
        got = store_transcript_next(r, &record, err);
    } while (got > 0);
    *end = transcript_reader_offset(r);
    store_transcript_reader_free(r);
    return got;
}

static int read_marker(struct store_transcript *t, struct error *err)
{
    unsigned char header[TRANSCRIPT_HEADER_SIZE];
    ssize_t n = transcript_pread(t->fd, header, sizeof(header), 0);

    if (n != (ssize_t)sizeof(header) || transcript_header_read(header, &t->marker) != 1) {
        return fail_errno(t, n < 0 ? errno : EIO, "read the header of", err);
    }
    return 0;
}

static int cut_tail(struct store_transcript *t, int64_t end, bool *repaired, struct error *err)
{
    struct stat st;
    int errnum = 0;

    if (fstat(t->fd, &st) != 0) {
        return fail_errno(t, errno, "look at", err);
    }
    *repaired = st.st_size != end || end == 0;
    if (st.st_size != end) {
        errnum = fault_point("transcript.truncate");
        if (errnum == 0 && ftruncate(t->fd, end) != 0) {
            errnum = errno;
        }
    }
    if (errnum != 0) {
        return fail_errno(t, errnum, "cut the tail of", err);
    }
    t->size = end;
    return end == 0 ? write_header(t, err) : read_marker(t, err);
}

static int reopen(struct store_transcript *t, const struct store_transcript_name *name,
                  bool *repaired, struct error *err)
{
    int64_t end = 0;

    if (find_end(name, &end, err) != 0) {
        return -1;
    }
    t->fd = open(t->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (t->fd < 0) {
        return fail_errno(t, errno, "open", err);
    }
    if (cut_tail(t, end, repaired, err) != 0) {
        return -1;
    }
    return store_transcript_sync(t, err);
}

int store_transcript_reopen(const struct store_transcript_name *name, struct store_transcript **out,
                            bool *repaired, struct error *err)
{
    struct store_transcript *t = transcript_new(name, err);
    bool cut = false;

    if (t == NULL) {
        return -1;
    }
    if (reopen(t, name, &cut, err) != 0) {
        store_transcript_close(t);
        return -1;
    }
    *repaired = cut;
    *out = t;
    return 0;
}

/* --- records --- */

static int append_one(struct store_transcript *t, enum store_record_kind kind, const void *data,
                      size_t len, struct error *err)
{
    unsigned char head[TRANSCRIPT_RECORD_SIZE];
    struct transcript_record record = {
        .len = (uint32_t)len, .kind = kind, .at = clock_wall_ms(), .durable = t->durable};
    struct iovec iov[] = {{head, sizeof(head)}, {(void *)data, len}};

    transcript_record_write(t->marker, &record, data, head);
    return extend(t, iov, len == 0 ? 1 : 2, err);
}

static int check_append(const struct store_transcript *t, enum store_record_kind kind, size_t len,
                        struct error *err)
{
    if (t->broken) {
        return error_set(err, ERROR_INTERNAL, "transcript %s has a torn tail", t->path);
    }
    if ((kind == STORE_RECORD_STARTED && len > 0) ||
        (kind == STORE_RECORD_EXIT && len > TRANSCRIPT_EXIT_MAX)) {
        return error_set(err, ERROR_INTERNAL, "a record of %zu bytes is too long", len);
    }
    return 0;
}

int store_transcript_append(struct store_transcript *t, enum store_record_kind kind,
                            const void *data, size_t len, struct error *err)
{
    const char *from = data;
    size_t max = kind == STORE_RECORD_EXIT ? TRANSCRIPT_EXIT_MAX : TRANSCRIPT_CHUNK_MAX;

    if (check_append(t, kind, len, err) != 0) {
        return -1;
    }
    if (len == 0) {
        return append_one(t, kind, NULL, 0, err);
    }
    while (len > 0) {
        size_t part = len < max ? len : max;

        if (append_one(t, kind, from, part, err) != 0) {
            return -1;
        }
        from += part;
        len -= part;
    }
    return 0;
}

/* The file's name and its directories' names must be there after power loss, too. */
static int sync_names(const struct store_transcript *t, struct error *err)
{
    _cleanup_free_ char *directory = strdup(t->path);

    if (directory == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    for (int i = 0; i < DIRECTORIES_ABOVE; i++) {
        char *slash = strrchr(directory, '/');

        if (slash == NULL || slash == directory) {
            break;
        }
        *slash = '\0';
        if (dir_sync(directory, err) != 0) {
            return -1;
        }
    }
    return 0;
}

int store_transcript_sync(struct store_transcript *t, struct error *err)
{
    int errnum = fault_point("transcript.fsync");

    if (errnum == 0 && fdatasync(t->fd) != 0) {
        errnum = errno;
    }
    if (errnum != 0) {
        return fail_errno(t, errnum, "sync", err);
    }
    if (!t->names_durable && sync_names(t, err) != 0) {
        return -1;
    }
    t->names_durable = true;
    t->durable = t->size;
    return 0;
}

int64_t store_transcript_size(const struct store_transcript *t)
{
    return t->size;
}

/* --- removal --- */

int store_transcript_remove(const struct store_transcript_name *name, struct error *err)
{
    _cleanup_free_ char *path = transcript_path(name, err);
    int errnum = fault_point("transcript.remove");

    if (path == NULL) {
        return -1;
    }
    if (errnum == 0 && unlink(path) != 0 && errno != ENOENT) {
        errnum = errno;
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot remove %s", path);
    }
    return 0;
}

int store_transcript_remove_all(const struct store_transcript_name *name, struct error *err)
{
    struct store_transcript_name any = *name;
    _cleanup_free_ char *path = NULL;

    any.command_id = "any";
    path = transcript_path(&any, err);
    if (path == NULL) {
        return -1;
    }
    *strrchr(path, '/') = '\0';
    return dir_remove(path, err);
}
