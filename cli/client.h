/* One service, asked over HTTP. Owns a connection; one thread at a time. Every call blocks until
 * the answer is there; an interrupt (SIGINT, SIGTERM) ends it early. */
#ifndef EXECHOST_CLI_CLIENT_H
#define EXECHOST_CLI_CLIENT_H

#include "base/buf.h"
#include "base/error.h"
#include "cli/progress.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What comes back is at most that long, unless it goes to a sink. */
enum { CLI_ANSWER_MAX = 160 * 1024 * 1024 };

struct cli_client;

/* `server` is http://HOST:PORT, https://…, HOST:PORT or unix:PATH; NULL: EXECHOST_SERVER of the
 * environment, else where a service listens by default. The token is EXECHOST_TOKEN's. Returns
 * owned, NULL when it is none of these. */
struct cli_client *cli_client_new(const char *server, struct error *err) WARN_UNUSED;
void cli_client_free(struct cli_client *client);
#define _cleanup_client_ _cleanup_(cli_client_cleanup)
static inline void cli_client_cleanup(struct cli_client **client)
{
    cli_client_free(*client);
}

/* Takes pieces of the body of a success; other than 0 ends the call without a fault. */
typedef int (*cli_sink_fn)(void *ctx, const char *data, size_t len);

struct cli_request {
    const char *method;
    const char *path; /* with its query, both escaped */
    const char *json; /* a body of JSON, or NULL */
    const char *data; /* a body of bytes, or NULL */
    size_t data_len;
    FILE *upload;       /* a body that is read from here, or NULL */
    int64_t upload_len; /* -1: unknown */
    const char *accept; /* NULL: anything */
    const char *key;    /* Idempotency-Key, or NULL */
    cli_sink_fn sink;   /* NULL: the body goes to the answer */
    void *sink_ctx;
    struct progress *progress; /* NULL: none */
    void (*tick)(void *ctx);   /* called now and then while the answer is awaited; or NULL */
    void *tick_ctx;
};

/* Fails with what the service said, its code in front, or with what was wrong with the connection
 * (ERROR_HOST_UNAVAILABLE, for which cli_client_was_cut is true). `out` may be NULL. */
int cli_call(struct cli_client *client, const struct cli_request *request, struct buf *out,
             struct error *err) WARN_UNUSED;
/* The same, made again for a while where the connection was lost: for requests that may be sent
 * twice.
 */
int cli_call_safely(struct cli_client *client, const struct cli_request *request, struct buf *out,
                    struct error *err) WARN_UNUSED;
/* As cli_call_safely, with the answer as JSON. Returns owned. */
int cli_call_json(struct cli_client *client, const struct cli_request *request, json_t **out,
                  struct error *err) WARN_UNUSED;
/* Whether the last call had no answer, or only a part of one. */
bool cli_client_was_cut(const struct cli_client *client);
/* Whether anything was ever answered: before that a lost connection is a wrong address. */
bool cli_client_has_answered(const struct cli_client *client);

/* A piece of a path or query, escaped; returns owned, NULL when memory is out. */
char *cli_escape(const char *text) WARN_UNUSED;

/* From cli_interrupt_watch() on SIGINT and SIGTERM are noted here and end calls; the next one after
 * that ends the process. */
void cli_interrupt_watch(void);
bool cli_interrupted(void);
/* Lets calls work again, to clean up. */
void cli_interrupt_forget(void);

#endif
