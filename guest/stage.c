/* The place where writes are prepared. Whoever uses one holds a lock on it, so that one whose
 * helper was killed can be told from one in use. */
#include "guest/guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

enum { OPEN_TRIES = 32, ROUNDS_MAX = 1000 * 1000 };

/* --- clearing --- */

int stage_unlock(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        if (fchmod(fd, S_IRWXU) != 0) {
            guest_close(&fd);
        }
        return fd;
    }
    if (errno != EACCES) {
        return -1;
    }
    int path_fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (path_fd < 0) {
        return -1;
    }
    char link[32];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
    int set = chmod(link, S_IRWXU);
    fd = set == 0 ? openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int errnum = errno;
    close(path_fd);
    errno = errnum;
    return fd;
}

/* The first name in the directory: 1, 0 when it is empty, -1. */
static int first_name(int dir_fd, char name[NAME_MAX + 1])
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        guest_close(&fd);
        return -1;
    }
    const struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(dir);
    } while (entry != NULL &&
             (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    int found = entry != NULL ? 1 : errno == 0 ? 0 : -1;
    if (found > 0) {
        (void)snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
    }
    int errnum = errno;
    closedir(dir);
    errno = errnum;
    return found;
}

/* Renames a directory into the stage. Doing so changes its "..", which its mode may forbid. */
static int move_up(int stage, int dir, const char *name, const char *up)
{
    if (renameat(dir, name, stage, up) == 0) {
        return 0;
    }
    int child = errno == EACCES ? stage_unlock(dir, name) : -1;
    if (child < 0) {
        return -1;
    }
    close(child);
    return renameat(dir, name, stage, up);
}

int stage_take(const struct stage *stage, int dir, const char *name)
{
    return move_up(stage->fd, dir, name, "taken");
}

static bool is_gone(int errnum)
{
    return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP;
}

/* Takes one name out of `dir`: files away, directories up into the stage, so that no depth and no
 * ".." is ever needed. */
static int take_out(int stage, int dir, const char *name, unsigned *counter)
{
    char up[32];
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return -1;
    }
    (void)snprintf(up, sizeof(up), "d%u", ++*counter);
    /* What took the place of either comes up again in the next round. */
    return move_up(stage, dir, name, up) == 0 || is_gone(errno) || errno == ENOTEMPTY ||
                   errno == EEXIST
               ? 0
               : -1;
}

static int empty_directory(int stage, const char *name, unsigned *counter)
{
    int dir = stage_unlock(stage, name);
    if (dir < 0) {
        return is_gone(errno) ? 0 : -1;
    }
    struct names names = {0};
    int result = names_read(dir, false, &names);
    const char *at = names.text;
    for (size_t i = 0; result == 0 && i < names.count; i++, at += strlen(at) + 1) {
        result = take_out(stage, dir, at, counter);
    }
    names_done(&names);
    int errnum = errno;
    close(dir);
    errno = errnum;
    return result;
}

int stage_remove_tree(const struct stage *stage)
{
    char name[NAME_MAX + 1];
    unsigned counter = 0;
    /* A program that keeps filling it is not waited out. */
    for (int round = 0; round < ROUNDS_MAX; round++) {
        int found = first_name(stage->fd, name);
        if (found <= 0) {
            return found;
        }
        if (unlinkat(stage->fd, name, 0) == 0 || errno == ENOENT) {
            continue;
        }
        if ((errno != EISDIR && errno != EPERM) ||
            empty_directory(stage->fd, name, &counter) != 0) {
            return -1;
        }
        if (unlinkat(stage->fd, name, AT_REMOVEDIR) != 0 && errno != ENOTEMPTY && !is_gone(errno)) {
            return -1;
        }
    }
    errno = EAGAIN;
    return -1;
}

bool stage_is_root(int root, int dir)
{
    struct stat top;
    struct stat st;
    return fstat(root, &top) == 0 && fstat(dir, &st) == 0 && top.st_dev == st.st_dev &&
           top.st_ino == st.st_ino;
}

/* --- making --- */

void stage_clear_stale(int root)
{
    struct names names = {0};
    if (names_read(root, false, &names) != 0) {
        return;
    }
    const char *at = names.text;
    for (size_t i = 0; i < names.count; i++, at += strlen(at) + 1) {
        if (!names_is_stage(at)) {
            continue;
        }
        struct stage stale = {.root = root, .fd = stage_unlock(root, at)};
        if (stale.fd >= 0 && flock(stale.fd, LOCK_EX | LOCK_NB) == 0 &&
            stage_remove_tree(&stale) == 0) {
            (void)unlinkat(root, at, AT_REMOVEDIR);
        }
        guest_close(&stale.fd);
    }
    names_done(&names);
}

static int make(struct stage *stage)
{
    uint64_t number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
        return -1;
    }
    (void)snprintf(stage->name, sizeof(stage->name), "%s%016llx", GUEST_STAGE_PREFIX,
                   (unsigned long long)number);
    if (mkdirat(stage->root, stage->name, S_IRWXU) != 0) {
        return -1;
    }
    stage->fd = openat(stage->root, stage->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return stage->fd < 0 ? -1 : 0;
}

int stage_open(struct stage *stage)
{
    stage->fd = -1;
    stage->root = beneath_root();
    if (stage->root < 0) {
        return -1;
    }
    stage_clear_stale(stage->root);
    for (int try = 0; try < OPEN_TRIES; try++) {
        struct stat st;
        if (make(stage) != 0) {
            if (errno == ENOENT || errno == EEXIST) {
                continue; /* taken for a stale one between its making and its lock */
            }
            return -1;
        }
        if (flock(stage->fd, LOCK_EX | LOCK_NB) == 0 && fstat(stage->fd, &st) == 0 &&
            st.st_nlink > 0) {
            return 0;
        }
        guest_close(&stage->fd);
    }
    errno = EAGAIN;
    return -1;
}

void stage_close(struct stage *stage)
{
    int errnum = errno;
    if (stage->fd >= 0) {
        (void)stage_remove_tree(stage);
        (void)unlinkat(stage->root, stage->name, AT_REMOVEDIR);
        guest_close(&stage->fd);
    }
    guest_close(&stage->root);
    errno = errnum;
}
