#include "host/guest_load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_MAX = 4 * (GUEST_FRAME_HEADER + GUEST_FRAME_MAX), DATA_MAX = GUEST_FRAME_MAX - 8 };

struct loader {
    struct workspace_sink sink;
    struct host_guest *guest;
    bool skipping; /* the entry at hand is left out */
    size_t batch_len;
    uint8_t batch[BATCH_MAX];
};

int host_guest_load_failed(int errnum, const char *text, struct error *err)
{
    const char *reason = error_errno_text(errnum);
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
        return error_set(err, ERROR_RESOURCE_LIMIT, "the content does not fit: %s: %s", text,
                         reason);
    default:
        return error_set(err, ERROR_RUNTIME, "the workspace could not be loaded: %s: %s", text,
                         reason);
    }
}

static int flush(struct loader *l, struct error *err)
{
    if (host_guest_send(l->guest, l->batch, l->batch_len, err) != 0) {
        return -1;
    }
    l->batch_len = 0;
    return 0;
}

/* Room for a frame of `len` payload bytes, its header written; NULL with `err`. */
static uint8_t *add_frame(struct loader *l, enum guest_load_type type, size_t len,
                          struct error *err)
{
    if (l->batch_len + GUEST_FRAME_HEADER + len > BATCH_MAX && flush(l, err) != 0) {
        return NULL;
    }
    uint8_t *at = l->batch + l->batch_len;
    at[0] = (uint8_t)type;
    guest_put_u32(at + 1, (uint32_t)len);
    l->batch_len += GUEST_FRAME_HEADER + len;
    return at + GUEST_FRAME_HEADER;
}

/* --- the sink --- */

static uint8_t *put_text(uint8_t *at, const char *text, size_t len)
{
    guest_put_u32(at, (uint32_t)len);
    memcpy(at + 4, text, len);
    return at + 4 + len;
}

static int sink_begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                      struct error *err)
{
    struct loader *l = (struct loader *)sink;
    l->skipping = entry->type == WORKSPACE_SPECIAL;
    if (l->skipping) {
        return 0;
    }
    const char *target = entry->target != NULL ? entry->target : "";
    size_t path_len = strlen(entry->path);
    size_t target_len = strlen(target);
    if (path_len > WORKSPACE_PATH_MAX || target_len > WORKSPACE_PATH_MAX) {
        return error_set(err, ERROR_INVALID_REQUEST, "a path is longer than %d bytes",
                         WORKSPACE_PATH_MAX);
    }
    size_t size = GUEST_ENTRY_FIXED + 4 + path_len + 4 + target_len;
    uint8_t *at = add_frame(l, GUEST_LOAD_ENTRY, size, err);
    if (at == NULL) {
        return -1;
    }
    at[0] = (uint8_t)entry->type;
    guest_put_u32(at + 1, entry->mode & 07777);
    guest_put_i64(at + 5, entry->mtime_ns);
    guest_put_i64(at + 13, entry->type == WORKSPACE_FILE ? entry->size : 0);
    at = put_text(at + GUEST_ENTRY_FIXED, entry->path, path_len);
    (void)put_text(at, target, target_len);
    return 0;
}

static int sink_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                     struct error *err)
{
    struct loader *l = (struct loader *)sink;
    const uint8_t *from = data;
    while (len > 0 && !l->skipping) {
        size_t part = len < DATA_MAX ? len : DATA_MAX;
        uint8_t *at = add_frame(l, GUEST_LOAD_DATA, 8 + part, err);
        if (at == NULL) {
            return -1;
        }
        guest_put_i64(at, offset);
        memcpy(at + 8, from, part);
        from += part;
        offset += (int64_t)part;
        len -= part;
    }
    return 0;
}

static int sink_end(struct workspace_sink *sink, struct error *err)
{
    (void)sink;
    (void)err;
    return 0;
}

static const struct workspace_sink_ops sink_ops = {.begin = sink_begin,
                                                   .data = sink_data,
                                                   .end = sink_end};

int host_guest_load(struct host_guest *g, host_guest_feed_fn feed, void *ctx, struct error *err)
{
    _cleanup_free_ struct loader *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    l->sink.ops = &sink_ops;
    l->guest = g;
    if (feed(ctx, &l->sink, err) != 0 || add_frame(l, GUEST_LOAD_END, 0, err) == NULL ||
        flush(l, err) != 0) {
        return -1;
    }
    return host_guest_expect_done(g, err);
}
