#include "guest/guest.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void frame_out_seal(struct frame_out *out, enum guest_frame_type type, size_t len)
{
    out->bytes[0] = (uint8_t)type;
    guest_put_u32(out->bytes + 1, (uint32_t)len);
    out->start = 0;
    out->end = GUEST_FRAME_HEADER + len;
}

int frame_out_flush(struct frame_out *out)
{
    while (!frame_out_empty(out)) {
        ssize_t n = write(STDOUT_FILENO, out->bytes + out->start, out->end - out->start);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN ? 0 : -1;
        }
        out->start += (size_t)n;
    }
    return 0;
}

int frame_out_drain(struct frame_out *out)
{
    for (;;) {
        if (frame_out_flush(out) != 0) {
            return -1;
        }
        if (frame_out_empty(out)) {
            return 0;
        }
        struct pollfd wait = {.fd = STDOUT_FILENO, .events = POLLOUT};
        if (poll(&wait, 1, -1) < 0 && errno != EINTR) {
            return -1;
        }
    }
}

bool frame_service_gone(void)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    int left;
    if (poll(&wait, 1, 0) <= 0) {
        return false;
    }
    /* Bytes that nobody asked for are not its end. */
    return (wait.revents & POLLIN) == 0 || ioctl(STDIN_FILENO, FIONREAD, &left) != 0 || left == 0;
}

int frame_out_drain_watching(struct frame_out *out)
{
    for (;;) {
        if (frame_out_flush(out) != 0 || frame_service_gone()) {
            return -1;
        }
        if (frame_out_empty(out)) {
            return 0;
        }
        struct pollfd wait[2] = {{.fd = STDOUT_FILENO, .events = POLLOUT},
                                 {.fd = STDIN_FILENO, .events = POLLIN}};
        if (poll(wait, 2, -1) < 0 && errno != EINTR) {
            return -1;
        }
    }
}

/* Like read(2) until `len` bytes are there or the stream ends. */
static ssize_t read_full(uint8_t *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = read(STDIN_FILENO, data + done, len - done);
        if (n == 0) {
            break;
        }
        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        if (errno == EAGAIN) {
            struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
            poll(&wait, 1, -1);
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return (ssize_t)done;
}

int frame_read(uint8_t *type, uint8_t *payload, size_t *len)
{
    uint8_t head[GUEST_FRAME_HEADER];
    ssize_t n = read_full(head, sizeof(head));
    if (n <= 0) {
        return (int)n;
    }
    uint32_t size = guest_get_u32(head + 1);
    if (n != sizeof(head) || size > GUEST_FRAME_MAX) {
        errno = EPROTO;
        return -1;
    }
    n = read_full(payload, size);
    if (n < 0) {
        return -1;
    }
    if ((size_t)n != size) {
        errno = EPROTO;
        return -1;
    }
    *type = head[0];
    *len = size;
    return 1;
}

int frame_failed(struct frame_out *out, int errnum, const char *text)
{
    if (frame_out_drain(out) == 0) {
        size_t len = strlen(text);
        guest_put_u32(frame_out_payload(out), (uint32_t)errnum);
        memcpy(frame_out_payload(out) + 4, text, len);
        frame_out_seal(out, GUEST_FAILED, 4 + len);
        (void)frame_out_drain(out);
    }
    return 1;
}
