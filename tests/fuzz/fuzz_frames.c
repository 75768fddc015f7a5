/* The engine's multiplexed stream with the guest's frames in it, in pieces whose length the input
 * itself says. Output never exceeds what came in; nothing follows the last frame. */
#include "tests/fuzz/fuzz.h"

#include "host/docker/process_frames.h"

struct seen {
    size_t output;
    bool last;
};

static void on_output(void *ctx, enum guest_frame_type type, const void *data, size_t len)
{
    struct seen *seen = ctx;
    volatile uint8_t touch = 0;

    fuzz_require(type == GUEST_STDOUT || type == GUEST_STDERR);
    fuzz_require(len > 0 && !seen->last);
    for (size_t i = 0; i < len; i++) {
        touch ^= ((const uint8_t *)data)[i];
    }
    (void)touch;
    seen->output += len;
}

static void on_control(void *ctx, enum guest_frame_type type, const uint8_t *payload, size_t len)
{
    struct seen *seen = ctx;
    struct guest_exit result;
    char text[FRAMES_TEXT_MAX];

    fuzz_require(!seen->last);
    if (type == GUEST_EXIT) {
        fuzz_require(len == GUEST_EXIT_SIZE);
        (void)!frames_decode_exit(payload, &result);
    } else if (type == GUEST_FAILED) {
        (void)!frames_decode_failed(payload, len, text, sizeof(text));
    }
    seen->last = type == GUEST_EXIT || type == GUEST_FAILED || type == GUEST_DONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen seen = {0};
    struct frames_events events = {.output = on_output, .control = on_control, .ctx = &seen};
    struct frames frames;
    size_t at = 0;
    size_t step = size > 0 ? (size_t)data[0] + 1 : 1;

    frames_init(&frames, &events);
    while (at < size) {
        size_t len = size - at < step ? size - at : step;
        uint8_t *piece = fuzz_copy(data + at, len);
        int rc = frames_feed(&frames, piece, len);

        free(piece);
        if (rc != 0) {
            fuzz_require(frames.fault != NULL);
            break;
        }
        at += len;
    }
    fuzz_require(seen.output <= size);
    fuzz_require(frames_text(&frames) != NULL);
    return 0;
}
