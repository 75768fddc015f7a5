/* What an engine answers, taken for hostile: the head of a connection that is taken over, and the
 * lines of its event stream in uneven pieces. */
#include "tests/fuzz/fuzz.h"

#include "host/docker/engine_head.h"
#include "host/docker/engine_lines.h"

static void on_line(void *ctx, const json_t *object)
{
    (void)ctx;
    fuzz_require(json_is_object(object));
}

static void feed_lines(const char *data, size_t size, size_t step)
{
    struct engine_lines lines;
    size_t at = 0;
    int rc = 0;

    engine_lines_init(&lines, on_line, NULL);
    while (at < size && rc == 0) {
        size_t len = size - at < step ? size - at : step;

        rc = engine_lines_feed(&lines, data + at, len);
        at += len;
    }
    if (rc == 0) {
        (void)!engine_lines_end(&lines);
    }
    engine_lines_done(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct engine_head head;
    char *copy = fuzz_copy(data, size);
    ssize_t len = engine_head_parse(copy, size, &head);

    if (len > 0) {
        fuzz_require((size_t)len <= size && len <= ENGINE_HEAD_MAX);
        fuzz_require(head.status >= 100 && head.status <= 599);
        fuzz_require(head.content_length >= -1);
    }
    feed_lines(copy, size, size > 0 ? (size_t)data[0] + 1 : 1);
    free(copy);
    return 0;
}
