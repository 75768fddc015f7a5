#include "host/docker/process_frames.h"

#include <string.h>

enum { LAST_SIGNAL = 64, NOT_EXECUTABLE = 126, NOT_FOUND = 127, EXIT_CODE_MAX = 255 };
enum { ERRNO_MAX = 4095 };

struct bytes {
    const uint8_t *at;
    size_t len;
};

void frames_init(struct frames *f, const struct frames_events *events)
{
    memset(f, 0, sizeof(*f));
    f->events = *events;
}

static int fail(struct frames *f, const char *fault)
{
    f->fault = fault;
    return -1;
}

static struct bytes take(struct bytes *in, size_t most)
{
    struct bytes taken = {in->at, in->len < most ? in->len : most};
    in->at += taken.len;
    in->len -= taken.len;
    return taken;
}

/* Copies towards `want` bytes at `to`; true once they are complete. */
static bool gather(uint8_t *to, size_t *have, size_t want, struct bytes *in)
{
    struct bytes part = take(in, want - *have);
    memcpy(to + *have, part.at, part.len);
    *have += part.len;
    return *have == want;
}

static char printable(uint8_t c)
{
    if (c >= 0x7f) {
        return '?';
    }
    return c < 0x20 ? ' ' : (char)c;
}

static void add_text(struct frames *f, struct bytes in)
{
    for (size_t i = 0; i < in.len && f->text_len < FRAMES_TEXT_MAX; i++) {
        f->text[f->text_len++] = printable(in.at[i]);
    }
    f->text[f->text_len] = '\0';
}

const char *frames_text(const struct frames *f)
{
    return f->text;
}

static bool is_frame_type(uint8_t type)
{
    return type >= GUEST_STDOUT && type <= GUEST_STDIN_TAKEN;
}

static bool is_output(uint8_t type)
{
    return type == GUEST_STDOUT || type == GUEST_STDERR;
}

static bool is_length(enum guest_frame_type type, uint32_t len)
{
    switch (type) {
    case GUEST_STDOUT:
    case GUEST_STDERR: return len <= GUEST_FRAME_MAX;
    case GUEST_STARTED:
    case GUEST_STDIN_TAKEN: return len == 4;
    case GUEST_EXIT: return len == GUEST_EXIT_SIZE;
    case GUEST_FAILED: return len >= 4 && len <= FRAMES_CONTROL_MAX;
    case GUEST_DONE: return len == 0;
    }
    return false;
}

static void end_frame(struct frames *f)
{
    enum guest_frame_type type = f->head[0];
    f->have = 0;
    if (is_output(f->head[0])) {
        return;
    }
    f->last = type != GUEST_STARTED && type != GUEST_STDIN_TAKEN;
    f->events.control(f->events.ctx, type, f->control, f->control_len);
}

static int begin_frame(struct frames *f)
{
    uint32_t len = guest_get_u32(f->head + 1);
    if (!is_frame_type(f->head[0])) {
        return fail(f, "a frame of an unknown type");
    }
    if (!is_length(f->head[0], len)) {
        return fail(f, "a frame of an impossible length");
    }
    f->seen = true;
    f->left = len;
    f->control_len = 0;
    if (len == 0) {
        end_frame(f);
    }
    return 0;
}

static void feed_payload(struct frames *f, struct bytes *in)
{
    struct bytes part = take(in, f->left);
    f->left -= (uint32_t)part.len;
    if (is_output(f->head[0])) {
        f->events.output(f->events.ctx, f->head[0], part.at, part.len);
    } else {
        memcpy(f->control + f->control_len, part.at, part.len);
        f->control_len += part.len;
    }
    if (f->left == 0) {
        end_frame(f);
    }
}

