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
    struct error storage; /* why output could not be kept; code NONE while it could */
    int64_t captured;
    bool overflowed;
    int64_t started_mono;
    struct host_exec_result result;
    struct error start_error; /* why it could not even be handed to the host */
};

extern const struct live_item_ops command_ops;

void command_free(struct command *c);
/* Ends the row with a reason of the table and what belongs to it, makes transcript and row durable,
 * tells who waits. What the store refuses is logged: the next start settles it. */
void command_record_end(struct command *c, const char *reason, enum error_code code,
                        const char *detail);
struct store_transcript_name command_transcript_name(struct service *s,
                                                     const struct store_command *row);

#endif
