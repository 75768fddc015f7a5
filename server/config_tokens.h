/* The "tokens" of the configuration. No file but server/config*.c and server/commands/token.c
 * includes this. Called before there are threads. */
#ifndef EXECHOST_SERVER_CONFIG_TOKENS_H
#define EXECHOST_SERVER_CONFIG_TOKENS_H

#include "server/config.h"

#include <jansson.h>

/* Fills c->tokens from [{"sha256", "tenant", "scopes", "quotas"}]. A fault names its place:
 * tokens[0].tenant. */
int config_tokens_read(struct config *c, const json_t *value, struct error *err) WARN_UNUSED;
/* Once all keys are read: quotas that a token does not name are those of "quotas". */
void config_tokens_complete(struct config *c);
void config_tokens_done(struct config *c);

/* The bit of "read", …; 0 when there is no such scope. */
unsigned config_scope_from_name(const char *name);

#endif
