/* What the service sends to a command that runs: bytes of its standard input, kept until the
 * program takes them, and signals, which never wait behind those. */
#include "guest/guest.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

void input_init(struct input *in, int fd, int program)
{
    in->fd = fd;
    in->program = program;
    in->has_program = program >= 0;
}

static size_t input_room(const struct input *in)
{
    return GUEST_STDIN_WINDOW - in->len;
}

/* --- from the service --- */

/* -1: the service is out of step. */
static int begin_frame(struct input *in)
{
    in->left = guest_get_u32(in->head + 1);
    switch (in->head[0]) {
    case GUEST_STDIN: return in->has_program && !in->eof && in->left <= input_room(in) ? 0 : -1;
    case GUEST_STDIN_EOF:
        if (!in->has_program || in->eof || in->left != 0) {
            return -1;
        }
        in->eof = true;
        return 0;
    case GUEST_SIGNAL: return in->left == sizeof(in->signal) ? 0 : -1;
    default: return -1;
    }
}

/* Where the next bytes of the payload go, and how many may. */
static uint8_t *payload_room(struct input *in, size_t *room)
{
    if (in->head[0] == GUEST_SIGNAL) {
        *room = in->left;
        return in->signal + sizeof(in->signal) - in->left;
    }
    size_t end = (in->start + in->len) % GUEST_STDIN_WINDOW;
    size_t straight = GUEST_STDIN_WINDOW - end;
    *room = in->left < straight ? in->left : straight;
    return in->ring + end;
}

/* Bytes that the program can't take any more make room at once. */
static void take_bytes(struct input *in, size_t len)
{
    if (in->program >= 0) {
        in->len += len;
    } else {
        in->taken += (uint32_t)len;
    }
}

static int end_frame(struct input *in)
{
    in->have = 0;
    if (in->head[0] != GUEST_SIGNAL) {
        return 0;
    }
    uint32_t number = guest_get_u32(in->signal);
    return number >= 1 && number < NSIG ? (int)number : -1;
}

/* How many bytes were read; 0: nothing more now or ever. */
static size_t read_some(struct input *in, void *to, size_t room)
{
    ssize_t got = read(in->fd, to, room);
    if (got > 0) {
        return (size_t)got;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        in->fd = -1;
    }
    return 0;
}

/* 1: go on, 0: nothing more now, -1: out of step. */
static int read_head(struct input *in)
{
    size_t n = read_some(in, in->head + in->have, sizeof(in->head) - in->have);
    in->have += n;
    if (in->have == sizeof(in->head) && begin_frame(in) != 0) {
        return -1;
    }
    return n > 0;
}

static int read_payload(struct input *in)
{
    size_t room;
    uint8_t *to = payload_room(in, &room);
    size_t n = read_some(in, to, room);
    in->left -= (uint32_t)n;
    if (in->head[0] == GUEST_STDIN) {
        take_bytes(in, n);
    }
    return n > 0;
}

int input_read(struct input *in)
{
    int more = 1;
    while (more > 0 && in->fd >= 0) {
        more = in->have < sizeof(in->head) ? read_head(in) : read_payload(in);
        if (more > 0 && in->have == sizeof(in->head) && in->left == 0) {
            int signal = end_frame(in);
            if (signal != 0) {
                return signal;
            }
        }
    }
    return more;
}

/* --- to the program --- */

void input_write(struct input *in)
{
    while (in->len > 0 && in->program >= 0) {
        size_t straight = GUEST_STDIN_WINDOW - in->start;
        ssize_t n =
            write(in->program, in->ring + in->start, in->len < straight ? in->len : straight);
        if (n >= 0) {
            in->start = (in->start + (size_t)n) % GUEST_STDIN_WINDOW;
            in->len -= (size_t)n;
            in->taken += (uint32_t)n;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            /* It has closed its end: the rest is taken and dropped, so that the service is not held
             * up. */
            guest_close(&in->program);
            in->taken += (uint32_t)in->len;
            in->len = 0;
        }
    }
    if (in->eof && in->len == 0) {
        guest_close(&in->program);
    }
}

bool input_report(struct input *in, struct frame_out *out)
{
    if (in->taken < GUEST_STDIN_WINDOW / 4 || !frame_out_empty(out)) {
        return false;
    }
    guest_put_u32(frame_out_payload(out), in->taken);
    frame_out_seal(out, GUEST_STDIN_TAKEN, 4);
    in->taken = 0;
    return true;
}
