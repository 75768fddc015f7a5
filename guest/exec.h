/* Turns the calling process into a program, for whoever has forked it. Async-signal-safe, no heap.
 */
#ifndef EXECHOST_GUEST_EXEC_H
#define EXECHOST_GUEST_EXEC_H

/* A bare argv[0] is searched in PATH of `envp`, as execvp(3) does, but a file without "#!" is never
 * handed to a shell. Returns errno, only when it failed. */
int guest_exec(char *const *argv, char *const *envp);

#endif
