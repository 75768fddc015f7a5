#include "host/docker/process_exec.h"

#include "base/clock.h"

#include <string.h>
#include <time.h>

#define WORKSPACE "/workspace"

enum { STATUS_CREATED = 201, STATUS_OK = 200, EXIT_CODE_MAX = 255 };
enum { PAUSED_MS = 10000, PAUSED_EVERY_MS = 50 };
enum { ASK_EVERY_MS = 20, GRACE_MS = 3000, SETTLE_MS = 250 };

static void cleanup_json(json_t **json)
{
    json_decref(*json);
}

static void cleanup_answer(struct engine_answer *answer)
{
    engine_answer_done(answer);
}

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

/* --- create and start --- */

static int append_strings(json_t *array, const char *const *strings)
{
    for (; strings != NULL && *strings != NULL; strings++) {
        if (json_array_append_new(array, json_string(*strings)) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Returns owned, or NULL: out of memory or a string that is not UTF-8. */
static json_t *create_body(const char *user, const struct docker_exec_spec *spec)
{
    json_t *command = json_array();
    json_t *environment = json_array();
    if (append_strings(command, spec->command) != 0 ||
        append_strings(command, spec->arguments) != 0 ||
        append_strings(environment, spec->environment) != 0) {
        json_decref(command);
        json_decref(environment);
        return NULL;
    }
    return json_pack("{s:b,s:b,s:b,s:b,s:s,s:s,s:o,s:o}", "AttachStdin", spec->has_stdin,
                     "AttachStdout", 1, "AttachStderr", 1, "Tty", 0, "User", user, "WorkingDir",
                     WORKSPACE, "Env", environment, "Cmd", command);
}

static bool is_exec_id(const char *id)
{
    size_t len = id != NULL ? strlen(id) : 0;
    return len > 0 && len < DOCKER_EXEC_ID_SIZE && strspn(id, "0123456789abcdef") == len;
}

static int create(const struct docker_process_context *context, const struct docker_exec_spec *spec,
                  char id[DOCKER_EXEC_ID_SIZE], struct error *err)
{
    _cleanup_buf_ struct buf path;
    buf_init(&path, 1024);
    _cleanup_(cleanup_json) json_t *body = create_body(context->user, spec);
    if (body == NULL) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "an argument or a variable is not valid UTF-8");
    }
    if (buf_addf(&path, "/containers/%s/exec", context->container) != 0) {
        return error_set(err, ERROR_INTERNAL, "the container's name is too long");
    }
    struct engine_request request = {
        .method = "POST", .path = buf_str(&path), .body = body, .cancel = spec->cancel};
    _cleanup_(cleanup_answer) struct engine_answer answer = {0};
    if (engine_call(context->engine, &request, &answer, err) != 0) {
        return -1;
    }
    char scratch[64];
    const char *created = json_string_value(json_object_get(answer.json, "Id"));
    if (answer.status != STATUS_CREATED || !is_exec_id(created)) {
        bool paused =
            strstr(engine_answer_message(&answer, scratch, sizeof(scratch)), "is paused") != NULL;
        return error_set(err, paused ? ERROR_OVERLOADED : ERROR_RUNTIME,
                         "the engine does not run programs in the container: %s",
                         engine_answer_message(&answer, scratch, sizeof(scratch)));
    }
    memcpy(id, created, strlen(created) + 1);
    return 0;
}

/* An engine under load may say that a container is paused which it has let go on: it hears late of
 * the pause itself. */
static int create_unpaused(const struct docker_process_context *context,
                           const struct docker_exec_spec *spec, char id[DOCKER_EXEC_ID_SIZE],
                           struct error *err)
{
    int64_t until = clock_mono_ms() + PAUSED_MS;
    int result;
    while ((result = create(context, spec, id, err)) != 0 && err->code == ERROR_OVERLOADED &&
           clock_mono_ms() < until && !cancel_fired(spec->cancel)) {
        sleep_ms(PAUSED_EVERY_MS);
    }
    return result;
}

static int start(const struct docker_process_context *context, struct cancel *cancel,
                 struct docker_exec *exec, struct error *err)
{
    _cleanup_buf_ struct buf path;
    buf_init(&path, 256);
    _cleanup_(cleanup_json) json_t *body = json_pack("{s:b,s:b}", "Detach", 0, "Tty", 0);
    if (body == NULL || buf_addf(&path, "/exec/%s/start", exec->id) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    struct engine_request request = {
        .method = "POST", .path = buf_str(&path), .body = body, .cancel = cancel};
    return engine_hijack(context->engine, &request, &exec->fd, &exec->early, err);
}

int docker_exec_open(const struct docker_process_context *context,
                     const struct docker_exec_spec *spec, struct docker_exec *out,
                     struct error *err)
{
    struct docker_exec exec = {.fd = -1};
    buf_init(&exec.early, DOCKER_EXEC_EARLY_MAX);
    exec.wait = stuck_wait_begin(context->stuck, context->container, STUCK_LIFE);
    if (create_unpaused(context, spec, exec.id, err) != 0 ||
        start(context, spec->cancel, &exec, err) != 0) {
        docker_exec_done(&exec);
        return error_in_phase(err, PHASE_EXEC);
    }
    *out = exec;
    return 0;
}

void docker_exec_done(struct docker_exec *exec)
{
    cleanup_close(&exec->fd);
    exec->fd = -1;
    buf_done(&exec->early);
    docker_exec_heard(exec);
}

void docker_exec_heard(struct docker_exec *exec)
{
    if (stuck_wait_end(&exec->wait)) {
        exec->held = true;
    }
}

/* --- ask --- */

/* GET of a small object; NULL (and nothing said) when there is none. Returns owned. */
static json_t *get_object(struct engine *engine, const char *collection, const char *name)
{
    struct error ignored = ERROR_INIT;
    _cleanup_buf_ struct buf path;
    buf_init(&path, 1024);
    if (buf_add_str(&path, collection) != 0 || buf_add_str(&path, name) != 0 ||
        buf_add_str(&path, "/json") != 0) {
        return NULL;
    }
    struct engine_request request = {.method = "GET", .path = buf_str(&path)};
    _cleanup_(cleanup_answer) struct engine_answer answer = {0};
    if (engine_call(engine, &request, &answer, &ignored) != 0 || answer.status != STATUS_OK) {
        return NULL;
    }
    return json_incref(answer.json);
}

/* True when the exec has ended and its exit code is known. */
static bool wait_exit_code(struct engine *engine, const char *exec_id, int64_t until,
                           int *exit_code)
{
    while (clock_mono_ms() < until) {
        _cleanup_(cleanup_json) json_t *exec = get_object(engine, "/exec/", exec_id);
        if (exec == NULL) {
            return false;
        }
        const json_t *code = json_object_get(exec, "ExitCode");
        if (json_is_false(json_object_get(exec, "Running"))) {
            json_int_t value = json_integer_value(code);
            *exit_code = (int)value;
            return json_is_integer(code) && value >= 0 && value <= EXIT_CODE_MAX;
        }
        sleep_ms(ASK_EVERY_MS);
    }
    return false;
}

static bool is_container_running(struct engine *engine, const char *container)
{
    _cleanup_(cleanup_json) json_t *object = get_object(engine, "/containers/", container);
    const json_t *state = json_object_get(object, "State");
    return json_is_true(json_object_get(state, "Running")) &&
           !json_is_true(json_object_get(state, "Dead"));
}

void docker_exec_ask(const struct docker_process_context *context, const char *exec_id,
                     struct docker_exec_end *out)
{
    _cleanup_stuck_wait_ struct stuck_wait *wait =
        stuck_wait_begin(context->stuck, context->container, STUCK_LIFE);
    struct docker_exec_end end = {0};
    int64_t until = clock_mono_ms() + (context->grace_ms > 0 ? context->grace_ms : GRACE_MS);
    bool has_code = wait_exit_code(context->engine, exec_id, until, &end.exit_code);
    /* A container that is being killed takes its programs along before it is seen as ended itself.
     */
    sleep_ms(SETTLE_MS);
    end.container_lives = is_container_running(context->engine, context->container);
    end.known = has_code && end.container_lives;
    *out = end;
}
