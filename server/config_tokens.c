#include "server/config_tokens.h"

#include "base/id.h"

#include <string.h>

enum { PLACE_SIZE = 64, SHA256_LEN = 64 };

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
            strcmp(key, "scopes") != 0) {
            return fault(err, index, key, "is not a configuration key");
        }
    }
    return 0;
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
    if (read_scopes(json_object_get(entry, "scopes"), index, &t->scopes, err) != 0) {
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
