/* Rows of commands. See store.h for threads and errors. */
#ifndef EXECHOST_STORE_COMMANDS_H
#define EXECHOST_STORE_COMMANDS_H

#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>

enum store_command_state {
    STORE_COMMAND_QUEUED,
    STORE_COMMAND_RUNNING,
    STORE_COMMAND_EXITED,
    STORE_COMMAND_FAILED,
};

struct store_command {
    int64_t row;
    int64_t execution_row;
    char *tenant;
    char *execution_id; /* read-only: from the execution's row */
    unsigned incarnation;
    char *command_id; /* unique per tenant, for good */
    enum store_command_state state;
    char *command;
    char *args;         /* JSON array */
    char *cwd;          /* as asked, or NULL */
    char *environment;  /* JSON object; the command's own */
    int64_t timeout_ms; /* -1: none */
    int64_t queued_at, started_at, completed_at;
    int exit_code; /* -1: null */
    char *signal;  /* "SIGKILL" or NULL */
    int64_t stdout_bytes, stderr_bytes;
    bool truncated;
    int64_t usage_cpu_ms, usage_memory_peak_bytes, usage_wall_ms;
    char *termination_reason; /* NULL until it ended */
    char *termination_code;
    char *termination_detail;
    char *termination_checkpoint_id;
    int64_t transcript_bytes; /* of its file, once it has ended; 0: there is none, or it is gone */
    int64_t claim; /* for the insert: row of the idempotency key it is bound to, 0: none */
};

void store_command_done(struct store_command *c);
/* Exited or failed: nothing of it changes any more. */
bool store_command_is_final(const struct store_command *c);

struct store_command_list {
    struct store_command *items;
    size_t count;
};
void store_command_list_done(struct store_command_list *list);

/* Sets `row`. A command of that id in the tenant: ERROR_ID_IN_USE. No execution of that row in the
 * tenant: ERROR_INTERNAL. */
int store_command_insert(struct store *s, struct store_command *c, struct error *err) WARN_UNUSED;
/* A command of this execution. Not there: ERROR_COMMAND_NOT_FOUND. */
int store_command_get(struct store *s, int64_t execution_row, const char *command_id,
                      struct store_command *out, struct error *err) WARN_UNUSED;
int store_command_list(struct store *s, int64_t execution_row, const struct store_page *page,
                       struct store_command_list *out, struct error *err) WARN_UNUSED;
/* Every command that is queued or running, all tenants, oldest first. */
int store_command_list_unfinished(struct store *s, struct store_command_list *out,
                                  struct error *err) WARN_UNUSED;
/* Writes state, times, result, usage and termination; found by `row`. ERROR_INTERNAL if it is gone.
 */
int store_command_update(struct store *s, const struct store_command *c,
                         struct error *err) WARN_UNUSED;

/* Takes back one that never was queued; found by `row`. */
int store_command_delete(struct store *s, int64_t row, struct error *err) WARN_UNUSED;

#endif
