/* Inside of the module: the lists of system calls that the filter is made of. Names that a
 * machine's architecture does not have may stand here. Static; any thread. */
#ifndef EXECHOST_SANDBOX_SECCOMP_CALLS_H
#define EXECHOST_SANDBOX_SECCOMP_CALLS_H

/* What programs do with their own memory, files, processes, time and messages. */
extern const char *const seccomp_allowed[]; /* up to NULL */
/* Known and refused as such; everything that is in neither list looks like a call to come. */
extern const char *const seccomp_refused[]; /* up to NULL */

#endif
