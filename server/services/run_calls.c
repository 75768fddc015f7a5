/* The calls of a run: who waits for an answer, and the answers. */
#include "server/services/runs_private.h"

#include <string.h>

enum { CALLS_MAX = 100000000 };

void run_call_remove(struct run *r, int64_t id)
{
    struct run_call *call;
    TAILQ_FOREACH(call, &r->pending, entry)
    {
        if (call->id == id) {
            TAILQ_REMOVE(&r->pending, call, entry);
            free(call->text);
            free(call);
            return;
        }
    }
}

/* --- which wait --- */

/* The first one over `after` that waits. [lock] */
static struct run_call *next_call(struct run *r, int64_t after)
{
    struct run_call *call;
    TAILQ_FOREACH(call, &r->pending, entry)
    {
        if (call->id > after && !call->answered) {
            break;
        }
    }
    return call;
}

static int add_calls(struct run *r, int64_t after, struct buf *out)
{
    int result = 0;
    bool first = true;
    pthread_mutex_lock(&r->lock);
    for (struct run_call *c = next_call(r, after); c != NULL && result == 0;
         c = next_call(r, c->id)) {
        result = !first ? buf_add_char(out, ',') : 0;
        result = result == 0 ? buf_add(out, c->text, c->len) : result;
        first = false;
    }
    pthread_mutex_unlock(&r->lock);
    return result;
}

int runs_calls(struct service *s, const char *tenant, const char *run_id, int64_t after,
               struct buf *out, struct error *err)
{
    struct run *r = run_find(s->runs, tenant, run_id);
    struct store_run row = {0};
    if (r == NULL && store_run_get(s->store, tenant, run_id, &row, err) != 0) {
        return -1;
    }
    store_run_done(&row);
    int result = buf_add_str(out, "{\"items\":[");
    if (result == 0 && r != NULL) {
        result = add_calls(r, after, out);
    }
    run_unref(r);
    return result == 0 && buf_add_str(out, "],\"nextCursor\":null}") == 0
               ? 0
               : error_set(err, ERROR_INTERNAL, "out of memory");
}

bool runs_has_calls(struct service *s, const char *tenant, const char *run_id, int64_t after)
{
    struct run *r = run_find(s->runs, tenant, run_id);
    if (r == NULL) {
        return true;
    }
    pthread_mutex_lock(&r->lock);
    bool has = next_call(r, after) != NULL;
    pthread_mutex_unlock(&r->lock);
    run_unref(r);
    return has;
}

/* --- answers --- */

/* Of the answer in its one form, so that blanks make no difference. */
static int digest_answer(const struct ptc_answer *answer, char out[DIGEST_TEXT_SIZE],
                         struct error *err)
{
    _cleanup_buf_ struct buf text;
    buf_init(&text, RUN_LINE_MAX);
    if (answer->payload.len > 0 &&
        ptc_json_write(answer->payload.data, answer->payload.len, &text, err) != 0) {
        return -1;
    }
    struct digest *d = digest_new();
    digest_update(d, answer->ok ? "+" : "-", 1);
    digest_update(d, buf_str(&text), text.len);
    digest_final(d, out);
    digest_free(d);
    return 0;
}

/* The place for call `id`; NULL when memory is out. [handle_lock] */
static struct run_answer *answer_slot(struct run *r, int64_t id)
{
    size_t count = r->answer_count;
    while (count < (size_t)id) {
        count = count == 0 ? 64 : count * 2;
    }
    if (count > r->answer_count) {
        struct run_answer *grown = realloc(r->answers, count * sizeof(*grown));
        if (grown == NULL) {
            return NULL;
        }
        memset(grown + r->answer_count, 0, (count - r->answer_count) * sizeof(*grown));
        r->answers = grown;
        r->answer_count = count;
    }
    return &r->answers[id - 1];
}

static bool is_known(struct run *r, int64_t id)
{
    pthread_mutex_lock(&r->lock);
    bool known = id <= r->calls_total;
    pthread_mutex_unlock(&r->lock);
    return known;
}

static void mark_answered(struct run *r, int64_t id)
{
    struct run_call *call;
    pthread_mutex_lock(&r->lock);
    TAILQ_FOREACH(call, &r->pending, entry)
    {
        if (call->id == id) {
            call->answered = true;
            break;
        }
    }
    pthread_mutex_unlock(&r->lock);
}

/* [handle_lock] */
static int answer(struct run *r, int64_t id, const struct ptc_answer *given, const char *digest,
                  struct error *err)
{
    if (r->handle == NULL) {
        return r->over ? error_set(err, ERROR_PTC_RUN_SETTLED, "the run is over")
                       : error_set(err, ERROR_PTC_CALL_NOT_FOUND, "the run has made no call yet");
    }
    if (!is_known(r, id)) {
        return error_set(err, ERROR_PTC_CALL_NOT_FOUND, "the run has made no call %lld yet",
                         (long long)id);
    }
    struct run_answer *slot = answer_slot(r, id);
    if (slot == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (slot->digest[0] != '\0') {
        return strcmp(slot->digest, digest) == 0
                   ? 0
                   : error_set(err, ERROR_PTC_CALL_SETTLED, "the call was answered otherwise");
    }
    if (ptc_run_answer(r->handle, id, given, err) != 0) {
        return -1;
    }
    memcpy(slot->digest, digest, sizeof(slot->digest));
    mark_answered(r, id);
    return 0;
}

/* 0: no call can have that number. */
static int64_t number_of(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits] != '\0' || text[0] == '0') {
        return 0;
    }
    int64_t number = strtoll(text, NULL, 10);
    return number <= CALLS_MAX ? number : 0;
}

static int not_living(struct service *s, const char *tenant, const char *run_id, struct error *err)
{
    struct store_run row = {0};
    if (store_run_get(s->store, tenant, run_id, &row, err) != 0) {
        return -1;
    }
    store_run_done(&row);
    return error_set(err, ERROR_PTC_RUN_SETTLED, "the run is over");
}

int runs_answer(struct service *s, const char *tenant, const char *run_id, const char *call_id,
                struct ptc_text body, struct error *err)
{
    struct ptc_answer given;
    char digest[DIGEST_TEXT_SIZE];
    int64_t id = number_of(call_id);
    if (ptc_json_answer(body.data, body.len, &given, err) != 0 ||
        digest_answer(&given, digest, err) != 0) {
        return -1;
    }
    struct run *r = run_find(s->runs, tenant, run_id);
    if (r == NULL) {
        return not_living(s, tenant, run_id, err);
    }
    pthread_mutex_lock(&r->handle_lock);
    int result = id > 0 ? answer(r, id, &given, digest, err)
                        : error_set(err, ERROR_PTC_CALL_NOT_FOUND, "the run has made no such call");
    pthread_mutex_unlock(&r->handle_lock);
    run_unref(r);
    return result;
}
