/* The one error type. It lives on the caller's stack, is the last parameter of every function that
 * can fail, and is written exactly once, by whoever first knows what went wrong. Owns no memory.
 *
 * A code is stable and goes over the wire; a detail is for people. Which HTTP status a code has is
 * known by api/problem.h alone. Any thread may use its own struct error. */
#ifndef EXECHOST_BASE_ERROR_H
#define EXECHOST_BASE_ERROR_H

#include "base/macros.h"

#include <stdbool.h>

/* X(symbol, text on the wire) */
#define ERROR_CODES(X)                                                                             \
    X(ERROR_NONE, "")                                                                              \
    X(ERROR_INVALID_REQUEST, "EXECUTION_INVALID_REQUEST")                                          \
    X(ERROR_RESOURCE_LIMIT, "EXECUTION_RESOURCE_LIMIT")                                            \
    X(ERROR_NETWORK_POLICY, "EXECUTION_NETWORK_POLICY")                                            \
    X(ERROR_NOT_FOUND, "EXECUTION_NOT_FOUND")                                                      \
    X(ERROR_ALREADY_EXISTS, "EXECUTION_ALREADY_EXISTS")                                            \
    X(ERROR_TIMEOUT, "EXECUTION_TIMEOUT")                                                          \
    X(ERROR_OUTPUT_LIMIT, "EXECUTION_OUTPUT_LIMIT")                                                \
    X(ERROR_HOST_UNAVAILABLE, "EXECUTION_HOST_UNAVAILABLE")                                        \
    X(ERROR_RUNTIME, "EXECUTION_RUNTIME_ERROR")                                                    \
    X(ERROR_CREDENTIAL, "EXECUTION_CREDENTIAL_ERROR")                                              \
    X(ERROR_CHECKPOINT_NOT_FOUND, "EXECUTION_CHECKPOINT_NOT_FOUND")                                \
    X(ERROR_CHECKPOINT_INVALID, "EXECUTION_CHECKPOINT_INVALID")                                    \
    X(ERROR_CHECKPOINT_IN_USE, "CHECKPOINT_IN_USE")                                                \
    X(ERROR_COMMAND_NOT_FOUND, "COMMAND_NOT_FOUND")                                                \
    X(ERROR_TRANSCRIPT_GONE, "TRANSCRIPT_GONE")                                                    \
    X(ERROR_FILE_NOT_FOUND, "FILE_NOT_FOUND")                                                      \
    X(ERROR_IMAGE_NOT_FOUND, "IMAGE_NOT_FOUND")                                                    \
    X(ERROR_SHARED_STORE_NOT_CONFIGURED, "SHARED_STORE_NOT_CONFIGURED")                            \
    X(ERROR_SHARED_CONFLICT, "SHARED_CONFLICT")                                                    \
    X(ERROR_UPLOAD_FAILED, "CHECKPOINT_UPLOAD_FAILED")      /* trying again changes nothing */     \
    X(ERROR_UPLOAD_INTERRUPTED, "CHECKPOINT_UPLOAD_FAILED") /* retryable */                        \
    X(ERROR_SHARED_STORE_REFUSED, "SHARED_STORE_REFUSED")                                          \
    X(ERROR_SHARED_STORE_UNAVAILABLE, "SHARED_STORE_UNAVAILABLE")                                  \
    X(ERROR_ID_IN_USE, "ID_IN_USE")                                                                \
    X(ERROR_OWNER_FENCED, "OWNER_FENCED")                                                          \
    X(ERROR_IDEMPOTENCY_CONFLICT, "IDEMPOTENCY_CONFLICT")                                          \
    X(ERROR_INTERNAL, "INTERNAL")                                                                  \
    X(ERROR_ROUTE_NOT_FOUND, "ROUTE_NOT_FOUND")                                                    \
    X(ERROR_METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED")                                              \
    X(ERROR_FORBIDDEN, "FORBIDDEN")                                                                \
    X(ERROR_PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE")                                                \
    X(ERROR_UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE")                                      \
    X(ERROR_RANGE_NOT_SATISFIABLE, "RANGE_NOT_SATISFIABLE")                                        \
    X(ERROR_UNAUTHENTICATED, "UNAUTHENTICATED")                                                    \
    X(ERROR_QUOTA_EXCEEDED, "QUOTA_EXCEEDED")                                                      \
    X(ERROR_OVERLOADED, "OVERLOADED")                                                              \
    X(ERROR_STORAGE_FULL, "STORAGE_FULL")                                                          \
    X(ERROR_PTC_INVALID_REQUEST, "PTC_INVALID_REQUEST")                                            \
    X(ERROR_PTC_RUN_NOT_FOUND, "PTC_RUN_NOT_FOUND")                                                \
    X(ERROR_PTC_CALL_NOT_FOUND, "PTC_CALL_NOT_FOUND")                                              \
    X(ERROR_PTC_CALL_SETTLED, "PTC_CALL_SETTLED")                                                  \
    X(ERROR_PTC_RUN_SETTLED, "PTC_RUN_SETTLED")

enum error_code {
#define X(symbol, text) symbol,
    ERROR_CODES(X)
#undef X
        ERROR_CODE_COUNT
};

/* Where in an operation it went wrong; PHASE_NONE is left out of a problem document. */
enum error_phase {
    PHASE_NONE,
    PHASE_VALIDATE,
    PHASE_CREATE,
    PHASE_START,
    PHASE_IMPORT,
    PHASE_EXEC,
    PHASE_EXPORT,
    PHASE_LOAD,
    PHASE_UPLOAD,
    PHASE_CLEANUP,
};

enum { ERROR_DETAIL_MAX = 512, ERROR_FIELD_MAX = 192, ERROR_CAUSES_MAX = 3 };

struct error_cause {
    enum error_code code;
    char detail[ERROR_DETAIL_MAX];
};

struct error {
    enum error_code code;
    enum error_phase phase;
    char field[ERROR_FIELD_MAX]; /* JSON pointer of the offending request field, or "" */
    char detail[ERROR_DETAIL_MAX];
    struct error_cause causes[ERROR_CAUSES_MAX];
    int cause_count;
};

#define ERROR_INIT                                                                                 \
    {                                                                                              \
        .code = ERROR_NONE                                                                         \
    }

/* Sets code and detail (cut at the buffer, always valid UTF-8) and resets all the rest; arguments
 * may point into `err`; returns -1 for `return error_set(…)`. */
int error_set(struct error *err, enum error_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* As error_set, with ": <strerror(errnum)>" appended; ENOSPC and EDQUOT become ERROR_STORAGE_FULL
 * when `code` is ERROR_INTERNAL; EMFILE and ENFILE become ERROR_OVERLOADED when it is that or
 * ERROR_RUNTIME. */
/* "No such file or directory", for details; never NULL. Any thread. */
const char *error_errno_text(int errnum);
int error_set_errno(struct error *err, enum error_code code, int errnum, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* As error_set, naming the request field by JSON pointer. */
int error_set_field(struct error *err, enum error_code code, const char *field, const char *fmt,
                    ...) PRINTF_LIKE(4, 5);

/* Sets the phase unless one is set already; returns -1. */
int error_in_phase(struct error *err, enum error_phase phase);

/* Appends `cause` (its code, detail and own causes) to the causes of `err`, as far as there is
 * room. */
void error_add_cause(struct error *err, const struct error *cause);

void error_clear(struct error *err);

#ifdef __clang_analyzer__
/* The analyzer reads one file at a time and can't know that these return -1. */
#define error_set(...) ((error_set)(__VA_ARGS__), -1)
#define error_set_errno(...) ((error_set_errno)(__VA_ARGS__), -1)
#define error_set_field(...) ((error_set_field)(__VA_ARGS__), -1)
#define error_in_phase(...) ((error_in_phase)(__VA_ARGS__), -1)
#endif

/* The text on the wire, e.g. "EXECUTION_TIMEOUT"; static. */
const char *error_code_name(enum error_code code);
/* The code whose text this is, or ERROR_INTERNAL when there is none. */
enum error_code error_code_from_name(const char *name);
/* "create", …; NULL for PHASE_NONE; static. */
const char *error_phase_name(enum error_phase phase);

#endif
