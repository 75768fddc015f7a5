#include "store/transcript_format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* Behind a payload that is skipped and so large, little but the head is of use. */
enum { READ_AHEAD = 16 * 1024, LONE_HEAD = 4 * 1024 };

struct store_transcript_reader {
    int fd;
    bool have_marker;
    uint32_t marker;
    int64_t offset; /* of the next record */
    int64_t seq;
    int64_t stream_bytes[2];
    char *data; /* file content from data_offset on */
    size_t len;
    size_t size;
    int64_t data_offset;
};

int store_transcript_open(const struct store_transcript_name *name,
                          struct store_transcript_reader **out, struct error *err)
{
    _cleanup_free_ char *path = transcript_path(name, err);
    struct store_transcript_reader *r;
    struct stat st;
    int fd;

    if (path == NULL) {
        return -1;
    }
    /* Nonblocking, because what stands there may be a FIFO by now. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        return error_set(err, ERROR_NOT_FOUND, "command %s has no transcript", name->command_id);
    }
    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot open %s", path);
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return error_set(err, ERROR_INTERNAL, "%s is no regular file", path);
    }
    r = calloc(1, sizeof(*r));
    if (r == NULL) {
        close(fd);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    r->fd = fd;
    *out = r;
    return 0;
}

void store_transcript_reader_free(struct store_transcript_reader *r)
{
    if (r != NULL) {
        close(r->fd);
        free(r->data);
        free(r);
    }
}

int64_t transcript_reader_offset(const struct store_transcript_reader *r)
{
    return r->offset;
}

/* Ten thousand readers that wait for more must not hold a buffer each; and what follows the last
 * whole record may still change. */
static void drop_buffer(struct store_transcript_reader *r)
{
    free(r->data);
    r->data = NULL;
    r->len = 0;
    r->size = 0;
}

static int make_room(struct store_transcript_reader *r, size_t need, struct error *err)
{
    size_t want = need < READ_AHEAD ? READ_AHEAD : need;

    if (r->size < want) {
        char *grown = realloc(r->data, want);

        if (grown == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        r->data = grown;
        r->size = want;
    }
    return 0;
}

/* 1 and where the `need` bytes at the reader's offset are, 0 when the file is shorter, -1. */
static int fill(struct store_transcript_reader *r, size_t need, const char **at, struct error *err)
{
    size_t used = (size_t)(r->offset - r->data_offset);
    ssize_t n;

    if (r->data == NULL || used > r->len) {
        used = 0;
        r->len = 0;
        r->data_offset = r->offset;
    }
    if (r->len - used >= need) {
        *at = r->data + used;
        return 1;
    }
    if (make_room(r, need, err) != 0) {
        return -1;
    }
    memmove(r->data, r->data + used, r->len - used);
    r->len -= used;
    r->data_offset = r->offset;
    n = transcript_pread(r->fd, r->data + r->len, r->size - r->len,
                         r->data_offset + (int64_t)r->len);
    if (n < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot read a transcript at %" PRId64,
                               r->offset);
    }
    r->len += (size_t)n;
    *at = r->data;
    return r->len >= need ? 1 : 0;
}

static int damaged(int64_t offset, struct error *err)
{
    return error_set(err, ERROR_INTERNAL, "a transcript is damaged at offset %" PRId64, offset);
}

/* 1 when the marker is known, 0 when the header is not there yet, -1. */
static int read_header(struct store_transcript_reader *r, struct error *err)
{
    const char *at;
    int got;

    if (r->have_marker) {
        return 1;
    }
    got = fill(r, TRANSCRIPT_HEADER_SIZE, &at, err);
    if (got > 0) {
        got = transcript_header_read((const unsigned char *)at, &r->marker);
        if (got < 0) {
            return damaged(0, err);
        }
    }
    if (got > 0) {
        r->have_marker = true;
        r->offset = TRANSCRIPT_HEADER_SIZE;
    } else {
        drop_buffer(r);
    }
    return got;
}

static void take_record(struct store_transcript_reader *r, const struct transcript_record *record,
                        const char *payload, struct store_record *out)
{
    *out = (struct store_record){
        .seq = r->seq++,
        .kind = (enum store_record_kind)record->kind,
        .at = record->at,
        .data = payload,
        .len = record->len,
    };
    if (out->kind == STORE_RECORD_STDOUT || out->kind == STORE_RECORD_STDERR) {
        int64_t *bytes = &r->stream_bytes[out->kind == STORE_RECORD_STDERR];

        out->offset = *bytes;
        *bytes += record->len;
    }
    r->offset += TRANSCRIPT_RECORD_SIZE + (int64_t)record->len;
}

/* 1 with the whole record at the offset and its payload, 0 when none is there, -1. */
static int read_whole(struct store_transcript_reader *r, struct transcript_record *record,
                      const char **payload, struct error *err)
{
    const char *at;
    int got = fill(r, TRANSCRIPT_RECORD_SIZE, &at, err);

    if (got > 0) {
        got = transcript_record_read(r->marker, (const unsigned char *)at, record);
    }
    if (got > 0) {
        got = fill(r, TRANSCRIPT_RECORD_SIZE + (size_t)record->len, &at, err);
    }
    if (got > 0) {
        *payload = at + TRANSCRIPT_RECORD_SIZE;
        got = transcript_record_check(record, *payload);
    }
    if (got == 0) {
        drop_buffer(r);
    }
    return got;
}

/* Whether there once was a durable record where no whole one is now. */
static int look_behind(struct store_transcript_reader *r, bool *found, struct error *err)
{
    struct stat st;

    if (fstat(r->fd, &st) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot look at a transcript");
    }
    if (st.st_size <= r->offset + TRANSCRIPT_RECORD_SIZE) {
        *found = false; /* no room for a further record: followers come here at every turn */
        return 0;
    }
    return transcript_find_durable(r->fd, r->marker, r->offset, st.st_size, found, err);
}

int store_transcript_next(struct store_transcript_reader *r, struct store_record *out,
                          struct error *err)
{
    struct transcript_record record;
    const char *payload;
    bool found = false;
    int got = read_header(r, err);

