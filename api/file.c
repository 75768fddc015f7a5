#include "api/file.h"

#include "api/base64.h"
#include "base/clock.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* --- paths --- */

struct source {
    const char *field;
    struct error *err;
};

static int fault(const struct source *s, const char *what)
{
    return error_set_field(s->err, ERROR_INVALID_REQUEST, s->field, "%s", what);
}

static int check_component(const struct source *s, const char *part, size_t len)
{
    if (len == 2 && part[0] == '.' && part[1] == '.') {
        return fault(s, "\"..\" has no place in a path");
    }
    return len > API_PATH_NAME_MAX ? fault(s, "a name is longer than 255 bytes") : 0;
}

static int normalise(const struct source *s, const char *text, size_t text_len,
                     char out[API_PATH_MAX + 1])
{
    size_t used = 0;
    if (memchr(text, '\0', text_len) != NULL) {
        return fault(s, "a path has no NUL in it");
    }
    if (text_len > API_PATH_MAX) {
        return fault(s, "the path is longer than 4095 bytes");
    }
    if (text[0] == '/') {
        return fault(s, "a path is relative to the workspace");
    }
    for (const char *part = text; part < text + text_len;) {
        size_t len = strcspn(part, "/");
        if (check_component(s, part, len) != 0) {
            return -1;
        }
        if (len > 1 || (len == 1 && part[0] != '.')) {
            if (used > 0) {
                out[used++] = '/';
            }
            memcpy(out + used, part, len);
            used += len;
        }
        part += len + 1;
    }
    out[used] = '\0';
    return 0;
}

static int decode_bytes(const struct source *s, const char *text, char out[API_PATH_MAX + 1])
{
    char *standard = strdup(text);
    char *bytes = NULL;
    size_t len = 0;
    if (standard == NULL) {
        return error_set(s->err, ERROR_INTERNAL, "out of memory");
    }
    for (char *c = standard; *c != '\0'; c++) {
        *c = *c == '-' || *c == ' ' ? '+' : *c == '_' ? '/' : *c; /* a bare '+' comes as a blank */
    }
    int result = base64_decode(standard, strlen(standard), &bytes, &len);
    free(standard);
    if (result != 0) {
        return fault(s, "this is no base64");
    }
    result = normalise(s, bytes, len, out);
    free(bytes);
    return result;
}

int api_path_decode(const char *path, const char *path_base64, char out[API_PATH_MAX + 1],
                    struct error *err)
{
    struct source s = {path_base64 != NULL ? "?pathBase64" : "?path", err};
    if (path != NULL && path_base64 != NULL) {
        return fault(&s, "either path or pathBase64");
    }
    if (path_base64 != NULL) {
        return decode_bytes(&s, path_base64, out);
    }
    path = path != NULL ? path : "";
    return normalise(&s, path, strlen(path), out);
}

int api_file_mode_decode(const char *text, unsigned *mode, struct error *err)
{
    size_t len = strlen(text);
    unsigned value = 0;
    if (len < 3 || len > 4 || strspn(text, "01234567") != len || (len == 4 && text[0] != '0')) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "?mode",
                               "a mode is octal, from 0000 to 0777");
    }
    for (; *text != '\0'; text++) {
        value = value << 3 | (unsigned)(*text - '0');
    }
    *mode = value;
    return 0;
}

/* --- views --- */

static json_t *bytes_value(const char *text)
{
    size_t len;
    char *encoded = text == NULL ? NULL : base64_encode(text, strlen(text), &len);
    json_t *value = text == NULL ? json_null() : encoded == NULL ? NULL : json_string(encoded);
    free(encoded);
    return value;
}

static json_t *text_value(const char *text)
{
    return text == NULL ? json_null() : json_string(text);
}

static bool is_text(const char *text)
{
    return text == NULL || utf8_is_valid(text, strlen(text));
}

json_t *api_file_encode(const struct api_file *view)
{
    static const int64_t last = 253402300799999; /* the year 9999 */
    int64_t mtime = view->mtime_ms < 0 ? 0 : view->mtime_ms > last ? last : view->mtime_ms;
    bool text = is_text(view->path) && is_text(view->target);
    char when[CLOCK_TEXT_SIZE];
    char mode[8];
    clock_format(mtime, when);
    (void)snprintf(mode, sizeof(mode), "%04o", view->mode & 07777);
    return json_pack("{s:o, s:s, s:I, s:s, s:s, s:o}", text ? "path" : "pathBase64",
                     text ? text_value(view->path) : bytes_value(view->path), "type", view->type,
                     "size", (json_int_t)view->size, "mode", mode, "mtime", when,
                     text ? "target" : "targetBase64",
                     text ? text_value(view->target) : bytes_value(view->target));
}
