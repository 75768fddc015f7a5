/* Rows of commands: whole round trips, ids, lists, what is unfinished. */
#include "store_fixture.h"

#include <string.h>

static void assert_same(const struct store_command *a, const struct store_command *b)
{
    assert_int_equal(a->row, b->row);
    assert_int_equal(a->execution_row, b->execution_row);
    assert_text(a->tenant, b->tenant);
    assert_text(a->command_id, b->command_id);
    assert_int_equal(a->state, b->state);
    assert_text(a->command, b->command);
    assert_text(a->args, b->args);
    assert_text(a->cwd, b->cwd);
    assert_text(a->environment, b->environment);
    assert_int_equal(a->timeout_ms, b->timeout_ms);
    assert_int_equal(a->queued_at, b->queued_at);
    assert_int_equal(a->started_at, b->started_at);
    assert_int_equal(a->completed_at, b->completed_at);
    assert_int_equal(a->exit_code, b->exit_code);
    assert_text(a->signal, b->signal);
    assert_int_equal(a->stdout_bytes, b->stdout_bytes);
    assert_int_equal(a->stderr_bytes, b->stderr_bytes);
    assert_int_equal(a->truncated, b->truncated);
    assert_int_equal(a->usage_cpu_ms, b->usage_cpu_ms);
    assert_int_equal(a->usage_memory_peak_bytes, b->usage_memory_peak_bytes);
    assert_int_equal(a->usage_wall_ms, b->usage_wall_ms);
    assert_text(a->termination_reason, b->termination_reason);
    assert_text(a->termination_code, b->termination_code);
    assert_text(a->termination_detail, b->termination_detail);
    assert_text(a->termination_checkpoint_id, b->termination_checkpoint_id);
}

static struct store_execution insert_execution(struct store *s, const char *id)
{
    struct store_execution e = execution_row(id);
    struct error err = ERROR_INIT;

    assert_ok(store_execution_insert(s, &e, &err), err);
    return e;
}

static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e = insert_execution(f->store, "e-1");
    struct store_command c = command_row(e.row, "c-1");
    struct store_command got;

    assert_ok(store_command_insert(f->store, &c, &err), err);
    assert_ok(store_command_get(f->store, e.row, "c-1", &got, &err), err);
    assert_same(&got, &c);
    assert_string_equal(got.execution_id, "e-1");
    assert_int_equal(got.incarnation, 1);
    store_command_done(&got);
    assert_null(got.execution_id);
    c.state = STORE_COMMAND_FAILED;
    c.started_at = 2100;
    c.completed_at = 2200;
    c.exit_code = 0;
    c.signal = "SIGKILL";
    c.stdout_bytes = 5;
    c.stderr_bytes = INT64_C(5000000000);
    c.truncated = true;
    c.usage_cpu_ms = 1;
    c.usage_memory_peak_bytes = 0;
    c.usage_wall_ms = 100;
    c.termination_reason = "timeout";
    c.termination_code = "EXECUTION_TIMEOUT";
    c.termination_detail = "over";
    c.termination_checkpoint_id = "cp-1";
    assert_ok(store_command_update(f->store, &c, &err), err);
    fixture_reopen(f);
    assert_ok(store_command_get(f->store, e.row, "c-1", &got, &err), err);
    assert_same(&got, &c);
    store_command_done(&got);
}

static void test_ids(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e1 = insert_execution(f->store, "e-1");
    struct store_execution e2 = insert_execution(f->store, "e-2");
    struct store_command c = command_row(e1.row, "c-1");
    struct store_command again = command_row(e2.row, "c-1");
    struct store_command got;

    assert_ok(store_command_insert(f->store, &c, &err), err);
    assert_code(store_command_insert(f->store, &again, &err), err, ERROR_ID_IN_USE);
    assert_code(store_command_get(f->store, e2.row, "c-1", &got, &err), err,
                ERROR_COMMAND_NOT_FOUND);
    assert_code(store_command_get(f->store, e1.row, "c-2", &got, &err), err,
                ERROR_COMMAND_NOT_FOUND);
    again.command_id = "c-2";
    again.execution_row = 4711;
    assert_code(store_command_insert(f->store, &again, &err), err, ERROR_INTERNAL);
    again.execution_row = e2.row;
    again.tenant = "other";
    assert_code(store_command_insert(f->store, &again, &err), err, ERROR_INTERNAL);
    again.tenant = "default";
    again.state = (enum store_command_state)7;
    assert_code(store_command_insert(f->store, &again, &err), err, ERROR_INTERNAL);
    again = command_row(e2.row, "c-2");
    again.row = 4711;
    assert_code(store_command_update(f->store, &again, &err), err, ERROR_INTERNAL);
}

static void test_taken_back(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e = insert_execution(f->store, "e-1");
    struct store_command kept = command_row(e.row, "c-1");
    struct store_command gone = command_row(e.row, "c-2");
    struct store_command got;

    assert_ok(store_command_insert(f->store, &kept, &err), err);
    assert_ok(store_command_insert(f->store, &gone, &err), err);
    assert_ok(store_command_delete(f->store, gone.row, &err), err);
    assert_code(store_command_get(f->store, e.row, "c-2", &got, &err), err,
                ERROR_COMMAND_NOT_FOUND);
    assert_ok(store_command_get(f->store, e.row, "c-1", &got, &err), err);
    assert_same(&got, &kept);
    store_command_done(&got);
    assert_code(store_command_update(f->store, &gone, &err), err, ERROR_INTERNAL);
    assert_ok(store_command_delete(f->store, gone.row, &err), err);
    /* Its id is free again, its number is not. */
    struct store_command again = command_row(e.row, "c-2");
    assert_ok(store_command_insert(f->store, &again, &err), err);
    assert_true(again.row > gone.row);
}

static void test_lists(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e1 = insert_execution(f->store, "e-1");
    struct store_execution e2 = insert_execution(f->store, "e-2");
    struct store_command_list list;
    struct store_page page = {0, 2};

    for (int i = 0; i < 6; i++) {
        char id[24];
        struct store_command c;

        snprintf(id, sizeof(id), "c-%d", i);
        c = command_row(i % 2 == 0 ? e1.row : e2.row, id);
        c.state = (enum store_command_state)(i % 4);
        assert_ok(store_command_insert(f->store, &c, &err), err);
    }
    assert_ok(store_command_list(f->store, e1.row, &page, &list, &err), err);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].command_id, "c-4");
    assert_string_equal(list.items[1].command_id, "c-2");
    page.before = list.items[1].row;
    store_command_list_done(&list);
    assert_ok(store_command_list(f->store, e1.row, &page, &list, &err), err);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].command_id, "c-0");
    assert_string_equal(list.items[0].execution_id, "e-1");
    store_command_list_done(&list);
    assert_ok(store_command_list_unfinished(f->store, &list, &err), err);
    assert_int_equal(list.count, 4);
    assert_string_equal(list.items[0].command_id, "c-0");
    assert_string_equal(list.items[1].command_id, "c-1");
    assert_string_equal(list.items[2].command_id, "c-4");
    assert_string_equal(list.items[3].command_id, "c-5");
    assert_string_equal(list.items[3].execution_id, "e-2");
    store_command_list_done(&list);
    assert_null(list.items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_ids, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_taken_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lists, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
