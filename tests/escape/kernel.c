/* Out by the kernel: calls that few programs need, and rights. */
#include "escape.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void attempt_kernel_calls(const char *argument)
{
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(event)};

    (void)argument;
    tried("bpf map", syscall(SYS_bpf, 0, "", 0));
    tried("bpf program", syscall(SYS_bpf, 5, "", 0));
    tried("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC));
    tried("userfaultfd of the user", syscall(SYS_userfaultfd, O_CLOEXEC | 1));
    tried("perf_event_open of all", syscall(SYS_perf_event_open, &event, -1, 0, -1, 0));
    tried("perf_event_open of 1", syscall(SYS_perf_event_open, &event, 1, -1, -1, 0));
    tried("fanotify_init", syscall(SYS_fanotify_init, 0, 0));
    tried("init_module", syscall(SYS_init_module, "", 0, ""));
    tried("finit_module", syscall(SYS_finit_module, 0, "", 0));
    tried("delete_module", syscall(SYS_delete_module, "x", 0));
    tried("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0));
    tried("kexec_file_load", syscall(SYS_kexec_file_load, 0, 0, 0, "", 0));
    tried("lookup_dcookie", syscall(SYS_lookup_dcookie, 0, NULL, 0));
    tried("quotactl", syscall(SYS_quotactl, 0, NULL, 0, NULL));
    tried("vhangup", vhangup());
#ifdef __x86_64__
    tried("iopl", iopl(3));
    tried("ioperm", ioperm(0x80, 1, 1));
#endif
}

void attempt_rings(const char *argument)
{
    struct io_uring_params params = {0};

    (void)argument;
    tried("io_uring_setup", syscall(SYS_io_uring_setup, 4, &params));
    tried("io_uring_register", syscall(SYS_io_uring_register, -1, 0, NULL, 0));
}

void attempt_keys(const char *argument)
{
    (void)argument;
    tried("add_key", syscall(SYS_add_key, "user", "escape", "x", 1, KEY_SPEC_USER_KEYRING));
    tried("request_key", syscall(SYS_request_key, "user", "escape", NULL, 0));
    tried("keyctl join", syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, "escape"));
    tried("keyctl read", syscall(SYS_keyctl, KEYCTL_READ, KEY_SPEC_SESSION_KEYRING, NULL, 0));
    tried("keyctl describe", syscall(SYS_keyctl, KEYCTL_DESCRIBE, KEY_SPEC_USER_KEYRING, NULL, 0));
}

/* A child of clone or clone3 ends at once. */
static long try_clone(unsigned long flags)
{
    long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        _exit(0);
    }
    if (pid > 0) {
        waitpid((pid_t)pid, NULL, 0);
    }
    return pid;
}

static long try_clone3(unsigned long flags)
{
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof(args));

    if (pid == 0) {
        _exit(0);
    }
    if (pid > 0) {
        waitpid((pid_t)pid, NULL, 0);
    }
    return pid;
}

static const struct {
    const char *name;
    unsigned long flag;
} kinds[] = {
    {"user", CLONE_NEWUSER},     {"mnt", CLONE_NEWNS},  {"pid", CLONE_NEWPID},
    {"net", CLONE_NEWNET},       {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS},
    {"cgroup", CLONE_NEWCGROUP},
};

void attempt_namespaces(const char *argument)
{
    (void)argument;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char what[64];
        char path[64];
        int fd;

        (void)snprintf(what, sizeof(what), "unshare %s", kinds[i].name);
        tried(what, unshare((int)kinds[i].flag));
        (void)snprintf(what, sizeof(what), "clone %s", kinds[i].name);
        tried(what, try_clone(kinds[i].flag));
        (void)snprintf(what, sizeof(what), "clone3 %s", kinds[i].name);
        tried(what, try_clone3(kinds[i].flag));
        (void)snprintf(path, sizeof(path), "/proc/1/ns/%s", kinds[i].name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            (void)snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i].name);
            fd = open(path, O_RDONLY | O_CLOEXEC);
        }
        (void)snprintf(what, sizeof(what), "setns %s", kinds[i].name);
        tried(what, setns(fd, 0));
        if (fd >= 0) {
            close(fd);
        }
    }
    tried("unshare all and a user", unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID));
}

void attempt_machine(const char *argument)
{
    struct timeval now = {.tv_sec = 1};
    struct timespec then = {.tv_sec = 1};
    struct timex adjust = {.modes = ADJ_FREQUENCY};
    char log[64];

    (void)argument;
    tried("reboot", reboot(RB_AUTOBOOT));
    tried("reboot by the keyboard", reboot(RB_ENABLE_CAD));
    tried("sethostname", sethostname("x", 1));
    tried("setdomainname", setdomainname("x", 1));
    tried("settimeofday", settimeofday(&now, NULL));
    tried("clock_settime", clock_settime(CLOCK_REALTIME, &then));
    tried("adjtimex", adjtimex(&adjust));
    tried("swapon", swapon("/workspace", 0));
    tried("swapoff", swapoff("/workspace"));
    tried("acct", acct("/workspace/x"));
    tried("syslog", klogctl(3, log, sizeof(log)));
    tried("nice", setpriority(PRIO_PROCESS, 0, -10));
    {
        struct sched_param param = {.sched_priority = 10};

        tried("real time", sched_setscheduler(0, SCHED_FIFO, &param));
    }
}

/* --- identity --- */

static void show_status(const char *const *wanted, size_t count)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        for (size_t i = 0; i < count; i++) {
            size_t len = strlen(wanted[i]);

            if (strncmp(line, wanted[i], len) == 0 && line[len] == ':') {
                line[strcspn(line, "\n")] = '\0';
                saw(wanted[i], "%s", line + len + 1 + strspn(line + len + 1, "\t "));
            }
        }
    }
    if (f != NULL) {
        fclose(f);
    }
}

void attempt_identity(const char *argument)
{
    static const char *const WANTED[] = {"CapInh", "CapPrm",     "CapEff",  "CapBnd",
                                         "CapAmb", "NoNewPrivs", "Seccomp", "Groups"};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2] = {{~0U, ~0U, 0}, {~0U, ~0U, 0}};
    gid_t group = 0;

    (void)argument;
    saw("uid", "%u %u", getuid(), geteuid());
    saw("gid", "%u %u", getgid(), getegid());
    show_status(WANTED, sizeof(WANTED) / sizeof(WANTED[0]));
    tried("setuid 0", setuid(0));
    tried("setgid 0", setgid(0));
    tried("setgroups", setgroups(1, &group));
    tried("capset", syscall(SYS_capset, &header, all));
    tried("ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0));
    tried("privileges back", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

void attempt_terminal(const char *argument)
{
    char key = 'x';
    int console;

    (void)argument;
    tried("TIOCSTI on standard input", ioctl(STDIN_FILENO, TIOCSTI, &key));
    tried("TIOCSTI on standard output", ioctl(STDOUT_FILENO, TIOCSTI, &key));
    tried("open /dev/tty", try_open("/dev/tty", O_RDWR | O_NOCTTY));
    tried("open /dev/tty1", try_open("/dev/tty1", O_RDWR | O_NOCTTY));
    console = open("/dev/console", O_RDWR | O_NOCTTY | O_CLOEXEC);
    tried("open /dev/console", console);
    tried("TIOCSTI on the console", console < 0 ? -1 : ioctl(console, TIOCSTI, &key));
    tried("TIOCCONS", ioctl(STDIN_FILENO, TIOCCONS, 0));
}
