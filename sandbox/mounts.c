#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { TMP_INODES = 4096, SHM_INODES = 4096, DEVICE_INODES = 64, DEVICE_BYTES = 64 * 1024 };

/* --- making --- */

struct tmpfs_spec {
    int64_t bytes;
    int64_t inodes;
    uint32_t uid;
    uint32_t gid;
    const char *mode;
    unsigned attributes;
};

static int set_number(int fs, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, value);
    return fsconfig(fs, FSCONFIG_SET_STRING, key, text, 0);
}

static int tmpfs_make(const struct tmpfs_spec *spec)
{
    int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0) {
        return -1;
    }
    int mount = -1;
    if (set_number(fs, "size", spec->bytes) == 0 &&
        set_number(fs, "nr_inodes", spec->inodes) == 0 && set_number(fs, "uid", spec->uid) == 0 &&
        set_number(fs, "gid", spec->gid) == 0 &&
        fsconfig(fs, FSCONFIG_SET_STRING, "mode", spec->mode, 0) == 0 &&
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0) {
        mount = fsmount(fs, FSMOUNT_CLOEXEC, spec->attributes);
    }
    int errnum = errno;
    close(fs);
    errno = errnum;
    return mount;
}

/* What is mounted upon must be there; images may lack any of it. */
static int make_places(int image)
{
    static const char *const places[] = {"dev", "proc", "sys", "tmp", "workspace", SANDBOX_LENT};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        if (mkdirat(image, places[i], 0755) != 0 && errno != EEXIST) {
            return -1;
        }
    }
    return 0;
}

/* Read-only, without set-user-ID programs and devices, and out of reach of the machine's own
 * mounting and unmounting. */
static int image_make(int image)
{
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };
    int mount = open_tree(image, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (mount < 0) {
        return -1;
    }
    if (mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof(attributes)) !=
        0) {
        int errnum = errno;
        close(mount);
        errno = errnum;
        return -1;
    }
    return mount;
}

static const struct {
    const char *name;
    unsigned minor;
    unsigned major;
} devices[] = {
    {"null", 3, 1},   {"zero", 5, 1},    {"full", 7, 1},
    {"random", 8, 1}, {"urandom", 9, 1}, {"tty", 0, 5},
};

