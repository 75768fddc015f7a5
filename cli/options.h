/* What the verbs' command lines share. Pure but for complaints on standard error; one thread. */
#ifndef EXECHOST_CLI_OPTIONS_H
#define EXECHOST_CLI_OPTIONS_H

#include "base/error.h"

#include <getopt.h>
#include <stdint.h>

enum { CLI_FAULT = 1, CLI_USAGE = 2 };

/* Every verb's table ends with these; 'S' is --server, 'h' is --help. */
#define CLI_COMMON_OPTIONS                                                                         \
    {"server", required_argument, NULL, 'S'}, {"help", no_argument, NULL, 'h'},                    \
    {                                                                                              \
        NULL, 0, NULL, 0                                                                           \
    }

#define CLI_COMMON_HELP                                                                              \
    "  --server ADDRESS    http://HOST:PORT, https://… or unix:PATH; else EXECHOST_SERVER, else\n" \
    "                      http://127.0.0.1:8470. EXECHOST_TOKEN is sent where it is set.\n"

/* "512", "64K", "256M", "4G", "1T" (also with "B" or "iB"): bytes, powers of 1024. */
int cli_parse_size(const char *text, int64_t *out) WARN_UNUSED;
/* "500ms", "30s", "10m", "2h", or seconds without a unit: milliseconds. */
int cli_parse_duration(const char *text, int64_t *out) WARN_UNUSED;
/* "0.5": more than 0. */
int cli_parse_cpus(const char *text, double *out) WARN_UNUSED;
/* "128": 1 or more. */
int cli_parse_count(const char *text, int64_t *out) WARN_UNUSED;

/* "exechost: VERB: …" with the detail of `err` on standard error; returns CLI_FAULT. */
int cli_fail(const char *verb, const struct error *err);
/* "exechost: VERB: …" and where to read more; returns CLI_USAGE. */
int cli_misused(const char *verb, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
