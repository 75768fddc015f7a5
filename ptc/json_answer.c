#include "ptc/json.h"

#include <string.h>

enum { UNKNOWN_MAX = 80 };

struct reading {
    struct ptc_text ok;
    struct ptc_text value;
    struct ptc_text message;
    const char *twice;
    bool unknown;
    char unknown_pointer[UNKNOWN_MAX];
};

static bool text_is(struct ptc_text text, const char *expected)
{
    return text.len == strlen(expected) && memcmp(text.data, expected, text.len) == 0;
}

/* Its JSON pointer, where the name needs no escapes and is no longer than sensible ones are. */
static void note_unknown(struct reading *r, struct ptc_text key)
{
    size_t len = key.len - 2; /* quotes */
    bool plain = len + 2 <= UNKNOWN_MAX;
    for (size_t i = 0; plain && i < len; i++) {
        char c = key.data[i + 1];
        plain = c > ' ' && c < 0x7f && c != '/' && c != '~' && c != '\\';
    }
    if (plain && !r->unknown) {
        (void)snprintf(r->unknown_pointer, sizeof(r->unknown_pointer), "/%.*s", (int)len,
                       key.data + 1);
    }
    r->unknown = true;
}

static int note(void *ctx, struct ptc_text key, struct ptc_text value)
{
    struct reading *r = ctx;
    static const char *const names[] = {"\"ok\"", "\"value\"", "\"message\""};
    static const char *const pointers[] = {"/ok", "/value", "/message"};
    struct ptc_text *const places[] = {&r->ok, &r->value, &r->message};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!text_is(key, names[i])) {
            continue;
        }
        if (places[i]->len != 0) {
            r->twice = pointers[i];
        }
        *places[i] = value;
        return 0;
    }
    note_unknown(r, key);
    return 0;
}

static int refuse(struct error *err, const char *field, const char *why)
{
    return error_set_field(err, ERROR_PTC_INVALID_REQUEST, field, "%s", why);
}

static int judge(const struct reading *r, struct ptc_answer *out, struct error *err)
{
    if (r->unknown) {
        return refuse(err, r->unknown_pointer,
                      "an answer has the members ok, value and message only");
    }
    if (r->twice != NULL) {
        return refuse(err, r->twice, "the member is there twice");
    }
    bool ok = text_is(r->ok, "true");
    if (!ok && !text_is(r->ok, "false")) {
        return refuse(err, "/ok", "must be true or false");
    }
    if (ok && r->message.len != 0) {
        return refuse(err, "/message", "an answer that is ok has a value");
    }
    if (!ok && r->value.len != 0) {
        return refuse(err, "/value", "an answer that is not ok has a message");
    }
    if (!ok && (r->message.len == 0 || r->message.data[0] != '"')) {
        return refuse(err, "/message", "must be a string");
    }
    out->ok = ok;
    out->payload = ok ? r->value : r->message;
    return 0;
}

int ptc_json_answer(const char *data, size_t len, struct ptc_answer *out, struct error *err)
{
    struct reading r = {.unknown = false};
    if (ptc_json_check(data, len, err) != 0) {
        return -1;
    }
    if (ptc_json_members(data, len, note, &r) != 0) {
        return refuse(err, "", "an answer is an object");
    }
    return judge(&r, out, err);
}
