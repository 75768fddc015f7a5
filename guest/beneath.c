/* Paths below the workspace, while programs swap what they lead through. */
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 256, LINKS_MAX = 40 };

int beneath_open(int root, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
    };
    /* The kernel gives up when something is renamed while it steps over ".." in a link. */
    for (int try = 0; try < TRIES; try++) {
        long fd = syscall(SYS_openat2, root, path[0] == '\0' ? "." : path, &how, sizeof(how));
        if (fd >= 0 || errno != EAGAIN) {
            return (int)fd;
        }
        (void)sched_yield();
    }
    return -1;
}

int beneath_root(void)
{
    return open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The directory part of `path` in `part`; returns where the name begins. */
static const char *split(const char *path, char part[GUEST_PATH_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    memcpy(part, path, len);
    part[len] = '\0';
    return slash == NULL ? path : slash + 1;
}

int beneath_parent(int root, const char *path, const char **name)
{
    char part[GUEST_PATH_MAX + 1];
    if (path[0] == '\0' || strlen(path) > GUEST_PATH_MAX) {
        errno = path[0] == '\0' ? ENOENT : ENAMETOOLONG;
        return -1;
    }
    *name = split(path, part);
    return beneath_open(root, part, O_PATH | O_DIRECTORY, 0);
}

/* `path` as it is with the link at `name` replaced by what it says. */
static int step(char *path, size_t name_at, const char *target, size_t target_len)
{
    if (target[0] == '/') {
        errno = EXDEV;
        return -1;
    }
    if (name_at + target_len > GUEST_PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(path + name_at, target, target_len);
    path[name_at + target_len] = '\0';
    return 0;
}

/* Names that are directories whatever they lead to. */
static bool is_directory_name(const char *name)
{
    return name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int beneath_target(int root, char *path, const char **name)
{
    char target[GUEST_PATH_MAX + 1];
    for (int links = 0; links <= LINKS_MAX; links++) {
        int parent = beneath_parent(root, path, name);
        if (parent < 0) {
            return -1;
        }
        if (is_directory_name(*name)) {
            /* Of a link that leads out the kernel says so, of all others that it is a directory. */
            int there = beneath_open(root, path, O_PATH, 0);
            int errnum = there < 0 ? errno : EISDIR;
            guest_close(&there);
            close(parent);
            errno = errnum;
            return -1;
        }
        ssize_t len = readlinkat(parent, *name, target, sizeof(target));
        if (len < 0 && (errno == EINVAL || errno == ENOENT)) {
            return parent;
        }
        int errnum = errno;
        close(parent);
        errno = errnum;
        if (len < 0 || step(path, (size_t)(*name - path), target, (size_t)len) != 0) {
            return -1;
        }
    }
    errno = ELOOP;
    return -1;
}

/* --- making directories --- */

/* One component: 1 made, 0 there already, -1. */
static int make_one(int root, const char *path)
{
    const char *name;
    int parent = beneath_parent(root, path, &name);
    if (parent < 0) {
        return -1;
    }
    int made = mkdirat(parent, name, 0755) == 0 ? 1 : -1;
    int errnum = errno;
    close(parent);
    errno = errnum;
    if (made > 0 || errnum != EEXIST) {
        return made;
    }
    int there = beneath_open(root, path, O_PATH | O_DIRECTORY, 0);
    if (there < 0) {
        return -1;
    }
    close(there);
    return 0;
}

int beneath_make(int root, const char *path, size_t len, unsigned *made)
{
    char part[GUEST_PATH_MAX + 1];
    *made = 0;
    for (size_t end = 0; end < len;) {
        const char *slash = memchr(path + end, '/', len - end);
        size_t stop = slash == NULL ? len : (size_t)(slash - path);
        memcpy(part, path, stop);
        part[stop] = '\0';
        int one = make_one(root, part);
        if (one < 0) {
            return -1;
        }
        *made = one > 0 ? *made + 1 : 0;
        end = stop + 1;
    }
    return 0;
}

void beneath_unmake(int root, const char *path, size_t len, unsigned made)
{
    char part[GUEST_PATH_MAX + 1];
    int errnum = errno;
    memcpy(part, path, len);
    part[len] = '\0';
    for (; made > 0; made--) {
        const char *name;
        int parent = beneath_parent(root, part, &name);
        if (parent < 0) {
            break;
        }
        (void)unlinkat(parent, name, AT_REMOVEDIR);
        close(parent);
        char *slash = strrchr(part, '/');
        if (slash == NULL) {
            break;
        }
        *slash = '\0';
    }
    errno = errnum;
}
