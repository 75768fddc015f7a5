#include "sandbox/sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES_MAX = 16384, CAPABILITY_LIMIT = 64, MLOCK_BYTES = 64 * 1024, MESSAGE_BYTES = 819200 };

static int lower(int resource, rlim_t most)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0) {
        return -1;
    }
    limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit((__rlimit_resource_t)resource, &limit);
}

static int lower_all(void)
{
    if (lower(RLIMIT_CORE, 0) != 0 || lower(RLIMIT_NOFILE, FILES_MAX) != 0 ||
        lower(RLIMIT_MEMLOCK, MLOCK_BYTES) != 0 || lower(RLIMIT_MSGQUEUE, MESSAGE_BYTES) != 0) {
        return -1;
    }
    return 0;
}

static int drop_bounding(void)
{
    for (unsigned long cap = 0; cap < CAPABILITY_LIMIT; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) {
            return errno == EINVAL && cap > 0 ? 0 : -1;
        }
    }
    return 0;
}

static int set_capabilities(uint32_t kept, uint32_t inherited)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{kept, kept, inherited},
                                                                    {0, 0, 0}};
    return (int)syscall(SYS_capset, &header, sets);
}

/* Possible only as long as the bounding set has them. */
static int make_inheritable(uint32_t inherited)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets) != 0) {
        return -1;
    }
    sets[0].inheritable = inherited;
    sets[1].inheritable = 0;
    return (int)syscall(SYS_capset, &header, sets);
}

/* The raw calls: libc's would look for threads to tell. */
static int become(uint32_t uid, uint32_t gid)
{
    if (syscall(SYS_setresgid, gid, gid, gid) != 0) {
        return -1;
    }
    return (int)syscall(SYS_setresuid, uid, uid, uid);
}

int sandbox_become_user(const struct sandbox_identity *id)
{
    return become(id->uid, id->gid) != 0 ? -1 : set_capabilities(0, 0);
}

/* What every process inside goes without; `kept` capabilities stay until they are given up. */
static int drop_to(uint32_t uid, uint32_t gid, uint32_t kept, uint32_t inherited,
                   struct sandbox_fault *fault)
{
    if (lower_all() != 0) {
        return sandbox_fail(fault, "lower the resource limits");
    }
    if (make_inheritable(inherited) != 0 || drop_bounding() != 0) {
        return sandbox_fail(fault, "empty the bounding set");
    }
    if (syscall(SYS_setgroups, 0, NULL) != 0 || become(uid, gid) != 0) {
        return sandbox_fail(fault, "become a user inside");
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
        set_capabilities(kept, inherited) != 0) {
        return sandbox_fail(fault, "drop the capabilities");
    }
    /* After the change of user: the keyring is to be that user's. */
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS) {
        return sandbox_fail(fault, "make a session keyring");
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return sandbox_fail(fault, "set no_new_privs");
    }
    return 0;
}

int sandbox_drop_keeper(const struct sandbox_identity *id, struct sandbox_fault *fault)
{
    return drop_to(id->uid + 1, id->gid + 1,
                   CAP_TO_MASK(CAP_SETUID) | CAP_TO_MASK(CAP_SETGID) | CAP_TO_MASK(CAP_KILL), 0,
                   fault);
}

int sandbox_drop_user(const struct sandbox_identity *id, struct sandbox_fault *fault)
{
    return drop_to(id->uid, id->gid, 0, 0, fault);
}

int sandbox_drop_reader(const struct sandbox_identity *id, struct sandbox_fault *fault)
{
    const uint32_t reading = CAP_TO_MASK(CAP_DAC_READ_SEARCH);
    if (drop_to(id->uid, id->gid, reading, reading, fault) != 0) {
        return -1;
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0) != 0) {
        return sandbox_fail(fault, "keep what reading needs");
    }
    return 0;
}

int sandbox_seccomp_install(int fd, struct sandbox_fault *fault)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return sandbox_fail(fault, "read the system call filter");
    }
    if (st.st_size <= 0 || st.st_size > SANDBOX_SECCOMP_MAX) {
        errno = EINVAL;
        return sandbox_fail(fault, "read the system call filter");
    }
    size_t size = (size_t)st.st_size;
    void *code = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (code == MAP_FAILED) {
        return sandbox_fail(fault, "read the system call filter");
    }
    struct sock_fprog program = {.len = (unsigned short)(size / sizeof(struct sock_filter)),
                                 .filter = code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
        return sandbox_fail(fault, "install the system call filter");
    }
    (void)munmap(code, size);
    return 0;
}
