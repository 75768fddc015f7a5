#include "base/error.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* What base/error.h tells the analyzer. */
#undef error_set
#undef error_set_errno
#undef error_set_field
#undef error_in_phase

static const char *const CODE_NAMES[ERROR_CODE_COUNT] = {
#define X(symbol, text) [symbol] = text,
    ERROR_CODES(X)
#undef X
};

static const char *const PHASE_NAMES[] = {
    [PHASE_VALIDATE] = "validate", [PHASE_CREATE] = "create", [PHASE_START] = "start",
    [PHASE_IMPORT] = "import",     [PHASE_EXEC] = "exec",     [PHASE_EXPORT] = "export",
    [PHASE_LOAD] = "load",         [PHASE_UPLOAD] = "upload", [PHASE_CLEANUP] = "cleanup",
};

/* Copies what fits into `size` bytes with the NUL, whole code points only. Messages may quote bytes
 * of files and engines, but a detail goes over the wire, so it is always UTF-8. */
static void copy_text(char *out, size_t size, const char *text)
{
    size_t len = utf8_cut(text, strlen(text), size - 1);

    memmove(out, text, len);
    out[len] = '\0';
    utf8_repair(out, len);
}

/* The text is composed elsewhere first: arguments may point into the error that is being replaced.
 */
PRINTF_LIKE(4, 0)
static void compose(struct error *err, enum error_code code, const char *suffix, const char *fmt,
                    va_list ap)
{
    char text[ERROR_DETAIL_MAX + 4]; /* room for a split code point that copy_text then drops */
    int written = vsnprintf(text, sizeof(text), fmt, ap);

    if (written < 0) {
        text[0] = '\0';
    }
    error_clear(err);
    err->code = code;
    copy_text(err->detail, sizeof(err->detail), text);
    if (suffix != NULL) {
        size_t len = strlen(err->detail);
        size_t room = sizeof(err->detail) - len;

        if (room > 3) {
            err->detail[len] = ':';
            err->detail[len + 1] = ' ';
            copy_text(err->detail + len + 2, room - 2, suffix);
        }
    }
}

int error_set(struct error *err, enum error_code code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    compose(err, code, NULL, fmt, ap);
    va_end(ap);
    return -1;
}

const char *error_errno_text(int errnum)
{
    const char *text = strerrordesc_np(errnum);
    return text != NULL ? text : "unknown error";
}

int error_set_errno(struct error *err, enum error_code code, int errnum, const char *fmt, ...)
{
    char buffer[128];
    const char *reason = strerror_r(errnum, buffer, sizeof(buffer));
    va_list ap;

    if (code == ERROR_INTERNAL && (errnum == ENOSPC || errnum == EDQUOT)) {
        code = ERROR_STORAGE_FULL;
    } else if ((code == ERROR_INTERNAL || code == ERROR_RUNTIME) &&
               (errnum == EMFILE || errnum == ENFILE)) {
        code = ERROR_OVERLOADED;
    }
    va_start(ap, fmt);
    compose(err, code, reason, fmt, ap);
    va_end(ap);
    return -1;
}

int error_set_field(struct error *err, enum error_code code, const char *field, const char *fmt,
                    ...)
{
    char name[ERROR_FIELD_MAX];
    va_list ap;

    copy_text(name, sizeof(name), field);
    va_start(ap, fmt);
    compose(err, code, NULL, fmt, ap);
    va_end(ap);
    copy_text(err->field, sizeof(err->field), name);
    return -1;
}

int error_in_phase(struct error *err, enum error_phase phase)
{
    if (err->phase == PHASE_NONE) {
        err->phase = phase;
    }
    return -1;
}

static void add_one_cause(struct error *err, enum error_code code, const char *detail)
{
    if (err->cause_count < ERROR_CAUSES_MAX) {
        struct error_cause *slot = &err->causes[err->cause_count++];

        slot->code = code;
        copy_text(slot->detail, sizeof(slot->detail), detail);
    }
}

void error_add_cause(struct error *err, const struct error *cause)
{
    add_one_cause(err, cause->code, cause->detail);
    for (int i = 0; i < cause->cause_count; i++) {
        add_one_cause(err, cause->causes[i].code, cause->causes[i].detail);
    }
}

void error_clear(struct error *err)
{
    err->code = ERROR_NONE;
    err->phase = PHASE_NONE;
    err->field[0] = '\0';
    err->detail[0] = '\0';
    err->cause_count = 0;
}

const char *error_code_name(enum error_code code)
{
    if ((unsigned)code >= ERROR_CODE_COUNT) {
        return CODE_NAMES[ERROR_INTERNAL];
    }
    return CODE_NAMES[code];
}

enum error_code error_code_from_name(const char *name)
{
    for (int i = 0; i < ERROR_CODE_COUNT; i++) {
        if (strcmp(CODE_NAMES[i], name) == 0) {
            return (enum error_code)i;
        }
    }
    return ERROR_INTERNAL;
}

const char *error_phase_name(enum error_phase phase)
{
    if ((size_t)phase >= ARRAY_SIZE(PHASE_NAMES)) {
        return NULL;
    }
    return PHASE_NAMES[phase];
}
