/* How much is stored of each tenant: right with every change of what is counted. */
#include "store_fixture.h"

#include "store/runs.h"
#include "store/stored.h"

static struct store_stored stored(struct fixture *f, const char *tenant)
{
    struct store_stored out;
    struct error err = ERROR_INIT;

    assert_ok(store_stored_bytes(f->store, tenant, &out, &err), err);
    return out;
}

static void put_checkpoint(struct fixture *f, const char *tenant, const char *id, int64_t bytes)
{
    struct store_checkpoint c = checkpoint_row(id);
    struct error err = ERROR_INIT;

    c.tenant = (char *)tenant;
    c.stored_bytes = bytes;
    assert_ok(store_checkpoint_insert(f->store, &c, &err), err);
}

static void test_nothing(void **state)
{
    assert_int_equal(store_stored_total(&(struct store_stored){1, 2, 3, 4}), 10);
    struct store_stored none = stored(*state, "default");
    assert_int_equal(store_stored_total(&none), 0);
    none = stored(*state, NULL);
    assert_int_equal(store_stored_total(&none), 0);
}

static void test_checkpoints(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;

    put_checkpoint(f, "default", "a", 100);
    put_checkpoint(f, "default", "b", 20);
    put_checkpoint(f, "other", "a", 3);
    assert_int_equal(stored(f, "default").checkpoints, 120);
    assert_int_equal(stored(f, "other").checkpoints, 3);
    assert_int_equal(stored(f, NULL).checkpoints, 123);
    assert_ok(store_checkpoint_delete(f->store, "default", "a", &err), err);
    assert_int_equal(stored(f, "default").checkpoints, 20);
    fixture_reopen(f);
    assert_int_equal(stored(f, "default").checkpoints, 20);
}

/* The bound is of all kinds together, and one that is refused changes nothing. */
static void test_bound(void **state)
{
    struct fixture *f = *state;
    struct store_checkpoint c = checkpoint_row("late");
    struct error err = ERROR_INIT;

    put_checkpoint(f, "default", "a", 100);
    c.stored_bytes = 51;
    c.stored_max = 150;
    assert_code(store_checkpoint_insert(f->store, &c, &err), err, ERROR_QUOTA_EXCEEDED);
    assert_int_equal(stored(f, "default").checkpoints, 100);
    c.stored_bytes = 50;
    error_clear(&err);
    assert_ok(store_checkpoint_insert(f->store, &c, &err), err);
    assert_int_equal(stored(f, "default").checkpoints, 150);
}

static void test_commands_and_records(void **state)
{
    struct fixture *f = *state;
    struct store_execution x = execution_row("x");
    struct error err = ERROR_INIT;

    assert_ok(store_execution_insert(f->store, &x, &err), err);
    struct store_command c = command_row(x.row, "c");
    c.transcript_bytes = 0;
    assert_ok(store_command_insert(f->store, &c, &err), err);
    assert_int_equal(stored(f, "default").transcripts, 0);
    c.transcript_bytes = 77;
    assert_ok(store_command_update(f->store, &c, &err), err);
    assert_int_equal(stored(f, "default").transcripts, 77);
    c.transcript_bytes = 70;
    assert_ok(store_command_update(f->store, &c, &err), err);
    assert_int_equal(stored(f, "default").transcripts, 70);
    x.state = STORE_TERMINATED;
    x.leftover = false;
    x.terminated_at = 1;
    assert_ok(store_execution_update(f->store, &x, &err), err);
    assert_true(stored(f, "default").records > 0);
    assert_int_equal(stored(f, NULL).records, stored(f, "default").records);
    assert_ok(store_command_delete(f->store, c.row, &err), err);
    assert_int_equal(stored(f, "default").transcripts, 0);
}

static void test_runs(void **state)
{
    struct fixture *f = *state;
    struct store_run r = {
        .tenant = "default", .run_id = "r", .description = "d", .spec = "{}", .requested_at = 1};
    struct error err = ERROR_INIT;

    assert_ok(store_run_insert(f->store, &r, &err), err);
    assert_int_equal(stored(f, "default").runs, 514);
    assert_ok(store_run_delete(f->store, r.row, &err), err);
    assert_int_equal(stored(f, "default").runs, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing), TEST(test_checkpoints),
        TEST(test_bound),   TEST(test_commands_and_records),
        TEST(test_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
