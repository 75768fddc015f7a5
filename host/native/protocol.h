/* How the service and a shim speak, and a shim with process 1 of its sandbox: one SOCK_SEQPACKET
 * message each, these structures as they are in memory (both ends run on one machine and are built
 * from one tree; SHIM_VERSION says whether they still are), descriptors beside. Header only; shared
 * with the shim, which knows nothing of the service.
 *
 * The service starts a shim with a socket as descriptor SHIM_FD and sends SHIM_START; the shim
 * answers SHIM_READY or SHIM_FAILED. The connection stays: requests one way, replies and events the
 * other. A service that has been started anew connects to the listening socket in the execution's
 * directory instead and is greeted with SHIM_READY. The newest connection counts. */
#ifndef EXECHOST_HOST_NATIVE_PROTOCOL_H
#define EXECHOST_HOST_NATIVE_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

enum { SHIM_VERSION = 1, SHIM_FD = 3, SHIM_ID_SIZE = 65, SHIM_TEXT_SIZE = 128 };

/* What every shim has in its execution's directory. */
#define SHIM_SOCKET "socket"
#define SHIM_SPOOL_SUFFIX ".spool"

/* --- start --- */

/* Descriptors that come with SHIM_START, in this order; then those of the cgroup hierarchies. */
enum {
    SHIM_START_DIRECTORY, /* the execution's */
    SHIM_START_IMAGE,     /* the root file system */
    SHIM_START_HOLD,      /* kept open for the sandbox's life: the image's lock */
    SHIM_START_UID,       /* kept open too: reserves the user id */
    SHIM_START_LISTEN,    /* listening socket */
    SHIM_START_FILTER,    /* system call filter */
    SHIM_START_FDS,
};
enum { SHIM_FDS_MAX = 12 };

struct shim_start {
    uint32_t version;
    uint32_t uid; /* inside */
    uint32_t gid;
    uint32_t host_uid; /* outside */
    uint32_t host_gid;
    uint32_t tree_count; /* hierarchies: descriptors of the parent directories, version and uses */
    uint32_t tree_version[5];
    uint32_t tree_uses[5];
    char cgroup[SHIM_ID_SIZE * 3];
    char host_name[SHIM_ID_SIZE];
    int64_t nano_cpus;
    int64_t memory_bytes;
    int64_t pids;
    int64_t workspace_bytes;
    int64_t workspace_inodes;
    int64_t tmp_bytes;
    int64_t shm_bytes;
    int64_t lifetime_ms; /* from now; SHIM_SLACK_MS later the shim ends everything by itself */
};
enum { SHIM_SLACK_MS = 2000 };

/* --- requests --- */

enum shim_request_type {
    SHIM_EXEC = 1, /* a command: descriptors plan, and standard input with SHIM_HAS_STDIN */
    SHIM_RESUME,   /* tell of the last command again: SHIM_OUTPUT, and SHIM_FINISHED if it is */
    SHIM_INPUT,    /* descriptor: more standard input, value bytes; SHIM_EOF: the last */
    SHIM_SIGNAL,   /* value: number; to the command's leader and its group */
    SHIM_HELPER,   /* descriptors plan, program, stdin, stdout: our own program inside */
    SHIM_EXTEND,   /* value: ms from now that the lifetime ends */
    SHIM_FREEZE,
    SHIM_THAW,
    /* SHIM_PROGRAM_FDS descriptors: a program of the service's beside the commands. value: ms of
     * CPU time that all of it may use, where the kernel counts that. */
    SHIM_PROGRAM,
    SHIM_TERMINATE, /* destroys; after SHIM_REPLY the shim cleans its directory and ends */
};

enum shim_request_flags {
    SHIM_HAS_STDIN = 1,
    SHIM_STDIN_OPEN = 2, /* more comes by SHIM_INPUT */
    SHIM_EOF = 4,
    SHIM_READ_ONLY = 16, /* program: sees what commands may write, and may not */
    SHIM_OUTSIDE = 8,    /* helper: outside of the cgroups, so that freezing does not stop it */
};

struct shim_request {
    uint32_t type;
    uint32_t serial; /* comes back in the reply */
    uint32_t flags;
    uint32_t reserved;
    char command[SHIM_ID_SIZE];
    int64_t value;
    int64_t timeout_ms;       /* exec: counts only while no service is there; < 0: none */
    int64_t max_output_bytes; /* exec */
};

/* Of SHIM_PROGRAM, in this order. The leash is a socket: when the other end can't be read from any
 * more, by shutdown or because nobody has it, the program is ended; a struct shim_program_end comes
 * once nothing of it is left, and end of file alone where the whole sandbox goes. What is lent is a
 * mount of a directory and one of a file for SHIM_LENT_FILE in there. What goes wrong between fork
 * and exec is a line on the program's standard error behind SHIM_PROGRAM_FAULT. */
