/* A directory with all that is in it, as entries in archive order. Goes down by names alone: each
 * directory is opened from the top, so that one that is moved away meanwhile leads nowhere. */
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MAX = GUEST_PATH_MAX / 2 + 1, LINKS_MAX = 64 * 1024 * 1024, LINKS_FIRST = 1024 };

/* The first name of a file that has several. */
struct link {
    dev_t device;
    ino_t inode;
    size_t path; /* where it begins in `paths` */
};

struct links {
    struct link *slots; /* open addressing; an inode of 0 is a free slot */
    size_t size;
    size_t count;
    char *paths;
    size_t paths_len;
    size_t paths_size;
};

struct level {
    struct names names;
    const char *at;
    size_t left;
    size_t path_len; /* of the directory's own path */
    int fd;
};

struct pack {
    int top;
    bool whole; /* the workspace itself */
    size_t depth;
    struct level levels[DEPTH_MAX];
    struct links links;
    char path[GUEST_PATH_MAX + NAME_MAX + 2];
    char target[GUEST_PATH_MAX + 1];
    struct frame_out out;
};

enum outcome { GO_ON = 0, FAILED = -1, GONE = 1 };

/* --- hard links --- */

static struct link *find_slot(struct link *slots, size_t size, const struct stat *st)
{
    size_t at = ((size_t)st->st_ino * 0x9E3779B97F4A7C15ULL >> 20) & (size - 1);
    while (slots[at].inode != 0 &&
           (slots[at].inode != st->st_ino || slots[at].device != st->st_dev)) {
        at = (at + 1) & (size - 1);
    }
    return &slots[at];
}

static int grow_slots(struct links *links)
{
    size_t size = links->size == 0 ? LINKS_FIRST : 2 * links->size;
    struct link *slots = size > LINKS_MAX / sizeof(*slots) ? NULL : calloc(size, sizeof(*slots));
    if (slots == NULL) {
        errno = ENOMEM;
        return -1;
    }
    for (size_t i = 0; i < links->size; i++) {
        struct stat st = {.st_dev = links->slots[i].device, .st_ino = links->slots[i].inode};
        if (st.st_ino != 0) {
            *find_slot(slots, size, &st) = links->slots[i];
        }
    }
    free(links->slots);
    links->slots = slots;
    links->size = size;
    return 0;
}

static int keep_path(struct links *links, const char *path, size_t *at)
{
    size_t len = strlen(path) + 1;
    if (links->paths_len + len > links->paths_size) {
        size_t size = links->paths_size == 0 ? 64 * 1024 : 2 * links->paths_size;
        char *grown = size > LINKS_MAX ? NULL : realloc(links->paths, size);
        if (grown == NULL) {
            errno = ENOMEM;
            return -1;
        }
        links->paths = grown;
        links->paths_size = size;
    }
    memcpy(links->paths + links->paths_len, path, len);
    *at = links->paths_len;
    links->paths_len += len;
    return 0;
}

/* The earlier name of this file, or NULL when this is the first; -1: no memory. */
static int know_link(struct links *links, const struct stat *st, const char *path,
                     const char **earlier)
{
    *earlier = NULL;
    if (st->st_nlink < 2) {
        return 0;
    }
    if (2 * links->count >= links->size && grow_slots(links) != 0) {
        return -1;
    }
    struct link *slot = find_slot(links->slots, links->size, st);
    if (slot->inode != 0) {
        *earlier = links->paths + slot->path;
        return 0;
    }
    if (keep_path(links, path, &slot->path) != 0) {
        return -1;
    }
    slot->device = st->st_dev;
    slot->inode = st->st_ino;
    links->count++;
    return 0;
}

/* --- entries --- */

static enum outcome send_item(struct pack *pack, const struct item *item)
{
    return item_send(&pack->out, item) == 0 ? GO_ON : GONE;
}

/* As another name of a file or link that was sent before, else as itself. */
static enum outcome send_linkable(struct pack *pack, const struct stat *st, struct item *item)
{
    const char *earlier;
    if (know_link(&pack->links, st, pack->path, &earlier) != 0) {
        return FAILED;
    }
    if (earlier != NULL) {
        item->type = ITEM_HARDLINK;
        item->size = 0;
        item->target = earlier;
    }
    return send_item(pack, item);
}

