/* Inside of the services of runs. Lock order: `handle_lock` of a run, then its `lock`; the
 * registry's lock is below both. ptc's callbacks take `lock` only, so that a call of ptc may be
 * made under `handle_lock`. */
#ifndef EXECHOST_SERVER_SERVICES_RUNS_PRIVATE_H
#define EXECHOST_SERVER_SERVICES_RUNS_PRIVATE_H

#include "api/run.h"
#include "base/digest.h"
#include "base/log.h"
#include "server/services/runs.h"

#include <pthread.h>
#include <sys/queue.h>

enum { RUN_LINE_MAX = 1024 * 1024 * 1024, RUN_BUCKETS = 256 };

/* One that waits for its answer. */
struct run_call {
    TAILQ_ENTRY(run_call) entry;
    int64_t id;
    int64_t at;
    bool answered; /* ptc has the answer and will say so */
    char *text;    /* as lists show it */
    size_t len;
};

/* What a call was answered with, as a digest; "" none. */
struct run_answer {
    char digest[DIGEST_TEXT_SIZE];
};

struct run {
    struct runs *runs;
    struct service *service;
    LIST_ENTRY(run) entry; /* [registry] */
    unsigned refs;         /* [registry] */
    char tenant[ID_SIZE];
    char run_id[ID_SIZE];
    int64_t row;
    bool keyed;             /* an Idempotency-Key names it: it outlives a power loss */
    struct log_trace trace; /* of the request that began it */
    int64_t output_max;
    enum ptc_mode mode;

    pthread_mutex_t handle_lock;
    struct ptc_run *handle; /* [handle_lock] NULL: not yet, or no more */
    bool over;              /* [handle_lock] its result has come */
    char *abort_reason;     /* [handle_lock] asked for before there was a handle */
    struct run_answer *answers;
    size_t answer_count; /* [handle_lock] */

    pthread_mutex_t lock;
    enum store_run_state state; /* [lock] */
    int64_t started_at;         /* [lock] */
    int64_t completed_at;       /* [lock] */
    struct store_run_log *log;  /* [lock] */
    int64_t seq;                /* [lock] of the next event */
    int64_t published;          /* [lock] bytes that readers may see */
    bool lost;                  /* [lock] an event could not be written: the run is ended */
    bool unrecorded;            /* [lock] its end could not be recorded so far, for: */
    struct error failure;       /* [lock] */
    TAILQ_HEAD(run_calls, run_call) pending;              /* [lock] by number */
    int64_t calls_total, calls_answered, calls_cancelled; /* [lock] */

    /* Of the end; one thread at a time. */
    struct buf result; /* its line */
    size_t result_place;
    size_t result_len;
    int64_t result_at; /* where the line stands in the log; -1: not written */
    const char *outcome;
};

struct runs {
    struct service *service;
    struct ptc_rules rules;
    pthread_mutex_t lock;
    struct ptc_engine *engine; /* [lock] set once, by a worker */
    bool starting;             /* [lock] it is on its way */
    pthread_cond_t changed;
    LIST_HEAD(run_bucket, run) buckets[RUN_BUCKETS]; /* [lock] */
    unsigned living;                                 /* [lock] */
    bool stopping;                                   /* [lock] */
};

/* --- runs.c --- */

struct run *run_find(struct runs *runs, const char *tenant, const char *run_id);
void run_ref(struct run *r);
void run_unref(struct run *r);
/* Its end is on record: it leaves the registry. */
void run_leave(struct run *r);
void run_notify(struct run *r);
struct store_run_log_name run_log_name(struct service *s, const char *tenant, const char *run_id);

/* --- run_record.c: ptc's events put on record --- */

extern const struct ptc_run_events run_recorder;

/* --- run_calls.c --- */

/* Under `lock`. */
void run_call_remove(struct run *r, int64_t id);

#endif
