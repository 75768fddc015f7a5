#include "base/digest_pair.h"

#include <pthread.h>
#include <stdint.h>

enum { BUFFERS = 4 };

struct digest_pair {
    struct digest *part;  /* owned; the caller's thread's */
    struct digest *whole; /* owned; the other thread's until it is joined */
    unsigned char (*buffers)[DIGEST_PAIR_BUFFER];
    size_t lens[BUFFERS];
    pthread_t thread;
    bool has_thread; /* false: there could be none, the caller's does both */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t filled; /* [lock] buffers, ever; at most BUFFERS more than `hashed` */
    uint64_t hashed; /* [lock] of them by `whole` */
    bool over;       /* [lock] nothing more will be filled */
};

static void hash_whole(struct digest_pair *p, uint64_t index)
{
    digest_update(p->whole, p->buffers[index % BUFFERS], p->lens[index % BUFFERS]);
}

/* False once all is hashed that will ever be there. */
static bool await_filled(struct digest_pair *p, uint64_t index)
{
    pthread_mutex_lock(&p->lock);
    p->hashed = index;
    pthread_cond_signal(&p->changed);
    while (p->filled == index && !p->over) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    bool some = p->filled > index;
    pthread_mutex_unlock(&p->lock);
    return some;
}

static void *hash_behind(void *arg)
{
    struct digest_pair *p = arg;

    for (uint64_t index = 0; await_filled(p, index); index++) {
        hash_whole(p, index);
    }
    return NULL;
}

static void stop(struct digest_pair *p)
{
    if (p->has_thread) {
        pthread_mutex_lock(&p->lock);
        p->over = true;
        pthread_cond_signal(&p->changed);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
        p->has_thread = false;
    }
}

struct digest_pair *digest_pair_new(void)
{
    struct digest_pair *p = calloc(1, sizeof(*p));

    if (p == NULL) {
        abort();
    }
    p->buffers = malloc(BUFFERS * sizeof(*p->buffers));
    if (p->buffers == NULL) {
        abort();
    }
    p->part = digest_new();
    p->whole = digest_new();
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->has_thread = pthread_create(&p->thread, NULL, hash_behind, p) == 0;
    return p;
}

void digest_pair_free(struct digest_pair *p)
{
    if (p == NULL) {
        return;
    }
    stop(p);
    digest_free(p->part);
    digest_free(p->whole);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p->buffers);
    free(p);
}

void *digest_pair_buffer(struct digest_pair *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->has_thread && p->filled - p->hashed == BUFFERS) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    void *buffer = p->buffers[p->filled % BUFFERS];
    pthread_mutex_unlock(&p->lock);
    return buffer;
}

void digest_pair_took(struct digest_pair *p, size_t len)
{
    pthread_mutex_lock(&p->lock);
    uint64_t index = p->filled;
    p->lens[index % BUFFERS] = len;
    p->filled++;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    digest_update(p->part, p->buffers[index % BUFFERS], len);
    if (!p->has_thread) {
        hash_whole(p, index);
    }
}

void digest_pair_part(struct digest_pair *p, char out[DIGEST_TEXT_SIZE])
{
    digest_final(p->part, out);
    digest_free(p->part);
    p->part = digest_new();
}

void digest_pair_whole(struct digest_pair *p, char out[DIGEST_TEXT_SIZE])
{
    stop(p);
    digest_final(p->whole, out);
}