static enum outcome send_open_file(struct pack *pack, int fd)
{
    struct stat st;
    int64_t sent;
    if (fstat(fd, &st) != 0) {
        return FAILED;
    }
    struct item item = item_of(&st, pack->path);
    struct item_range range = {.end = item.size, .sparse = true};
    if (item.type != ITEM_FILE) {
        return GO_ON; /* replaced meanwhile: as good as vanished */
    }
    enum outcome outcome = send_linkable(pack, &st, &item);
    return outcome == GO_ON && item.type == ITEM_FILE
               ? (enum outcome)item_send_data(&pack->out, fd, range, &sent)
               : outcome;
}

static enum outcome send_file(struct pack *pack, int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ELOOP || errno == ENXIO ? GO_ON : FAILED;
    }
    enum outcome outcome = send_open_file(pack, fd);
    int errnum = errno;
    close(fd);
    errno = errnum;
    return outcome;
}

/* Makes the directory of pack->path the innermost level. One that vanished has nothing in it. */
static enum outcome enter(struct pack *pack)
{
    struct level level = {.path_len = strlen(pack->path)};
    if (pack->depth == DEPTH_MAX) {
        errno = ENAMETOOLONG;
        return FAILED;
    }
    level.fd = beneath_open(pack->top, pack->path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    if (level.fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? GO_ON : FAILED;
    }
    if (names_read(level.fd, pack->whole && pack->depth == 0, &level.names) != 0) {
        guest_close(&level.fd);
        return FAILED;
    }
    level.at = level.names.text;
    level.left = level.names.count;
    if (pack->depth > 0) {
        guest_close(&pack->levels[pack->depth - 1].fd); /* opened again when it is returned to */
    }
    pack->levels[pack->depth++] = level;
    return GO_ON;
}

static enum outcome pack_name(struct pack *pack, int dir, const char *name)
{
    struct stat st;
    int there = item_look(dir, name, &st, pack->target);
    if (there <= 0) {
        return there == 0 ? GO_ON : FAILED;
    }
    struct item item = item_of(&st, pack->path);
    item.target = pack->target;
    switch (item.type) {
    case ITEM_FILE: return send_file(pack, dir, name);
    case ITEM_SYMLINK: return send_linkable(pack, &st, &item);
    case ITEM_DIRECTORY:
        there = send_item(pack, &item);
        return there == GO_ON ? enter(pack) : (enum outcome)there;
    default: return send_item(pack, &item);
    }
}

/* The directory of the innermost level; -1 when it vanished (then nothing is left in it) or with
 * *failed set. */
static int level_fd(struct pack *pack, struct level *level, bool *failed)
{
    *failed = false;
    if (level->fd < 0) {
        char rest = pack->path[level->path_len];
        pack->path[level->path_len] = '\0';
        level->fd =
            beneath_open(pack->top, pack->path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
        pack->path[level->path_len] = rest;
        *failed = level->fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
    }
    return level->fd;
}

static void leave(struct pack *pack)
{
    struct level *level = &pack->levels[--pack->depth];
    names_done(&level->names);
    guest_close(&level->fd);
}

static enum outcome pack_next(struct pack *pack)
{
    struct level *level = &pack->levels[pack->depth - 1];
    bool broken = false;
    int dir = level->left == 0 ? -1 : level_fd(pack, level, &broken);
    if (dir < 0) {
        if (level->left > 0 && broken) {
            return FAILED;
        }
        leave(pack);
        return GO_ON;
    }
    const char *name = level->at;
    size_t len = strlen(name);
    level->at += len + 1;
    level->left--;
    size_t at = level->path_len;
    if (at > 0) {
        pack->path[at++] = '/';
    }
    memcpy(pack->path + at, name, len + 1);
    if (at + len > GUEST_PATH_MAX) {
        pack->path[GUEST_PATH_MAX] = '\0';
        errno = ENAMETOOLONG;
        return FAILED;
    }
    return pack_name(pack, dir, name);
}

int pack_main(const char *path)
{
    static struct pack pack;
    int root = beneath_root();
    pack.top = root < 0 ? -1 : beneath_open(root, path, O_PATH | O_DIRECTORY, 0);
    if (pack.top < 0) {
        return frame_failed(&pack.out, errno, path);
    }
    pack.whole = stage_is_root(root, pack.top);
    enum outcome outcome = enter(&pack);
    while (outcome == GO_ON && pack.depth > 0) {
        outcome = pack_next(&pack);
    }
    if (outcome == GONE) {
        return 1;
    }
    if (outcome == FAILED) {
        return frame_failed(&pack.out, errno, pack.path);
    }
    frame_out_seal(&pack.out, GUEST_DONE, 0);
    return frame_out_drain(&pack.out) == 0 ? 0 : 1;
}
