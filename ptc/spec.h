/* What a request for a run asks, with every choice made: the rules of names, times, policies and
 * places. Resolving starts nothing and keeps nothing; it looks at directories, so it may block
 * shortly. Any thread. */
#ifndef EXECHOST_PTC_SPEC_H
#define EXECHOST_PTC_SPEC_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct host;

enum ptc_mode { PTC_READ_ONLY, PTC_WORKSPACE_WRITE, PTC_DANGER };

enum {
    PTC_PROGRAM_MAX = 1024 * 1024,
    PTC_TIMEOUT_MAX = 2147483647,
    PTC_BINDINGS_MAX = 128, /* namespaces */
    PTC_HANDLE_MAX = 256,
    PTC_FUNCTIONS_MAX = 4096, /* of all namespaces */
};

struct ptc_limits {
    int64_t memory_bytes;
    int64_t pids;
    int64_t cpu_ms;
    int64_t heap_bytes;
    int64_t output_max;
};

/* The part of the configuration that requests are measured by. Borrows its strings. */
struct ptc_rules {
    int64_t timeout_default_ms;
    int64_t timeout_max_ms;
    enum ptc_mode mode;       /* where the request names none */
    bool allow_danger;        /* mode danger-full-access may be asked for */
    bool allow_network;       /* network "host" may be asked for */
    struct ptc_limits limits; /* where the request names none */
    struct ptc_limits limits_max;
};

/* An execution that programs are to run in. */
struct ptc_execution {
    struct host *host; /* borrowed; can start programs of the service's */
    char handle[PTC_HANDLE_MAX];
    int64_t memory_bytes;
    int64_t pids;
};

/* Who asks. */
struct ptc_scope {
    /* Finds an execution; its errors are the request's. NULL: there are none. */
    int (*find_execution)(void *ctx, const char *execution_id, struct ptc_execution *out,
                          struct error *err);
    void *ctx;
    const char *const *workspace_roots; /* the tenant's, absolute, NULL-ended; NULL: none */
    bool untimed;                       /* may ask for no timeout */
};

struct ptc_spec {
    json_t *json; /* owned: the spec as the API shows it; all below is borrowed from it */
    const char *program;
    size_t program_len;
    const char *description;
    json_t *bindings;           /* array, never NULL */
    const char *cwd;            /* absolute */
    const char *workspace_root; /* absolute, without links; NULL: a private directory */
    const char *execution_id;   /* NULL: none */
    struct ptc_execution execution;
    const char *run_id; /* as asked for; NULL: none */
    int64_t timeout_ms; /* -1: no timer */
    enum ptc_mode mode;
    bool network_host;
    struct ptc_limits limits;
};
#define PTC_SPEC_INIT                                                                              \
    {                                                                                              \
        .json = NULL                                                                               \
    }
void ptc_spec_done(struct ptc_spec *spec);
#define _cleanup_ptc_spec_ _cleanup_(ptc_spec_done)

/* Every rule of a request. A spec that this returned is a request too and resolves to itself.
 * ERROR_PTC_INVALID_REQUEST with the field's JSON pointer. `request` may be any JSON value; it is
 * not changed. json_string_length counts: strings may hold NUL where the decoder let them. */
int ptc_resolve(json_t *request, const struct ptc_rules *rules, const struct ptc_scope *scope,
                struct ptc_spec *out, struct error *err) WARN_UNUSED;

/* "read-only", "workspace-write", "danger-full-access"; static. */
const char *ptc_mode_name(enum ptc_mode mode);
/* -1: no mode is called that. */
int ptc_mode_from_name(const char *name, enum ptc_mode *mode) WARN_UNUSED;

#endif
