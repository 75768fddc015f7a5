/* A command's events as a person sees them: its output on standard output and standard error. One
 * thread. */
#ifndef EXECHOST_CLI_OUTPUT_H
#define EXECHOST_CLI_OUTPUT_H

#include "cli/follow.h"

struct cli_output {
    int exit_code; /* of the command: what a shell would say; valid once `ended` */
    bool ended;
    char reason[32]; /* of its termination */
    char detail[256];
};

/* A cli_event_fn with a struct cli_output. */
int cli_output_event(void *ctx, const char *type, const char *line, size_t len, struct error *err);

#endif
