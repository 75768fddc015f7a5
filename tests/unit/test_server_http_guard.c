/* A guard around handlers: what it sees, in which order, and that nobody's leaving disturbs it. */
#include "server/http/exchange.h"
#include "server_http_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HEAD "Host: localhost\r\nContent-Length: 0\r\n"

struct service {
    atomic_int entered;
    atomic_int handled;
    atomic_int left;
    atomic_int abandoned; /* states that no answer took */
    atomic_int waiting;
    atomic_bool go;
    struct http_answer seen; /* of the last leave, without its data */
    char body[256];
    char location[64];
};

static struct service service;

/* --- the guard --- */

static int choose(const struct http_exchange *x, bool *guarded, struct error *err)
{
    const char *value = http_header(x, "X-Guard");

    if (value != NULL && strcmp(value, "refuse") == 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "X-Guard", "refused");
    }
    *guarded = value != NULL;
    return 0;
}

static void abandon(void *state)
{
    atomic_fetch_add(&((struct service *)state)->abandoned, 1);
}

static void enter(struct http_exchange *x);

static bool may_go(struct http_exchange *x)
{
    return atomic_load(&((struct service *)http_service(x))->go);
}

static void again(struct http_exchange *x)
{
    http_job(x, enter);
}

static void enter(struct http_exchange *x)
{
    struct service *s = http_service(x);
    const char *how = http_header(x, "X-Guard");

    atomic_fetch_add(&s->entered, 1);
    if (strcmp(how, "answer") == 0) {
        http_reply_empty(x, 204);
    } else if (strcmp(how, "wait") == 0 && !atomic_load(&s->go)) {
        atomic_fetch_add(&s->waiting, 1);
        http_wait(x, "go", 0, may_go, again);
    } else {
        http_set_guard_state(x, s, abandon);
        http_handle(x);
    }
}

static void leave(struct http_exchange *x, void *state)
{
    struct service *s = state;
    const char *name;
    const char *value;

    assert_null(http_guard_state(x));
    http_answer(x, &s->seen);
    snprintf(s->body, sizeof(s->body), "%.*s", (int)s->seen.len, (const char *)s->seen.data);
    s->location[0] = '\0';
    for (unsigned i = 0; http_answer_header(x, i, &name, &value); i++) {
        if (strcmp(name, "Location") == 0) {
            snprintf(s->location, sizeof(s->location), "%s", value);
        }
    }
    http_add_header(x, "X-Left", "yes");
    atomic_fetch_add(&s->left, 1);
}

static const struct http_guard guard = {.choose = choose, .enter = enter, .leave = leave};

/* --- handlers --- */

static void handle_make(struct http_exchange *x)
{
    atomic_fetch_add(&((struct service *)http_service(x))->handled, 1);
    http_add_header(x, "Location", "/made");
    http_reply_json(x, 201, json_pack("{s:b}", "made", 1));
}

static void handle_fail(struct http_exchange *x)
{
    struct error err = ERROR_INIT;

    (void)error_set(&err, ERROR_OVERLOADED, "too much");
    http_reply_error(x, &err);
}

static void handle_slow(struct http_exchange *x)
{
    struct service *s = http_service(x);

    if (!atomic_load(&s->go)) {
        atomic_fetch_add(&s->waiting, 1);
        http_wait(x, "go", 0, may_go, handle_slow);
        return;
    }
    handle_make(x);
}

static const struct http_route routes[] = {
    {"POST", "/make", ROUTE_JOB, handle_make, 16, ""},
    {"POST", "/inline", ROUTE_INLINE, handle_make, 16, ""},
    {"POST", "/fail", ROUTE_JOB, handle_fail, 16, ""},
    {"POST", "/slow", ROUTE_JOB, handle_slow, 16, ""},
};

static int setup(void **state)
{
    static struct fixture f;
    const struct http_config config = {.guard = &guard};

    memset(&service, 0, sizeof(service));
    fixture_start(&f, &config, routes, ARRAY_SIZE(routes), &service);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture_stop(*state);
    return 0;
}

static void wait_until(const atomic_int *counter, int value)
{
    for (int i = 0; i < 5000 && atomic_load(counter) < value; i++) {
        usleep(1000);
    }
    assert_int_equal(atomic_load(counter), value);
}

static void ask(const struct fixture *f, const char *path, const char *how, struct answer *a)
{
    char request[256];

    snprintf(request, sizeof(request), "POST %s HTTP/1.1\r\n" HEAD "X-Guard: %s\r\n\r\n", path,
             how);
    fixture_ask(f, request, a);
}

