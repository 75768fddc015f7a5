/* What the tests of the native host share: a data directory, an image of busybox, a host, plans.
 * Needs root and a static /bin/busybox. */
#ifndef EXECHOST_TESTS_SANDBOX_FIXTURE_H
#define EXECHOST_TESTS_SANDBOX_FIXTURE_H

#include "base/buf.h"
#include "host/native/native.h"

#include <pthread.h>

struct fixture {
    struct host *host;
    char directory[64];
    char instance[80];
    char *image; /* pinned reference */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int gone; /* what the observer has told */
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
/* A second service on the same directory, the first one having been let go of. */
void fixture_reopen(struct fixture *f);

struct host_provision_plan fixture_plan(struct fixture *f, const char *execution);
/* Provisions with these limits and returns the handle (owned). */
char *fixture_provision(struct fixture *f, const struct host_provision_plan *plan);
void fixture_terminate(struct fixture *f, const struct host_provision_plan *plan,
                       const char *handle);
/* In how many hierarchies an execution still has a group. */
int fixture_groups(struct fixture *f, const char *handle);

/* A command's course. */
struct run {
    struct fixture *f;
    const struct host_provision_plan *plan;
    const char *handle;
    char id[32];
    struct buf out;
    struct buf err;
    bool finished;
    struct host_exec_result result;
};
void run_init(struct run *r, struct fixture *f, const struct host_provision_plan *plan,
              const char *handle);
void run_done(struct run *r);
void run_start(struct run *r, const char *const *argv);
void run_wait(struct run *r);
struct host_exec_events run_events(struct run *r);
/* Runs a shell command to its end; its exit code, -1 when there is none. */
int run_sh(struct run *r, const char *script);
bool run_wait_output(struct run *r, size_t len, int timeout_ms);

#endif
