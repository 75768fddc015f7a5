#include "ptc/frames.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { BYTE = 8, BYTE_MASK = 0xff, READ_AHEAD = 1024 * 1024 };

void ptc_frames_init(struct ptc_frames *f, int64_t max)
{
    buf_init(&f->held, (size_t)max + READ_AHEAD);
    f->at = 0;
    f->max = max;
}

void ptc_frames_done(struct ptc_frames *f)
{
    buf_done(&f->held);
}

int ptc_frames_put(struct ptc_frames *f, const char *data, size_t len)
{
    if (f->at > 0) {
        buf_consume(&f->held, f->at);
        f->at = 0;
    }
    return buf_add(&f->held, data, len);
}

int ptc_frames_next(struct ptc_frames *f, struct ptc_text *body)
{
    size_t held = f->held.len - f->at;
    if (held < PTC_FRAME_HEAD) {
        return 0;
    }
    int64_t len = 0;
    for (size_t i = 0; i < PTC_FRAME_HEAD; i++) {
        len = (len << BYTE) | (unsigned char)f->held.data[f->at + i];
    }
    if (len == 0 || len > f->max) {
        return -1;
    }
    if (held - PTC_FRAME_HEAD < (size_t)len) {
        return 0;
    }
    *body = (struct ptc_text){f->held.data + f->at + PTC_FRAME_HEAD, (size_t)len};
    f->at += PTC_FRAME_HEAD + (size_t)len;
    return 1;
}

void ptc_sending_init(struct ptc_sending *s, int64_t max)
{
    buf_init(&s->queue, (size_t)max);
    s->at = 0;
}

void ptc_sending_done(struct ptc_sending *s)
{
    buf_done(&s->queue);
}

int ptc_sending_add(struct ptc_sending *s, const struct ptc_text *pieces, size_t count)
{
    char head[PTC_FRAME_HEAD];
    size_t len = 0;
    size_t before;
    for (size_t i = 0; i < count; i++) {
        len += pieces[i].len;
    }
    buf_consume(&s->queue, s->at);
    s->at = 0;
    before = s->queue.len;
    for (size_t i = 0; i < PTC_FRAME_HEAD; i++) {
        head[i] = (char)((len >> (BYTE * (PTC_FRAME_HEAD - 1 - i))) & BYTE_MASK);
    }
    int result = buf_add(&s->queue, head, sizeof(head));
    for (size_t i = 0; i < count && result == 0; i++) {
        result = pieces[i].len == 0 ? 0 : buf_add(&s->queue, pieces[i].data, pieces[i].len);
    }
    if (result != 0) {
        s->queue.len = before;
    }
    return result;
}

bool ptc_sending_waits(const struct ptc_sending *s)
{
    return s->at < s->queue.len;
}

int ptc_sending_flush(struct ptc_sending *s, int fd)
{
    while (s->at < s->queue.len) {
        ssize_t n =
            send(fd, s->queue.data + s->at, s->queue.len - s->at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        }
        s->at += (size_t)n;
    }
    buf_done(&s->queue);
    buf_init(&s->queue, s->queue.max);
    s->at = 0;
    return 0;
}
