/* Commands on the wire. Pure; any thread. */
#ifndef EXECHOST_API_COMMAND_H
#define EXECHOST_API_COMMAND_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    API_ARGS_BYTES_MAX = 128 * 1024, /* of command and args, a NUL counted for each */
    API_ARGS_COUNT_MAX = 4096,
    API_COMMAND_BYTES_MAX = 4096,
    API_INLINE_MAX = 1024 * 1024,             /* of each stream in an answer */
    API_INLINE_READ_MAX = API_INLINE_MAX + 4, /* what the encoder needs to see of a longer stream */
};

static const int64_t API_TIMEOUT_MS_MAX = 86400000;

/* POST /v1/executions/{id}/commands. Borrows from `root` but for the bytes of standard input. The
 * rules of `environment` and `cwd` are policy's. */
struct api_command_create {
    json_t *root;           /* owned */
    const char *command_id; /* NULL when left out; else a valid id */
    const char *command;    /* not empty */
    json_t *args_json;      /* array of strings, or NULL */
    const char **args;      /* owned array of borrowed strings, NULL-ended; without the command */
    size_t arg_count;
    const char *cwd; /* raw, or NULL */
    json_t *environment;
    bool has_stdin;   /* stdin or stdinBase64 given, even empty */
    char *stdin_data; /* owned */
    size_t stdin_len;
    bool stdin_open;    /* more comes later, behind these bytes */
    int64_t timeout_ms; /* -1: none */
    bool on_limit_checkpoint;
    int64_t claim; /* not of the body: the idempotency key it came with, 0: none */
};

int api_command_create_decode(const char *body, size_t len, struct api_command_create *out,
                              struct error *err) WARN_UNUSED;
void api_command_create_done(struct api_command_create *request);

/* A view; borrows everything. Times are wall ms, -1 is null. */
struct api_command {
    const char *command_id;
    const char *execution_id;
    const char *state; /* queued, running, exited, failed */
    const char *command;
    json_t *args;    /* array; NULL is empty */
    const char *cwd; /* NULL or "" is "." */
    int64_t started_at;
    int64_t completed_at;
    int exit_code;      /* -1: null */
    const char *signal; /* "SIGKILL" or NULL */
    int64_t stdout_bytes;
    int64_t stderr_bytes;
    bool truncated;
    int64_t cpu_ms;
    int64_t memory_peak_bytes;
    int64_t wall_ms;
    const char *termination_reason; /* NULL until it ended */
    const char *termination_code;
    const char *termination_detail;
    const char *termination_checkpoint_id;
};

/* Without output, as lists and events show it. Returns owned; NULL when memory is out. */
json_t *api_command_encode(const struct api_command *view);

/* The captured streams from their start. More than API_INLINE_MAX bytes of one are cut on a code
 * point, so give API_INLINE_READ_MAX bytes of a longer one. */
struct api_command_output {
    const char *stdout_data;
    size_t stdout_len;
    const char *stderr_data;
    size_t stderr_len;
};

/* With output: text where both streams are UTF-8 as cut, else base64 for both. */
json_t *api_command_encode_output(const struct api_command *view,
                                  const struct api_command_output *output);

#endif
