/* Runs: rows that come back as they went in, their events and keys, their logs on disk. */
#include "store_fixture.h"

#include "store/events.h"
#include "store/retention.h"
#include "store/run_log.h"
#include "store/runs.h"

#include <string.h>

static struct store_run run_row(const char *id)
{
    return (struct store_run){
        .tenant = "t-1",
        .run_id = (char *)id,
        .state = STORE_RUN_STARTING,
        .description = "adds",
        .spec = "{\"program\":\"return 1\"}",
        .requested_at = 1700000000000,
    };
}

static struct store_run insert(struct fixture *f, const char *id)
{
    struct store_run r = run_row(id);
    struct error err = ERROR_INIT;

    assert_ok(store_run_insert(f->store, &r, &err), err);
    return r;
}

static void settle(struct fixture *f, struct store_run *r)
{
    struct error err = ERROR_INIT;

    r->state = STORE_RUN_SETTLED;
    r->started_at = 1700000000010;
    r->completed_at = 1700000000020;
    r->calls_total = 5;
    r->calls_answered = 3;
    r->calls_cancelled = 2;
    r->outcome = "abort";
    r->result_place = 11;
    r->result_bytes = 12;
    r->log_bytes = 40;
    assert_ok(store_run_settle(f->store, r, &err), err);
}

static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct store_run r = insert(f, "r-1");
    struct store_run got = {0};
    struct error err = ERROR_INIT;

    assert_ok(store_run_started(f->store, r.row, 1700000000010, &err), err);
    assert_ok(store_run_get(f->store, "t-1", "r-1", &got, &err), err);
    assert_int_equal(got.state, STORE_RUN_RUNNING);
    assert_int_equal(got.started_at, 1700000000010);
    assert_null(got.outcome);
    store_run_done(&got);
    settle(f, &r);
    assert_ok(store_run_started(f->store, r.row, 1, &err), err); /* too late: nothing happens */
    fixture_reopen(f);
    assert_ok(store_run_get(f->store, "t-1", "r-1", &got, &err), err);
    assert_int_equal(got.state, STORE_RUN_SETTLED);
    assert_text(got.description, "adds");
    assert_text(got.spec, r.spec);
    assert_int_equal(got.started_at, 1700000000010);
    assert_int_equal(got.completed_at, 1700000000020);
    assert_int_equal(got.calls_total, 5);
    assert_int_equal(got.calls_answered, 3);
    assert_int_equal(got.calls_cancelled, 2);
    assert_text(got.outcome, "abort");
    assert_int_equal(got.result_place, 11);
    assert_int_equal(got.result_bytes, 12);
    assert_int_equal(got.log_bytes, 40);
    store_run_done(&got);
}

static void test_ids(void **state)
{
    struct fixture *f = *state;
    struct store_run r = insert(f, "r-1");
    struct store_run other = run_row("r-1");
    struct error err = ERROR_INIT;

    assert_code(store_run_insert(f->store, &other, &err), err, ERROR_ID_IN_USE);
    other.tenant = "t-2";
    assert_ok(store_run_insert(f->store, &other, &err), err);
    assert_code(store_run_get(f->store, "t-1", "none", &other, &err), err, ERROR_PTC_RUN_NOT_FOUND);
    assert_ok(store_run_delete(f->store, r.row, &err), err);
    assert_code(store_run_get(f->store, "t-1", "r-1", &other, &err), err, ERROR_PTC_RUN_NOT_FOUND);
    insert(f, "r-1");
}

static void test_lists(void **state)
{
    struct fixture *f = *state;
    struct store_run a = insert(f, "a");
    struct store_run b = insert(f, "b");
    struct store_page page = {.before = 0, .limit = 1};
    struct store_run_list list = {0};
    struct error err = ERROR_INIT;

    settle(f, &a);
    assert_ok(store_run_list(f->store, "t-1", &page, &list, &err), err);
    assert_int_equal(list.count, 1);
    assert_text(list.items[0].run_id, "b");
    assert_null(list.items[0].spec);
    store_run_list_done(&list);
    page.before = b.row;
    assert_ok(store_run_list(f->store, "t-1", &page, &list, &err), err);
    assert_text(list.items[0].run_id, "a");
    store_run_list_done(&list);
    assert_ok(store_run_list_unfinished(f->store, &list, &err), err);
    assert_int_equal(list.count, 1);
    assert_text(list.items[0].run_id, "b");
    assert_text(list.items[0].spec, b.spec);
    store_run_list_done(&list);
}

