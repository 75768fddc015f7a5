/* What the service lends to programs of executions whose image has no Node: the bootstrap, its own
 * Node, and the libraries that this one needs. */
#include "base/buf.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "ptc/inside/protocol.h"
#include "ptc/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { TRACE_MS = 10000, TRACE_MAX = 64 * 1024, MODE = 0755, PIECE = 1024 * 1024 };

/* --- libraries --- */

/* The time is set last, so only a whole copy has the original's. */
static bool is_copied(int to, const char *name, const struct stat *original)
{
    struct stat st;
    return fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_size == original->st_size && st.st_mtim.tv_sec == original->st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == original->st_mtim.tv_nsec;
}

static int copy_bytes(int in, int out, const struct stat *original)
{
    const struct timespec times[2] = {original->st_mtim, original->st_mtim};
    ssize_t n = fchmod(out, MODE) != 0 ? -1 : 1;
    while (n > 0) {
        n = sendfile(out, in, NULL, PIECE);
    }
    return n == 0 && futimens(out, times) == 0 ? 0 : -1;
}

static int copy_library(int to, const char *path, const char *name, struct error *err)
{
    struct stat original;
    _cleanup_close_ int in = open(path, O_RDONLY | O_CLOEXEC);
    if (in < 0 || fstat(in, &original) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "opening %s", path);
    }
    if (is_copied(to, name, &original)) {
        return 0;
    }
    _cleanup_close_ int out =
        openat(to, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, MODE);
    return out >= 0 && copy_bytes(in, out, &original) == 0
               ? 0
               : error_set_errno(err, ERROR_INTERNAL, errno, "copying %s", path);
}

/* A line of the loader's: "NAME => PATH (…)", or "PATH (…)" for the loader itself. */
static int take_line(struct ptc_engine *e, int to, char *line, struct error *err)
{
    char *arrow = strstr(line, " => ");
    char *path = arrow != NULL ? arrow + strlen(" => ") : line + strspn(line, " \t");
    if (path[0] != '/') {
        return 0; /* the kernel's own */
    }
    path[strcspn(path, " \n")] = '\0';
    const char *name = strrchr(path, '/') + 1;
    if (arrow != NULL) {
        *arrow = '\0';
        name = line + strspn(line, " \t");
    } else {
        (void)snprintf(e->loader, sizeof(e->loader), "%s", name);
    }
    return strchr(name, '/') != NULL ? 0 : copy_library(to, path, name, err);
}

/* The loader tells what it would load; a static Node has none, and prints nothing. */
static int trace(const char *node, struct buf *out, struct error *err)
{
    static const char *const envp[] = {"LD_TRACE_LOADED_OBJECTS=1", "PATH=/usr/bin:/bin", NULL};
    const char *const argv[] = {node, "-e", "0", NULL};
    _cleanup_buf_ struct buf diag;
    struct child_run run = {.spec = {.argv = argv, .envp = envp, .cwd = "/"},
                            .deadline_mono_ms = clock_mono_ms() + TRACE_MS,
                            .out = out,
                            .diag = &diag};
    buf_init(&diag, TRACE_MAX);
    if (child_run(&run, err) != 0) {
        return -1;
    }
    return run.status == 0
               ? 0
               : error_set(err, ERROR_HOST_UNAVAILABLE, "the libraries of %s are not known", node);
}

static int put_libraries(struct ptc_engine *e, int lent, struct error *err)
{
    _cleanup_buf_ struct buf text;
    buf_init(&text, TRACE_MAX);
    if (mkdirat(lent, INSIDE_LIBRARIES, MODE) != 0 && errno != EEXIST) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "making a directory for libraries");
    }
    _cleanup_close_ int to =
        openat(lent, INSIDE_LIBRARIES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0 || fchmod(to, MODE) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "making a directory for libraries");
    }
    if (trace(e->node, &text, err) != 0) {
        return -1;
    }
    for (char *rest = text.data, *line = NULL; rest != NULL && (line = strsep(&rest, "\n"));) {
        if (take_line(e, to, line, err) != 0) {
            return -1;
        }
    }
    return 0;
}

int ptc_lend_make(struct ptc_engine *e, int lent, struct error *err)
{
    e->loader[0] = '\0';
    if (put_libraries(e, lent, err) != 0) {
        (void)snprintf(e->loader, sizeof(e->loader), INSIDE_NOTHING_LENT);
        return -1;
    }
    return 0;
}

/* --- mounts --- */

/* A mount of its own that stands nowhere and can't be written through. */
static int detach(int fd)
{
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };
    _cleanup_close_ int mount = (int)syscall(
        SYS_open_tree, fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (unsigned)AT_EMPTY_PATH);
    if (mount < 0 || syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, &attributes,
                             sizeof(attributes)) != 0) {
        return -1;
    }
    return TAKE_FD(mount);
}

int ptc_lend_mounts(const struct ptc_engine *e, int *directory, int *node)
{
    _cleanup_close_ int first = detach(e->lent_fd);
    _cleanup_close_ int second = detach(e->node_fd);
    if (first < 0 || second < 0) {
        return -1;
    }
    *directory = TAKE_FD(first);
    *node = TAKE_FD(second);
    return 0;
}
