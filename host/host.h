/* The boundary between the service and what runs executions: five operations (provision, exec,
 * checkpoint, restore, terminate) and what a restart needs (list, adopt, reclaim). Everything above
 * knows only this page; whether a container or a namespace stands behind is the host's own matter.
 *
 * Threads: every operation may be called from any thread at the same time for different executions;
 * for one execution the caller never overlaps two, except `terminate`, which may come at any time
 * and interrupts what runs, and `exec_input`, `exec_signal` and `guest`, which may come while a
 * command runs, also several at once. All operations block (engine calls, transfers) and belong on
 * the worker pool, but `exec`, which returns once the program was started and reports through
 * events, and the latter two, which queue and return. */
#ifndef EXECHOST_HOST_HOST_H
#define EXECHOST_HOST_HOST_H

#include "base/cancel.h"
#include "base/error.h"
#include "host/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host;
struct host_exec;
struct host_guest;
struct host_guest_call;  /* host/guest.h */
struct workspace_reader; /* workspace/archive.h: yields the entries of a verified checkpoint */
struct workspace_sink;   /* workspace/entry.h: takes entries one after the other */

/* What an execution has used, -1 where the host can't tell. */
struct host_usage {
    int64_t cpu_ms;
    int64_t memory_peak_bytes;
    int64_t pids_peak;
    int64_t workspace_bytes;
};

struct host_provisioned {
    char *handle; /* owned; how the host finds it again; ≤ 1 KiB; opaque to everybody else */
    char *image_digests; /* owned; JSON array of every digest that names the image */
};

void host_provisioned_done(struct host_provisioned *p);

/* --- exec --- */

enum host_stream { HOST_STDOUT, HOST_STDERR };

struct host_exec_result {
    bool started;       /* false: not-started, exit_code is 126 or 127 and detail says why */
    int exit_code;      /* 0..255, -1 when a signal ended it or the host can't know */
    int signal;         /* number, 0 when none */
    bool oom;           /* an OOM kill happened in the execution while the command ran */
    bool runner_killed; /* the exit code is the host's word for a runner that was killed: memory may
                         * have been why */
    bool lost;          /* the host lost the command (engine gone, container gone): no result */
    bool unheard;       /* beside lost: the host never had the command, so nothing of it ran */
    int output_errno;   /* why the host could not keep all output, and ended the execution; 0 */
    bool gone;          /* nothing of the execution runs any more */
    bool timed_out;     /* its time was over while no service was there, and the host ended it */
    bool detached;      /* the service stops, the command goes on: nothing is to be recorded */
    int64_t cpu_ms;     /* of the command's process tree as far as waited for; -1 unknown */
    int64_t memory_peak_bytes; /* of the execution; -1 unknown */
    struct host_usage usage;   /* of the execution up to now */
    char detail[256];          /* for people; "" when there is nothing to say */
};

/* Called on one thread of the host's choosing, in order, never two at a time. They must not block
 * for longer than a write to the page cache takes, and must not call back into the host. */
struct host_exec_events {
    /* Returns false to take no more output: the host then discards what follows. */
    bool (*output)(void *ctx, enum host_stream stream, const void *data, size_t len);
    /* Exactly once, last; nothing of `ctx` is touched afterwards. */
    void (*finished)(void *ctx, const struct host_exec_result *result);
    void *ctx;
};

struct host_exec_plan {
    struct host_identity id; /* borrowed strings */
    const char *handle;      /* borrowed */
    const char *command_id;  /* borrowed; names it for exec_input and exec_signal */
    const char *const *argv; /* NULL-ended; argv[0] is searched in the effective PATH inside */
    const char *cwd;         /* relative to the workspace, normalised, "" is the workspace */
    const char *const *environment; /* NULL-ended "NAME=VALUE" of the command alone */
    bool has_stdin;                 /* false: /dev/null, unless `stdin_open` */
    const void *stdin_data;         /* copied before exec returns */
    size_t stdin_len;
    bool stdin_open;    /* more comes by exec_input, behind stdin_data; false: EOF follows it */
    int64_t timeout_ms; /* of the command, as far as the host sees to it alone; < 0: none */
    struct host_limits limits; /* of the execution */
};

/* So many bytes of standard input may wait for a program that does not read them. */
enum { HOST_INPUT_MAX = 4 * 1024 * 1024 };

/* A running command, as its plan named it; everything borrowed. */
struct host_exec_ref {
    struct host_identity id;
    const char *handle;
    const char *command_id;
};

