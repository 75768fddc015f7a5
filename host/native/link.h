/* The links to shims: one connection for each execution that this service holds, all served by one
 * thread, which hands out what comes: replies to whoever waits, output and ends to the commands'
 * events. Links are reference counted; the table holds one until the shim is gone.
 *
 * Any thread; link_request blocks, link_exec and link_resume do not. */
#ifndef EXECHOST_HOST_NATIVE_LINK_H
#define EXECHOST_HOST_NATIVE_LINK_H

#include "host/host.h"
#include "host/native/protocol.h"

#include <sys/queue.h>

struct link;
struct links;

/* Tells the observer of executions that ended; `run_fd` (borrowed) is where their directories are.
 */
int links_new(int run_fd, const struct host_observer *observer, struct links **out,
              struct error *err) WARN_UNUSED;
/* Ends the thread; commands under way are told that they are let go. */
void links_stop(struct links *l);
void links_free(struct links *l); /* NULL is fine */

/* A connection just made. */
struct link_start {
    int fd;      /* taken */
    pid_t child; /* the shim as a child of this process, or 0 */
    struct shim_event greeting;
};
/* Puts it into the table under `key` and serves it. `environment` (taken): what every command gets.
 * Returns a reference of the caller's. */
int link_add(struct links *l, const char *key, struct link_start *start, char **environment,
             struct link **out, struct error *err) WARN_UNUSED;
/* Connects to the shim of an execution's directory. ERROR_RUNTIME: there is none, or it is being
 * started. */
int link_connect(struct links *l, const char *key, struct link_start *out,
                 struct error *err) WARN_UNUSED;
/* While a shim is started nobody else may connect to it: it takes the newest connection for the
 * service's. `claim` (borrowed until released) is the caller's. */
struct link_claim {
    const char *key;
    LIST_ENTRY(link_claim) entry;
};
void link_claim(struct links *l, struct link_claim *claim);
void link_release(struct links *l, struct link_claim *claim);

struct link *link_find(struct links *l, const char *key); /* returns owned, or NULL */
struct link *link_ref(struct link *k);
void link_unref(struct link *k); /* NULL is fine */
static inline void link_unrefp(struct link **k)
{
    link_unref(*k);
}
#define _cleanup_link_ _cleanup_(link_unrefp)

/* From now on its end is told to the observer. False: it has ended already. */
bool link_publish(struct link *k);
void link_withdraw(struct link *k);
bool link_alive(struct link *k);  /* process 1 runs, as far as is known */
bool link_frozen(struct link *k); /* as it was when the connection was made */
char *const *link_environment(const struct link *k);
pid_t link_pid(const struct link *k); /* the shim's */

/* Sends a request with descriptors (borrowed) and waits for its reply; `reply` may be NULL. The
 * shim's refusal is a success with errnum set. ERROR_RUNTIME: the shim is gone or does not answer.
 */
struct link_call {
    struct shim_request request;
    const int *fds;
    size_t fd_count;
    int timeout_ms;
};
int link_request(struct link *k, const struct link_call *call, struct shim_event *reply,
                 struct error *err) WARN_UNUSED;
/* Waits until the shim has closed the connection and, where it is a child, has been reaped. */
int link_wait_gone(struct link *k, int timeout_ms, struct error *err) WARN_UNUSED;

/* What a command is about, for its result's texts; copied. */
struct link_command {
    const char *id;
    const char *name; /* argv[0] */
    const char *cwd;
    struct host_exec_events events;
    int64_t skip[2]; /* bytes of stdout and stderr that are known already */
};
/* Sends `request` (SHIM_EXEC or SHIM_RESUME); from success on `events.finished` will come. */
int link_command(struct link *k, const struct link_command *command, const struct link_call *call,
                 struct error *err) WARN_UNUSED;

/* How a helper ended: SHIM_HELPED of that serial; 0 and the wait status, -1: not known in time. */
int link_helper_status(struct link *k, uint32_t serial, int timeout_ms) WARN_UNUSED;

#endif
