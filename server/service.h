/* The running service: what it is made of, and its start and end. Owns everything below it. */
#ifndef EXECHOST_SERVER_SERVICE_H
#define EXECHOST_SERVER_SERVICE_H

#include "base/cancel.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/timer.h"
#include "host/host.h"
#include "server/config.h"
#include "server/http/http.h"
#include "server/services/reconcile.h"
#include "store/store.h"

#include <pthread.h>
#include <stdatomic.h>

struct admission;
struct audit;
struct metrics;
struct live;
struct checkpoints;
struct idempotency;
struct runs;
struct sharing;

enum { SERVICE_HOSTS_MAX = 4 };

/* The kinds of work of the pool. What a program inside or a client can make last must not hold up
 * what ends it, nor the work of others. */
enum service_work {
    WORK_REQUESTS,    /* handlers, and what is short */
    WORK_LONG,        /* handlers that read or fetch a lot */
    WORK_PROVISIONS,  /* turns of lanes */
    WORK_COMMANDS,    /* turns of lanes, and the ends of commands */
    WORK_CHECKPOINTS, /* turns of lanes */
    WORK_FILES,       /* calls for files: as long as the program lets the helper inside work */
    WORK_ENDS,        /* ends of executions */
    WORK_LIMIT_ENDS,  /* the same where a checkpoint is made first */
    WORK_SHARES,      /* uploads to the shared store */
    WORK_KINDS,
};
_Static_assert((int)WORK_KINDS <= (int)POOL_KINDS, "the pool has all kinds");

/* A host and what the service knows of it. `lock` guards all but `host` and `name`. */
struct service_host {
    struct service *service;
    struct host *host;
    const char *name;
    pthread_mutex_t lock;
    struct host_status status; /* of the last probe */
    bool reconciled;           /* store and host agree: its executions may be worked with */
    bool reconciling;
    bool reconcile_again; /* asked for while one was under way */
    bool first_done;      /* the reconciliation of this start has run */
    unsigned attempts;    /* failed ones in a row */
};

struct service {
    const struct config *config;
    struct store *store;
    char scratch[4096]; /* <data>/scratch: emptied at each start */
    struct pool *pool;
    struct timers *timers;
    struct topics *topics;
    struct metrics *metrics;
    struct audit *audit;
    struct admission *admission;
    struct live *live;
    struct checkpoints *checkpoints;
    struct idempotency *idempotency;
    struct cancel *stop; /* fired at the end: interrupts what reads a lot */
    struct runs *runs;
    struct sharing *sharing; /* NULL: no shared store is configured */
    struct service_host hosts[SERVICE_HOSTS_MAX];
    unsigned host_count;
    struct http_server *http;
    pthread_mutex_t report_lock;
    struct reconcile_report report;
    struct clock_trust clock_trust; /* of retention, one sweep at a time */
    atomic_bool draining;
};

/* Opens the store, starts the hosts, reconciles what can be reached, then listens. */
int service_start(const struct config *config, struct service **out, struct error *err) WARN_UNUSED;
const char *service_address(const struct service *s);
/* Takes over tokens and quotas of a configuration, reads certificate and key anew and opens the
 * record of mutations anew. What fails is logged and stays as it was. The main thread. */
void service_reload(struct service *s, const struct config *fresh);
/* No new work from now on; returns when running commands have ended or `drainMs` are over. */
void service_drain(struct service *s);
void service_free(struct service *s);

/* The host of that name; NULL name: the default one. ERROR_INVALID_REQUEST (/host) when there is
 * none, ERROR_HOST_UNAVAILABLE when it can't work now. */
int service_host_find(struct service *s, const char *name, struct service_host **out,
                      struct error *err) WARN_UNUSED;
/* ERROR_HOST_UNAVAILABLE unless store and host agree. */
int service_host_ready(struct service_host *h, struct error *err) WARN_UNUSED;
/* What the end of the service has interrupted becomes ERROR_OVERLOADED. */
void service_name_the_stop(const struct service *s, struct error *err);
/* ERROR_OVERLOADED while draining. */
int service_accepts_work(const struct service *s, struct error *err) WARN_UNUSED;

#endif
