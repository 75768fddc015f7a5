#include "store/readers.h"

#include <pthread.h>

enum { BUCKETS = 256 };

LIST_HEAD(bucket, store_reader);

struct store_readers {
    pthread_mutex_t lock;
    struct bucket buckets[BUCKETS];
};

int store_readers_new(struct store_readers **out, struct error *err)
{
    struct store_readers *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&r->lock, NULL);
    *out = r;
    return 0;
}

void store_readers_free(struct store_readers *r)
{
    if (r != NULL) {
        pthread_mutex_destroy(&r->lock);
        free(r);
    }
}

/* Enters unless there is somebody of the other kind. */
static bool enter(struct store_readers *r, struct store_reader *reader, int64_t execution_row,
                  bool removes)
{
    struct bucket *bucket = &r->buckets[(uint64_t)execution_row % BUCKETS];
    const struct store_reader *other;
    bool barred = false;

    pthread_mutex_lock(&r->lock);
    LIST_FOREACH(other, bucket, entry)
    {
        barred |= other->execution_row == execution_row && other->removes != removes;
    }
    if (!barred) {
        *reader =
            (struct store_reader){.in = r, .execution_row = execution_row, .removes = removes};
        LIST_INSERT_HEAD(bucket, reader, entry);
    }
    pthread_mutex_unlock(&r->lock);
    return !barred;
}

bool store_reader_begin(struct store_readers *readers, struct store_reader *reader,
                        int64_t execution_row)
{
    *reader = (struct store_reader){.in = NULL};
    return readers == NULL || enter(readers, reader, execution_row, false);
}

void store_reader_end(struct store_reader *reader)
{
    struct store_readers *r = reader->in;

    if (r != NULL) {
        pthread_mutex_lock(&r->lock);
        LIST_REMOVE(reader, entry);
        pthread_mutex_unlock(&r->lock);
        reader->in = NULL;
    }
}

bool store_removal_begin(struct store_readers *readers, struct store_reader *remover,
                         int64_t execution_row)
{
    *remover = (struct store_reader){.in = NULL};
    return enter(readers, remover, execution_row, true);
}
