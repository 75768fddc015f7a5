/* Gives up the service's identity and then becomes bubblewrap, which as root would leave the
 * program its capabilities. What bubblewrap is to show is put in place first, by descriptor: the
 * new identity could not reach it, and a path could have changed since it was looked at. */
#include "ptc/launch/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES_MAX = 16384, MESSAGE_BYTES = 819200, MLOCK_BYTES = 64 * 1024, DECIMAL = 10 };

static int fail(const char *step)
{
    (void)dprintf(STDERR_FILENO, LAUNCH_FAULT "%s: %s\n", step, strerror(errno));
    return -1;
}

/* Moving into a group of version 2 makes the kernel wait for all processors, and whoever forks or
 * ends meanwhile with it; being born there does not. The one who is born has the same parent, and
 * this one ends. */
static int be_born(void)
{
    struct clone_args args = {.flags = CLONE_PARENT | CLONE_INTO_CGROUP, .cgroup = LAUNCH_BIRTH};
    if (fcntl(LAUNCH_BIRTH, F_GETFD) < 0) {
        return 0;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid < 0) {
        return fail("be born in a control group");
    }
    if (pid > 0) {
        _exit(EXIT_SUCCESS);
    }
    close(LAUNCH_BIRTH);
    return setsid() < 0 ? fail("make a session") : 0;
}

static int tell_name(void)
{
    pid_t self = (pid_t)syscall(SYS_getpid);
    return write(LAUNCH_INFO, &self, sizeof(self)) == (ssize_t)sizeof(self)
               ? 0
               : fail("tell who goes on");
}

static int join_groups(int count)
{
    for (int fd = LAUNCH_GROUPS; fd < LAUNCH_GROUPS + count; fd++) {
        if (write(fd, "0", 1) != 1) {
            return fail("join a control group");
        }
        close(fd);
    }
    /* Whatever else the service had open is none of the program's. */
    if (syscall(SYS_close_range, LAUNCH_GROUPS, ~0U, 0) != 0) {
        return fail("close what is not for it");
    }
    return 0;
}

/* A mount of what is behind `fd` that stands nowhere yet; it may be put into another namespace,
 * which the descriptor itself can't. */
static int detach(int fd)
{
    int tree = (int)syscall(SYS_open_tree, fd, "",
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (unsigned)AT_EMPTY_PATH);
    if (tree < 0 || dup3(tree, fd, O_CLOEXEC) < 0) {
        return -1;
    }
    close(tree);
    return 0;
}

static int attach(int fd, const char *place)
{
    return (int)syscall(SYS_move_mount, fd, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH);
}

static int set_stage(void)
{
    int workspace = fcntl(LAUNCH_WORKSPACE, F_GETFD) >= 0;
    if (detach(LAUNCH_STAGE) != 0 || detach(LAUNCH_NODE) != 0 ||
        (workspace && detach(LAUNCH_WORKSPACE) != 0)) {
        return fail("take the parts of the stage");
    }
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return fail("make a mount namespace");
    }
    if (attach(LAUNCH_STAGE, LAUNCH_PLACE) != 0) {
        return fail("mount the stage");
    }
    if (attach(LAUNCH_NODE, LAUNCH_PLACE "/node") != 0) {
        return fail("mount node");
    }
    if (workspace && attach(LAUNCH_WORKSPACE, LAUNCH_PLACE "/workspace") != 0) {
        return fail("mount the workspace");
    }
    return 0;
}

static int lower(int resource, rlim_t most)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0) {
        return -1;
    }
    limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit((__rlimit_resource_t)resource, &limit);
}

static int drop(unsigned uid, unsigned gid)
{
    if (lower(RLIMIT_CORE, 0) != 0 || lower(RLIMIT_NOFILE, FILES_MAX) != 0 ||
        lower(RLIMIT_MEMLOCK, MLOCK_BYTES) != 0 || lower(RLIMIT_MSGQUEUE, MESSAGE_BYTES) != 0) {
        return fail("lower the resource limits");
    }
    if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0) {
        return fail("drop the identity");
    }
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS) {
        return fail("make a session keyring");
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return fail("set no_new_privs");
    }
    return 0;
}

static int become_bwrap(char **argv)
{
    char *const none[] = {NULL};
    for (int fd = LAUNCH_BWRAP; fd < LAUNCH_GROUPS; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    (void)syscall(SYS_execveat, LAUNCH_BWRAP, "", argv, none, AT_EMPTY_PATH);
    return fail("start bubblewrap");
}

int main(int argc, char **argv)
{
    if (argc <= LAUNCH_ARG_BWRAP) {
        errno = EINVAL;
        (void)fail("read the arguments");
        return LAUNCH_FAILED;
    }
    unsigned uid = (unsigned)strtoul(argv[LAUNCH_ARG_UID], NULL, DECIMAL);
    unsigned gid = (unsigned)strtoul(argv[LAUNCH_ARG_GID], NULL, DECIMAL);
    int groups = (int)strtol(argv[LAUNCH_ARG_GROUPS], NULL, DECIMAL);
    if (uid == 0 || gid == 0) {
        errno = EPERM;
        (void)fail("drop the identity");
        return LAUNCH_FAILED;
    }
    if (be_born() == 0 && tell_name() == 0 && join_groups(groups) == 0 && set_stage() == 0 &&
        drop(uid, gid) == 0) {
        (void)become_bwrap(argv + LAUNCH_ARG_BWRAP);
    }
    return LAUNCH_FAILED;
}
