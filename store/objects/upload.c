#include "base/digest_pair.h"
#include "store/objects/internal.h"

#include <errno.h>
#include <string.h>

enum {
    READ_SIZE = DIGEST_PAIR_BUFFER,
    PARTS_MAX = 10000,
    THREADS_MAX = 16,
    RESTARTS_MAX = 5,
    QUERY_MAX = 4 * 1024,
    PART_TEXT_MAX = 512,
};

/* --- what is being sent --- */

/* Some of the `len` bytes at `offset`, all of which have to be there; how many, or -1. */
static ssize_t read_some(const struct objects_source *s, int64_t offset, int64_t len, void *data,
                         struct error *err)
{
    ssize_t n;

    do {
        n = pread(s->fd, data, len < READ_SIZE ? (size_t)len : READ_SIZE, offset);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot read the %s", s->name);
    }
    if (n == 0) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the %s is shorter than %lld bytes",
                         s->name, (long long)s->size);
    }
    return n;
}

static void to_hex(const char text[DIGEST_TEXT_SIZE], char sha256[SHA256_HEX_SIZE])
{
    memcpy(sha256, text + strlen("sha256:"), SHA256_HEX_SIZE);
}

static int check_whole(const struct objects_source *s, const char *text, struct error *err)
{
    if (strcmp(text, s->digest) != 0) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "%s: its digest is %s, it should be %s",
                         s->name, text, s->digest);
    }
    return 0;
}

/* --- in one piece --- */

static int hash_whole(const struct objects_source *s, char out[DIGEST_TEXT_SIZE], struct error *err)
{
    _cleanup_free_ char *data = malloc(READ_SIZE);
    struct digest *whole = digest_new();
    int result = data != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");

    for (int64_t at = 0; result == 0 && at < s->size;) {
        ssize_t n = read_some(s, at, s->size - at, data, err);

        if (n < 0) {
            result = -1;
        } else {
            digest_update(whole, data, (size_t)n);
            at += n;
        }
    }
    digest_final(whole, out);
    digest_free(whole);
    return result;
}

static int put_whole(struct objects *o, const char *key, const struct objects_source *s,
                     const struct objects_watch *watch, struct error *err)
{
    char sha256[SHA256_HEX_SIZE];
    const struct objects_request request = {
        OBJECTS_OPERATION("blob"), .method = METHOD_PUT, .key = key, .sha256 = sha256, .fd = s->fd,
        .length = s->size,         .watch = watch,
    };
    _cleanup_response_ struct objects_response response;
    char text[DIGEST_TEXT_SIZE];
    int result = hash_whole(s, text, err);

    buf_init(&response.body, 1);
    to_hex(text, sha256);
    if (result == 0) {
        result = check_whole(s, text, err);
    }
    if (result != 0 || objects_perform(o, &request, &response, err) != 0) {
        return -1;
    }
    if (!objects_succeeded(&response)) {
        return objects_refused(o, &request, &response, err);
    }
    objects_moved(watch, s->size);
    return 0;
}

/* --- in parts --- */

struct part {
    char sha256[SHA256_HEX_SIZE];
    char etag[ETAG_SIZE];
};

/* A file being sent: one thread reads ahead and hashes (another beside it the whole), the others
 * send what has its hash. The store checks each part against that, so that what is put together is
 * what was hashed as a whole.
 */
struct upload {
    struct objects *o;
    const char *key;
    const struct objects_source *source;
    const struct objects_watch *watch;
    char upload_id[ANSWER_ID_MAX];
    int64_t part_bytes;
    unsigned part_count;
    struct part *parts;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned hashed; /* [lock] parts that have their hash */
    unsigned next;   /* [lock] the next to be sent */
    int64_t sent;    /* [lock] bytes */
    bool failed;     /* [lock] */
    bool lost;       /* [lock] somebody has taken the upload back */
    struct error error;
};

static void fail(struct upload *u, const struct error *err, bool lost)
{
    pthread_mutex_lock(&u->lock);
    if (!u->failed) {
        u->error = *err;
        u->lost = lost;
    }
    u->failed = true;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
}

static int64_t offset_of(const struct upload *u, unsigned index)
{
    return (int64_t)index * u->part_bytes;
}

static int64_t size_of(const struct upload *u, unsigned index)
{
    int64_t left = u->source->size - offset_of(u, index);

    return left < u->part_bytes ? left : u->part_bytes;
}

