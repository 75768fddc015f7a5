/* The engine client, against the real engine, and against a peer that misbehaves in ways the real
 * one can't be made to. */
#include "base/clock.h"
#include "host/docker/engine.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

static const char *engine_socket(void)
{
    const char *path = getenv("EXECHOST_TEST_SOCKET");

    return path != NULL ? path : "/var/run/docker.sock";
}

/* --- the real engine --- */

static void test_negotiate(void **state)
{
    struct error err = ERROR_INIT;
    struct engine_version version;
    struct engine *e;

    (void)state;
    assert_int_equal(engine_new(engine_socket(), &e, &err), 0);
    if (engine_negotiate(e, &version, &err) < 0) {
        fail_msg("%s", err.detail);
    }
    assert_true(version.cpus >= 1);
    assert_true(version.limits);
    assert_memory_equal(version.api, "1.", 2);
    engine_free(e);
}

static void test_call_keeps_connection_and_tells_words(void **state)
{
    struct error err = ERROR_INIT;
    struct engine *e;
    struct engine_request request = {.method = "GET", .path = "/containers/no-such-thing/json"};

    (void)state;
    assert_int_equal(engine_new(engine_socket(), &e, &err), 0);
    for (int i = 0; i < 3; i++) {
        struct engine_answer answer;
        char scratch[32];

        assert_int_equal(engine_call(e, &request, &answer, &err), 0);
        assert_int_equal(answer.status, 404);
        assert_non_null(
            strstr(engine_answer_message(&answer, scratch, sizeof(scratch)), "No such container"));
        engine_answer_done(&answer);
    }
    engine_free(e);
}

static void test_hijack_refused(void **state)
{
    struct error err = ERROR_INIT;
    struct engine *e;
    struct buf early;
    json_t *body = json_pack("{s:b,s:b}", "Detach", 0, "Tty", 0);
    struct engine_request request = {
        .verb = "exec_start", .method = "POST", .path = "/exec/none/start", .body = body};
    int fd = -1;

    (void)state;
    buf_init(&early, 1024);
    assert_int_equal(engine_new(engine_socket(), &e, &err), 0);
    assert_int_equal(engine_hijack(e, &request, &fd, &early, &err), -1);
    assert_int_equal(err.code, ERROR_RUNTIME);
    assert_non_null(strstr(err.detail, "No such exec instance"));
    engine_free(e);
    json_decref(body);
    buf_done(&early);
}

static void test_download_streams(void **state)
{
    struct error err = ERROR_INIT;
    struct engine *e;
    struct engine_download *d;
    struct engine_request request = {.method = "GET", .path = "/images/json"};
    struct buf body;
    long status;

    (void)state;
    buf_init(&body, 1 << 20);
    assert_int_equal(engine_new(engine_socket(), &e, &err), 0);
    assert_int_equal(engine_download_open(e, &request, &d, &status, &err), 0);
    assert_int_equal(status, 200);
    for (;;) {
        const void *data;
        ssize_t got = engine_download_read(d, &data, &err);

        assert_true(got >= 0);
        if (got == 0) {
            break;
        }
        assert_int_equal(buf_add(&body, data, (size_t)got), 0);
    }
    assert_int_equal(body.data[0], '[');
    assert_int_equal(body.data[body.len - 2], ']');
    engine_download_free(d);
    engine_free(e);
    buf_done(&body);
}

/* --- a peer that misbehaves --- */

struct peer {
    struct sockaddr_un address;
    int listener;
    const char *say; /* NULL: nothing, ever */
    bool hold;       /* keep the connection open afterwards */
    pthread_t thread;
    int kept[8];
    int count;
};

static void *peer_main(void *arg)
{
    struct peer *p = arg;

    for (;;) {
        int fd = accept(p->listener, NULL, NULL);
        char request[4096];

        if (fd < 0) {
            return NULL;
        }
        if (recv(fd, request, sizeof(request), 0) > 0 && p->say != NULL) {
            (void)send(fd, p->say, strlen(p->say), MSG_NOSIGNAL);
        }
        if (p->hold && p->count < 8) {
            p->kept[p->count++] = fd;
        } else {
            close(fd);
        }
    }
}

