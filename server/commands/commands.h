/* The subcommands of the binary. Each takes argv from its own name on and returns the exit status:
 * 0, 1 for what failed (said in one line on standard error), 2 for wrong usage. */
#ifndef EXECHOST_SERVER_COMMANDS_COMMANDS_H
#define EXECHOST_SERVER_COMMANDS_COMMANDS_H

#include "host/host.h"
#include "server/config.h"

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 };

/* The service itself, until SIGTERM or SIGINT. */
int command_serve(int argc, char **argv);
/* Looks whether the service can work on this machine and says what to fix. Changes nothing. */
int command_doctor(int argc, char **argv);
/* import, list: the images of one host, whether the service runs or not. */
int command_image(int argc, char **argv);

/* Makes a random token; prints it, and the entry of the configuration that lets it in. */
int command_token(int argc, char **argv);

/* The options they share: --config, --data, --listen, --help and, `for_images`, --name and --host.
 * Moves operands to the end of argv as getopt does. Returns the index of the first operand, or -1
 * after a complaint on standard error. */
struct command_options {
    struct config_flags flags;
    const char *name;
    const char *host; /* NULL: the default one */
    bool help;
};
int command_options(int argc, char **argv, bool for_images,
                    struct command_options *out) WARN_UNUSED;

/* A host without a service above it: it owns no execution. Returns owned, for command_host_close.
 */
int command_host_open(const struct config *config, struct host **out,
                      struct error *err) WARN_UNUSED;
void command_host_close(struct host *host);

/* What service_host_find() takes where no host is named, so far as that can be told without a
 * service: "native" or "docker"; static or the configuration's. */
const char *command_default_host(const struct config *config);

/* "exechost: …" with the detail of `err` on standard error; returns EXIT_FAULT. */
int command_fail(const char *what, const struct error *err);

#endif
