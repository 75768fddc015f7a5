#include "store/objects/internal.h"

#include <errno.h>
#include <string.h>

enum { RANGE_BYTES = 16 * 1024 * 1024, THREADS_MAX = 16, READ_SIZE = 256 * 1024 };

/* A file being fetched, by several threads a range each. */
struct download {
    struct objects *o;
    const char *key;
    const struct objects_target *target;
    const struct objects_watch *watch;
    struct digest *digest; /* of the ranges before `hashed` */
    pthread_mutex_t lock;
    int64_t next;   /* [lock] where the next range begins */
    bool *here;     /* [lock] the ranges that have been fetched */
    int64_t hashed; /* [lock] ranges */
    bool hashing;   /* [lock] a thread does it now */
    bool failed;    /* [lock] */
    struct error error;
};

struct range {
    struct download *download;
    int64_t first;
    int64_t count;
    int64_t got; /* of the attempt under way */
};

static int changed(const struct download *d, struct error *err)
{
    return error_set(err, ERROR_CHECKPOINT_INVALID,
                     "the %s in the shared store does not have the %lld bytes that its manifest "
                     "says: it is truncated or another",
                     d->target->name, (long long)d->target->size);
}

static int take(void *ctx, int64_t at, const void *data, size_t len, struct error *err)
{
    struct range *r = ctx;
    const char *from = data;

    if (at + (int64_t)len > r->count) {
        return changed(r->download, err);
    }
    r->got = at + (int64_t)len;
    while (len > 0) {
        ssize_t n = pwrite(r->download->target->fd, from, len, r->first + at);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, ERROR_INTERNAL, n < 0 ? errno : EIO,
                                   "cannot write what is being fetched");
        }
        from += n;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int fetch(struct range *r, struct error *err)
{
    struct download *d = r->download;
    const struct objects_request request = {
        OBJECTS_OPERATION("range"), .method = METHOD_GET, .key = d->key, .first = r->first,
        .count = r->count,          .sink = take,         .sink_ctx = r, .watch = d->watch,
    };
    _cleanup_response_ struct objects_response response;

    if (objects_perform(d->o, &request, &response, err) != 0) {
        return -1;
    }
    if (response.status == 404 || response.status == 416) {
        return changed(d, err);
    }
    if (!objects_succeeded(&response)) {
        return objects_refused(d->o, &request, &response, err);
    }
    /* A store that knows no ranges answers 200 with all of it. */
    if (r->got != r->count || (response.status != 206 && r->count != d->target->size)) {
        return changed(d, err);
    }
    objects_moved(d->watch, r->count);
    return 0;
}

static bool claim(struct download *d, struct range *r)
{
    pthread_mutex_lock(&d->lock);
    bool some = !d->failed && d->next < d->target->size;

    if (some) {
        int64_t left = d->target->size - d->next;

        *r = (struct range){d, d->next, left < RANGE_BYTES ? left : RANGE_BYTES, 0};
        d->next += r->count;
    }
    pthread_mutex_unlock(&d->lock);
    return some;
}

/* --- what it is --- */

static int64_t range_count(const struct download *d)
{
    return (d->target->size + RANGE_BYTES - 1) / RANGE_BYTES;
}

static int hash_range(struct download *d, int64_t index, struct error *err)
{
    _cleanup_free_ char *data = malloc(READ_SIZE);
    int64_t at = index * RANGE_BYTES;
    int64_t left = d->target->size - at;

    if (data == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    for (left = left < RANGE_BYTES ? left : RANGE_BYTES; left > 0;) {
        ssize_t n = pread(d->target->fd, data, left < READ_SIZE ? (size_t)left : READ_SIZE, at);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, ERROR_INTERNAL, n < 0 ? errno : EIO,
                                   "cannot read what was fetched");
        }
        digest_update(d->digest, data, (size_t)n);
        at += n;
        left -= n;
    }
    return 0;
}

/* Bytes count in their order, ranges arrive in any: who brings the one that is waited for hashes
 * all that follow without a gap, while the others go on fetching. */
static int arrived(struct download *d, const struct range *r, struct error *err)
{
    int result = 0;

    pthread_mutex_lock(&d->lock);
    d->here[r->first / RANGE_BYTES] = true;
    if (d->hashing) {
        pthread_mutex_unlock(&d->lock);
        return 0;
    }
    d->hashing = true;
    while (result == 0 && d->hashed < range_count(d) && d->here[d->hashed]) {
        int64_t index = d->hashed;

        pthread_mutex_unlock(&d->lock);
        result = hash_range(d, index, err);
        pthread_mutex_lock(&d->lock);
        d->hashed++;
    }
    d->hashing = false;
    pthread_mutex_unlock(&d->lock);
    return result;
}

static int check_digest(struct download *d, struct error *err)
{
    char text[DIGEST_TEXT_SIZE];

    digest_final(d->digest, text);
    if (strcmp(text, d->target->digest) != 0) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "%s: its digest is %s, the manifest says %s", d->target->name, text,
                         d->target->digest);
    }
    return 0;
}

/* --- the threads --- */

static void *run(void *arg)
{
    struct download *d = arg;
    struct range r;

    while (claim(d, &r)) {
        struct error err = ERROR_INIT;

        if (fetch(&r, &err) != 0 || arrived(d, &r, &err) != 0) {
            pthread_mutex_lock(&d->lock);
            if (!d->failed) {
                d->error = err;
            }
            d->failed = true;
            pthread_mutex_unlock(&d->lock);
        }
    }
    return NULL;
}

static void fetch_all(struct download *d)
{
    pthread_t threads[THREADS_MAX];
    unsigned count = 0;

    while (count + 1 < d->o->parallel && count < THREADS_MAX && count + 1 < range_count(d) &&
           pthread_create(&threads[count], NULL, run, d) == 0) {
        count++;
    }
    run(d); /* this thread is one of them, and enough */
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
}

int objects_get_file(struct objects *o, const char *key, const struct objects_target *target,
                     const struct objects_watch *watch, struct error *err)
{
    struct download d = {
        .o = o, .key = key, .target = target, .watch = objects_watch_or_none(watch)};
    int result = -1;

    d.here = calloc((size_t)range_count(&d) + 1, sizeof(*d.here));
    if (d.here == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    d.digest = digest_new();
    pthread_mutex_init(&d.lock, NULL);
    fetch_all(&d);
    pthread_mutex_destroy(&d.lock);
    if (d.failed) {
        *err = d.error;
    } else {
        result = check_digest(&d, err);
    }
    digest_free(d.digest);
    free(d.here);
    return result;
}
