/* Commands: queued in their execution's lane, run by its host, remembered with their output. */
#ifndef EXECHOST_SERVER_SERVICES_COMMANDS_H
#define EXECHOST_SERVER_SERVICES_COMMANDS_H

#include "api/command.h"
#include "server/services/live.h"
#include "store/commands.h"

#include <jansson.h>

struct commands_made {
    char command_id[ID_SIZE];
    uint64_t serial; /* of its item in the lane */
};
/* Records the command and queues it, or begins it where that is quick. Blocks for the store.
 * ERROR_ID_IN_USE, ERROR_OVERLOADED, ERROR_QUOTA_EXCEEDED, and what policy says of cwd and
 * environment. */
int commands_create(struct live_execution *x, const struct quotas *quotas,
                    const struct api_command_create *request, int64_t fencing_token,
                    struct commands_made *out, struct error *err) WARN_UNUSED;

/* Bytes of standard input, the end behind them with `eof`. */
struct command_bytes {
    const void *data;
    size_t len;
    bool eof;
};
/* Standard input and a signal for a command that runs or waits; both return at once, but for the
 * store. A command that waits gets them once it has started. ERROR_COMMAND_NOT_FOUND: there is none
 * such, or it has ended; ERROR_INVALID_REQUEST: its input is not open (any more); ERROR_OVERLOADED:
 * too much waits already. */
int commands_input(struct live_execution *x, const char *command_id,
                   const struct command_bytes *bytes, struct error *err) WARN_UNUSED;
int commands_signal(struct live_execution *x, const char *command_id, int number,
                    struct error *err) WARN_UNUSED;

/* Whether the store refuses to take that command's end, and why. */
bool commands_is_unrecorded(struct live_execution *x, const char *command_id, struct error *err);

bool commands_is_final(const struct store_command *row);
const char *commands_state_name(enum store_command_state state);

/* Whether its output is too much to be read and shown on an event thread. */
bool commands_is_large_row(const struct store_command *row); /* of one that is over */
bool commands_is_large(struct service *s, const char *tenant, int64_t execution_row,
                       const char *command_id);
/* The resource, with what was captured of the output, whose sizes `row` gets while it is not over.
 * Returns owned. ERROR_TRANSCRIPT_GONE when the output was removed. */
int commands_view(struct service *s, struct store_command *row, json_t **out,
                  struct error *err) WARN_UNUSED;
/* Sets ERROR_TRANSCRIPT_GONE; -1. */
int commands_transcript_gone(const struct store_command *row, struct error *err);
/* Without output. Returns owned; NULL: out of memory. */
json_t *commands_encode(const struct store_command *row);

/* After a restart, a command that survived it: goes on in the lane of `x`. Takes what is in `row`
 * on success. */
int commands_resume(struct live_execution *x, struct store_command *row,
                    struct error *err) WARN_UNUSED;
/* After a restart, one that did not, or was never begun: ends `row`, keeping the output so
 * far. `x` is its execution if that lives, else NULL. */
int commands_settle_after_restart(struct service *s, struct live_execution *x,
                                  struct store_command *row, bool *repaired,
                                  struct error *err) WARN_UNUSED;

#endif