static bool is_lost(const struct objects_response *r)
{
    return r->status == 404 && strcmp(r->code, "NoSuchUpload") == 0;
}

/* Who is interrupted has no time for that: the caller does it when it begins again. */
static void take_back(struct upload *u, struct error *err)
{
    struct error undo = ERROR_INIT;

    if (!cancel_fired(u->watch->cancel) &&
        objects_abort(u->o, u->key, u->upload_id, u->watch, &undo) != 0) {
        error_add_cause(err, &undo);
    }
}

static int create(struct upload *u, struct error *err)
{
    const struct objects_request request = {
        OBJECTS_OPERATION("create"),
        .method = METHOD_POST,
        .key = u->key,
        .query = "uploads=",
        .fd = -1,
        .watch = u->watch,
    };
    _cleanup_response_ struct objects_response response;
    struct objects_answer answer;
    bool good;
    int others;

    if (objects_perform(u->o, &request, &response, err) != 0) {
        return -1;
    }
    if (!objects_succeeded(&response)) {
        return objects_refused(u->o, &request, &response, err);
    }
    if (objects_answer_parse(buf_str(&response.body), response.body.len, &answer) != 0) {
        return error_set(err, ERROR_SHARED_STORE_REFUSED,
                         "the shared store's answer to a new upload can't be understood");
    }
    memcpy(u->upload_id, answer.upload_id, sizeof(u->upload_id));
    good = u->upload_id[0] != '\0';
    objects_answer_done(&answer);
    if (!good) {
        return error_set(err, ERROR_SHARED_STORE_REFUSED,
                         "the shared store gives a new upload no id");
    }
    /* The answer to an earlier attempt may have got lost, and its upload would stay for ever. Those
     * of other workers go with it and begin again. */
    if (response.attempt > 1 &&
        objects_abort_but(u->o, u->key, u->upload_id, u->watch, &others, err) != 0) {
        take_back(u, err);
        return -1;
    }
    return 0;
}

