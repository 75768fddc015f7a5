#include "host/native/needs.h"

#include "sandbox/cgroup.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct native_need *add(struct native_needs *needs, const char *name)
{
    struct native_need *need = &needs->items[needs->count++];

    *need = (struct native_need){.name = name, .met = true};
    return need;
}

static void lack(struct native_need *need, const char *fix)
{
    need->met = false;
    need->fix = fix;
}

/* --- rights --- */

static uint64_t own_capabilities(void)
{
    _cleanup_fclose_ FILE *f = fopen("/proc/self/status", "re");
    char line[256];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "CapEff:", 7) == 0) {
            return strtoull(line + 7, NULL, 16);
        }
    }
    return 0;
}

static void look_for_rights(struct native_needs *needs)
{
    static const struct {
        const char *name;
        int number;
    } WANTED[] = {
        {"CAP_SYS_ADMIN", CAP_SYS_ADMIN},
        {"CAP_CHOWN", CAP_CHOWN},
        {"CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE},
        {"CAP_FOWNER", CAP_FOWNER},
        {"CAP_KILL", CAP_KILL},
        {"CAP_MKNOD", CAP_MKNOD},
        {"CAP_SETGID", CAP_SETGID},
        {"CAP_SETUID", CAP_SETUID},
    };
    struct native_need *need = add(needs, "rights");
    uint64_t have = own_capabilities();

    (void)snprintf(need->text, sizeof(need->text), "root with all it needs");
    if (geteuid() != 0) {
        (void)snprintf(need->text, sizeof(need->text), "this is user %u", (unsigned)geteuid());
        lack(need, "run the service as root");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(WANTED); i++) {
        if ((have >> WANTED[i].number & 1) == 0) {
            (void)snprintf(need->text, sizeof(need->text), "root without %s", WANTED[i].name);
            lack(need, "give the service this capability; within a container, run that with "
                       "--privileged");
            return;
        }
    }
}

/* --- calls --- */

/* Each with arguments that it refuses at once, if it is there. */
static long try_call(int number)
{
    static const struct open_how how = {.flags = ~UINT64_C(0)};

    switch (number) {
    case SYS_openat2: return syscall(number, -1, "", &how, sizeof(how));
    case SYS_clone3: return syscall(number, NULL, 0);
    case SYS_pidfd_open: return syscall(number, -1, 0);
    case SYS_close_range: return syscall(number, 1, 0, 0);
    case SYS_fsopen: return syscall(number, NULL, ~0U);
    case SYS_open_tree: return syscall(number, -1, NULL, ~0U);
    case SYS_pivot_root: return syscall(number, "", "");
    default: return syscall(number, -1, NULL, ~0U, NULL, 0);
    }
}

static void look_for_calls(struct native_needs *needs)
{
    static const struct {
        const char *name;
        int number;
    } WANTED[] = {
        {"openat2", SYS_openat2},
        {"clone3", SYS_clone3},
        {"pidfd_open", SYS_pidfd_open},
        {"close_range", SYS_close_range},
        {"open_tree", SYS_open_tree},
        {"fsopen", SYS_fsopen},
        {"mount_setattr", SYS_mount_setattr},
    };
    struct native_need *need = add(needs, "kernel calls");

    (void)snprintf(need->text, sizeof(need->text), "openat2, clone3, pidfd_open, mount_setattr …");
    for (size_t i = 0; i < ARRAY_SIZE(WANTED); i++) {
        if (try_call(WANTED[i].number) < 0 && errno == ENOSYS) {
            (void)snprintf(need->text, sizeof(need->text), "there is no %s", WANTED[i].name);
            lack(need, "use Linux 5.12 or later; within a container, run that without a seccomp "
                       "profile that hides it");
            return;
        }
    }
    /* Who lacks the right is refused, too, and has been told so. */
    if (needs->items[0].met && try_call(SYS_pivot_root) < 0 && errno == EPERM) {
        (void)snprintf(need->text, sizeof(need->text), "pivot_root is refused");
        lack(need, "run the service without a seccomp profile that refuses it; a container with "
                   "--security-opt seccomp=unconfined");
    }
}

/* --- namespaces --- */

enum { CHILD_NO_PROC = 1 };

/* In the child of a process with threads: nothing but system calls. */
static int mount_proc(void)
{
    int fs = fsopen("proc", FSOPEN_CLOEXEC);

    if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0 ||
        fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) < 0) {
        return CHILD_NO_PROC;
    }
    return 0;
}

