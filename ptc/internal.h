/* Inside of the engine. Three kinds of state: what the event thread alone touches (workers once
 * they are spawned, runs but for their locked part), what engine->lock guards (letters to a
 * thread), what run->lock guards (calls, answers, the wish to end). No file but ptc's own includes
 * this. */
#ifndef EXECHOST_PTC_INTERNAL_H
#define EXECHOST_PTC_INTERNAL_H

#include "ptc/frames.h"
#include "ptc/ledger.h"
#include "ptc/ptc.h"
#include "sandbox/cgroup.h"

#include <pthread.h>

enum { PTC_KINDS_MAX = 8, PTC_TAIL_MAX = 4096, PTC_REASON_MAX = 512, PTC_CARRY_MAX = 4 };
enum { PTC_EMPTY_MAX = 16 };

/* What a process must have been started with; a run may take any of its kind. */
struct ptc_kind {
    enum ptc_mode mode;
    bool network_host;
    int64_t heap_bytes;
    char *workspace_root; /* owned, or NULL */
};

/* --- worker --- */

enum ptc_watch_what {
    PTC_WATCH_WAKE,
    PTC_WATCH_CONTROL,
    PTC_WATCH_OUT,
    PTC_WATCH_ERR,
    PTC_WATCH_INFO,
    PTC_WATCH_EXIT,
};
enum { PTC_WATCH_COUNT = PTC_WATCH_EXIT + 1 };

struct ptc_worker;
struct ptc_watch {
    enum ptc_watch_what what;
    int fd; /* -1: closed */
    struct ptc_worker *worker;
};

enum ptc_worker_state {
    PTC_WORKER_STARTING, /* with the helper, or not ready yet */
    PTC_WORKER_READY,    /* waits for its program */
    PTC_WORKER_RUNNING,
    PTC_WORKER_ENDING, /* killed */
    PTC_WORKER_GONE,   /* reaped; the helper removes its traces */
};

struct ptc_worker {
    struct ptc_engine *engine;
    struct ptc_worker *next;   /* engine->workers */
    struct ptc_worker *letter; /* in a list of the helper or for the loop */
    struct ptc_kind kind;
    bool inside; /* of an execution: of the kind's members only mode and heap count */
    struct ptc_execution execution;
    bool starved; /* inside: killed for want of memory */
    bool used_up; /* inside: all of its CPU time */
    int64_t cpu_ms;
    bool lost; /* inside: ended with its execution */
    enum ptc_worker_state state;
    bool arrived; /* the helper has started it, or failed, and touches it no more */
    bool spawned;
    pid_t pid;
    int inner_fd; /* process 1 inside, a pidfd, or -1 */
    pid_t inner_pid;
    int node_fd; /* the program's process, a pidfd, or -1; of one in the pool */
    struct ptc_watch watch[PTC_WATCH_COUNT];
    int64_t slot;       /* of the host ids, -1: none */
    dev_t place_device; /* the named workspace when the process was started */
    ino_t place_inode;
    uid_t place_owner;
    struct cgroup_set group;
    char group_name[CGROUP_NAME_MAX];
    struct ptc_frames frames;
    struct buf tail; /* of standard error */
    char carry[2][PTC_CARRY_MAX];
    size_t carry_len[2];
    struct ptc_run *run;
    bool exited;
    int status;
    bool channel_closed;
    int64_t deadline; /* ENDING: processes and output must be gone; closed channel: exit */
    int64_t cpu_before_ms;
    struct error failure; /* why it could not be spawned */
    bool stuck;           /* the helper could not remove its traces */
};

/* --- run --- */

struct ptc_pending {
    int64_t id;
    size_t bytes;
};

