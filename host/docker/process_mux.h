/* Takes the engine's multiplexing off the stream of an exec, in place: what the helper wrote to
 * its standard output stays; everything else (standard error, an engine or a runtime that speaks
 * itself) is kept as text for people. Pure and incremental; every byte is held to be hostile. One
 * thread at a time.
 */
#ifndef EXECHOST_HOST_DOCKER_PROCESS_MUX_H
#define EXECHOST_HOST_DOCKER_PROCESS_MUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCESS_MUX_HEADER = 8, PROCESS_MUX_TEXT_MAX = 400 };

/* Zeroed to begin with. */
struct process_mux {
    uint8_t head[PROCESS_MUX_HEADER];
    size_t head_have;
    uint32_t left; /* of the part at hand */
    bool seen;     /* a part has begun: what comes is multiplexed */
    bool raw;      /* the engine speaks itself instead */
    size_t text_len;
    bool spoken;  /* the helper has sent its first byte */
    bool foreign; /* the runtime speaks on standard output instead of the helper */
    char text[PROCESS_MUX_TEXT_MAX + 1]; /* printable ASCII, one line */
};

/* How many bytes of `data` are the program's, moved to its beginning; -1: out of step. */
ssize_t process_mux_unwrap(struct process_mux *m, uint8_t *data, size_t len);

#endif
