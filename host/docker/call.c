/* Engine calls in the shapes that the host's operations need. */
#include "host/docker/docker_internal.h"

#include <string.h>

int docker_call(struct docker_host *h, const struct docker_call *call, struct engine_answer *out,
                struct error *err, const char *fmt, ...)
{
    _cleanup_buf_ struct buf path;
    struct engine_request request = {
        .verb = call->verb,
        .method = call->method,
        .timeout_ms = call->timeout_ms,
        .cancel = call->cancel,
    };
    va_list ap;
    int failed;

    buf_init(&path, 32 * 1024);
    va_start(ap, fmt);
    failed = buf_vaddf(&path, fmt, ap);
    va_end(ap);
    if (failed < 0) {
        return error_set(err, ERROR_INTERNAL, "address of an engine call is too long");
    }
    request.path = buf_str(&path);
    return engine_call(h->engine, &request, out, err);
}

int docker_refused(struct error *err, const struct docker_call *call,
                   const struct engine_answer *answer)
{
    char scratch[32];

    return error_set(err, ERROR_RUNTIME, "engine %s: %s", call->verb,
                     engine_answer_message(answer, scratch, sizeof(scratch)));
}

static int list_by_labels(struct docker_host *h, const struct docker_call *call, const char *path,
                          const json_t *labels, struct engine_answer *out, struct error *err)
{
    _cleanup_json_ json_t *filters = json_pack("{s:O}", "label", labels);
    _cleanup_free_ char *text = json_dumps(filters, JSON_COMPACT);
    _cleanup_buf_ struct buf escaped;

    buf_init(&escaped, 16 * 1024);
    if (text == NULL || engine_escape(&escaped, text) < 0) {
        return error_set(err, ERROR_INTERNAL, "the labels to search for are too long");
    }
    if (docker_call(h, call, out, err, "%s%s", path, buf_str(&escaped)) < 0) {
        return -1;
    }
    if (out->status != 200) {
        docker_refused(err, call, out);
        engine_answer_done(out);
        return -1;
    }
    return 0;
}

int docker_list_containers(struct docker_host *h, const json_t *labels, struct engine_answer *out,
                           struct error *err)
{
    static const struct docker_call call = {.verb = "list", .method = "GET"};

    return list_by_labels(h, &call, "/containers/json?all=1&filters=", labels, out, err);
}

int docker_list_volumes(struct docker_host *h, const json_t *labels, struct engine_answer *out,
                        struct error *err)
{
    static const struct docker_call call = {.verb = "volumes", .method = "GET"};

    return list_by_labels(h, &call, "/volumes?filters=", labels, out, err);
}

static int add_label(json_t *list, const char *key, const char *value)
{
    _cleanup_buf_ struct buf text;

    buf_init(&text, 1024);
    return buf_addf(&text, "%s=%s", key, value) < 0
               ? -1
               : json_array_append_new(list, json_string(buf_str(&text)));
}

json_t *docker_identity_filter(const char *instance, const struct host_identity *id)
{
    json_t *list = json_array();
    char incarnation[16];

    snprintf(incarnation, sizeof(incarnation), "%u", id->incarnation);
    if (add_label(list, CONTAINER_LABEL_INSTANCE, instance) < 0 ||
        add_label(list, CONTAINER_LABEL_TENANT, id->tenant) < 0 ||
        add_label(list, CONTAINER_LABEL_EXECUTION, id->execution_id) < 0 ||
        add_label(list, CONTAINER_LABEL_INCARNATION, incarnation) < 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

struct docker_process_context docker_context(const struct docker_host *h, const char *container)
{
    return (struct docker_process_context){
        .engine = h->engine,
        .loop = h->loop,
        .running = h->running,
        .pool = h->pool,
        .stuck = h->stuck,
        .grace_ms = h->grace_ms,
        .container = container,
        .user = h->user,
    };
}
