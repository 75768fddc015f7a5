/* Layers laid over each other in a directory. Nothing is followed: a name's parent is opened
 * beneath the root without symbolic links, and what is to be there is made in it. */
#include "host/native/images_internal.h"

#include "base/file.h"
#include "workspace/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const char WHITEOUT[] = ".wh.";
static const char WHITEOUT_META[] = ".wh..wh.";
static const char WHITEOUT_OPAQUE[] = ".wh..wh..opq";

enum { IMPLIED_MODE = 0755, BENEATH_TRIES = 64 };

static int fault_at(struct error *err, const char *path, const char *what)
{
    return error_set(err, ERROR_INVALID_REQUEST, "%s: %s", workspace_path_show(path).text, what);
}

static int trouble_at(struct error *err, const char *path)
{
    int errnum = errno;

    if (errnum == ELOOP || errnum == EXDEV) {
        return fault_at(err, path, "it goes through a symbolic link");
    }
    if (errnum == ENOTDIR) {
        return fault_at(err, path, "it lies below something that is no directory");
    }
    if (errnum == ENAMETOOLONG) {
        return fault_at(err, path, "a part of its name is too long");
    }
    return error_set_errno(err, ERROR_INTERNAL, errnum, "%s", workspace_path_show(path).text);
}

/* --- ways --- */

/* An open directory below the root; "" is the root. -1 and errno. */
static int open_directory(const struct native_image_tree *t, const char *path)
{
    const struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };

    for (int tries = 0;; tries++) {
        int fd =
            (int)syscall(SYS_openat2, t->root_fd, path[0] != '\0' ? path : ".", &how, sizeof(how));

        if (fd >= 0 || errno != EAGAIN || tries == BENEATH_TRIES) {
            return fd;
        }
    }
}

/* Makes what is missing of a directory's way. */
static int make_way(const struct native_image_tree *t, const char *path)
{
    char part[WORKSPACE_PATH_MAX + 1];
    _cleanup_close_ int fd = open_directory(t, "");

    for (const char *from = path; fd >= 0 && *from != '\0';) {
        size_t len = strcspn(from, "/");
        bool made;
        int next;

        memcpy(part, from, len);
        part[len] = '\0';
        made = mkdirat(fd, part, IMPLIED_MODE) == 0;
        if (!made && errno != EEXIST) {
            return -1;
        }
        next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (made && next >= 0 && fchmod(next, IMPLIED_MODE) < 0) { /* whatever the umask is */
            close(next);
            return -1;
        }
        close(fd);
        fd = next;
        from += len + (from[len] == '/' ? 1 : 0);
    }
    return fd < 0 ? -1 : TAKE_FD(fd);
}

/* The directory that `path` lies in, and the last part of the name. `make`: with what is missing of
 * it. -1 and errno. */
static int open_parent(const struct native_image_tree *t, const char *path, bool make,
                       const char **base)
{
    char parent[WORKSPACE_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t)(slash - path) : 0;
    int fd;

    *base = slash != NULL ? slash + 1 : path;
    memcpy(parent, path, len);
    parent[len] = '\0';
    fd = open_directory(t, parent);
    return fd < 0 && errno == ENOENT && make ? make_way(t, parent) : fd;
}

/* --- removing --- */

struct removal {
    const struct workspace_names *keep; /* what this layer has brought stays; NULL: nothing does */
    char path[WORKSPACE_PATH_MAX + NAME_MAX + 2];
};

static int remove_at(struct removal *r, int dir_fd, const char *name, size_t len);

/* `len` of r->path is the directory's own name. 0, or -1 and errno. */
static int remove_in(struct removal *r, int dir_fd, const char *name, size_t len)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    int result = 0;

    if (dir == NULL) {
        cleanup_close(&fd);
        return -1;
    }
    while (result == 0) {
        const struct dirent *entry;

        errno = 0;
        entry = readdir(dir);
        if (entry == NULL) {
            result = errno != 0 ? -1 : 0;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            result = remove_at(r, dirfd(dir), entry->d_name, len);
        }
    }
    closedir(dir);
    return result;
}

