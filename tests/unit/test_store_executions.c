/* Rows of executions: whole round trips, ids and incarnations, every combination of filters. */
#include "store_fixture.h"

#include "store/transaction.h"

#include "base/clock.h"

#include <string.h>

static void assert_same(const struct store_execution *a, const struct store_execution *b)
{
    assert_int_equal(a->row, b->row);
    assert_text(a->tenant, b->tenant);
    assert_text(a->execution_id, b->execution_id);
    assert_int_equal(a->incarnation, b->incarnation);
    assert_int_equal(a->state, b->state);
    assert_text(a->host, b->host);
    assert_text(a->handle, b->handle);
    assert_text(a->image, b->image);
    assert_text(a->image_digests, b->image_digests);
    assert_int_equal(a->nano_cpus, b->nano_cpus);
    assert_int_equal(a->memory_bytes, b->memory_bytes);
    assert_int_equal(a->disk_bytes, b->disk_bytes);
    assert_int_equal(a->pids, b->pids);
    assert_int_equal(a->runtime_ms, b->runtime_ms);
    assert_int_equal(a->max_output_bytes, b->max_output_bytes);
    assert_text(a->workspace, b->workspace);
    assert_text(a->environment, b->environment);
    assert_text(a->metadata, b->metadata);
    assert_text(a->labels, b->labels);
    assert_text(a->warnings, b->warnings);
    assert_text(a->owner_id, b->owner_id);
    assert_int_equal(a->fencing_token, b->fencing_token);
    assert_text(a->restored_from, b->restored_from);
    assert_int_equal(a->requested_at, b->requested_at);
    assert_int_equal(a->created_at, b->created_at);
    assert_int_equal(a->expires_at, b->expires_at);
    assert_int_equal(a->terminated_at, b->terminated_at);
    assert_int_equal(a->usage_cpu_ms, b->usage_cpu_ms);
    assert_int_equal(a->usage_memory_peak_bytes, b->usage_memory_peak_bytes);
    assert_int_equal(a->usage_pids_peak, b->usage_pids_peak);
    assert_int_equal(a->usage_workspace_bytes, b->usage_workspace_bytes);
    assert_text(a->termination_reason, b->termination_reason);
    assert_text(a->termination_code, b->termination_code);
    assert_text(a->termination_detail, b->termination_detail);
    assert_int_equal(a->termination_at, b->termination_at);
    assert_int_equal(a->leftover, b->leftover);
}

static void assert_stored(struct store *s, const struct store_execution *e)
{
    struct error err = ERROR_INIT;
    struct store_execution got;

    assert_ok(store_execution_get(s, e->tenant, e->execution_id, e->incarnation, &got, &err), err);
    assert_same(&got, e);
    store_execution_done(&got);
    assert_null(got.tenant);
}

static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("e-1");

    assert_ok(store_execution_insert(f->store, &e, &err), err);
    assert_true(e.row > 0);
    assert_int_equal(e.incarnation, 1);
    assert_stored(f->store, &e);
    e.state = STORE_TERMINATED;
    e.handle = "0123";
    e.image_digests = "[\"sha256:1\"]";
    e.workspace = "{\"repositoryPath\":\"/r\"}";
    e.environment = "{}";
    e.metadata = NULL;
    e.labels = "{\"new\":\"label\"}";
    e.warnings = "[\"DISK_EXCEEDS_MEMORY\"]";
    e.owner_id = NULL;
    e.fencing_token = 8;
    e.restored_from = NULL;
    e.created_at = 1100;
    e.expires_at = 61100;
    e.terminated_at = 5000;
    e.usage_cpu_ms = 0;
    e.usage_memory_peak_bytes = 1 << 30;
    e.usage_pids_peak = 3;
    e.usage_workspace_bytes = 99;
    e.termination_reason = "client";
    e.termination_code = "EXECUTION_TIMEOUT";
    e.termination_detail = "it's over; \"quoted\" \xc3\xa9";
    e.termination_at = 4999;
    e.leftover = true;
    assert_ok(store_execution_update(f->store, &e, &err), err);
    assert_stored(f->store, &e);
    fixture_reopen(f);
    assert_stored(f->store, &e);
}

