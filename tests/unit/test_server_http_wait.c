/* Waiting requests: topics, deadlines, dead peers, the end of the service. */
#include "base/clock.h"
#include "server/http/exchange.h"
#include "server_http_fixture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"

/* What the handlers of this file watch. */
struct service {
    atomic_int value;
    atomic_int waiting; /* handlers that have asked to wait */
    atomic_int ended;   /* states given back */
    atomic_bool gate;   /* /blocking waits for it */
};

static struct service service;

static void state_done(void *state)
{
    atomic_fetch_add((atomic_int *)state, 1);
}

static bool value_is_set(struct http_exchange *x)
{
    const struct service *s = http_service(x);

    return atomic_load(&s->value) != 0;
}

static void answer_value(struct http_exchange *x)
{
    struct service *s = http_service(x);

    http_reply_json(x, 200,
                    json_pack("{s:i, s:b}", "value", atomic_load(&s->value), "timedOut",
                              http_wait_timed_out(x)));
}

static void handle_wait(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    int64_t wait_ms = 60000;

    if (http_query_int(x, "waitMs", 0, 60000, &wait_ms, &err) != 0) {
        http_reply_error(x, &err);
        return;
    }
    http_set_state(x, &s->ended, state_done);
    http_wait(x, "value", clock_mono_ms() + wait_ms, value_is_set, answer_value);
    atomic_fetch_add(&s->waiting, 1);
}

/* Counts notifications: answers after the third turn. */
static void handle_turns(struct http_exchange *x)
{
    uintptr_t turns = (uintptr_t)http_state(x);

    if (turns == 3) {
        http_reply_json(x, 200, json_pack("{s:i}", "turns", (int)turns));
        return;
    }
    http_set_state(x, (void *)(turns + 1), NULL);
    http_wait(x, "turns", 0, NULL, handle_turns);
    atomic_fetch_add(&((struct service *)http_service(x))->waiting, 1);
}

static void handle_blocking(struct http_exchange *x)
{
    struct service *s = http_service(x);

    atomic_fetch_add(&s->waiting, 1);
    while (!atomic_load(&s->gate)) {
        usleep(1000);
    }
    http_reply_empty(x, 204);
}

static const struct http_route routes[] = {
    {"GET", "/wait", ROUTE_INLINE, handle_wait, 0, "waitMs"},
    {"POST", "/wait", ROUTE_JOB, handle_wait, 16, "waitMs"},
    {"GET", "/turns", ROUTE_INLINE, handle_turns, 0, ""},
    {"POST", "/turns", ROUTE_JOB, handle_turns, 16, ""},
    {"POST", "/blocking", ROUTE_JOB, handle_blocking, 16, ""},
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    service = (struct service){0};
    fixture_start(f, NULL, routes, ARRAY_SIZE(routes), &service);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_stop(*state);
    free(*state);
    return 0;
}

static void wait_for_count(atomic_int *counter, int count)
{
    for (int i = 0; i < 10000 && atomic_load(counter) < count; i++) {
        usleep(1000);
    }
    assert_true(atomic_load(counter) >= count);
}

static void set_value(const struct fixture *f, int value)
{
    atomic_store(&service.value, value);
    topics_notify(f->topics, "value");
}

static void expect_answer(int fd, const char *body)
{
    struct answer a;

    client_read(fd, &a, false);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, body);
    answer_done(&a);
}

static void test_notify_resumes(void **state)
{
    static const char *const requests[] = {"GET /wait HTTP/1.1\r\n" HOST "\r\n",
                                           "POST /wait HTTP/1.1\r\n" HOST "\r\n"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        int fd = fixture_connect(f);

        service.waiting = 0;
        service.value = 0;
        client_send_text(fd, requests[i]);
        wait_for_count(&service.waiting, 1);
        usleep(20000);
        set_value(f, 5);
        expect_answer(fd, "{\"value\":5,\"timedOut\":false}");
        close(fd);
    }
    wait_for_count(&service.ended, 2);
}

