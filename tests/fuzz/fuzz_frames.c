/* The engine's multiplexed stream with the guest's frames in it. First byte of the input: the
 * length of the pieces that the rest comes in. The same bytes in one piece must mean the same. */
#include "tests/fuzz/fuzz.h"

#include "host/docker/process_frames.h"

#include <string.h>

struct seen {
    size_t output[2];
    uint32_t sum[2];
    unsigned control[GUEST_STDIN_TAKEN + 1];
    unsigned lasts;
    int exit_status;
    int result;
    char text[FRAMES_TEXT_MAX + 1];
};

static void on_output(void *ctx, enum guest_frame_type type, const void *data, size_t len)
{
    struct seen *seen = ctx;
    const uint8_t *bytes = data;
    int which = type == GUEST_STDERR;

    fuzz_require(type == GUEST_STDOUT || type == GUEST_STDERR);
    fuzz_require(len > 0 && seen->lasts == 0);
    seen->output[which] += len;
    for (size_t i = 0; i < len; i++) {
        seen->sum[which] = seen->sum[which] * 31 + bytes[i];
    }
}

static void check_exit(struct seen *seen, const uint8_t *payload)
{
    struct guest_exit exit;

    seen->exit_status = -1;
    if (frames_decode_exit(payload, &exit) == 0) {
        seen->exit_status = (int)exit.status;
        fuzz_require(exit.status <= 255 && exit.cpu_ms >= -1 && exit.errnum <= 4095);
        fuzz_require(!(exit.flags & GUEST_EXIT_NOT_STARTED) || exit.status == 126 ||
                     exit.status == 127);
    }
}

static void on_control(void *ctx, enum guest_frame_type type, const uint8_t *payload, size_t len)
{
    struct seen *seen = ctx;
    char text[64];

    fuzz_require(type >= GUEST_STARTED && type <= GUEST_STDIN_TAKEN && seen->lasts == 0);
    seen->control[type]++;
    seen->lasts += type != GUEST_STARTED && type != GUEST_STDIN_TAKEN;
    if (type == GUEST_EXIT) {
        fuzz_require(len == GUEST_EXIT_SIZE);
        check_exit(seen, payload);
    } else if (type == GUEST_FAILED) {
        int errnum = frames_decode_failed(payload, len, text, sizeof(text));

        fuzz_require(errnum >= 0 && errnum <= 4095 && strlen(text) < sizeof(text));
    }
}

static void feed(const uint8_t *data, size_t size, size_t step, struct seen *seen)
{
    struct frames_events events = {.output = on_output, .control = on_control, .ctx = seen};
    struct frames frames;

    memset(seen, 0, sizeof(*seen));
    frames_init(&frames, &events);
    for (size_t at = 0; at < size && seen->result == 0; at += step) {
        size_t len = size - at < step ? size - at : step;
        uint8_t *piece = fuzz_copy(data + at, len);

        seen->result = frames_feed(&frames, piece, len);
        free(piece);
    }
    fuzz_require((seen->result != 0) == (frames.fault != NULL));
    fuzz_require(frames.last == (seen->lasts == 1));
    fuzz_require(seen->output[0] + seen->output[1] <= size);
    fuzz_require(strlen(frames_text(&frames)) <= FRAMES_TEXT_MAX);
    memcpy(seen->text, frames_text(&frames), strlen(frames_text(&frames)) + 1);
}

static void require_same(const struct seen *a, const struct seen *b)
{
    fuzz_require(memcmp(a->output, b->output, sizeof(a->output)) == 0);
    fuzz_require(memcmp(a->sum, b->sum, sizeof(a->sum)) == 0);
    fuzz_require(memcmp(a->control, b->control, sizeof(a->control)) == 0);
    fuzz_require(a->lasts == b->lasts && a->exit_status == b->exit_status);
    fuzz_require(a->result == b->result && strcmp(a->text, b->text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen pieces;
    struct seen whole;

    if (size < 2) {
        return 0;
    }
    feed(data + 1, size - 1, (size_t)data[0] + 1, &pieces);
    feed(data + 1, size - 1, size, &whole);
    require_same(&pieces, &whole);
    return 0;
}
