/* A client of S3-compatible object storage, on libcurl and its own signing. Every call blocks until
 * the store has answered for good; any thread may call, several at once. Requests are tried again
 * with backoff and jitter on 5xx, 429, timeouts, resets and bytes that arrived altered; a file goes
 * part by part, and part by part it is tried again. Memory does not grow with the size of objects.
 *
 * Nothing but `<endpoint>/<bucket>` is ever reached: redirects are refused, proxies of the
 * environment not used. Names of objects are full keys; where they come from requests, whoever
 * calls has checked them. Secrets are in no error and no log.
 *
 * Errors: ERROR_SHARED_STORE_UNAVAILABLE what may go better later, ERROR_SHARED_STORE_REFUSED what
 * will not by itself (credentials, no such bucket, the clock), ERROR_CHECKPOINT_INVALID for bytes
 * that are not what they should be. Fault points objects.<operation> before each request and
 * objects.<operation>.done once it is answered. */
#ifndef EXECHOST_STORE_OBJECTS_OBJECTS_H
#define EXECHOST_STORE_OBJECTS_OBJECTS_H

#include "base/buf.h"
#include "base/cancel.h"
#include "base/digest.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- credentials --- */

struct objects_credentials {
    char *access_key; /* owned, all three */
    char *secret_key;
    char *session_token; /* NULL: none */
};

/* Of the section [default] of a file as the tools of S3 write it (aws_access_key_id,
 * aws_secret_access_key, aws_session_token), which nobody but its owner may read; `file` NULL: of
 * AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. ERROR_INVALID_REQUEST when they
 * are missing. */
int objects_credentials_load(const char *file, struct objects_credentials *out,
                             struct error *err) WARN_UNUSED;
/* The same of the text of such a file; pure. */
int objects_credentials_parse(const char *text, size_t len, struct objects_credentials *out,
                              struct error *err) WARN_UNUSED;
void objects_credentials_done(struct objects_credentials *c); /* overwrites what was in them */

/* --- the client --- */

struct objects_config {
    const char *endpoint; /* http[s]://HOST[:PORT] */
    const char *region;
    const char *bucket;
    bool path_style;     /* false: the bucket is part of the host's name */
    const char *ca_file; /* NULL: the system's */
    struct objects_credentials credentials;
    unsigned attempts;       /* of each request, at least 1 */
    unsigned stall_s;        /* a transfer that stands still that long is cut */
    int64_t multipart_bytes; /* larger files are sent in parts */
    int64_t part_bytes;      /* at least 5 MiB; more where 10,000 parts would not do */
    unsigned parallel;       /* parts at a time */
};

struct objects;

/* Copies the configuration; talks to nobody. ERROR_INVALID_REQUEST when the endpoint is none. */
int objects_new(const struct objects_config *config, struct objects **out,
                struct error *err) WARN_UNUSED;
void objects_free(struct objects *o); /* NULL is fine; no call may be under way */

/* SCHEME://HOST[:PORT] and nothing else, http or https. */
bool objects_endpoint_is_valid(const char *endpoint);

/* What interrupts a call and what it tells meanwhile. All may be NULL. */
struct objects_watch {
    struct cancel *cancel;
    void (*moved)(void *ctx, int64_t bytes); /* so many more are there; any thread */
    void *ctx;
};

/* --- objects --- */

struct objects_head {
    bool exists;
    int64_t size;
    int64_t age_ms;   /* since it was written, by the store's own clock */
    int64_t modified; /* wall ms */
};
int objects_head(struct objects *o, const char *key, const struct objects_watch *watch,
                 struct objects_head *out, struct error *err) WARN_UNUSED;

/* All of a small object, up to the cap of `out` (more: ERROR_CHECKPOINT_INVALID). `head` may be
 * NULL. Not there: `*exists` is false. */
int objects_get(struct objects *o, const char *key, const struct objects_watch *watch,
                struct buf *out, struct objects_head *head, struct error *err) WARN_UNUSED;

/* Deleting what is not there succeeds. */
int objects_delete(struct objects *o, const char *key, const struct objects_watch *watch,
                   struct error *err) WARN_UNUSED;

enum objects_put_result {
    OBJECTS_PUT_DONE,
    OBJECTS_PUT_EXISTS,      /* only if absent: there is one, nothing has changed */
    OBJECTS_PUT_UNSUPPORTED, /* only if absent: the store does not know such writes */
};
struct objects_text {
    const void *data; /* borrowed */
    size_t len;
    bool only_if_absent;
};
int objects_put(struct objects *o, const char *key, const struct objects_text *text,
                const struct objects_watch *watch, enum objects_put_result *out,
                struct error *err) WARN_UNUSED;

/* Whether the store honours writes that must not replace; tried on an object of its own below
 * `prefix`, which is taken away again. */
int objects_probe_conditional(struct objects *o, const char *prefix,
                              const struct objects_watch *watch, bool *honoured,
                              struct error *err) WARN_UNUSED;

/* --- files --- */

struct objects_source {
    int fd; /* borrowed; read by offset */
    int64_t size;
    const char *digest; /* "sha256:…" of its bytes; `name` differing is ERROR_CHECKPOINT_INVALID */
    const char *name;   /* for details, e.g. "archive" */
};
/* Sends a file, in parts where it is large; the object is there, with exactly the bytes of that
 * digest, or it is not. A failure takes back the parts, but for an interruption: see
 * objects_abort_all. */
int objects_put_file(struct objects *o, const char *key, const struct objects_source *source,
                     const struct objects_watch *watch, struct error *err) WARN_UNUSED;

/* Fetches an object of that size to offset 0 of `fd`, several ranges at a time, and verifies the
 * bytes while they come; others than those of the digest are ERROR_CHECKPOINT_INVALID. `name` is
 * for details. */
struct objects_target {
    int fd; /* borrowed */
    int64_t size;
    const char *digest; /* "sha256:…" */
    const char *name;
};
int objects_get_file(struct objects *o, const char *key, const struct objects_target *target,
                     const struct objects_watch *watch, struct error *err) WARN_UNUSED;

/* --- lists --- */

struct objects_item {
    char *key;       /* owned */
    char *upload_id; /* owned; of an upload, else NULL */
    int64_t size;
    int64_t modified; /* wall ms; of an upload: when it was begun */
};

struct objects_list {
    struct objects_item *items; /* owned */
    size_t count;
    bool more;
};
void objects_list_done(struct objects_list *list);

/* A page of objects by key. */
struct objects_page {
    const char *prefix;
    const char *after; /* NULL: from the first */
    int max;           /* 1..1000 */
};
int objects_list(struct objects *o, const struct objects_page *page,
                 const struct objects_watch *watch, struct objects_list *out,
                 struct error *err) WARN_UNUSED;
/* All uploads of that prefix that are under way, of whoever. */
int objects_list_uploads(struct objects *o, const char *prefix, const struct objects_watch *watch,
                         struct objects_list *out, struct error *err) WARN_UNUSED;
/* Takes back an upload and its parts; one that is over is fine. */
int objects_abort(struct objects *o, const char *key, const char *upload_id,
                  const struct objects_watch *watch, struct error *err) WARN_UNUSED;
/* Takes back what is under way for exactly this key. */
int objects_abort_all(struct objects *o, const char *key, const struct objects_watch *watch,
                      int *count, struct error *err) WARN_UNUSED;

#endif
