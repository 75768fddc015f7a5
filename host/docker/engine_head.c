#include "host/docker/engine_head.h"

#include <string.h>
#include <strings.h>

struct span {
    const char *data;
    size_t len;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Field names are tokens; everything else in front of the colon is an attack or no HTTP. */
static bool is_token(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (c == '\0' || (!letter && !is_digit(c) && strchr("!#$%&'*+-.^_`|~", c) == NULL)) {
            return false;
        }
    }
    return s.len > 0;
}

static bool is_text(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static struct span trim(struct span s)
{
    while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t')) {
        s.data++;
        s.len--;
    }
    while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t')) {
        s.len--;
    }
    return s;
}

static bool same_name(struct span s, const char *name)
{
    return s.len == strlen(name) && strncasecmp(s.data, name, s.len) == 0;
}

/* HTTP/1.x NNN[ reason] */
static int parse_status(struct span line, struct engine_head *head)
{
    const char *p = line.data;

    if (line.len < 12 || memcmp(p, "HTTP/1.", 7) != 0 || !is_digit(p[7]) || p[8] != ' ' ||
        !is_digit(p[9]) || !is_digit(p[10]) || !is_digit(p[11]) ||
        (line.len > 12 && p[12] != ' ') || !is_text(line)) {
        return -1;
    }
    head->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
    return head->status >= 100 && head->status <= 599 ? 0 : -1;
}

static int parse_length(struct span value, struct engine_head *head)
{
    int64_t length = 0;

    if (head->content_length >= 0 || value.len == 0 || value.len > 18) {
        return -1;
    }
    for (size_t i = 0; i < value.len; i++) {
        if (!is_digit(value.data[i])) {
            return -1;
        }
        length = length * 10 + (value.data[i] - '0');
    }
    head->content_length = length;
    return 0;
}

static int parse_field(struct span line, struct engine_head *head)
{
    const char *colon = memchr(line.data, ':', line.len);
    struct span name = {line.data, 0};
    struct span value;

    if (colon == NULL) {
        return -1;
    }
    name.len = (size_t)(colon - line.data);
    value = trim((struct span){colon + 1, line.len - name.len - 1});
    if (!is_token(name) || !is_text(value)) {
        return -1;
    }
    if (same_name(name, "Content-Length")) {
        return parse_length(value, head);
    }
    if (same_name(name, "Transfer-Encoding")) {
        if (head->chunked || !same_name(value, "chunked")) {
            return -1;
        }
        head->chunked = true;
    }
    return 0;
}

ssize_t engine_head_parse(const char *data, size_t len, struct engine_head *out)
{
    struct engine_head head = {.content_length = -1};
    size_t at = 0;

    for (bool first = true;; first = false) {
        size_t room = len - at;
        const char *end = memchr(data + at, '\n', room);
        struct span line = {data + at, 0};

        if (end == NULL) {
            return len > ENGINE_HEAD_MAX ? -1 : 0;
        }
        line.len = (size_t)(end - line.data);
        at += line.len + 1;
        if (at > ENGINE_HEAD_MAX || line.len == 0 || line.data[line.len - 1] != '\r') {
            return -1;
        }
        line.len--;
        if (!first && line.len == 0) {
            break;
        }
        if ((first ? parse_status(line, &head) : parse_field(line, &head)) < 0) {
            return -1;
        }
    }
    if (head.chunked && head.content_length >= 0) {
        return -1;
    }
    *out = head;
    return (ssize_t)at;
}