/* A command that an earlier run of the service started; everything borrowed. */
struct host_exec_resume {
    struct host_exec_ref command;
    const char *name; /* argv[0] and cwd, for texts */
    const char *cwd;
    int64_t stdout_bytes; /* so much of its output is recorded already */
    int64_t stderr_bytes;
};

/* --- programs of the service's --- */

/* Runs inside beside whatever else does, as the commands' user and under the execution's limits, in
 * a control group of its own below the execution's; a checkpoint freezes it with the rest. All
 * borrowed until `program` returns. */
struct host_program_plan {
    const char *handle;
    int program;             /* a static executable */
    const char *const *argv; /* NULL-ended; of the environment it gets the execution's PATH */
    int streams[4];          /* become its descriptors 0 to 3; it has no others */
    int lent;       /* a mount that stands nowhere yet, of a directory: it sees it at HOST_LENT */
    int lent_file;  /* likewise of a file, for HOST_LENT_FILE, which is there already */
    int64_t cpu_ms; /* CPU time that it may use with its descendants, as far as that is counted */
    bool read_only; /* it may not write workspace, /tmp and /dev/shm */
};
#define HOST_LENT "/.exechost"
#define HOST_LENT_FILE "/.exechost/node"
/* Where it can't be set up, a line on its standard error begins so. */
#define HOST_PROGRAM_FAULT "launch: "

/* What comes through the leash once nothing of it is left; end of file without it: it has ended
 * with its execution. */
struct host_program_end {
    int32_t status; /* as wait(2) */
    uint32_t oom_killed;
    uint32_t cpu_used_up; /* ended for `cpu_ms` */
};

/* --- recovery --- */

struct host_found {
    char *tenant; /* owned strings */
    char *execution_id;
    unsigned incarnation;
    char *handle;
    char *owner_id;        /* as provisioned, or NULL */
    int64_t fencing_token; /* as provisioned; 0 without owner */
    bool ours;             /* made by this instance */
    bool running;          /* usable; false: dead or never started */
    bool frozen;
};

struct host_found_list {
    struct host_found *items;
    size_t count;
};

void host_found_done(struct host_found *found);
/* Takes what `found` owns, also on failure. */
int host_found_list_add(struct host_found_list *list, struct host_found *found,
                        struct error *err) WARN_UNUSED;
void host_found_list_done(struct host_found_list *list);

/* What the host tells without being asked; any thread, must not block. */
struct host_observer {
    /* The execution's environment ended by itself or from outside. */
    void (*gone)(void *ctx, const struct host_identity *id, const char *detail);
    /* The kernel killed something of it for memory. */
    void (*oom)(void *ctx, const struct host_identity *id);
    /* The host can be reached (again), or can't any more: what it holds is to be compared anew. */
    void (*up)(void *ctx, bool up);
    void *ctx;
};

struct host_image {
    char *reference; /* owned; NAME@sha256:… */
    char *digests;   /* owned; JSON array */
    int64_t size_bytes;
};

struct host_image_list {
    struct host_image *items;
    size_t count;
};

void host_image_list_done(struct host_image_list *list);

struct host_status {
    bool available;
    char reason[256];        /* why not */
    char engine_version[64]; /* "" when there is no engine */
    char engine_api[16];
    struct host_limit_ranges ranges;
};

struct host_ops {
    const char *name;      /* "docker", "native" */
    bool commands_survive; /* what runs goes on without the service; then `exec_resume` is there */
    bool exec_is_quick;    /* `exec` waits for no answer of whoever runs the program */

