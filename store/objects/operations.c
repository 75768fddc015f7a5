#include "store/objects/internal.h"

#include "base/clock.h"
#include "base/id.h"

#include <string.h>

enum { QUERY_MAX = 8 * 1024, UPLOADS_MAX = 100000 };

static int out_of_memory(struct error *err)
{
    return error_set(err, ERROR_INTERNAL, "out of memory");
}

/* --- single objects --- */

/* How old it is says the store's own clock; where it tells no date, ours. */
static void head_of(const struct objects_response *r, int64_t size, struct objects_head *out)
{
    int64_t now = r->date != 0 ? r->date : clock_wall_ms();

    *out = (struct objects_head){
        .exists = true,
        .size = size,
        .modified = r->modified,
        .age_ms = r->modified == 0 || now < r->modified ? 0 : now - r->modified,
    };
}

int objects_head(struct objects *o, const char *key, const struct objects_watch *watch,
                 struct objects_head *out, struct error *err)
{
    const struct objects_request request = {
        OBJECTS_OPERATION("head"),
        .method = METHOD_HEAD,
        .key = key,
        .watch = objects_watch_or_none(watch),
    };
    _cleanup_response_ struct objects_response response;

    if (objects_perform(o, &request, &response, err) != 0) {
        return -1;
    }
    if (response.status == 404) {
        *out = (struct objects_head){0};
        return 0;
    }
    if (!objects_succeeded(&response)) {
        return objects_refused(o, &request, &response, err);
    }
    head_of(&response, response.length, out);
    return 0;
}

struct small {
    struct buf *out;
    size_t start;
};

/* Another attempt begins at its place 0 again. */
static int take_small(void *ctx, int64_t at, const void *data, size_t len, struct error *err)
{
    struct small *s = ctx;

    if (at == 0) {
        s->out->len = s->start;
    }
    if (buf_add(s->out, data, len) != 0) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "an object of the shared store is larger than it may be");
    }
    return 0;
}

/* A bucket that is missing is another matter than an object that is. */
static bool is_absent(const struct objects_response *r)
{
    return r->status == 404 && strcmp(r->code, "NoSuchBucket") != 0;
}

int objects_get(struct objects *o, const char *key, const struct objects_watch *watch,
                struct buf *out, struct objects_head *head, struct error *err)
{
    struct small small = {out, out->len};
    const struct objects_request request = {
        OBJECTS_OPERATION("get"), .method = METHOD_GET, .key = key,
        .sink = take_small,       .sink_ctx = &small,   .watch = objects_watch_or_none(watch),
    };
    _cleanup_response_ struct objects_response response;
    struct objects_head ignored;

    if (objects_perform(o, &request, &response, err) != 0) {
        return -1;
    }
    head = head != NULL ? head : &ignored;
    if (is_absent(&response)) {
        *head = (struct objects_head){0};
        return 0;
    }
    if (!objects_succeeded(&response)) {
        return objects_refused(o, &request, &response, err);
    }
    head_of(&response, (int64_t)(out->len - small.start), head);
    return 0;
}

int objects_delete(struct objects *o, const char *key, const struct objects_watch *watch,
                   struct error *err)
{
    const struct objects_request request = {
        OBJECTS_OPERATION("delete"),
        .method = METHOD_DELETE,
        .key = key,
        .watch = objects_watch_or_none(watch),
    };
    _cleanup_response_ struct objects_response response;

    if (objects_perform(o, &request, &response, err) != 0) {
        return -1;
    }
    if (!objects_succeeded(&response) && !is_absent(&response)) {
        return objects_refused(o, &request, &response, err);
    }
    return 0;
}

static void hex_of(const void *data, size_t len, char out[SHA256_HEX_SIZE])
{
    char text[DIGEST_TEXT_SIZE];
    struct digest *digest = digest_new();

    digest_update(digest, data, len);
    digest_final(digest, text);
    digest_free(digest);
    memcpy(out, text + strlen("sha256:"), SHA256_HEX_SIZE);
}

