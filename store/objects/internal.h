/* Inside the module: one request, tried until the store has answered it for good. Any thread. */
#ifndef EXECHOST_STORE_OBJECTS_INTERNAL_H
#define EXECHOST_STORE_OBJECTS_INTERNAL_H

#include "store/objects/answer.h"
#include "store/objects/objects.h"
#include "store/objects/url.h"

#include <curl/curl.h>
#include <pthread.h>

enum {
    SHA256_HEX_SIZE = 64 + 1,
    ETAG_SIZE = 160,
    HANDLES_MAX = 32,
    ANSWER_MAX = 4 * 1024 * 1024,
    COMPLETE_STALL_S = 300, /* putting the parts together is done in silence */
};

struct objects {
    struct objects_place place;
    char *region;
    char *ca_file;
    struct objects_credentials credentials;
    char *sigv4; /* "aws:amz:REGION:s3" */
    unsigned attempts;
    unsigned stall_s;
    int64_t multipart_bytes;
    int64_t part_bytes;
    unsigned parallel;
    pthread_mutex_t lock;
    CURL *idle[HANDLES_MAX]; /* [lock] with their connections */
    unsigned idle_count;
};

extern const char OBJECTS_EMPTY_SHA256[SHA256_HEX_SIZE];

enum objects_method { METHOD_GET, METHOD_HEAD, METHOD_PUT, METHOD_POST, METHOD_DELETE };

/* Takes bytes of a successful answer; `at` is their place in it. -1 ends the request for good. */
typedef int (*objects_sink)(void *ctx, int64_t at, const void *data, size_t len, struct error *err);

#define OBJECTS_OPERATION(operation)                                                               \
    .name = "objects." operation, .done = "objects." operation ".done"

struct objects_request {
    const char *name; /* "objects.put", …: the fault point before it, and for details */
    const char *done; /* the fault point afterwards */
    enum objects_method method;
    const char *key;
    const char *query;  /* as objects_url_query has made it, or NULL */
    const char *sha256; /* hex of the body; NULL: it has none */
    bool only_if_absent;
    /* The body: `length` bytes of `fd` from `offset` on, or of `data` where fd is -1. */
    int fd;
    const void *data;
    int64_t offset;
    int64_t length;
    /* GET: only these bytes; count 0: all. */
    int64_t first;
    int64_t count;
    objects_sink sink; /* NULL: the answer is kept in the response */
    void *sink_ctx;
    unsigned stall_s; /* 0: as configured */
    const struct objects_watch *watch;
};

struct objects_response {
    long status;
    int64_t length;   /* -1: not told */
    int64_t modified; /* wall ms, 0: not told */
    int64_t date;
    char etag[ETAG_SIZE];
    char code[ANSWER_NAME_MAX]; /* of an error, or "" */
    struct buf body;            /* of a success without a sink */
    unsigned attempt;           /* the one that was answered, from 1 */
};
#define _cleanup_response_ _cleanup_(objects_response_done)
void objects_response_done(struct objects_response *r);

/* 0: `out` is an answer that trying again would not change, whatever its status. */
int objects_perform(struct objects *o, const struct objects_request *request,
                    struct objects_response *out, struct error *err) WARN_UNUSED;
/* What a status that was not expected means; -1. */
int objects_refused(const struct objects *o, const struct objects_request *request,
                    const struct objects_response *response, struct error *err);
static inline bool objects_succeeded(const struct objects_response *r)
{
    return r->status >= 200 && r->status < 300;
}

/* Waits for the backoff before attempt `n` (from 1) or until it is interrupted: -1. */
int objects_back_off(unsigned n, const struct objects_watch *watch, struct error *err) WARN_UNUSED;
int objects_interrupted(struct error *err);

/* objects_abort_all, which leaves the upload `keep` alone ("": none). */
int objects_abort_but(struct objects *o, const char *key, const char *keep,
                      const struct objects_watch *watch, int *count, struct error *err) WARN_UNUSED;

void objects_moved(const struct objects_watch *watch, int64_t bytes);
const struct objects_watch *objects_watch_or_none(const struct objects_watch *watch);

#endif