    /* Looks whether the host can work now; never fails, says so in `out`. */
    void (*probe)(struct host *h, struct host_status *out);
    /* The checks that need a look and create nothing: image present (pulls when the configuration
     * allows), fit for use. IMAGE_NOT_FOUND, CREDENTIAL, INVALID_REQUEST, HOST_UNAVAILABLE. */
    int (*check_image)(struct host *h, const char *image, struct cancel *cancel, struct error *err);
    /* Creates, reads the limits back, imports the workspace. Whatever fails, nothing is left, or
     * the error in PHASE_CLEANUP names both causes (ERROR_RUNTIME, or HOST_UNAVAILABLE where that
     * is why), and the caller keeps retrying terminate. */
    int (*provision)(struct host *h, const struct host_provision_plan *plan,
                     struct host_provisioned *out, struct error *err);
    /* As provision, then loads the entries of `archive` (borrowed, verified) into the workspace. */
    int (*restore)(struct host *h, const struct host_provision_plan *plan,
                   struct workspace_reader *archive, struct host_provisioned *out,
                   struct error *err);
    /* Starts a program; on success `events.finished` will be called exactly once. ERROR_OVERLOADED:
     * nothing of it was begun. */
    int (*exec)(struct host *h, const struct host_exec_plan *plan,
                const struct host_exec_events *events, struct error *err);
    /* Takes a command that survived into use again, running or over: output behind what is known
     * and `events.finished` come as after exec. A command that the host knows nothing of is `lost`.
     * Only for an execution that was adopted. */
    int (*exec_resume)(struct host *h, const struct host_exec_resume *resume,
                       const struct host_exec_events *events, struct error *err);
    /* Queues bytes (copied) of standard input behind those before; `eof` closes it behind them. The
     * bytes of one call stay together. Of a program that has closed its end they are dropped.
     * ERROR_COMMAND_NOT_FOUND: it is not running here (any more); ERROR_INVALID_REQUEST: it was
     * started without stdin_open, or its input is closed already; ERROR_OVERLOADED: more than
     * HOST_INPUT_MAX would wait, and nothing was queued. */
    int (*exec_input)(struct host *h, const struct host_exec_ref *command, const void *data,
                      size_t len, bool eof, struct error *err);
    /* Sends signal number `signo` to the program and its process group, past all input that waits.
     * A program that is just starting gets it once it has started. ERROR_COMMAND_NOT_FOUND as
     * above; ERROR_OVERLOADED: too many wait. */
    int (*exec_signal)(struct host *h, const struct host_exec_ref *command, int signo,
                       struct error *err);
    /* Starts the helper inside beside whatever runs (as the user, in the workspace) and hands out
     * the conversation with it (host/guest.h; what is asked: host/files.h); returns owned. Several
     * may be under way at once; `checkpoint` never is meanwhile. */
    int (*guest)(struct host *h, const struct host_guest_call *call, struct host_guest **out,
                 struct error *err);
    /* Starts a program of the service's; NULL where the host has no such thing. `*leash` (owned): a
     * socket that tells of its end; shutting down its sending side, or closing it, ends the program
     * with all its descendants. ERROR_RUNTIME, ERROR_OVERLOADED: too many in this execution. */
    int (*program)(struct host *h, const struct host_program_plan *plan, int *leash,
                   struct error *err);
    /* Freezes, feeds the workspace's entries into `sink` in archive order, thaws in every case. */
    int (*checkpoint)(struct host *h, const struct host_checkpoint_plan *plan,
                      struct workspace_sink *sink, struct error *err);
    /* Destroys and proves that nothing is left. Unknown: fine. `handle` may be NULL. Commands that
     * run end: their `finished` comes (lost = true unless they had ended). */
    int (*terminate)(struct host *h, const struct host_identity *id, const char *handle,
                     struct error *err);
    /* Re-arms the deadline inside; `deadline_wall_ms` is when it must be gone. */
    int (*extend)(struct host *h, const struct host_identity *id, const char *handle,
                  int64_t deadline_wall_ms, struct error *err);

    /* Everything of any instance that this host holds (explicit reclaim needs the others' too). */
    int (*list)(struct host *h, struct host_found_list *out, struct error *err);
    /* Takes a living one of ours into use again, thawing it. */
    int (*adopt)(struct host *h, const struct host_found *found, struct error *err);
    /* Destroys one found by list, whoever made it, and proves it. */
    int (*destroy)(struct host *h, const struct host_found *found, struct error *err);

    int (*image_list)(struct host *h, struct host_image_list *out, struct error *err);
    int (*image_pull)(struct host *h, const char *reference, struct host_image *out,
                      struct error *err);
    int (*image_remove)(struct host *h, const char *reference, struct error *err);
    /* Imports a rootfs tar, `docker save` archive or OCI layout; returns the pinned reference. */
    int (*image_import)(struct host *h, const char *name, const char *file, struct host_image *out,
                        struct error *err);

    /* The service stops: every running command's `finished` comes now (lost, or detached where
     * commands survive), then no event comes any more. Operations under way go on. */
    void (*stop)(struct host *h);
    /* After stop, when no operation is under way. */
    void (*free)(struct host *h);
};

/* Embedded first in every host's own struct. */
struct host {
    const struct host_ops *ops;
};

#endif
