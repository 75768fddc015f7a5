#include "server/http/exchange.h"

#include "base/clock.h"
#include "base/digest.h"

#include <string.h>
#include <strings.h>

const char *auth_bearer(const char *header)
{
    static const char scheme[] = "Bearer ";
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789-._~+/";
    const char *token;
    size_t len;

    if (strncasecmp(header, scheme, sizeof(scheme) - 1) != 0) {
        return NULL;
    }
    token = header + sizeof(scheme) - 1;
    len = strspn(token, letters);
    return len > 0 && token[len + strspn(token + len, "=")] == '\0' ? token : NULL;
}

static const struct token *find_token(const struct token_set *set, const char *text)
{
    static const char prefix[] = "sha256:";
    struct digest *d = digest_new();
    char digest[DIGEST_TEXT_SIZE];

    digest_update(d, text, strlen(text));
    digest_final(d, digest);
    digest_free(d);
    return token_set_find(set, digest + sizeof(prefix) - 1);
}

static void take_tokens(struct http_exchange *x)
{
    pthread_mutex_lock(&x->server->token_lock);
    x->tokens = token_set_ref(x->server->tokens);
    pthread_mutex_unlock(&x->server->token_lock);
}

static int refuse(struct http_exchange *x, const char *detail, struct error *err)
{
    http_add_header(x, "WWW-Authenticate", "Bearer");
    return error_set(err, ERROR_UNAUTHENTICATED, "%s", detail);
}

static int find_caller(struct http_exchange *x, const struct token **out, struct error *err)
{
    const char *header = NULL;
    unsigned count = exchange_header(x, "Authorization", &header);
    const char *text = count == 1 ? auth_bearer(header) : NULL;

    if (token_set_is_open(x->tokens)) {
        *out = token_set_everybody(x->tokens);
        return 0;
    }
    if (text == NULL) {
        return refuse(x, "the request needs one header \"Authorization: Bearer TOKEN\"", err);
    }
    *out = find_token(x->tokens, text);
    return *out != NULL ? 0 : refuse(x, "the token is not known here", err);
}

int auth_check(struct http_exchange *x, struct error *err)
{
    const struct http_route *route = x->match.route;
    bool public = route != NULL && (route->flags & ROUTE_PUBLIC) != 0;
    const struct token *token = NULL;

    take_tokens(x);
    if (public && !token_set_is_open(x->tokens)) {
        return 0;
    }
    if (find_caller(x, &token, err) != 0) {
        return -1;
    }
    x->tenant = token->tenant;
    x->scopes = token->scopes;
    x->quotas = &token->quotas;
    snprintf(x->token_id, sizeof(x->token_id), "%.16s", token->sha256);
    if (!public && !token_set_admit(x->tokens, token, clock_mono_ms())) {
        http_add_header(x, "Retry-After", "1");
        return error_set(err, ERROR_QUOTA_EXCEEDED, "the quota requestsPerSecond: %lld at most",
                         (long long)token->quotas.requests_per_second);
    }
    return 0;
}

int auth_scope(struct http_exchange *x, struct error *err)
{
    unsigned flags = x->match.route->flags;
    enum token_scope needed = SCOPE_WRITE;

    if ((flags & (ROUTE_PUBLIC | ROUTE_ANY_SCOPE)) != 0) {
        return 0;
    }
    if ((flags & ROUTE_ADMIN) != 0) {
        needed = SCOPE_ADMIN;
    } else if (strcmp(x->match.route->method, "GET") == 0) {
        needed = SCOPE_READ;
    }
    if (!http_has_scope(x, needed)) {
        return error_set(err, ERROR_FORBIDDEN, "the token lacks the scope %s",
                         needed == SCOPE_ADMIN  ? "admin"
                         : needed == SCOPE_READ ? "read"
                                                : "write");
    }
    return 0;
}

const char *http_tenant(const struct http_exchange *x)
{
    return x->tenant != NULL ? x->tenant : "";
}

const struct quotas *http_quotas(const struct http_exchange *x)
{
    static const struct quotas none;

    return x->quotas != NULL ? x->quotas : &none;
}

bool http_has_scope(const struct http_exchange *x, enum token_scope scope)
{
    return (x->scopes & scope) != 0;
}