static const char *namespace_fix(int errnum)
{
    switch (errnum) {
    case ENOSPC:
        return "raise user.max_user_namespaces, user.max_net_namespaces and the like with sysctl";
    case EINVAL: return "use a kernel with all of CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS";
    case EUSERS: return "there are too many namespaces in each other here: run it further outside";
    default:
        return "allow the service to make namespaces: no container, or one that is --privileged";
    }
}

static void look_for_namespaces(struct native_needs *needs)
{
    struct native_need *need = add(needs, "user namespaces");
    int pidfd = -1;
    pid_t pid = sandbox_clone(-1, &pidfd);
    int status = 0;
    int errnum = errno;

    if (pid == 0) {
        _exit(mount_proc());
    }
    if (pid < 0) {
        (void)snprintf(need->text, sizeof(need->text), "they can't be made: %s", strerror(errnum));
        lack(need, namespace_fix(errnum));
        return;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    cleanup_close(&pidfd);
    (void)snprintf(need->text, sizeof(need->text), "with mount, pid, network, IPC, UTS and cgroup");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        (void)snprintf(need->text, sizeof(need->text), "/proc can't be mounted in a new one");
        lack(need, "run the service where all of /proc is visible: no container, or one with "
                   "--privileged");
    }
}

/* --- ids --- */

/* Whether [first, first + count) has an id in common with [start, start + len). */
static bool overlaps(const struct native_needs_config *c, uint64_t start, uint64_t len)
{
    return start < (uint64_t)c->host_uid_first + c->host_uid_count &&
           c->host_uid_first < start + len;
}

/* How many ids of the range are ids here at all. */
static uint64_t count_mapped(const struct native_needs_config *c, const char *file)
{
    _cleanup_fclose_ FILE *f = fopen(file, "re");
    char line[256];
    uint64_t mapped = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        char *rest = line;
        uint64_t start = strtoull(rest, &rest, 10);
        uint64_t end;

        (void)strtoull(rest, &rest, 10);
        end = start + strtoull(rest, &rest, 10);
        if (overlaps(c, start, end - start)) {
            uint64_t last = (uint64_t)c->host_uid_first + c->host_uid_count;
            uint64_t from = start > c->host_uid_first ? start : c->host_uid_first;

            mapped += (end < last ? end : last) - from;
        }
    }
    return mapped;
}

/* The first line of a file of "name:…" whose ids overlap: field `id_field` is the first id, the one
 * behind it the count where `ranged`. Returns false when there is none. */
static bool find_owner(const struct native_needs_config *c, const char *file, bool ranged,
                       char name[64])
{
    _cleanup_fclose_ FILE *f = fopen(file, "re");
    char line[1024];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        const char *id = strchr(line, ':');
        const char *count;

        id = id != NULL && !ranged ? strchr(id + 1, ':') : id;
        count = id != NULL ? strchr(id + 1, ':') : NULL;
        if (count == NULL || line[0] == '#') {
            continue;
        }
        if (overlaps(c, strtoull(id + 1, NULL, 10), ranged ? strtoull(count + 1, NULL, 10) : 1)) {
            (void)snprintf(name, 64, "%.*s", (int)strcspn(line, ":"), line);
            return true;
        }
    }
    return false;
}

static void look_for_ids(struct native_needs *needs, const struct native_needs_config *c)
{
    static const struct {
        const char *file;
        bool ranged;
    } TAKEN[] = {{"/etc/passwd", false},
                 {"/etc/group", false},
                 {"/etc/subuid", true},
                 {"/etc/subgid", true}};
    static const char CHOOSE[] =
        "choose a range that nobody has with native.firstId and native.idCount";
    struct native_need *need = add(needs, "user ids");
    char name[64];

    (void)snprintf(need->text, sizeof(need->text), "%" PRIu32 " from %" PRIu32, c->host_uid_count,
                   c->host_uid_first);
    if (count_mapped(c, "/proc/self/uid_map") < c->host_uid_count ||
        count_mapped(c, "/proc/self/gid_map") < c->host_uid_count) {
        lack(need, "they are not mapped here: map them into this user namespace, or choose others "
                   "with native.firstId");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(TAKEN); i++) {
        if (find_owner(c, TAKEN[i].file, TAKEN[i].ranged, name)) {
            (void)snprintf(need->text, sizeof(need->text),
                           "%" PRIu32 " from %" PRIu32 ", but %s has some of them (%s)",
                           c->host_uid_count, c->host_uid_first, name, TAKEN[i].file);
            lack(need, CHOOSE);
            return;
        }
    }
}

