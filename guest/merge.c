/* Brings a staged tree into the workspace: looks for what stands in the way, then renames, and
 * renames back when that fails half way. A file that is replaced changes places with the new one,
 * so that it is there to go back. */
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 64 * 1024 * 1024, TEXT_FIRST = 16 * 1024 };

/* Paths, each with a byte in front, one after the other; a stack. */
struct paths {
    char *text;
    size_t len;
    size_t size;
    size_t last; /* where the newest begins */
};

struct merge {
    int tree;   /* the staged one */
    int target; /* the directory it goes into */
    bool acting;
    struct paths open; /* directories that are on both sides and not looked into yet */
    struct paths done; /* renamed: PLACED or EXCHANGED */
    char path[GUEST_PATH_MAX + NAME_MAX + 2];
};

enum { PLACED = 'p', EXCHANGED = 'x', OPEN = 'o' };

/* --- paths --- */

static int reserve(struct paths *paths, size_t more)
{
    while (paths->len + more > paths->size) {
        size_t size = paths->size == 0 ? TEXT_FIRST : 2 * paths->size;
        char *grown = size > TEXT_MAX ? NULL : realloc(paths->text, size);
        if (grown == NULL) {
            errno = ENOMEM;
            return -1;
        }
        paths->text = grown;
        paths->size = size;
    }
    return 0;
}

/* Each ends with where the one before it began, so that the stack can be walked down. */
static int push(struct paths *paths, char kind, const char *path)
{
    size_t len = strlen(path) + 2;
    if (reserve(paths, len + sizeof(size_t)) != 0) {
        return -1;
    }
    size_t begin = paths->len;
    paths->text[begin] = kind;
    memcpy(paths->text + begin + 1, path, len - 1);
    memcpy(paths->text + begin + len, &paths->last, sizeof(size_t));
    paths->last = begin;
    paths->len = begin + len + sizeof(size_t);
    return 0;
}

/* The newest, with its kind; 0 when there is none. */
static char pop(struct paths *paths, char path[GUEST_PATH_MAX + NAME_MAX + 2])
{
    if (paths->len == 0) {
        return 0;
    }
    size_t begin = paths->last;
    char kind = paths->text[begin];
    size_t len = strlen(paths->text + begin + 1) + 1;
    memcpy(path, paths->text + begin + 1, len);
    memcpy(&paths->last, paths->text + begin + 1 + len, sizeof(size_t));
    paths->len = begin;
    return kind;
}

/* --- renaming --- */