static void test_ready_does_not_sleep(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    int64_t start = clock_mono_ms();

    service.value = 9;
    fixture_ask(f, "GET /wait HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_string_equal(a.body, "{\"value\":9,\"timedOut\":false}");
    answer_done(&a);
    fixture_ask(f, "POST /wait HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_string_equal(a.body, "{\"value\":9,\"timedOut\":false}");
    answer_done(&a);
    assert_true(clock_mono_ms() - start < 5000);
}

static void test_deadline(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    int64_t start = clock_mono_ms();

    fixture_ask(f, "GET /wait?waitMs=150 HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_string_equal(a.body, "{\"value\":0,\"timedOut\":true}");
    assert_true(clock_mono_ms() - start >= 149);
    answer_done(&a);
    fixture_ask(f, "POST /wait?waitMs=0 HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_string_equal(a.body, "{\"value\":0,\"timedOut\":true}");
    answer_done(&a);
}

static void test_several_turns(void **state)
{
    static const char *const requests[] = {"GET /turns HTTP/1.1\r\n" HOST "\r\n",
                                           "POST /turns HTTP/1.1\r\n" HOST "\r\n"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        int fd = fixture_connect(f);
        struct pollfd p = {.fd = fd, .events = POLLIN};

        client_send_text(fd, requests[i]);
        /* Notifies as fast as it can: turns overlap wakes that are still on their way. */
        for (int n = 0; n < 100000 && poll(&p, 1, 0) == 0; n++) {
            topics_notify(f->topics, "turns");
        }
        expect_answer(fd, "{\"turns\":3}");
        close(fd);
    }
}

enum { WAITERS = 1000 };

static void *notify_until_told(void *arg)
{
    struct fixture *f = arg;

    while (!atomic_load(&service.gate)) {
        topics_notify(f->topics, "value");
        usleep(100);
    }
    return NULL;
}

/* Half of them by deadline at about the moment of the notify, half on workers, notifies all the
 * time. */
static void test_a_thousand_waiters_race(void **state)
{
    struct fixture *f = *state;
    static int fds[WAITERS];
    pthread_t notifier;

    for (int i = 0; i < WAITERS; i++) {
        char request[128];

        fds[i] = fixture_connect(f);
        snprintf(request, sizeof(request), "%s /wait?waitMs=%d HTTP/1.1\r\n" HOST "\r\n",
                 i % 2 == 0 ? "GET" : "POST", i % 4 < 2 ? 300 : 60000);
        client_send_text(fds[i], request);
    }
    pthread_create(&notifier, NULL, notify_until_told, f);
    usleep(290000);
    set_value(f, 1);
    for (int i = 0; i < WAITERS; i++) {
        struct answer a;

        client_read(fds[i], &a, false);
        assert_int_equal(a.status, 200);
        answer_done(&a);
        close(fds[i]);
    }
    atomic_store(&service.gate, true);
    pthread_join(notifier, NULL);
    wait_for_count(&service.ended, WAITERS);
}

static void test_dead_peers_free_their_place(void **state)
{
    struct fixture *f = *state;
    int dead = fixture_connect(f);
    int reset = fixture_connect(f);
    int alive = fixture_connect(f);
    int pipelining = fixture_connect(f);
    struct linger none = {.l_onoff = 1, .l_linger = 0};

    client_send_text(dead, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
    client_send_text(reset, "POST /wait HTTP/1.1\r\n" HOST "\r\n");
    client_send_text(alive, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
    client_send_text(pipelining,
                     "GET /wait HTTP/1.1\r\n" HOST "\r\nGET /wait HTTP/1.1\r\n" HOST "\r\n");
    wait_for_count(&service.waiting, 4);
    usleep(50000);
    assert_int_equal(setsockopt(reset, SOL_SOCKET, SO_LINGER, &none, sizeof(none)), 0);
    close(dead);
    close(reset);
    usleep(50000);
    assert_int_equal(atomic_load(&service.ended), 0);
    wait_probe_peers(f->server);
    wait_for_count(&service.ended, 2);
    usleep(20000);
    assert_int_equal(atomic_load(&service.ended), 2);
    set_value(f, 3);
    expect_answer(alive, "{\"value\":3,\"timedOut\":false}");
    expect_answer(pipelining, "{\"value\":3,\"timedOut\":false}");
    expect_answer(pipelining, "{\"value\":3,\"timedOut\":false}");
    close(alive);
    close(pipelining);
}

static void *free_server(void *arg)
{
    struct fixture *f = arg;

    http_server_free(f->server);
    return NULL;
}

static void test_stop_answers_all(void **state)
{
    struct fixture *f = *state;
    int waiting[3];
    int blocking = fixture_connect(f);
    pthread_t stopper;
    struct answer a;

    client_send_text(blocking, "POST /blocking HTTP/1.1\r\n" HOST "\r\n");
    for (int i = 0; i < 3; i++) {
        waiting[i] = fixture_connect(f);
        client_send_text(waiting[i], i == 1 ? "POST /wait HTTP/1.1\r\n" HOST "\r\n"
                                            : "GET /wait HTTP/1.1\r\n" HOST "\r\n");
    }
    wait_for_count(&service.waiting, 4);
    usleep(50000);
    pthread_create(&stopper, NULL, free_server, f);
    for (int i = 0; i < 3; i++) {
        client_read(waiting[i], &a, false);
        assert_problem(&a, 503, "OVERLOADED", "");
        assert_string_equal(answer_header(&a, "Connection"), "close");
        answer_done(&a);
        close(waiting[i]);
    }
    fixture_ask(f, "GET /wait HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_problem(&a, 503, "OVERLOADED", "");
    answer_done(&a);
    atomic_store(&service.gate, true);
    client_read(blocking, &a, false);
    assert_int_equal(a.status, 204);
    answer_done(&a);
    close(blocking);
    pthread_join(stopper, NULL);
    assert_int_equal(atomic_load(&service.ended), 3);
    f->server = NULL;
}

/* More jobs than the pool takes. */
static void test_full_pool_is_overloaded(void **state)
{
    static int fds[64];
    struct fixture f = {0};
    struct error err = ERROR_INIT;
    struct http_config config = {
        .listen = "127.0.0.1:0", .threads = 2, .connections_max = 256, .head_timeout_s = 30};
    int refused = 0;

    (void)state;
    assert_int_equal(pool_new(2, 4, &f.pool, &err), 0);
    assert_int_equal(timers_new(&f.timers, &err), 0);
    assert_int_equal(topics_new(&f.topics, &err), 0);
    config.topics = f.topics;
    config.pool = f.pool;
    config.timers = f.timers;
    config.routes = routes;
    config.route_count = ARRAY_SIZE(routes);
    config.service = &service;
    assert_int_equal(http_server_new(&config, &f.server, &err), 0);
    f.port = (unsigned short)strtoul(strrchr(http_server_address(f.server), ':') + 1, NULL, 10);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = fixture_connect(&f);
        client_send_text(fds[i], "POST /blocking HTTP/1.1\r\n" HOST "\r\n");
    }
    usleep(200000);
    atomic_store(&service.gate, true);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        struct answer a;

        client_read(fds[i], &a, false);
        if (a.status == 503) {
            assert_problem(&a, 503, "OVERLOADED", "");
            refused++;
        } else {
            assert_int_equal(a.status, 204);
        }
        answer_done(&a);
        close(fds[i]);
    }
    assert_true(refused >= 64 - 2 - 4 - 2);
    fixture_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_notify_resumes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ready_does_not_sleep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_thousand_waiters_race, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dead_peers_free_their_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_answers_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_pool_is_overloaded, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
