/* Runs the guest binary as a child of a test and takes its frames apart. */
#ifndef EXECHOST_TESTS_GUEST_PROCESS_H
#define EXECHOST_TESTS_GUEST_PROCESS_H

#include "base/buf.h"
#include "guest/protocol.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Something that the service does while the program runs. */
struct guest_act {
    const char *when; /* once the guest has sent this text, searched in all of its output */
    uint8_t type;     /* of the frame (enum guest_input_type); 0: the input is cut off */
    const char *text; /* its payload, or NULL: `number` as uint32 */
    size_t len;
    uint32_t number;
    uint32_t taken; /* and once the guest has told of so much */
};

struct guest_run {
    const char *const *argv;        /* behind the program's name; NULL-ended */
    const char *const *environment; /* NULL: PATH alone */
    const void *in;                 /* as it is, then the end */
    size_t in_len;
    const void *stdin_data; /* or in frames, within the window, then the end frame */
    size_t stdin_len;
    bool has_stdin;
    const struct guest_act *acts; /* or these, one after the other */
    size_t act_count;
    int read_delay_ms; /* the reader sleeps that long before it reads the first byte */

    int status; /* of the guest itself, as waitpid tells */
    int64_t elapsed_ms;
    bool started;
    int64_t count;  /* of GUEST_COUNT */
    uint32_t taken; /* sum of what GUEST_STDIN_TAKEN told */
    pid_t leader;
    struct buf out;
    struct buf err;
    enum guest_frame_type last; /* 0: the stream ended without a last frame */
    struct guest_exit exit;
    int failed_errno;
    char failed_text[4200];
};

/* Fails the test when the guest breaks its protocol. */
void guest_process_run(struct guest_run *run);
void guest_process_done(struct guest_run *run);

#endif
