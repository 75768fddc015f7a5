#include "host/native/wire.h"

#include "host/native/protocol.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(SHIM_FDS_MAX * sizeof(int))];
};

int wire_send(int fd, const void *data, size_t len, const int *fds, size_t fd_count, int flags)
{
    union control control;
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
    }
    ssize_t n;
    do {
        n = sendmsg(fd, &message, MSG_NOSIGNAL | flags);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)len ? 0 : -1;
}

static void take_fds(struct msghdr *message, int *fds, size_t room, size_t *count)
{
    *count = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
         head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t got = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < got; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
            if (*count < room) {
                fds[(*count)++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

int wire_receive(int fd, void *data, size_t len, int *fds, size_t *fd_count, int flags)
{
    union control control;
    struct iovec part = {.iov_base = data, .iov_len = len};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    do {
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | flags);
    } while (n < 0 && errno == EINTR);
    size_t room = *fd_count;
    *fd_count = 0;
    if (n <= 0) {
        return (int)n;
    }
    take_fds(&message, fds, room, fd_count);
    if (n != (ssize_t)len || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        for (size_t i = 0; i < *fd_count; i++) {
            close(fds[i]);
        }
        *fd_count = 0;
        errno = EPROTO;
        return -1;
    }
    return 1;
}
