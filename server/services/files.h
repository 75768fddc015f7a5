/* Files and archives of living executions. They take no place in the lane: they work beside the
 * command that runs, a bounded number at a time, and wait (without a worker) while the execution is
 * provisioned or a checkpoint has it to itself. Any thread; nothing here blocks but the work
 * itself, on the worker pool. */
#ifndef EXECHOST_SERVER_SERVICES_FILES_H
#define EXECHOST_SERVER_SERVICES_FILES_H

#include "api/file.h"
#include "server/services/live.h"

#include <jansson.h>

enum file_kind { FILE_LIST, FILE_READ, FILE_WRITE, FILE_REMOVE, FILE_PACK, FILE_UNPACK };

/* What is wanted. All borrowed for the call that takes it; `body_fd` is duplicated. */
struct file_request {
    enum file_kind kind;
    const char *path;
    bool recursive;    /* FILE_REMOVE */
    unsigned mode;     /* FILE_WRITE */
    const char *range; /* FILE_READ: the Range header's value, or NULL: all of it */
    int body_fd;       /* FILE_WRITE, FILE_UNPACK */
    int64_t body_size;
    int64_t fencing_token; /* it came with; -1: none */
    const struct quotas *quotas;
};

/* What came of it. */
struct file_result {
    json_t *items;     /* FILE_LIST: owned array */
    int fd;            /* FILE_READ, FILE_PACK: owned; a nameless file, else -1 */
    int64_t file_size; /* of the whole file; known to be told of a range outside of it, too */
    bool part;         /* only `length` bytes from `first` on are there, at that offset */
    int64_t first;
    int64_t length;
};

/* One call under way. Reference counted. */
struct file_call;
/* Returns owned. ERROR_RESOURCE_LIMIT for content larger than the disk, ERROR_OVERLOADED when as
 * many wait in the execution as may, ERROR_QUOTA_EXCEEDED in all of the tenant's; the end of the
 * execution as ending_error. */
int files_start(struct live_execution *x, const struct file_request *request,
                struct file_call **out, struct error *err) WARN_UNUSED;
void file_call_unref(struct file_call *call); /* NULL is fine */
/* Notified when it is over. Borrowed. */
const char *file_call_topic(const struct file_call *call);
bool file_call_is_over(struct file_call *call);
/* Once it is over; the result (also on failure) is borrowed, and what is taken of it set to none.
 */
int file_call_outcome(struct file_call *call, struct file_result **result,
                      struct error *err) WARN_UNUSED;

/* --- for provision, ending and checkpoints --- */

/* Starts what may start now, and ends what waits where the execution ends. */
void files_go_on(struct live_execution *x);
/* Interrupts the calls that run, for good: the execution ends, or the service. */
void files_interrupt(struct live_execution *x);
/* Lets no call begin from now on and waits (blocks) until none runs: ERROR_TIMEOUT. Always followed
 * by files_thaw. */
int files_freeze(struct live_execution *x, int64_t deadline_mono_ms, struct error *err) WARN_UNUSED;
void files_thaw(struct live_execution *x);
/* Frees what still waits, when nothing runs any more. */
void files_abandon(struct live_execution *x);

#endif
