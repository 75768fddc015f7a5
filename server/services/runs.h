/* Runs of programs: the registry of those that live, what they say put on record, their calls
 * answered, their ends recorded. The program itself is ptc's: it knows no store and no tenant.
 *
 * A run's way: in the registry under its id → its row → its log → started by ptc, whose events
 * become lines of the log → its result: a line (durable where an Idempotency-Key names the run),
 * then the row, then it leaves the registry and who waits is told. What the record refuses is tried
 * again until it is taken. Nothing is ever run again: what a run of the service left unfinished,
 * the next one settles.
 *
 * Any thread; what says so blocks. A run is found by tenant and id. */
#ifndef EXECHOST_SERVER_SERVICES_RUNS_H
#define EXECHOST_SERVER_SERVICES_RUNS_H

#include "ptc/ptc.h"
#include "server/service.h"
#include "store/run_log.h"
#include "store/runs.h"

struct runs;

enum { RUNS_TOPIC_SIZE = 160, RUNS_REPLY_MAX = 1024 * 1024 * 1024 };

/* Has a worker look for node and bubblewrap and start the engine; without them each run ends with
 * what is missing. `s` must have store, pool, timers and topics. */
int runs_new(struct service *s, struct runs **out, struct error *err) WARN_UNUSED;
/* Settles what an earlier run of the service left. Blocks on the store. */
int runs_reconcile(struct service *s, struct error *err) WARN_UNUSED;
/* Ends every run that is left as abort with that reason; returns when their ends are on record, or
 * can't be brought there in time. */
void runs_stop(struct service *s, const char *reason);
/* NULL is fine. The pool must have ended. */
void runs_free(struct runs *runs);
unsigned runs_living(struct service *s);
/* Processes that are kept ready. */
int64_t runs_ready(struct service *s);

/* Waits until the machine was looked at; blocks for about a second then. */
enum ptc_enforcement runs_enforcement(struct service *s, const char **reason);
const char *runs_enforcement_name(enum ptc_enforcement enforcement);

/* `request` is a request's body. ERROR_PTC_INVALID_REQUEST. May block shortly. */
int runs_resolve(struct service *s, const char *tenant, bool untimed, json_t *request,
                 struct ptc_spec *out, struct error *err) WARN_UNUSED;
/* Blocks on the store. ERROR_ID_IN_USE, ERROR_OVERLOADED, ERROR_QUOTA_EXCEEDED. `claim`: row of the
 * idempotency key. */
int runs_create(struct service *s, const struct caller *who, const struct ptc_spec *spec,
                int64_t claim, char run_id[ID_SIZE], struct error *err) WARN_UNUSED;

/* Notified when anything of the run changes. */
void runs_topic(char out[RUNS_TOPIC_SIZE], const char *tenant, const char *run_id);

/* Whether its end is on record (also when it is not there). */
bool runs_is_final(struct service *s, const char *tenant, const char *run_id);
/* Whether it has ended and that cannot be recorded, for *err; it is tried again. */
bool runs_is_unrecorded(struct service *s, const char *tenant, const char *run_id,
                        struct error *err);
/* Whether its result is so large that showing it takes long. */
bool runs_is_large(struct service *s, const char *tenant, const char *run_id);
/* Appends the resource as JSON. ERROR_PTC_RUN_NOT_FOUND; ERROR_TRANSCRIPT_GONE while retention
 * takes it away, and where a power loss did. Blocks for reads. */
int runs_view(struct service *s, const char *tenant, const char *run_id, struct buf *out,
              struct error *err) WARN_UNUSED;
/* A row as lists show it. */
json_t *runs_encode_item(struct service *s, const void *item);

/* Asks for its end. *living false: it is over. ERROR_PTC_RUN_NOT_FOUND. */
int runs_abort(struct service *s, const char *tenant, const char *run_id, const char *reason,
               bool *living, struct error *err) WARN_UNUSED;

/* Appends {"items", "nextCursor"} of the calls numbered over `after` that wait for their answers.
 */
int runs_calls(struct service *s, const char *tenant, const char *run_id, int64_t after,
               struct buf *out, struct error *err) WARN_UNUSED;
/* Whether there is such a call, or never will be. */
bool runs_has_calls(struct service *s, const char *tenant, const char *run_id, int64_t after);
/* `body` as the request has it. The same answer again is fine. ERROR_PTC_INVALID_REQUEST,
 * ERROR_PTC_RUN_NOT_FOUND, ERROR_PTC_CALL_NOT_FOUND, ERROR_PTC_CALL_SETTLED, ERROR_PTC_RUN_SETTLED.
 */
int runs_answer(struct service *s, const char *tenant, const char *run_id, const char *call_id,
                struct ptc_text body, struct error *err) WARN_UNUSED;

/* For readers of its events: how many bytes of its log may be shown, and whether that is all there
 * will be. ERROR_PTC_RUN_NOT_FOUND. */
int runs_published(void *service, const char *tenant, const char *run_id, int64_t *bytes, bool *all,
                   struct error *err) WARN_UNUSED;

#endif
