#include "server/http/topics.h"

#include <pthread.h>
#include <string.h>

/* Names are spread over buckets so that one notify walks the waiters of few other names. */
enum { BUCKETS = 1024 };

struct bucket {
    pthread_mutex_t mutex;
    struct topic_waiter *first;
};

struct topics {
    struct bucket buckets[BUCKETS];
};

static uint64_t hash_name(const char *name)
{
    uint64_t hash = 14695981039346656037U; /* FNV-1a */

    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 1099511628211U;
    }
    return hash % BUCKETS;
}

int topics_new(struct topics **out, struct error *err)
{
    struct topics *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        pthread_mutex_init(&t->buckets[i].mutex, NULL);
    }
    *out = t;
    return 0;
}

void topics_free(struct topics *t)
{
    if (t == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        pthread_mutex_destroy(&t->buckets[i].mutex);
    }
    free(t);
}

static void unlink_waiter(struct bucket *b, struct topic_waiter *w)
{
    if (w->prev != NULL) {
        w->prev->next = w->next;
    } else {
        b->first = w->next;
    }
    if (w->next != NULL) {
        w->next->prev = w->prev;
    }
    w->listed = false;
}

void topics_join(struct topics *t, const char *name, struct topic_waiter *w)
{
    struct bucket *b;

    /* A cut name would only be woken too often or not before its deadline; names are made of ids,
     * whose lengths are bounded far below. */
    snprintf(w->name, sizeof(w->name), "%s", name);
    w->bucket = hash_name(w->name);
    b = &t->buckets[w->bucket];
    pthread_mutex_lock(&b->mutex);
    w->prev = NULL;
    w->next = b->first;
    if (w->next != NULL) {
        w->next->prev = w;
    }
    b->first = w;
    w->listed = true;
    pthread_mutex_unlock(&b->mutex);
}

bool topics_leave(struct topics *t, struct topic_waiter *w)
{
    struct bucket *b = &t->buckets[w->bucket];
    bool listed;

    pthread_mutex_lock(&b->mutex);
    listed = w->listed;
    if (listed) {
        unlink_waiter(b, w);
    }
    pthread_mutex_unlock(&b->mutex);
    return listed;
}

void topics_notify(struct topics *t, const char *name)
{
    struct bucket *b;
    struct topic_waiter key;
    struct topic_waiter *woken = NULL;
    struct topic_waiter *next;

    snprintf(key.name, sizeof(key.name), "%s", name);
    b = &t->buckets[hash_name(key.name)];
    pthread_mutex_lock(&b->mutex);
    for (struct topic_waiter *w = b->first; w != NULL; w = next) {
        next = w->next;
        if (strcmp(w->name, key.name) == 0) {
            unlink_waiter(b, w);
            w->next = woken;
            woken = w;
        }
    }
    pthread_mutex_unlock(&b->mutex);
    for (; woken != NULL; woken = next) {
        /* The waiter may be gone once it was woken. */
        next = woken->next;
        woken->wake(woken);
    }
}
