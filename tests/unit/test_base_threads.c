/* Cancel flags, the worker pool and the timers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/timer.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

/* --- cancel --- */

static void *fire(void *arg)
{
    cancel_fire(arg);
    cancel_unref(arg);
    return NULL;
}

static void cancel_wakes_poll_and_stays(void **state)
{
    struct error err = ERROR_INIT;
    struct cancel *c;
    struct pollfd fd = {.events = POLLIN};
    pthread_t thread;

    (void)state;
    assert_int_equal(cancel_new(&c, &err), 0);
    fd.fd = cancel_fd(c);
    assert_false(cancel_fired(c));
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, fire, cancel_ref(c)), 0);
    assert_int_equal(poll(&fd, 1, 10000), 1);
    assert_true(cancel_fired(c));
    cancel_fire(c);
    assert_int_equal(poll(&fd, 1, 0), 1);
    pthread_join(thread, NULL);
    cancel_unref(c);
    cancel_unref(NULL);
    assert_false(cancel_fired(NULL));
    assert_int_equal(cancel_fd(NULL), -1);
}

/* --- pool --- */

struct gate {
    sem_t entered;
    sem_t leave;
    atomic_int done;
};

static void gate_init(struct gate *g)
{
    sem_init(&g->entered, 0, 0);
    sem_init(&g->leave, 0, 0);
    atomic_init(&g->done, 0);
}

static void pass_gate(void *arg)
{
    struct gate *g = arg;

    sem_post(&g->entered);
    while (sem_wait(&g->leave) != 0) {
    }
    atomic_fetch_add(&g->done, 1);
}

static void count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void pool_bounds_its_queue(void **state)
{
    struct error err = ERROR_INIT;
    struct pool *p;
    struct gate g;

    (void)state;
    gate_init(&g);
    assert_int_equal(pool_new(2, 3, &p, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pool_submit(p, pass_gate, &g, &err), 0);
        sem_wait(&g.entered);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pool_submit(p, pass_gate, &g, &err), 0);
    }
    assert_int_equal(pool_load(p), 5);
    assert_int_equal(pool_submit(p, pass_gate, &g, &err), -1);
    assert_int_equal(err.code, ERROR_OVERLOADED);
    pool_submit_always(p, pass_gate, &g);
    assert_int_equal(pool_load(p), 6);
    for (int i = 0; i < 6; i++) {
        sem_post(&g.leave);
    }
    pool_free(p);
    assert_int_equal(atomic_load(&g.done), 6);
    pool_free(NULL);
}

static void pool_runs_everything_before_it_ends(void **state)
{
    struct error err = ERROR_INIT;
    struct pool *p;
    atomic_int counter;

    (void)state;
    atomic_init(&counter, 0);
    assert_int_equal(pool_new(4, 10000, &p, &err), 0);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(pool_submit(p, count, &counter, &err), 0);
    }
    pool_free(p);
    assert_int_equal(atomic_load(&counter), 10000);
}

struct order {
    int next;
    bool wrong;
};

struct turn {
    struct order *order;
    int number;
};

static void take_turn(void *arg)
{
    struct turn *turn = arg;

    if (turn->order->next++ != turn->number) {
        turn->order->wrong = true;
    }
}