static void peer_start(struct peer *p, const char *say, bool hold)
{
    *p = (struct peer){.address.sun_family = AF_UNIX, .say = say, .hold = hold};
    snprintf(p->address.sun_path, sizeof(p->address.sun_path), "/tmp/exechost-peer-%d", getpid());
    unlink(p->address.sun_path);
    p->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&p->address, sizeof(p->address)), 0);
    assert_int_equal(listen(p->listener, 8), 0);
    assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
}

static void peer_stop(struct peer *p)
{
    shutdown(p->listener, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->listener);
    for (int i = 0; i < p->count; i++) {
        close(p->kept[i]);
    }
    unlink(p->address.sun_path);
}

static void expect_failure(const char *say, bool hold, enum error_code code, const char *words)
{
    struct peer peer;
    struct error err = ERROR_INIT;
    struct engine *e;
    struct engine_answer answer;
    struct engine_request request = {.method = "GET", .path = "/version", .timeout_ms = 300};

    peer_start(&peer, say, hold);
    assert_int_equal(engine_new(peer.address.sun_path, &e, &err), 0);
    assert_int_equal(engine_call(e, &request, &answer, &err), -1);
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.detail, words));
    engine_free(e);
    peer_stop(&peer);
}

static void test_bad_peers(void **state)
{
    (void)state;
    expect_failure("SSH-2.0-x\r\n", false, ERROR_RUNTIME, "not understood");
    expect_failure("", false, ERROR_HOST_UNAVAILABLE, "lost");
    expect_failure("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", false, ERROR_HOST_UNAVAILABLE,
                   "lost");
    expect_failure(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{", false,
        ERROR_RUNTIME, "no JSON");
    expect_failure(NULL, true, ERROR_TIMEOUT, "in time");
}

static void expect_no_engine(const char *json, const char *words)
{
    struct peer peer;
    struct error err = ERROR_INIT;
    struct engine *e;
    struct engine_version version;
    char say[1024];

    snprintf(say, sizeof(say),
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(json), json);
    peer_start(&peer, say, false);
    assert_int_equal(engine_new(peer.address.sun_path, &e, &err), 0);
    assert_int_equal(engine_negotiate(e, &version, &err), -1);
    assert_int_equal(err.code, ERROR_HOST_UNAVAILABLE);
    assert_non_null(strstr(err.detail, words));
    engine_free(e);
    peer_stop(&peer);
}

static void test_other_engines(void **state)
{
    (void)state;
    expect_no_engine("{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.24\",\"Os\":\"linux\","
                     "\"Components\":[{\"Name\":\"Podman Engine\"}]}",
                     "not Docker");
    expect_no_engine("{\"ApiVersion\":\"1.40\",\"MinAPIVersion\":\"1.12\",\"Os\":\"linux\","
                     "\"Components\":[{\"Name\":\"Engine\"}]}",
                     "older than");
    expect_no_engine("{\"ApiVersion\":\"9.1\",\"MinAPIVersion\":\"9.0\",\"Os\":\"linux\","
                     "\"Components\":[{\"Name\":\"Engine\"}]}",
                     "older than");
    expect_no_engine("[]", "does not tell");
}

static void *fire_soon(void *arg)
{
    usleep(100 * 1000);
    cancel_fire(arg);
    return NULL;
}

static void test_cancel(void **state)
{
    struct peer peer;
    struct error err = ERROR_INIT;
    struct engine *e;
    struct engine_answer answer;
    struct cancel *cancel;
    struct engine_request request = {.method = "GET", .path = "/version"};
    int64_t start = clock_mono_ms();
    pthread_t thread;

    (void)state;
    peer_start(&peer, NULL, true);
    assert_int_equal(cancel_new(&cancel, &err), 0);
    request.cancel = cancel;
    assert_int_equal(engine_new(peer.address.sun_path, &e, &err), 0);
    pthread_create(&thread, NULL, fire_soon, cancel);
    assert_int_equal(engine_call(e, &request, &answer, &err), -1);
    assert_string_equal(err.detail, "interrupted");
    assert_true(clock_mono_ms() - start < 1000);
    pthread_join(thread, NULL);
    engine_free(e);
    cancel_unref(cancel);
    peer_stop(&peer);
}

static void test_absent(void **state)
{
    struct error err = ERROR_INIT;
    struct engine *e;
    struct engine_version version;

    (void)state;
    assert_int_equal(engine_new("relative", &e, &err), -1);
    assert_int_equal(engine_new("/nonexistent/engine.sock", &e, &err), 0);
    assert_int_equal(engine_negotiate(e, &version, &err), -1);
    assert_int_equal(err.code, ERROR_HOST_UNAVAILABLE);
    engine_free(e);
}

/* --- the loop --- */

struct seen {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char bytes[64];
    size_t count;
    bool ended;
    int ups;
    int events;
};

static short on_ready(void *ctx, int fd, short revents)
{
    struct seen *seen = ctx;
    char data[8];
    ssize_t got = recv(fd, data, sizeof(data), MSG_DONTWAIT);

    (void)revents;
    pthread_mutex_lock(&seen->lock);
    if (got > 0) {
        memcpy(seen->bytes + seen->count, data, (size_t)got);
        seen->count += (size_t)got;
    } else {
        close(fd);
        seen->ended = true;
    }
    pthread_cond_signal(&seen->changed);
    pthread_mutex_unlock(&seen->lock);
    return got > 0 ? 1 /* POLLIN */ : 0;
}

static void on_event(void *ctx, const json_t *event)
{
    struct seen *seen = ctx;

    assert_non_null(json_object_get(event, "Action"));
    pthread_mutex_lock(&seen->lock);
    seen->events++;
    pthread_cond_signal(&seen->changed);
    pthread_mutex_unlock(&seen->lock);
}

static void on_connected(void *ctx, bool up)
{
    struct seen *seen = ctx;

    pthread_mutex_lock(&seen->lock);
    seen->ups += up ? 1 : 0;
    pthread_cond_signal(&seen->changed);
    pthread_mutex_unlock(&seen->lock);
}

static void test_loop(void **state)
{
    struct error err = ERROR_INIT;
    struct seen seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct engine_stream_events handler = {.ready = on_ready, .ctx = &seen};
    struct engine_watch_events watch = {.line = on_event, .connected = on_connected, .ctx = &seen};
    struct engine *e;
    struct engine_loop *loop;
    int pair[2];

    (void)state;
    assert_int_equal(engine_new(engine_socket(), &e, &err), 0);
    assert_int_equal(engine_loop_new(e, &loop, &err), 0);
    assert_int_equal(engine_loop_watch(loop, "exechost.instance=none", &watch, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(engine_loop_add(loop, pair[1], 1, &handler, &err), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(send(pair[0], "0123456789", 10, 0), 10);
    }
    close(pair[0]);
    pthread_mutex_lock(&seen.lock);
    while (!seen.ended || seen.ups == 0) {
        pthread_cond_wait(&seen.changed, &seen.lock);
    }
    assert_int_equal(seen.count, 50);
    assert_memory_equal(seen.bytes + 40, "0123456789", 10);
    pthread_mutex_unlock(&seen.lock);
    engine_loop_free(loop);
    engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_negotiate),
        cmocka_unit_test(test_call_keeps_connection_and_tells_words),
        cmocka_unit_test(test_hijack_refused),
        cmocka_unit_test(test_download_streams),
        cmocka_unit_test(test_bad_peers),
        cmocka_unit_test(test_other_engines),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