static const struct {
    const char *name;
    const char *target;
} device_links[] = {
    {"fd", "/proc/self/fd"},
    {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"},
};

static int devices_fill(int dir)
{
    mode_t mask = umask(0);
    int result = mkdirat(dir, "shm", 0755);
    for (size_t i = 0; result == 0 && i < ARRAY_SIZE(devices); i++) {
        result = mknodat(dir, devices[i].name, S_IFCHR | 0666,
                         makedev(devices[i].major, devices[i].minor));
    }
    for (size_t i = 0; result == 0 && i < ARRAY_SIZE(device_links); i++) {
        result = symlinkat(device_links[i].target, dir, device_links[i].name);
    }
    umask(mask);
    return result;
}

/* Device nodes work only where the machine's own root made the file system. */
static int devices_make(void)
{
    const struct tmpfs_spec spec = {.bytes = DEVICE_BYTES,
                                    .inodes = DEVICE_INODES,
                                    .mode = "0755",
                                    .attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    int mount = tmpfs_make(&spec);
    if (mount < 0) {
        return -1;
    }
    if (devices_fill(mount) != 0 ||
        mount_setattr(mount, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)) != 0) {
        int errnum = errno;
        close(mount);
        errno = errnum;
        return -1;
    }
    return mount;
}

int sandbox_mounts_make(struct sandbox_mounts *mounts, int image, const struct sandbox_disk *disk,
                        const struct sandbox_identity *id, struct sandbox_fault *fault)
{
    const unsigned guarded = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    const struct tmpfs_spec workspace = {.bytes = disk->workspace_bytes,
                                         .inodes = disk->workspace_inodes,
                                         .uid = id->host_uid,
                                         .gid = id->host_gid,
                                         .mode = "0700",
                                         .attributes = guarded};
    const struct tmpfs_spec tmp = {.bytes = disk->tmp_bytes,
                                   .inodes = TMP_INODES,
                                   .mode = "1777",
                                   .attributes = guarded | MOUNT_ATTR_NOEXEC};
    const struct tmpfs_spec shm = {.bytes = disk->shm_bytes,
                                   .inodes = SHM_INODES,
                                   .mode = "1777",
                                   .attributes = guarded | MOUNT_ATTR_NOEXEC};
    if (make_places(image) != 0) {
        return sandbox_fail(fault, "make directories to mount upon in the image");
    }
    if ((mounts->root = image_make(image)) < 0) {
        return sandbox_fail(fault, "take the image's root");
    }
    if ((mounts->devices = devices_make()) < 0) {
        return sandbox_fail(fault, "make /dev");
    }
    if ((mounts->workspace = tmpfs_make(&workspace)) < 0) {
        return sandbox_fail(fault, "make /workspace");
    }
    if ((mounts->tmp = tmpfs_make(&tmp)) < 0) {
        return sandbox_fail(fault, "make /tmp");
    }
    if ((mounts->shm = tmpfs_make(&shm)) < 0) {
        return sandbox_fail(fault, "make /dev/shm");
    }
    return 0;
}

static void close_one(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

void sandbox_mounts_close(struct sandbox_mounts *mounts)
{
    close_one(&mounts->root);
    close_one(&mounts->devices);
    close_one(&mounts->workspace);
    close_one(&mounts->tmp);
    close_one(&mounts->shm);
}

/* --- entering --- */

/* The image is hostile: a name that is a link leads nowhere. */
static int place(int root, const char *name)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
}

static int attach(int mount, int root, const char *name)
{
    int at = place(root, name);
    if (at < 0) {
        return -1;
    }
    int result = move_mount(mount, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    int errnum = errno;
    close(at);
    errno = errnum;
    return result;
}

static int attach_proc(int root)
{
    int fs = fsopen("proc", FSOPEN_CLOEXEC);
    if (fs < 0) {
        return -1;
    }
    int mount = -1;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0) {
        mount =
            fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    }
    int result = mount < 0 ? -1 : attach(mount, root, "proc");
    int errnum = errno;
    close_one(&mount);
    close(fs);
    errno = errnum;
    return result;
}

/* What tells of the machine or of others, or moves the machine. */
static const char *const hidden_files[] = {
    "proc/kcore",      "proc/keys",       "proc/key-users",   "proc/timer_list",
    "proc/kmsg",       "proc/kallsyms",   "proc/sched_debug", "proc/latency_stats",
    "proc/kpagecount", "proc/kpageflags", "proc/kpagecgroup", "proc/config.gz",
};
static const char *const hidden_directories[] = {"proc/acpi", "proc/asound", "proc/scsi"};
static const char *const read_only_paths[] = {"proc/bus", "proc/fs", "proc/irq", "proc/sys",
                                              "proc/sysrq-trigger"};

/* A second mount of `from`; missing is fine where it is to be hidden. */
static int cover(int root, const char *from, const char *at, bool read_only)
{
    struct mount_attr attributes = {.attr_set =
                                        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
    int result = -1;
    int target = openat(root, at, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0) {
        return errno == ENOENT ? 0 : -1;
    }
    int mount = open_tree(root, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (mount >= 0 && (!read_only || mount_setattr(mount, "", AT_EMPTY_PATH, &attributes,
                                                   sizeof(attributes)) == 0)) {
        result =
            move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    }
    int errnum = errno;
    close_one(&mount);
    close(target);
    errno = errnum;
    return result;
}

/* Both sources are of a /dev that is read-only already; the directory is empty as yet. */
static int mask_proc(int root)
{
    for (size_t i = 0; i < ARRAY_SIZE(hidden_files); i++) {
        if (cover(root, "dev/null", hidden_files[i], false) != 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(hidden_directories); i++) {
        if (cover(root, "dev/shm", hidden_directories[i], false) != 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(read_only_paths); i++) {
        if (cover(root, read_only_paths[i], read_only_paths[i], true) != 0) {
            return -1;
        }
    }
    return 0;
}

static int build(const struct sandbox_mounts *mounts, struct sandbox_fault *fault)
{
    if (attach(mounts->devices, mounts->root, "dev") != 0) {
        return sandbox_fail(fault, "mount /dev");
    }
    if (attach_proc(mounts->root) != 0) {
        return sandbox_fail(fault, "mount /proc");
    }
    if (mask_proc(mounts->root) != 0) {
        return sandbox_fail(fault, "mask parts of /proc");
    }
    if (attach(mounts->shm, mounts->root, "dev/shm") != 0) {
        return sandbox_fail(fault, "mount /dev/shm");
    }
    if (attach(mounts->tmp, mounts->root, "tmp") != 0) {
        return sandbox_fail(fault, "mount /tmp");
    }
    if (attach(mounts->workspace, mounts->root, "workspace") != 0) {
        return sandbox_fail(fault, "mount /workspace");
    }
    return 0;
}

int sandbox_mounts_enter(const struct sandbox_mounts *mounts, struct sandbox_fault *fault)
{
    if (move_mount(mounts->root, "", AT_FDCWD, ".", MOVE_MOUNT_F_EMPTY_PATH) != 0) {
        return sandbox_fail(fault, "mount the root");
    }
    if (build(mounts, fault) != 0) {
        return -1;
    }
    /* The old root comes to lie over the new one, and goes as a whole. */
    if (fchdir(mounts->root) != 0 || syscall(SYS_pivot_root, ".", ".") != 0) {
        return sandbox_fail(fault, "change the root");
    }
    if (umount2(".", MNT_DETACH) != 0) {
        return sandbox_fail(fault, "let go of the old root");
    }
    return chdir("/") != 0 ? sandbox_fail(fault, "go to the root") : 0;
}