static void kinds_do_not_hold_each_other_up(void **state)
{
    const unsigned kinds[POOL_KINDS] = {2, 3};
    struct error err = ERROR_INIT;
    struct pool *p;
    struct gate slow;
    struct gate g;

    (void)state;
    gate_init(&slow);
    gate_init(&g);
    assert_int_equal(pool_new_of_kinds(kinds, 1, &p, &err), 0);
    for (int i = 0; i < 8; i++) {
        pool_submit_kind_always(p, 1, pass_gate, &slow);
    }
    for (int i = 0; i < 3; i++) {
        sem_wait(&slow.entered);
    }
    assert_int_equal(pool_submit_kind(p, 1, pass_gate, &slow, &err), -1);
    assert_int_equal(err.code, ERROR_OVERLOADED);
    /* Both threads of the other kind are there, again and again. */
    for (int round = 0; round < 50; round++) {
        assert_int_equal(pool_submit(p, pass_gate, &g, &err), 0);
        assert_int_equal(pool_submit(p, pass_gate, &g, &err), 0);
        sem_wait(&g.entered);
        sem_wait(&g.entered);
        assert_int_equal(sem_trywait(&slow.entered), -1); /* no more than three run */
        sem_post(&g.leave);
        sem_post(&g.leave);
        while (pool_load(p) > 8) {
            sched_yield();
        }
    }
    for (int i = 0; i < 8; i++) {
        sem_post(&slow.leave);
    }
    pool_free(p);
    assert_int_equal(atomic_load(&slow.done), 8);
    assert_int_equal(atomic_load(&g.done), 100);
}

/* Of eight threads an owner has six, whoever else comes one of the rest, and the places to wait in
 * are shared like that, too. */
static void owners_leave_room_for_each_other(void **state)
{
    const unsigned kinds[POOL_KINDS] = {8};
    struct error err = ERROR_INIT;
    struct pool *p;
    struct gate greedy;
    struct gate modest;
    int taken = 0;

    (void)state;
    gate_init(&greedy);
    gate_init(&modest);
    assert_int_equal(pool_new_of_kinds(kinds, 16, &p, &err), 0);
    while (pool_submit_owned(p, 0, "greedy", pass_gate, &greedy, &err) == 0) {
        taken++;
    }
    assert_int_equal(err.code, ERROR_OVERLOADED);
    assert_in_range(taken, 18, 23); /* of 24 */
    for (int i = 0; i < 6; i++) {
        sem_wait(&greedy.entered);
    }
    for (int round = 0; round < 50; round++) {
        assert_int_equal(pool_submit_owned(p, 0, "modest", pass_gate, &modest, &err), 0);
        sem_wait(&modest.entered);
        assert_int_equal(sem_trywait(&greedy.entered), -1);
        sem_post(&modest.leave);
        while (pool_load(p) > (unsigned)taken) {
            sched_yield();
        }
    }
    for (int i = 0; i < taken; i++) {
        sem_post(&greedy.leave);
    }
    pool_free(p);
    assert_int_equal(atomic_load(&greedy.done), taken);
    assert_int_equal(atomic_load(&modest.done), 50);
}

/* A single thread is for everybody in turn. */
static void owners_take_turns(void **state)
{
    struct error err = ERROR_INIT;
    struct order order = {0};
    struct turn turns[7];
    struct gate g;
    struct pool *p;
    static const int numbers[] = {0, 3, 5, 6, 1, 4, 2}; /* of a a a a, b b, nobody */

    (void)state;
    gate_init(&g);
    assert_int_equal(pool_new(1, 200, &p, &err), 0);
    pool_submit_owned_always(p, 0, "a", pass_gate, &g);
    sem_wait(&g.entered);
    for (int i = 0; i < 7; i++) {
        const char *owner = i < 4 ? "a" : i < 6 ? "b" : NULL;
        turns[i] = (struct turn){.order = &order, .number = numbers[i]};
        pool_submit_owned_always(p, 0, owner, take_turn, &turns[i]);
    }
    sem_post(&g.leave);
    pool_free(p);
    assert_int_equal(order.next, 7);
    assert_false(order.wrong);
}

struct traced {
    sem_t over;
    char id[2][33];
};

static void note_trace(void *arg)
{
    struct traced *t = arg;

    memcpy(t->id[0], log_trace_now().id, sizeof(t->id[0]));
    sem_post(&t->over);
}

static void note_trace_late(void *arg)
{
    struct traced *t = arg;

    memcpy(t->id[1], log_trace_now().id, sizeof(t->id[1]));
    sem_post(&t->over);
}

