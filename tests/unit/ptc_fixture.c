#include "ptc_fixture.h"

#include "base/file.h"

#include <string.h>

enum { MIB = 1024 * 1024 };

struct ptc_engine *ptc_engine;
char ptc_data[] = "/tmp/exechost-ptc-test-XXXXXX";
static char *node;

void ptc_test_config(struct ptc_engine_config *config)
{
    struct error err = ERROR_INIT;
    if (node == NULL) {
        node = ptc_find_node(NULL, PTC_TEST_NODE, &err);
    }
    *config = (struct ptc_engine_config){
        .node = node,
        .bwrap = "/usr/bin/bwrap",
        .hidden = ptc_data,
        .first_uid = 1300000000U + (uint32_t)getpid() % 100000 * 256,
        .uid_count = 256,
        .message_max = 128L * MIB,
        .pending_calls_max = 128,
        .grace_ms = 3000,
        .pool_size = 1,
        .pool_max = 4,
        .rules = {.timeout_default_ms = 60000,
                  .timeout_max_ms = 100000,
                  .mode = PTC_READ_ONLY,
                  .limits = {1024L * MIB, 256, 60000, 512L * MIB, 64L * MIB},
                  .limits_max = {2048L * MIB, 512, 60000, 1024L * MIB, 64L * MIB}},
    };
}

int ptc_engine_setup(void **state)
{
    struct ptc_engine_config config;
    struct error err = ERROR_INIT;
    (void)state;
    if (mkdtemp(ptc_data) == NULL) {
        return -1;
    }
    ptc_test_config(&config);
    if (ptc_engine_new(&config, &ptc_engine, &err) != 0) {
        return -1;
    }
    if (ptc_engine_enforcement(ptc_engine) == PTC_ENFORCEMENT_NONE) {
        print_error("no sandbox: %s\n", ptc_engine_reason(ptc_engine));
        return -1;
    }
    return 0;
}

int ptc_engine_teardown(void **state)
{
    struct error err = ERROR_INIT;
    (void)state;
    ptc_engine_free(ptc_engine);
    free(node);
    return dir_remove(ptc_data, &err);
}

/* --- events --- */