int objects_put(struct objects *o, const char *key, const struct objects_text *text,
                const struct objects_watch *watch, enum objects_put_result *out, struct error *err)
{
    char sha256[SHA256_HEX_SIZE];
    const struct objects_request request = {
        OBJECTS_OPERATION("put"),
        .method = METHOD_PUT,
        .key = key,
        .sha256 = sha256,
        .only_if_absent = text->only_if_absent,
        .fd = -1,
        .data = text->data,
        .length = (int64_t)text->len,
        .watch = objects_watch_or_none(watch),
    };
    _cleanup_response_ struct objects_response response;

    hex_of(text->data, text->len, sha256);
    if (objects_perform(o, &request, &response, err) != 0) {
        return -1;
    }
    if (objects_succeeded(&response)) {
        *out = OBJECTS_PUT_DONE;
    } else if (text->only_if_absent && (response.status == 412 || response.status == 409)) {
        *out = OBJECTS_PUT_EXISTS;
    } else if (text->only_if_absent && response.status == 501) {
        *out = OBJECTS_PUT_UNSUPPORTED;
    } else {
        return objects_refused(o, &request, &response, err);
    }
    return 0;
}

int objects_probe_conditional(struct objects *o, const char *prefix,
                              const struct objects_watch *watch, bool *honoured, struct error *err)
{
    static const char content[] = "whether writes that must not replace are honoured here\n";
    struct objects_text text = {content, strlen(content), false};
    char id[ID_SIZE];
    _cleanup_free_ char *key = NULL;
    enum objects_put_result result = OBJECTS_PUT_DONE;
    struct error undo = ERROR_INIT;
    int failed;

    id_generate("probe", id);
    if (asprintf(&key, "%s%s", prefix, id) < 0) {
        key = NULL;
        return out_of_memory(err);
    }
    if (objects_put(o, key, &text, watch, &result, err) != 0) {
        return -1;
    }
    text.only_if_absent = true;
    failed = objects_put(o, key, &text, watch, &result, err);
    if (objects_delete(o, key, watch, &undo) != 0 && failed == 0) {
        *err = undo;
        failed = -1;
    }
    if (failed != 0) {
        return -1;
    }
    *honoured = result == OBJECTS_PUT_EXISTS;
    return 0;
}

/* --- lists --- */

static int list(struct objects *o, const char *query, const char *root,
                const struct objects_watch *watch, struct objects_answer *out, struct error *err)
{
    const struct objects_request request = {
        OBJECTS_OPERATION("list"),
        .method = METHOD_GET,
        .key = "",
        .query = query,
        .watch = objects_watch_or_none(watch),
    };
    _cleanup_response_ struct objects_response response;

    if (objects_perform(o, &request, &response, err) != 0) {
        return -1;
    }
    if (!objects_succeeded(&response)) {
        return objects_refused(o, &request, &response, err);
    }
    if (objects_answer_parse(buf_str(&response.body), response.body.len, out) != 0) {
        return error_set(err, ERROR_SHARED_STORE_REFUSED,
                         "the shared store's list can't be understood");
    }
    if (strcmp(out->root, root) != 0) {
        objects_answer_done(out);
        return error_set(err, ERROR_SHARED_STORE_REFUSED,
                         "the shared store answers a list with something else");
    }
    return 0;
}

int objects_list(struct objects *o, const struct objects_page *page,
                 const struct objects_watch *watch, struct objects_list *out, struct error *err)
{
    _cleanup_buf_ struct buf query;
    struct objects_answer answer;
    char count[16];

    buf_init(&query, QUERY_MAX);
    snprintf(count, sizeof(count), "%d", page->max);
    if (objects_url_query(&query, "list-type", "2") != 0 ||
        objects_url_query(&query, "max-keys", count) != 0 ||
        objects_url_query(&query, "prefix", page->prefix) != 0 ||
        (page->after != NULL && objects_url_query(&query, "start-after", page->after) != 0)) {
        return out_of_memory(err);
    }
    if (list(o, buf_str(&query), "ListBucketResult", watch, &answer, err) != 0) {
        return -1;
    }
    *out = answer.list;
    return 0;
}

