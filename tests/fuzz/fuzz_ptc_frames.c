/* Frames and messages of the control channel, and the ledger: however the bytes are cut into reads,
 * the same frames come; a message's texts are JSON; what an overflow leaves fits. The first byte is
 * the size of the reads, the second the ledger's limit. */
#include "ptc/frames.h"
#include "ptc/ledger.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { FRAME_MAX = 1 << 16, MESSAGE_SIZE = 64 };

static void check_text(struct ptc_text text)
{
    struct error err = ERROR_INIT;
    fuzz_require(text.len == 0 || ptc_json_check(text.data, text.len, &err) == 0);
}

static void take(struct ptc_text body, struct buf *room, struct ptc_ledger *ledger)
{
    struct ptc_message m;
    const char *why = NULL;
    if (ptc_message_read(body, room, &m, &why) != 0) {
        fuzz_require(why != NULL);
        return;
    }
    check_text(m.function);
    check_text(m.argument);
    check_text(m.text);
    check_text(m.value);
    check_text(m.message);
    if (m.type == PTC_MESSAGE_LOG) {
        bool fits = ptc_ledger_fits(ledger, m.text.len + (ledger->count > 0 ? 1 : 0));
        fuzz_require((ptc_ledger_log(ledger, m.text) == 0) == fits);
    }
}

static void end_ledger(struct ptc_ledger *ledger)
{
    struct buf message;
    struct ptc_text logs;
    buf_init(&message, MESSAGE_SIZE);
    fuzz_require(buf_add_str(&message, "\"outer output exceeded\"") == 0);
    if (ledger->over) {
        logs = ptc_ledger_overflow(ledger, &message);
        fuzz_require(logs.len + message.len <= ledger->max);
        check_text((struct ptc_text){message.data, message.len});
    } else {
        size_t size = ptc_ledger_size(ledger);
        logs = ptc_ledger_close(ledger);
        fuzz_require(logs.len == size && size <= ledger->max);
    }
    check_text(logs);
    buf_done(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptc_frames frames;
    struct ptc_ledger ledger;
    struct buf room;
    struct ptc_text body;
    int result = 0;
    if (size < 2) {
        return 0;
    }
    size_t step = data[0] == 0 ? 1 : data[0];
    ptc_frames_init(&frames, FRAME_MAX);
    ptc_ledger_init(&ledger, data[1] < 4 ? 4 : data[1]);
    buf_init(&room, FRAME_MAX * 8);
    for (size_t at = 2; at < size && result >= 0; at += step) {
        size_t len = size - at < step ? size - at : step;
        fuzz_require(ptc_frames_put(&frames, (const char *)data + at, len) == 0);
        while ((result = ptc_frames_next(&frames, &body)) > 0) {
            fuzz_require(body.len > 0 && body.len <= FRAME_MAX);
            take(body, &room, &ledger);
        }
    }
    end_ledger(&ledger);
    ptc_frames_done(&frames);
    ptc_ledger_done(&ledger);
    buf_done(&room);
    return 0;
}
