#include "server/services/idempotency.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>
#include <sys/queue.h>

enum { BUCKETS = 256, SWEEP_MS = 10 * 60 * 1000 };

/* An answer is kept for a day. A claim outlives the longest work there is, which is a day too. */
static const int64_t KEEP_MS = 24LL * 3600 * 1000;
static const int64_t CLAIM_MS = 48LL * 3600 * 1000;

LIST_HEAD(claim_list, idempotency_claim);

struct idempotency_claim {
    struct service *service;
    LIST_ENTRY(idempotency_claim) entry;
    char tenant[ID_SIZE];
    char key[IDEMPOTENCY_KEY_MAX + 1];
    char digest[DIGEST_TEXT_SIZE];
    int64_t row;
    bool resumes;
};

struct idempotency {
    pthread_mutex_t lock;
    struct claim_list buckets[BUCKETS]; /* [lock] the keys under way */
};

static struct claim_list *bucket_of(struct idempotency *i, const char *tenant, const char *key)
{
    uint64_t hash = 14695981039346656037U; /* FNV-1a */
    for (const char *c = key; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 1099511628211U;
    }
    for (const char *c = tenant; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 1099511628211U;
    }
    return &i->buckets[hash % BUCKETS];
}

/* [lock] */
static struct idempotency_claim *find_running(struct idempotency *i, const char *tenant,
                                              const char *key)
{
    struct idempotency_claim *c;
    LIST_FOREACH(c, bucket_of(i, tenant, key), entry)
    {
        if (strcmp(c->key, key) == 0 && strcmp(c->tenant, tenant) == 0) {
            break;
        }
    }
    return c;
}

void idempotency_topic(char out[IDEMPOTENCY_TOPIC_SIZE], const char *tenant, const char *key)
{
    /* Keys that differ only behind the cut wake one another's waiters, who look again. */
    snprintf(out, IDEMPOTENCY_TOPIC_SIZE, "idempotency/%s/%.80s", tenant, key);
}

bool idempotency_is_running(struct service *s, const char *tenant, const char *key)
{
    struct idempotency *i = s->idempotency;
    pthread_mutex_lock(&i->lock);
    bool running = find_running(i, tenant, key) != NULL;
    pthread_mutex_unlock(&i->lock);
    return running;
}

/* --- the sweep --- */

static void arm_sweep(struct service *s);

static void sweep(void *arg)
{
    struct service *s = arg;
    struct error err = ERROR_INIT;
    int removed = STORE_IDEMPOTENCY_SWEEP;
    while (removed == STORE_IDEMPOTENCY_SWEEP) {
        if (store_idempotency_sweep(s->store, clock_wall_ms(), &removed, &err) != 0) {
            log_failure(LOG_LEVEL_WARN, &err, "expired idempotency keys could not be removed",
                        NULL);
            break;
        }
    }
    arm_sweep(s);
}

static void submit_sweep(void *arg)
{
    struct service *s = arg;
    pool_submit_always(s->pool, sweep, s);
}

static void arm_sweep(struct service *s)
{
    timers_add(s->timers, clock_mono_ms() + SWEEP_MS, submit_sweep, s);
}

int idempotency_new(struct service *s, struct idempotency **out, struct error *err)
{
    struct idempotency *i = calloc(1, sizeof(*i));
    if (i == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&i->lock, NULL);
    for (size_t b = 0; b < BUCKETS; b++) {
        LIST_INIT(&i->buckets[b]);
    }
    arm_sweep(s);
    *out = i;
    return 0;
}

void idempotency_free(struct idempotency *i)
{
    if (i == NULL) {
        return;
    }
    pthread_mutex_destroy(&i->lock);
    free(i);
}

/* --- entering --- */

static int check_digest(const struct idempotency_request *request, const char *digest,
                        struct error *err)
{
    if (strcmp(request->digest, digest) == 0) {
        return 0;
    }
    return error_set_field(err, ERROR_IDEMPOTENCY_CONFLICT, "Idempotency-Key",
                           "another request was sent under this Idempotency-Key");
}

/* 1 when another request runs it, 0, or -1 when that is not the same request. */
static int look_at_running(struct idempotency *i, const struct idempotency_request *request,
                           struct error *err)
{
    pthread_mutex_lock(&i->lock);
    struct idempotency_claim *running = find_running(i, request->tenant, request->key);
    int result = running == NULL ? 0 : check_digest(request, running->digest, err);
    pthread_mutex_unlock(&i->lock);
    return result == 0 && running != NULL ? 1 : result;
}

/* Enlists a claim that has no row yet; *out is NULL when another was faster. */
static int enlist(struct service *s, const struct idempotency_request *request,
                  struct idempotency_claim **out, struct error *err)
{
    struct idempotency *i = s->idempotency;
    struct idempotency_claim *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    c->service = s;
    snprintf(c->tenant, sizeof(c->tenant), "%s", request->tenant);
    snprintf(c->key, sizeof(c->key), "%s", request->key);
    snprintf(c->digest, sizeof(c->digest), "%s", request->digest);
    pthread_mutex_lock(&i->lock);
    bool taken = find_running(i, c->tenant, c->key) != NULL;
    if (!taken) {
        LIST_INSERT_HEAD(bucket_of(i, c->tenant, c->key), c, entry);
    }
    pthread_mutex_unlock(&i->lock);
    if (taken) {
        free(c);
        c = NULL;
    }
    *out = c;
    return 0;
}

