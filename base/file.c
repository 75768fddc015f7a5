#include "base/file.h"

#include "base/fault.h"
#include "base/id.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { READ_STEP = 64 * 1024, REMOVE_DEPTH_MAX = 512, BENEATH_TRIES = 64 };

/* One more than the cap is asked for at the end: a file of exactly the cap is fine. */
static int read_rest(int fd, const char *path, struct buf *out, struct error *err)
{
    for (;;) {
        size_t room = out->max - out->len;
        size_t step = room < READ_STEP ? room : READ_STEP;
        char extra;
        char *to = step > 0 ? buf_reserve(out, step) : &extra;
        ssize_t n;

        if (to == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory while reading %s", path);
        }
        n = read(fd, to, step > 0 ? step : 1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set_errno(err, ERROR_INTERNAL, errno, "cannot read %s", path);
        }
        if (n == 0) {
            return 0;
        }
        if (step == 0) {
            return error_set(err, ERROR_INVALID_REQUEST, "%s is larger than %zu bytes", path,
                             out->max);
        }
        out->len += (size_t)n;
        out->data[out->len] = '\0';
    }
}

int file_read(const char *path, struct buf *out, struct error *err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot open %s", path);
    }
    return read_rest(fd, path, out, err);
}

int file_write_all(int fd, const void *data, size_t len, struct error *err)
{
    const char *from = data;

    while (len > 0) {
        int fault = fault_point("file.write");
        ssize_t n = fault != 0 ? -1 : write(fd, from, len);

        if (n < 0) {
            int errnum = fault != 0 ? fault : errno;

            if (errnum == EINTR) {
                continue;
            }
            return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot write");
        }
        from += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Where the kernel will not copy between these two files. */
static int copy_by_hand(int from, int64_t offset, int64_t len, int to, struct error *err)
{
    enum { PIECE = 128 * 1024 };
    _cleanup_free_ char *piece = malloc(PIECE);

    if (piece == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    while (len > 0) {
        ssize_t n = pread(from, piece, len < PIECE ? (size_t)len : PIECE, offset);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, ERROR_INTERNAL, n < 0 ? errno : EIO, "cannot read");
        }
        if (file_write_all(to, piece, (size_t)n, err) != 0) {
            return -1;
        }
        offset += n;
        len -= n;
    }
    return 0;
}

int file_copy_range(int from, int64_t offset, int64_t len, int to, struct error *err)
{
    off64_t at = offset;

    while (len > 0) {
        int fault = fault_point("file.copy");
        ssize_t n = fault != 0 ? -1 : copy_file_range(from, &at, to, NULL, (size_t)len, 0);
        int errnum = fault != 0 ? fault : errno;

        if (n < 0 && errnum == EINTR) {
            continue;
        }
        if (n == 0 || (n < 0 && (errnum == EXDEV || errnum == EINVAL || errnum == EOPNOTSUPP ||
                                 errnum == ENOSYS))) {
            return copy_by_hand(from, at, len, to, err);
        }
        if (n < 0) {
            return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot copy");
        }
        len -= n;
    }
    return 0;
}

static int sync_file(int fd, const char *path, struct error *err)
{
    int errnum = fault_point("file.fsync");

    if (errnum == 0 && fsync(fd) != 0) {
        errnum = errno;
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot sync %s", path);
    }
    return 0;
}

static int rename_file(const char *from, const char *to, struct error *err)
{
    int errnum = fault_point("file.rename");

    if (errnum == 0 && rename(from, to) != 0) {
        errnum = errno;
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot rename %s to %s", from, to);
    }
    return 0;
}

/* Writes `len` bytes to a new file at `path`, which is open and complete on the disk afterwards. */
static int write_new(const char *path, const void *data, size_t len, mode_t mode, struct error *err)
{
    int errnum = fault_point("file.create");
    _cleanup_close_ int fd = -1;

    if (errnum == 0) {
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        errnum = fd < 0 ? errno : 0;
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot create %s", path);
    }
    if (file_write_all(fd, data, len, err) != 0) {
        return -1;
    }
    return sync_file(fd, path, err);
}

/* The directory `path` lies in. */
static int parent_of(const char *path, char out[PATH_MAX], struct error *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);

    if (slash == NULL) {
        path = ".";
        len = 1;
    } else if (len == 0) {
        len = 1;
    }
    if (len >= PATH_MAX) {
        return error_set(err, ERROR_INTERNAL, "path too long");
    }
    memcpy(out, path, len);
    out[len] = '\0';
    return 0;
}

