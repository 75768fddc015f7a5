/* Who waits for what: names of things ("execution/<tenant>/<id>", "command/…") and the callbacks to
 * run once when one changes. Any thread. Callbacks run on the notifier's thread, with no lock held
 * that the notifier could need, and must not block. */
#ifndef EXECHOST_SERVER_HTTP_TOPICS_H
#define EXECHOST_SERVER_HTTP_TOPICS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct topics;
struct topic_waiter {
    struct topic_waiter *next, *prev;
    void (*wake)(struct topic_waiter *w);
    uint64_t bucket;
    char name[160];
    bool listed;
};

int topics_new(struct topics **out, struct error *err) WARN_UNUSED;
void topics_free(struct topics *t);
/* `w` is embedded by the caller and must stay until it was woken or topics_leave returned. */
void topics_join(struct topics *t, const char *name, struct topic_waiter *w);
/* True when it was still waiting (and will not be woken); false when woken already or being woken.
 */
bool topics_leave(struct topics *t, struct topic_waiter *w);
/* Wakes all who wait for `name`, each once. */
void topics_notify(struct topics *t, const char *name);

#endif
