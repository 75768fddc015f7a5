#include "server/http/uri.h"

#include "base/utf8.h"

#include <string.h>
#include <strings.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* Decodes in place; false when an escape is none, or the result has a NUL or is not UTF-8. */
static bool decode(char *s, bool plus_is_blank)
{
    char *to = s;
    char *start = s;

    while (*s != '\0') {
        if (*s == '%') {
            int high = hex_digit(s[1]);
            int low = high < 0 ? -1 : hex_digit(s[2]);

            if (low < 0 || (high == 0 && low == 0)) {
                return false;
            }
            *to++ = (char)(high * 16 + low);
            s += 3;
        } else {
            *to++ = *s == '+' && plus_is_blank ? ' ' : *s;
            s++;
        }
    }
    *to = '\0';
    return utf8_is_valid(start, (size_t)(to - start));
}

/* Ends the token at `s` before `delimiter` and returns what follows it, NULL at the end. */
static char *cut(char *s, char delimiter)
{
    char *at = strchr(s, delimiter);

    if (at == NULL) {
        return NULL;
    }
    *at = '\0';
    return at + 1;
}

static bool parse_path(struct uri *u, char *path)
{
    if (*path != '/') {
        return false;
    }
    for (char *segment = path + 1; segment != NULL;) {
        char *next = cut(segment, '/');

        if (u->segment_count == URI_SEGMENTS_MAX || !decode(segment, false)) {
            return false;
        }
        u->segments[u->segment_count++] = segment;
        segment = next;
    }
    return true;
}

static int parse_pair(struct uri *u, char *name, struct error *err)
{
    char *value = cut(name, '=');
    static char empty[] = "";

    if (value == NULL) {
        value = empty;
    }
    if (!decode(name, true)) {
        return error_set(err, ERROR_INVALID_REQUEST, "the query has a name that can't be decoded");
    }
    if (!decode(value, true)) {
        return uri_query_fault(err, name, "its value in the query can't be decoded");
    }
    if (uri_query(u, name) != NULL) {
        return uri_query_fault(err, name, "is given twice in the query");
    }
    if (u->query_count == URI_QUERY_MAX) {
        return error_set(err, ERROR_INVALID_REQUEST, "the query has too many names");
    }
    u->query[u->query_count].name = name;
    u->query[u->query_count].value = value;
    u->query_count++;
    return 0;
}

static int keep_error(struct uri *u, const struct error *err)
{
    u->query_error = malloc(sizeof(*u->query_error));
    if (u->query_error == NULL) {
        return -1;
    }
    *u->query_error = *err;
    return 0;
}

/* -1 only when memory is out. */
static int parse_query(struct uri *u, char *query)
{
    struct error err = ERROR_INIT;

    while (query != NULL) {
        char *next = cut(query, '&');

        if (*query != '\0' && parse_pair(u, query, &err) != 0) {
            return keep_error(u, &err);
        }
        query = next;
    }
    return 0;
}

/* The length of "http://" or "https://" at the start, 0 when there is neither. */
static size_t scheme_len(const char *raw)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
        if (strncasecmp(raw, schemes[i], strlen(schemes[i])) == 0) {
            return strlen(schemes[i]);
        }
    }
    return 0;
}

/* Of "http://host?query" the path is "/". */
static int copy_parts(struct uri *u, const char *raw)
{
    size_t scheme = scheme_len(raw);
    const char *rest = raw;

    if (scheme > 0) {
        size_t len = strcspn(raw + scheme, "/?#");

        rest = raw + scheme + len;
        u->authority = strndup(raw + scheme, len);
        if (u->authority == NULL) {
            return -1;
        }
    }
    u->raw = strdup(raw);
    u->path = strndup(raw, strcspn(raw, "?"));
    if (scheme == 0 || *rest == '/') {
        u->text = strdup(rest);
    } else if (asprintf(&u->text, "/%s", rest) < 0) {
        u->text = NULL;
    }
    return u->raw != NULL && u->path != NULL && u->text != NULL ? 0 : -1;
}

int uri_parse(struct uri *u, const char *raw)
{
    char *query;

    *u = (struct uri){0};
    if (copy_parts(u, raw) != 0) {
        uri_done(u);
        return -1;
    }
    query = cut(u->text, '?');
    u->path_valid = parse_path(u, u->text);
    if (parse_query(u, query) != 0) {
        uri_done(u);
        return -1;
    }
    return 0;
}

void uri_done(struct uri *u)
{
    free(TAKE_PTR(u->raw));
    free(TAKE_PTR(u->path));
    free(TAKE_PTR(u->authority));
    free(TAKE_PTR(u->query_error));
    free(TAKE_PTR(u->text));
}

const char *uri_query(const struct uri *u, const char *name)
{
    for (unsigned i = 0; i < u->query_count; i++) {
        if (strcmp(u->query[i].name, name) == 0) {
            return u->query[i].value;
        }
    }
    return NULL;
}

int uri_query_fault(struct error *err, const char *name, const char *rule)
{
    char field[ERROR_FIELD_MAX + 4]; /* room for a split code point, which the error then drops */

    snprintf(field, sizeof(field), "?%s", name);
    return error_set_field(err, ERROR_INVALID_REQUEST, field, "%s", rule);
}
