/* A program that tries to get out of an execution, for the rows of 32-escape.json. Each attempt
 * really does what it is called after and prints a line for everything it tried:
 *
 *   WHAT: ERRNO     refused so
 *   WHAT: DONE      it worked
 *   WHAT: TEXT      what it saw
 *
 * The rows say which lines are fine. One process, one attempt; ends with 0 unless it was misused.
 */
#ifndef EXECHOST_TESTS_ESCAPE_H
#define EXECHOST_TESTS_ESCAPE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* `result` < 0: refused with errno as it is. Returns whether it worked. */
bool tried(const char *what, long result);
void saw(const char *what, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The errno's name, "E77" where this program knows none. */
const char *errno_name(int errnum);
/* Opens and closes; the result as for tried(). */
long try_open(const char *path, int flags);

/* By subject: files.c, kernel.c, processes.c, resources.c. `argument` may be NULL. */
void attempt_write_outside(const char *argument);
void attempt_mount(const char *argument);
void attempt_nodes(const char *argument);
void attempt_host_files(const char *argument);
void attempt_kernel_files(const char *argument);
void attempt_groups(const char *argument);
void attempt_programs(const char *argument);
void attempt_descriptors(const char *argument);

void attempt_kernel_calls(const char *argument);
void attempt_rings(const char *argument);
void attempt_keys(const char *argument);
void attempt_namespaces(const char *argument);
void attempt_machine(const char *argument);
void attempt_identity(const char *argument);
void attempt_terminal(const char *argument);

void attempt_trace(const char *argument);
void attempt_signals(const char *argument);
void attempt_network(const char *argument);
void attempt_abstract(const char *argument);

void attempt_forks(const char *argument);
void attempt_memory(const char *argument);
void attempt_inodes(const char *argument);
void attempt_files_open(const char *argument);
void attempt_limits(const char *argument);
void attempt_crash(const char *argument);

#endif
