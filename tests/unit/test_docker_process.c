/* The process runner against the real engine: EXECHOST_TEST_SOCKET (/var/run/docker.sock) and the
 * image EXECHOST_TEST_IMAGE (exechost-test/base:test, made by tests/images/build). Every container
 * made here is removed. */
#include "host/docker/process.h"

#include "base/clock.h"
#include "guest/protocol.h"
#include "workspace/entry.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define MIB (1024 * 1024)

struct fixture {
    struct engine *engine;
    struct engine_loop *loop;
    struct docker_running *running;
    struct pool *pool;
    char container[80];
    struct docker_process_context context;
};

/* One command, watched from the test's thread. */
struct watch {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool finished;
    size_t refuse_after; /* bytes of output; 0: takes everything */
    struct buf out;
    struct buf err;
    struct host_exec_result result;
};

static const char *setting(const char *name, const char *standard)
{
    const char *value = getenv(name);
    return value != NULL ? value : standard;
}

static void must(int result, const struct error *err)
{
    if (result != 0) {
        fail_msg("%s: %s", error_code_name(err->code), err->detail);
    }
}

/* --- containers --- */

static long call(struct fixture *f, const char *method, const char *path, json_t *body,
                 json_t **out)
{
    struct error err = ERROR_INIT;
    struct engine_request request = {.method = method, .path = path, .body = body};
    struct engine_answer answer = {0};
    must(engine_call(f->engine, &request, &answer, &err), &err);
    long status = answer.status;
    if (out != NULL) {
        *out = json_incref(answer.json);
    }
    engine_answer_done(&answer);
    json_decref(body);
    return status;
}

static json_t *tmpfs(const char *target, const char *options)
{
    return json_pack("{s:s,s:s,s:{s:b,s:{s:s,s:{s:s,s:s,s:s}}}}", "Type", "volume", "Target",
                     target, "VolumeOptions", "NoCopy", 1, "DriverConfig", "Name", "local",
                     "Options", "type", "tmpfs", "device", "tmpfs", "o", options);
}

static void container_start(struct fixture *f, json_int_t memory, json_int_t pids)
{
    json_t *created = NULL;
    char path[160];
    json_t *body = json_pack(
        "{s:s,s:[s,s],s:s,s:s,s:{s:b,s:b,s:I,s:I,s:I,s:s,s:[s],s:[s],s:[o,o]}}", "Image",
        setting("EXECHOST_TEST_IMAGE", "exechost-test/base:test"), "Entrypoint", "sleep", "300",
        "User", "65533:65532", "WorkingDir", "/workspace", "HostConfig", "Init", 1,
        "ReadonlyRootfs", 1, "Memory", memory, "MemorySwap", memory, "PidsLimit", pids,
        "NetworkMode", "none", "CapDrop", "ALL", "SecurityOpt", "no-new-privileges", "Mounts",
        tmpfs("/workspace", "size=32m,uid=65532,gid=65532,mode=0700,nosuid,nodev"),
        tmpfs(GUEST_DIRECTORY, "size=4m,uid=0,gid=0,mode=0755,nosuid,nodev"));
    assert_non_null(body);
    assert_int_equal(call(f, "POST", "/containers/create", body, &created), 201);
    snprintf(f->container, sizeof(f->container), "%s",
             json_string_value(json_object_get(created, "Id")));
    json_decref(created);
    snprintf(path, sizeof(path), "/containers/%s/start", f->container);
    assert_int_equal(call(f, "POST", path, NULL, NULL), 204);
}

static long container_do(struct fixture *f, const char *verb)
{
    char path[160];
    snprintf(path, sizeof(path), "/containers/%s/%s", f->container, verb);
    return call(f, "POST", path, NULL, NULL);
}

static void container_remove(struct fixture *f)
{
    char path[160];
    snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", f->container);
    assert_int_equal(call(f, "DELETE", path, NULL, NULL), 204);
}

/* --- commands --- */

static bool on_output(void *ctx, enum host_stream stream, const void *data, size_t len)
{
    struct watch *w = ctx;
    struct buf *to = stream == HOST_STDOUT ? &w->out : &w->err;
    if (w->finished || buf_add(to, data, len) != 0) {
        return false;
    }
    return w->refuse_after == 0 || to->len < w->refuse_after;
}

static void on_finished(void *ctx, const struct host_exec_result *result)
{
    struct watch *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->result = *result;
    w->finished = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
}

