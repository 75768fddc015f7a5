/* Out by a path: the image, the machine's files, /proc, devices, control groups. */
#include "escape.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

void attempt_write_outside(const char *argument)
{
    (void)argument;
    tried("open /etc/passwd", try_open("/etc/passwd", O_WRONLY));
    tried("truncate /etc/passwd", truncate("/etc/passwd", 0));
    tried("make /new", try_open("/new", O_WRONLY | O_CREAT));
    tried("make /bin/new", try_open("/bin/new", O_WRONLY | O_CREAT));
    tried("make /proc/new", try_open("/proc/new", O_WRONLY | O_CREAT));
    tried("make /dev/new", try_open("/dev/new", O_WRONLY | O_CREAT));
    tried("mkdir /new", mkdir("/new", 0700));
    tried("unlink /bin/escape", unlink("/bin/escape"));
    tried("rename /bin/escape", rename("/bin/escape", "/bin/other"));
    tried("link /etc/passwd", link("/etc/passwd", "/etc/other"));
    tried("chmod /bin/escape", chmod("/bin/escape", 0777));
    tried("chown /bin/escape", chown("/bin/escape", 65532, 65532));
    tried("symlink /etc/other", symlink("/", "/etc/other"));
    tried("utimes /etc/passwd", utimensat(AT_FDCWD, "/etc/passwd", NULL, 0));
    tried("open ../../etc/passwd", try_open("../../../../../../etc/passwd", O_WRONLY));
}

void attempt_mount(const char *argument)
{
    (void)argument;
    tried("mount tmpfs", mount("none", "/tmp", "tmpfs", 0, NULL));
    tried("mount proc", mount("none", "/tmp", "proc", 0, NULL));
    tried("mount cgroup2", mount("none", "/tmp", "cgroup2", 0, NULL));
    tried("mount overlay", mount("none", "/tmp", "overlay", 0, "lowerdir=/:/bin"));
    tried("bind /", mount("/", "/tmp", NULL, MS_BIND | MS_REC, NULL));
    tried("remount /", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
    tried("remount /workspace", mount(NULL, "/workspace", NULL, MS_REMOUNT, "size=1g"));
    tried("make / shared", mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL));
    tried("umount /workspace", umount2("/workspace", MNT_DETACH));
    tried("umount /proc/kcore", umount2("/proc/kcore", MNT_DETACH));
    tried("chroot", chroot("/workspace"));
    tried("pivot_root", syscall(SYS_pivot_root, "/workspace", "/workspace"));
    tried("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE));
    tried("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/workspace", 0));
    tried("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    tried("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, NULL, 0));
}

void attempt_nodes(const char *argument)
{
    static const struct {
        const char *name;
        unsigned type;
        unsigned major;
        unsigned minor;
    } NODES[] = {
        {"null", S_IFCHR, 1, 3}, {"mem", S_IFCHR, 1, 1},   {"kmsg", S_IFCHR, 1, 11},
        {"disk", S_IFBLK, 8, 0}, {"vda", S_IFBLK, 254, 0}, {"fuse", S_IFCHR, 10, 229},
    };

    (void)argument;
    for (size_t i = 0; i < sizeof(NODES) / sizeof(NODES[0]); i++) {
        char what[64];

        (void)snprintf(what, sizeof(what), "mknod %s", NODES[i].name);
        tried(what,
              mknod(NODES[i].name, NODES[i].type | 0666, makedev(NODES[i].major, NODES[i].minor)));
    }
}

/* Shows what is in a directory; `allowed` lists it with a space behind each name. */
static void list_others(const char *dir, const char *allowed)
{
    DIR *d = opendir(dir);
    const struct dirent *e;

    if (d == NULL) {
        tried(dir, -1);
        return;
    }
    while ((e = readdir(d)) != NULL) {
        char word[NAME_MAX + 3];

        (void)snprintf(word, sizeof(word), " %s ", e->d_name);
        if (e->d_name[0] != '.' && strstr(allowed, word) == NULL) {
            saw(dir, "%s", e->d_name);
        }
    }
    closedir(d);
}

