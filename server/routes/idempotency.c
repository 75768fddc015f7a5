/* Idempotency-Key: what stands around the handler of a POST or PUT that carries one. */
#include "server/services/idempotency.h"

#include "api/event.h"
#include "api/problem.h"
#include "base/buf.h"
#include "server/routes/common.h"
#include "server/routes/resume.h"
#include "server/routes/routes.h"

#include <string.h>

static const char HEADER[] = "Idempotency-Key";
static const char REPLAYED[] = "Idempotency-Replayed";

enum { HEADERS_TEXT_MAX = 64 * 1024 };

/* --- which requests --- */

static int choose(const struct http_exchange *x, bool *guarded, struct error *err)
{
    const char *method = http_method(x);
    const char *key = http_header(x, HEADER);
    if (key == NULL || (strcmp(method, "POST") != 0 && strcmp(method, "PUT") != 0)) {
        return 0;
    }
    size_t len = strlen(key);
    for (size_t i = 0; i < len; i++) {
        if (key[i] < ' ' || key[i] > '~') {
            len = 0; /* refused below */
        }
    }
    if (len == 0 || len > IDEMPOTENCY_KEY_MAX) {
        return error_set_field(err, ERROR_INVALID_REQUEST, HEADER,
                               "%s must be 1 to %d printable ASCII characters", HEADER,
                               IDEMPOTENCY_KEY_MAX);
    }
    *guarded = true;
    return 0;
}

int64_t route_claim(const struct http_exchange *x)
{
    const struct idempotency_claim *claim = http_guard_state(x);
    return claim == NULL ? 0 : idempotency_claim_row(claim);
}

/* --- before the handler --- */

static void add_stored_headers(struct http_exchange *x, char *text)
{
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        char *value = strstr(line, ": ");
        if (value != NULL) {
            *value = '\0';
            http_add_header(x, line, value + 2);
        }
    }
}

static void replay_stored(struct http_exchange *x, struct store_answer *answer)
{
    http_add_header(x, REPLAYED, "true");
    if (answer->headers != NULL) {
        add_stored_headers(x, answer->headers);
    }
    if (answer->body == NULL) {
        http_reply_empty(x, (unsigned)answer->status);
    } else {
        http_reply_bytes(x, (unsigned)answer->status, answer->type == NULL ? "" : answer->type,
                         answer->body, answer->body_len, true);
    }
}

/* An answer as a stream is not stored: the transcript of a command and the log of a run are. */
static bool wants_stream(const struct http_exchange *x, const struct store_idempotency *found)
{
    struct error err = ERROR_INIT;
    bool wait = false;
    bool streams = found->resource.kind == STORE_RESOURCE_COMMAND ||
                   found->resource.kind == STORE_RESOURCE_RUN;
    return streams && found->answer.status == 201 && route_wait(x, &wait, &err) == 0 && wait &&
           api_event_accept(http_header(x, "Accept"), API_EVENT_JSON) != API_EVENT_JSON;
}

static void replay(struct http_exchange *x, struct store_idempotency *found)
{
    if (wants_stream(x, found)) {
        http_add_header(x, REPLAYED, "true");
        route_resume(x, &found->resource);
    } else {
        replay_stored(x, &found->answer);
    }
}

/* An exchange that ends without an answer of its own leaves its key to the next. */
static void abandon(void *state)
{
    idempotency_leave_open(state);
}

static void enter(struct http_exchange *x);

static void enter_again(struct http_exchange *x)
{
    http_job(x, enter);
}

static bool nobody_runs(struct http_exchange *x)
{
    return !idempotency_is_running(http_service(x), http_tenant(x), http_header(x, HEADER));
}

static void wait_for_other(struct http_exchange *x, const char *key)
{
    char topic[IDEMPOTENCY_TOPIC_SIZE];
    idempotency_topic(topic, http_tenant(x), key);
    http_wait(x, topic, 0, nobody_runs, enter_again);
}

static void go(struct http_exchange *x, enum idempotency_way way, struct store_idempotency *found,
               struct idempotency_claim *claim)
{
    switch (way) {
    case IDEMPOTENCY_WAIT: wait_for_other(x, http_header(x, HEADER)); break;
    case IDEMPOTENCY_REPLAY: replay(x, found); break;
    case IDEMPOTENCY_RUN:
        http_set_guard_state(x, claim, abandon);
        http_handle(x);
        break;
    case IDEMPOTENCY_TAKE_OVER:
        http_set_guard_state(x, claim, abandon);
        route_resume(x, &found->resource);
        break;
    }
}

static void enter(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    char digest[DIGEST_TEXT_SIZE];
    const struct idempotency_request request = {http_tenant(x), http_header(x, HEADER), digest};
    enum idempotency_way way;
    struct idempotency_claim *claim = NULL;
    struct store_idempotency found = {0};
    if (http_request_digest(x, "wait", digest, &err) != 0 ||
        idempotency_enter(http_service(x), &request, &way, &found, &claim, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    go(x, way, &found, claim);
    store_idempotency_done(&found);
}

/* --- after it --- */

static bool is_kept(const struct http_answer *answer)
{
    bool refused = answer->status == 401 || answer->status == 403 || answer->status == 413 ||
                   answer->status == 429;
    return !refused && !api_problem_kind(answer->code)->retryable;
}

/* Where the answer is not the last word on what was made, the next request goes on from there. */
static void end_unkept(struct http_exchange *x, struct idempotency_claim *claim)
{
    struct error err = ERROR_INIT;
    struct store_resource resource = {0};
    if (idempotency_claim_resource(claim, &resource, &err) == 0 &&
        route_resource_is_final(x, &resource)) {
        idempotency_give_up(claim);
    } else {
        idempotency_leave_open(claim);
    }
}

static char *headers_text(const struct http_exchange *x)
{
    _cleanup_buf_ struct buf text;
    const char *name;
    const char *value;
    buf_init(&text, HEADERS_TEXT_MAX);
    for (unsigned i = 0; http_answer_header(x, i, &name, &value); i++) {
        if (buf_addf(&text, "%s: %s\n", name, value) != 0) {
            return NULL;
        }
    }
    size_t len;
    return text.len == 0 ? NULL : buf_take(&text, &len);
}

static void keep(struct http_exchange *x, struct idempotency_claim *claim,
                 const struct http_answer *answer)
{
    _cleanup_free_ char *headers = headers_text(x);
    const struct store_answer stored = {
        .status = (int)answer->status,
        .type = answer->type[0] == '\0' ? NULL : (char *)(uintptr_t)answer->type,
        .headers = headers,
        .body = (char *)(uintptr_t)answer->data,
        .body_len = answer->len,
    };
    idempotency_answer(claim, &stored);
}

static void leave(struct http_exchange *x, void *state)
{
    struct idempotency_claim *claim = state;
    struct http_answer answer;
    http_answer(x, &answer);
    if (!is_kept(&answer)) {
        end_unkept(x, claim);
        return;
    }
    bool resumes = idempotency_claim_resumes(claim);
    if (answer.in_memory) {
        keep(x, claim, &answer);
    } else {
        idempotency_leave_open(claim); /* a stream of what was made */
    }
    if (resumes) {
        http_add_header(x, REPLAYED, "true");
    }
}

const struct http_guard routes_guard = {.choose = choose, .enter = enter, .leave = leave};