static int send_part(struct upload *u, unsigned index, bool *lost, struct error *err)
{
    _cleanup_buf_ struct buf query;
    char number[16];
    struct objects_request request = {
        OBJECTS_OPERATION("part"),        .method = METHOD_PUT, .key = u->key,
        .sha256 = u->parts[index].sha256, .fd = u->source->fd,  .offset = offset_of(u, index),
        .length = size_of(u, index),      .watch = u->watch,
    };
    _cleanup_response_ struct objects_response response;

    buf_init(&query, QUERY_MAX);
    buf_init(&response.body, 1);
    snprintf(number, sizeof(number), "%u", index + 1);
    if (objects_url_query(&query, "partNumber", number) != 0 ||
        objects_url_query(&query, "uploadId", u->upload_id) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    request.query = buf_str(&query);
    if (objects_perform(u->o, &request, &response, err) != 0) {
        return -1;
    }
    if (!objects_succeeded(&response)) {
        *lost = is_lost(&response);
        return objects_refused(u->o, &request, &response, err);
    }
    memcpy(u->parts[index].etag, response.etag, sizeof(response.etag));
    return 0;
}

/* The part to be sent next, once it has its hash; false when there is none any more. */
static bool claim(struct upload *u, unsigned *index)
{
    pthread_mutex_lock(&u->lock);
    while (!u->failed && u->next < u->part_count && u->next >= u->hashed) {
        pthread_cond_wait(&u->changed, &u->lock);
    }
    bool some = !u->failed && u->next < u->part_count;

    if (some) {
        *index = u->next++;
    }
    pthread_mutex_unlock(&u->lock);
    return some;
}

static void *send_parts(void *arg)
{
    struct upload *u = arg;
    unsigned index;

    while (claim(u, &index)) {
        struct error err = ERROR_INIT;
        bool lost = false;

        if (send_part(u, index, &lost, &err) != 0) {
            fail(u, &err, lost);
        } else {
            pthread_mutex_lock(&u->lock);
            u->sent += size_of(u, index);
            pthread_mutex_unlock(&u->lock);
            objects_moved(u->watch, size_of(u, index));
        }
    }
    return NULL;
}

static bool has_failed(struct upload *u)
{
    pthread_mutex_lock(&u->lock);
    bool failed = u->failed;

    pthread_mutex_unlock(&u->lock);
    return failed;
}

/* The same bytes are hashed for the part and for the whole, whatever is read the next time. */
static int hash_part(struct upload *u, unsigned index, struct digest_pair *digests,
                     struct error *err)
{
    int64_t end = offset_of(u, index) + size_of(u, index);
    char text[DIGEST_TEXT_SIZE];

    for (int64_t at = offset_of(u, index); at < end;) {
        ssize_t n = read_some(u->source, at, end - at, digest_pair_buffer(digests), err);

        if (n < 0) {
            return -1;
        }
        digest_pair_took(digests, (size_t)n);
        at += n;
    }
    digest_pair_part(digests, text);
    to_hex(text, u->parts[index].sha256);
    return 0;
}

static void hash_parts(struct upload *u)
{
    struct digest_pair *digests = digest_pair_new();
    char text[DIGEST_TEXT_SIZE];
    struct error err = ERROR_INIT;
    int result = 0;

    for (unsigned i = 0;
         result == 0 && i < u->part_count && !has_failed(u) && !cancel_fired(u->watch->cancel);
         i++) {
        result = hash_part(u, i, digests, &err);
        pthread_mutex_lock(&u->lock);
        u->hashed += result == 0;
        pthread_cond_broadcast(&u->changed);
        pthread_mutex_unlock(&u->lock);
    }
    if (result == 0 && cancel_fired(u->watch->cancel)) {
        result = objects_interrupted(&err);
    }
    digest_pair_whole(digests, text);
    if (result != 0 || (!has_failed(u) && check_whole(u->source, text, &err) != 0)) {
        fail(u, &err, false);
    }
    digest_pair_free(digests);
}

static int send_all(struct upload *u, struct error *err)
{
    pthread_t threads[THREADS_MAX];
    unsigned count = 0;

    while (count < u->o->parallel && count < THREADS_MAX && count < u->part_count &&
           pthread_create(&threads[count], NULL, send_parts, u) == 0) {
        count++;
    }
    hash_parts(u);
    send_parts(u); /* what is left, when no thread could be had */
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    if (u->failed) {
        *err = u->error;
        return -1;
    }
    return 0;
}

static int add_escaped(struct buf *text, const char *value)
{
    int result = 0;

    for (const char *c = value; result == 0 && *c != '\0'; c++) {
        switch (*c) {
        case '"': result = buf_add_str(text, "&quot;"); break;
        case '&': result = buf_add_str(text, "&amp;"); break;
        case '<': result = buf_add_str(text, "&lt;"); break;
        default: result = buf_add_char(text, *c); break;
        }
    }
    return result;
}

static int completion(const struct upload *u, struct buf *text)
{
    if (buf_add_str(text, "<CompleteMultipartUpload>") != 0) {
        return -1;
    }
    for (unsigned i = 0; i < u->part_count; i++) {
        if (buf_addf(text, "<Part><PartNumber>%u</PartNumber><ETag>", i + 1) != 0 ||
            add_escaped(text, u->parts[i].etag) != 0 || buf_add_str(text, "</ETag></Part>") != 0) {
            return -1;
        }
    }
    return buf_add_str(text, "</CompleteMultipartUpload>");
}

/* An answer of 200 may yet be an error, because it began before the work was done. */
static int read_completion(const struct objects_response *r, struct error *err)
{
    struct objects_answer answer;

    if (objects_answer_parse(buf_str(&r->body), r->body.len, &answer) != 0) {
        return error_set(err, ERROR_SHARED_STORE_UNAVAILABLE,
                         "the shared store's answer to a complete upload can't be understood");
    }
    bool failed = answer.code[0] != '\0' || strcmp(answer.root, "Error") == 0;

    if (failed) {
        error_set(err, ERROR_SHARED_STORE_UNAVAILABLE,
                  "the shared store could not put the parts together (%s)", answer.code);
    }
    objects_answer_done(&answer);
    return failed ? -1 : 0;
}

/* Whether the object is there as a whole, which counts whatever the answers said. */
static int is_there(struct upload *u, bool *there, struct error *err)
{
    struct objects_head head;

    if (objects_head(u->o, u->key, u->watch, &head, err) != 0) {
        return -1;
    }
    *there = head.exists && head.size == u->source->size;
    return 0;
}

static int complete(struct upload *u, struct error *err)
{
    _cleanup_buf_ struct buf query;
    _cleanup_buf_ struct buf text;
    char sha256[DIGEST_TEXT_SIZE];
    struct objects_request request = {
        OBJECTS_OPERATION("complete"), .method = METHOD_POST, .key = u->key, .fd = -1,
        .stall_s = COMPLETE_STALL_S,   .watch = u->watch,
    };
    _cleanup_response_ struct objects_response response;
    struct digest *digest = digest_new();

    buf_init(&query, QUERY_MAX);
    buf_init(&text, (size_t)u->part_count * PART_TEXT_MAX + PART_TEXT_MAX);
    buf_init(&response.body, 1);
    int result = objects_url_query(&query, "uploadId", u->upload_id) != 0 || completion(u, &text)
                     ? error_set(err, ERROR_INTERNAL, "out of memory")
                     : 0;

    digest_update(digest, buf_str(&text), text.len);
    digest_final(digest, sha256);
    digest_free(digest);
    request.query = buf_str(&query);
    request.data = buf_str(&text);
    request.length = (int64_t)text.len;
    request.sha256 = sha256 + strlen("sha256:");
    if (result != 0 || objects_perform(u->o, &request, &response, err) != 0) {
        return -1;
    }
    if (!objects_succeeded(&response)) {
        u->lost = is_lost(&response);
        return objects_refused(u->o, &request, &response, err);
    }
    return read_completion(&response, err);
}

static int finish(struct upload *u, struct error *err)
{
    bool there = false;
    struct error later = ERROR_INIT;
    int result = complete(u, err);

    if (result == 0 || u->lost) {
        /* The answer to an earlier attempt may have got lost, or somebody else been faster. */
        if (is_there(u, &there, &later) != 0) {
            *err = later;
            return -1;
        }
        if (!there && result == 0) {
            error_set(err, ERROR_SHARED_STORE_UNAVAILABLE,
                      "the shared store completed the %s, which is not there", u->source->name);
        }
    }
    return there ? 0 : -1;
}

static int put_parts_once(struct upload *u, struct error *err)
{
    if (create(u, err) != 0) {
        return -1;
    }
    int result = send_all(u, err);

    if (result == 0) {
        result = finish(u, err);
    }
    if (result != 0 && !u->lost) {
        take_back(u, err);
    }
    return result;
}

/* Another worker that begins anew after a restart takes back what it finds under way for the blob,
 * this upload too. Then either its object is there soon, or it is sent again from here. */
static int put_parts(struct upload *u, struct error *err)
{
    for (unsigned n = 1;; n++) {
        int64_t sent = 0;
        bool there = false;

        u->hashed = u->next = 0;
        u->sent = 0;
        u->failed = u->lost = false;
        if (put_parts_once(u, err) == 0) {
            return 0;
        }
        sent = u->sent;
        if (!u->lost || n == RESTARTS_MAX) {
            return -1;
        }
        error_clear(err);
        objects_moved(u->watch, -sent);
        if (objects_back_off(n, u->watch, err) != 0 || is_there(u, &there, err) != 0) {
            return -1;
        }
        if (there) {
            objects_moved(u->watch, u->source->size);
            return 0;
        }
    }
}

static int put_in_parts(struct objects *o, const char *key, const struct objects_source *source,
                        const struct objects_watch *watch, struct error *err)
{
    struct upload u = {.o = o, .key = key, .source = source, .watch = watch};
    int64_t least = (source->size + PARTS_MAX - 1) / PARTS_MAX;

    u.part_bytes = o->part_bytes > least ? o->part_bytes : least;
    u.part_count = (unsigned)((source->size + u.part_bytes - 1) / u.part_bytes);
    u.parts = calloc(u.part_count, sizeof(*u.parts));
    if (u.parts == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&u.lock, NULL);
    pthread_cond_init(&u.changed, NULL);
    int result = put_parts(&u, err);

    pthread_cond_destroy(&u.changed);
    pthread_mutex_destroy(&u.lock);
    free(u.parts);
    return result;
}

int objects_put_file(struct objects *o, const char *key, const struct objects_source *source,
                     const struct objects_watch *watch, struct error *err)
{
    watch = objects_watch_or_none(watch);
    return source->size <= o->multipart_bytes ? put_whole(o, key, source, watch, err)
                                              : put_in_parts(o, key, source, watch, err);
}
