/* What holds a program in: namespaces, mounts, identity, limits, system calls. Shared by the native
 * host's shim and by whatever else runs untrusted programs. Linked into small static programs as
 * well as into the service: nothing here allocates, starts threads or knows more than libc.
 *
 * Functions return 0 or -1 with errno and, where they take a struct sandbox_fault, the step that
 * failed. One thread at a time; all may block for as long as the kernel takes. THREATS.md says what
 * each part is there for. */
#ifndef EXECHOST_SANDBOX_SANDBOX_H
#define EXECHOST_SANDBOX_SANDBOX_H

#include "base/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sandbox_fault {
    const char *step; /* static text: "mount /proc" */
    int errnum;
};
/* Notes the step with errno as it is; returns -1. */
int sandbox_fail(struct sandbox_fault *fault, const char *step);

/* --- namespaces.c --- */

/* Forks into new user, mount, pid, network, IPC, UTS and cgroup namespaces. `cgroup_fd`: directory
 * of a unified cgroup to be born in, or -1. As fork(2); the child is process 1 in there, without
 * mappings yet. */
pid_t sandbox_clone(int cgroup_fd, int *pidfd) WARN_UNUSED;

/* The user and group of a sandbox's programs, inside and outside. The next ones, inside and
 * outside, are its process 1's, so that no program can touch that. */
struct sandbox_identity {
    uint32_t uid; /* inside */
    uint32_t gid;
    uint32_t host_uid;
    uint32_t host_gid;
};
/* From outside: maps the child's ids, both of them. */
int sandbox_map_identity(pid_t pid, const struct sandbox_identity *id,
                         struct sandbox_fault *fault) WARN_UNUSED;
/* From inside, with all capabilities of the new user namespace. */
int sandbox_loopback_up(struct sandbox_fault *fault) WARN_UNUSED;
/* Joins all namespaces of a process 1, but not its cgroups; the next fork is inside. */
int sandbox_join(int pidfd, struct sandbox_fault *fault) WARN_UNUSED;

/* --- mounts.c --- */

struct sandbox_disk {
    int64_t workspace_bytes;
    int64_t workspace_inodes;
    int64_t tmp_bytes;
    int64_t shm_bytes;
};

/* Mounts that stand nowhere yet. */
struct sandbox_mounts {
    int root;
    int devices;
    int workspace;
    int tmp;
    int shm;
};
#define SANDBOX_MOUNTS_INIT                                                                        \
    {                                                                                              \
        .root = -1, .devices = -1, .workspace = -1, .tmp = -1, .shm = -1                           \
    }

/* Makes them with the caller's rights: the image read-only and private, and four tmpfs. `image` is
 * a directory of the caller's mount namespace. */
int sandbox_mounts_make(struct sandbox_mounts *mounts, int image, const struct sandbox_disk *disk,
                        const struct sandbox_identity *id, struct sandbox_fault *fault) WARN_UNUSED;
void sandbox_mounts_close(struct sandbox_mounts *mounts);
/* Inside the new namespaces: builds the tree upon the current directory, makes it the root and lets
 * go of everything else. The current directory is the root afterwards. */
int sandbox_mounts_enter(const struct sandbox_mounts *mounts,
                         struct sandbox_fault *fault) WARN_UNUSED;

/* --- loan.c --- */

/* A directory that every root has, empty but for who is lent something. */
#define SANDBOX_LENT ".exechost"

/* What one process and its descendants see beside everything else. */
struct sandbox_loan {
    int directory; /* a mount that stands nowhere yet: comes to SANDBOX_LENT; or -1 */
    int file;      /* another one, of a file: comes to `file_name` in there; or -1 */
    const char *file_name;
    bool read_only; /* what others may write, these may only read */
};
/* In a process that has joined: a mount namespace of its own, with the same file systems. */
int sandbox_borrow(const struct sandbox_loan *loan, struct sandbox_fault *fault) WARN_UNUSED;

/* --- privileges.c --- */

/* Process 1 becomes a user of its own that can do nothing but become the programs' user and signal
 * its processes: no groups, no core dumps, bounded descriptors, an own session keyring, an empty
 * bounding set, no_new_privs. */
int sandbox_drop_keeper(const struct sandbox_identity *id, struct sandbox_fault *fault) WARN_UNUSED;
/* Becomes the programs' user, without capabilities or a way back. What is left to do for a child of
 * process 1; async-signal-safe, -1 with errno. */
int sandbox_become_user(const struct sandbox_identity *id) WARN_UNUSED;
/* The same for what comes in from outside, with all that process 1 has done before. */
int sandbox_drop_user(const struct sandbox_identity *id, struct sandbox_fault *fault) WARN_UNUSED;
/* For our own program that comes in from outside: the programs' user, who may read all that is that
 * user's, whatever its mode; kept over exec. Elsewhere the capability counts for nothing. */
int sandbox_drop_reader(const struct sandbox_identity *id, struct sandbox_fault *fault) WARN_UNUSED;

enum { SANDBOX_SECCOMP_MAX = 4096 * 8 };
/* Installs a filter that sandbox_seccomp_build made: the whole of the file behind `fd`, which is
 * read from its start and stays open. Needs no_new_privs, as both kinds of drop leave it. */
int sandbox_seccomp_install(int fd, struct sandbox_fault *fault) WARN_UNUSED;

#endif
