/* Messages with descriptors over SOCK_SEQPACKET sockets. Links to libc only; any thread, but one at
 * a time for each direction of a socket. */
#ifndef EXECHOST_HOST_NATIVE_WIRE_H
#define EXECHOST_HOST_NATIVE_WIRE_H

#include <stddef.h>

/* Sends all of it or nothing; -1 with errno, EAGAIN where the socket does not wait. `flags` as of
 * send(2). */
int wire_send(int fd, const void *data, size_t len, const int *fds, size_t fd_count, int flags);
/* Receives one message of exactly `len` bytes; `*fd_count` is how many descriptors fit in, and how
 * many came (close-on-exec, owned by the caller). Returns 1; 0 at the end; -1 with errno (EPROTO:
 * another length or too many descriptors). */
int wire_receive(int fd, void *data, size_t len, int *fds, size_t *fd_count, int flags);

#endif
