/* What the HTTP adapter takes apart itself: the first byte picks a request target, a Range with its
 * size, entity tags, a Host or Origin, ids and traceparent, or Authorization. */
#include "tests/fuzz/fuzz.h"

#include "base/utf8.h"
#include "server/http/exchange.h"
#include "server/http/range.h"

#include <string.h>

static void try_target(const char *text)
{
    struct uri u;

    fuzz_require(uri_parse(&u, text) == 0);
    fuzz_require(strcmp(u.raw, text) == 0);
    fuzz_require(!u.path_valid || u.segment_count >= 1);
    fuzz_require(u.authority == NULL || strpbrk(u.authority, "/?#") == NULL);
    for (unsigned i = 0; u.path_valid && i < u.segment_count; i++) {
        fuzz_require(utf8_is_valid(u.segments[i], strlen(u.segments[i])));
    }
    for (unsigned i = 0; i < u.query_count; i++) {
        fuzz_require(utf8_is_valid(u.query[i].name, strlen(u.query[i].name)));
        fuzz_require(utf8_is_valid(u.query[i].value, strlen(u.query[i].value)));
        fuzz_require(uri_query(&u, u.query[i].name) == u.query[i].value);
    }
    uri_done(&u);
}

/* The size is the number of the second byte, scaled, so that bounds lie on both sides of it. */
static void try_range(const char *text)
{
    int64_t size = text[0] == '\0' ? 0 : (unsigned char)text[0] * 7 - 7;
    int64_t first = -1;
    int64_t length = -1;

    if (text[0] == '\0') {
        return;
    }
    switch (range_parse(text + 1, size, &first, &length)) {
    case RANGE_PART:
        fuzz_require(first >= 0 && length >= 1 && first <= size - length);
        fuzz_require(strncasecmp(text + 1, "bytes=", 6) == 0 && strchr(text + 1, ',') == NULL);
        break;
    case RANGE_OUTSIDE:
    case RANGE_NONE: fuzz_require(first == -1 && length == -1); break;
    }
}

static void try_etags(const char *text)
{
    static const char tag[] = "\"sha256:1\"";

    if (range_etag_listed(text, tag)) {
        fuzz_require(strstr(text, tag) != NULL || strchr(text, '*') != NULL);
    }
    if (range_etag_same(text, tag)) {
        fuzz_require(strncmp(text, tag, sizeof(tag) - 1) == 0);
    }
}

static void try_origin(const char *text)
{
    if (origin_host_is_loopback(text)) {
        fuzz_require(strncasecmp(text, "localhost", 9) == 0 || strncmp(text, "127.", 4) == 0 ||
                     text[0] == '[');
    }
    if (origin_is_loopback(text)) {
        fuzz_require(strncasecmp(text, "http", 4) == 0);
    }
}

static void try_trace(const char *text)
{
    char id[REQUEST_ID_MAX + 1];
    struct log_trace trace;

    trace_request_id(text, id);
    fuzz_require(id[0] != '\0' && strpbrk(id, " \r\n\"") == NULL);
    trace_parent(text, &trace);
    fuzz_require(trace.id[0] == '\0' || strlen(trace.id) == sizeof(trace.id) - 1);
}

static void try_authorization(const char *text)
{
    const char *token = auth_bearer(text);

    if (token != NULL) {
        fuzz_require(token == text + 7 && *token != '\0' && strpbrk(token, " \t,\"") == NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const TRIES[])(const char *text) = {
        try_target, try_range, try_etags, try_origin, try_trace, try_authorization,
    };
    char *text;

    if (size == 0) {
        return 0;
    }
    text = fuzz_text(data, size);
    TRIES[data[0] % (sizeof(TRIES) / sizeof(TRIES[0]))](text);
    free(text);
    return 0;
}