static void test_copies_are_of_their_own(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("e-1");
    struct store_execution copy;

    e.row = 5;
    e.state = STORE_PROVISIONED;
    e.handle = strdup("0123");
    e.owner_id = NULL;
    e.termination_reason = strdup("terminated");
    e.leftover = true;
    assert_non_null(e.handle);
    assert_non_null(e.termination_reason);
    assert_ok(store_execution_copy(&copy, &e, &err), err);
    assert_same(&copy, &e);
    assert_ptr_not_equal(copy.handle, e.handle);
    assert_ptr_not_equal(copy.tenant, e.tenant);
    assert_null(copy.owner_id);
    e.handle[0] = 'x';
    free(e.handle);
    free(e.termination_reason);
    assert_string_equal(copy.handle, "0123");
    assert_string_equal(copy.termination_reason, "terminated");
    store_execution_done(&copy);
    assert_null(copy.handle);
}

static void test_ids_and_incarnations(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("e-1");
    struct store_execution again = execution_row("e-1");
    struct store_execution other = execution_row("e-1");
    struct store_execution got;
    int64_t row = 0;
    static const enum store_execution_state LIVE[] = {STORE_PROVISIONING, STORE_PROVISIONED,
                                                      STORE_TERMINATING};

    other.tenant = "other";
    assert_ok(store_execution_insert(f->store, &e, &err), err);
    assert_ok(store_execution_insert(f->store, &other, &err), err);
    assert_int_equal(other.incarnation, 1);
    for (size_t i = 0; i < ARRAY_SIZE(LIVE); i++) {
        e.state = LIVE[i];
        assert_ok(store_execution_update(f->store, &e, &err), err);
        assert_code(store_execution_insert(f->store, &again, &err), err, ERROR_ALREADY_EXISTS);
        assert_int_equal(again.row, 0);
    }
    error_clear(&err);
    e.state = STORE_FAILED;
    e.leftover = true;
    assert_ok(store_execution_update(f->store, &e, &err), err);
    assert_code(store_execution_insert(f->store, &again, &err), err, ERROR_ALREADY_EXISTS);
    error_clear(&err);
    e.leftover = false;
    assert_ok(store_execution_update(f->store, &e, &err), err);
    assert_ok(store_execution_insert(f->store, &again, &err), err);
    assert_int_equal(again.incarnation, 2);
    assert_true(again.row > e.row);
    assert_ok(store_execution_get(f->store, "default", "e-1", 0, &got, &err), err);
    assert_same(&got, &again);
    store_execution_done(&got);
    assert_stored(f->store, &e);
    assert_ok(store_execution_row(f->store, "default", "e-1", 0, &row, &err), err);
    assert_int_equal(row, again.row);
    assert_ok(store_execution_row(f->store, "default", "e-1", 1, &row, &err), err);
    assert_int_equal(row, e.row);
    assert_code(store_execution_row(f->store, "default", "e-1", 3, &row, &err), err,
                ERROR_NOT_FOUND);
    assert_int_equal(row, e.row);
    assert_code(store_execution_get(f->store, "default", "e-1", 3, &got, &err), err,
                ERROR_NOT_FOUND);
    assert_code(store_execution_get(f->store, "default", "e-2", 0, &got, &err), err,
                ERROR_NOT_FOUND);
    assert_code(store_execution_get(f->store, "third", "e-1", 0, &got, &err), err, ERROR_NOT_FOUND);
}

static void test_bad_rows_are_refused(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("e-1");

    e.state = (enum store_execution_state)9;
    assert_code(store_execution_insert(f->store, &e, &err), err, ERROR_INTERNAL);
    e = execution_row("e-1");
    e.labels = "{not json";
    assert_code(store_execution_insert(f->store, &e, &err), err, ERROR_INTERNAL);
    e = execution_row("e-1");
    e.row = 4711;
    assert_code(store_execution_update(f->store, &e, &err), err, ERROR_INTERNAL);
    error_clear(&err);
    assert_ok(store_execution_insert(f->store, &e, &err), err);
    assert_int_equal(e.incarnation, 1);
}

/* --- lists --- */

enum { ROWS = 120, PAGE = 7 };

static char *const HOSTS[] = {"docker", "native"};
static char *const OWNERS[] = {NULL, "o-1", "o-2"};
static char *const LABELS[] = {NULL, "{\"k\":\"v\"}", "{\"k\":\"w\",\"l\":\"v\"}"};
static char *const TENANTS[] = {"default", "other"};

static struct store_execution varied_row(int i, char *id)
{
    struct store_execution e = execution_row(id);

