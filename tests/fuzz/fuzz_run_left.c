/* A run's log as a service may have left it: torn or damaged anywhere. What is taken of it ends
 * with a whole line, counts agree with it, and reading that part alone says the same. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "ptc/json.h"
#include "server/events/run_left.h"

#include <string.h>

enum { ROOM = 4096 };

static void take(struct run_left *l, const char *data, size_t len)
{
    run_left_init(l, 1024 * 1024);
    fuzz_require(len == 0 || buf_add(&l->text, data, len) == 0);
    fuzz_require(run_left_take(l, ROOM) == 0);
}

static int64_t count_lines(const struct run_left *l)
{
    int64_t lines = 0;
    for (size_t i = 0; i < l->len; i++) {
        lines += l->text.data[i] == '\n';
    }
    return lines;
}

static int64_t count_open(const struct run_left *l)
{
    int64_t open = 0;
    for (size_t i = 0; i < l->open_size; i++) {
        open += l->open[i];
    }
    return open;
}

static void check(const struct run_left *l)
{
    struct error err = ERROR_INIT;
    fuzz_require(l->len <= l->text.len);
    fuzz_require(l->len == 0 || l->text.data[l->len - 1] == '\n');
    fuzz_require(l->seq == count_lines(l));
    fuzz_require(ptc_json_check(l->logs.data, l->logs.len, &err) == 0);
    fuzz_require(l->logs.len <= ROOM + 2);
    fuzz_require(l->calls_answered + count_open(l) <= l->calls_total);
    fuzz_require(l->calls_total <= l->seq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_left first;
    struct run_left again;
    take(&first, (const char *)data, size);
    check(&first);
    take(&again, buf_str(&first.text), first.len);
    fuzz_require(again.len == first.len && again.seq == first.seq);
    fuzz_require(again.calls_answered == first.calls_answered);
    fuzz_require(again.started_at == first.started_at);
    fuzz_require(again.logs.len == first.logs.len);
    fuzz_require(memcmp(again.logs.data, first.logs.data, first.logs.len) == 0);
    run_left_done(&first);
    run_left_done(&again);
    return 0;
}