/* A file handle of the root, asked for at the machine's own mounts. */
static long open_by_handle(void)
{
    struct {
        struct file_handle head;
        unsigned char bytes[MAX_HANDLE_SZ];
    } handle = {.head = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount_id;

    if (name_to_handle_at(AT_FDCWD, "/", &handle.head, &mount_id, 0) < 0) {
        /* What inode 2 of most file systems is. */
        handle.head = (struct file_handle){.handle_bytes = 8, .handle_type = 1};
        memset(handle.bytes, 0, sizeof(handle.bytes));
        handle.bytes[0] = 2;
    }
    return open_by_handle_at(AT_FDCWD, &handle.head, O_RDONLY);
}

void attempt_host_files(const char *argument)
{
    static const char *const PATHS[] = {
        "/etc/shadow",
        "/proc/1/root/etc/shadow",
        "/proc/1/cwd/etc/shadow",
        "/proc/1/environ",
        "/proc/1/mem",
        "/proc/1/maps",
        "/proc/1/fd/0",
        "/proc/1/map_files",
        "/proc/self/root/../etc/shadow",
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/sys/kernel/debug/tracing",
    };

    for (size_t i = 0; i < sizeof(PATHS) / sizeof(PATHS[0]); i++) {
        tried(PATHS[i], try_open(PATHS[i], O_RDONLY));
    }
    if (argument != NULL) {
        char through[PATH_MAX];

        tried("a file of the machine", try_open(argument, O_RDONLY));
        (void)snprintf(through, sizeof(through), "/proc/1/root%s", argument);
        tried("the same below /proc/1/root", try_open(through, O_RDONLY));
    }
    tried("open_by_handle_at", open_by_handle());
    list_others("/dev",
                " null zero full random urandom tty fd stdin stdout stderr shm core console "
                "ptmx pts mqueue ");
}

/* A file that is hidden is either not there, or empty, or may not be opened. */
static void peek(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, &byte, 1);

    if (n == 0) {
        saw(path, "EMPTY");
    } else {
        tried(path, n);
    }
    if (fd >= 0) {
        close(fd);
    }
}

void attempt_kernel_files(const char *argument)
{
    static const char *const READ[] = {
        "/proc/kcore",       "/proc/kmsg",          "/proc/keys",       "/proc/timer_list",
        "/proc/sched_debug", "/proc/latency_stats", "/proc/kpagecount", "/dev/mem",
        "/dev/kmsg",         "/dev/port",           "/dev/userfaultfd",
    };
    static const char *const WRITE[] = {
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/panic",
        "/proc/sys/kernel/pid_max",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/net/ipv4/ping_group_range",
        "/proc/irq/0/smp_affinity",
        "/proc/bus/pci/devices",
        "/proc/acpi/wakeup",
        "/proc/1/oom_score_adj",
        "/proc/mtrr",
    };

    (void)argument;
    for (size_t i = 0; i < sizeof(READ) / sizeof(READ[0]); i++) {
        peek(READ[i]);
    }
    for (size_t i = 0; i < sizeof(WRITE) / sizeof(WRITE[0]); i++) {
        tried(WRITE[i], try_open(WRITE[i], O_WRONLY));
    }
}

void attempt_groups(const char *argument)
{
    static const char *const FILES[] = {
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/release_agent",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/notify_on_release",
        "/sys/fs/cgroup/pids/pids.max",
        "/sys/fs/cgroup/devices/devices.allow",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/unified/cgroup.procs",
    };

    (void)argument;
    for (size_t i = 0; i < sizeof(FILES) / sizeof(FILES[0]); i++) {
        tried(FILES[i], try_open(FILES[i], O_WRONLY));
    }
    tried("mkdir in a group", mkdir("/sys/fs/cgroup/memory/x", 0755));
    tried("mkdir in the group", mkdir("/sys/fs/cgroup/x", 0755));
    tried("mount a hierarchy", mount("none", "/tmp", "cgroup", 0, "rdma"));
}

/* Copies this program and starts the copy. */
static long run_copy(const char *to, mode_t mode)
{
    char buffer[65536];
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    ssize_t n;
    pid_t pid;
    int status;

    if (in < 0 || out < 0) {
        return -1;
    }
    while ((n = read(in, buffer, sizeof(buffer))) > 0) {
        if (write(out, buffer, (size_t)n) != n) {
            return -1;
        }
    }
    (void)fchmod(out, mode);
    close(in);
    close(out);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        execl(to, to, "nothing", (char *)NULL);
        _exit(errno);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        return -1;
    }
    /* The copy ends with 2, as it knows no such attempt. */
    errno = WEXITSTATUS(status);
    return errno == 2 ? 0 : -1;
}

void attempt_programs(const char *argument)
{
    (void)argument;
    (void)freopen("/dev/null", "w", stderr);
    tried("run /tmp/copy", run_copy("/tmp/copy", 0755));
    tried("run /dev/shm/copy", run_copy("/dev/shm/copy", 0755));
    tried("run /workspace/copy", run_copy("/workspace/copy", 0755));
    tried("run a set-user-ID copy", run_copy("/workspace/copy2", 06755));
}

void attempt_descriptors(const char *argument)
{
    (void)argument;
    for (int fd = 3; fd < 1024; fd++) {
        char path[64];
        char target[PATH_MAX] = "";

        if (fcntl(fd, F_GETFD) >= 0) {
            (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
            (void)readlink(path, target, sizeof(target) - 1);
            saw("inherited", "%s", target);
        }
    }
    saw("looked", "1021 descriptors");
}
