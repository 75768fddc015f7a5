/* What the store's tests share: a directory of their own, an open store, rows with every member
 * set. */
#ifndef EXECHOST_TESTS_STORE_FIXTURE_H
#define EXECHOST_TESTS_STORE_FIXTURE_H

#include "store/checkpoints.h"
#include "store/commands.h"
#include "store/executions.h"
#include "store/idempotency.h"
#include "store/transcript.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct fixture {
    char directory[64];
    struct store *store;
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
/* Closes and opens again. */
void fixture_reopen(struct fixture *f);

/* Borrowed literals: never `_done` these. */
struct store_execution execution_row(const char *id);
struct store_command command_row(int64_t execution_row, const char *id);
struct store_checkpoint checkpoint_row(const char *id);

/* Both the same text, or both NULL. */
void assert_text(const char *a, const char *b);

/* Runs this very program again with EXECHOST_FAULT set, which is read once per process, and with
 * the arguments `role`, `where` and `what`; the wait status. main() hands a run with arguments to
 * the role. */
int run_with_fault(const char *fault, const char *role, const char *where, const char *what);

#define assert_ok(expression, err)                                                                 \
    do {                                                                                           \
        if ((expression) != 0) {                                                                   \
            fail_msg("%s: %s", #expression, (err).detail);                                         \
        }                                                                                          \
    } while (0)
#define assert_code(expression, err, expected)                                                     \
    do {                                                                                           \
        error_clear(&(err));                                                                       \
        assert_int_equal((expression), -1);                                                        \
        assert_int_equal((err).code, expected);                                                    \
    } while (0)

#endif
