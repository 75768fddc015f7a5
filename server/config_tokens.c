#include "server/config_tokens.h"

#include "base/id.h"

#include <string.h>

enum { PLACE_SIZE = 64, SHA256_LEN = 64, NOT_GIVEN = -1 };

static const struct {
    const char *name;
    enum token_scope scope;
} scopes[] = {
    {"read", SCOPE_READ},
    {"write", SCOPE_WRITE},
    {"ptc:untimed", SCOPE_PTC_UNTIMED},
    {"admin", SCOPE_ADMIN},
};

unsigned config_scope_from_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
        if (strcmp(scopes[i].name, name) == 0) {
            return scopes[i].scope;
        }
    }
    return 0;
}

/* `key` NULL: the entry as a whole. */
static int fault(struct error *err, size_t index, const char *key, const char *rule)
{
    char place[PLACE_SIZE + ERROR_FIELD_MAX];

    snprintf(place, sizeof(place), "tokens[%zu]%s%s", index, key != NULL ? "." : "",
             key != NULL ? key : "");
    return error_set_field(err, ERROR_INVALID_REQUEST, place, "%s %s", place, rule);
}

static bool is_digest(const char *text)
{
    return strlen(text) == SHA256_LEN && strspn(text, "0123456789abcdef") == SHA256_LEN;
}

static int read_scopes(const json_t *list, size_t index, unsigned *out, struct error *err)
{
    static const char rule[] =
        "must be an array of one or more of read, write, ptc:untimed and admin";
    unsigned all = 0;
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        unsigned scope = json_is_string(item) ? config_scope_from_name(json_string_value(item)) : 0;

        if (scope == 0 || (all & scope) != 0) {
            return fault(err, index, "scopes", rule);
        }
        all |= scope;
    }
    if (all == 0) {
        return fault(err, index, "scopes", rule);
    }
    *out = all;
    return 0;
}

static int check_keys(json_t *entry, size_t index, struct error *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(entry)) {
        return fault(err, index, NULL, "must be an object");
    }
    json_object_foreach(entry, key, value)
    {
        if (strcmp(key, "sha256") != 0 && strcmp(key, "tenant") != 0 &&
            strcmp(key, "scopes") != 0 && strcmp(key, "quotas") != 0) {
            return fault(err, index, key, "is not a configuration key");
        }
    }
    return 0;
}

static const struct {
    const char *key;
    size_t offset;
    int64_t max;
} limits[] = {
#define X(member, key, max, what) {key, offsetof(struct quotas, member), max},
    QUOTAS(X)
#undef X
};

static int64_t *limit_of(struct quotas *q, size_t i)
{
    return (int64_t *)((char *)q + limits[i].offset);
}

/* NULL when there is no such quota. */
static int64_t *limit_named(struct quotas *q, const char *key, int64_t *max)
{
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        if (strcmp(limits[i].key, key) == 0) {
            *max = limits[i].max;
            return limit_of(q, i);
        }
    }
    return NULL;
}

/* What the entry does not name is left as NOT_GIVEN, for config_tokens_complete. */
static int read_quotas(struct token *t, json_t *object, size_t index, struct error *err)
{
    const char *key;
    json_t *value;

    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        *limit_of(&t->quotas, i) = NOT_GIVEN;
    }
    if (object != NULL && !json_is_object(object)) {
        return fault(err, index, "quotas", "must be an object");
    }
    json_object_foreach(object, key, value)
    {
        char name[PLACE_SIZE];
        int64_t max = 0;
        int64_t *limit = limit_named(&t->quotas, key, &max);

        snprintf(name, sizeof(name), "quotas.%.40s", key);
        if (limit == NULL) {
            return fault(err, index, name, "is not a configuration key");
        }
        if (!json_is_integer(value) || json_integer_value(value) < 0 ||
            json_integer_value(value) > max) {
            return fault(err, index, name, "must be an integer in the range of its default");
        }
        *limit = json_integer_value(value);
    }
    return 0;
}

void config_tokens_complete(struct config *c)
{
    for (size_t t = 0; t < c->token_count; t++) {
        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
            int64_t *limit = limit_of(&c->tokens[t].quotas, i);

            *limit = *limit == NOT_GIVEN ? *limit_of(&c->quotas, i) : *limit;
        }
    }
}

static int read_entry(struct config *c, json_t *entry, struct error *err)
{
    size_t index = c->token_count;
    struct token *t = &c->tokens[index];
    const char *sha256 = json_string_value(json_object_get(entry, "sha256"));
    const char *tenant = json_string_value(json_object_get(entry, "tenant"));

    if (check_keys(entry, index, err) != 0) {
        return -1;
    }
    if (sha256 == NULL || !is_digest(sha256)) {
        return fault(err, index, "sha256", "must be the token's SHA-256, 64 lowercase hex digits");
    }
    if (tenant == NULL || !id_is_valid(tenant)) {
        return fault(err, index, "tenant", "must be a name of 1 to 64 of A-Z a-z 0-9 _ . -");
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(c->tokens[i].sha256, sha256) == 0) {
            return fault(err, index, "sha256", "is given twice");
        }
    }
    if (read_scopes(json_object_get(entry, "scopes"), index, &t->scopes, err) != 0 ||
        read_quotas(t, json_object_get(entry, "quotas"), index, err) != 0) {
        return -1;
    }
    memcpy(t->sha256, sha256, sizeof(t->sha256));
    t->tenant = strdup(tenant);
    if (t->tenant == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    c->token_count++;
    return 0;
}

/* An empty list would look like a lock and be an open door. */
int config_tokens_read(struct config *c, const json_t *value, struct error *err)
{
    size_t count = json_array_size(value);

    if (count == 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "tokens",
                               "tokens must be an array of one or more objects");
    }
    c->tokens = calloc(count, sizeof(*c->tokens));
    if (c->tokens == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        if (read_entry(c, json_array_get(value, i), err) != 0) {
            return -1;
        }
    }
    return 0;
}

void config_tokens_done(struct config *c)
{
    for (size_t i = 0; i < c->token_count; i++) {
        free(c->tokens[i].tenant);
    }
    free(c->tokens);
}
