/* An engine on the real Node and bubblewrap, and a run whose events are collected. */
#ifndef EXECHOST_TESTS_PTC_FIXTURE_H
#define EXECHOST_TESTS_PTC_FIXTURE_H

#include "ptc/ptc.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct ptc_seen {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ptc_run *run; /* set before events are looked at */
    int started;
    int calls;
    int settled;
    int cancelled;
    int results;
    bool echo;       /* answer each call with its argument */
    struct buf log;  /* texts of log entries, JSON, one a line */
    struct buf last; /* "global function argument" of the last call */
    enum ptc_error_kind kind;
    char *logs;
    char *value;
    char *message;
    bool denied;
    enum ptc_enforcement enforcement;
};

extern struct ptc_engine *ptc_engine;
extern char ptc_data[];

void ptc_test_config(struct ptc_engine_config *config);
int ptc_engine_setup(void **state);
int ptc_engine_teardown(void **state);

/* `members` are further members of the request, with a comma in front of each; program is JSON
 * encoded here. */
void ptc_test_spec(const char *program, const char *members, struct ptc_spec *spec);
void ptc_test_start(struct ptc_seen *seen, const char *program, const char *members);
void ptc_test_wait(struct ptc_seen *seen);
void ptc_test_wait_calls(struct ptc_seen *seen, int count);
void ptc_test_wait_started(struct ptc_seen *seen);
void ptc_test_wait_log(struct ptc_seen *seen);
void ptc_test_run(struct ptc_seen *seen, const char *program, const char *members);
void ptc_test_done(struct ptc_seen *seen);

/* Runs and compares: value (JSON), or "kind: part of the message". */
void ptc_assert_value(const char *program, const char *value);
void ptc_assert_fails(const char *program, const char *members, enum ptc_error_kind kind,
                      const char *part);

#endif
