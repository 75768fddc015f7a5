#include "workspace/stream.h"

#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

enum {
    OUTPUT_BUFFER = 256 * 1024,
    INPUT_BUFFER = 256 * 1024,
    PLAIN_BUFFER = 512 * 1024,
    WORKERS = 2,
    /* What level 19 uses; a stream that asks for more memory is not ours. */
    WINDOW_LOG_MAX = 23,
};

struct workspace_output {
    int fd;
    ZSTD_CCtx *zstd; /* NULL: plain */
    struct digest *digest;
    int64_t stored;
    size_t used; /* of `buffer`, when plain */
    unsigned char buffer[OUTPUT_BUFFER];
};

static int output_set_up_zstd(struct workspace_output *o, int level, struct error *err)
{
    o->zstd = ZSTD_createCCtx();
    if (o->zstd == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    size_t r = ZSTD_CCtx_setParameter(o->zstd, ZSTD_c_compressionLevel, level);
    if (!ZSTD_isError(r)) {
        r = ZSTD_CCtx_setParameter(o->zstd, ZSTD_c_checksumFlag, 1);
    }
    if (ZSTD_isError(r)) {
        return error_set(err, ERROR_INTERNAL, "zstd: %s", ZSTD_getErrorName(r));
    }
    /* A library without threads refuses this and compresses in ours. */
    (void)ZSTD_CCtx_setParameter(o->zstd, ZSTD_c_nbWorkers, WORKERS);
    return 0;
}

int workspace_output_new(int fd, enum workspace_compression compression, int level,
                         struct workspace_output **out, struct error *err)
{
    struct workspace_output *o = malloc(sizeof(*o));
    if (o == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    o->fd = fd;
    o->zstd = NULL;
    o->digest = digest_new();
    o->stored = 0;
    o->used = 0;
    if (compression == WORKSPACE_COMPRESSION_ZSTD && output_set_up_zstd(o, level, err) != 0) {
        workspace_output_free(o);
        return -1;
    }
    *out = o;
    return 0;
}

static int output_store(struct workspace_output *o, const void *data, size_t len, struct error *err)
{
    digest_update(o->digest, data, len);
    o->stored += (int64_t)len;
    return file_write_all(o->fd, data, len, err);
}

static int output_compress(struct workspace_output *o, const void *data, size_t len,
                           ZSTD_EndDirective mode, struct error *err)
{
    ZSTD_inBuffer in = {data, len, 0};
    for (;;) {
        ZSTD_outBuffer to = {o->buffer, sizeof(o->buffer), 0};
        size_t left = ZSTD_compressStream2(o->zstd, &to, &in, mode);
        if (ZSTD_isError(left)) {
            return error_set(err, ERROR_INTERNAL, "zstd: %s", ZSTD_getErrorName(left));
        }
        if (to.pos > 0 && output_store(o, o->buffer, to.pos, err) != 0) {
            return -1;
        }
        if (mode == ZSTD_e_end ? left == 0 : in.pos == in.size) {
            return 0;
        }
    }
}

static int output_flush_plain(struct workspace_output *o, struct error *err)
{
    size_t used = o->used;
    o->used = 0;
    return used > 0 ? output_store(o, o->buffer, used, err) : 0;
}

int workspace_output_write(struct workspace_output *o, const void *data, size_t len,
                           struct error *err)
{
    if (o->zstd != NULL) {
        return output_compress(o, data, len, ZSTD_e_continue, err);
    }
    if (o->used + len > sizeof(o->buffer) && output_flush_plain(o, err) != 0) {
        return -1;
    }
    if (len >= sizeof(o->buffer)) {
        return output_store(o, data, len, err);
    }
    memcpy(o->buffer + o->used, data, len);
    o->used += len;
    return 0;
}

int workspace_output_finish(struct workspace_output *o, char digest[DIGEST_TEXT_SIZE],
                            int64_t *stored, struct error *err)
{
    int r =
        o->zstd != NULL ? output_compress(o, NULL, 0, ZSTD_e_end, err) : output_flush_plain(o, err);
    if (r != 0) {
        return -1;
    }
    digest_final(o->digest, digest);
    *stored = o->stored;
    return 0;
}

void workspace_output_free(struct workspace_output *o)
{
    if (o != NULL) {
        ZSTD_freeCCtx(o->zstd);
        digest_free(o->digest);
        free(o);
    }
}

struct workspace_input {
    int fd;
    const char *name;
    ZSTD_DCtx *zstd; /* NULL: plain */
    struct digest *digest;
    int64_t stored;
    bool ended;      /* no stored bytes are left */
    bool frame_done; /* the last frame is complete */
    bool pending;    /* the decoder may hold output for which there was no room */
    ZSTD_inBuffer in;
    unsigned char raw[INPUT_BUFFER];
    unsigned char plain[PLAIN_BUFFER];
};

int workspace_input_new(int fd, enum workspace_compression compression, const char *name,
                        struct workspace_input **out, struct error *err)
{
    struct workspace_input *i = malloc(sizeof(*i));
    if (i == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    i->fd = fd;
    i->name = name;
    i->zstd = NULL;
    i->digest = digest_new();
    i->stored = 0;
    i->ended = false;
    i->frame_done = false;
    i->pending = false;
    i->in = (ZSTD_inBuffer){i->raw, 0, 0};
    if (compression == WORKSPACE_COMPRESSION_ZSTD) {
        i->zstd = ZSTD_createDCtx();
        if (i->zstd == NULL ||
            ZSTD_isError(ZSTD_DCtx_setParameter(i->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
            workspace_input_free(i);
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
    }
    *out = i;
    return 0;
}

/* The next stored bytes into `raw`; 0 at the end. */
static ssize_t input_fill(struct workspace_input *i, struct error *err)
{
    ssize_t n;
    do {
        n = pread(i->fd, i->raw, sizeof(i->raw), i->stored);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "reading the %s", i->name);
    }
    if (n > 0) {
        digest_update(i->digest, i->raw, (size_t)n);
    }
    i->stored += n;
    i->ended = n == 0;
    return n;
}

static int input_refill(struct workspace_input *i, struct error *err)
{
    if (i->ended || i->pending || i->in.pos < i->in.size) {
        return 0;
    }
    ssize_t n = input_fill(i, err);
    if (n < 0) {
        return -1;
    }
    i->in = (ZSTD_inBuffer){i->raw, (size_t)n, 0};
    return 0;
}

static ssize_t input_decompress(struct workspace_input *i, const void **data, struct error *err)
{
    for (;;) {
        if (input_refill(i, err) != 0) {
            return -1;
        }
        if (i->ended) {
            break;
        }
        if (i->frame_done) {
            return error_set(err, ERROR_CHECKPOINT_INVALID, "bytes behind the end of the %s",
                             i->name);
        }
        ZSTD_outBuffer to = {i->plain, sizeof(i->plain), 0};
        size_t left = ZSTD_decompressStream(i->zstd, &to, &i->in);
        if (ZSTD_isError(left)) {
            return error_set(err, ERROR_CHECKPOINT_INVALID, "the %s is no sound zstd stream: %s",
                             i->name, ZSTD_getErrorName(left));
        }
        i->frame_done = left == 0;
        i->pending = to.pos == to.size && left != 0;
        if (to.pos > 0) {
            *data = i->plain;
            return (ssize_t)to.pos;
        }
    }
    if (!i->frame_done) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the %s is cut short", i->name);
    }
    return 0;
}

ssize_t workspace_input_read(struct workspace_input *i, const void **data, struct error *err)
{
    if (i->zstd != NULL) {
        return input_decompress(i, data, err);
    }
    *data = i->raw;
    return i->ended ? 0 : input_fill(i, err);
}

void workspace_input_finish(struct workspace_input *i, char digest[DIGEST_TEXT_SIZE],
                            int64_t *stored)
{
    digest_final(i->digest, digest);
    *stored = i->stored;
}

void workspace_input_free(struct workspace_input *i)
{
    if (i != NULL) {
        ZSTD_freeDCtx(i->zstd);
        digest_free(i->digest);
        free(i);
    }
}