static void watch_init(struct watch *w)
{
    memset(w, 0, sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->ended, NULL);
    buf_init(&w->out, 64 * MIB);
    buf_init(&w->err, 64 * MIB);
}

static void watch_done(struct watch *w)
{
    buf_done(&w->out);
    buf_done(&w->err);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->ended);
}

static int begin(struct fixture *f, struct watch *w, struct host_exec_plan plan, struct error *err)
{
    struct host_exec_events events = {.output = on_output, .finished = on_finished, .ctx = w};
    plan.cwd = plan.cwd != NULL ? plan.cwd : "";
    return docker_process_start(&f->context, &plan, &events, err);
}

static void wait_finished(struct watch *w)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&w->lock);
    while (!w->finished) {
        assert_int_equal(pthread_cond_timedwait(&w->ended, &w->lock, &until), 0);
    }
    pthread_mutex_unlock(&w->lock);
}

static void run(struct fixture *f, struct watch *w, struct host_exec_plan plan)
{
    struct error err = ERROR_INIT;
    watch_init(w);
    must(begin(f, w, plan, &err), &err);
    wait_finished(w);
}

#define ARGV(...)                                                                                  \
    .argv = (const char *const[])                                                                  \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define SHELL(script) ARGV("sh", "-c", script)

static void expect_out(struct fixture *f, struct host_exec_plan plan, const char *out)
{
    struct watch w;
    run(f, &w, plan);
    if (!w.result.started || w.result.exit_code != 0 || w.result.lost) {
        fail_msg("exit code %d, %s, %s", w.result.exit_code, w.result.detail, buf_str(&w.err));
    }
    assert_string_equal(buf_str(&w.out), out);
    watch_done(&w);
}

static void sleep_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void test_ends(void **state)
{
    struct fixture *f = *state;
    struct watch w;
    run(f, &w, (struct host_exec_plan){SHELL("echo out; echo err >&2; exit 3")});
    assert_true(w.result.started && !w.result.lost && !w.result.oom);
    assert_int_equal(w.result.exit_code, 3);
    assert_int_equal(w.result.signal, 0);
    assert_string_equal(buf_str(&w.out), "out\n");
    assert_string_equal(buf_str(&w.err), "err\n");
    assert_true(w.result.cpu_ms >= 0 && w.result.memory_peak_bytes > 0);
    assert_true(w.result.usage.cpu_ms >= 0 && w.result.usage.workspace_bytes >= 0);
    watch_done(&w);
    run(f, &w, (struct host_exec_plan){SHELL("kill -SEGV $$")});
    assert_true(w.result.started && w.result.exit_code == -1 && w.result.signal == 11);
    watch_done(&w);
    run(f, &w, (struct host_exec_plan){ARGV("no-such-program")});
    assert_true(!w.result.started && w.result.exit_code == 127 && !w.result.lost);
    assert_string_equal(w.result.detail, "no-such-program: No such file or directory");
    watch_done(&w);
    run(f, &w, (struct host_exec_plan){ARGV("/etc")});
    assert_true(!w.result.started && w.result.exit_code == 126);
    watch_done(&w);
    run(f, &w, (struct host_exec_plan){ARGV("true"), .cwd = "no/where"});
    assert_true(!w.result.started && w.result.exit_code == 127);
    assert_string_equal(w.result.detail, "working directory no/where: No such file or directory");
    watch_done(&w);
}

static void test_surroundings(void **state)
{
    struct fixture *f = *state;
    const char *const environment[] = {"COLOUR=gr\xc3\xbcn", "EMPTY=", NULL};
    expect_out(f,
               (struct host_exec_plan){SHELL("id -u; id -g; pwd; echo $COLOUR-$EMPTY-"),
                                       .environment = environment},
               "65532\n65532\n/workspace\ngr\xc3\xbcn--\n");
    expect_out(f, (struct host_exec_plan){SHELL("mkdir -p sub/dir; cat")}, "");
    expect_out(f, (struct host_exec_plan){ARGV("pwd"), .cwd = "sub/dir"}, "/workspace/sub/dir\n");
    /* The runner holds the way out: nobody else of its user may look into it or change it. */
    expect_out(
        f,
        (struct host_exec_plan){SHELL("ls /proc/$PPID/fd 2>/dev/null || echo closed;"
                                      "cat /.exechost/guest 2>/dev/null || echo unreadable;"
                                      "cp /bin/sh /.exechost/guest 2>/dev/null || echo fixed;"
                                      "rm -f /.exechost/guest 2>/dev/null; ls /.exechost")},
        "closed\nunreadable\nfixed\nguest\n");
}

