#include "api/list.h"

#include "base/digest.h"

#include <string.h>

/* A cursor is the row number and the start of a digest over list and row, in hex and lowercase:
 * whoever guesses one or takes it to another list is told so. It is not a secret. */
enum { ROW_DIGITS = 16, CHECK_DIGITS = 16 };

static void check_of(const char *kind, int64_t row, char out[CHECK_DIGITS + 1])
{
    char digest[DIGEST_TEXT_SIZE];
    struct digest *d = digest_new();

    digest_update(d, kind, strlen(kind) + 1);
    digest_update(d, &row, sizeof(row));
    digest_final(d, digest);
    digest_free(d);
    memcpy(out, strchr(digest, ':') + 1, CHECK_DIGITS);
    out[CHECK_DIGITS] = '\0';
}

void api_cursor_encode(const char *kind, int64_t last_row, char out[API_CURSOR_SIZE])
{
    char check[CHECK_DIGITS + 1];

    check_of(kind, last_row, check);
    snprintf(out, API_CURSOR_SIZE, "%016llx%s", (unsigned long long)last_row, check);
}

static int cursor_decode(const char *kind, const char *text, int64_t *row, struct error *err)
{
    char digits[ROW_DIGITS + 1];
    char again[API_CURSOR_SIZE];

    if (strlen(text) == ROW_DIGITS + CHECK_DIGITS) {
        int64_t value;

        memcpy(digits, text, ROW_DIGITS);
        digits[ROW_DIGITS] = '\0';
        value = (int64_t)strtoull(digits, NULL, 16);
        api_cursor_encode(kind, value, again);
        if (value > 0 && strcmp(again, text) == 0) {
            *row = value;
            return 0;
        }
    }
    return error_set_field(err, ERROR_INVALID_REQUEST, "?cursor",
                           "cursor is not one that this list gave out");
}

static int limit_decode(const char *text, unsigned *limit, struct error *err)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long value = 0;

    if (digits >= 1 && digits <= 9 && text[digits] == '\0') {
        value = strtoul(text, NULL, 10);
    }
    if (value < 1 || value > API_LIST_LIMIT_MAX) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "?limit",
                               "limit must be an integer from 1 to %d", API_LIST_LIMIT_MAX);
    }
    *limit = (unsigned)value;
    return 0;
}

int api_page_decode(const char *kind, const char *limit, const char *cursor, struct api_page *out,
                    struct error *err)
{
    struct api_page page = {.limit = API_LIST_LIMIT_DEFAULT, .before_row = INT64_MAX};

    if (limit != NULL && limit_decode(limit, &page.limit, err) != 0) {
        return -1;
    }
    if (cursor != NULL && cursor_decode(kind, cursor, &page.before_row, err) != 0) {
        return -1;
    }
    *out = page;
    return 0;
}

json_t *api_list_encode(json_t *items, const char *next_cursor)
{
    return json_pack("{s:o, s:s?}", "items", items, "nextCursor", next_cursor);
}
