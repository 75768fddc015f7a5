/* Runs the guest binary as a child of a test and takes its frames apart. */
#ifndef EXECHOST_TESTS_GUEST_PROCESS_H
#define EXECHOST_TESTS_GUEST_PROCESS_H

#include "base/buf.h"
#include "guest/protocol.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct guest_run {
    const char *const *argv;        /* behind the program's name; NULL-ended */
    const char *const *environment; /* NULL: PATH alone */
    const void *in;
    size_t in_len;
    int read_delay_ms; /* the reader sleeps that long before it reads the first byte */

    int status; /* of the guest itself, as waitpid tells */
    int64_t elapsed_ms;
    bool started;
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
