/* The small texts of the interface: the first byte picks JSON text, base64, a cursor, a limit, a
 * fencing token, a time, an Accept header or a place among events. What is accepted comes back the
 * same when it is written again. */
#include "tests/fuzz/fuzz.h"

#include "api/base64.h"
#include "api/event.h"
#include "api/execution.h"
#include "api/json.h"
#include "api/list.h"
#include "base/clock.h"

#include <string.h>

enum { TEXT_MAX = 1 << 24 };

static void try_json(const char *text, size_t len)
{
    struct error err = ERROR_INIT;
    json_t *value = NULL;
    json_t *again = NULL;
    char *written;

    if (api_json_parse(text, len, &value, &err) != 0) {
        fuzz_require(err.code == ERROR_INVALID_REQUEST && err.field[0] == '\0');
        return;
    }
    written = api_json_text(value, TEXT_MAX);
    fuzz_require(written != NULL);
    fuzz_require(api_json_parse(written, strlen(written), &again, &err) == 0);
    fuzz_require(json_equal(value, again));
    free(written);
    json_decref(value);
    json_decref(again);
}

static void try_base64(const char *text, size_t len)
{
    char *data = NULL;
    char *again;
    size_t data_len;
    size_t again_len;

    if (base64_decode(text, len, &data, &data_len) != 0) {
        return;
    }
    again = base64_encode(data, data_len, &again_len);
    fuzz_require(again != NULL && again_len == len && memcmp(again, text, len) == 0);
    free(again);
    free(data);
}

static void try_cursor(const char *text, size_t len)
{
    struct api_page page;
    struct error err = ERROR_INIT;
    char again[API_CURSOR_SIZE];

    (void)len;
    if (api_page_decode("executions", NULL, text, &page, &err) == 0) {
        api_cursor_encode("executions", page.before_row, again);
        fuzz_require(strcmp(again, text) == 0);
    }
}

static void try_limit(const char *text, size_t len)
{
    struct api_page page;
    struct error err = ERROR_INIT;

    (void)len;
    if (api_page_decode("executions", text, NULL, &page, &err) == 0) {
        fuzz_require(page.limit >= 1 && page.limit <= API_LIST_LIMIT_MAX);
    }
}

static void try_token(const char *text, size_t len)
{
    struct error err = ERROR_INIT;
    int64_t token;

    (void)len;
    if (api_fencing_token_decode(text, &token, &err) == 0) {
        fuzz_require(token >= 0 && token <= 9007199254740991);
    }
}

static void try_time(const char *text, size_t len)
{
    char again[CLOCK_TEXT_SIZE];
    int64_t ms;
    int64_t back;

    (void)len;
    if (clock_parse(text, &ms) == 0) {
        clock_format(ms, again);
        fuzz_require(clock_parse(again, &back) == 0 && back == ms);
    }
}

static void try_accept(const char *text, size_t len)
{
    enum api_event_format format = api_event_accept(text, API_EVENT_JSON);

    (void)len;
    fuzz_require(format == API_EVENT_JSON ||
                 strcasestr(text, api_event_media_type(format)) != NULL);
}

static void try_after(const char *text, size_t len)
{
    struct error err = ERROR_INIT;
    char again[32];
    int64_t after = -1;

    (void)len;
    if (api_event_after(text, NULL, &after, &err) == 0) {
        snprintf(again, sizeof(again), "%0*lld", (int)strlen(text), (long long)after);
        fuzz_require(after >= 0 && strcmp(again, text) == 0);
    }
    if (api_event_after(NULL, text, &after, &err) != 0) {
        fuzz_require(err.code == ERROR_INVALID_REQUEST && err.field[0] == 'L');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const TRIES[])(const char *text, size_t len) = {
        try_json, try_base64, try_cursor, try_limit, try_token, try_time, try_accept, try_after,
    };
    char *text;

    if (size == 0) {
        return 0;
    }
    text = fuzz_text(data, size);
    TRIES[data[0] % (sizeof(TRIES) / sizeof(TRIES[0]))](text, size - 1);
    free(text);
    return 0;
}