/* --- uploads under way --- */

static int uploads_query(struct buf *query, const char *prefix, const struct objects_answer *last)
{
    bool goes_on = last->list.more;

    query->len = 0;
    if ((goes_on && objects_url_query(query, "key-marker", last->next_key) != 0) ||
        objects_url_query(query, "max-uploads", "1000") != 0 ||
        objects_url_query(query, "prefix", prefix) != 0 ||
        (goes_on && objects_url_query(query, "upload-id-marker", last->next_upload) != 0)) {
        return -1;
    }
    return objects_url_query(query, "uploads", "");
}

/* Moves the items over. */
static int append(struct objects_list *to, struct objects_list *from, struct error *err)
{
    struct objects_item *items;

    if (from->count == 0) {
        return 0;
    }
    items = reallocarray(to->items, to->count + from->count, sizeof(*items));
    if (items == NULL) {
        return out_of_memory(err);
    }
    memcpy(items + to->count, from->items, from->count * sizeof(*items));
    to->items = items;
    to->count += from->count;
    free(TAKE_PTR(from->items));
    from->count = 0;
    return 0;
}

int objects_list_uploads(struct objects *o, const char *prefix, const struct objects_watch *watch,
                         struct objects_list *out, struct error *err)
{
    _cleanup_buf_ struct buf query;
    struct objects_list all = {0};
    struct objects_answer last = {0};
    int result = 0;

    buf_init(&query, QUERY_MAX);
    do {
        struct objects_answer page = {0};

        result = uploads_query(&query, prefix, &last) != 0
                     ? out_of_memory(err)
                     : list(o, buf_str(&query), "ListMultipartUploadsResult", watch, &page, err);
        if (result == 0) {
            result = append(&all, &page.list, err);
        }
        objects_answer_done(&last);
        last = page;
    } while (result == 0 && last.list.more && last.next_key[0] != '\0' && all.count < UPLOADS_MAX);
    objects_answer_done(&last);
    if (result != 0) {
        objects_list_done(&all);
        return -1;
    }
    *out = all;
    return 0;
}

int objects_abort(struct objects *o, const char *key, const char *upload_id,
                  const struct objects_watch *watch, struct error *err)
{
    _cleanup_buf_ struct buf query;
    struct objects_request request = {
        OBJECTS_OPERATION("abort"),
        .method = METHOD_DELETE,
        .key = key,
        .watch = objects_watch_or_none(watch),
    };
    _cleanup_response_ struct objects_response response;

    buf_init(&query, QUERY_MAX);
    buf_init(&response.body, 1);
    if (objects_url_query(&query, "uploadId", upload_id) != 0) {
        return out_of_memory(err);
    }
    request.query = buf_str(&query);
    if (objects_perform(o, &request, &response, err) != 0) {
        return -1;
    }
    if (!objects_succeeded(&response) && !is_absent(&response)) {
        return objects_refused(o, &request, &response, err);
    }
    return 0;
}

int objects_abort_but(struct objects *o, const char *key, const char *keep,
                      const struct objects_watch *watch, int *count, struct error *err)
{
    struct objects_list uploads;
    int result = 0;

    *count = 0;
    if (objects_list_uploads(o, key, watch, &uploads, err) != 0) {
        return -1;
    }
    for (size_t i = 0; result == 0 && i < uploads.count; i++) {
        const struct objects_item *u = &uploads.items[i];

        if (strcmp(u->key, key) == 0 && u->upload_id != NULL && strcmp(u->upload_id, keep) != 0) {
            result = objects_abort(o, key, u->upload_id, watch, err);
            *count += result == 0;
        }
    }
    objects_list_done(&uploads);
    return result;
}

int objects_abort_all(struct objects *o, const char *key, const struct objects_watch *watch,
                      int *count, struct error *err)
{
    return objects_abort_but(o, key, "", watch, count, err);
}
