/* What the files of the helper share. One process, one thread, no heap but the list in load.c;
 * nothing here may wait for the program it runs: only for the service, which reads and writes the
 * other ends. */
#ifndef EXECHOST_GUEST_GUEST_H
#define EXECHOST_GUEST_GUEST_H

#include "guest/protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

static inline void guest_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* --- frame.c: descriptors 0 and 1 as frames --- */

/* One frame on its way out. Filled while empty, then flushed until empty. */
struct frame_out {
    size_t start;
    size_t end;
    uint8_t bytes[GUEST_FRAME_HEADER + GUEST_FRAME_MAX];
};
static inline bool frame_out_empty(const struct frame_out *out)
{
    return out->start == out->end;
}
/* Where a payload goes before frame_out_seal says what it is. */
static inline uint8_t *frame_out_payload(struct frame_out *out)
{
    return out->bytes + GUEST_FRAME_HEADER;
}
void frame_out_seal(struct frame_out *out, enum guest_frame_type type, size_t len);
/* Writes what standard output takes now: 0, also when that is not all; -1: the reader is gone. */
int frame_out_flush(struct frame_out *out);
/* Waits for the reader until all is written; -1 when it is gone. */
int frame_out_drain(struct frame_out *out);

/* Reads one frame from standard input, waiting for it: 1, 0 at the end between two frames, -1 with
 * errno (EPROTO: cut or longer than GUEST_FRAME_MAX). `payload`: room for GUEST_FRAME_MAX bytes. */
int frame_read(uint8_t *type, uint8_t *payload, size_t *len);

/* Sends GUEST_FAILED behind what is still in `out`; returns the status to exit with. */
int frame_failed(struct frame_out *out, int errnum, const char *text);

/* --- input.c: from the service to the program --- */

struct input {
    int fd;      /* what the service sends; -1: no more comes */
    int program; /* write end of the program's standard input; -1: closed, or /dev/null */
    bool has_program;
    bool eof; /* the program's end follows what is kept */
    size_t have;
    uint8_t head[GUEST_FRAME_HEADER];
    uint32_t left; /* of the payload at hand */
    uint8_t signal[4];
    uint32_t taken; /* and not yet told */
    size_t start;
    size_t len;
    uint8_t ring[GUEST_STDIN_WINDOW];
};
/* Of a zeroed one. Both nonblocking; `program` -1: it has none. */
void input_init(struct input *in, int fd, int program);
static inline bool input_pending(const struct input *in)
{
    return in->len > 0;
}
/* Reads what has come: a signal number (call again), 0 when that was all, -1 when it broke the
 * protocol. */
int input_read(struct input *in);
/* Writes what the program takes now, closes it where the end has come. */
void input_write(struct input *in);
/* Seals a GUEST_STDIN_TAKEN when enough was taken to be told and `out` is empty. */
bool input_report(struct input *in, struct frame_out *out);

/* --- cgroup.c: the own container's memory, counters --- */

struct cgroup_usage {
    int64_t cpu_ms;
    int64_t memory_peak_bytes;
    int64_t pids_peak;
};
/* Each -1 where the kernel does not tell. */
void cgroup_read_usage(struct cgroup_usage *out);
/* A descriptor that cgroup_oom_kills reads again and again; -1 when there is no counter. */
int cgroup_open_oom(void);
/* How many processes the kernel has killed for memory so far; -1 when unknown. */
int64_t cgroup_oom_kills(int fd);

/* Makes the calling process the first that the kernel kills when the execution's memory is out, so
 * that neither the idle process nor the runner goes first. Lets others of its user look into the
 * process for a moment. */
void oom_go_first(void);

/* --- spawn.c: the program --- */

struct spawn_spec {
    char *const *argv;
    const char *cwd; /* "" stays where the helper was started */
    bool has_stdin;
};
struct spawned {
    pid_t pid;
    int in;  /* write end of its standard input, nonblocking, or -1 */
    int out; /* read ends, nonblocking */
    int err;
};
enum spawn_outcome { SPAWN_STARTED, SPAWN_NOT_STARTED, SPAWN_BROKEN };
struct spawn_failure {
    bool in_cwd;
    int errnum;
};
/* Starts the program as leader of a new session. NOT_STARTED: `failure` says why the kernel
 * refused; BROKEN: a pipe could not be made (errno). */
enum spawn_outcome spawn(const struct spawn_spec *spec, struct spawned *out,
                         struct spawn_failure *failure);

/* --- the subcommands; return the status to exit with --- */

int run_main(const struct spawn_spec *spec);
int load_main(const char *directory);

#endif
