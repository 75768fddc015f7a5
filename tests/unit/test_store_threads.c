/* Many threads on one store: one winner per id, readers that never wait for writers. */
#include "store_fixture.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 20, READS = 20000, WRITES = 300 };

struct race {
    struct store *store;
    pthread_barrier_t barrier;
    atomic_int won;
    atomic_int lost;
    atomic_int failed;
    atomic_bool stop;
    atomic_long reads;
};

static void count(struct race *race, int result, enum error_code code, enum error_code expected)
{
    if (result == 0) {
        race->won++;
    } else if (code == expected) {
        race->lost++;
    } else {
        race->failed++;
    }
}

static void *insert_same(void *arg)
{
    struct race *race = arg;

    for (int i = 0; i < ROUNDS; i++) {
        struct error err = ERROR_INIT;
        struct error command_err = ERROR_INIT;
        char id[24];
        struct store_execution e;
        struct store_command c;
        int result;

        snprintf(id, sizeof(id), "e-%d", i);
        e = execution_row(id);
        pthread_barrier_wait(&race->barrier);
        result = store_execution_insert(race->store, &e, &err);
        count(race, result, err.code, ERROR_ALREADY_EXISTS);
        c = command_row(i + 1, id);
        result = store_command_insert(race->store, &c, &command_err);
        count(race, result, command_err.code, ERROR_ID_IN_USE);
    }
    return NULL;
}

static void test_one_wins(void **state)
{
    struct fixture *f = *state;
    struct race race = {.store = f->store};
    pthread_t threads[THREADS];

    pthread_barrier_init(&race.barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, insert_same, &race), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&race.barrier);
    assert_int_equal(race.failed, 0);
    assert_int_equal(race.won, 2 * ROUNDS);
    assert_int_equal(race.lost, 2 * ROUNDS * (THREADS - 1));
}

static void *read_on(void *arg)
{
    struct race *race = arg;
    int64_t seen = 0;

    while (!race->stop) {
        struct error err = ERROR_INIT;
        struct store_execution e;
        struct store_execution_list list;
        struct store_execution_filter filter = {
            .tenant = "default", .state = -1, .live_only = true};
        struct store_page page = {0, 10};

        if (store_execution_get(race->store, "default", "e-1", 0, &e, &err) != 0) {
            race->failed++;
            break;
        }
        /* What was committed stays committed for whoever asks later. */
        race->failed += e.created_at < seen;
        seen = e.created_at;
        store_execution_done(&e);
        race->failed += store_execution_list(race->store, &filter, &page, &list, &err) != 0;
        store_execution_list_done(&list);
        race->reads++;
    }
    return NULL;
}

static void test_readers_during_writes(void **state)
{
    struct fixture *f = *state;
    struct race race = {.store = f->store};
    struct store_execution e = execution_row("e-1");
    struct error err = ERROR_INIT;
    pthread_t threads[THREADS];

    assert_ok(store_execution_insert(f->store, &e, &err), err);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &race), 0);
    }
    for (int i = 0; i < WRITES; i++) {
        struct store_execution got;

        e.created_at = 1000 + i;
        assert_ok(store_execution_update(f->store, &e, &err), err);
        assert_ok(store_execution_get(f->store, "default", "e-1", 0, &got, &err), err);
        assert_int_equal(got.created_at, e.created_at);
        store_execution_done(&got);
    }
    race.stop = true;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(race.failed, 0);
    assert_true(race.reads > 0);
}

static void test_rates(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("e-1");
    int64_t start;
    int64_t us;

    assert_ok(store_execution_insert(f->store, &e, &err), err);
    start = clock_mono_us();
    for (int i = 0; i < READS; i++) {
        assert_ok(store_execution_get(f->store, "default", "e-1", 0, &e, &err), err);
        store_execution_done(&e);
    }
    us = clock_mono_us() - start;
    print_message("get: %.1f us each\n", (double)us / READS);
    start = clock_mono_us();
    for (int i = 0; i < WRITES; i++) {
        char id[24];

        snprintf(id, sizeof(id), "r-%d", i);
        e = execution_row(id);
        assert_ok(store_execution_insert(f->store, &e, &err), err);
    }
    us = clock_mono_us() - start;
    print_message("insert: %.0f us each, durable\n", (double)us / WRITES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_wins, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_readers_during_writes, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rates, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