enum {
    SHIM_PROGRAM_PLAN,
    SHIM_PROGRAM_PROGRAM, /* a static one */
    SHIM_PROGRAM_STREAMS, /* its descriptors 0 … */
    SHIM_PROGRAM_LEASH = SHIM_PROGRAM_STREAMS + 4,
    SHIM_PROGRAM_LENT,
    SHIM_PROGRAM_LENT_FILE,
    SHIM_PROGRAM_FDS,
};
#define SHIM_LENT_FILE "node"
#define SHIM_PROGRAM_FAULT "launch: "

struct shim_program_end {
    int32_t status; /* as wait(2) */
    uint32_t oom_killed;
    uint32_t cpu_used_up;
};

/* The plan is a memory file: this, then `argc` + `envc` strings with their NULs, then `cwd`. */
struct shim_plan {
    uint32_t argc; /* ≥ 1 */
    uint32_t envc;
    uint64_t size; /* of all of it */
};

/* --- replies and events --- */

enum shim_event_type {
    SHIM_READY = 1,
    SHIM_FAILED,   /* to start: text is the step, errnum why; the shim has cleaned up and ends */
    SHIM_REPLY,    /* to every request but exec and resume: errnum 0 or why not */
    SHIM_OUTPUT,   /* the spool of `command` is whole up to `spool_end` */
    SHIM_FINISHED, /* the command is over; all its output has been told of */
    SHIM_HELPED,   /* the helper of `serial` is over: `status` */
    SHIM_GONE,     /* nothing runs inside any more */
};

enum shim_result_flags {
    SHIM_NOT_STARTED = 1, /* errnum says why … */
    SHIM_IN_CWD = 2,      /* … and this that it was the working directory */
    SHIM_OOM_KILLED = 4,
    SHIM_TIMED_OUT = 8,     /* ended by the shim, no service being there */
    SHIM_OVERFLOWED = 16,   /* likewise */
    SHIM_SPOOL_FAILED = 32, /* output could not be kept: errnum */
    SHIM_LOST = 64,         /* process 1 went first */
    SHIM_ENDED = 128,       /* nothing runs inside any more; SHIM_GONE does not come */
    SHIM_UNHEARD = 256,     /* beside SHIM_LOST: that command never came here, nor will it */
};

struct shim_event {
    uint32_t type;
    uint32_t serial;
    int32_t errnum;
    uint32_t flags;
    int32_t status; /* as wait(2) */
    uint32_t version;
    uint32_t frozen;
    uint32_t alive; /* of the greeting: process 1 runs */
    char command[SHIM_ID_SIZE];
    char text[SHIM_TEXT_SIZE];
    int64_t spool_end;
    int64_t cpu_ms; /* of the command */
    int64_t usage_cpu_ms;
    int64_t usage_memory_peak_bytes;
    int64_t usage_pids_peak;
    int64_t usage_workspace_bytes;
    int64_t nano_cpus; /* of the greeting: the limits in force */
    int64_t memory_bytes;
    int64_t pids;
    int64_t workspace_bytes;
    int64_t pid; /* of the greeting: the shim's */
};

/* The spool: records of a stream each, as they came. */
struct shim_spool_head {
    uint32_t len;
    uint32_t stream; /* 1 stdout, 2 stderr */
};
enum { SHIM_SPOOL_PIECE = 64 * 1024 };

/* --- the shim and process 1 --- */

enum shim_init_type { INIT_GO = 1, INIT_SPAWN, INIT_SIGNAL };
enum shim_init_flags { INIT_HAS_STDIN = 1, INIT_HELPER = 2 };

/* spawn: descriptors plan, stdout, stderr, and stdin with INIT_HAS_STDIN; of a helper plan, stdin,
 * stdout, its program, and the directory of the memory group. */
struct init_request {
    uint32_t type;
    uint32_t serial;
    uint32_t flags;
    int32_t signal;
    uint32_t token; /* signal: what SIGNALLED says again */
    uint32_t reserved;
};

enum shim_init_event_type {
    INIT_UP = 1,
    INIT_BROKEN,
    INIT_STARTED,
    INIT_REFUSED,
    INIT_EXITED,
    INIT_SIGNALLED /* sent, or kept until the program has begun */
};

struct init_event {
    uint32_t type;
    uint32_t serial;
    int32_t errnum;
    int32_t status;
    uint32_t in_cwd;
    uint32_t token;
    int64_t cpu_ms;
    char text[SHIM_TEXT_SIZE];
};

#endif
