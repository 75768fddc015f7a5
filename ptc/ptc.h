/* Programs of a model: each runs once in a fresh, confined Node process, calls bindings that others
 * answer, and leaves a result. An engine owns one event thread for all runs, one thread that starts
 * and ends processes, and the pool of started ones. The process is a hostile peer: whatever it
 * sends is checked, and it never makes the engine fail.
 *
 * ptc/spec.h resolves requests, ptc/json.h carries values. Functions may be called on any thread,
 * also within an event's callback, but for ptc_engine_free. None blocks but where it says so. */
#ifndef EXECHOST_PTC_PTC_H
#define EXECHOST_PTC_PTC_H

#include "ptc/json.h"
#include "ptc/spec.h"

/* --- engine --- */

/* All borrowed for the time of ptc_engine_new only. */
struct ptc_engine_config {
    const char *node;   /* absolute, Node 22.13 or newer */
    const char *bwrap;  /* absolute; bubblewrap */
    const char *hidden; /* the service's data directory: never visible inside, in no mode */
    uint32_t first_uid; /* host ids of runs: first_uid .. first_uid + uid_count - 1, never 0 */
    uint32_t uid_count;
    int64_t message_max;       /* maxMessageBytes: a frame; calls outstanding; writes queued */
    int64_t pending_calls_max; /* maxPendingCalls */
    int64_t grace_ms;          /* for output to close and processes to go */
    int64_t pool_size;         /* processes kept ready of each kind in use; 0: none */
    int64_t pool_max;          /* ready processes of all kinds together */
    struct ptc_rules rules;    /* what is kept ready first: its defaults */
};

enum ptc_enforcement {
    PTC_ENFORCEMENT_FULL,
    PTC_ENFORCEMENT_PARTIAL, /* runs are confined, but some promise does not hold */
    PTC_ENFORCEMENT_NONE,    /* nothing can be confined here: each run is sandbox-unavailable */
};

struct ptc_engine;

/* Probes node and bubblewrap once (blocks, about a second) and starts the threads. What is missing
 * shows in ptc_engine_enforcement, so only a lack of memory or threads fails. Needs root. */
int ptc_engine_new(const struct ptc_engine_config *config, struct ptc_engine **out,
                   struct error *err) WARN_UNUSED;
/* Ends every run that is left as abort with that reason (each gets its result event), the pool and
 * all processes. Blocks until they are gone. No run starts from then on. */
void ptc_engine_stop(struct ptc_engine *engine, const char *reason);
/* Stops if need be. All runs must have been released. NULL is fine. */
void ptc_engine_free(struct ptc_engine *engine);

enum ptc_enforcement ptc_engine_enforcement(const struct ptc_engine *engine);
/* Why it is not full; "" when it is. Borrowed, never changes. */
const char *ptc_engine_reason(const struct ptc_engine *engine);
/* Processes ready now. */
int64_t ptc_engine_ready(struct ptc_engine *engine);

/* An executable of Node 22.13 or newer: `configured` where that is given (and no other), else the
 * first of "node" of PATH, ../node/bin/node beside the directory of the own executable, `fallback`
 * (NULL: none). Runs them to see. Returns owned, an absolute path; NULL: ERROR_HOST_UNAVAILABLE.
 * Blocks. */
char *ptc_find_node(const char *configured, const char *fallback, struct error *err) WARN_UNUSED;

/* --- a run --- */

enum ptc_error_kind {
    PTC_OK, /* no error: the program returned */
    PTC_EXCEPTION,
    PTC_TIMEOUT,
    PTC_ABORT,
    PTC_WORKER_EXIT,
    PTC_INVALID_OUTPUT,
    PTC_OUTPUT_LIMIT,
    PTC_PROTOCOL,
    PTC_SANDBOX_UNAVAILABLE,
};
/* "exception", …; NULL for PTC_OK; static. */
const char *ptc_error_kind_name(enum ptc_error_kind kind);

/* All texts are JSON (ptc_json_write's form), borrowed for the time of the callback. */
struct ptc_result {
    enum ptc_error_kind kind;
    struct ptc_text logs;    /* array of strings: the ones of the log events, cut to the limit */
    struct ptc_text value;   /* any value; empty: the program returned none (or failed) */
    struct ptc_text message; /* string; empty when the kind is PTC_OK */
    enum ptc_mode mode;
    bool denied;
    bool has_enforcement; /* false where nothing is enforced: danger-full-access */
    enum ptc_enforcement enforcement;
};

/* Called on the engine's event thread, one at a time for all runs: must be short and may not wait
 * for another run. In order for each run: started, then log, call and settled in any order, then
 * result exactly once and nothing more. A run that never started (aborted before, no sandbox) has
 * its result only. Texts are JSON, borrowed for the time of the call. */
struct ptc_run_events {
    void (*started)(void *ctx);
    void (*log)(void *ctx, struct ptc_text entry); /* a string */
    /* `id` counts from 1. `global` is a name; `function` a string; `argument` any value. */
    void (*call)(void *ctx, int64_t id, struct ptc_text global, struct ptc_text function,
                 struct ptc_text argument);
    /* `cancelled`: the run ended first. Otherwise it was answered. */
    void (*settled)(void *ctx, int64_t id, bool cancelled);
    void (*result)(void *ctx, const struct ptc_result *result);
};

struct ptc_run;

/* Starts preparing; the timeout counts from here. `spec` and `events` are copied. Events may come
 * before this returns. Returns a reference to be released. ERROR_OVERLOADED: no host id is free or
 * too many runs; ERROR_INTERNAL: memory, or the engine has stopped. Everything else is a result. */
int ptc_run_start(struct ptc_engine *engine, const struct ptc_spec *spec,
                  const struct ptc_run_events *events, void *ctx, struct ptc_run **out,
                  struct error *err) WARN_UNUSED;
/* Gives the reference back; the run goes on. After its result nothing of it is left then. */
void ptc_run_release(struct ptc_run *run);

/* Answers a call. The payload is checked and copied: `ok`: the value (empty: none), else the
 * message, a JSON string. An answer that came first stays:
 * ERROR_PTC_CALL_NOT_FOUND: no such call so far;
 * ERROR_PTC_CALL_SETTLED: answered already (the caller knows with what);
 * ERROR_PTC_RUN_SETTLED: the run is over or ending;
 * ERROR_PTC_INVALID_REQUEST with the field "/value" or "/message". */
int ptc_run_answer(struct ptc_run *run, int64_t id, const struct ptc_answer *answer,
                   struct error *err) WARN_UNUSED;

/* Ends it as abort with that reason, unless an outcome is chosen already. Does not wait: the result
 * event comes once all its processes are gone. `reason` is UTF-8; NULL or "": "aborted". */
void ptc_run_abort(struct ptc_run *run, const char *reason);

#endif
