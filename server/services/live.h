/* What lives: every execution that is being provisioned, usable, or being ended has one object
 * here, and each has one lane, in which provision, commands and checkpoints follow one another in
 * arrival order.
 *
 * One mutex guards the registry and all mutable members marked [lock]; it is held for memory
 * operations only. Objects are reference counted; the registry holds one reference until the
 * execution has ended. The row's mirror `record` is guarded by `record_lock`, which is held over
 * the store's write: the order is record_lock before lock, never the other way round. */
#ifndef EXECHOST_SERVER_SERVICES_LIVE_H
#define EXECHOST_SERVER_SERVICES_LIVE_H

#include "base/cancel.h"
#include "base/log.h"
#include "host/host.h"
#include "server/service.h"
#include "store/executions.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

/* Why an execution ends; the first one chosen stays. Texts: end_reason_name. */
enum end_reason {
    END_NONE,
    END_TERMINATED,
    END_EXPIRED,
    END_TIMEOUT,
    END_OUTPUT_LIMIT,
    END_ABORTED,
    END_OOM,
    END_RECLAIMED,
    END_HOST_LOST,
    END_PROVISION_FAILED,
};

const char *end_reason_name(enum end_reason reason);
/* The code that goes with it, ERROR_NONE where a client asked for the end. */
enum error_code end_reason_code(enum end_reason reason);
/* END_NONE for a text that is none. */
enum end_reason end_reason_from_name(const char *name);

struct live_item;

/* What stands in a lane. Embedded first in the command's or checkpoint's own struct. All are called
 * on a worker. */
struct live_item_ops {
    enum service_work work; /* what its turn is */
    /* Its turn has come. Ends, then or later, by live_item_done and its own release, or by
     * live_item_park. */
    void (*start)(struct live_item *item);
    /* A parked item whose execution is destroyed now: records how it ended. */
    void (*settle)(struct live_item *item);
    /* Instead of start: records that its execution has ended for `reason`, or (aborted) that a
     * higher fencing token took over. */
    void (*drop)(struct live_item *item, enum end_reason reason, const char *detail);
    /* After settle or drop, and once the execution's own end is on record: tells who waits, and
     * frees. */
    void (*release)(struct live_item *item);
};

struct live_item {
    const struct live_item_ops *ops;
    struct live_execution *execution; /* holds a reference while in the lane */
    int64_t fencing_token;            /* it came with; -1: none */
    struct log_trace trace;           /* of the request that it came with */
    uint64_t serial;          /* [lock] names it beyond its life; set when it enters a lane */
    bool is_command;          /* counts as one in GET /v1/host */
    bool checkpoint_at_limit; /* the workspace is kept when it hits a limit */
    int64_t stored_max;       /* by then, of its tenant, with that checkpoint; 0: any amount */
    bool parked;              /* [lock] waits for its execution to be destroyed */
    TAILQ_ENTRY(live_item) entry;
};

TAILQ_HEAD(live_queue, live_item);

enum live_phase { LIVE_PROVISIONING, LIVE_READY, LIVE_ENDED };

struct file_call;
TAILQ_HEAD(file_queue, file_call);

/* Calls for files (files.h), which stand beside the lane. */
struct live_files {
    struct file_queue waiting; /* [lock] */
    unsigned waiting_count;    /* [lock] */
    unsigned submitted;        /* [lock] workers that are on their way to take one */
    unsigned running;          /* [lock] */
    struct cancel
        *cancel;     /* [lock] made with the first call; fired at every end, also at a limit */
    unsigned frozen; /* [lock] checkpoints that want, or have, the execution to themselves */
};

struct live_execution {
    struct service *service;
    struct service_host *host;
    unsigned refs; /* [lock] */
    TAILQ_ENTRY(live_execution) entry;
    LIST_ENTRY(live_execution) same_hash;

    /* Constant from the start. */
    char tenant[ID_SIZE];
    char execution_id[ID_SIZE];
    unsigned incarnation;
    int64_t row;
    struct host_limits limits;
    struct log_trace trace; /* of the request that made it */

    enum live_phase phase;   /* [lock] */
    char *handle;            /* [lock] set once, when it becomes ready */
    int64_t expires_at;      /* [lock] wall ms, 0 while provisioning */
    uint64_t expiry_timer;   /* [lock] */
    struct host_usage usage; /* [lock] newest known */
    struct cancel *cancel;   /* fired when it ends; interrupts provision and checkpoint */

    struct live_item *current; /* [lock] whose turn it is */
    uint64_t serials;          /* [lock] given to items so far */
    int64_t deadline_at;       /* [lock] of the running command, monotonic ms; 0: none */
    int64_t deadline_ms;       /* [lock] its timeoutMs */
    uint64_t deadline_timer;   /* [lock] */
    struct live_queue queue;   /* [lock] */
    unsigned queued;           /* [lock] */
    struct live_files files;

    enum end_reason ending;         /* [lock] END_NONE while nobody wants it to end */
    struct log_trace ending_trace;  /* [lock] of the request that ends it, or that made it */
    enum error_code ending_code;    /* [lock] */
    char ending_detail[256];        /* [lock] */
    int64_t ending_at;              /* [lock] wall ms */
    bool destroying;                /* [lock] one worker at a time destroys */
    bool destroyed;                 /* [lock] proven: nothing is left on the host */
    unsigned failed_attempts;       /* [lock] to destroy */
    struct error failure;           /* [lock] of the last attempt to destroy */
    struct error provision_failure; /* [lock] why it never became ready */
    char limit_checkpoint[ID_SIZE]; /* [lock] made when a command hit a limit; "" when none */
    int64_t unrecorded_row;  /* [lock] of the newest command whose end the store refused; 0 */
    struct error unrecorded; /* [lock] why */
    bool has_survivor;       /* [lock] a command of the last run may have survived on its host */
    uint64_t oom_serial;     /* [lock] the item that was running when memory ran out */

