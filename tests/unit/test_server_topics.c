#include "server/http/topics.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct counted {
    struct topic_waiter waiter; /* first: wake gets its address */
    atomic_uint woken;
};

static void count_wake(struct topic_waiter *w)
{
    atomic_fetch_add(&((struct counted *)w)->woken, 1);
}

static struct topics *new_topics(void)
{
    struct error err = ERROR_INIT;
    struct topics *t = NULL;

    assert_int_equal(topics_new(&t, &err), 0);
    return t;
}

static void join(struct topics *t, const char *name, struct counted *c)
{
    *c = (struct counted){.waiter = {.wake = count_wake}};
    topics_join(t, name, &c->waiter);
}

static void test_notify_wakes_those_of_the_name_once(void **state)
{
    struct topics *t = new_topics();
    struct counted a;
    struct counted b;
    struct counted other;

    (void)state;
    join(t, "execution/default/a", &a);
    join(t, "execution/default/a", &b);
    join(t, "execution/default/b", &other);
    topics_notify(t, "execution/default/a");
    topics_notify(t, "execution/default/a");
    topics_notify(t, "nobody");
    assert_int_equal(a.woken, 1);
    assert_int_equal(b.woken, 1);
    assert_int_equal(other.woken, 0);
    assert_false(topics_leave(t, &a.waiter));
    assert_true(topics_leave(t, &other.waiter));
    assert_false(topics_leave(t, &other.waiter));
    topics_notify(t, "execution/default/b");
    assert_int_equal(other.woken, 0);
    topics_free(t);
}

static void test_leave_from_any_place_in_the_list(void **state)
{
    struct topics *t = new_topics();
    struct counted waiters[5];
    static const size_t leaving[] = {2, 0, 4};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(waiters); i++) {
        join(t, "x", &waiters[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(leaving); i++) {
        assert_true(topics_leave(t, &waiters[leaving[i]].waiter));
    }
    topics_notify(t, "x");
    assert_int_equal(waiters[1].woken + waiters[3].woken, 2);
    assert_int_equal(waiters[0].woken + waiters[2].woken + waiters[4].woken, 0);
    topics_free(t);
}

static void test_long_names_meet(void **state)
{
    struct topics *t = new_topics();
    char name[400];
    struct counted c;

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    join(t, name, &c);
    topics_notify(t, name);
    assert_int_equal(c.woken, 1);
    topics_free(t);
}

enum { THREADS = 4, ROUNDS = 20000 };

struct race {
    struct topics *topics;
    atomic_bool stop;
    atomic_uint woken;
};

struct racing_waiter {
    struct topic_waiter waiter;
    struct race *race;
};

static void wake_racing(struct topic_waiter *w)
{
    struct racing_waiter *r = (struct racing_waiter *)w;

    atomic_fetch_add(&r->race->woken, 1);
    free(r); /* woken is the end of it */
}

static void *join_and_notify(void *arg)
{
    struct race *race = arg;

    for (int i = 0; i < ROUNDS; i++) {
        struct racing_waiter *r = calloc(1, sizeof(*r));

        r->race = race;
        r->waiter.wake = wake_racing;
        topics_join(race->topics, "race", &r->waiter);
        if (i % 2 == 0) {
            topics_notify(race->topics, "race");
        }
    }
    return NULL;
}

static void *notify_all(void *arg)
{
    struct race *race = arg;

    while (!atomic_load(&race->stop)) {
        topics_notify(race->topics, "race");
    }
    return NULL;
}

static void test_every_waiter_is_woken_exactly_once(void **state)
{
    struct race race = {.topics = new_topics()};
    pthread_t joiners[THREADS];
    pthread_t notifier;

    (void)state;
    pthread_create(&notifier, NULL, notify_all, &race);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&joiners[i], NULL, join_and_notify, &race);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(joiners[i], NULL);
    }
    atomic_store(&race.stop, true);
    pthread_join(notifier, NULL);
    topics_notify(race.topics, "race");
    assert_int_equal(atomic_load(&race.woken), THREADS * ROUNDS);
    topics_free(race.topics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notify_wakes_those_of_the_name_once),
        cmocka_unit_test(test_leave_from_any_place_in_the_list),
        cmocka_unit_test(test_long_names_meet),
        cmocka_unit_test(test_every_waiter_is_woken_exactly_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
