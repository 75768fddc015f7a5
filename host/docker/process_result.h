/* What a command's end means for host.h. Pure. Private to the process runner. */
#ifndef EXECHOST_HOST_DOCKER_PROCESS_RESULT_H
#define EXECHOST_HOST_DOCKER_PROCESS_RESULT_H

#include "guest/protocol.h"
#include "host/docker/process_exec.h"
#include "host/host.h"

/* From the guest's own word. `command` is argv[0], `cwd` the plan's: they go into the detail. */
void process_result_from_exit(struct host_exec_result *out, const struct guest_exit *exit,
                              const char *command, const char *cwd);

/* From what the engine knows when the guest said nothing; `text` are the runtime's words or "". */
void process_result_from_end(struct host_exec_result *out, const struct docker_exec_end *end,
                             const char *text);

/* No result: `why` and, when it is not "", `more`. */
void process_result_lost(struct host_exec_result *out, const char *why, const char *more);

#endif