static void test_input(void **state)
{
    struct fixture *f = *state;
    struct watch w;
    size_t len = 1 * MIB;
    _cleanup_free_ char *data = malloc(len);
    assert_non_null(data);
    for (size_t i = 0; i < len; i++) {
        data[i] = (char)(i * 31 + i / 977);
    }
    struct host_exec_plan plan = {ARGV("cat"), .has_stdin = true, .stdin_data = data,
                                  .stdin_len = len};
    run(f, &w, plan);
    assert_int_equal(w.result.exit_code, 0);
    assert_int_equal(w.out.len, len);
    assert_memory_equal(w.out.data, data, len);
    watch_done(&w);
    plan.argv = (const char *const[]){"true", NULL};
    expect_out(f, plan, "");
    plan.argv = (const char *const[]){"sh", "-c", "sleep 0.3; echo unread", NULL};
    expect_out(f, plan, "unread\n");
    plan.stdin_len = 0;
    plan.argv = (const char *const[]){"cat", NULL};
    expect_out(f, plan, "");
}

static void test_output(void **state)
{
    struct fixture *f = *state;
    struct watch w;
    run(f, &w, (struct host_exec_plan){SHELL("head -c 5242880 /dev/zero; printf '\\377end'")});
    assert_int_equal(w.out.len, 5 * MIB + 4);
    assert_memory_equal(w.out.data + 5 * MIB, "\377end", 4);
    watch_done(&w);

    struct error err = ERROR_INIT;
    watch_init(&w);
    w.refuse_after = 1000;
    must(begin(f, &w, (struct host_exec_plan){SHELL("head -c 1000000 /dev/zero; exit 4")}, &err),
         &err);
    wait_finished(&w);
    assert_int_equal(w.result.exit_code, 4);
    assert_in_range(w.out.len, 1000, 999999);
    watch_done(&w);

    int64_t start = clock_mono_ms();
    expect_out(f, (struct host_exec_plan){SHELL("sleep 20 & echo left")}, "left\n");
    assert_in_range(clock_mono_ms() - start, 190, 5000);
}

