#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_LIMIT = 4095, DEPTH_LIMIT = PATH_LIMIT / 2 + 1, LATER_MAX = 64 * 1024 * 1024 };
enum { NANOSECONDS = 1000000000 };

/* A directory that entries still go into; its mode and time are set when it is left. */
struct level {
    dev_t parent_device; /* what ".." must lead to: programs may move it about */
    ino_t parent_inode;
    size_t path_len;
    mode_t mode;
    struct timespec mtime;
};

struct load {
    struct room *room; /* or NULL */
    int root_fd;
    int dir_fd; /* of the innermost level, or a duplicate of root_fd */
    size_t depth;
    struct level levels[DEPTH_LIMIT];
    char dir_path[PATH_LIMIT + 1]; /* of the innermost level; "" is the root */

    /* Modes that would lock us out of hard link targets wait here until the end: mode, path, NUL.
     */
    char *later;
    size_t later_len;
    size_t later_size;

    int file_fd; /* the file that data goes to, or -1 */
    struct item file;
    int64_t file_pos;

    struct item_texts texts; /* of the entry at hand */
    uint8_t payload[GUEST_FRAME_MAX];
};

static int refuse(void)
{
    errno = EPROTO;
    return -1;
}

static struct timespec to_timespec(int64_t ns)
{
    int64_t rest = ns % NANOSECONDS;
    int64_t borrow = rest < 0 ? 1 : 0;
    return (struct timespec){.tv_sec = ns / NANOSECONDS - borrow,
                             .tv_nsec = rest + borrow * NANOSECONDS};
}

static int set_time(int fd, struct timespec mtime)
{
    struct timespec times[2] = {mtime, mtime};
    return futimens(fd, times);
}

static mode_t kept_mode(uint32_t mode)
{
    return (mode_t)mode & (mode_t) ~(S_ISUID | S_ISGID);
}

/* --- directories --- */

static int remember_later(struct load *load, mode_t mode)
{
    size_t path_size = strlen(load->dir_path) + 1;
    size_t need = load->later_len + sizeof(mode) + path_size;
    if (need > load->later_size) {
        size_t size = load->later_size == 0 ? 64 * 1024 : 2 * load->later_size;
        char *grown = size > LATER_MAX ? NULL : realloc(load->later, size);
        if (grown == NULL) {
            errno = ENOMEM;
            return -1;
        }
        load->later = grown;
        load->later_size = size;
    }
    memcpy(load->later + load->later_len, &mode, sizeof(mode));
    memcpy(load->later + load->later_len + sizeof(mode), load->dir_path, path_size);
    load->later_len = need;
    return 0;
}

/* Opens the parent of the innermost directory, which was the one it was entered from, or EAGAIN. */
static int open_up(const struct load *load, const struct level *level)
{
    struct stat st;
    int fd = openat(load->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_dev != level->parent_device ||
                    st.st_ino != level->parent_inode)) {
        guest_close(&fd);
        errno = EAGAIN;
    }
    return fd;
}

