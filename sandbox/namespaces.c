#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS | CLONE_NEWCGROUP
};

int sandbox_fail(struct sandbox_fault *fault, const char *step)
{
    *fault = (struct sandbox_fault){.step = step, .errnum = errno};
    return -1;
}

pid_t sandbox_clone(int cgroup_fd, int *pidfd)
{
    struct clone_args args = {
        .flags = NAMESPACES | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
    };
    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
    }
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static int write_map(pid_t pid, const char *file, uint32_t inside, uint32_t outside)
{
    char path[64];
    char line[96];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    int len = snprintf(line, sizeof(line), "%u %u 2\n", inside, outside);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = write(fd, line, (size_t)len);
    int errnum = errno;
    close(fd);
    errno = errnum;
    return n == len ? 0 : -1;
}

int sandbox_map_identity(pid_t pid, const struct sandbox_identity *id, struct sandbox_fault *fault)
{
    if (write_map(pid, "uid_map", id->uid, id->host_uid) != 0) {
        return sandbox_fail(fault, "map the user id");
    }
    if (write_map(pid, "gid_map", id->gid, id->host_gid) != 0) {
        return sandbox_fail(fault, "map the group id");
    }
    return 0;
}

int sandbox_loopback_up(struct sandbox_fault *fault)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return sandbox_fail(fault, "open a socket for the loopback interface");
    }
    int result = ioctl(fd, SIOCSIFFLAGS, &request);
    if (result != 0) {
        (void)sandbox_fail(fault, "bring the loopback interface up");
    }
    close(fd);
    return result;
}

int sandbox_join(int pidfd, struct sandbox_fault *fault)
{
    if (setns(pidfd, NAMESPACES) != 0) {
        return sandbox_fail(fault, "join the namespaces");
    }
    return 0;
}
