/* Small files of control groups; for this module only. */
#ifndef EXECHOST_SANDBOX_CGROUP_FILE_H
#define EXECHOST_SANDBOX_CGROUP_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { CGROUP_TEXT_MAX = 4096 };

static inline int cgroup_write_text(int dir, const char *file, const char *text)
{
    int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    size_t len = strlen(text);
    ssize_t n = write(fd, text, len);
    int errnum = errno;
    close(fd);
    errno = errnum;
    return n == (ssize_t)len ? 0 : -1;
}

static inline int cgroup_read_text(int dir, const char *file, char text[CGROUP_TEXT_MAX])
{
    int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, text, CGROUP_TEXT_MAX - 1);
    int errnum = errno;
    close(fd);
    errno = errnum;
    if (n < 0) {
        return -1;
    }
    text[n] = '\0';
    return 0;
}

#endif