static void jobs_and_timers_keep_the_trace(void **state)
{
    static const char *const ids[] = {"4bf92f3577b34da6a3ce929d0e0e4736", ""};
    struct error err = ERROR_INIT;
    struct timers *timers;
    struct traced t;
    struct pool *p;

    (void)state;
    sem_init(&t.over, 0, 0);
    assert_int_equal(pool_new(1, 4, &p, &err), 0);
    assert_int_equal(timers_new(&timers, &err), 0);
    for (int i = 0; i < 2; i++) {
        struct log_trace trace = {{0}};
        memcpy(trace.id, ids[i], strlen(ids[i]));
        log_trace_set(trace);
        pool_submit_always(p, note_trace, &t);
        (void)timers_add(timers, clock_mono_ms(), note_trace_late, &t);
        sem_wait(&t.over);
        sem_wait(&t.over);
        assert_string_equal(t.id[0], ids[i]);
        assert_string_equal(t.id[1], ids[i]);
    }
    timers_free(timers);
    pool_free(p);
}

static void pool_of_one_keeps_the_order(void **state)
{
    struct error err = ERROR_INIT;
    struct order order = {0};
    struct turn turns[200];
    struct pool *p;

    (void)state;
    assert_int_equal(pool_new(1, 200, &p, &err), 0);
    for (int i = 0; i < 200; i++) {
        turns[i] = (struct turn){.order = &order, .number = i};
        assert_int_equal(pool_submit(p, take_turn, &turns[i], &err), 0);
    }
    pool_free(p);
    assert_int_equal(order.next, 200);
    assert_false(order.wrong);
}

struct resubmit {
    struct pool *pool;
    atomic_int left;
};

static void submit_again(void *arg)
{
    struct resubmit *r = arg;

    if (atomic_fetch_sub(&r->left, 1) > 1) {
        pool_submit_always(r->pool, submit_again, r);
    }
}

static void jobs_may_submit_jobs_while_the_pool_ends(void **state)
{
    struct error err = ERROR_INIT;
    struct resubmit r;

    (void)state;
    atomic_init(&r.left, 100);
    assert_int_equal(pool_new(3, 1, &r.pool, &err), 0);
    pool_submit_always(r.pool, submit_again, &r);
    pool_free(r.pool);
    assert_int_equal(atomic_load(&r.left), 0);
}

/* --- timers --- */

struct ring {
    sem_t rung;
    atomic_int hits;
    int64_t at[8];
    int order[8];
    int len;
};

struct bell {
    struct ring *ring;
    int number;
};

static void ring_bell(void *arg)
{
    struct bell *bell = arg;
    struct ring *ring = bell->ring;

    ring->order[ring->len] = bell->number;
    ring->at[ring->len++] = clock_mono_ms();
    sem_post(&ring->rung);
}

static void timers_run_in_order_and_not_early(void **state)
{
    static const int DELAYS[] = {60, 20, 40, 0, 20};
    static const int EXPECTED[] = {3, 1, 4, 2, 0};
    struct error err = ERROR_INIT;
    struct ring ring = {0};
    struct bell bells[5];
    struct timers *t;
    int64_t now = clock_mono_ms();

    (void)state;
    sem_init(&ring.rung, 0, 0);
    assert_int_equal(timers_new(&t, &err), 0);
    for (int i = 0; i < 5; i++) {
        bells[i] = (struct bell){.ring = &ring, .number = i};
        /* The two of equal delay get a millisecond between them, so that their order is certain. */
        assert_true(timers_add(t, now + DELAYS[i] + (i == 4 ? 1 : 0), ring_bell, &bells[i]) > 0);
    }
    for (int i = 0; i < 5; i++) {
        while (sem_wait(&ring.rung) != 0) {
        }
    }
    timers_free(t);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ring.order[i], EXPECTED[i]);
        assert_true(ring.at[i] >= now + DELAYS[EXPECTED[i]]);
    }
}

