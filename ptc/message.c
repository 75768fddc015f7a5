#include "ptc/frames.h"

#include <string.h>

enum { ROOM_KEPT = 4 * 1024 * 1024 };

enum member {
    MEMBER_TYPE,
    MEMBER_ID,
    MEMBER_GLOBAL,
    MEMBER_FUNCTION,
    MEMBER_ARGUMENT,
    MEMBER_TEXT,
    MEMBER_OK,
    MEMBER_KIND,
    MEMBER_VALUE,
    MEMBER_MESSAGE,
    MEMBER_COUNT
};

static const char *const member_keys[MEMBER_COUNT] = {
    "\"type\"", "\"id\"", "\"global\"", "\"function\"", "\"argument\"",
    "\"text\"", "\"ok\"", "\"kind\"",   "\"value\"",    "\"message\"",
};

/* Which members each message must have and may have. */
#define BIT(member) (1U << (member))
static const struct {
    const char *type;
    unsigned required;
    unsigned allowed;
} shapes[] = {
    [PTC_MESSAGE_READY] = {"\"ready\"", 0, 0},
    [PTC_MESSAGE_CALL] = {"\"call\"",
                          BIT(MEMBER_ID) | BIT(MEMBER_GLOBAL) | BIT(MEMBER_FUNCTION) |
                              BIT(MEMBER_ARGUMENT),
                          0},
    [PTC_MESSAGE_LOG] = {"\"log\"", BIT(MEMBER_TEXT), 0},
    [PTC_MESSAGE_OUTPUT_LIMIT] = {"\"output-limit\"", 0, 0},
    [PTC_MESSAGE_DONE] = {"\"done\"", BIT(MEMBER_OK),
                          BIT(MEMBER_KIND) | BIT(MEMBER_VALUE) | BIT(MEMBER_MESSAGE)},
};

struct reading {
    struct ptc_text members[MEMBER_COUNT];
    unsigned seen;
};

static bool text_is(struct ptc_text text, const char *expected)
{
    return text.len == strlen(expected) && memcmp(text.data, expected, text.len) == 0;
}

static int note(void *ctx, struct ptc_text key, struct ptc_text value)
{
    struct reading *r = ctx;
    for (unsigned i = 0; i < MEMBER_COUNT; i++) {
        if (text_is(key, member_keys[i])) {
            if ((r->seen & BIT(i)) != 0) {
                return -1;
            }
            r->seen |= BIT(i);
            r->members[i] = value;
            return 0;
        }
    }
    return -1;
}

static bool is_string(struct ptc_text text)
{
    return text.len >= 2 && text.data[0] == '"';
}

static int read_id(struct ptc_text text, int64_t *id)
{
    enum { DIGITS_MAX = 15, TEN = 10 };
    if (text.len == 0 || text.len > DIGITS_MAX) {
        return -1;
    }
    *id = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return -1;
        }
        *id = *id * TEN + (text.data[i] - '0');
    }
    return *id > 0 ? 0 : -1;
}

static int read_call(const struct reading *r, struct ptc_message *out)
{
    struct ptc_text global = r->members[MEMBER_GLOBAL];
    out->function = r->members[MEMBER_FUNCTION];
    out->argument = r->members[MEMBER_ARGUMENT];
    if (!is_string(global) || !is_string(out->function)) {
        return -1;
    }
    out->global = (struct ptc_text){global.data + 1, global.len - 2};
    return read_id(r->members[MEMBER_ID], &out->id);
}

static int read_done(const struct reading *r, struct ptc_message *out)
{
    unsigned rest = r->seen & (BIT(MEMBER_KIND) | BIT(MEMBER_VALUE) | BIT(MEMBER_MESSAGE));
    struct ptc_text kind = r->members[MEMBER_KIND];
    out->ok = text_is(r->members[MEMBER_OK], "true");
    out->value = r->members[MEMBER_VALUE];
    out->message = r->members[MEMBER_MESSAGE];
    if (out->ok) {
        return (rest & ~BIT(MEMBER_VALUE)) == 0 ? 0 : -1;
    }
    out->lossy = text_is(kind, "\"invalid-output\"");
    return text_is(r->members[MEMBER_OK], "false") &&
                   rest == (BIT(MEMBER_KIND) | BIT(MEMBER_MESSAGE)) && is_string(out->message) &&
                   (out->lossy || text_is(kind, "\"exception\""))
               ? 0
               : -1;
}

static int find_shape(const struct reading *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
        unsigned allowed = shapes[i].required | shapes[i].allowed | BIT(MEMBER_TYPE);
        if (text_is(r->members[MEMBER_TYPE], shapes[i].type)) {
            return (r->seen & shapes[i].required) == shapes[i].required && (r->seen & ~allowed) == 0
                       ? (int)i
                       : -1;
        }
    }
    return -1;
}

int ptc_message_read(struct ptc_text body, struct buf *room, struct ptc_message *out,
                     const char **why)
{
    struct reading r = {.seen = 0};
    struct error err = ERROR_INIT;
    if (room->size > ROOM_KEPT) {
        size_t max = room->max;
        buf_done(room);
        buf_init(room, max);
    }
    buf_reset(room);
    *why = "a frame is no lossless JSON";
    if (ptc_json_write(body.data, body.len, room, &err) != 0) {
        return -1;
    }
    *why = "a frame is no message";
    *out = (struct ptc_message){.ok = false};
    if (ptc_json_members(room->data, room->len, note, &r) != 0) {
        return -1;
    }
    int shape = find_shape(&r);
    if (shape < 0) {
        return -1;
    }
    out->type = (enum ptc_message_type)shape;
    out->text = r.members[MEMBER_TEXT];
    switch (out->type) {
    case PTC_MESSAGE_CALL: return read_call(&r, out);
    case PTC_MESSAGE_DONE: return read_done(&r, out);
    case PTC_MESSAGE_LOG: return is_string(out->text) ? 0 : -1;
    default: return 0;
    }
}
