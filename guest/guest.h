/* What the files of the helper share. One process, one thread, no heap but
 * names, and what load.c, pack.c and merge.c must remember;
 * nothing here may wait for the program it runs: only for the service, which reads and writes the
 * other ends. */
#ifndef EXECHOST_GUEST_GUEST_H
#define EXECHOST_GUEST_GUEST_H

#include "guest/protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
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

/* As frame_out_drain while nothing is to be read from standard input: its end, too, is -1. */
int frame_out_drain_watching(struct frame_out *out);
/* Whether standard input has ended; what can be read of it is left there. */
bool frame_service_gone(void);

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

/* --- files.c and what it stands on: the workspace while programs change it --- */

/* beneath.c: `path` ("" is the root itself) opened below `root`, which nothing leads out of; -1
 * with errno, EXDEV: it leads outside. `flags` of open(2), `resolve` further RESOLVE_ flags. */
int beneath_open(int root, const char *path, int flags, uint64_t resolve);
/* The workspace: where the helper was started. */
int beneath_root(void);
/* A name's directory, opened, and where in `path` the name begins. Links on the way are followed
 * inside. ENOENT is also said of "". */
int beneath_parent(int root, const char *path, const char **name);
/* As beneath_parent for the file that `path` names, also where its last component is a link: then
 * `path` (room for GUEST_PATH_MAX + 1) is rewritten. */
int beneath_target(int root, char *path, const char **name);
/* Makes the missing directories of `path`, of its first `len` bytes; links inside are followed.
 * *made tells how many of its last components are new, also on failure. */
int beneath_make(int root, const char *path, size_t len, unsigned *made);
/* Takes the last `made` ones away again where they are empty. */
void beneath_unmake(int root, const char *path, size_t len, unsigned made);
enum { GUEST_PATH_MAX = 4095 };

/* names.c: the names in a directory, sorted bytewise, one after the other in `text`, each with its
 * NUL. `skip_stages`: those of stages are left out. */
struct names {
    char *text;
    size_t len;
    size_t count;
};
int names_read(int dir_fd, bool skip_stages, struct names *out);
void names_done(struct names *names);
bool names_is_stage(const char *name);

/* items.c: entries on their way out and in. */
struct item {
    uint8_t type;
    uint32_t mode;
    int64_t mtime_ns;
    int64_t size;
    const char *path;
    const char *target; /* "" when there is none */
};
enum { ITEM_DIRECTORY, ITEM_FILE, ITEM_SYMLINK, ITEM_HARDLINK, ITEM_SPECIAL };
struct item_texts {
    char path[GUEST_PATH_MAX + 1];
    char target[GUEST_PATH_MAX + 1];
};
/* GUEST_LOAD_ENTRY's payload, whose strings go to `texts`; -1 with EPROTO when it is none. */
int item_parse(const uint8_t *payload, size_t len, struct item_texts *texts, struct item *entry);
struct item item_of(const struct stat *st, const char *path);
/* The kind and, of a link, the target of a name; 1, or 0: it vanished meanwhile; -1. `target` has
 * room for GUEST_PATH_MAX + 1. */
int item_look(int dir_fd, const char *name, struct stat *st, char *target);
/* -1: the service is gone. */
int item_send(struct frame_out *out, const struct item *item);
/* Bytes of the file from `offset` on, holes left out when `sparse`: 0, -1 with errno, 1: the
 * service is gone. What the file has lost meanwhile is not sent; *sent tells where it ended. */
struct item_range {
    int64_t offset;
    int64_t end;
    bool sparse;
};
int item_send_data(struct frame_out *out, int fd, struct item_range range, int64_t *sent);

/* stage.c: the place below the workspace where a write is prepared. */
struct stage {
    int root;
    int fd;
    char name[sizeof(GUEST_STAGE_PREFIX) + 16];
};
/* Whether the directory is the workspace itself, by whatever path: where stages are. */
bool stage_is_root(int root, int dir);
/* Removes what killed helpers have left below the workspace. */
void stage_clear_stale(int root);
/* Clears that away, then makes one. */
int stage_open(struct stage *stage);
/* With all that is in it; errno stays. */
void stage_close(struct stage *stage);
/* Opens a directory of a stage, also one that its mode locks; it is unlocked then. Not for others'
 * directories. */
int stage_unlock(int parent, const char *name);
/* Brings a name of another directory into it, whatever the mode of what it names. */
int stage_take(const struct stage *stage, int dir, const char *name);
/* All that is in it, however deep, also while programs add to it (EAGAIN: for too long). */
int stage_remove_tree(const struct stage *stage);

int list_main(const char *path);
int read_main(const char *path);
struct write_words {
    const char *memory;
    const char *mode;
    const char *size;
};
int write_main(const char *path, const struct write_words *words);
int remove_main(const char *path, bool recursive);
int sweep_main(const char *path);
int pack_main(const char *path);
int unpack_main(const char *path, const char *memory);
/* A number of bytes as an argument; 0 when it is none. */
int64_t room_limit(const char *text);
int sockets_main(const char *path); /* sockets.c */

struct room;
/* load.c for unpack.c: takes frames until the end frame into the directory (taken): 0 or -1 with
 * errno; `at` names the entry it was at. `room` NULL: as much as there is. */
int load_into(int directory, struct room *room, const char **at);
/* merge.c: brings what is in the directory `tree` of a stage into `path` of the workspace, all or
 * nothing: 0, or -1 with errno, *at naming what stands in the way. What it replaces is left in the
 * stage. */
int merge_tree(const struct stage *stage, int tree, const char *path, const char **at);

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

/* The workspace lives in the execution's memory. Who writes there for the service stops before that
 * is out, since nothing could be started inside afterwards. The rest zeroed to begin with. */
struct room {
    int64_t limit; /* of memory, for where the kernel does not tell; 0: unknown */
    int64_t granted;
};
/* Before `bytes` are written: 0, or -1 with ENOSPC. */
int room_take(struct room *room, int64_t bytes);

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