    snprintf(id, 24, "e-%d", i);
    e.tenant = TENANTS[i % 7 == 0];
    e.state = (enum store_execution_state)(i % 5);
    e.host = HOSTS[i / 5 % 2];
    e.owner_id = OWNERS[i % 3];
    e.labels = LABELS[i / 3 % 3];
    e.leftover = i % 11 == 0;
    return e;
}

static bool is_live(const struct store_execution *e)
{
    return e->state <= STORE_TERMINATING || e->leftover;
}

static bool matches(const struct store_execution_filter *f, const struct store_execution *e)
{
    char label[64];

    snprintf(label, sizeof(label), "\"%s\":\"%s\"", f->label_key, f->label_value);
    return (f->tenant == NULL || strcmp(f->tenant, e->tenant) == 0) &&
           (f->state < 0 || (int)e->state == f->state) &&
           (f->host == NULL || strcmp(f->host, e->host) == 0) &&
           (f->owner_id == NULL ||
            (e->owner_id != NULL && strcmp(f->owner_id, e->owner_id) == 0)) &&
           (f->label_key == NULL || (e->labels != NULL && strstr(e->labels, label) != NULL)) &&
           (!f->live_only || is_live(e));
}

/* Pages through one filter and compares with the rows themselves, newest first. */
static int check_filter(struct store *s, const struct store_execution_filter *f,
                        const struct store_execution *rows)
{
    struct store_page page = {0, PAGE};
    struct error err = ERROR_INIT;
    int next = ROWS - 1;
    int seen = 0;

    for (;;) {
        struct store_execution_list list;

        assert_ok(store_execution_list(s, f, &page, &list, &err), err);
        for (size_t i = 0; i < list.count; i++) {
            while (next >= 0 && !matches(f, &rows[next])) {
                next--;
            }
            assert_true(next >= 0);
            assert_int_equal(list.items[i].row, rows[next].row);
            assert_string_equal(list.items[i].execution_id, rows[next].execution_id);
            page.before = list.items[i].row;
            next--;
            seen++;
        }
        if (list.count < PAGE) {
            store_execution_list_done(&list);
            break;
        }
        store_execution_list_done(&list);
    }
    while (next >= 0) {
        assert_false(matches(f, &rows[next--]));
    }
    return seen;
}

static void test_every_combination_of_filters(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    static struct store_execution rows[ROWS];
    static char ids[ROWS][24];
    int seen = 0;

    for (int i = 0; i < ROWS; i++) {
        rows[i] = varied_row(i, ids[i]);
        rows[i].execution_id = ids[i];
        assert_ok(store_execution_insert(f->store, &rows[i], &err), err);
    }
    for (unsigned mask = 0; mask < 32; mask++) {
        for (int st = -1; st < 5; st++) {
            struct store_execution_filter filter = {
                .tenant = mask & 1 ? "default" : NULL,
                .state = st,
                .host = mask & 2 ? "native" : NULL,
                .owner_id = mask & 4 ? "o-2" : NULL,
                .label_key = mask & 8 ? "k" : NULL,
                .label_value = mask & 8 ? "v" : NULL,
                .live_only = (mask & 16) != 0,
            };

            seen += check_filter(f->store, &filter, rows);
        }
    }
    assert_true(seen > 32 * 6);
}

static void test_labels_follow_updates(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("e-1");
    struct store_execution_filter filter = {
        .tenant = "default", .state = STORE_TERMINATED, .label_key = "team", .label_value = "blue"};
    struct store_page page = {0, 10};
    struct store_execution_list list;

    assert_ok(store_execution_insert(f->store, &e, &err), err);
    e.state = STORE_TERMINATED;
    assert_ok(store_execution_update(f->store, &e, &err), err);
    assert_ok(store_execution_list(f->store, &filter, &page, &list, &err), err);
    assert_int_equal(list.count, 1);
    store_execution_list_done(&list);
    e.labels = "{\"team\":\"red\"}";
    assert_ok(store_execution_update(f->store, &e, &err), err);
    assert_ok(store_execution_list(f->store, &filter, &page, &list, &err), err);
    assert_int_equal(list.count, 0);
    filter.label_value = "red";
    assert_ok(store_execution_list(f->store, &filter, &page, &list, &err), err);
    assert_int_equal(list.count, 1);
    store_execution_list_done(&list);
    e.labels = NULL;
    assert_ok(store_execution_update(f->store, &e, &err), err);
    assert_ok(store_execution_list(f->store, &filter, &page, &list, &err), err);
    assert_int_equal(list.count, 0);
}