static void let_go(struct idempotency_claim *c)
{
    struct idempotency *i = c->service->idempotency;
    struct topics *topics = c->service->topics;
    char topic[IDEMPOTENCY_TOPIC_SIZE];
    idempotency_topic(topic, c->tenant, c->key);
    pthread_mutex_lock(&i->lock);
    LIST_REMOVE(c, entry);
    pthread_mutex_unlock(&i->lock);
    free(c);
    topics_notify(topics, topic);
}

static int claim_row(struct idempotency_claim *c, enum idempotency_way *way,
                     struct store_idempotency *found, struct error *err)
{
    int64_t now = clock_wall_ms();
    const struct idempotency_request asked = {c->tenant, c->key, c->digest};
    const struct store_idempotency_request request = {.tenant = c->tenant,
                                                      .key = c->key,
                                                      .digest = c->digest,
                                                      .now = now,
                                                      .expires_at = now + CLAIM_MS};
    bool fresh;
    if (store_idempotency_claim(c->service->store, &request, found, &fresh, err) != 0) {
        return -1;
    }
    if (check_digest(&asked, found->digest, err) != 0) {
        store_idempotency_done(found);
        return -1;
    }
    c->row = found->row;
    c->resumes = found->resource.kind != STORE_RESOURCE_NONE;
    if (found->answered) {
        *way = IDEMPOTENCY_REPLAY;
    } else {
        *way = fresh ? IDEMPOTENCY_RUN : IDEMPOTENCY_TAKE_OVER;
    }
    return 0;
}

/* The answers that are there need no turn of their own. 1: replay, 0: go on, -1. */
static int look_at_answer(struct service *s, const struct idempotency_request *request,
                          struct store_idempotency *found, struct error *err)
{
    const struct store_idempotency_request asked = {
        .tenant = request->tenant, .key = request->key, .now = clock_wall_ms()};
    struct error absent = ERROR_INIT;
    if (store_idempotency_get(s->store, &asked, found, &absent) != 0) {
        if (absent.code == ERROR_NOT_FOUND) {
            return 0;
        }
        *err = absent;
        return -1;
    }
    int result = check_digest(request, found->digest, err);
    if (result == 0 && found->answered) {
        return 1;
    }
    store_idempotency_done(found);
    return result;
}

int idempotency_enter(struct service *s, const struct idempotency_request *request,
                      enum idempotency_way *way, struct store_idempotency *found,
                      struct idempotency_claim **claim, struct error *err)
{
    int running = look_at_running(s->idempotency, request, err);
    if (running != 0) {
        *way = IDEMPOTENCY_WAIT;
        return running > 0 ? 0 : -1;
    }
    int answered = look_at_answer(s, request, found, err);
    if (answered != 0) {
        *way = IDEMPOTENCY_REPLAY;
        return answered > 0 ? 0 : -1;
    }
    struct idempotency_claim *c = NULL;
    int result = enlist(s, request, &c, err);
    if (result != 0 || c == NULL) {
        *way = IDEMPOTENCY_WAIT;
        return result;
    }
    result = claim_row(c, way, found, err);
    if (result != 0 || *way == IDEMPOTENCY_REPLAY) {
        let_go(c);
        return result;
    }
    *claim = c;
    return 0;
}

/* --- ends --- */

int64_t idempotency_claim_row(const struct idempotency_claim *claim)
{
    return claim->row;
}

bool idempotency_claim_resumes(const struct idempotency_claim *claim)
{
    return claim->resumes;
}

int idempotency_claim_resource(struct idempotency_claim *claim, struct store_resource *out,
                               struct error *err)
{
    const struct store_idempotency_request request = {
        .tenant = claim->tenant, .key = claim->key, .now = clock_wall_ms()};
    struct store_idempotency found = {0};
    if (store_idempotency_get(claim->service->store, &request, &found, err) != 0) {
        return -1;
    }
    *out = found.resource;
    store_idempotency_done(&found);
    return 0;
}

void idempotency_answer(struct idempotency_claim *claim, const struct store_answer *answer)
{
    struct error err = ERROR_INIT;
    if (store_idempotency_answer(claim->service->store, claim->row, answer,
                                 clock_wall_ms() + KEEP_MS, &err) != 0) {
        log_failure(LOG_LEVEL_WARN, &err, "an answer could not be kept for its idempotency key",
                    "tenant", claim->tenant, NULL);
    }
    let_go(claim);
}

void idempotency_give_up(struct idempotency_claim *claim)
{
    struct error err = ERROR_INIT;
    if (store_idempotency_release(claim->service->store, claim->row, &err) != 0) {
        log_failure(LOG_LEVEL_WARN, &err, "an idempotency key could not be given up", "tenant",
                    claim->tenant, NULL);
    }
    let_go(claim);
}

void idempotency_leave_open(struct idempotency_claim *claim)
{
    let_go(claim);
}
