/* How the service and its helper inside an execution speak. The helper writes frames to its
 * standard output and reads from its standard input; nothing else inside can reach those
 * descriptors.
 *
 * A frame: type (1 byte), length (uint32, big-endian) of what follows, payload. Numbers in payloads
 * are big-endian. Shared by guest/ (no libc beyond the static one) and the hosts; header only. */
#ifndef EXECHOST_GUEST_PROTOCOL_H
#define EXECHOST_GUEST_PROTOCOL_H

#include <stdint.h>

/* Where the helper is mounted and found inside. */
#define GUEST_DIRECTORY "/.exechost"
#define GUEST_PATH "/.exechost/guest"

/* The most payload one frame carries; the helper reads pipes in pieces of this. */
enum { GUEST_FRAME_HEADER = 5, GUEST_FRAME_MAX = 64 * 1024 };

static inline void guest_put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

static inline void guest_put_i64(uint8_t *at, int64_t value)
{
    guest_put_u32(at, (uint32_t)((uint64_t)value >> 32));
    guest_put_u32(at + 4, (uint32_t)(uint64_t)value);
}

static inline uint32_t guest_get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int64_t guest_get_i64(const uint8_t *at)
{
    return (int64_t)((uint64_t)guest_get_u32(at) << 32 | guest_get_u32(at + 4));
}

/* run: guest → service */
enum guest_frame_type {
    GUEST_STDOUT = 1,
    GUEST_STDERR = 2,
    GUEST_STARTED = 3, /* payload: uint32 pid of the leader inside */
    GUEST_EXIT = 4,    /* payload: struct guest_exit as GUEST_EXIT_SIZE bytes; the last frame */
    GUEST_FAILED = 5,  /* the helper could not do its work: errnum u32 and text; the last frame */
    GUEST_DONE = 6,    /* load: all applied and closed; payload empty; the last frame */
    GUEST_STDIN_TAKEN = 7, /* payload: uint32, bytes of GUEST_STDIN that have left the window since
                            * the last such frame */
};

/* run: service → guest on standard input, from the start until GUEST_EXIT. Its end means that no
 * more comes; the program's own standard input is closed by GUEST_STDIN_EOF alone, so that a
 * service that went away never looks like complete input. */
enum guest_input_type {
    GUEST_STDIN = 32,     /* payload: bytes for the program; only with --stdin */
    GUEST_STDIN_EOF = 33, /* payload empty: closes it once they are taken; nothing may follow it */
    GUEST_SIGNAL = 34,    /* payload: uint32 signal number, to the leader and its process group */
};

/* Where no control groups can be seen inside, the helper is given its execution's memory group, a
 * directory, as this descriptor, and the variable in its environment. */
#define GUEST_MEMORY_VARIABLE "EXECHOST_MEMORY_GROUP"
enum { GUEST_MEMORY_FD = 3 };

/* How many bytes of GUEST_STDIN may be under way that no GUEST_STDIN_TAKEN has told of: the guest
 * always has room for them, so that a signal never waits behind input that nobody reads. Bytes for
 * a program that has closed its end are taken and dropped. */
enum { GUEST_STDIN_WINDOW = 64 * 1024 };

/* `guest run [--stdin] -- COMMAND ARG…`: cwd, environment and user are those it was started with,
 * except --cwd DIR (relative to where it was started, which is /workspace). Search of a bare
 * COMMAND in PATH of the environment. Without --stdin the program's standard input is /dev/null.
 * What breaks the protocol ends the program and is answered by GUEST_FAILED with EPROTO. */

enum guest_exit_flags {
    GUEST_EXIT_NOT_STARTED = 1, /* status is 126 or 127, errnum says why */
    GUEST_EXIT_SIGNALED = 2,    /* status is the signal number */
    GUEST_EXIT_OOM = 4,         /* the execution's OOM kill count rose while it ran */
    GUEST_EXIT_CWD = 8,         /* not started because of --cwd, not of the program */
};

/* On the wire in this order: flags u32, status u32, errnum u32, then i64 (-1: can't tell): cpu_ms
 * and max_rss_bytes of the leader's tree, and of the whole execution cpu_ms, memory peak bytes,
 * pids peak, workspace bytes. */