    uint64_t changes; /* [lock] of what its view shows; see live_changed */
    bool
        recording; /* [lock] its record is being written: no view is kept, none that is kept told */
    struct {
        char *text; /* the resource as JSON, or NULL */
        size_t len;
        uint64_t of; /* `changes` when it was made */
    } view;          /* [lock] */

    pthread_mutex_t change_lock; /* over a change that depends on what is on record: before the
                                  * others */
    pthread_mutex_t record_lock;
    struct store_execution record; /* mirror of the row */
};

struct live;
struct admission_share;

/* What an execution of these limits takes. */
struct admission_share live_share(const struct host_limits *limits);

int live_new(struct live **out, struct error *err) WARN_UNUSED;
/* Frees every object still registered, whoever references it: no other thread may be left. */
void live_free(struct live *l);
void live_lock(struct live *l);
void live_unlock(struct live *l);
/* [lock] Waits, without the lock, until live_signal or the deadline, or for nothing. */
void live_await(struct live *l, int64_t deadline_mono_ms);
/* [lock] */
void live_signal(struct live *l);

/* Makes the object from a row just inserted or read at start (takes the row's content) and
 * registers it. Its share is admitted already. Returns owned (a reference for the caller). */
struct live_execution *live_add(struct service *s, struct service_host *host,
                                struct store_execution *record);
struct live_execution *live_ref(struct live_execution *x);
void live_unref(struct live_execution *x); /* NULL is fine */
/* live_unref for timers_add_held. */
void live_drop(void *x);
/* Returns owned, or NULL when nothing of the id lives. */
struct live_execution *live_find(struct live *l, const char *tenant, const char *execution_id);
/* Takes it out of the registry and gives back what it had of its tenant's quotas. */
void live_remove(struct live_execution *x);
/* [lock] What a view of it shows has changed. */
void live_changed(struct live_execution *x);
/* The kept view, if nothing has changed since: a copy, returned owned, or NULL. `changes` is what
 * live_view_keep wants of a view that is made from here on. */
char *live_view_copy(struct live_execution *x, size_t *len, uint64_t *changes);
/* Keeps a copy of a view for the next who asks. */
void live_view_keep(struct live_execution *x, const char *text, size_t len, uint64_t changes);
/* Calls `each` for a snapshot of all (references held meanwhile, no lock). */
void live_each(struct live *l, void (*each)(void *ctx, struct live_execution *x), void *ctx);
/* Interrupts provisions, checkpoints and calls for files of all: the service ends. */
void live_interrupt(struct live *l);

struct live_totals {
    int64_t executions, commands_running, commands_queued;
    int64_t turns; /* items of any kind whose turn it is */
    int64_t nano_cpus, memory_bytes, disk_bytes;
};
void live_count(struct live *l, struct live_totals *out);

/* --- the lane --- */

/* Puts an item in; takes a reference for it. ERROR_NOT_FOUND when the execution is ending,
 * ERROR_OVERLOADED when `queue_max` wait already. */
int live_push(struct live_execution *x, struct live_item *item, struct error *err) WARN_UNUSED;
/* The same for a command, whose turn begins on the caller's thread where its host makes that quick
 * and nothing is before it; the caller holds no lock. `serial`: live_item_waits knows it by that.
 */
int live_push_quick(struct live_execution *x, struct live_item *item, uint64_t *serial,
                    struct error *err) WARN_UNUSED;
/* Whether it is in its lane still, for sure: then it is not over on record. Costs no look into the
 * store. */
bool live_item_waits(struct live_execution *x, uint64_t serial);
/* The item's turn is over: the next one starts, or the end that waits for it goes on. The item is
 * not touched afterwards. */
void live_item_done(struct live_item *item);
/* Releases an item that was settled or dropped, with its reference. */
void live_item_release(struct live_item *item);
/* Decides how an item that has its outcome ends: true: the execution is ending, the item is parked,
 * and `settle` and `release` will be called; false: go on at once. */
bool live_item_park(struct live_item *item);
/* Drops (as aborted) the queued items that came with a token lower than `token`. */
void live_fence_out(struct live_execution *x, int64_t token);

/* --- topics and the row --- */

enum { LIVE_TOPIC_SIZE = 160 };
void live_topic_execution(char out[LIVE_TOPIC_SIZE], const char *tenant, const char *execution_id);
void live_topic_command(char out[LIVE_TOPIC_SIZE], int64_t execution_row, const char *command_id);
/* Of its end alone. */
void live_topic_command_end(char out[LIVE_TOPIC_SIZE], int64_t execution_row,
                            const char *command_id);
void live_topic_checkpoint(char out[LIVE_TOPIC_SIZE], const char *tenant, const char *id);
/* Of the events of a tenant. */
void live_topic_tenant(char out[LIVE_TOPIC_SIZE], const char *tenant);
void live_notify(struct live_execution *x);

/* Changes the row: `change` edits a copy; when the store has taken it, it becomes the mirror. */
int live_record(struct live_execution *x, void (*change)(struct store_execution *record, void *ctx),
                void *ctx, struct error *err) WARN_UNUSED;

#endif
