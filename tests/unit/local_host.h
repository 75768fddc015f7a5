/* A host for tests whose executions are directories of this machine: it runs the helper there as a
 * child and knows nothing else. */
#ifndef EXECHOST_TESTS_LOCAL_HOST_H
#define EXECHOST_TESTS_LOCAL_HOST_H

#include "host/files.h"

/* A call's handle is the directory. Borrowed, static. */
struct host *local_host(void);

/* Files of a directory, 60 s from now. */
struct host_files local_files(const char *dir);

#endif
