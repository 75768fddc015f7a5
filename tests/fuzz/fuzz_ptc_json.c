/* Lossless JSON: what is taken has one form, which stays the same when it is written again; check
 * and write agree; what jansson takes, too, is the same value to it. The first byte picks the
 * answer reader. */
#include "ptc/json.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { TEXT_MAX = 1 << 24 };

static void try_answer(const char *text, size_t len)
{
    struct error err = ERROR_INIT;
    struct ptc_answer answer;
    if (ptc_json_answer(text, len, &answer, &err) == 0) {
        fuzz_require(answer.ok || answer.payload.len >= 2);
        fuzz_require(answer.payload.len == 0 ||
                     ptc_json_check(answer.payload.data, answer.payload.len, &err) == 0);
    } else {
        fuzz_require(err.code == ERROR_PTC_INVALID_REQUEST);
    }
}

static void try_value(const char *text, size_t len)
{
    struct error err = ERROR_INIT;
    struct buf first;
    struct buf second;
    buf_init(&first, TEXT_MAX);
    buf_init(&second, TEXT_MAX);
    bool ok = ptc_json_check(text, len, &err) == 0;
    fuzz_require(ok == (ptc_json_write(text, len, &first, &err) == 0));
    if (ok) {
        fuzz_require(ptc_json_write(first.data, first.len, &second, &err) == 0);
        fuzz_require(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    }
    buf_done(&first);
    buf_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    if (data[0] == 'a') {
        try_answer((const char *)data + 1, size - 1);
    } else {
        try_value((const char *)data + 1, size - 1);
    }
    return 0;
}
