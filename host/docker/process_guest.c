/* The helper inside as the other end of a conversation: an exec whose stream the engine
 * multiplexes. */
#include "host/docker/process.h"
#include "host/docker/process_exec.h"
#include "host/docker/process_mux.h"

#include <string.h>

enum { ARGUMENTS_MAX = 8, KILLED = 137 };

struct talk {
    struct docker_process_context context; /* strings are those below */
    char *container;
    char *user;
    bool alone;
    struct docker_exec exec;
    struct process_mux mux;
};

static ssize_t unwrap(void *ctx, uint8_t *data, size_t len)
{
    struct talk *t = ctx;
    docker_exec_heard(&t->exec);
    return process_mux_unwrap(&t->mux, data, len);
}

/* --- the end --- */

static int report_over(void *ctx, struct error *err)
{
    struct talk *t = ctx;
    struct docker_exec_end end;
    docker_exec_heard(&t->exec);
    docker_exec_ask(&t->context, t->exec.id, &end);
    if (t->exec.held && end.container_lives && (!t->mux.spoken || t->mux.foreign)) {
        return error_set(err, ERROR_OVERLOADED,
                         "a program inside stopped the helper before it had started");
    }
    if (end.known && end.exit_code == KILLED) {
        return error_set(err, ERROR_RESOURCE_LIMIT, "%s",
                         t->alone ? "the content does not fit into the memory limit"
                                  : "the helper inside was killed: for memory, or by a program");
    }
    if (end.known && t->mux.foreign) {
        /* In a container that lives it is what programs have used up that is missing. */
        return error_set(err, ERROR_RESOURCE_LIMIT,
                         "no helper can be started within the execution's limits: %s", t->mux.text);
    }
    return error_set(err, ERROR_RUNTIME, "%s%s%s",
                     end.container_lives ? "the helper inside ended without an answer"
                                         : "the container has ended meanwhile",
                     t->mux.text[0] != '\0' ? ": " : "", t->mux.text);
}

static void talk_free(void *ctx)
{
    struct talk *t = ctx;
    docker_exec_done(&t->exec);
    free(t->container);
    free(t->user);
    free(t);
}

/* --- the start --- */

static int open_exec(struct talk *t, const struct host_guest_call *call, struct error *err)
{
    const char *command[ARGUMENTS_MAX + 2] = {GUEST_PATH};
    size_t count = 1;
    for (const char *const *word = call->argv; *word != NULL && count <= ARGUMENTS_MAX; word++) {
        command[count++] = *word;
    }
    const struct docker_exec_spec spec = {
        .command = command, .has_stdin = true, .cancel = call->cancel};
    return docker_exec_open(&t->context, &spec, &t->exec, err);
}

int docker_process_guest(const struct docker_process_context *context,
                         const struct host_guest_call *call, struct host_guest **out,
                         struct error *err)
{
    struct talk *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    t->exec.fd = -1;
    t->alone = call->alone;
    t->container = strdup(context->container);
    t->user = strdup(context->user);
    t->context = *context;
    t->context.container = t->container;
    t->context.user = t->user;
    if (t->container == NULL || t->user == NULL) {
        talk_free(t);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (open_exec(t, call, err) != 0) {
        talk_free(t);
        return -1;
    }
    const struct host_guest_ends ends = {
        .in = t->exec.fd,
        .out = t->exec.fd,
        .early = t->exec.early.data,
        .early_len = t->exec.early.len,
        .unwrap = unwrap,
        .over = report_over,
        .close = talk_free,
        .ctx = t,
    };
    return host_guest_new(call, &ends, out, err);
}
