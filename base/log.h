/* JSON lines on standard error, one write(2) a line. Any thread. Secrets and program output never
 * go here. Field values are cut at 1 KiB. */
#ifndef EXECHOST_BASE_LOG_H
#define EXECHOST_BASE_LOG_H

#include "base/error.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

void log_set_level(enum log_level level); /* default LOG_LEVEL_INFO */

/* What a thread works for: the trace id of the request that began it stands as `traceId` in each
 * line it writes until another is set. None at first. */
struct log_trace {
    char id[33]; /* 32 hex digits, "": none */
};
struct log_trace log_trace_now(void);
void log_trace_set(struct log_trace trace);

/* `message` and then pairs of key and string value, ended by NULL:
 * log_info("provisioned", "execution", id, "tenant", tenant, NULL). A NULL value would end the
 * list. */
void log_write(enum log_level level, const char *message, ...) __attribute__((sentinel));
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...) log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)

/* The same with code, detail and causes of `err` as fields. */
void log_failure(enum log_level level, const struct error *err, const char *message, ...)
    __attribute__((sentinel));

/* A line of the same form, but of no level, to a descriptor of the caller's. -1 when it could not
 * be written. */
int log_write_to(int fd, const char *message, ...) __attribute__((sentinel)) WARN_UNUSED;

#endif