    if (got <= 0) {
        return got;
    }
    got = read_whole(r, &record, &payload, err);
    if (got == 0) {
        if (look_behind(r, &found, err) != 0) {
            return -1;
        }
        /* A writer may have completed the record, and further ones, since it was read. */
        got = found ? read_whole(r, &record, &payload, err) : 0;
        if (got == 0 && found) {
            return damaged(r->offset, err);
        }
    }
    if (got > 0) {
        take_record(r, &record, payload, out);
    }
    return got;
}

/* --- standing somewhere --- */

void store_transcript_tell(const struct store_transcript_reader *r,
                           struct store_transcript_position *out)
{
    *out = (struct store_transcript_position){
        .seq = r->seq,
        .place = r->offset,
        .stream_bytes = {r->stream_bytes[0], r->stream_bytes[1]},
        .marker = r->marker,
    };
}

int store_transcript_open_at(const struct store_transcript_name *name,
                             const struct store_transcript_position *position,
                             struct store_transcript_reader **out, struct error *err)
{
    if (store_transcript_open(name, out, err) != 0) {
        return -1;
    }
    (*out)->have_marker = position->place > 0;
    (*out)->marker = position->marker;
    (*out)->offset = position->place;
    (*out)->seq = position->seq;
    (*out)->stream_bytes[0] = position->stream_bytes[0];
    (*out)->stream_bytes[1] = position->stream_bytes[1];
    return 0;
}

static bool is_buffered(const struct store_transcript_reader *r, size_t need)
{
    return r->data != NULL && r->offset + (int64_t)need <= r->data_offset + (int64_t)r->len;
}

/* As fill, for a head; `lone`: without what follows it. */
static int fill_head(struct store_transcript_reader *r, bool lone, char own[TRANSCRIPT_RECORD_SIZE],
                     const char **at, struct error *err)
{
    ssize_t n;

    if (!lone || is_buffered(r, TRANSCRIPT_RECORD_SIZE)) {
        return fill(r, TRANSCRIPT_RECORD_SIZE, at, err);
    }
    n = transcript_pread(r->fd, own, TRANSCRIPT_RECORD_SIZE, r->offset);
    if (n < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot read a transcript at %" PRId64,
                               r->offset);
    }
    *at = own;
    return n == TRANSCRIPT_RECORD_SIZE ? 1 : 0;
}

/* 1 with the head of the record at the offset, which is wholly there as far as the file's size
 * tells; 0 when it is not; -1. In `record` is the one before it, if any. */
