#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

enum { LINE_MAX_BYTES = 32 * 1024, VALUE_MAX = 1024 };

static _Atomic int log_threshold = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&log_threshold, (int)level);
}

static _Thread_local struct log_trace log_trace;

struct log_trace log_trace_now(void)
{
    return log_trace;
}

void log_trace_set(struct log_trace trace)
{
    log_trace = trace;
}

static int add_escaped_char(struct buf *line, unsigned char c)
{
    switch (c) {
    case '"': return buf_add_str(line, "\\\"");
    case '\\': return buf_add_str(line, "\\\\");
    case '\n': return buf_add_str(line, "\\n");
    case '\t': return buf_add_str(line, "\\t");
    case '\r': return buf_add_str(line, "\\r");
    default: break;
    }
    if (c < 0x20 || c == 0x7F) {
        return buf_addf(line, "\\u%04x", c);
    }
    return buf_add_char(line, (char)c);
}

static int add_escaped(struct buf *line, const char *text)
{
    size_t len = utf8_cut(text, strlen(text), VALUE_MAX);
    size_t at = 0;

    while (at < len) {
        size_t valid = utf8_valid_prefix(text + at, len - at);

        for (size_t i = 0; i < valid; i++) {
            if (add_escaped_char(line, (unsigned char)text[at + i]) != 0) {
                return -1;
            }
        }
        at += valid;
        if (at < len) {
            if (buf_add_str(line, "\\ufffd") != 0) {
                return -1;
            }
            at++;
        }
    }
    return 0;
}

/* A field that does not fit is left out whole. */
static void add_field(struct buf *line, const char *key, const char *value)
{
    size_t before = line->len;

    if (buf_add_str(line, line->len == 1 ? "\"" : ",\"") != 0 || add_escaped(line, key) != 0 ||
        buf_add_str(line, "\":\"") != 0 || add_escaped(line, value) != 0 ||
        buf_add_char(line, '"') != 0) {
        line->len = before;
    }
}

static void add_pairs(struct buf *line, va_list ap)
{
    const char *key = va_arg(ap, const char *);

    while (key != NULL) {
        const char *value = va_arg(ap, const char *);

        if (value == NULL) {
            return;
        }
        add_field(line, key, value);
        key = va_arg(ap, const char *);
    }
}

static void add_failure(struct buf *line, const struct error *err)
{
    const char *phase = error_phase_name(err->phase);

    add_field(line, "code", error_code_name(err->code));
    add_field(line, "detail", err->detail);
    if (phase != NULL) {
        add_field(line, "phase", phase);
    }
    if (err->field[0] != '\0') {
        add_field(line, "field", err->field);
    }
    for (int i = 0; i < err->cause_count; i++) {
        char key[32];

        snprintf(key, sizeof(key), "cause%dCode", i + 1);
        add_field(line, key, error_code_name(err->causes[i].code));
        snprintf(key, sizeof(key), "cause%dDetail", i + 1);
        add_field(line, key, err->causes[i].detail);
    }
}

static const char *const LEVELS[] = {"debug", "info", "warn", "error"};

/* `level` may be NULL. */
static void begin_line(struct buf *line, const char *level, const char *message)
{
    char now[CLOCK_TEXT_SIZE];

    /* Two bytes are kept back, so that the closing brace and the newline always fit. */
    buf_init(line, LINE_MAX_BYTES - 2);
    if (buf_add_char(line, '{') != 0) {
        return;
    }
    clock_format(clock_wall_ms(), now);
    add_field(line, "time", now);
    if (level != NULL) {
        add_field(line, "level", level);
    }
    add_field(line, "message", message);
}

static int end_line(struct buf *line, int fd)
{
    ssize_t n;

    line->max += 2;
    if (line->len == 0 || buf_add_str(line, "}\n") != 0) {
        return -1;
    }
    do {
        n = write(fd, line->data, line->len);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)line->len ? 0 : -1;
}

/* `err` may be NULL. */
static void write_line(enum log_level level, const struct error *err, const char *message,
                       va_list ap)
{
    _cleanup_buf_ struct buf line;

    buf_init(&line, LINE_MAX_BYTES);
    if ((int)level < atomic_load(&log_threshold)) {
        return;
    }
    begin_line(&line, LEVELS[level], message);
    add_pairs(&line, ap);
    if (err != NULL) {
        add_failure(&line, err);
    }
    if (log_trace.id[0] != '\0') {
        add_field(&line, "traceId", log_trace.id);
    }
    (void)end_line(&line, STDERR_FILENO); /* nobody is left to be told */
}

void log_write(enum log_level level, const char *message, ...)
{
    va_list ap;

    va_start(ap, message);
    write_line(level, NULL, message, ap);
    va_end(ap);
}

void log_failure(enum log_level level, const struct error *err, const char *message, ...)
{
    va_list ap;

    va_start(ap, message);
    write_line(level, err, message, ap);
    va_end(ap);
}

int log_write_to(int fd, const char *message, ...)
{
    _cleanup_buf_ struct buf line;
    va_list ap;

    buf_init(&line, LINE_MAX_BYTES);
    begin_line(&line, NULL, message);
    va_start(ap, message);
    add_pairs(&line, ap);
    va_end(ap);
    return end_line(&line, fd);
}