static int open_child(int dir_fd, const char *name)
{
    return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Sets what the innermost directory shall have and goes to its parent. */
static int leave(struct load *load)
{
    struct level *level = &load->levels[load->depth - 1];
    if (set_time(load->dir_fd, level->mtime) != 0) {
        return -1;
    }
    int parent = open_up(load, level);
    if (parent < 0) {
        return -1;
    }
    int set = (level->mode & S_IXUSR) != 0 ? fchmod(load->dir_fd, level->mode)
                                           : remember_later(load, level->mode);
    close(load->dir_fd);
    load->dir_fd = parent;
    load->depth--;
    load->dir_path[load->depth == 0 ? 0 : load->levels[load->depth - 1].path_len] = '\0';
    return set;
}

/* Makes `child` (taken) the innermost directory; `path` is its whole path of `path_len` bytes. */
static int push(struct load *load, int child, const char *path, struct level level)
{
    struct stat st;
    if (load->depth == DEPTH_LIMIT || fstat(load->dir_fd, &st) != 0) {
        close(child);
        return refuse();
    }
    level.parent_device = st.st_dev;
    level.parent_inode = st.st_ino;
    close(load->dir_fd);
    load->dir_fd = child;
    memmove(load->dir_path, path, level.path_len);
    load->dir_path[level.path_len] = '\0';
    load->levels[load->depth++] = level;
    return 0;
}

/* Goes into an existing directory that had been left: it gets back what it had. */
static int enter_again(struct load *load, const char *path, size_t path_len, const char *name)
{
    struct stat st;
    int child = open_child(load->dir_fd, name);
    if (child < 0) {
        return -1;
    }
    if (fstat(child, &st) != 0 || fchmod(child, st.st_mode | S_IRWXU) != 0) {
        close(child);
        return -1;
    }
    struct level level = {.path_len = path_len, .mode = st.st_mode & 07777, .mtime = st.st_mtim};
    return push(load, child, path, level);
}

static bool is_inside(const struct load *load, const char *path)
{
    size_t len = strlen(load->dir_path);
    return len == 0 || (strncmp(path, load->dir_path, len) == 0 && path[len] == '/');
}

/* Makes the parent of `path` the innermost directory; returns the last component or NULL. */
static const char *go_to_parent(struct load *load, char *path)
{
    while (!is_inside(load, path)) {
        if (leave(load) != 0) {
            return NULL;
        }
    }
    size_t done = strlen(load->dir_path);
    char *name = path + done + (done > 0);
    char *slash;
    while ((slash = strchr(name, '/')) != NULL) {
        *slash = '\0';
        int entered = enter_again(load, path, (size_t)(slash - path), name);
        *slash = '/';
        if (entered != 0) {
            return NULL;
        }
        name = slash + 1;
    }
    return name;
}

static int make_directory(struct load *load, const struct item *entry, const char *name)
{
    if (mkdirat(load->dir_fd, name, S_IRWXU) != 0 && errno != EEXIST) {
        return -1;
    }
    int child = open_child(load->dir_fd, name);
    if (child < 0) {
        return -1;
    }
    struct level level = {.path_len = strlen(entry->path),
                          .mode = kept_mode(entry->mode),
                          .mtime = to_timespec(entry->mtime_ns)};
    return push(load, child, entry->path, level);
}

/* --- everything else --- */

static int make_file(struct load *load, const struct item *entry, const char *name)
{
    load->file_fd =
        openat(load->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRWXU);
    if (load->file_fd < 0) {
        return -1;
    }
    load->file = *entry;
    load->file_pos = 0;
    return 0;
}

static int finish_file(struct load *load)
{
    if (load->file_fd < 0) {
        return 0;
    }
    int result = -1;
    if (ftruncate(load->file_fd, load->file.size) == 0 &&
        fchmod(load->file_fd, kept_mode(load->file.mode)) == 0 &&
        set_time(load->file_fd, to_timespec(load->file.mtime_ns)) == 0) {
        result = 0;
    }
    guest_close(&load->file_fd);
    return result;
}

static int make_symlink(struct load *load, const struct item *entry, const char *name)
{
    struct timespec mtime = to_timespec(entry->mtime_ns);
    struct timespec times[2] = {mtime, mtime};
    if (symlinkat(entry->target, load->dir_fd, name) != 0) {
        return -1;
    }
    return utimensat(load->dir_fd, name, times, AT_SYMLINK_NOFOLLOW);
}

/* Opens the directory that holds `path`, component by component, leaving the levels as they are. */
static int open_parent(const struct load *load, const char *path, const char **name)
{
    char part[PATH_LIMIT + 1];
    int dir = fcntl(load->root_fd, F_DUPFD_CLOEXEC, 0);
    const char *slash;
    while (dir >= 0 && (slash = strchr(path, '/')) != NULL) {
        size_t len = (size_t)(slash - path);
        memcpy(part, path, len);
        part[len] = '\0';
        int child = openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int errnum = errno;
        close(dir);
        errno = errnum;
        dir = child;
        path = slash + 1;
    }
    *name = path;
    return dir;
}

static int make_hardlink(struct load *load, const struct item *entry, const char *name)
{
    const char *target_name;
    int target_dir = open_parent(load, entry->target, &target_name);
    if (target_dir < 0) {
        return -1;
    }
    int result = linkat(target_dir, target_name, load->dir_fd, name, 0);
    int errnum = errno;
    close(target_dir);
    errno = errnum;
    return result;
}

/* --- frames --- */

static int apply_entry(struct load *load, size_t len)
{
    struct item entry;
    if (finish_file(load) != 0 || item_parse(load->payload, len, &load->texts, &entry) != 0) {
        return -1;
    }
    const char *name = go_to_parent(load, load->texts.path);
    if (name == NULL) {
        return -1;
    }
    switch (entry.type) {
    case ITEM_DIRECTORY: return make_directory(load, &entry, name);
    case ITEM_FILE: return make_file(load, &entry, name);
    case ITEM_SYMLINK: return make_symlink(load, &entry, name);
    case ITEM_HARDLINK: return make_hardlink(load, &entry, name);
    default: return refuse();
    }
}

static int write_at(int fd, const uint8_t *data, size_t len, int64_t offset)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return -1;
        }
        data += n;
        len -= (size_t)n;
        offset += n;
    }
    return 0;
}

