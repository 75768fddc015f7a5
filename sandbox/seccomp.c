#include "sandbox/seccomp.h"

#include "base/macros.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* What programs do with their own memory, files, processes, time and messages. */
static const char *const allowed[] = {
    /* files */
    "access",
    "chdir",
    "chmod",
    "chown",
    "close",
    "close_range",
    "copy_file_range",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fchdir",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futimesat",
    "getcwd",
    "getdents",
    "getdents64",
    "getxattr",
    "getxattrat",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "listxattr",
    "listxattrat",
    "llistxattr",
    "lremovexattr",
    "lseek",
    "lsetxattr",
    "lstat",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pipe",
    "pipe2",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "removexattr",
    "removexattrat",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sendfile",
    "setxattr",
    "setxattrat",
    "splice",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sync",
    "sync_file_range",
    "syncfs",
    "tee",
    "truncate",
    "umask",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vmsplice",
    "write",
    "writev",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "ioctl",
    "memfd_create",
    "cachestat",
    /* waiting */
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_ctl_old",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "epoll_wait_old",
    "eventfd",
    "eventfd2",
    "poll",
    "ppoll",
    "pselect6",
    "select",
    "signalfd",
    "signalfd4",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    "io_cancel",
    "io_destroy",
    "io_getevents",
    "io_pgetevents",
    "io_setup",
    "io_submit",
    /* memory */
    "brk",
    "madvise",
    "membarrier",
    "mincore",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mprotect",
    "mremap",
    "mseal",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "remap_file_pages",
    "map_shadow_stack",
    "process_mrelease",
    /* processes and threads */
    "arch_prctl",
    "capget",
    "capset",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "fork",
    "futex",
    "futex_requeue",
    "futex_wait",
    "futex_waitv",
    "futex_wake",
    "get_robust_list",
    "get_thread_area",
    "getcpu",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "gettid",
    "getuid",
    "ioprio_get",
    "ioprio_set",
    "kill",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "modify_ldt",
    "nanosleep",
    "pause",
    "pidfd_open",
    "pidfd_send_signal",
    "prctl",
    "prlimit64",
    "restart_syscall",
    "riscv_flush_icache",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_getscheduler",
    "sched_rr_get_interval",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "sched_yield",
    "seccomp",
    "set_robust_list",
    "set_thread_area",
    "set_tid_address",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setpgid",
    "setpriority",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setrlimit",
    "setsid",
    "setuid",
    "sigaltstack",
    "tgkill",
    "tkill",
    "uname",
    "vfork",
    "wait4",
    "waitid",
    /* time */
    "alarm",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "getitimer",
    "gettimeofday",
    "setitimer",
    "time",
    "timer_create",
    "timer_delete",
    "timer_getoverrun",
    "timer_gettime",
    "timer_settime",
    "times",
    /* messages */
    "accept",
    "accept4",
    "bind",
    "connect",
    "getpeername",
    "getsockname",
    "getsockopt",
    "listen",
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    "shutdown",
    /* the machine */
    "getrandom",
    "sysinfo",
};

/* Known and refused as such; everything that is in neither list looks like a call to come. */
static const char *const refused[] = {
    "_sysctl",
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "fanotify_mark",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "get_mempolicy",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "migrate_pages",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "name_to_handle_at",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "set_mempolicy",
    "set_mempolicy_home_node",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "sysfs",
    "syslog",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vm86",
    "vm86old",
};

/* No network but loopback: of the rest (virtual machine sockets, kernel crypto, raw packets) some
 * know no namespace, and all are attack surface. */
static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

static const unsigned long personalities[] = {PER_LINUX, PER_LINUX | ADDR_NO_RANDOMIZE, PER_LINUX32,
                                              0xffffffff};

enum {
    NEW_NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                     CLONE_NEWPID | CLONE_NEWNET
};

/* A call that this machine's architecture does not have is no fault. */
static int add_names(scmp_filter_ctx filter, const char *const *names, size_t count,
                     uint32_t action)
{
    for (size_t i = 0; i < count; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        int result = number < 0 ? 0 : seccomp_rule_add(filter, action, number, 0);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

static int add_families(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                                      SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i], 0));
        if (result != 0) {
            return result;
        }
    }
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
                            SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
}

static int add_personalities(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < ARRAY_SIZE(personalities); i++) {
        int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                                      SCMP_A0(SCMP_CMP_EQ, personalities[i], 0));
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* What depends on arguments. clone3 keeps its own in memory, where no filter can look: without it
 * libc goes back to clone. */
static int add_conditions(scmp_filter_ctx filter)
{
    int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0));
    if (result == 0) {
        result = add_families(filter);
    }
    return result == 0 ? add_personalities(filter) : result;
}

static int fill(scmp_filter_ctx filter)
{
    int result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    if (result == 0) {
        /* A binary tree: which call it is costs the same for all. */
        result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }
    if (result == 0) {
        result = add_names(filter, allowed, ARRAY_SIZE(allowed), SCMP_ACT_ALLOW);
    }
    if (result == 0) {
        result = add_names(filter, refused, ARRAY_SIZE(refused), SCMP_ACT_ERRNO(EPERM));
    }
    return result == 0 ? add_conditions(filter) : result;
}

static int export(scmp_filter_ctx filter, int *out, struct error *err)
{
    _cleanup_close_ int fd = memfd_create("seccomp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stat st;
    if (fd < 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "a memory file");
    }
    int result = seccomp_export_bpf(filter, fd);
    if (result != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, -result, "making a seccomp program");
    }
    if (fstat(fd, &st) != 0 || st.st_size > SANDBOX_SECCOMP_MAX) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "the seccomp program is too long");
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "sealing a memory file");
    }
    *out = TAKE_FD(fd);
    return 0;
}

int sandbox_seccomp_build(int *fd, struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (filter == NULL) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "libseccomp does not know this machine");
    }
    int result = fill(filter);
    result = result != 0
                 ? error_set_errno(err, ERROR_HOST_UNAVAILABLE, -result, "making a seccomp filter")
                 : export(filter, fd, err);
    seccomp_release(filter);
    return result;
}
