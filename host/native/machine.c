/* What the native host needs of the machine, looked for when it is first asked and again until it
 * is there. */
#include "host/guest_binary.h"
#include "host/native/native_internal.h"
#include "host/native/needs.h"
#include "sandbox/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Low numbers are for what a child finds at fixed places. */
enum { PROGRAM_FD_MIN = 16, PROGRAM_MODE = 0711 };

static int fail(struct error *err, const struct sandbox_fault *fault)
{
    return error_set(err, ERROR_HOST_UNAVAILABLE, "can't %s: %s", fault->step,
                     error_errno_text(fault->errnum));
}

/* Readable by nobody but root, so that a process that runs it can't be looked into. */
static int program_file(const char *name, const void *data, size_t len, int *out, struct error *err)
{
    _cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) {
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    if (fd < 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "a memory file");
    }
    if (write(fd, data, len) != (ssize_t)len || fchmod(fd, PROGRAM_MODE) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "filling a memory file");
    }
    int high = fcntl(fd, F_DUPFD_CLOEXEC, PROGRAM_FD_MIN);
    if (high < 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "a memory file");
    }
    *out = high;
    return 0;
}

static int make_programs(struct native_host *h, struct error *err)
{
    size_t shim_len;
    size_t guest_len;
    const void *shim = native_shim_binary(&shim_len);
    const void *guest = guest_binary(&guest_len);
    if (program_file("exechost-shim", shim, shim_len, &h->shim_fd, err) != 0) {
        return -1;
    }
    return program_file("exechost-guest", guest, guest_len, &h->guest_fd, err);
}

static void cgroup_name(const struct native_host *h, char out[CGROUP_NAME_MAX])
{
    snprintf(out, CGROUP_NAME_MAX, "exechost-%.128s", h->instance);
}

static int make_parents(struct native_host *h, struct error *err)
{
    struct sandbox_fault fault;
    struct cgroup_set roots;
    char name[CGROUP_NAME_MAX];
    if (cgroup_find(&roots, &fault) != 0) {
        return fail(err, &fault);
    }
    cgroup_name(h, name);
    int result = cgroup_delegate(&roots) == 0 &&
                         cgroup_below(&roots, name, true, &h->parents) == 0 &&
                         cgroup_delegate(&h->parents) == 0
                     ? 0
                     : error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno,
                                       "making cgroups (root is needed, and writable hierarchies)");
    cgroup_set_close(&roots);
    return result;
}

static void close_one(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void close_all(struct native_host *h)
{
    cgroup_set_close(&h->parents);
    close_one(&h->filter_fd);
    close_one(&h->shim_fd);
    close_one(&h->guest_fd);
}

static int make_all(struct native_host *h, struct error *err)
{
    const struct native_needs_config needs = {.images = h->images_path,
                                              .host_uid_first = h->host_uid_first,
                                              .host_uid_count = h->host_uid_count};
    if (native_needs_check(&needs, err) != 0 || make_parents(h, err) != 0 ||
        sandbox_seccomp_build(&h->filter_fd, err) != 0) {
        return -1;
    }
    return make_programs(h, err);
}

int native_machine_prepare(struct native_host *h, struct error *err)
{
    pthread_mutex_lock(&h->lock);
    int result = 0;
    if (!h->ready) {
        result = make_all(h, err);
        h->ready = result == 0;
        if (result != 0) {
            close_all(h);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return result;
}

/* The parent groups go with the last execution. */
void native_machine_done(struct native_host *h)
{
    struct sandbox_fault fault;
    struct cgroup_set roots;
    char name[CGROUP_NAME_MAX];
    if (h->ready && cgroup_find(&roots, &fault) == 0) {
        cgroup_name(h, name);
        int removed = cgroup_remove(&roots, name);
        (void)removed; /* EBUSY: executions live on */
        cgroup_set_close(&roots);
    }
    close_all(h);
}
