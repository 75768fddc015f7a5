/* Late input and signals on a real engine, as host.h promises them. */
#include "base/buf.h"
#include "docker_fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define MIB (1024 * 1024)

/* One execution for all tests, one command at a time. */
struct scene {
    struct fixture *f;
    struct host_provision_plan plan;
    struct host_provisioned made;
};

/* The command, watched from the test's thread. */
struct watch {
    struct scene *scene;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool finished;
    size_t bytes;
    char out[256];
    struct host_exec_result result;
};

static void must(int result, const struct error *err)
{
    if (result != 0) {
        fail_msg("%s: %s", error_code_name(err->code), err->detail);
    }
}

static bool on_output(void *ctx, enum host_stream stream, const void *data, size_t len)
{
    struct watch *w = ctx;
    if (stream == HOST_STDERR) {
        return true; /* the shell's own words about signals */
    }
    pthread_mutex_lock(&w->lock);
    size_t room = sizeof(w->out) - 1 - strlen(w->out);
    strncat(w->out, data, len < room ? len : room);
    w->bytes += len;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return true;
}

static void on_finished(void *ctx, const struct host_exec_result *result)
{
    struct watch *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->result = *result;
    w->finished = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void begin(struct scene *s, struct watch *w, const char *script, bool open)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct host_exec_plan plan = {.id = host_provision_plan_identity(&s->plan),
                                  .handle = s->made.handle,
                                  .command_id = "one",
                                  .argv = argv,
                                  .cwd = "",
                                  .stdin_open = open,
                                  .limits = s->plan.limits};
    struct host_exec_events events = {.output = on_output, .finished = on_finished, .ctx = w};
    struct error err = ERROR_INIT;
    *w = (struct watch){
        .scene = s, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    must(s->f->host->ops->exec(s->f->host, &plan, &events, &err), &err);
}

static int input_of(struct watch *w, const char *id, const struct buf *data, struct error *err)
{
    struct host *host = w->scene->f->host;
    struct host_exec_ref ref = {.id = host_provision_plan_identity(&w->scene->plan),
                                .handle = w->scene->made.handle,
                                .command_id = id};
    return host->ops->exec_input(host, &ref, data->data, data->len, data->len == 0, err);
}

/* "": the end. */
static int input(struct watch *w, const char *text, struct error *err)
{
    struct buf data = {.data = (char *)(uintptr_t)text, .len = strlen(text)};
    return input_of(w, "one", &data, err);
}

static int signal_of(struct watch *w, const char *id, int number, struct error *err)
{
    struct host *host = w->scene->f->host;
    struct host_exec_ref ref = {.id = host_provision_plan_identity(&w->scene->plan),
                                .handle = w->scene->made.handle,
                                .command_id = id};
    return host->ops->exec_signal(host, &ref, number, err);
}

static void await(struct watch *w, const char *out)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&w->lock);
    while (out != NULL ? strcmp(w->out, out) != 0 : !w->finished) {
        assert_int_equal(pthread_cond_timedwait(&w->changed, &w->lock, &until), 0);
    }
    pthread_mutex_unlock(&w->lock);
}

static void test_pieces(void **state)
{
    struct watch w;
    struct error err = ERROR_INIT;
    begin(*state, &w, "cat; echo end", true);
    must(input(&w, "a", &err), &err);
    await(&w, "a");
    must(input(&w, "b", &err), &err);
    must(input(&w, "c\n", &err), &err);
    await(&w, "abc\n");
    must(input(&w, "", &err), &err);
    await(&w, NULL);
    assert_string_equal(w.out, "abc\nend\n");
    assert_int_equal(w.result.exit_code, 0);
    assert_int_equal(input(&w, "late", &err), -1);
    assert_int_equal(err.code, ERROR_COMMAND_NOT_FOUND);
    assert_int_equal(signal_of(&w, "one", SIGINT, &err), -1);
    assert_int_equal(err.code, ERROR_COMMAND_NOT_FOUND);
}

static void test_refused(void **state)
{
    struct watch w;
    struct error err = ERROR_INIT;
    struct buf some = {.data = (char[]){"x"}, .len = 1};
    begin(*state, &w, "sleep 60", false);
    assert_int_equal(input(&w, "x", &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_int_equal(input_of(&w, "two", &some, &err), -1);
    assert_int_equal(err.code, ERROR_COMMAND_NOT_FOUND);
    assert_int_equal(signal_of(&w, "two", SIGKILL, &err), -1);
    assert_int_equal(err.code, ERROR_COMMAND_NOT_FOUND);
    must(signal_of(&w, "one", SIGKILL, &err), &err);
    await(&w, NULL);
    assert_int_equal(w.result.signal, SIGKILL);
}

static void test_unread(void **state)
{
    struct watch w;
    struct error err = ERROR_INIT;
    _cleanup_free_ char *much = malloc(4 * MIB);
    assert_non_null(much);
    memset(much, 'x', 4 * MIB);
    struct buf all = {.data = much, .len = 4 * MIB};
    struct buf part = {.data = much, .len = MIB};
    begin(*state, &w, "trap 'cat; exit 4' USR1; echo ready; while :; do sleep 0.1; done", true);
    await(&w, "ready\n");
    must(input_of(&w, "one", &all, &err), &err);
    assert_int_equal(input_of(&w, "one", &part, &err), -1);
    assert_int_equal(err.code, ERROR_OVERLOADED);
    must(signal_of(&w, "one", SIGUSR1, &err), &err);
    must(input(&w, "", &err), &err);
    await(&w, NULL);
    assert_int_equal(w.bytes, strlen("ready\n") + 4 * MIB);
    assert_int_equal(w.result.exit_code, 4);
}

/* Writers and signals at once, while output comes: nothing is lost or mixed up. */
static void *write_much(void *arg)
{
    struct watch *w = arg;
    struct error err = ERROR_INIT;
    char piece[1001];
    memset(piece, 'x', 1000);
    piece[1000] = '\0';
    for (int i = 0; i < 300; i++) {
        while (input(w, piece, &err) != 0) {
            assert_int_equal(err.code, ERROR_OVERLOADED);
        }
        (void)!signal_of(w, "one", SIGCONT, &err);
    }
    return NULL;
}

static void test_many_at_once(void **state)
{
    struct watch w;
    struct error err = ERROR_INIT;
    pthread_t threads[4];
    begin(*state, &w, "cat", true);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_much, &w), 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    must(input(&w, "", &err), &err);
    await(&w, NULL);
    assert_int_equal(w.result.exit_code, 0);
    assert_int_equal(w.bytes, 4 * 300 * 1000);
}

static int setup(void **state)
{
    static struct scene s;
    struct error err = ERROR_INIT;
    void *fixture = NULL;
    if (fixture_setup(&fixture) != 0) {
        return -1;
    }
    s.f = fixture;
    s.plan = fixture_plan(s.f, "input");
    must(s.f->host->ops->provision(s.f->host, &s.plan, &s.made, &err), &err);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    struct scene *s = *state;
    void *fixture = s->f;
    host_provisioned_done(&s->made);
    host_provision_plan_done(&s->plan);
    return fixture_teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_many_at_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
