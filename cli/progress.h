/* A bar on standard error for what takes long, where that is a terminal; silent for the first half
 * second and where nothing is to be seen. Owns nothing; one thread at a time. */
#ifndef EXECHOST_CLI_PROGRESS_H
#define EXECHOST_CLI_PROGRESS_H

#include "base/macros.h"

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* borrowed */
    bool enabled;
    bool shown;
    int64_t started_ms;
    int64_t shown_ms;
};

void progress_init(struct progress *progress, const char *what);
/* `total` 0: unknown. May be called as often as one likes. */
void progress_show(struct progress *progress, int64_t done, int64_t total);
/* Whether progress_show would show something now: for what has to be asked for first. */
bool progress_is_due(const struct progress *progress) WARN_UNUSED;
/* Takes the bar away. */
void progress_end(struct progress *progress);

/* "12.3 MiB", into `out`. */
enum { PROGRESS_SIZE_TEXT = 24 };
void progress_size_text(int64_t bytes, char out[PROGRESS_SIZE_TEXT]);
/* The line of a bar, into `out`; the whole of it is at most 79 columns for a short `what`. */
enum { PROGRESS_LINE = 256 };
void progress_line(const char *what, int64_t done, int64_t total, int64_t elapsed_ms,
                   char out[PROGRESS_LINE]);

#endif
