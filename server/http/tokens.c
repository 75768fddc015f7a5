#include "server/http/exchange.h"

#include <string.h>

static const char TENANT_WITHOUT_TOKENS[] = "default";

/* A bucket of requests: full at the start, filled by as many a second as it holds. In thousandths,
 * so that a millisecond counts. */
struct rate {
    int64_t left;
    int64_t at; /* monotonic ms of the last look */
};

struct token_set {
    atomic_uint refs;
    bool open;
    size_t count;
    struct token *tokens;
    pthread_mutex_t lock;
    struct rate *rates; /* [lock] one for each token */
};

static void set_free(struct token_set *set)
{
    for (size_t i = 0; set->tokens != NULL && i < set->count; i++) {
        free(set->tokens[i].tenant);
    }
    free(set->tokens);
    free(set->rates);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

/* [both locked or new] */
static void take_rates(struct token_set *set, const struct token_set *before)
{
    for (size_t i = 0; i < set->count; i++) {
        set->rates[i] = (struct rate){.left = -1};
        for (size_t j = 0; before != NULL && j < before->count; j++) {
            if (strcmp(set->tokens[i].sha256, before->tokens[j].sha256) == 0) {
                set->rates[i] = before->rates[j];
            }
        }
    }
}

static int copy_tokens(struct token_set *set, const struct token *tokens, size_t count)
{
    set->tokens = calloc(count, sizeof(*set->tokens));
    set->rates = calloc(count, sizeof(*set->rates));
    if (set->tokens == NULL || set->rates == NULL) {
        return -1;
    }
    set->count = count;
    for (size_t i = 0; i < count; i++) {
        set->tokens[i] = tokens[i];
        set->tokens[i].tenant = strdup(tokens[i].tenant);
        if (set->tokens[i].tenant == NULL) {
            set->count = i;
            return -1;
        }
    }
    return 0;
}

int token_set_new(const struct token *tokens, size_t count, const struct quotas *quotas,
                  struct token_set *before, struct token_set **out, struct error *err)
{
    struct token everybody = {.tenant = (char *)(uintptr_t)TENANT_WITHOUT_TOKENS,
                              .scopes = SCOPE_ALL};
    struct token_set *set = calloc(1, sizeof(*set));

    if (set == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    everybody.quotas = quotas != NULL ? *quotas : (struct quotas){0};
    atomic_init(&set->refs, 1);
    pthread_mutex_init(&set->lock, NULL);
    set->open = count == 0;
    if (copy_tokens(set, count == 0 ? &everybody : tokens, count == 0 ? 1 : count) != 0) {
        set_free(set);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (before != NULL) {
        pthread_mutex_lock(&before->lock);
    }
    take_rates(set, before);
    if (before != NULL) {
        pthread_mutex_unlock(&before->lock);
    }
    *out = set;
    return 0;
}

struct token_set *token_set_ref(struct token_set *set)
{
    atomic_fetch_add(&set->refs, 1);
    return set;
}

void token_set_unref(struct token_set *set)
{
    if (set != NULL && atomic_fetch_sub(&set->refs, 1) == 1) {
        set_free(set);
    }
}

bool token_set_is_open(const struct token_set *set)
{
    return set->open;
}

/* Takes as long whatever is equal. */
static bool same_digest(const char *a, const char *b)
{
    unsigned char differs = 0;

    for (size_t i = 0; i < sizeof(((struct token *)NULL)->sha256); i++) {
        differs |= (unsigned char)(a[i] ^ b[i]);
    }
    return differs == 0;
}

const struct token *token_set_find(const struct token_set *set, const char *sha256)
{
    const struct token *found = NULL;

    for (size_t i = 0; i < set->count; i++) {
        if (same_digest(set->tokens[i].sha256, sha256)) {
            found = &set->tokens[i];
        }
    }
    return found;
}

const struct token *token_set_everybody(const struct token_set *set)
{
    return &set->tokens[0];
}

bool token_set_admit(struct token_set *set, const struct token *token, int64_t now_mono_ms)
{
    enum { ONE = 1000 };
    int64_t most = token->quotas.requests_per_second * ONE;
    struct rate *rate = &set->rates[token - set->tokens];
    bool within;

    if (most == 0) {
        return true;
    }
    pthread_mutex_lock(&set->lock);
    int64_t since = now_mono_ms - rate->at;
    if (rate->left < 0 || since >= ONE) {
        rate->left = most;
    } else {
        rate->left += since * token->quotas.requests_per_second;
        rate->left = rate->left > most ? most : rate->left;
    }
    rate->at = now_mono_ms;
    within = rate->left >= ONE;
    rate->left -= within ? ONE : 0;
    pthread_mutex_unlock(&set->lock);
    return within;
}
