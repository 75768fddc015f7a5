/* Events: one for each change, in its transaction, numbered without gaps for each tenant, bounded,
 * and told to whoever listens. */
#include "store_fixture.h"

#include "store/events.h"
#include "store/transaction.h"

#include <pthread.h>
#include <string.h>

static struct store_event_list list(struct fixture *f, const char *tenant, int64_t after, int limit)
{
    struct store_event_list out = {0};
    struct error err = ERROR_INIT;

    assert_ok(store_event_list(f->store, tenant, after, limit, &out, &err), err);
    return out;
}

static int64_t newest(struct fixture *f, const char *tenant)
{
    int64_t seq = -1;
    struct error err = ERROR_INIT;

    assert_ok(store_event_newest(f->store, tenant, &seq, &err), err);
    return seq;
}

static struct store_execution insert_execution(struct fixture *f, const char *id)
{
    struct store_execution e = execution_row(id);
    struct error err = ERROR_INIT;

    e.state = STORE_PROVISIONING;
    e.expires_at = 0;
    e.termination_reason = NULL;
    e.leftover = false;
    assert_ok(store_execution_insert(f->store, &e, &err), err);
    return e;
}

static void update_execution(struct fixture *f, const struct store_execution *e)
{
    struct error err = ERROR_INIT;

    assert_ok(store_execution_update(f->store, e, &err), err);
}

static void assert_event(const struct store_event *e, int64_t seq, const char *type,
                         const char *state)
{
    assert_int_equal(e->seq, seq);
    assert_string_equal(e->type, type);
    assert_string_equal(e->state, state);
    assert_true(e->at > INT64_C(1600000000000));
}

static void test_execution(void **state)
{
    struct fixture *f = *state;
    struct store_execution e = insert_execution(f, "e-1");
    struct store_event_list events;

    e.state = STORE_PROVISIONED;
    e.expires_at = 1700000001234;
    update_execution(f, &e);
    e.usage_cpu_ms = 4711; /* nothing that a follower is told of */
    update_execution(f, &e);
    e.labels = "{\"team\":\"b\"}";
    update_execution(f, &e);
    e.state = STORE_TERMINATED;
    e.termination_reason = "expired";
    update_execution(f, &e);
    events = list(f, e.tenant, 0, 100);
    assert_int_equal(events.count, 4);
    assert_event(&events.items[0], 1, "execution", "provisioning");
    assert_int_equal(events.items[0].expires_at, 0);
    assert_event(&events.items[1], 2, "execution", "provisioned");
    assert_int_equal(events.items[1].expires_at, 1700000001234);
    assert_event(&events.items[2], 3, "execution", "provisioned");
    assert_event(&events.items[3], 4, "execution", "terminated");
    assert_string_equal(events.items[3].reason, "expired");
    assert_string_equal(events.items[3].execution_id, "e-1");
    assert_string_equal(events.items[3].host, e.host);
    assert_int_equal(events.items[3].incarnation, 1);
    assert_int_equal(events.items[3].exit_code, -1);
    assert_null(events.items[3].command_id);
    store_event_list_done(&events);
    assert_int_equal(newest(f, e.tenant), 4);
    assert_int_equal(newest(f, "nobody"), 0);
}

static void test_command(void **state)
{
    struct fixture *f = *state;
    struct store_execution e = insert_execution(f, "e-1");
    struct store_command c = command_row(e.row, "c-1");
    struct store_command refused = command_row(e.row, "c-2");
    struct store_event_list events;
    struct error err = ERROR_INIT;

    c.tenant = refused.tenant = e.tenant;
    c.state = refused.state = STORE_COMMAND_QUEUED;
    c.exit_code = -1;
    assert_ok(store_command_insert(f->store, &c, &err), err);
    c.state = STORE_COMMAND_EXITED;
    c.exit_code = 7;
    c.termination_reason = "exited";
    assert_ok(store_command_update(f->store, &c, &err), err);
    assert_ok(store_command_update(f->store, &c, &err), err);
    assert_ok(store_command_insert(f->store, &refused, &err), err);
    assert_ok(store_command_delete(f->store, refused.row, &err), err);
    /* One that has ended goes only with its execution, whose event says it. */
    assert_ok(store_command_delete(f->store, c.row, &err), err);
    events = list(f, e.tenant, 1, 100);
    assert_int_equal(events.count, 4);
    assert_event(&events.items[0], 2, "command", "queued");
    assert_string_equal(events.items[0].command_id, "c-1");
    assert_string_equal(events.items[0].execution_id, "e-1");
    assert_event(&events.items[1], 3, "command", "exited");
    assert_int_equal(events.items[1].exit_code, 7);
    assert_string_equal(events.items[1].reason, "exited");
    assert_event(&events.items[2], 4, "command", "queued");
    assert_event(&events.items[3], 5, "command", "deleted");
    assert_string_equal(events.items[3].command_id, "c-2");
    store_event_list_done(&events);
}

