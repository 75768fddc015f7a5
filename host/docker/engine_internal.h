/* What the files of the engine client share; nobody else includes it. */
#ifndef EXECHOST_HOST_DOCKER_ENGINE_INTERNAL_H
#define EXECHOST_HOST_DOCKER_ENGINE_INTERNAL_H

#include "host/docker/engine.h"

#include <curl/curl.h>
#include <pthread.h>

enum {
    ENGINE_TIMEOUT_MS = 60 * 1000,
    ENGINE_CONNECT_TIMEOUT_MS = 5 * 1000,
    ENGINE_STALL_S = 60,      /* a body that does not move for so long has been lost */
    ENGINE_IDLE_HANDLES = 32, /* kept for reuse; each holds at most one open connection */
    ENGINE_PREFIX_SIZE = 24,
};

/* Most bytes of a JSON answer (a list of some ten thousand containers). */
#define ENGINE_ANSWER_MAX ((size_t)64 << 20)

/* One easy handle with a multi handle of its own, which keeps the connection between uses. */
struct engine_handle {
    CURL *easy;
    CURLM *multi;
    struct curl_slist *headers;
    struct engine_handle *next;
};

struct engine {
    char *socket_path;
    pthread_mutex_t lock; /* idle, idle_count, prefix */
    struct engine_handle *idle;
    unsigned idle_count;
    char prefix[ENGINE_PREFIX_SIZE]; /* "/v1.41", "" before the first negotiation */
};

/* Returns owned, options set but those of the request. Give back by engine_handle_put. */
struct engine_handle *engine_handle_get(struct engine *e, struct error *err);
/* Keeps it when `reusable`, frees it otherwise. NULL is fine. */
void engine_handle_put(struct engine *e, struct engine_handle *h, bool reusable);

/* The options that every easy handle on the engine's socket has. */
void engine_set_common(CURL *easy, const struct engine *e);

/* Method, address, headers and body. `text` holds the encoded JSON and must outlive the transfer.
 * The engine's version is negotiated first where it is not known. */
int engine_prepare(struct engine *e, struct engine_handle *h, const struct engine_request *request,
                   char **text, struct error *err) WARN_UNUSED;

/* Runs what is going on until `done(ctx)` or the transfer's end; `*ended` tells which and `*result`
 * how. */
struct engine_drive {
    struct cancel *cancel;
    bool (*done)(void *ctx); /* NULL: until the end */
    void *ctx;
    bool ended;
    CURLcode result;
};
int engine_handle_drive(struct engine_handle *h, const struct engine_request *request,
                        struct engine_drive *drive, struct error *err) WARN_UNUSED;

/* The error that a failed transfer stands for; returns -1. */
int engine_transfer_error(struct error *err, const struct engine_request *request, CURLcode result);
/* The error of a call that `cancel` ended; returns -1. */
int engine_interrupted(struct error *err);
/* The fault point of this request; -1 with `err` set when it is armed. */
int engine_fault(const struct engine_request *request, struct error *err) WARN_UNUSED;
const char *engine_verb(const struct engine_request *request);

/* The version prefix of paths, negotiated on first use. */
int engine_prefix(struct engine *e, char out[ENGINE_PREFIX_SIZE], struct error *err) WARN_UNUSED;

#endif