static int read_head(struct store_transcript_reader *r, struct transcript_record *record,
                     int64_t *size, struct error *err)
{
    char own[TRANSCRIPT_RECORD_SIZE];
    const char *at;
    struct stat st;
    int got = fill_head(r, record->len >= LONE_HEAD, own, &at, err);

    if (got > 0) {
        got = transcript_record_read(r->marker, (const unsigned char *)at, record);
    }
    if (got > 0 && r->offset + TRANSCRIPT_RECORD_SIZE + (int64_t)record->len > *size) {
        if (fstat(r->fd, &st) != 0) {
            return error_set_errno(err, ERROR_INTERNAL, errno, "cannot look at a transcript");
        }
        *size = st.st_size;
        got = r->offset + TRANSCRIPT_RECORD_SIZE + (int64_t)record->len <= *size;
    }
    if (got == 0) {
        drop_buffer(r);
    }
    return got;
}

/* 0 at the end of what is whole, -1 when it is an end that damage made. */
static int skip_end(struct store_transcript_reader *r, struct error *err)
{
    struct transcript_record record;
    const char *payload;
    bool found = false;

    if (look_behind(r, &found, err) != 0) {
        return -1;
    }
    if (found) {
        int got = read_whole(r, &record, &payload, err);

        return got == 0 ? damaged(r->offset, err) : got;
    }
    return 0;
}

int store_transcript_skip(struct store_transcript_reader *r, store_transcript_until until,
                          void *ctx, struct error *err)
{
    struct transcript_record record = {0};
    struct store_record head;
    int64_t size = 0;
    int got = read_header(r, err);

    if (got <= 0) {
        return got;
    }
    for (;;) {
        struct store_transcript_position before;

        got = read_head(r, &record, &size, err);
        if (got == 0) {
            got = skip_end(r, err);
            if (got > 0) {
                continue; /* a writer went on meanwhile */
            }
        }
        if (got <= 0) {
            return got;
        }
        store_transcript_tell(r, &before);
        take_record(r, &record, NULL, &head);
        if (until(ctx, &head)) {
            r->seq = before.seq;
            r->offset = before.place;
            r->stream_bytes[0] = before.stream_bytes[0];
            r->stream_bytes[1] = before.stream_bytes[1];
            return 1;
        }
    }
}

/* --- the first bytes --- */

int64_t store_transcript_file_size(const struct store_transcript_name *name)
{
    struct error ignored = ERROR_INIT;
    _cleanup_free_ char *path = transcript_path(name, &ignored);
    struct stat st;

    return path != NULL && stat(path, &st) == 0 ? st.st_size : 0;
}

static int add_within(struct buf *b, const struct store_record *record, struct error *err)
{
    size_t room = b->max - b->len;
    size_t len = record->len < room ? record->len : room;

    if (len > 0 && buf_add(b, record->data, len) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

struct wanted {
    const struct buf *out;
    const struct buf *errout;
    bool all;
};

/* What is beyond a full buffer is not read at all. */
static bool is_wanted(void *ctx, const struct store_record *head)
{
    const struct wanted *w = ctx;

    switch (head->kind) {
    case STORE_RECORD_STDOUT: return w->all || w->out->len < w->out->max;
    case STORE_RECORD_STDERR: return w->all || w->errout->len < w->errout->max;
    default: return w->all || head->kind == STORE_RECORD_EXIT;
    }
}

/* Without buffers every record is read, and damage found. */
static int collect(struct store_transcript_reader *r, struct buf *out, struct buf *errout,
                   struct store_transcript_totals *totals, struct error *err)
{
    struct wanted wanted = {out, errout, out->max == 0 && errout->max == 0};
    struct store_record record;
    int got;

    while ((got = store_transcript_skip(r, is_wanted, &wanted, err)) > 0) {
        got = store_transcript_next(r, &record, err);
        if (got <= 0) {
            break;
        }
        if (record.kind == STORE_RECORD_STDOUT || record.kind == STORE_RECORD_STDERR) {
            if (add_within(record.kind == STORE_RECORD_STDOUT ? out : errout, &record, err) != 0) {
                return -1;
            }
        }
        totals->ended = totals->ended || record.kind == STORE_RECORD_EXIT;
    }
    totals->stdout_bytes = r->stream_bytes[0];
    totals->stderr_bytes = r->stream_bytes[1];
    totals->records = r->seq;
    return got;
}

int store_transcript_read_output(const struct store_transcript_name *name, struct buf *out,
                                 struct buf *errout, struct store_transcript_totals *totals,
                                 struct error *err)
{
    struct store_transcript_reader *r = NULL;
    struct store_transcript_totals sum = {0};
    int result;

    if (store_transcript_open(name, &r, err) != 0) {
        return -1;
    }
    result = collect(r, out, errout, &sum, err);
    store_transcript_reader_free(r);
    if (result == 0) {
        *totals = sum;
    }
    return result;
}