/* Removes one name of the directory that r->path says up to `len`, with all that is below. */
static int remove_at(struct removal *r, int dir_fd, const char *name, size_t len)
{
    size_t name_len = strlen(name);
    size_t start = len + (len > 0 ? 1 : 0);
    bool kept;

    if (start + name_len >= sizeof(r->path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (len > 0) {
        r->path[len] = '/';
    }
    memcpy(r->path + start, name, name_len + 1);
    kept = r->keep != NULL &&
           workspace_names_find(r->keep, r->path, start + name_len) != WORKSPACE_NAMES_NONE;
    if (!kept && (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)) {
        return 0;
    }
    if (remove_in(r, dir_fd, name, start + name_len) < 0) {
        /* What is kept and no directory has nothing in it. */
        return kept && (errno == ENOTDIR || errno == ELOOP) ? 0 : -1;
    }
    return kept ? 0 : unlinkat(dir_fd, name, AT_REMOVEDIR);
}

/* `path` names the directory that the name lies in. */
static int remove_name(int dir_fd, const char *path, size_t path_len, const char *name,
                       const struct workspace_names *keep)
{
    struct removal r = {.keep = keep};

    memcpy(r.path, path, path_len);
    return remove_at(&r, dir_fd, name, path_len);
}

/* --- whiteouts --- */

static int apply_whiteout(struct native_image_tree *t, const char *path, struct error *err)
{
    const char *base;
    _cleanup_close_ int dir_fd = open_parent(t, path, false, &base);
    size_t len = base > path ? (size_t)(base - path) - 1 : 0;
    const char *name = base + strlen(WHITEOUT);
    int result;

    if (dir_fd < 0) {
        return errno == ENOENT ? 0 : trouble_at(err, path);
    }
    if (strcmp(base, WHITEOUT_OPAQUE) == 0) {
        struct removal r = {.keep = &t->names};

        memcpy(r.path, path, len);
        result = remove_in(&r, dir_fd, ".", len);
    } else if (strncmp(base, WHITEOUT_META, strlen(WHITEOUT_META)) == 0) {
        return 0; /* of a file system that some layers were made with */
    } else if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return fault_at(err, path, "it names nothing that could be removed");
    } else {
        result = remove_name(dir_fd, path, len, name, &t->names);
    }
    return result == 0 ? 0 : trouble_at(err, path);
}

static bool is_whiteout(const char *path)
{
    const char *slash = strrchr(path, '/');

    return strncmp(slash != NULL ? slash + 1 : path, WHITEOUT, strlen(WHITEOUT)) == 0;
}

/* --- entries --- */

/* This layer has brought `path`, and so the directories above it. */
static int remember(struct native_image_tree *t, const char *path, enum workspace_names_kind kind,
                    struct error *err)
{
    size_t len = strlen(path);

    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t up = (size_t)(slash - path);

        if (workspace_names_find(&t->names, path, up) == WORKSPACE_NAMES_NONE &&
            workspace_names_add(&t->names, path, up, WORKSPACE_NAMES_DIRECTORY) != 0) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
    }
    if (workspace_names_find(&t->names, path, len) == WORKSPACE_NAMES_NONE &&
        workspace_names_add(&t->names, path, len, kind) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

static int set_mode(int dir_fd, const char *name, const struct workspace_entry *entry)
{
    _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -1 : fchmod(fd, entry->mode);
}

/* A directory that is there keeps what is in it; everything else gives way. */
static int make_directory(int dir_fd, const char *name, const struct workspace_entry *entry)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
        return set_mode(dir_fd, name, entry);
    }
    if (remove_name(dir_fd, "", 0, name, NULL) < 0 || mkdirat(dir_fd, name, 0700) < 0) {
        return -1;
    }
    return set_mode(dir_fd, name, entry);
}

