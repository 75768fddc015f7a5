#include "server/http/exchange.h"

#include "base/digest.h"

#include <string.h>
#include <strings.h>

static const char TENANT_WITHOUT_TOKENS[] = "default";

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

/* Takes as long whatever is equal. */
static bool same_digest(const char *a, const char *b)
{
    unsigned char differs = 0;

    for (size_t i = 0; i < sizeof(((struct token *)NULL)->sha256); i++) {
        differs |= (unsigned char)(a[i] ^ b[i]);
    }
    return differs == 0;
}

static const struct token *find_token(const struct http_server *s, const char *text)
{
    static const char prefix[] = "sha256:";
    struct digest *d = digest_new();
    char digest[DIGEST_TEXT_SIZE];
    const struct token *found = NULL;

    digest_update(d, text, strlen(text));
    digest_final(d, digest);
    digest_free(d);
    for (size_t i = 0; i < s->token_count; i++) {
        if (same_digest(s->tokens[i].sha256, digest + sizeof(prefix) - 1)) {
            found = &s->tokens[i];
        }
    }
    return found;
}

static int refuse(struct http_exchange *x, const char *detail, struct error *err)
{
    http_add_header(x, "WWW-Authenticate", "Bearer");
    return error_set(err, ERROR_UNAUTHENTICATED, "%s", detail);
}

int auth_check(struct http_exchange *x, struct error *err)
{
    const struct http_route *route = x->match.route;
    const char *header = NULL;
    unsigned count = exchange_header(x, "Authorization", &header);
    const char *text = count == 1 ? auth_bearer(header) : NULL;
    const struct token *token;

    if (x->server->token_count == 0) {
        x->tenant = TENANT_WITHOUT_TOKENS;
        x->scopes = SCOPE_ALL;
        return 0;
    }
    if (route != NULL && (route->flags & ROUTE_PUBLIC) != 0) {
        return 0;
    }
    if (text == NULL) {
        return refuse(x, "the request needs one header \"Authorization: Bearer TOKEN\"", err);
    }
    token = find_token(x->server, text);
    if (token == NULL) {
        return refuse(x, "the token is not known here", err);
    }
    x->tenant = token->tenant;
    x->scopes = token->scopes;
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

bool http_has_scope(const struct http_exchange *x, enum token_scope scope)
{
    return (x->scopes & scope) != 0;
}
