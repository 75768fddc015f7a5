#include "base/cancel.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>

struct cancel {
    atomic_uint refs;
    atomic_bool fired;
    int fd;
};

int cancel_new(struct cancel **out, struct error *err)
{
    struct cancel *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    atomic_init(&c->refs, 1);
    atomic_init(&c->fired, false);
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->fd < 0) {
        int errnum = errno;

        free(c);
        return error_set_errno(err, ERROR_INTERNAL, errnum, "eventfd");
    }
    *out = c;
    return 0;
}

struct cancel *cancel_ref(struct cancel *c)
{
    if (c != NULL) {
        atomic_fetch_add(&c->refs, 1);
    }
    return c;
}

void cancel_unref(struct cancel *c)
{
    if (c != NULL && atomic_fetch_sub(&c->refs, 1) == 1) {
        close(c->fd);
        free(c);
    }
}

void cancel_fire(struct cancel *c)
{
    uint64_t one = 1;
    ssize_t n;

    if (c == NULL || atomic_exchange(&c->fired, true)) {
        return;
    }
    do {
        n = write(c->fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
}

bool cancel_fired(const struct cancel *c)
{
    return c != NULL && atomic_load(&c->fired);
}

int cancel_fd(const struct cancel *c)
{
    return c == NULL ? -1 : c->fd;
}
