#include "host/guest.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_SIZE = 2 * (GUEST_FRAME_HEADER + GUEST_FRAME_MAX), ERRNO_MAX = 4095 };

struct host_guest {
    struct host_guest_call call;
    struct host_guest_ends ends;
    bool ended;    /* nothing more comes */
    bool answered; /* the last frame has come */
    size_t start;
    size_t end;
    uint8_t buffer[BUFFER_SIZE];
};

int host_guest_new(const struct host_guest_call *call, const struct host_guest_ends *ends,
                   struct host_guest **out, struct error *err)
{
    struct host_guest *g = calloc(1, sizeof(*g));
    if (g == NULL) {
        ends->close(ends->ctx);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    g->call = *call;
    g->call.argv = NULL;
    g->call.handle = NULL;
    g->ends = *ends;
    *out = g;
    return 0;
}

void host_guest_free(struct host_guest *g)
{
    if (g != NULL) {
        g->ends.close(g->ends.ctx);
        free(g);
    }
}

bool host_guest_answered(const struct host_guest *g)
{
    return g->answered;
}

int host_guest_out_of_place(struct error *err)
{
    return error_set(err, ERROR_RUNTIME, "the helper inside answered out of order");
}

/* --- what comes --- */

/* The frame that has come whole, or false. */
static bool peek(const struct host_guest *g, struct host_guest_frame *frame)
{
    size_t have = g->end - g->start;
    const uint8_t *at = g->buffer + g->start;
    if (have < GUEST_FRAME_HEADER) {
        return false;
    }
    uint32_t len = guest_get_u32(at + 1);
    if (len > have - GUEST_FRAME_HEADER) {
        return false;
    }
    *frame = (struct host_guest_frame){at[0], at + GUEST_FRAME_HEADER, len};
    return true;
}

static int check_length(const struct host_guest *g, struct error *err)
{
    bool has_head = g->end - g->start >= GUEST_FRAME_HEADER;
    if (has_head && guest_get_u32(g->buffer + g->start + 1) > GUEST_FRAME_MAX) {
        return host_guest_out_of_place(err);
    }
    return 0;
}

static ssize_t read_some(struct host_guest *g, uint8_t *to, size_t len)
{
    if (g->ends.early_len == 0) {
        return read(g->ends.out, to, len);
    }
    size_t n = len < g->ends.early_len ? len : g->ends.early_len;
    memcpy(to, g->ends.early, n);
    g->ends.early = (const char *)g->ends.early + n;
    g->ends.early_len -= n;
    return (ssize_t)n;
}

static int receive_some(struct host_guest *g, struct error *err)
{
    if (g->start > 0) {
        memmove(g->buffer, g->buffer + g->start, g->end - g->start);
        g->end -= g->start;
        g->start = 0;
    }
    ssize_t n = read_some(g, g->buffer + g->end, BUFFER_SIZE - g->end);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        g->ended = true;
        return 0;
    }
    if (g->ends.unwrap != NULL) {
        n = g->ends.unwrap(g->ends.ctx, g->buffer + g->end, (size_t)n);
    }
    if (n < 0) {
        return error_set(err, ERROR_RUNTIME, "the helper's stream is broken");
    }
    g->end += (size_t)n;
    return check_length(g, err);
}

static char printable(uint8_t c)
{
    if (c >= 0x7f) {
        return '?';
    }
    return c < 0x20 ? ' ' : (char)c;
}

static int failed(struct host_guest *g, const struct host_guest_frame *frame, struct error *err)
{
    char text[256];
    g->answered = true;
    if (frame->len < 4 || guest_get_u32(frame->payload) > ERRNO_MAX) {
        return host_guest_out_of_place(err);
    }
    size_t len = frame->len - 4 < sizeof(text) - 1 ? frame->len - 4 : sizeof(text) - 1;
    for (size_t i = 0; i < len; i++) {
        text[i] = printable(frame->payload[4 + i]);
    }
    text[len] = '\0';
    return g->call.failed((int)guest_get_u32(frame->payload), text, err);
}

/* --- waiting --- */

static int wait_ready(struct host_guest *g, bool sending, struct error *err)
{
    int64_t left = g->call.deadline_mono_ms - clock_mono_ms();
    struct pollfd fds[3] = {
        {.fd = g->ended || g->end - g->start == BUFFER_SIZE ? -1 : g->ends.out, .events = POLLIN},
        {.fd = cancel_fd(g->call.cancel), .events = POLLIN},
        {.fd = sending ? g->ends.in : -1, .events = POLLOUT},
    };
    if (cancel_fired(g->call.cancel)) {
        return error_set(err, ERROR_RUNTIME, "the work inside was interrupted");
    }
    if (left <= 0) {
        return error_set(err, ERROR_TIMEOUT, "the work inside took too long");
    }
    if (g->ends.early_len > 0 && g->end - g->start < BUFFER_SIZE) {
        return receive_some(g, err);
    }
    if (poll(fds, ARRAY_SIZE(fds), left > INT32_MAX ? INT32_MAX : (int)left) < 0 &&
        errno != EINTR) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "waiting for the helper inside");
    }
    return fds[0].revents != 0 ? receive_some(g, err) : 0;
}

/* A pipe knows no flags; its broken end is the service's business, which ignores SIGPIPE. */
static ssize_t send_some(int fd, const void *data, size_t len)
{
    ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n < 0 && errno == ENOTSOCK ? write(fd, data, len) : n;
}

int host_guest_send(struct host_guest *g, const void *data, size_t len, struct error *err)
{
    const uint8_t *at = data;
    bool closed = false;
    while (len > 0) {
        struct host_guest_frame frame;
        if (peek(g, &frame)) {
            return frame.type == GUEST_FAILED ? failed(g, &frame, err)
                                              : host_guest_out_of_place(err);
        }
        if (g->ended) {
            return g->ends.over(g->ends.ctx, err);
        }
        ssize_t n = closed ? -1 : send_some(g->ends.in, at, len);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
            continue;
        }
        /* A helper that reads no more has said why, or will end: only listening is left then. */
        closed = closed || (n < 0 && errno != EAGAIN && errno != EINTR);
        if (wait_ready(g, !closed, err) != 0) {
            return -1;
        }
    }
    return 0;
}

int host_guest_receive(struct host_guest *g, struct host_guest_frame *frame, struct error *err)
{
    while (!peek(g, frame)) {
        if (g->ended) {
            return g->ends.over(g->ends.ctx, err);
        }
        if (wait_ready(g, false, err) != 0) {
            return -1;
        }
    }
    if (frame->type == GUEST_FAILED) {
        return failed(g, frame, err);
    }
    g->answered = frame->type == GUEST_DONE;
    g->start += GUEST_FRAME_HEADER + frame->len;
    return 0;
}

int host_guest_expect_done(struct host_guest *g, struct error *err)
{
    struct host_guest_frame frame = {0};
    if (host_guest_receive(g, &frame, err) != 0) {
        return -1;
    }
    return frame.type == GUEST_DONE && frame.len == 0 ? 0 : host_guest_out_of_place(err);
}
