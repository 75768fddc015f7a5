/* The deadline inside. What sleeps for it runs as the idle user, which no command can signal; a new
 * deadline is a new sleep beside the old ones, which are stopped, for the container ends when its
 * first process does. */
#include "base/fault.h"
#include "host/docker/docker_internal.h"

#include <inttypes.h>
#include <string.h>

/* The new sleep is there before anything else is touched: should that fail, the old deadline stays.
 * Of the idle user's other processes the container's first (its parent is init) is stopped, and
 * earlier guards are stopped, then killed (one that outlived its sleep would end everything), so
 * that any number of extensions costs two processes. Commands' processes show up in the same lists
 * and can't be signalled. */
static const char GUARD_SCRIPT[] =
    "PATH=$1\n"
    "sleep \"$2\" >/dev/null 2>&1 &\n"
    "new=$!\n"
    "first= guards=\n"
    "for stat in /proc/[0-9]*/stat; do\n"
    "  read -r pid name state parent rest <\"$stat\" || continue\n"
    "  case $pid in 1|$$|$new) continue ;; esac\n"
    "  case $parent in 1) first=\"$first $pid\" ;; *) guards=\"$guards $pid\" ;; esac\n"
    "done 2>/dev/null\n"
    "[ -z \"$first$guards\" ] || kill -s STOP $first $guards 2>/dev/null\n"
    "[ -z \"$guards\" ] || kill -s KILL $guards 2>/dev/null\n"
    "echo armed\n"
    "exec >/dev/null 2>&1\n"
    "wait \"$new\"\n"
    "kill -s KILL -1\n";

enum { GUARD_ANSWER_MAX = 4096, GUARD_TIMEOUT_MS = 15 * 1000 };

/* Names alone unset: nothing that a caller put into the environment reaches the guard. */
static json_t *unset_all(const json_t *environment)
{
    json_t *names = json_array();
    size_t i;
    const json_t *variable;

    json_array_foreach(environment, i, variable)
    {
        const char *text = json_string_value(variable);

        if (json_array_append_new(names, json_stringn(text, strcspn(text, "="))) < 0) {
            json_decref(names);
            return NULL;
        }
    }
    return names;
}

/* The script is an argument of the idle process, so is its search path. */
static const char *idle_search_path(const json_t *config)
{
    return json_string_value(json_array_get(json_object_get(config, "Entrypoint"), 4));
}

static json_t *exec_body(const struct docker_host *h, const json_t *inspection, int64_t seconds)
{
    const json_t *config = json_object_get(inspection, "Config");
    const char *path = idle_search_path(config);
    char text[24];

    if (path == NULL) {
        return NULL;
    }
    snprintf(text, sizeof(text), "%" PRId64, seconds);
    return json_pack("{s:b,s:b,s:s,s:s,s:o,s:[s,s,s,s,s,s]}", "AttachStdout", 1, "AttachStderr", 1,
                     "User", h->idle_user, "WorkingDir", "/", "Env",
                     unset_all(json_object_get(config, "Env")), "Cmd", "/bin/sh", "-c",
                     GUARD_SCRIPT, "exechost-guard", path, text);
}

/* Reads the guard's output until it says so. */
static int await_armed(struct engine_download *download, struct error *err)
{
    _cleanup_buf_ struct buf said;

    buf_init(&said, GUARD_ANSWER_MAX);
    for (;;) {
        const void *data;
        ssize_t got = engine_download_read(download, &data, err);

        if (got < 0) {
            return -1;
        }
        if (got == 0 || buf_add(&said, data, (size_t)got) < 0) {
            /* Without the 8 bytes that the engine puts in front. */
            return error_set(err, ERROR_RUNTIME, "the deadline inside could not be set: %s",
                             said.len > 8 ? said.data + 8 : "no answer");
        }
        if (memmem(said.data, said.len, "armed\n", 6) != NULL) {
            return 0;
        }
    }
}

static int start_guard(struct docker_host *h, const char *exec, struct error *err)
{
    _cleanup_json_ json_t *body = json_pack("{s:b,s:b}", "Detach", 0, "Tty", 0);
    char path[128];
    struct engine_request request = {
        .verb = "guard_start",
        .method = "POST",
        .path = path,
        .body = body,
        .timeout_ms = GUARD_TIMEOUT_MS,
    };
    struct engine_download *download;
    long status;
    int result;

    snprintf(path, sizeof(path), "/exec/%s/start", exec);
    if (engine_download_open(h->engine, &request, &download, &status, err) < 0) {
        return -1;
    }
    result = await_armed(download, err);
    engine_download_free(download);
    return result;
}

static int create_guard(struct docker_host *h, const char *container, const json_t *inspection,
                        int64_t seconds, struct engine_answer *answer, struct error *err)
{
    _cleanup_json_ json_t *body = exec_body(h, inspection, seconds);
    struct docker_call call = {.verb = "guard_create"};
    char path[128];
    struct engine_request request = {
        .verb = call.verb, .method = "POST", .path = path, .body = body};

    if (body == NULL) {
        return error_set(err, ERROR_RUNTIME, "the container was not made by this service");
    }
    snprintf(path, sizeof(path), "/containers/%s/exec", container);
    if (engine_call(h->engine, &request, answer, err) < 0) {
        return -1;
    }
    if (answer->status != 201 || !json_is_string(json_object_get(answer->json, "Id"))) {
        return docker_refused(err, &call, answer);
    }
    return 0;
}

int docker_guard_arm(struct docker_host *h, const char *container, int64_t seconds,
                     struct error *err)
{
    static const struct docker_call inspect = {.verb = "inspect", .method = "GET"};
    _cleanup_stuck_wait_ struct stuck_wait *wait =
        stuck_wait_begin(h->stuck, container, STUCK_LIFE);
    _cleanup_answer_ struct engine_answer inspection = {0};
    _cleanup_answer_ struct engine_answer created = {0};

    if (docker_call(h, &inspect, &inspection, err, "/containers/%s/json", container) < 0) {
        return -1;
    }
    if (inspection.status != 200) {
        return docker_refused(err, &inspect, &inspection);
    }
    if (create_guard(h, container, inspection.json, seconds, &created, err) < 0) {
        return -1;
    }
    return start_guard(h, json_string_value(json_object_get(created.json, "Id")), err);
}