static void on_started(void *ctx)
{
    struct ptc_seen *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->started++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void on_log(void *ctx, struct ptc_text entry)
{
    struct ptc_seen *s = ctx;
    pthread_mutex_lock(&s->lock);
    (void)!buf_add(&s->log, entry.data, entry.len);
    (void)!buf_add_char(&s->log, '\n');
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void on_call(void *ctx, int64_t id, struct ptc_text global, struct ptc_text function,
                    struct ptc_text argument)
{
    struct ptc_seen *s = ctx;
    struct error err = ERROR_INIT;
    pthread_mutex_lock(&s->lock);
    s->calls++;
    buf_reset(&s->last);
    (void)!buf_addf(&s->last, "%.*s %.*s ", (int)global.len, global.data, (int)function.len,
                    function.data);
    (void)!buf_add(&s->last, argument.data, argument.len < 1000 ? argument.len : 1000);
    struct ptc_run *run = s->echo ? s->run : NULL;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (run != NULL) {
        struct ptc_answer answer = {.ok = true, .payload = argument};
        assert_int_equal(ptc_run_answer(run, id, &answer, &err), 0);
    }
}

static void on_settled(void *ctx, int64_t id, bool cancelled)
{
    struct ptc_seen *s = ctx;
    (void)id;
    pthread_mutex_lock(&s->lock);
    s->settled++;
    s->cancelled += cancelled;
    pthread_mutex_unlock(&s->lock);
}

static void on_result(void *ctx, const struct ptc_result *result)
{
    struct ptc_seen *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->results++;
    s->kind = result->kind;
    s->logs = strndup(result->logs.data, result->logs.len);
    s->value = strndup(result->value.len == 0 ? "" : result->value.data, result->value.len);
    s->message = strndup(result->message.len == 0 ? "" : result->message.data, result->message.len);
    s->denied = result->denied;
    s->enforcement = result->enforcement;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* --- runs --- */

void ptc_test_spec(const char *program, const char *members, struct ptc_spec *spec)
{
    static const char *const no_roots[] = {"/tmp", NULL};
    struct ptc_engine_config config;
    struct ptc_scope scope = {.workspace_roots = no_roots, .untimed = true};
    struct error err = ERROR_INIT;
    struct buf text;
    buf_init(&text, 8UL * MIB);
    ptc_test_config(&config);
    config.rules.allow_danger = true;
    assert_int_equal(buf_add_str(&text, "{\"description\":\"test\",\"program\":"), 0);
    assert_int_equal(ptc_json_quote((struct ptc_text){program, strlen(program)}, &text), 0);
    assert_int_equal(buf_addf(&text, "%s}", members), 0);
    json_t *request = json_loads(buf_str(&text), 0, NULL);
    assert_non_null(request);
    if (ptc_resolve(request, &config.rules, &scope, spec, &err) != 0) {
        fail_msg("%s: %s", err.field, err.detail);
    }
    json_decref(request);
    buf_done(&text);
}

void ptc_test_start(struct ptc_seen *seen, const char *program, const char *members)
{
    static const struct ptc_run_events events = {on_started, on_log, on_call, on_settled,
                                                 on_result};
    struct ptc_spec spec;
    struct error err = ERROR_INIT;
    bool echo = seen->echo;
    *seen = (struct ptc_seen){.echo = echo};
    pthread_mutex_init(&seen->lock, NULL);
    pthread_cond_init(&seen->changed, NULL);
    buf_init(&seen->log, 64UL * MIB);
    buf_init(&seen->last, 4096);
    ptc_test_spec(program, members, &spec);
    struct ptc_run *run = NULL;
    pthread_mutex_lock(&seen->lock);
    int result = ptc_run_start(ptc_engine, &spec, &events, seen, &run, &err);
    seen->run = run;
    pthread_mutex_unlock(&seen->lock);
    if (result != 0) {
        fail_msg("%s", err.detail);
    }
    ptc_spec_done(&spec);
}

void ptc_test_wait(struct ptc_seen *seen)
{
    pthread_mutex_lock(&seen->lock);
    while (seen->results == 0) {
        pthread_cond_wait(&seen->changed, &seen->lock);
    }
    pthread_mutex_unlock(&seen->lock);
}

void ptc_test_wait_calls(struct ptc_seen *seen, int count)
{
    pthread_mutex_lock(&seen->lock);
    while (seen->calls < count && seen->results == 0) {
        pthread_cond_wait(&seen->changed, &seen->lock);
    }
    pthread_mutex_unlock(&seen->lock);
}

void ptc_test_wait_started(struct ptc_seen *seen)
{
    pthread_mutex_lock(&seen->lock);
    while (seen->started == 0 && seen->results == 0) {
        pthread_cond_wait(&seen->changed, &seen->lock);
    }
    pthread_mutex_unlock(&seen->lock);
}

void ptc_test_wait_log(struct ptc_seen *seen)
{
    pthread_mutex_lock(&seen->lock);
    while (seen->log.len == 0 && seen->results == 0) {
        pthread_cond_wait(&seen->changed, &seen->lock);
    }
    pthread_mutex_unlock(&seen->lock);
}

void ptc_test_run(struct ptc_seen *seen, const char *program, const char *members)
{
    ptc_test_start(seen, program, members);
    ptc_test_wait(seen);
}

void ptc_test_done(struct ptc_seen *seen)
{
    assert_int_equal(seen->results, 1);
    assert_int_equal(seen->calls, seen->settled);
    ptc_run_release(seen->run);
    buf_done(&seen->log);
    buf_done(&seen->last);
    free(seen->logs);
    free(seen->value);
    free(seen->message);
    pthread_cond_destroy(&seen->changed);
    pthread_mutex_destroy(&seen->lock);
}

void ptc_assert_value(const char *program, const char *value)
{
    struct ptc_seen seen = {.echo = true};
    ptc_test_run(&seen, program, "");
    if (seen.kind != PTC_OK || strcmp(seen.value, value) != 0) {
        fail_msg("%s: %s %s %s", program, seen.kind == PTC_OK ? "" : ptc_error_kind_name(seen.kind),
                 seen.message, seen.value);
    }
    ptc_test_done(&seen);
}

void ptc_assert_fails(const char *program, const char *members, enum ptc_error_kind kind,
                      const char *part)
{
    struct ptc_seen seen = {.echo = true};
    ptc_test_run(&seen, program, members);
    if (seen.kind != kind || strstr(seen.message, part) == NULL) {
        fail_msg("%s: %s %s %s", program, seen.kind == PTC_OK ? "" : ptc_error_kind_name(seen.kind),
                 seen.message, seen.value);
    }
    ptc_test_done(&seen);
}