/* The guest's standard output. */
static int feed_guest(struct frames *f, struct bytes in)
{
    while (in.len > 0 && !f->last) {
        if (!f->seen && f->have == 0 && !is_frame_type(in.at[0])) {
            f->text_only = true;
        }
        if (f->text_only) {
            add_text(f, in);
            return 0;
        }
        if (f->have == GUEST_FRAME_HEADER) {
            feed_payload(f, &in);
        } else if (gather(f->head, &f->have, GUEST_FRAME_HEADER, &in) && begin_frame(f) != 0) {
            return -1;
        }
    }
    return 0;
}

/* An engine that fails before it multiplexes writes its words as they are. */
static int begin_mux(struct frames *f)
{
    bool sound = f->mux_head[0] <= 2 && memcmp(f->mux_head + 1, "\0\0\0", 3) == 0;
    if (sound) {
        f->mux_seen = true;
        f->mux_left = guest_get_u32(f->mux_head + 4);
        if (f->mux_left == 0) {
            f->mux_have = 0;
        }
        return 0;
    }
    if (f->mux_seen) {
        return fail(f, "an engine stream out of step");
    }
    f->text_only = true;
    add_text(f, (struct bytes){f->mux_head, FRAMES_MUX_HEADER});
    return 0;
}

static int feed_mux(struct frames *f, struct bytes *in)
{
    struct bytes part = take(in, f->mux_left);
    f->mux_left -= (uint32_t)part.len;
    if (f->mux_left == 0) {
        f->mux_have = 0;
    }
    if (f->mux_head[0] == 1) {
        return feed_guest(f, part);
    }
    add_text(f, part);
    return 0;
}

int frames_feed(struct frames *f, const void *data, size_t len)
{
    struct bytes in = {data, len};
    while (in.len > 0 && f->fault == NULL && !f->last) {
        if (f->text_only && !f->mux_seen) {
            add_text(f, in);
            break;
        }
        if (f->mux_have == FRAMES_MUX_HEADER) {
            (void)!feed_mux(f, &in);
        } else if (gather(f->mux_head, &f->mux_have, FRAMES_MUX_HEADER, &in)) {
            (void)!begin_mux(f);
        }
    }
    return f->fault == NULL ? 0 : -1;
}

int frames_decode_exit(const uint8_t payload[GUEST_EXIT_SIZE], struct guest_exit *out)
{
    struct guest_exit e = {
        .flags = guest_get_u32(payload),
        .status = guest_get_u32(payload + 4),
        .errnum = guest_get_u32(payload + 8),
        .cpu_ms = guest_get_i64(payload + 12),
        .max_rss_bytes = guest_get_i64(payload + 20),
        .execution_cpu_ms = guest_get_i64(payload + 28),
        .execution_memory_peak_bytes = guest_get_i64(payload + 36),
        .execution_pids_peak = guest_get_i64(payload + 44),
        .execution_workspace_bytes = guest_get_i64(payload + 52),
    };
    bool sound = e.cpu_ms >= -1 && e.max_rss_bytes >= -1 && e.execution_cpu_ms >= -1 &&
                 e.execution_memory_peak_bytes >= -1 && e.execution_pids_peak >= -1 &&
                 e.execution_workspace_bytes >= -1 && e.errnum <= ERRNO_MAX;
    if (e.flags & GUEST_EXIT_NOT_STARTED) {
        sound = sound && (e.status == NOT_EXECUTABLE || e.status == NOT_FOUND);
    } else if (e.flags & GUEST_EXIT_SIGNALED) {
        sound = sound && e.status >= 1 && e.status <= LAST_SIGNAL;
    } else {
        sound = sound && e.status <= EXIT_CODE_MAX;
    }
    if (!sound) {
        return -1;
    }
    *out = e;
    return 0;
}

int frames_decode_failed(const uint8_t *payload, size_t len, char *text, size_t size)
{
    size_t n = len - 4 < size - 1 ? len - 4 : size - 1;
    for (size_t i = 0; i < n; i++) {
        text[i] = printable(payload[4 + i]);
    }
    text[n] = '\0';
    uint32_t errnum = guest_get_u32(payload);
    return errnum <= ERRNO_MAX ? (int)errnum : 0;
}