static void test_around_the_handler(void **state)
{
    static const char *const PATHS[] = {"/make", "/inline"};
    struct answer a;

    for (int i = 0; i < 2; i++) {
        ask(*state, PATHS[i], "run", &a);
        assert_int_equal(a.status, 201);
        assert_string_equal(answer_header(&a, "X-Left"), "yes");
        assert_string_equal(a.body, "{\"made\":true}");
        assert_int_equal(service.seen.status, 201);
        assert_int_equal(service.seen.code, ERROR_NONE);
        assert_true(service.seen.in_memory);
        assert_string_equal(service.body, a.body);
        assert_string_equal(service.location, "/made");
        answer_done(&a);
    }
    ask(*state, "/fail", "run", &a);
    assert_problem(&a, 503, "OVERLOADED", "");
    assert_int_equal(service.seen.code, ERROR_OVERLOADED);
    answer_done(&a);
    assert_int_equal(atomic_load(&service.left), 3);
    assert_int_equal(atomic_load(&service.abandoned), 0);
}

static void test_left_alone(void **state)
{
    struct answer a;

    fixture_ask(*state, "POST /make HTTP/1.1\r\n" HEAD "\r\n", &a);
    assert_int_equal(a.status, 201);
    assert_string_equal(answer_header(&a, "X-Left"), "");
    answer_done(&a);
    ask(*state, "/make", "refuse", &a);
    assert_problem(&a, 400, "EXECUTION_INVALID_REQUEST", "X-Guard");
    answer_done(&a);
    ask(*state, "/make", "answer", &a);
    assert_int_equal(a.status, 204);
    assert_string_equal(answer_header(&a, "X-Left"), "");
    answer_done(&a);
    assert_int_equal(atomic_load(&service.entered), 1);
    assert_int_equal(atomic_load(&service.handled), 1);
    assert_int_equal(atomic_load(&service.left), 0);
}

static void test_waits_and_enters_again(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    struct answer a;

    client_send_text(fd, "POST /make HTTP/1.1\r\n" HEAD "X-Guard: wait\r\n\r\n");
    wait_until(&service.waiting, 1);
    /* It subscribes only after that: a notice that comes before is rightly missed, since it may
     * not go yet. */
    for (int i = 0; i < 5000 && atomic_load(&service.waiting) < 2; i++) {
        topics_notify(f->topics, "go");
        usleep(1000);
    }
    assert_true(atomic_load(&service.waiting) >= 2);
    assert_int_equal(atomic_load(&service.handled), 0);
    atomic_store(&service.go, true);
    topics_notify(f->topics, "go");
    client_read(fd, &a, false);
    assert_int_equal(a.status, 201);
    assert_int_equal(atomic_load(&service.entered), atomic_load(&service.waiting) + 1);
    answer_done(&a);
    close(fd);
}

/* What was begun under a guard is brought to its answer though nobody is there any more. */
static void test_gone_peer(void **state)
{
    struct fixture *f = *state;
    int guarded = fixture_connect(f);
    int waiter = fixture_connect(f);

    client_send_text(guarded, "POST /slow HTTP/1.1\r\n" HEAD "X-Guard: run\r\n\r\n");
    wait_until(&service.waiting, 1);
    client_send_text(waiter, "POST /make HTTP/1.1\r\n" HEAD "X-Guard: wait\r\n\r\n");
    wait_until(&service.waiting, 2);
    close(guarded);
    close(waiter);
    for (int i = 0; i < 50; i++) {
        wait_probe_peers(f->server);
        usleep(1000);
    }
    assert_int_equal(atomic_load(&service.abandoned), 0);
    atomic_store(&service.go, true);
    topics_notify(f->topics, "go");
    wait_until(&service.left, 1);
    assert_int_equal(service.seen.status, 201);
    assert_int_equal(atomic_load(&service.entered), 2); /* the waiter did not come back */
}

/* What a stopping server answers is not the request's answer. */
static void test_stopping(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    struct answer a;

    client_send_text(fd, "POST /slow HTTP/1.1\r\n" HEAD "X-Guard: run\r\n\r\n");
    wait_until(&service.waiting, 1);
    http_server_free(f->server);
    f->server = NULL;
    client_read(fd, &a, false);
    assert_problem(&a, 503, "OVERLOADED", "");
    answer_done(&a);
    close(fd);
    assert_int_equal(atomic_load(&service.left), 0);
    assert_int_equal(atomic_load(&service.abandoned), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_around_the_handler, setup, teardown),
        cmocka_unit_test_setup_teardown(test_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits_and_enters_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gone_peer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stopping, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
