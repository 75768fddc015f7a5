/* What the configuration knows of tokens, as the HTTP adapter uses it. Tokens themselves are
 * nowhere: only their digests are. */
#ifndef EXECHOST_SERVER_TOKENS_H
#define EXECHOST_SERVER_TOKENS_H

#include "server/quotas.h"

/* Joined by |. None implies another. */
enum token_scope {
    SCOPE_READ = 1,        /* what only looks: GET */
    SCOPE_WRITE = 2,       /* everything else */
    SCOPE_PTC_UNTIMED = 4, /* PTC runs without a time bound */
    SCOPE_ADMIN = 8,       /* what the service tells of itself and of all tenants */
};
enum { SCOPE_ALL = SCOPE_READ | SCOPE_WRITE | SCOPE_PTC_UNTIMED | SCOPE_ADMIN };

struct token {
    char sha256[64 + 1]; /* of the token's bytes, lowercase hex */
    char *tenant;        /* an id; owned by the configuration */
    unsigned scopes;
    struct quotas quotas; /* of its tenant, when this token asks */
};

#endif
