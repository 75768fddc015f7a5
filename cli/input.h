/* Standard input of this process on its way to a command with `stdinOpen`, on a thread of its own.
 */
#ifndef EXECHOST_CLI_INPUT_H
#define EXECHOST_CLI_INPUT_H

#include "base/error.h"

struct cli_input;

/* Reads standard input until its end and sends it to the command's path; `server` as for
 * cli_client_new. Returns owned. */
struct cli_input *cli_input_start(const char *server, const char *command_path,
                                  struct error *err) WARN_UNUSED;
/* The command has ended: no more is sent. Waits for what is being sent. */
void cli_input_stop(struct cli_input *input);

#endif