static void cancelled_timers_never_run(void **state)
{
    enum { COUNT = 500 };
    struct error err = ERROR_INIT;
    static uint64_t ids[COUNT];
    atomic_int hits;
    struct timers *t;
    int64_t now;

    (void)state;
    atomic_init(&hits, 0);
    assert_int_equal(timers_new(&t, &err), 0);
    now = clock_mono_ms();
    for (int i = 0; i < COUNT; i++) {
        ids[i] = timers_add(t, now + 100 + i % 7, count, &hits);
    }
    for (int i = 0; i < COUNT; i += 2) {
        assert_true(timers_cancel(t, ids[i]));
        assert_false(timers_cancel(t, ids[i]));
    }
    while (clock_mono_ms() < now + 5000 && atomic_load(&hits) < COUNT / 2) {
        usleep(1000);
    }
    usleep(20000);
    assert_int_equal(atomic_load(&hits), COUNT / 2);
    for (int i = 0; i < COUNT; i++) {
        assert_false(timers_cancel(t, ids[i]));
    }
    assert_false(timers_cancel(t, 0));
    assert_false(timers_cancel(t, UINT64_MAX));
    timers_free(t);
    timers_free(NULL);
}

static void pending_timers_are_dropped_at_the_end(void **state)
{
    struct error err = ERROR_INIT;
    atomic_int hits;
    struct timers *t;

    (void)state;
    atomic_init(&hits, 0);
    assert_int_equal(timers_new(&t, &err), 0);
    timers_add(t, clock_mono_ms() + 3600000, count, &hits);
    timers_free(t);
    assert_int_equal(atomic_load(&hits), 0);
}

struct hammer {
    struct timers *timers;
    atomic_int *hits;
    int cancelled;
};

static void *hammer(void *arg)
{
    struct hammer *h = arg;

    for (int i = 0; i < 500; i++) {
        uint64_t id = timers_add(h->timers, clock_mono_ms() + i % 5, count, h->hits);

        if (i % 3 == 0 && timers_cancel(h->timers, id)) {
            h->cancelled++;
        }
    }
    return NULL;
}

static void timers_from_many_threads_all_run_or_are_cancelled(void **state)
{
    struct error err = ERROR_INIT;
    struct hammer h[4];
    pthread_t threads[4];
    atomic_int hits;
    struct timers *t;
    int cancelled = 0;
    int64_t end = clock_mono_ms() + 20000;

    (void)state;
    atomic_init(&hits, 0);
    assert_int_equal(timers_new(&t, &err), 0);
    for (int i = 0; i < 4; i++) {
        h[i] = (struct hammer){.timers = t, .hits = &hits};
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &h[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cancelled += h[i].cancelled;
    }
    while (clock_mono_ms() < end && atomic_load(&hits) + cancelled < 2000) {
        usleep(1000);
    }
    timers_free(t);
    assert_int_equal(atomic_load(&hits) + cancelled, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_wakes_poll_and_stays),
        cmocka_unit_test(pool_bounds_its_queue),
        cmocka_unit_test(pool_runs_everything_before_it_ends),
        cmocka_unit_test(pool_of_one_keeps_the_order),
        cmocka_unit_test(kinds_do_not_hold_each_other_up),
        cmocka_unit_test(owners_leave_room_for_each_other),
        cmocka_unit_test(owners_take_turns),
        cmocka_unit_test(jobs_and_timers_keep_the_trace),
        cmocka_unit_test(jobs_may_submit_jobs_while_the_pool_ends),
        cmocka_unit_test(timers_run_in_order_and_not_early),
        cmocka_unit_test(cancelled_timers_never_run),
        cmocka_unit_test(pending_timers_are_dropped_at_the_end),
        cmocka_unit_test(timers_from_many_threads_all_run_or_are_cancelled),
    };

    return cmocka_run_group_tests_name("base threads", tests, NULL, NULL);
}