/* Layers tell no time before the epoch. */
static struct timespec time_of(int64_t ns)
{
    static const int64_t SECOND = 1000000000;

    return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
}

static int make_symlink(int dir_fd, const char *name, const struct workspace_entry *entry)
{
    const struct timespec times[] = {time_of(entry->mtime_ns), time_of(entry->mtime_ns)};

    if (symlinkat(entry->target, dir_fd, name) < 0) {
        return -1;
    }
    return utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW);
}

static int make_hardlink(const struct native_image_tree *t, int dir_fd, const char *name,
                         const struct workspace_entry *entry, struct error *err)
{
    const char *target_base;
    size_t len = strlen(entry->target);
    _cleanup_close_ int target_fd = -1;

    /* One to a device: neither is there. */
    if (workspace_names_find(&t->names, entry->target, len) == WORKSPACE_NAMES_SPECIAL) {
        return 0;
    }
    target_fd = open_parent(t, entry->target, false, &target_base);
    if (target_fd >= 0 && linkat(target_fd, target_base, dir_fd, name, 0) == 0) {
        return 0;
    }
    if (errno == ENOENT || errno == EPERM) {
        return fault_at(err, entry->path, "hard link to no file of the image");
    }
    return trouble_at(err, entry->path);
}

static int open_file(struct native_image_tree *t, int dir_fd, const char *name,
                     const struct workspace_entry *entry)
{
    t->file_fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    t->file_size = entry->size;
    t->file_mode = entry->mode;
    t->file_mtime_ns = entry->mtime_ns;
    return t->file_fd < 0 ? -1 : 0;
}

static int make(struct native_image_tree *t, int dir_fd, const char *name,
                const struct workspace_entry *entry, struct error *err)
{
    int result = 0;

    if (entry->type == WORKSPACE_DIRECTORY) {
        result = make_directory(dir_fd, name, entry);
        return result == 0 ? 0 : trouble_at(err, entry->path);
    }
    if (remove_name(dir_fd, "", 0, name, NULL) < 0) {
        return trouble_at(err, entry->path);
    }
    switch (entry->type) {
    case WORKSPACE_FILE: result = open_file(t, dir_fd, name, entry); break;
    case WORKSPACE_SYMLINK: result = make_symlink(dir_fd, name, entry); break;
    case WORKSPACE_HARDLINK: return make_hardlink(t, dir_fd, name, entry, err);
    default: break; /* devices, FIFOs, sockets: nothing of them is wanted */
    }
    return result == 0 ? 0 : trouble_at(err, entry->path);
}

static enum workspace_names_kind kind_of(const struct native_image_tree *t,
                                         const struct workspace_entry *entry)
{
    switch (entry->type) {
    case WORKSPACE_DIRECTORY: return WORKSPACE_NAMES_DIRECTORY;
    case WORKSPACE_FILE: return WORKSPACE_NAMES_FILE;
    case WORKSPACE_SYMLINK: return WORKSPACE_NAMES_SYMLINK;
    case WORKSPACE_HARDLINK:
        return workspace_names_find(&t->names, entry->target, strlen(entry->target)) ==
                       WORKSPACE_NAMES_SPECIAL
                   ? WORKSPACE_NAMES_SPECIAL
                   : WORKSPACE_NAMES_FILE;
    default: return WORKSPACE_NAMES_SPECIAL;
    }
}

static int count(struct native_image_tree *t, const struct workspace_entry *entry,
                 struct error *err)
{
    int depth = 1;

    for (const char *p = entry->path; *p != '\0'; p++) {
        depth += *p == '/' ? 1 : 0;
    }
    if (depth > NATIVE_IMAGE_DEPTH_MAX) {
        return fault_at(err, entry->path, "it lies too deep");
    }
    if (t->entries_left-- <= 0) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "the image has more entries than may be unpacked");
    }
    if (entry->size > t->bytes_left) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "the image is larger than what may be unpacked");
    }
    t->bytes_left -= entry->size;
    t->bytes += entry->size;
    return 0;
}