int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode,
                      struct error *err)
{
    char beside[PATH_MAX];
    char parent[PATH_MAX];
    char suffix[ID_SIZE];

    id_generate("tmp", suffix);
    if ((size_t)snprintf(beside, sizeof(beside), "%s.%s", path, suffix) >= sizeof(beside)) {
        return error_set(err, ERROR_INTERNAL, "path too long");
    }
    if (parent_of(path, parent, err) != 0) {
        return -1;
    }
    if (write_new(beside, data, len, mode, err) != 0 || rename_file(beside, path, err) != 0) {
        unlink(beside);
        return -1;
    }
    return dir_sync(parent, err);
}

/* Makes one directory; an existing one is fine. */
static int make_one(const char *path, mode_t mode, struct error *err)
{
    int errnum = fault_point("dir.make");
    struct stat st;

    if (errnum == 0 && mkdir(path, mode) != 0) {
        errnum = errno;
    }
    if (errnum == EEXIST && stat(path, &st) == 0) {
        errnum = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot make directory %s", path);
    }
    return 0;
}

int dir_make(const char *path, mode_t mode, struct error *err)
{
    char part[PATH_MAX];
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof(part)) {
        return error_set(err, ERROR_INTERNAL, "path empty or too long");
    }
    memcpy(part, path, len + 1);
    for (size_t i = 1; i < len; i++) {
        if (part[i] != '/') {
            continue;
        }
        part[i] = '\0';
        if (make_one(part, mode, err) != 0) {
            return -1;
        }
        part[i] = '/';
    }
    return make_one(part, mode, err);
}

int dir_sync(const char *path, struct error *err)
{
    int errnum = fault_point("dir.sync");
    _cleanup_close_ int fd = -1;

    if (errnum == 0) {
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) != 0) {
            errnum = errno;
        }
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot sync directory %s", path);
    }
    return 0;
}

static int remove_entry(int parent_fd, const char *name, int depth);

/* Removes what is in the directory; 0 or an errno. Takes `fd`. */
static int remove_children(int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    int result = 0;

    if (dir == NULL) {
        result = errno;
        close(fd);
        return result;
    }
    while (result == 0) {
        const struct dirent *entry;

        errno = 0;
        entry = readdir(dir);
        if (entry == NULL) {
            result = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            result = remove_entry(dirfd(dir), entry->d_name, depth);
        }
    }
    closedir(dir);
    return result;
}

/* 0 or an errno. A missing entry is fine: somebody else removed it. */
static int remove_entry(int parent_fd, const char *name, int depth)
{
    int fd;
    int result;

    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return errno;
    }
    if (depth >= REMOVE_DEPTH_MAX) {
        return ELOOP;
    }
    fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? 0 : errno;
    }
    result = remove_children(fd, depth + 1);
    if (result == 0 && unlinkat(parent_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        result = errno;
    }
    return result;
}

int dir_remove(const char *path, struct error *err)
{
    int errnum = fault_point("dir.remove");

    if (errnum == 0) {
        errnum = remove_entry(AT_FDCWD, path, 0);
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot remove %s", path);
    }
    return 0;
}

int dir_empty(const char *path, mode_t mode, struct error *err)
{
    int errnum = fault_point("dir.empty");
    int fd = errnum != 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errnum == 0 && errno == ENOENT) {
        return dir_make(path, mode, err);
    }
    if (errnum == 0) {
        errnum = fd < 0 ? errno : remove_children(fd, 0);
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot empty %s", path);
    }
    return 0;
}

int file_open_beneath(int root_fd, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (unsigned)flags | O_CLOEXEC,
        .mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };

    /* A rename elsewhere makes the kernel give up a ".." walk with EAGAIN; a few tries settle it.
     */
    for (int i = 0; i < BENEATH_TRIES; i++) {
        int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) {
            return fd;
        }
    }
    return -1;
}
