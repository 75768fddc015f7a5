/* Shared by the two halves of commands: what waits (commands.c) and what runs (command_run.c). */
#ifndef EXECHOST_SERVER_SERVICES_COMMANDS_PRIVATE_H
#define EXECHOST_SERVER_SERVICES_COMMANDS_PRIVATE_H

#include "server/services/command_input.h"
#include "server/services/commands.h"
#include "store/transcript.h"

/* One command in a lane. Touched by one thread at a time, but for what is marked [lock]: the worker
 * that starts it, then the host's event thread, then the worker that completes it. */
struct command {
    struct live_item item;
    struct service *service;
    struct store_command row;
    bool admitted;   /* it has a share of its tenant's commands */
    bool unrecorded; /* the store has not taken its end yet */
    char **argv;     /* owned array of owned strings */
    char *cwd;
    char **environment;
    bool has_stdin;
    char *stdin_data;
    size_t stdin_len;
    bool stdin_open;            /* more comes: `input` */
    struct command_input input; /* [lock] */

    struct store_transcript *transcript;
    bool closed;          /* its end is in there already */
    struct error storage; /* why output could not be kept; code NONE while it could */
    int64_t captured;
    bool overflowed;
    int64_t started_mono;
    struct host_exec_result result;
    struct error start_error; /* why it could not even be handed to the host */
};

extern const struct live_item_ops command_ops;
extern const struct live_item_ops command_resumed_ops; /* of one that survived a restart */

/* Takes its share; NULL `quotas`: it runs already. */
int command_admit(struct command *c, const struct live_execution *x, const struct quotas *quotas,
                  struct error *err) WARN_UNUSED;
/* Gives its share back, if it has one. */
void command_give_back(struct command *c);
void command_free(struct command *c);
/* Ends the row with a reason of the table and what belongs to it, makes transcript and row durable,
 * tells who waits. What the store refuses is logged: the next start settles it. */
void command_record_end(struct command *c, const char *reason, enum error_code code,
                        const char *detail);
/* Only the row, and only the transcript's last record. */
void command_row_end(struct store_command *row, const char *reason, enum error_code code,
                     const char *detail);
int command_transcript_close(struct store_transcript *t, const struct store_command *row,
                             struct error *err) WARN_UNUSED;
/* What an execution's end is called when it is its command's. */
const char *command_reason(enum end_reason reason);
enum error_code command_code(enum end_reason reason);

/* For a command that is handed to the host in one way or another. */
struct host_exec_events command_events(struct command *c);
void command_arm_deadline(struct command *c);
/* Whether something runs is not known: the execution ends with it. */
void command_complete_lost(struct command *c, const struct error *err);
void command_start_resumed(struct live_item *item);

struct store_transcript_name command_transcript_name(struct service *s,
                                                     const struct store_command *row);

#endif
