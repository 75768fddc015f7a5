/* Takes apart what comes back from an exec: the engine's multiplexed stream and, in it, the guest's
 * frames (guest/protocol.h). Pure and incremental, constant memory; every byte is held to be
 * hostile. One thread at a time. */
#ifndef EXECHOST_HOST_DOCKER_PROCESS_FRAMES_H
#define EXECHOST_HOST_DOCKER_PROCESS_FRAMES_H

#include "base/macros.h"
#include "guest/protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAMES_CONTROL_MAX = 4 + 4096, FRAMES_TEXT_MAX = 400, FRAMES_MUX_HEADER = 8 };

struct frames_events {
    /* GUEST_STDOUT or GUEST_STDERR; a frame may come in pieces; never empty. */
    void (*output)(void *ctx, enum guest_frame_type type, const void *data, size_t len);
    /* Any other frame, whole, of a length that its type allows. */
    void (*control)(void *ctx, enum guest_frame_type type, const uint8_t *payload, size_t len);
    void *ctx;
};

struct frames {
    struct frames_events events;
    bool last; /* GUEST_EXIT, GUEST_FAILED or GUEST_DONE has come; what follows is dropped */
    const char *fault; /* static; why the stream makes no sense, or NULL */

    uint8_t mux_head[FRAMES_MUX_HEADER];
    size_t mux_have;
    uint32_t mux_left;
    bool mux_seen;

    uint8_t head[GUEST_FRAME_HEADER];
    size_t have;
    uint32_t left;
    size_t control_len;
    bool seen; /* a frame has begun */

    bool text_only; /* the runtime speaks instead of the guest */
    size_t text_len;
    char text[FRAMES_TEXT_MAX + 1];
    uint8_t control[FRAMES_CONTROL_MAX];
};

void frames_init(struct frames *f, const struct frames_events *events);

/* -1 once `fault` is set; then only frames_text still makes sense. */
int frames_feed(struct frames *f, const void *data, size_t len) WARN_UNUSED;

/* What came outside of frames, as one printable ASCII line, "" when nothing did; borrowed. */
const char *frames_text(const struct frames *f);

/* Decodes the payload of GUEST_EXIT; -1 when its numbers are out of their ranges. */
int frames_decode_exit(const uint8_t payload[GUEST_EXIT_SIZE], struct guest_exit *out) WARN_UNUSED;

/* The errno of GUEST_FAILED, and its text as a printable ASCII line (cut at `size`). */
int frames_decode_failed(const uint8_t *payload, size_t len, char *text, size_t size) WARN_UNUSED;

#endif
