#include "sandbox/seccomp.h"

#include "base/macros.h"
#include "sandbox/sandbox.h"
#include "sandbox/seccomp_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* No network but loopback: of the rest (virtual machine sockets, kernel crypto, raw packets) some
 * know no namespace, and all are attack surface. */
static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

static const unsigned long personalities[] = {PER_LINUX, PER_LINUX | ADDR_NO_RANDOMIZE, PER_LINUX32,
                                              0xffffffff};

enum {
    NEW_NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                     CLONE_NEWPID | CLONE_NEWNET
};

/* A call that this machine's architecture does not have is no fault. */
static int add_names(scmp_filter_ctx filter, const char *const *names, uint32_t action)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        int result = number < 0 ? 0 : seccomp_rule_add(filter, action, number, 0);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

static int add_families(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                                      SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i], 0));
        if (result != 0) {
            return result;
        }
    }
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
                            SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
}

static int add_personalities(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < ARRAY_SIZE(personalities); i++) {
        int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                                      SCMP_A0(SCMP_CMP_EQ, personalities[i], 0));
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* What depends on arguments. clone3 keeps its own in memory, where no filter can look: without it
 * libc goes back to clone. */
static int add_conditions(scmp_filter_ctx filter)
{
    int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0));
    if (result == 0) {
        result = add_families(filter);
    }
    return result == 0 ? add_personalities(filter) : result;
}

static int fill(scmp_filter_ctx filter)
{
    int result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    if (result == 0) {
        /* A binary tree: which call it is costs the same for all. */
        result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }
    if (result == 0) {
        result = add_names(filter, seccomp_allowed, SCMP_ACT_ALLOW);
    }
    if (result == 0) {
        result = add_names(filter, seccomp_refused, SCMP_ACT_ERRNO(EPERM));
    }
    return result == 0 ? add_conditions(filter) : result;
}

static int export(scmp_filter_ctx filter, int *out, struct error *err)
{
    _cleanup_close_ int fd = memfd_create("seccomp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stat st;
    if (fd < 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "a memory file");
    }
    int result = seccomp_export_bpf(filter, fd);
    if (result != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, -result, "making a seccomp program");
    }
    if (fstat(fd, &st) != 0 || st.st_size > SANDBOX_SECCOMP_MAX) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "the seccomp program is too long");
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "sealing a memory file");
    }
    *out = TAKE_FD(fd);
    return 0;
}

int sandbox_seccomp_build(int *fd, struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (filter == NULL) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "libseccomp does not know this machine");
    }
    int result = fill(filter);
    result = result != 0
                 ? error_set_errno(err, ERROR_HOST_UNAVAILABLE, -result, "making a seccomp filter")
                 : export(filter, fd, err);
    seccomp_release(filter);
    return result;
}