/* --- control groups --- */

static void describe_groups(struct native_need *need, const struct cgroup_set *roots)
{
    bool v1 = false;
    bool v2 = false;

    for (uint32_t i = 0; i < roots->count; i++) {
        v1 |= roots->trees[i].version == 1;
        v2 |= roots->trees[i].version == 2;
    }
    (void)snprintf(need->text, sizeof(need->text), "cpu, memory and pids, %s",
                   v1 && v2 ? "versions 1 and 2"
                   : v1     ? "version 1"
                            : "version 2");
}

static void look_for_groups(struct native_needs *needs)
{
    static const char MOUNT[] =
        "mount the unified hierarchy (mount -t cgroup2 cgroup2 /sys/fs/cgroup), and boot without "
        "cgroup_disable=; Debian needs cgroup_enable=memory on some machines";
    struct native_need *need = add(needs, "control groups");
    struct cgroup_set roots = CGROUP_SET_INIT;
    struct cgroup_set made = CGROUP_SET_INIT;
    struct sandbox_fault fault = {.step = "", .errnum = 0};
    char name[64];

    if (cgroup_find(&roots, &fault) != 0) {
        (void)snprintf(need->text, sizeof(need->text), "%s: %s", fault.step,
                       strerror(fault.errnum));
        lack(need, MOUNT);
        return;
    }
    describe_groups(need, &roots);
    (void)snprintf(name, sizeof(name), "exechost-look-%d", (int)getpid());
    if (cgroup_below(&roots, name, true, &made) != 0) {
        (void)snprintf(need->text, sizeof(need->text), "no group can be made: %s", strerror(errno));
        lack(need, "mount /sys/fs/cgroup writable for the service");
    }
    cgroup_set_close(&made);
    if (cgroup_remove(&roots, name) != 0 && need->met) {
        (void)snprintf(need->text, sizeof(need->text), "the group %s can't be removed: %s", name,
                       strerror(errno));
        lack(need, "mount /sys/fs/cgroup writable for the service");
    }
    cgroup_set_close(&roots);
}

/* --- the filter and the images --- */

static void look_for_seccomp(struct native_needs *needs)
{
    static const uint32_t ACTIONS[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO};
    struct native_need *need = add(needs, "seccomp");

    (void)snprintf(need->text, sizeof(need->text), "filters can be set");
    for (size_t i = 0; i < ARRAY_SIZE(ACTIONS); i++) {
        if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &ACTIONS[i]) != 0) {
            (void)snprintf(need->text, sizeof(need->text), "no filter can be set: %s",
                           strerror(errno));
            lack(need, "use a kernel with CONFIG_SECCOMP_FILTER");
            return;
        }
    }
}

static void look_at_images(struct native_needs *needs, const struct native_needs_config *c)
{
    struct native_need *need = add(needs, "image store");
    char path[PATH_MAX];
    char *slash;
    struct statvfs fs;

    (void)snprintf(path, sizeof(path), "%s", c->images);
    while (access(path, F_OK) != 0 && (slash = strrchr(path, '/')) != NULL && slash != path) {
        *slash = '\0';
    }
    (void)snprintf(need->text, sizeof(need->text), "plain directories, no overlay: %.120s",
                   c->images);
    if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOEXEC) != 0) {
        (void)snprintf(need->text, sizeof(need->text), "%.120s is mounted noexec", path);
        lack(need, "mount it without noexec, or choose another directory with native.images");
    }
}

void native_needs_look(const struct native_needs_config *config, struct native_needs *out)
{
    out->count = 0;
    look_for_rights(out);
    look_for_calls(out);
    look_for_namespaces(out);
    look_for_ids(out, config);
    look_for_groups(out);
    look_for_seccomp(out);
    look_at_images(out, config);
}

int native_needs_check(const struct native_needs_config *config, struct error *err)
{
    struct native_needs needs;

    native_needs_look(config, &needs);
    for (size_t i = 0; i < needs.count; i++) {
        const struct native_need *need = &needs.items[i];

        if (!need->met) {
            return error_set(err, ERROR_HOST_UNAVAILABLE, "%s: %s; %s", need->name, need->text,
                             need->fix);
        }
    }
    return 0;
}
