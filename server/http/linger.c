#include "server/http/linger.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

enum { LINGER_MAX = 128, LINGER_MS = 2000, TICK_MS = 10, READ_SIZE = 65536, READS_A_TICK = 32 };

struct lingering {
    int fd;
    int64_t until_mono_ms;
};

struct lingerers {
    struct timers *timers;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    struct lingering items[LINGER_MAX];
    unsigned count;
    bool ticking; /* a timer is set or runs */
    bool stopping;
    char scratch[READ_SIZE]; /* of the timer thread */
};

int linger_new(struct timers *timers, struct lingerers **out, struct error *err)
{
    struct lingerers *l = calloc(1, sizeof(*l));

    if (l == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    l->timers = timers;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->idle, NULL);
    *out = l;
    return 0;
}

static void remove_item(struct lingerers *l, unsigned i)
{
    close(l->items[i].fd);
    l->items[i] = l->items[--l->count];
}

/* True when the peer has ended or gone. */
static bool discard_input(struct lingerers *l, int fd)
{
    for (int i = 0; i < READS_A_TICK; i++) {
        ssize_t n = recv(fd, l->scratch, sizeof(l->scratch), MSG_DONTWAIT);

        if (n == 0) {
            return true;
        }
        if (n < 0) {
            return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
        }
    }
    return false;
}

static void tick(void *arg)
{
    struct lingerers *l = arg;
    int64_t now = clock_mono_ms();

    pthread_mutex_lock(&l->lock);
    for (unsigned i = 0; i < l->count;) {
        if (l->stopping || now >= l->items[i].until_mono_ms || discard_input(l, l->items[i].fd)) {
            remove_item(l, i);
        } else {
            i++;
        }
    }
    if (l->count > 0) {
        (void)timers_add(l->timers, now + TICK_MS, tick, l);
    } else {
        l->ticking = false;
        pthread_cond_broadcast(&l->idle);
    }
    pthread_mutex_unlock(&l->lock);
}

void linger_free(struct lingerers *l)
{
    if (l == NULL) {
        return;
    }
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    while (l->ticking) {
        pthread_cond_wait(&l->idle, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    pthread_cond_destroy(&l->idle);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void linger_add(struct lingerers *l, int fd)
{
    int64_t now = clock_mono_ms();

    pthread_mutex_lock(&l->lock);
    if (l->count == LINGER_MAX) {
        remove_item(l, 0);
    }
    l->items[l->count++] = (struct lingering){.fd = fd, .until_mono_ms = now + LINGER_MS};
    if (!l->ticking) {
        l->ticking = true;
        (void)timers_add(l->timers, now + TICK_MS, tick, l);
    }
    pthread_mutex_unlock(&l->lock);
}