struct ptc_run {
    struct ptc_engine *engine;
    struct ptc_run *next;   /* engine->runs */
    struct ptc_run *letter; /* engine->new_runs or engine->stirred */
    int references;         /* under engine->lock */
    /* event thread */
    struct ptc_run_events events;
    void *ctx;
    struct ptc_spec spec; /* its own reference to the JSON */
    json_t *names;        /* object: "<global>" -> object of function names as JSON text */
    struct ptc_worker *worker;
    struct ptc_ledger ledger;
    int64_t deadline; /* -1: none */
    bool booted;
    bool chosen;
    enum ptc_error_kind kind;
    struct buf value;   /* JSON; empty: none */
    struct buf message; /* JSON */
    int64_t last_id;
    size_t outstanding;
    /* run->lock */
    pthread_mutex_t lock;
    bool stirred; /* is in engine->stirred */
    bool over;
    bool aborted;
    char *reason;
    bool flooded; /* too much waits to be written */
    struct ptc_sending sending;
    struct ptc_pending *pending;
    size_t pending_count;
    int64_t *answered; /* settled events to come */
    size_t answered_count;
    size_t answered_size;
    int64_t calls; /* seen */
};

/* --- engine --- */

struct ptc_recent {
    struct ptc_kind kind;
    int64_t used_at;
};

struct ptc_engine {
    /* constant */
    char *node;
    char *hidden;
    struct ptc_engine_config config; /* its strings are not to be used */
    int node_fd, bwrap_fd, launch_fd, inside_fd, stage_fd, lent_fd, seccomp_fd;
    char loader[64]; /* of the Node that is lent; see ptc/inside/protocol.h */
    bool electron;
    bool grouped;
    struct cgroup_set groups; /* parent of all */
    char groups_name[CGROUP_NAME_MAX];
    struct cgroup_set group_roots;
    char *stage; /* path of the directory */
    enum ptc_enforcement enforcement;
    char reason[PTC_REASON_MAX];
    pthread_t loop_thread, helper_thread;
    /* event thread */
    int epoll;
    struct ptc_watch wake;
    struct ptc_worker *workers;
    struct ptc_run *runs;
    struct ptc_recent recent[PTC_KINDS_MAX];
    size_t recent_count;
    int64_t refill_at;
    int64_t quiet_until;
    int64_t taken_at;
    int64_t cpu_look_at;
    struct buf room;
    /* helper thread */
    unsigned char *slots;
    /* engine->lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool probed;
    bool stopping;
    bool stopped;
    bool helper_ends;
    char *stop_reason;
    int64_t away; /* threads that start processes inside of executions */
    int64_t live; /* runs without result */
    int64_t ready;
    struct ptc_run *new_runs;
    struct ptc_run *stirred;
    struct ptc_worker *to_spawn;
    struct ptc_worker *to_remove;
    int to_empty[PTC_EMPTY_MAX]; /* pidfds, owned */
    size_t empty_count;
    struct ptc_worker *arrived; /* spawned or removed */
};

/* node.c: whether it is Electron; -1 when it is no Node that is new enough. */
int ptc_node_probe(const char *path, bool *electron, struct error *err) WARN_UNUSED;

/* stage.c: the directory that launchers mount, with the files of the service. */
int ptc_stage_make(struct ptc_engine *e, struct error *err) WARN_UNUSED;
void ptc_stage_remove(struct ptc_engine *e);

/* kinds (pool.c) */
int ptc_kind_of(const struct ptc_spec *spec, struct ptc_kind *out) WARN_UNUSED;
int ptc_kind_copy(const struct ptc_kind *kind, struct ptc_kind *out) WARN_UNUSED;
void ptc_kind_done(struct ptc_kind *kind);
bool ptc_kind_equals(const struct ptc_kind *a, const struct ptc_kind *b);

/* pool.c, event thread. */
/* A process for the run: one that is ready, or is starting for nobody, or a new one. */
struct ptc_worker *ptc_pool_take(struct ptc_engine *e, const struct ptc_kind *kind);
/* Starts what is missing, ends what nobody asked for in a while. */
void ptc_pool_tend(struct ptc_engine *e, int64_t now);
struct ptc_worker *ptc_pool_start(struct ptc_engine *e, const struct ptc_kind *kind);
/* The last run is over: its answer goes out before anything is started. */
void ptc_pool_rest(struct ptc_engine *e);

