/* The system calls a sandbox may use, as a program for the kernel. Needs libseccomp, so that only
 * the service links it; what it makes is installed by sandbox_seccomp_install. Any thread. */
#ifndef EXECHOST_SANDBOX_SECCOMP_H
#define EXECHOST_SANDBOX_SECCOMP_H

#include "base/error.h"

/* A sealed memory file that holds the filter: whatever is not listed fails, with EPERM where it is
 * known to be dangerous, else with ENOSYS, as on a kernel without it. Returns an owned descriptor
 * in `fd`. ERROR_HOST_UNAVAILABLE when the library or the kernel refuses. */
int sandbox_seccomp_build(int *fd, struct error *err) WARN_UNUSED;

#endif
