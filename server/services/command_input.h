/* What clients send to a command before the host has it. Private to commands. */
#ifndef EXECHOST_SERVER_SERVICES_COMMAND_INPUT_H
#define EXECHOST_SERVER_SERVICES_COMMAND_INPUT_H

#include "base/buf.h"
#include "server/services/live.h"

enum { COMMAND_SIGNALS_MAX = 16 };

/* Embedded in a command; every member [lock]. */
struct command_input {
    bool direct; /* the host has the command: all goes to it at once, and it decides */
    bool open;
    bool was_open;
    bool end_due;
    size_t given; /* bytes so far, those of the POST counted */
    struct buf bytes;
    unsigned count;
    uint8_t signals[COMMAND_SIGNALS_MAX];
};

/* `given` bytes came with the POST. */
void command_input_init(struct command_input *in, bool open, size_t given);
void command_input_done(struct command_input *in);

/* The host has the command that got `serial` in the lane of `x`: passes on what was kept. The
 * command may be over and gone. */
void command_input_pass_on(struct live_execution *x, uint64_t serial);

#endif
