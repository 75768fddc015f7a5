/* What a run puts out, counted exactly: the JSON bytes of its log array and of its value or failure
 * message. Owns the log; one thread at a time. */
#ifndef EXECHOST_PTC_LEDGER_H
#define EXECHOST_PTC_LEDGER_H

#include "ptc/json.h"

#include <stdint.h>

struct ptc_ledger {
    struct buf logs; /* "[" and the entries so far */
    size_t count;
    size_t max;
    struct buf last; /* the entry that did not fit, as far as a prefix of it may */
    bool over;
};

/* `max` is 4 at least. */
void ptc_ledger_init(struct ptc_ledger *l, int64_t max);
void ptc_ledger_done(struct ptc_ledger *l);
/* `entry` is a JSON string. -1: it did not fit; nothing fits from then on. */
int ptc_ledger_log(struct ptc_ledger *l, struct ptc_text entry) WARN_UNUSED;
/* Whether a value or message of that many bytes fits beside the log. */
bool ptc_ledger_fits(const struct ptc_ledger *l, size_t len);
/* Bytes of the log array as it stands. */
size_t ptc_ledger_size(const struct ptc_ledger *l);
/* Ends the log: the array's text, borrowed. */
struct ptc_text ptc_ledger_close(struct ptc_ledger *l);
/* Ends it after an overflow: puts the message (JSON) into `message`, cut where even it does not
 * fit, and leaves of the log the entries that fit beside it and a prefix of the next one. */
struct ptc_text ptc_ledger_overflow(struct ptc_ledger *l, struct buf *message);

#endif
