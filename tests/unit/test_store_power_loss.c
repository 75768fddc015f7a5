/* Which writes wait for the disk: those that must outlive a power loss, and no others. Syncs are
 * counted where SQLite asks for them, in the VFS. */
#include "store_fixture.h"

#include "base/macros.h"

#include <sqlite3.h>
#include <string.h>

static sqlite3_vfs counting;
static sqlite3_vfs *beneath;
static sqlite3_io_methods methods;
static const sqlite3_io_methods *methods_beneath;
static int log_syncs;

static int count_sync(sqlite3_file *file, int flags)
{
    log_syncs++;
    return methods_beneath->xSync(file, flags);
}

/* Only the log's: the file itself is synced when the log is moved back into it. */
static int open_counted(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    int rc = beneath->xOpen(vfs, name, file, flags, out);

    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_WAL) != 0) {
        methods_beneath = file->pMethods;
        methods = *methods_beneath;
        methods.xSync = count_sync;
        file->pMethods = &methods;
    }
    return rc;
}

static int count_from_now_on(void **state)
{
    (void)state;
    sqlite3_initialize();
    beneath = sqlite3_vfs_find("unix-excl");
    assert_non_null(beneath);
    counting = *beneath;
    counting.xOpen = open_counted;
    assert_int_equal(sqlite3_vfs_unregister(beneath), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_register(&counting, 0), SQLITE_OK);
    return 0;
}

static int setup(void **state)
{
    struct fixture *f;
    struct error err = ERROR_INIT;
    struct store_execution first = execution_row("first");

    if (fixture_setup(state) != 0) {
        return -1;
    }
    f = *state;
    /* The first write after the log was begun syncs its head. */
    assert_ok(store_execution_insert(f->store, &first, &err), err);
    log_syncs = 0;
    return 0;
}

static void test_life_waits_for_no_disk(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution execution = execution_row("x");
    struct store_command command;

    assert_ok(store_execution_insert(f->store, &execution, &err), err);
    command = command_row(execution.row, "c");
    assert_ok(store_command_insert(f->store, &command, &err), err);
    command.state = STORE_COMMAND_EXITED;
    assert_ok(store_command_update(f->store, &command, &err), err);
    execution.state = STORE_TERMINATED;
    assert_ok(store_execution_update(f->store, &execution, &err), err);
    assert_int_equal(log_syncs, 0);
}

static void test_checkpoint_rows_do(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_checkpoint checkpoint = checkpoint_row("kept");
    const struct store_checkpoint_shared shared = {.durability = "failed", .error = "{}"};

    assert_ok(store_checkpoint_insert(f->store, &checkpoint, &err), err);
    assert_int_equal(log_syncs, 1);
    assert_ok(store_checkpoint_set_shared(f->store, checkpoint.tenant, "kept", &shared, &err), err);
    assert_int_equal(log_syncs, 2);
    assert_ok(store_checkpoint_delete(f->store, checkpoint.tenant, "kept", &err), err);
    assert_int_equal(log_syncs, 3);
    assert_code(store_checkpoint_delete(f->store, checkpoint.tenant, "kept", &err), err,
                ERROR_CHECKPOINT_NOT_FOUND);
    assert_int_equal(log_syncs, 3);
}

/* And the next ordinary write is ordinary again, also after one that failed. */
static void test_others_do_not_inherit_it(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution execution = execution_row("x");
    struct store_checkpoint checkpoint = checkpoint_row("kept");

    assert_ok(store_checkpoint_insert(f->store, &checkpoint, &err), err);
    assert_code(store_checkpoint_insert(f->store, &checkpoint, &err), err, ERROR_ID_IN_USE);
    assert_int_equal(log_syncs, 1);
    assert_ok(store_execution_insert(f->store, &execution, &err), err);
    assert_int_equal(log_syncs, 1);
}

static void test_what_has_a_key_does(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    const struct store_idempotency_request request = {
        .tenant = "default", .key = "k", .digest = "d", .now = 1, .expires_at = 1000000};
    struct store_execution execution = execution_row("x");
    struct store_idempotency claim = {0};
    struct store_answer answer = {.status = 201, .type = "application/json", .headers = "{}"};
    bool fresh = false;

    assert_ok(store_idempotency_claim(f->store, &request, &claim, &fresh, &err), err);
    assert_true(fresh);
    assert_int_equal(log_syncs, 0); /* a key under which nothing is made yet says nothing */
    execution.claim = claim.row;
    assert_ok(store_execution_insert(f->store, &execution, &err), err);
    assert_int_equal(log_syncs, 1);
    assert_ok(store_idempotency_answer(f->store, claim.row, &answer, 1000000, &err), err);
    assert_int_equal(log_syncs, 2);
    store_idempotency_done(&claim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life_waits_for_no_disk, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_checkpoint_rows_do, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_others_do_not_inherit_it, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_has_a_key_does, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, count_from_now_on, NULL);
}