static int apply_data(struct load *load, size_t len)
{
    if (load->file_fd < 0 || len <= 8) {
        return refuse();
    }
    int64_t offset = guest_get_i64(load->payload);
    int64_t count = (int64_t)len - 8;
    if (offset < load->file_pos || offset > load->file.size || count > load->file.size - offset) {
        return refuse();
    }
    if (load->room != NULL && room_take(load->room, count) != 0) {
        return -1;
    }
    load->file_pos = offset + count;
    return write_at(load->file_fd, load->payload + 8, (size_t)count, offset);
}

/* Sets the modes that waited. Directories were left from the inside out, so this order locks
 * nothing. */
static int set_later(const struct load *load)
{
    size_t at = 0;
    while (at < load->later_len) {
        mode_t mode;
        memcpy(&mode, load->later + at, sizeof(mode));
        const char *path = load->later + at + sizeof(mode);
        const char *name;
        int parent = open_parent(load, path, &name);
        int fd = parent < 0 ? -1 : open_child(parent, name);
        guest_close(&parent);
        if (fd < 0) {
            return -1;
        }
        int set = fchmod(fd, mode);
        guest_close(&fd);
        if (set != 0) {
            return -1;
        }
        at += sizeof(mode) + strlen(path) + 1;
    }
    return 0;
}

static int finish(struct load *load)
{
    if (finish_file(load) != 0) {
        return -1;
    }
    while (load->depth > 0) {
        if (leave(load) != 0) {
            return -1;
        }
    }
    return set_later(load);
}

/* Takes frames until the end frame: 0, or -1 with errno. */
static int apply_all(struct load *load)
{
    for (;;) {
        uint8_t type;
        size_t len;
        int got = frame_read(&type, load->payload, &len);
        if (got <= 0) {
            return got == 0 ? refuse() : -1;
        }
        switch (type) {
        case GUEST_LOAD_ENTRY: got = apply_entry(load, len); break;
        case GUEST_LOAD_DATA: got = apply_data(load, len); break;
        case GUEST_LOAD_END: return len == 0 ? finish(load) : refuse();
        default: return refuse();
        }
        if (got != 0) {
            return -1;
        }
    }
}

int load_into(int directory, struct room *room, const char **at)
{
    static struct load load;
    load.room = room;
    load.file_fd = -1;
    load.root_fd = directory;
    load.dir_fd = fcntl(directory, F_DUPFD_CLOEXEC, 0);
    int result = load.dir_fd < 0 ? -1 : apply_all(&load);
    *at = load.texts.path[0] != '\0' ? load.texts.path : "before the first entry";
    guest_close(&load.file_fd);
    return result;
}

int load_main(const char *directory)
{
    static struct frame_out out;
    const char *at = directory;
    int root = open_child(AT_FDCWD, directory);
    umask(0);
    /* Nothing else of the user runs during a load. */
    oom_go_first();
    if (root < 0 || load_into(root, NULL, &at) != 0) {
        return frame_failed(&out, errno, at);
    }
    frame_out_seal(&out, GUEST_DONE, 0);
    return frame_out_drain(&out) == 0 ? 0 : 1;
}
