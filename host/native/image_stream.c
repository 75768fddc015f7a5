/* Bytes on their way into the store: unpacked where they are compressed, counted, and with the
 * digests of both sides. One layer of compression is taken off and no more, so that the work is
 * bounded by the bytes that come out. */
#include "host/native/images_internal.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>

enum { MAGIC_MAX = 6 };

struct native_image_stream {
    struct native_image_source_bytes source;
    struct error *err;       /* of the call under way */
    struct archive *archive; /* NULL: goes through as it is */
    struct digest *raw;
    struct digest *content;
    int64_t raw_size;
    int64_t left;
    bool failed;          /* the source has set `err` */
    bool ended;           /* of the unpacked side */
    char head[MAGIC_MAX]; /* read ahead to see what it is */
    size_t head_len;
    bool head_taken;
    const char *rest; /* of the chunk that the head came from; borrowed */
    size_t rest_len;
};

static int filter_of(const void *head, size_t len)
{
    static const struct {
        const char *magic;
        size_t len;
        int filter;
    } KNOWN[] = {
        {"\x1f\x8b", 2, ARCHIVE_FILTER_GZIP},
        {"\x28\xb5\x2f\xfd", 4, ARCHIVE_FILTER_ZSTD},
        {"\xfd"
         "7zXZ",
         6, ARCHIVE_FILTER_XZ},
        {"BZh", 3, ARCHIVE_FILTER_BZIP2},
    };

    for (size_t i = 0; i < ARRAY_SIZE(KNOWN); i++) {
        if (len >= KNOWN[i].len && memcmp(head, KNOWN[i].magic, KNOWN[i].len) == 0) {
            return KNOWN[i].filter;
        }
    }
    return ARCHIVE_FILTER_NONE;
}

bool native_image_is_packed(const void *head, size_t len)
{
    return filter_of(head, len) != ARCHIVE_FILTER_NONE;
}

/* --- the side that comes in --- */

static ssize_t read_source(struct native_image_stream *s, const void **data, struct error *err)
{
    ssize_t n = s->source.read(s->source.ctx, data, err);

    if (n > 0) {
        digest_update(s->raw, *data, (size_t)n);
        s->raw_size += n;
    }
    return n;
}

static int read_head(struct native_image_stream *s, struct error *err)
{
    while (s->head_len < sizeof(s->head)) {
        const void *data;
        ssize_t n = read_source(s, &data, err);
        size_t want = sizeof(s->head) - s->head_len;
        size_t take = n > 0 && (size_t)n < want ? (size_t)n : want;

        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            return 0;
        }
        memcpy(s->head + s->head_len, data, take);
        s->head_len += take;
        s->rest = (const char *)data + take;
        s->rest_len = (size_t)n - take;
    }
    return 0;
}

/* What was read ahead, then the source. */
static ssize_t read_raw(struct native_image_stream *s, const void **data, struct error *err)
{
    if (!s->head_taken && s->head_len > 0) {
        s->head_taken = true;
        *data = s->head;
        return (ssize_t)s->head_len;
    }
    if (s->rest_len > 0) {
        size_t len = s->rest_len;

        s->rest_len = 0;
        *data = s->rest;
        return (ssize_t)len;
    }
    return read_source(s, data, err);
}

static la_ssize_t read_for_archive(struct archive *a, void *ctx, const void **data)
{
    struct native_image_stream *s = ctx;
    ssize_t n = read_raw(s, data, s->err);

    if (n < 0) {
        s->failed = true;
        archive_set_error(a, EIO, "reading failed");
    }
    return n;
}

/* --- the side that goes out --- */

static int fault_in_archive(struct native_image_stream *s, struct error *err)
{
    const char *why = archive_error_string(s->archive);

    if (s->failed) {
        return -1;
    }
    return error_set(err, ERROR_INVALID_REQUEST, "the compressed data is broken: %.200s",
                     why != NULL ? why : "no reason given");
}

static int open_archive(struct native_image_stream *s, int filter, struct error *err)
{
    struct archive_entry *entry;

    s->archive = archive_read_new();
    if (s->archive == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    s->err = err;
    archive_read_support_format_raw(s->archive);
    if (archive_read_append_filter(s->archive, filter) != ARCHIVE_OK) {
        return fault_in_archive(s, err);
    }
    if (archive_read_open(s->archive, s, NULL, read_for_archive, NULL) != ARCHIVE_OK) {
        return fault_in_archive(s, err);
    }
    /* One that holds nothing at all is no archive. */
    return archive_read_next_header(s->archive, &entry) == ARCHIVE_OK ? 0
                                                                      : fault_in_archive(s, err);
}

int native_image_stream_open(struct native_image_source_bytes source, int64_t max,
                             struct native_image_stream **out, struct error *err)
{
    struct native_image_stream *s = calloc(1, sizeof(*s));
    int filter;

    if (s == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    s->source = source;
    s->left = max;
    s->raw = digest_new();
    s->content = digest_new();
    if (read_head(s, err) < 0) {
        native_image_stream_free(s);
        return -1;
    }
    filter = filter_of(s->head, s->head_len);
    if (filter != ARCHIVE_FILTER_NONE && open_archive(s, filter, err) < 0) {
        native_image_stream_free(s);
        return -1;
    }
    *out = s;
    return 0;
}

void native_image_stream_free(struct native_image_stream *s)
{
    if (s == NULL) {
        return;
    }
    if (s->archive != NULL) {
        archive_read_free(s->archive);
    }
    digest_free(s->raw);
    digest_free(s->content);
    free(s);
}

static ssize_t read_unpacked(struct native_image_stream *s, const void **data, struct error *err)
{
    la_int64_t offset;
    size_t len;

    if (s->archive == NULL) {
        return read_raw(s, data, err);
    }
    if (s->ended) {
        return 0;
    }
    s->err = err;
    for (;;) {
        int r = archive_read_data_block(s->archive, data, &len, &offset);

        if (r == ARCHIVE_EOF) {
            return 0;
        }
        if (r != ARCHIVE_OK) {
            return fault_in_archive(s, err);
        }
        if (len > 0) {
            return (ssize_t)len;
        }
    }
}

ssize_t native_image_stream_read(void *stream, const void **data, struct error *err)
{
    struct native_image_stream *s = stream;
    ssize_t n = read_unpacked(s, data, err);

    if (n <= 0) {
        s->ended |= n == 0;
        return n;
    }
    if (n > s->left) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "the image is larger than what may be unpacked");
    }
    s->left -= n;
    digest_update(s->content, *data, (size_t)n);
    return n;
}

int native_image_stream_finish(struct native_image_stream *s, struct native_image_stream_facts *out,
                               struct error *err)
{
    const void *data;
    ssize_t n;

    while ((n = native_image_stream_read(s, &data, err)) > 0) {
    }
    while (n == 0 && (n = read_source(s, &data, err)) > 0) {
        n = 0;
    }
    if (n < 0) {
        return -1;
    }
    digest_final(s->raw, out->raw_digest);
    digest_final(s->content, out->digest);
    out->raw_size = s->raw_size;
    return 0;
}
