#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The image is hostile: a name that is a link leads nowhere. */
static int open_place(const char *name)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int place = root < 0 ? -1 : (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
    int errnum = errno;
    if (root >= 0) {
        close(root);
    }
    errno = errnum;
    return place;
}

static int attach(int mount, int place)
{
    if (place < 0) {
        return -1;
    }
    int result =
        move_mount(mount, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    int errnum = errno;
    close(place);
    errno = errnum;
    return result;
}

static int make_read_only(void)
{
    static const char *const places[] = {"/workspace", "/tmp", "/dev/shm"};
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        if (mount_setattr(AT_FDCWD, places[i], AT_SYMLINK_NOFOLLOW, &attributes,
                          sizeof(attributes)) != 0) {
            return -1;
        }
    }
    return 0;
}

int sandbox_borrow(const struct sandbox_loan *loan, struct sandbox_fault *fault)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return sandbox_fail(fault, "make a mount namespace");
    }
    if (loan->directory >= 0 && attach(loan->directory, open_place(SANDBOX_LENT)) != 0) {
        return sandbox_fail(fault, "mount what is lent");
    }
    if (loan->file >= 0 && attach(loan->file, openat(loan->directory, loan->file_name,
                                                     O_PATH | O_NOFOLLOW | O_CLOEXEC)) != 0) {
        return sandbox_fail(fault, "mount the file that is lent");
    }
    if (loan->read_only && make_read_only() != 0) {
        return sandbox_fail(fault, "make the workspace read-only");
    }
    return 0;
}
