/* The helper that runs inside executions, as it was built with the service. Any thread. */
#ifndef EXECHOST_HOST_GUEST_BINARY_H
#define EXECHOST_HOST_GUEST_BINARY_H

#include <stddef.h>

/* The whole file; static. */
const void *guest_binary(size_t *len);

#endif