struct guest_exit {
    uint32_t flags;
    uint32_t status;
    uint32_t errnum;
    int64_t cpu_ms;
    int64_t max_rss_bytes;
    int64_t execution_cpu_ms;
    int64_t execution_memory_peak_bytes;
    int64_t execution_pids_peak;
    int64_t execution_workspace_bytes;
};
enum { GUEST_EXIT_SIZE = 3 * 4 + 6 * 8 };

/* `guest load DIR`: applies entries below DIR as the user it runs as, whole or not at all as seen
 * from the service (a load that fails destroys the execution). Service → guest frames on standard
 * input: */
enum guest_load_type {
    /* payload: type u8 (enum workspace_entry_type), mode u32, mtime_ns i64, size i64,
     * path length u32, path, target length u32, target */
    GUEST_LOAD_ENTRY = 16,
    GUEST_LOAD_DATA = 17, /* payload: offset i64, bytes (at most GUEST_FRAME_MAX − 8) */
    GUEST_LOAD_END = 18,  /* no more entries: the guest sets directory times, answers GUEST_DONE */
};
/* A failure is answered at once by GUEST_FAILED, text naming the entry, and the guest ends; ENOSPC
 * and EDQUOT mean that the content does not fit, EPROTO that a frame was not as above. */

/* --- files, beside whatever runs; cwd is the workspace, PATH is relative to it ("" is the
 * workspace itself) and never leads outside of it, whatever the programs do meanwhile: EXDEV. It is
 * written in hexadecimal, since a name can be any bytes and an argument of an engine can't. --- */

/* Each keeps its standard input open until it has the answer: its end tells the helper that the
 * service is gone, and it undoes what it has begun. Failures are GUEST_FAILED with the errno of
 * what went wrong, text naming the entry; EAGAIN: programs changed it faster than it could be
 * followed, ENOENT and so on as usual, EINVAL: a special file, E2BIG: too many entries. */

/* guest list PATH: GUEST_ITEM for each entry of the directory, sorted by name, then GUEST_DONE. */
/* guest read PATH: GUEST_ITEM (path empty) of the file; then takes GUEST_READ and answers with
 * GUEST_DATA, offsets rising without gaps, and GUEST_DONE. All of one open file. */
/* guest write PATH MEMORY MODE SIZE: takes SIZE raw bytes; the file has them all, under its name,
 * or nothing has changed; then GUEST_DONE. Parents are made (0755). MODE is octal. */
/* guest remove PATH, guest remove-tree PATH: a name; or with all that is in it. GUEST_DONE. */
/* guest pack PATH: GUEST_ITEM for everything below the directory in archive order, of files
 * followed by GUEST_DATA (holes left out), then GUEST_DONE. What vanishes meanwhile is left out. */
/* guest unpack PATH MEMORY: takes entries as `load` does and brings them into the directory, which
 * is made if need be, all or none: EEXIST, ENOTDIR, EISDIR name what stands in the way. */
/* MEMORY is the execution's limit, for where no counter can be seen inside; 0: unknown. */
/* guest sweep PATH: clears away what killed helpers have left, then GUEST_DONE. PATH is "". */
/* guest sockets PATH: GUEST_COUNT, how many sockets are below the directory, as far as they can be
 * seen within GUEST_SOCKETS_MS; then GUEST_DONE. */
enum guest_file_type {
    GUEST_ITEM = 48,  /* payload as of GUEST_LOAD_ENTRY; 4 (special file) is a type too */
    GUEST_DATA = 49,  /* payload: offset i64, bytes (at most GUEST_FRAME_MAX − 8) */
    GUEST_COUNT = 50, /* payload: i64 */
    GUEST_READ = 64,  /* service → guest: offset i64, length i64; both within the file's size */
};
enum { GUEST_ENTRY_FIXED = 1 + 4 + 8 + 8, GUEST_LIST_MAX = 10000, GUEST_SOCKETS_MS = 1000 };

/* What is on its way in waits below the workspace in a directory of such a name, followed by 16
 * hexadecimal digits; neither list nor pack shows it. One that a helper left that was killed goes
 * with the next write. */
#define GUEST_STAGE_PREFIX ".exechost-stage-"

#endif