static void test_checkpoint(void **state)
{
    struct fixture *f = *state;
    struct store_checkpoint c = checkpoint_row("k-1");
    struct store_event_list events;
    struct error err = ERROR_INIT;

    assert_ok(store_checkpoint_insert(f->store, &c, &err), err);
    assert_ok(store_checkpoint_delete(f->store, c.tenant, "k-1", &err), err);
    events = list(f, c.tenant, 0, 100);
    assert_int_equal(events.count, 2);
    assert_event(&events.items[0], 1, "checkpoint", c.durability);
    assert_string_equal(events.items[0].checkpoint_id, "k-1");
    assert_string_equal(events.items[0].execution_id, c.source_execution_id);
    assert_event(&events.items[1], 2, "checkpoint", "deleted");
    store_event_list_done(&events);
}

static int delete_all(struct sql *s, void *ctx, struct error *err)
{
    (void)ctx;
    return sql_script(s, "DELETE FROM executions", err);
}

static int delete_and_fail(struct sql *s, void *ctx, struct error *err)
{
    return delete_all(s, ctx, err) != 0 ? -1 : error_set(err, ERROR_INTERNAL, "not today");
}

static const struct sql_points POINTS = SQL_POINTS("test");

static void count_told(void *ctx, const char *tenant)
{
    int *told = ctx;

    told[strcmp(tenant, "other") == 0]++;
}

static void test_told_after_commit(void **state)
{
    struct fixture *f = *state;
    struct store_execution e = insert_execution(f, "e-1");
    struct store_command c = command_row(e.row, "c-1");
    struct store_execution other = execution_row("e-2");
    struct store_event_list events;
    struct error err = ERROR_INIT;
    int told[2] = {0};

    store_event_watch(f->store, count_told, told);
    c.tenant = e.tenant;
    assert_ok(store_command_insert(f->store, &c, &err), err);
    other.tenant = "other";
    assert_ok(store_execution_insert(f->store, &other, &err), err);
    assert_int_equal(told[0], 1);
    assert_int_equal(told[1], 1);
    update_execution(f, &e); /* changes nothing */
    assert_code(store_write(f->store, &POINTS, delete_and_fail, NULL, &err), err, ERROR_INTERNAL);
    assert_int_equal(told[0], 1);
    error_clear(&err);
    assert_ok(store_write(f->store, &POINTS, delete_all, NULL, &err), err);
    assert_int_equal(told[0], 2);
    assert_int_equal(told[1], 2);
    events = list(f, e.tenant, 2, 100);
    assert_int_equal(events.count, 1); /* its command went with it, without a word */
    assert_event(&events.items[0], 3, "execution", "deleted");
    store_event_list_done(&events);
    store_event_watch(f->store, NULL, NULL);
}

static int change_often(struct sql *s, void *ctx, struct error *err)
{
    for (int64_t i = 1; i < *(const int64_t *)ctx; i++) {
        if (sql_script(s, "UPDATE executions SET fencing_token = fencing_token + 1", err) != 0) {
            return -1;
        }
    }
    return 0;
}

/* The oldest go, the numbers stay without gaps, and go on after a restart. */
static void test_bound(void **state)
{
    struct fixture *f = *state;
    struct store_execution e = insert_execution(f, "e-1");
    struct store_event_list events;
    struct error err = ERROR_INIT;
    int64_t count = STORE_EVENTS_KEPT + 2 * STORE_EVENTS_SLACK + 10;

    assert_ok(store_write(f->store, &POINTS, change_often, &count, &err), err);
    fixture_reopen(f);
    assert_int_equal(newest(f, e.tenant), count);
    events = list(f, e.tenant, 0, 20000);
    assert_in_range(events.count, STORE_EVENTS_KEPT, STORE_EVENTS_KEPT + STORE_EVENTS_SLACK);
    for (size_t i = 0; i < events.count; i++) {
        assert_int_equal(events.items[i].seq, events.items[0].seq + (int64_t)i);
    }
    assert_int_equal(events.items[events.count - 1].seq, count);
    store_event_list_done(&events);
    e.fencing_token = 1;
    update_execution(f, &e);
    assert_int_equal(newest(f, e.tenant), count + 1);
    events = list(f, e.tenant, count - 1, 1);
    assert_int_equal(events.count, 1);
    assert_int_equal(events.items[0].seq, count);
    store_event_list_done(&events);
}

enum { THREADS = 4, WRITES = 50 };

static void *write_many(void *arg)
{
    struct fixture *f = arg;
    static _Atomic int serial;
    char id[32];

    for (int i = 0; i < WRITES; i++) {
        snprintf(id, sizeof(id), "t-%d", serial++);
        insert_execution(f, id);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[THREADS];
    struct store_event_list events;

    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, f), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    events = list(f, "default", 0, 1000);
    assert_int_equal(events.count, THREADS * WRITES);
    for (size_t i = 0; i < events.count; i++) {
        assert_int_equal(events.items[i].seq, (int64_t)i + 1);
    }
    store_event_list_done(&events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_execution, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_command, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_checkpoint, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_told_after_commit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bound, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_threads, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