static void test_events(void **state)
{
    static const char *const states[] = {"starting", "running", "settled", "deleted"};
    struct fixture *f = *state;
    struct store_run r = insert(f, "r-1");
    struct store_event_list events = {0};
    struct error err = ERROR_INIT;

    assert_ok(store_run_started(f->store, r.row, 1700000000010, &err), err);
    settle(f, &r);
    assert_ok(store_run_delete(f->store, r.row, &err), err);
    assert_ok(store_event_list(f->store, "t-1", 0, 10, &events, &err), err);
    assert_int_equal(events.count, 4);
    for (size_t i = 0; i < events.count; i++) {
        assert_int_equal(events.items[i].seq, i + 1);
        assert_text(events.items[i].type, "run");
        assert_text(events.items[i].run_id, "r-1");
        assert_text(events.items[i].state, states[i]);
        assert_text(events.items[i].reason, i < 2 ? NULL : "abort");
        assert_null(events.items[i].execution_id);
    }
    store_event_list_done(&events);
}

static void test_key(void **state)
{
    struct fixture *f = *state;
    const struct store_idempotency_request request = {"t-1", "k", "d", 1, 1000};
    struct store_idempotency key = {0};
    struct store_run r = run_row("r-1");
    struct error err = ERROR_INIT;
    bool fresh;

    assert_ok(store_idempotency_claim(f->store, &request, &key, &fresh, &err), err);
    assert_true(fresh);
    r.claim = key.row;
    store_idempotency_done(&key);
    assert_ok(store_run_insert(f->store, &r, &err), err);
    assert_ok(store_idempotency_get(f->store, &request, &key, &err), err);
    assert_int_equal(key.resource.kind, STORE_RESOURCE_RUN);
    assert_string_equal(key.resource.id, "r-1");
    assert_int_equal(key.resource.number, r.row);
    store_idempotency_done(&key);
}

static void test_retention(void **state)
{
    struct fixture *f = *state;
    struct store_run a = insert(f, "a");
    struct store_overdue_list list;
    struct error err = ERROR_INIT;

    insert(f, "living");
    settle(f, &a);
    assert_ok(
        store_retention_overdue(f->store, STORE_KEPT_RUNS, 1700000000020, 1 << 20, &list, &err),
        err);
    assert_int_equal(list.count, 0);
    assert_ok(
        store_retention_overdue(f->store, STORE_KEPT_RUNS, 1700000000021, 1 << 20, &list, &err),
        err);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].id, "a");
    assert_string_equal(list.items[0].tenant, "t-1");
    assert_ok(store_retention_overdue(f->store, STORE_KEPT_RUNS, 0, 500, &list, &err), err);
    assert_int_equal(list.count, 1);
}

/* --- logs --- */

static void append(struct store_run_log *log, const char *text)
{
    struct error err = ERROR_INIT;

    assert_ok(store_run_log_append(log, text, strlen(text), &err), err);
}

static void assert_log(const struct store_run_log_name *name, const char *expected)
{
    char data[64] = "";
    struct error err = ERROR_INIT;
    int fd = store_run_log_open(name, &err);
    int64_t got;

    assert_true(fd >= 0);
    got = store_run_log_read(fd, 0, data, sizeof(data) - 1, &err);
    close(fd);
    assert_int_equal(got, strlen(expected));
    assert_string_equal(data, expected);
}

static void test_log(void **state)
{
    struct fixture *f = *state;
    const struct store_run_log_name name = {f->directory, "t-1", "r-1"};
    struct store_run_log *log = NULL;
    struct error err = ERROR_INIT;

    assert_code(store_run_log_open(&name, &err), err, ERROR_NOT_FOUND);
    assert_ok(store_run_log_create(&name, &log, &err), err);
    append(log, "one\n");
    append(log, "two\n");
    assert_int_equal(store_run_log_size(log), 8);
    assert_ok(store_run_log_sync(log, &err), err);
    store_run_log_close(log);
    assert_log(&name, "one\ntwo\n");
    assert_ok(store_run_log_reopen(&name, 4, &log, &err), err);
    append(log, "2\n");
    store_run_log_close(log);
    assert_log(&name, "one\n2\n");
    assert_ok(store_run_log_create(&name, &log, &err), err);
    store_run_log_close(log);
    assert_log(&name, "");
    assert_ok(store_run_log_remove(&name, &err), err);
    assert_ok(store_run_log_remove(&name, &err), err);
    assert_code(store_run_log_open(&name, &err), err, ERROR_NOT_FOUND);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip), TEST(test_ids),       TEST(test_lists), TEST(test_events),
        TEST(test_key),        TEST(test_retention), TEST(test_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
