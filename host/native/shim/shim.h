/* What the files of the shim share: one process, one thread, no heap. It runs as root outside of
 * the sandbox and trusts the service; of what is inside it trusts nothing but process 1 until that
 * has started the first program, and from then on only what the kernel says. */
#ifndef EXECHOST_HOST_NATIVE_SHIM_SHIM_H
#define EXECHOST_HOST_NATIVE_SHIM_SHIM_H

#include "host/native/protocol.h"
#include "host/native/wire.h"
#include "sandbox/cgroup.h"
#include "sandbox/sandbox.h"

#include <poll.h>

static inline void shim_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

int64_t shim_now_ms(void);

/* --- plan.c: what is to be started --- */

struct plan {
    char **argv; /* inside the mapping */
    char **envp;
    const char *cwd;
    void *mapping;
    size_t size;
};
/* Maps the memory file; -1 with errno. */
int plan_open(int fd, struct plan *out);
void plan_close(struct plan *plan);

/* --- the running command, command.c --- */

struct stream {
    int fd;       /* -1: at its end */
    int64_t owed; /* once the leader has ended: what it had written and is still to be read */
};

struct command {
    char id[SHIM_ID_SIZE]; /* "": none so far */
    bool running;          /* until it has a result */
    uint32_t serial;
    struct stream streams[2];
    unsigned turn;

    int input; /* memory file of what is to be written to the program; -1: nothing */
    int64_t input_at;
    int64_t input_end;
    bool input_open; /* more may come */
    bool input_was_open;
    int program_in; /* write end, or -1 */

    int spool;
    int64_t spool_end;
    int64_t spool_told;
    int64_t output; /* bytes kept */
    int64_t output_max;
    int64_t timeout_at;
    int64_t oom_before;
    bool ended;               /* the leader has */
    int64_t late_at;          /* when its pipes are given up */
    bool told;                /* the service knows the result */
    struct shim_event result; /* what FINISHED says */
};

/* --- the service's programs, program.c --- */

enum { PROGRAMS_MAX = 16 };

struct program {
    bool used;
    bool ending;
    pid_t pid; /* 0: reaped */
    int leash;
    int status;
    uint32_t number;
    struct cgroup_set group; /* its own, below the sandbox's */
    int64_t oom_before;
    int64_t cpu_ms;
    bool cpu_used_up;
    int64_t look_at;
};

/* --- the shim --- */

enum {
    SLOT_LISTEN,
    SLOT_SERVICE,
    SLOT_INIT,
    SLOT_SIGNAL,
    SLOT_OOM,
    SLOT_OUT,
    SLOT_ERR,
    SLOT_PROGRAM_IN,
    SLOT_COUNT
};

struct shim {
    struct shim_start start;
    struct sandbox_identity identity;
    struct cgroup_set parents;
    struct cgroup_set group;
    int fds[SHIM_START_FDS];
    int service; /* the connection, or -1 */
    int init;    /* the socket of process 1 */
    int signals;
    int oom;
    short oom_events;
    int workspace;  /* a descriptor of its file system */
    pid_t init_pid; /* 0 once it is reaped */
    int init_pidfd;
    int own_pids; /* the shim's own pid namespace */
    bool gone_told;
    int64_t deadline;
    uint32_t serial;
    uint32_t helper_serials[8]; /* outside helpers under way */
    pid_t helper_pids[8];
    uint32_t signals_asked[8]; /* requests whose signal process 1 has not passed on yet; 0: none */
    struct program programs[PROGRAMS_MAX];
    uint32_t programs_started;
    int64_t program_oom_kills; /* of those that are gone, where the sandbox's group does not count
                                  them */
    struct command command;
    struct pollfd poll[SLOT_COUNT + PROGRAMS_MAX];
};

/* To the service, if there is one; a broken connection is closed, and one that takes nothing for a
 * second too. */
void shim_answer(struct shim *s, const struct shim_event *event);
/* The same without waiting; false: not now, SLOT_SERVICE will tell when. */
bool shim_tell(struct shim *s, const struct shim_event *event);
void shim_greet(struct shim *s);
void shim_read_usage(const struct shim *s, struct shim_event *event);
/* Used, or all there is; -1 unknown. */
int64_t shim_workspace_bytes(const struct shim *s, bool all);

/* birth.c: cgroups, namespaces, process 1. */
int birth(struct shim *s, struct sandbox_fault *fault);
/* init.c: becomes process 1; `socket` is its end. */
struct init_birth {
    const struct sandbox_mounts *mounts;
    const struct sandbox_identity *identity;
    const char *host_name;
    int filter;
    int socket;
};
_Noreturn void init_main(const struct init_birth *birth);

/* control.c: what the service asks for. */
void control_receive(struct shim *s);
void control_accept(struct shim *s);
/* helper.c: our own program inside; 0 or errno. */
int helper_start(struct shim *s, const struct shim_request *request, const int *fds);
void helper_ended(struct shim *s, pid_t pid, int status);

/* program.c: 0 or errno. */
int program_start(struct shim *s, const struct shim_request *request, const int *fds);
void program_ended(struct shim *s, pid_t pid, int status);
void programs_watch(struct shim *s);
void programs_serve(struct shim *s);
int64_t programs_wake_at(const struct shim *s); /* INT64_MAX: never */
/* Process 1 and all that ran inside are gone. */
void programs_drop(struct shim *s);
/* What the kernel killed for memory, of commands and programs; -1 unknown. */
int64_t shim_oom_kills(const struct shim *s);

/* command.c */
int command_start(struct shim *s, const struct shim_request *request, const int *fds,
                  size_t fd_count);
void command_watch(struct shim *s);
int64_t command_wakes_at(const struct shim *s); /* INT64_MAX: never */
void command_serve(struct shim *s);
void command_init_event(struct shim *s, const struct init_event *event);
void command_out_of_memory(struct shim *s);
/* Nothing runs any more: it ends, with what is still in its pipes. */
void command_lost(struct shim *s);
void command_tell(struct shim *s);
bool command_has_news(const struct shim *s);
/* A service that has just come knows nothing yet. */
void command_tell_anew(struct shim *s);
/* input.c: writes what the program takes now. */
void command_pump(struct command *c);
/* 0 or errno. */
int command_input(struct shim *s, const struct shim_request *request, int fd);
/* The same, or SHIM_LATER: it is answered once process 1 has passed the signal on, so that what
 * the client does next finds it done. What is frozen gets it when it goes on; that is not waited
 * for. */
enum { SHIM_LATER = -1 };
int command_signal(struct shim *s, const struct shim_request *request);
void command_signal_passed(struct shim *s, uint32_t token);
/* Answers all that wait. */
void command_signals_settle(struct shim *s);

/* end.c */
/* Kills everything inside and reaps process 1; -1 with errno when it does not die. */
int end_kill(struct shim *s);
/* Kills, and removes cgroups and the directory: nothing is left but this process. */
int end_all(struct shim *s);

#endif
