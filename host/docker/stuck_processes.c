#include "base/log.h"
#include "host/docker/container.h"
#include "host/docker/stuck.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FREEZER_MOUNT "/sys/fs/cgroup/freezer"

enum { CGROUP_TEXT_MAX = 16 * 1024, STAT_TEXT_MAX = 1024, SMALL = 64 };

/* --- what the kernel's texts say --- */

/* The id as a whole name, or as a unit's last part. */
static bool is_named(const char *name, size_t len, const char *container)
{
    static const char unit[] = ".scope";
    const size_t id_len = CONTAINER_ID_SIZE - 1;
    const size_t unit_len = sizeof(unit) - 1;

    if (len > id_len + unit_len && memcmp(name + len - unit_len, unit, unit_len) == 0) {
        len -= unit_len;
        return name[len - id_len - 1] == '-' && memcmp(name + len - id_len, container, id_len) == 0;
    }
    return len == id_len && memcmp(name, container, id_len) == 0;
}

static bool path_names(const char *path, size_t len, const char *container)
{
    const char *end = path + len;

    while (path < end) {
        const char *slash = memchr(path, '/', (size_t)(end - path));
        const char *stop = slash != NULL ? slash : end;

        if (is_named(path, (size_t)(stop - path), container)) {
            return true;
        }
        path = stop + 1;
    }
    return false;
}

/* The third field of a line "<n>:<controllers>:<path>"; NULL when it is no such line. */
static const char *path_of(const char *line, const char *end)
{
    const char *first = memchr(line, ':', (size_t)(end - line));
    const char *second = first != NULL ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;

    return second != NULL ? second + 1 : NULL;
}

bool stuck_cgroup_names(const char *text, const char *container)
{
    while (*text != '\0') {
        const char *end = strchrnul(text, '\n');
        const char *path = path_of(text, end);

        if (path != NULL && path_names(path, (size_t)(end - path), container)) {
            return true;
        }
        text = *end != '\0' ? end + 1 : end;
    }
    return false;
}

int stuck_cgroup_freezer(const char *text, char *path, size_t size)
{
    static const char controller[] = ":freezer:";

    while (*text != '\0') {
        const char *end = strchrnul(text, '\n');
        const char *number_end = memchr(text, ':', (size_t)(end - text));

        if (number_end != NULL && strncmp(number_end, controller, sizeof(controller) - 1) == 0) {
            const char *from = number_end + sizeof(controller) - 1;

            if ((size_t)(end - from) >= size) {
                return -1;
            }
            memcpy(path, from, (size_t)(end - from));
            path[end - from] = '\0';
            return 0;
        }
        text = *end != '\0' ? end + 1 : end;
    }
    return -1;
}

/* A name can hold brackets, so its end is the last one. */
bool stuck_stat_is_held(const char *text)
{
    static const char runtime[] = "runc:[";
    const char *name = strchr(text, '(');
    const char *end = strrchr(text, ')');

    return name != NULL && end != NULL && strncmp(name + 1, runtime, sizeof(runtime) - 1) == 0 &&
           end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}

/* --- processes --- */

static int read_text(const char *pid, const char *what, char *text, size_t size)
{
    char path[SMALL];
    _cleanup_close_ int fd = -1;
    size_t len = 0;

    snprintf(path, sizeof(path), "/proc/%.16s/%s", pid, what);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    while (len < size - 1) {
        ssize_t got = read(fd, text + len, size - 1 - len);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
    }
    text[len] = '\0';
    return len > 0 ? 0 : -1;
}

static bool is_meant(const char *pid, const char *container, unsigned wants, char *cgroup)
{
    char stat[STAT_TEXT_MAX];

    /* The short text first: of most processes it is all that is read. */
    if (wants == STUCK_LIFE &&
        (read_text(pid, "stat", stat, sizeof(stat)) < 0 || !stuck_stat_is_held(stat))) {
        return false;
    }
    return read_text(pid, "cgroup", cgroup, CGROUP_TEXT_MAX) == 0 &&
           stuck_cgroup_names(cgroup, container);
}

/* A frozen process of version 1 does not even die. */
static void thaw(const char *cgroup)
{
    static const char thawed[] = "THAWED";
    char group[PATH_MAX];
    char path[PATH_MAX + SMALL];
    _cleanup_close_ int fd = -1;

    if (stuck_cgroup_freezer(cgroup, group, sizeof(group)) < 0) {
        return;
    }
    snprintf(path, sizeof(path), FREEZER_MOUNT "%s/freezer.state", group);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, thawed, sizeof(thawed) - 1) < 0) {
        log_debug("a control group was not thawed", "path", path, NULL);
    }
}

/* What is asked after the descriptor was made is told of the same process, or that has gone. */
static bool kill_process(const char *pid, const char *container, unsigned wants, char *cgroup)
{
    _cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, (pid_t)strtol(pid, NULL, 10), 0);
    char stat[STAT_TEXT_MAX];

    if (fd < 0 || !is_meant(pid, container, wants, cgroup)) {
        return false;
    }
    if ((wants & STUCK_END) == 0 &&
        (read_text(pid, "stat", stat, sizeof(stat)) < 0 || !stuck_stat_is_held(stat))) {
        return false;
    }
    return syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
}

unsigned stuck_release(const char *container, unsigned wants)
{
    char cgroup[CGROUP_TEXT_MAX];
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    bool thawed = false;
    unsigned killed = 0;

    if (proc == NULL) {
        return 0;
    }
    while ((entry = readdir(proc)) != NULL) {
        const char *pid = entry->d_name;

        if (!isdigit((unsigned char)pid[0]) || !is_meant(pid, container, wants, cgroup)) {
            continue;
        }
        if (!thawed && (wants & (STUCK_THAW | STUCK_END)) != 0) {
            thaw(cgroup);
            thawed = true;
        }
        killed += kill_process(pid, container, wants, cgroup) ? 1 : 0;
    }
    closedir(proc);
    return killed;
}