static void test_long_argument(void **state)
{
    struct fixture *f = *state;
    char text[64 * 1024 + 1];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    expect_out(f, (struct host_exec_plan){ARGV("printf", "%s", text)}, text);
    struct error err = ERROR_INIT;
    struct watch w;
    watch_init(&w);
    assert_int_equal(begin(f, &w, (struct host_exec_plan){ARGV("echo", "\xff")}, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    watch_done(&w);
}

static void test_runner_killed_from_inside(void **state)
{
    struct fixture *f = *state;
    struct watch w;
    run(f, &w, (struct host_exec_plan){SHELL("echo before; sleep 0.2; kill -9 -1")});
    assert_true(w.result.started && !w.result.lost);
    assert_int_equal(w.result.exit_code, 137);
    assert_string_equal(w.result.detail, "the command's runner was killed from inside");
    assert_string_equal(buf_str(&w.out), "before\n");
    watch_done(&w);
    expect_out(f, (struct host_exec_plan){ARGV("echo", "usable")}, "usable\n");
}

static void test_paused_stopped_gone(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct watch w;
    watch_init(&w);
    assert_int_equal(container_do(f, "pause"), 204);
    assert_int_equal(begin(f, &w, (struct host_exec_plan){ARGV("true")}, &err), -1);
    assert_int_equal(err.code, ERROR_OVERLOADED);
    assert_non_null(strstr(err.detail, "paused"));
    assert_int_equal(err.phase, PHASE_EXEC);
    assert_int_equal(container_do(f, "unpause"), 204);
    must(begin(f, &w, (struct host_exec_plan){SHELL("echo on; sleep 60")}, &err), &err);
    sleep_ms(300);
    assert_int_equal(container_do(f, "kill"), 204);
    wait_finished(&w);
    assert_true(w.result.lost);
    assert_int_equal(w.result.exit_code, -1);
    assert_string_equal(buf_str(&w.out), "on\n");
    watch_done(&w);
    error_clear(&err);
    watch_init(&w);
    assert_int_equal(begin(f, &w, (struct host_exec_plan){ARGV("true")}, &err), -1);
    assert_int_equal(err.code, ERROR_RUNTIME);
    assert_non_null(strstr(err.detail, "not running"));
    watch_done(&w);
}

static void test_memory_kill(void **state)
{
    struct fixture *f = *state;
    struct watch w;
    int64_t start = clock_mono_ms();
    /* The leader would go on for long and ends well; the kill of its child ends it at once. */
    run(f, &w, (struct host_exec_plan){SHELL("tail -c 200000000 /dev/zero; sleep 20; exit 0")});
    assert_true(w.result.started && w.result.oom);
    assert_true(clock_mono_ms() - start < 10000);
    assert_true(w.result.memory_peak_bytes > 8 * MIB);
    watch_done(&w);
    expect_out(f, (struct host_exec_plan){ARGV("echo", "lives")}, "lives\n");
    /* A workspace that outgrows the memory takes the program, not the idle process or the runner.
     */
    run(f, &w, (struct host_exec_plan){SHELL("cat /dev/zero >fill; sleep 20")});
    if (!w.result.started || !w.result.oom) {
        fail_msg("lost %d, exit code %d, %s", w.result.lost, w.result.exit_code, w.result.detail);
    }
    watch_done(&w);
}

static void test_no_process_left(void **state)
{
    struct fixture *f = *state;
    struct watch w;
    /* Fills up once the runner of this command has gone and left its place. */
    run(f, &w,
        (struct host_exec_plan){SHELL(
            "(sleep 0.6; i=0; while [ $i -lt 40 ]; do sleep 3 & i=$((i+1)); done) 2>/dev/null &")});
    watch_done(&w);
    sleep_ms(900);
    run(f, &w, (struct host_exec_plan){ARGV("true")});
    if (w.result.started) {
        fail_msg("started with no process left: exit code %d", w.result.exit_code);
    }
    assert_true(!w.result.lost && w.result.exit_code == 126 && w.result.detail[0] != '\0');
    watch_done(&w);
    sleep_ms(3500);
    expect_out(f, (struct host_exec_plan){ARGV("echo", "usable")}, "usable\n");
}

/* --- loads --- */

struct content {
    size_t mebibytes;
    enum error_code fail_with;
};

static int feed_entry(struct workspace_sink *sink, struct workspace_entry entry, const char *data,
                      struct error *err)
{
    if (sink->ops->begin(sink, &entry, err) != 0) {
        return -1;
    }
    if (data != NULL && sink->ops->data(sink, 0, data, strlen(data), err) != 0) {
        return -1;
    }
    return sink->ops->end(sink, err);
}

static int feed_large(struct workspace_sink *sink, size_t mebibytes, struct error *err)
{
    struct workspace_entry entry = {
        .type = WORKSPACE_FILE, .path = "large", .mode = 0600, .size = (int64_t)mebibytes * MIB};
    _cleanup_free_ char *piece = malloc(MIB);
    assert_non_null(piece);
    memset(piece, 'p', MIB);
    if (sink->ops->begin(sink, &entry, err) != 0) {
        return -1;
    }
    for (size_t i = 0; i < mebibytes; i++) {
        if (sink->ops->data(sink, (int64_t)i * MIB, piece, MIB, err) != 0) {
            return -1;
        }
    }
    return sink->ops->end(sink, err);
}

static int feed(void *ctx, struct workspace_sink *sink, struct error *err)
{
    const struct content *content = ctx;
    static const struct {
        struct workspace_entry entry;
        const char *data;
    } rows[] = {
        {{WORKSPACE_DIRECTORY, "dir", NULL, 0750, 0, 1600000000000000000}, NULL},
        {{WORKSPACE_FILE, "dir/file", NULL, 0640, 7, 1700000000000000000}, "content"},
        {{WORKSPACE_SPECIAL, "dir/fifo", NULL, 0600, 0, 0}, NULL},
        {{WORKSPACE_HARDLINK, "dir/same", "dir/file", 0640, 0, 0}, NULL},
        {{WORKSPACE_SYMLINK, "link", "dir/file", 0777, 0, 0}, NULL},
        {{WORKSPACE_FILE, "sparse", NULL, 0600, 1LL << 34, 0}, NULL},
    };
    if (content->fail_with != ERROR_NONE) {
        return error_set(err, content->fail_with, "the source is bad");
    }
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (feed_entry(sink, rows[i].entry, rows[i].data, err) != 0) {
            return -1;
        }
    }
    return content->mebibytes == 0 ? 0 : feed_large(sink, content->mebibytes, err);
}

static int load(struct fixture *f, struct content *content, struct cancel *cancel,
                struct error *err)
{
    struct docker_load l = {.deadline_mono_ms = clock_mono_ms() + 30000,
                            .cancel = cancel,
                            .feed = feed,
                            .ctx = content};
    error_clear(err);
    return docker_process_load(&f->context, &l, err);
}

static void test_load(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    must(load(f, &(struct content){.mebibytes = 16}, NULL, &err), &err);
    expect_out(f,
               (struct host_exec_plan){
                   SHELL("cd /workspace; cat link; echo; stat -c '%a %u %h %Y' dir/file;"
                         "stat -c '%a %Y' dir; stat -c '%s %b' sparse; stat -c %s large; ls dir")},
               "content\n640 65532 2 1700000000\n750 1600000000\n17179869184 0\n16777216\n"
               "file\nsame\n");
}

static void test_load_that_does_not_fit(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(load(f, &(struct content){.mebibytes = 64}, NULL, &err), -1);
    if (err.code != ERROR_RESOURCE_LIMIT) {
        fail_msg("%s: %s", error_code_name(err.code), err.detail);
    }
    assert_non_null(strstr(err.detail, "does not fit"));
}

static void test_load_that_fails(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(load(f, &(struct content){.fail_with = ERROR_CHECKPOINT_INVALID}, NULL, &err),
                     -1);
    assert_int_equal(err.code, ERROR_CHECKPOINT_INVALID);
    must(load(f, &(struct content){0}, NULL, &err), &err);
    assert_int_equal(load(f, &(struct content){0}, NULL, &err), -1); /* it is there already */
    assert_int_equal(err.code, ERROR_RUNTIME);
    assert_non_null(strstr(err.detail, "dir/file"));
    struct cancel *cancel = NULL;
    must(cancel_new(&cancel, &err), &err);
    cancel_fire(cancel);
    assert_int_equal(load(f, &(struct content){.mebibytes = 16}, cancel, &err), -1);
    cancel_unref(cancel);
}

/* --- the group --- */

static int setup_sized(void **state, json_int_t memory, json_int_t pids)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    container_start(f, memory, pids);
    f->context = (struct docker_process_context){.engine = f->engine,
                                                 .loop = f->loop,
                                                 .running = f->running,
                                                 .pool = f->pool,
                                                 .container = f->container,
                                                 .user = "65532:65532"};
    must(docker_process_install_guest(&f->context, NULL, &err), &err);
    return 0;
}