static int begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                 struct error *err)
{
    struct native_image_tree *t = (struct native_image_tree *)sink;
    _cleanup_close_ int dir_fd = -1;
    const char *base;

    if (count(t, entry, err) < 0) {
        return -1;
    }
    if (is_whiteout(entry->path)) {
        return apply_whiteout(t, entry->path, err);
    }
    dir_fd = open_parent(t, entry->path, true, &base);
    if (dir_fd < 0) {
        return trouble_at(err, entry->path);
    }
    return make(t, dir_fd, base, entry, err) < 0 ? -1
                                                 : remember(t, entry->path, kind_of(t, entry), err);
}

static int data(struct workspace_sink *sink, int64_t offset, const void *bytes, size_t len,
                struct error *err)
{
    struct native_image_tree *t = (struct native_image_tree *)sink;
    const char *from = bytes;

    while (len > 0 && t->file_fd >= 0) {
        ssize_t n = pwrite(t->file_fd, from, len, offset);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set_errno(err, ERROR_INTERNAL, errno, "cannot write the image");
        }
        from += n;
        offset += n;
        len -= (size_t)n;
    }
    return 0;
}

static int end(struct workspace_sink *sink, struct error *err)
{
    struct native_image_tree *t = (struct native_image_tree *)sink;
    const struct timespec times[] = {time_of(t->file_mtime_ns), time_of(t->file_mtime_ns)};
    _cleanup_close_ int fd = TAKE_FD(t->file_fd);

    if (fd >= 0 && (ftruncate(fd, t->file_size) < 0 || fchmod(fd, t->file_mode) < 0 ||
                    futimens(fd, times) < 0)) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot write the image");
    }
    return 0;
}

void native_image_tree_init(struct native_image_tree *t, int root_fd,
                            const struct native_images_limits *limits)
{
    static const struct workspace_sink_ops OPS = {.begin = begin, .data = data, .end = end};

    *t = (struct native_image_tree){
        .sink = {.ops = &OPS},
        .root_fd = root_fd,
        .bytes_left = limits->bytes,
        .entries_left = limits->entries,
        .file_fd = -1,
    };
    workspace_names_init(&t->names);
}

void native_image_tree_done(struct native_image_tree *t)
{
    workspace_names_done(&t->names);
    cleanup_close(&t->file_fd);
    t->file_fd = -1;
}

/* An engine lays one over each image's; without any, "localhost" would be nobody. */
static int make_hosts(const struct native_image_tree *t, struct error *err)
{
    static const char HOSTS[] = "127.0.0.1\tlocalhost\n::1\tlocalhost\n";
    _cleanup_close_ int etc = make_way(t, "etc");
    _cleanup_close_ int fd = -1;
    struct stat st;

    /* What an image has there is its own matter, but for the empty file that an engine leaves. */
    if (etc < 0 || (fstatat(etc, "hosts", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    (!S_ISREG(st.st_mode) || st.st_size > 0 || st.st_nlink > 1))) {
        return 0;
    }
    fd = openat(etc, "hosts", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || fchmod(fd, 0644) < 0) {
        return trouble_at(err, "etc/hosts");
    }
    return file_write_all(fd, HOSTS, strlen(HOSTS), err);
}

int native_image_tree_finish(const struct native_image_tree *t, struct error *err)
{
    static const char *const PLACES[] = {"dev", "proc", "tmp", "workspace"};
    const struct workspace_entry entry = {.mode = IMPLIED_MODE};

    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        struct stat st;

        if (fstatat(t->root_fd, PLACES[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
            continue;
        }
        if (make_directory(t->root_fd, PLACES[i], &entry) < 0) {
            return trouble_at(err, PLACES[i]);
        }
    }
    return make_hosts(t, err);
}

void native_image_tree_next_layer(struct native_image_tree *t)
{
    workspace_names_done(&t->names);
    workspace_names_init(&t->names);
}