/* A directory's ".." changes on its way, which its mode may forbid; it keeps its mode. */
static int move(int from, const char *name, int to, const char *as)
{
    struct stat st;
    if (renameat2(from, name, to, as, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EACCES || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(st.st_mode)) {
        return -1;
    }
    int fd = stage_unlock(from, name);
    if (fd < 0) {
        return -1;
    }
    int result = renameat2(from, name, to, as, RENAME_NOREPLACE);
    int errnum = errno;
    (void)fchmod(fd, st.st_mode & 07777);
    close(fd);
    errno = errnum;
    return result;
}

static int exchange(int tree, int target, const char *name)
{
    struct stat st;
    if (renameat2(tree, name, target, name, RENAME_EXCHANGE) != 0) {
        return -1;
    }
    if (fstatat(tree, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
        /* It became a directory since it was looked at. */
        (void)renameat2(tree, name, target, name, RENAME_EXCHANGE);
        errno = EISDIR;
        return -1;
    }
    return 0;
}

static int act(struct merge *m, char kind, int tree, int target, const char *name)
{
    if (reserve(&m->done, strlen(m->path) + 2 + sizeof(size_t)) != 0) {
        return -1;
    }
    int result = kind == PLACED ? move(tree, name, target, name) : exchange(tree, target, name);
    return result == 0 ? push(&m->done, kind, m->path) : -1;
}

/* --- looking --- */

static int merge_name(struct merge *m, int tree, int target, const char *name)
{
    struct stat ours;
    struct stat theirs;
    if (fstatat(tree, name, &ours, AT_SYMLINK_NOFOLLOW) != 0) {
        return -1;
    }
    if (fstatat(target, name, &theirs, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) {
            return -1;
        }
        return m->acting ? act(m, PLACED, tree, target, name) : 0;
    }
    if (S_ISDIR(ours.st_mode) && S_ISDIR(theirs.st_mode)) {
        return push(&m->open, OPEN, m->path);
    }
    if (S_ISDIR(ours.st_mode) != S_ISDIR(theirs.st_mode)) {
        errno = S_ISDIR(ours.st_mode) ? ENOTDIR : EISDIR;
        return -1;
    }
    return m->acting ? act(m, EXCHANGED, tree, target, name) : 0;
}

/* The directory of the stage, unlocked: what has to be moved out of it is ours. */
static int open_staged(const struct merge *m, const char *path)
{
    const char *name;
    if (path[0] == '\0') {
        return openat(m->tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    int parent = beneath_parent(m->tree, path, &name);
    int fd = parent < 0 ? -1 : stage_unlock(parent, name);
    int errnum = errno;
    guest_close(&parent);
    errno = errnum;
    return fd;
}

static int open_target(const struct merge *m, const char *path)
{
    return beneath_open(m->target, path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
}

static int merge_names(struct merge *m, int tree, int target)
{
    struct names names;
    size_t at_len = strlen(m->path);
    if (names_read(tree, false, &names) != 0) {
        return -1;
    }
    int result = 0;
    const char *name = names.text;
    for (size_t i = 0; result == 0 && i < names.count; i++, name += strlen(name) + 1) {
        (void)snprintf(m->path + at_len, sizeof(m->path) - at_len, "%s%s", at_len > 0 ? "/" : "",
                       name);
        result = merge_name(m, tree, target, name);
    }
    names_done(&names);
    if (result == 0) {
        m->path[at_len] = '\0';
    }
    return result;
}

static int merge_directory(struct merge *m)
{
    int tree = open_staged(m, m->path);
    int target = tree < 0 ? -1 : open_target(m, m->path);
    int result = target < 0 ? -1 : merge_names(m, tree, target);
    int errnum = errno;
    guest_close(&tree);
    guest_close(&target);
    errno = errnum;
    return result;
}

static int merge_pass(struct merge *m, bool acting)
{
    m->acting = acting;
    m->open.len = 0;
    m->open.last = 0;
    if (push(&m->open, OPEN, "") != 0) {
        return -1;
    }
    while (pop(&m->open, m->path) != 0) {
        if (merge_directory(m) != 0) {
            return -1;
        }
    }
    return 0;
}

/* --- and back --- */

static void undo_one(const struct merge *m, char kind, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    char part[GUEST_PATH_MAX + NAME_MAX + 2];
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    memcpy(part, path, len);
    part[len] = '\0';
    int tree = open_staged(m, part);
    int target = tree < 0 ? -1 : open_target(m, part);
    if (target >= 0 && kind == PLACED) {
        (void)move(target, name, tree, name);
    } else if (target >= 0) {
        (void)renameat2(tree, name, target, name, RENAME_EXCHANGE);
    }
    guest_close(&tree);
    guest_close(&target);
}

static void undo(struct merge *m)
{
    char path[sizeof(m->path)];
    int errnum = errno;
    for (char kind; (kind = pop(&m->done, path)) != 0;) {
        undo_one(m, kind, path);
    }
    errno = errnum;
}

int merge_tree(const struct stage *stage, int tree, const char *path, const char **at)
{
    static struct merge m;
    unsigned made;
    size_t len = strlen(path);
    m.tree = tree;
    *at = path;
    if (len > GUEST_PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int result = beneath_make(stage->root, path, len, &made);
    m.target = result != 0 ? -1 : beneath_open(stage->root, path, O_PATH | O_DIRECTORY, 0);
    result = m.target < 0 ? -1 : 0;
    if (result == 0) {
        *at = m.path;
        result = merge_pass(&m, false) == 0 ? merge_pass(&m, true) : -1;
    }
    if (result != 0) {
        undo(&m);
        beneath_unmake(stage->root, path, len, made);
    }
    return result;
}