static int setup(void **state)
{
    return setup_sized(state, 128 * MIB, 64);
}

static int setup_small(void **state)
{
    return setup_sized(state, 16 * MIB, 64);
}

static int setup_few(void **state)
{
    return setup_sized(state, 128 * MIB, 24);
}

static int teardown(void **state)
{
    container_remove(*state);
    return 0;
}

static int setup_group(void **state)
{
    static struct fixture f;
    struct error err = ERROR_INIT;
    struct engine_version version;
    must(engine_new(setting("EXECHOST_TEST_SOCKET", "/var/run/docker.sock"), &f.engine, &err),
         &err);
    must(engine_negotiate(f.engine, &version, &err), &err);
    must(engine_loop_new(f.engine, &f.loop, &err), &err);
    must(docker_running_new(f.loop, &f.running, &err), &err);
    must(pool_new(4, 16, &f.pool, &err), &err);
    *state = &f;
    return 0;
}

static int teardown_group(void **state)
{
    struct fixture *f = *state;
    engine_loop_free(f->loop);
    docker_running_free(f->running);
    pool_free(f->pool);
    engine_free(f->engine);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_surroundings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_input, setup, teardown),
        cmocka_unit_test_setup_teardown(test_output, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_argument, setup, teardown),
        cmocka_unit_test_setup_teardown(test_runner_killed_from_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_paused_stopped_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_kill, setup_small, teardown),
        cmocka_unit_test_setup_teardown(test_no_process_left, setup_few, teardown),
        cmocka_unit_test_setup_teardown(test_load, setup, teardown),
        cmocka_unit_test_setup_teardown(test_load_that_does_not_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_load_that_does_not_fit, setup_small, teardown),
        cmocka_unit_test_setup_teardown(test_load_that_fails, setup, teardown),
    };
    return cmocka_run_group_tests(tests, setup_group, teardown_group);
}
