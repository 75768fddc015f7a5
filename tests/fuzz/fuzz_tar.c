/* workspace_tar_feed over arbitrary bytes, handed over in uneven pieces. The sink holds the feeder
 * to the contract of workspace/entry.h: relative clean names, data inside the file and rising. */
#include "tests/fuzz/fuzz.h"

#include "workspace/tar.h"

#include <string.h>

enum { APPARENT_MAX = 1 << 20, PIECE = 700 };

struct source {
    const uint8_t *data;
    size_t left;
    bool breaks; /* reading fails where its bytes end */
};

struct checker {
    struct workspace_sink sink;
    bool open;
    int64_t size;
    int64_t at;
    int64_t total;
};

static bool is_clean(const char *path)
{
    const char *part = path;

    while (*part != '\0') {
        size_t len = strcspn(part, "/");

        if (len == 0 || (len == 1 && part[0] == '.') ||
            (len == 2 && part[0] == '.' && part[1] == '.')) {
            return false;
        }
        part += len;
        if (*part == '/' && *++part == '\0') {
            return false;
        }
    }
    return path[0] != '\0';
}

static int check_begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                       struct error *err)
{
    struct checker *c = (struct checker *)sink;

    (void)err;
    fuzz_require(!c->open);
    fuzz_require(is_clean(entry->path) && strlen(entry->path) <= WORKSPACE_PATH_MAX);
    fuzz_require(entry->size >= 0 && (entry->type == WORKSPACE_FILE || entry->size == 0));
    fuzz_require((entry->mode & ~07777U) == 0);
    fuzz_require((entry->type == WORKSPACE_SYMLINK || entry->type == WORKSPACE_HARDLINK) ==
                 (entry->target != NULL));
    c->open = true;
    c->size = entry->size;
    c->at = 0;
    c->total += entry->size;
    fuzz_require(c->total <= APPARENT_MAX);
    return 0;
}

static int check_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                      struct error *err)
{
    struct checker *c = (struct checker *)sink;
    volatile uint8_t touch = 0;

    (void)err;
    fuzz_require(c->open && offset >= c->at && offset + (int64_t)len <= c->size);
    for (size_t i = 0; i < len; i++) {
        touch ^= ((const uint8_t *)data)[i];
    }
    (void)touch;
    c->at = offset + (int64_t)len;
    return 0;
}

static int check_end(struct workspace_sink *sink, struct error *err)
{
    struct checker *c = (struct checker *)sink;

    (void)err;
    fuzz_require(c->open);
    c->open = false;
    return 0;
}

static ssize_t read_piece(void *ctx, const void **data, struct error *err)
{
    struct source *s = ctx;
    size_t len = s->left < PIECE ? s->left : PIECE;

    if (len == 0 && s->breaks) {
        return error_set(err, ERROR_RUNTIME, "broken");
    }
    *data = s->data;
    s->data += len;
    s->left -= len;
    return (ssize_t)len;
}

static int feed(const uint8_t *data, size_t size, bool loose, bool breaks)
{
    static const struct workspace_sink_ops ops = {
        .begin = check_begin, .data = check_data, .end = check_end};
    struct source bytes = {.data = data, .left = size, .breaks = breaks};
    struct checker checker = {.sink = {.ops = &ops}};
    struct workspace_tar_source source = {
        .read = read_piece, .ctx = &bytes, .apparent_bytes_max = APPARENT_MAX, .loose = loose};
    struct error err = ERROR_INIT;
    int result;

    if (size > 0 && data[0] == 'w') {
        source.strip = "workspace";
    }
    result = workspace_tar_feed(&source, &checker.sink, &err);
    fuzz_require(result != 0 || !checker.open);
    fuzz_require((result != 0) == (err.code != ERROR_NONE));
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int strict = feed(data, size, false, false);

    /* What is good as it is needs no looking over. */
    fuzz_require(feed(data, size, true, false) == 0 || strict != 0);
    /* What breaks off in the middle is never taken for whole. */
    fuzz_require(feed(data, size / 2, true, true) != 0 || feed(data, size / 2, true, false) == 0);
    return 0;
}
