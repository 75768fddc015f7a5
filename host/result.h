/* How every host says what became of a command, or of a checkpoint. Pure. */
#ifndef EXECHOST_HOST_RESULT_H
#define EXECHOST_HOST_RESULT_H

#include "host/host.h"

/* A result of which nothing is known. */
struct host_exec_result host_exec_result_unknown(void);
/* Sets the detail, cut at a code point where it is too long. */
void host_exec_result_say(struct host_exec_result *out, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Not started: `name` is the program's or, with `in_cwd`, the working directory's. Sets the exit
 * code (126 or 127) and the detail. */
void host_exec_result_not_started(struct host_exec_result *out, int errnum, bool in_cwd,
                                  const char *name);

/* After a checkpoint: both causes in one error, what was wanted (`first`, code NONE: that went
 * well) and that the execution may still be frozen. Always -1. */
int host_still_frozen(struct error *err, const struct error *first, const struct error *thawing);

#endif