/* --- a hundred thousand ended ones --- */

enum { MANY = 100000 };

static int insert_many(struct sql *s, void *ctx, struct error *err)
{
    (void)ctx;
    if (sql_script(
            s,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
            " INSERT INTO executions (tenant, execution_id, incarnation, host, image, nano_cpus,"
            " memory_bytes, disk_bytes, pids, runtime_ms, max_output_bytes, state, labels, "
            "owner_id,"
            " fencing_token, leftover) SELECT 'default', 'old-' || i, 1, 'docker', 'image', 1, 1, "
            "1,"
            " 1, 1, 1, 'terminated', '{\"k\":\"v\"}', 'o-1', 0, 0 FROM n",
            err) != 0) {
        return -1;
    }
    return sql_script(s,
                      "INSERT INTO execution_labels SELECT tenant, 'k', 'v', row FROM executions"
                      " WHERE execution_id LIKE 'old-%'",
                      err);
}

/* The best of some runs, so that other load on the machine does not decide. */
static int64_t list_us(struct store *s, const struct store_execution_filter *filter)
{
    int64_t best = INT64_MAX;

    for (int i = 0; i < 20; i++) {
        struct store_page page = {0, 50};
        struct store_execution_list list;
        struct error err = ERROR_INIT;
        int64_t start = clock_mono_us();

        assert_ok(store_execution_list(s, filter, &page, &list, &err), err);
        store_execution_list_done(&list);
        best = clock_mono_us() - start < best ? clock_mono_us() - start : best;
    }
    return best;
}

static int64_t insert_us(struct store *s)
{
    int64_t best = INT64_MAX;

    for (int i = 0; i < 20; i++) {
        struct error err = ERROR_INIT;
        char id[24];
        struct store_execution e;
        int64_t start;

        snprintf(id, sizeof(id), "new-%d", i);
        e = execution_row(id);
        start = clock_mono_us();
        assert_ok(store_execution_insert(s, &e, &err), err);
        best = clock_mono_us() - start < best ? clock_mono_us() - start : best;
    }
    return best;
}

/* 0 for the one kind of page that is walked to: rows of a much used label in a state, of a host or
 * of an owner that none of them has. */
static int64_t page_us(struct store *s, unsigned mask, int state)
{
    const char *host = mask & 16 ? "native" : "docker";
    struct store_execution_filter filter = {
        .tenant = "default",
        .state = state,
        .host = mask & 1 ? host : NULL,
        .owner_id = mask & 2 ? "o-1" : NULL,
        .label_key = mask & 4 ? "k" : NULL,
        .label_value = "v",
        .live_only = (mask & 8) != 0,
    };

    if ((mask & 4) != 0 && !filter.live_only && (state == STORE_FAILED || (mask & 17) == 17)) {
        return 0;
    }
    return list_us(s, &filter);
}

static void test_many_ended_rows_slow_nothing(void **state)
{
    static const struct sql_points POINTS = SQL_POINTS("test.many");
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    int64_t worst = 0;

    for (int i = 0; i < 3; i++) {
        char id[24];
        struct store_execution e;

        snprintf(id, sizeof(id), "live-%d", i);
        e = execution_row(id);
        assert_ok(store_execution_insert(f->store, &e, &err), err);
    }
    assert_ok(store_write(f->store, &POINTS, insert_many, NULL, &err), err);
    for (unsigned mask = 0; mask < 32; mask++) {
        for (int st = -1; st < 5; st++) {
            int64_t us = page_us(f->store, mask, st);

            worst = us > worst ? us : worst;
        }
    }
    print_message("slowest page of 50 among %d ended: %ld us\n", MANY, (long)worst);
    /* Walking the table takes a hundred times as long; sanitizers take ten. */
    assert_true(worst < 20000);
    /* The first ones move the large log back into the file. */
    print_message("insert among them: %ld us\n", (long)insert_us(f->store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, fixture_setup, fixture_teardown),
        cmocka_unit_test(test_copies_are_of_their_own),
        cmocka_unit_test_setup_teardown(test_ids_and_incarnations, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bad_rows_are_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_every_combination_of_filters, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_labels_follow_updates, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_many_ended_rows_slow_nothing, fixture_setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