/* sandbox.c, helper thread: starts the process of a worker whose kind is set. */
int ptc_sandbox_spawn(struct ptc_worker *w, struct error *err) WARN_UNUSED;
/* The group's limits; they may change until the program runs. */
int ptc_sandbox_limit(struct ptc_worker *w, const struct ptc_limits *limits,
                      struct error *err) WARN_UNUSED;

/* lend.c: fills the directory that is lent. Failing, nothing is lent. */
int ptc_lend_make(struct ptc_engine *e, int lent, struct error *err) WARN_UNUSED;
/* Owned mounts that stand nowhere; -1 with errno. */
int ptc_lend_mounts(const struct ptc_engine *e, int *directory, int *node) WARN_UNUSED;

/* execution.c: a worker inside of an execution. Started on a thread of its own, for a host may take
 * its time; it arrives like any other. */
void ptc_execution_start(struct ptc_worker *w);
int ptc_execution_spawn(struct ptc_worker *w, struct error *err) WARN_UNUSED;
/* What the leash says: false: nothing yet. */
bool ptc_execution_ended(struct ptc_worker *w);
void ptc_execution_kill(struct ptc_worker *w);

/* helper.c */
void ptc_helper_give_back(struct ptc_worker *w);
void *ptc_helper_main(void *engine);
void ptc_helper_spawn(struct ptc_worker *w);
void ptc_helper_remove(struct ptc_worker *w);
/* Has the memory of a process that was killed given back beside its end. Takes the pidfd. */
void ptc_helper_empty(struct ptc_engine *e, int pidfd);
/* Groups that an earlier service left, with whatever lives in them. */
void ptc_helper_sweep(struct ptc_engine *e);

/* loop.c */
void *ptc_loop_main(void *engine);
void ptc_loop_wake(struct ptc_engine *e);
int ptc_loop_watch(struct ptc_engine *e, struct ptc_watch *watch, uint32_t events) WARN_UNUSED;

/* worker.c, event thread */
struct ptc_worker *ptc_worker_new(struct ptc_engine *e, const struct ptc_kind *kind);
void ptc_worker_free(struct ptc_worker *w);
void ptc_worker_close(struct ptc_worker *w, enum ptc_watch_what what);
void ptc_worker_arrived(struct ptc_worker *w); /* from the helper, spawned or failed */
void ptc_worker_event(struct ptc_worker *w, enum ptc_watch_what what, uint32_t events);
void ptc_worker_kill(struct ptc_worker *w);
void ptc_worker_look(struct ptc_worker *w, int64_t now); /* deadlines */
void ptc_worker_want_write(struct ptc_worker *w, bool wanted);

/* run.c, event thread */
void ptc_run_begin(struct ptc_run *run);
void ptc_run_ready(struct ptc_run *run);  /* its worker became ready */
void ptc_run_stir(struct ptc_run *run);   /* answers and aborts that came */
void ptc_run_flush(struct ptc_run *run);  /* writes what waits */
void ptc_run_frames(struct ptc_run *run); /* handles whole frames of its worker */
void ptc_run_output(struct ptc_run *run, struct ptc_text text); /* what came through a pipe */
void ptc_run_look(struct ptc_run *run, int64_t now);

/* run_end.c, event thread */
void ptc_run_choose(struct ptc_run *run, enum ptc_error_kind kind, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void ptc_run_choose_json(struct ptc_run *run, enum ptc_error_kind kind, struct ptc_text message);
/* In place of what was chosen. */
void ptc_run_replace(struct ptc_run *run, enum ptc_error_kind kind, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void ptc_run_lost(struct ptc_run *run, const char *how); /* the process ended without a result */
void ptc_run_finish(struct ptc_run *run);                /* all is gone: the result */

#endif
