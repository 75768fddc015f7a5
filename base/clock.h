/* Times. Wall clock as milliseconds since the epoch (what is stored and shown), monotonic
 * milliseconds for deadlines. Any thread. */
#ifndef EXECHOST_BASE_CLOCK_H
#define EXECHOST_BASE_CLOCK_H

#include "base/macros.h"

#include <stdbool.h>
#include <stdint.h>

int64_t clock_wall_ms(void);
int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);

/* Whether the wall clock can be asked how old things are: not for `CLOCK_DOUBT_MS` after it was
 * seen to jump ahead by more than `CLOCK_JUMP_MS`, because it may be wrong. Zero at first; one
 * thread at a time, to be asked again and again. */
enum { CLOCK_JUMP_MS = 60 * 1000, CLOCK_DOUBT_MS = 60 * 60 * 1000 };
struct clock_trust {
    int64_t wall; /* at the last question */
    int64_t mono;
    int64_t doubted_until; /* monotonic */
};
bool clock_trust_ask(struct clock_trust *t, int64_t wall_ms, int64_t mono_ms);

enum { CLOCK_TEXT_SIZE = 32 };

/* RFC 3339 UTC with milliseconds: 2026-11-29T15:00:00.000Z. Years 1970..9999. */
void clock_format(int64_t wall_ms, char out[CLOCK_TEXT_SIZE]);
/* Accepts RFC 3339 with any offset and 0..9 fraction digits; -1 when it is none. */
int clock_parse(const char *text, int64_t *wall_ms) WARN_UNUSED;

#endif
