#include "host/input.h"

#include "guest/protocol.h"
#include "host/host.h"

#include <string.h>

enum {
    FRAMES_MAX =
        (GUEST_FRAME_HEADER + 4) * HOST_INPUT_SIGNALS_MAX + 2 * GUEST_FRAME_HEADER + GUEST_FRAME_MAX
};

int host_input_init(struct host_input *in, const struct host_input_begin *begin, struct error *err)
{
    *in = (struct host_input){.window = GUEST_STDIN_WINDOW,
                              .open = begin->open,
                              .was_open = begin->open,
                              .end_due = begin->has_data && !begin->open};
    /* What the request brought may be more than what may wait later on. */
    buf_init(&in->waiting, begin->len > HOST_INPUT_MAX ? begin->len : HOST_INPUT_MAX);
    buf_init(&in->out, FRAMES_MAX);
    if (begin->len > 0 && buf_add(&in->waiting, begin->data, begin->len) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

void host_input_done(struct host_input *in)
{
    buf_done(&in->waiting);
    buf_done(&in->out);
}

static size_t waiting(const struct host_input *in)
{
    return in->waiting.len - in->start;
}

/* --- from the client --- */

int host_input_add(struct host_input *in, const void *data, size_t len, bool eof, struct error *err)
{
    if (!in->open) {
        return error_set(err, ERROR_INVALID_REQUEST, "%s",
                         in->was_open ? "the command's standard input is closed already"
                                      : "the command was started without stdinOpen");
    }
    if (!in->dropped && len > 0) {
        if (waiting(in) + len > HOST_INPUT_MAX) {
            return error_set(
                err, ERROR_OVERLOADED,
                "%zu bytes of standard input wait already for the command to read them",
                waiting(in));
        }
        buf_consume(&in->waiting, in->start);
        in->start = 0;
        if (buf_add(&in->waiting, data, len) != 0) {
            return error_set(err, ERROR_OVERLOADED, "no memory for the standard input");
        }
    }
    if (eof) {
        in->open = false;
        in->end_due = !in->dropped;
    }
    return 0;
}

int host_input_signal(struct host_input *in, int signo, struct error *err)
{
    if (in->dropped) {
        return 0;
    }
    if (in->count == HOST_INPUT_SIGNALS_MAX) {
        return error_set(err, ERROR_OVERLOADED, "%u signals wait already", in->count);
    }
    in->signals[in->count++] = (uint8_t)signo;
    return 0;
}

/* --- to the guest --- */

int host_input_taken(struct host_input *in, uint32_t len)
{
    if (len > GUEST_STDIN_WINDOW - in->window) {
        return -1;
    }
    in->window += len;
    return 0;
}

static bool frame_due(const struct host_input *in)
{
    bool bytes = waiting(in) > 0;
    return in->count > 0 || (bytes ? in->window > 0 : in->end_due);
}

bool host_input_ready(const struct host_input *in)
{
    return !in->dropped && (in->out_start < in->out.len || frame_due(in));
}

/* Whole or not at all. */
static bool add_frame(struct host_input *in, enum guest_input_type type, const void *payload,
                      size_t len)
{
    uint8_t head[GUEST_FRAME_HEADER] = {(uint8_t)type};
    guest_put_u32(head + 1, (uint32_t)len);
    if (buf_reserve(&in->out, sizeof(head) + len) == NULL ||
        buf_add(&in->out, head, sizeof(head)) != 0) {
        return false;
    }
    return len == 0 || buf_add(&in->out, payload, len) == 0;
}

static void add_signals(struct host_input *in)
{
    unsigned done = 0;
    for (; done < in->count; done++) {
        uint8_t number[4];
        guest_put_u32(number, in->signals[done]);
        if (!add_frame(in, GUEST_SIGNAL, number, sizeof(number))) {
            break;
        }
    }
    in->count -= done;
    memmove(in->signals, in->signals + done, in->count);
}

static void add_bytes(struct host_input *in)
{
    size_t len = waiting(in) < in->window ? waiting(in) : in->window;
    if (len > 0 && add_frame(in, GUEST_STDIN, in->waiting.data + in->start, len)) {
        in->start += len;
        in->window -= len;
    }
    if (waiting(in) > 0) {
        return;
    }
    if (in->start > 0) {
        buf_done(&in->waiting);
        buf_init(&in->waiting, HOST_INPUT_MAX);
        in->start = 0;
    }
    if (in->end_due && add_frame(in, GUEST_STDIN_EOF, NULL, 0)) {
        in->end_due = false;
    }
}

const void *host_input_next(struct host_input *in, size_t *len)
{
    if (in->dropped) {
        return NULL;
    }
    if (in->out_start == in->out.len) {
        buf_reset(&in->out);
        in->out_start = 0;
        add_signals(in);
        add_bytes(in);
        if (in->out.len == 0) {
            return NULL;
        }
    }
    *len = in->out.len - in->out_start;
    return in->out.data + in->out_start;
}

void host_input_sent(struct host_input *in, size_t len)
{
    in->out_start += len;
}

void host_input_drop(struct host_input *in)
{
    in->dropped = true;
    in->end_due = false;
    in->count = 0;
    in->start = 0;
    buf_reset(&in->waiting);
}
