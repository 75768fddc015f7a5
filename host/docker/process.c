#include "host/docker/process.h"

#include "host/docker/process_exec.h"
#include "host/docker/process_frames.h"
#include "host/docker/process_result.h"
#include "host/docker/process_running.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* Pieces read in one go of the loop, so that one loud program does not keep the others waiting. */
enum { READ_PIECE = 64 * 1024, READ_PIECES = 8 };

struct process {
    struct running running;
    struct docker_running *list;
    struct engine *engine;
    struct pool *pool;
    struct stuck *stuck;
    int64_t grace_ms;
    struct host_exec_events events;
    struct docker_exec exec;
    struct frames frames;
    char *command;
    char *cwd;
    bool sends; /* something can be sent now */
    bool muted; /* the receiver takes no more output */
    bool begun; /* the guest has said something */
    bool has_result;
    struct host_exec_result result;
};

static void process_free(struct process *p)
{
    if (p == NULL) {
        return;
    }
    docker_exec_done(&p->exec);
    host_input_done(&p->running.input);
    free(p->running.container);
    free(p->running.command_id);
    free(p->command);
    free(p->cwd);
    free(p);
}

static void cleanup_process(struct process **p)
{
    process_free(*p);
}

static void finish(struct process *p)
{
    struct host_exec_events events = p->events;
    struct host_exec_result result = p->result;
    process_free(p);
    events.finished(events.ctx, &result);
}

/* --- what the guest says --- */

static void on_output(void *ctx, enum guest_frame_type type, const void *data, size_t len)
{
    struct process *p = ctx;
    enum host_stream stream = type == GUEST_STDOUT ? HOST_STDOUT : HOST_STDERR;
    if (!p->muted) {
        p->muted = !p->events.output(p->events.ctx, stream, data, len);
    }
}

static void set_lost(struct process *p, const char *why, const char *more)
{
    process_result_lost(&p->result, why, more);
    p->has_result = true;
}

static void on_exit_frame(struct process *p, const uint8_t *payload)
{
    struct guest_exit exit;
    if (frames_decode_exit(payload, &exit) != 0) {
        set_lost(p, "the command's runner sent an impossible result", "");
        return;
    }
    process_result_from_exit(&p->result, &exit, p->command, p->cwd);
    p->has_result = true;
}

static void on_taken(struct process *p, uint32_t len)
{
    running_lock(p->list);
    bool sound = host_input_taken(&p->running.input, len) == 0;
    p->sends = host_input_ready(&p->running.input);
    running_unlock(p->list);
    if (!sound) {
        set_lost(p, "the command's runner took more input than it was sent", "");
    }
}

static void on_control(void *ctx, enum guest_frame_type type, const uint8_t *payload, size_t len)
{
    struct process *p = ctx;
    p->begun = true;
    if (type == GUEST_EXIT) {
        on_exit_frame(p, payload);
    } else if (type == GUEST_FAILED) {
        char text[128];
        char more[256];
        int errnum = frames_decode_failed(payload, len, text, sizeof(text));
        (void)snprintf(more, sizeof(more), "%s: %s", text, error_errno_text(errnum));
        set_lost(p, "the command's runner failed", more);
    } else if (type == GUEST_STDIN_TAKEN) {
        on_taken(p, guest_get_u32(payload));
    } else if (type != GUEST_STARTED) {
        set_lost(p, "the command's runner sent a frame out of place", "");
    }
}

static void feed(struct process *p, const void *data, size_t len)
{
    docker_exec_heard(&p->exec);
    if (!p->has_result && frames_feed(&p->frames, data, len) != 0) {
        set_lost(p, "the command's stream is broken", p->frames.fault);
    }
}

/* --- the stream --- */

/* False when the stream is at its end. */
static bool read_stream(struct process *p, int fd)
{
    char data[READ_PIECE];
    for (int i = 0; i < READ_PIECES && !p->has_result; i++) {
        ssize_t n = read(fd, data, sizeof(data));
        if (n > 0) {
            feed(p, data, (size_t)n);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        } else {
            return false;
        }
    }
    return true;
}

static void write_input(struct process *p, int fd)
{
    struct host_input *in = &p->running.input;
    const void *data;
    size_t len;
    running_lock(p->list);
    while ((data = host_input_next(in, &len)) != NULL) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            host_input_sent(in, (size_t)n);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            /* Nobody takes it any more; how the command ended is told by the other direction. */
            host_input_drop(in);
        }
    }
    p->sends = host_input_ready(in);
    running_unlock(p->list);
}

static void ask_engine(void *arg)
{
    struct process *p = arg;
    struct docker_exec_end end;
    const struct docker_process_context context = {.engine = p->engine,
                                                   .stuck = p->stuck,
                                                   .grace_ms = p->grace_ms,
                                                   .container = p->running.container};
    docker_exec_ask(&context, p->exec.id, &end);
    end.held = p->exec.held && !p->begun;
    process_result_from_end(&p->result, &end, frames_text(&p->frames));
    finish(p);
}

static short on_ready(void *ctx, int fd, short revents)
{
    struct process *p = ctx;
    if (p->exec.early.len > 0) {
        feed(p, p->exec.early.data, p->exec.early.len);
        buf_done(&p->exec.early);
        buf_init(&p->exec.early, 0);
    }
    if (revents & POLLOUT) {
        write_input(p, fd);
    }
    bool open = true;
    if (revents & (POLLIN | POLLHUP | POLLERR)) {
        open = read_stream(p, fd);
    }
    if (p->has_result) {
        running_remove(p->list, &p->running);
        finish(p);
        return 0;
    }
    if (!open) {
        running_remove(p->list, &p->running);
        docker_exec_heard(&p->exec);
        /* The question blocks, and this thread serves every other command. */
        close(TAKE_FD(p->exec.fd));
        pool_submit_always(p->pool, ask_engine, p);
        return 0;
    }
    return (short)(POLLIN | (p->sends ? POLLOUT : 0));
}

/* The loop ends, and with it what could have been heard of the command. */
static void on_dropped(void *ctx, int fd)
{
    struct process *p = ctx;
    (void)fd; /* closed with the exec it belongs to */
    running_remove(p->list, &p->running);
    set_lost(p, "the service stopped while the command was running", "");
    finish(p);
}

/* --- start --- */

static int copy_plan(struct process *p, const struct docker_process_context *context,
                     const struct host_exec_plan *plan, struct error *err)
{
    const struct host_input_begin begin = {.has_data = plan->has_stdin,
                                           .data = plan->stdin_data,
                                           .len = plan->has_stdin ? plan->stdin_len : 0,
                                           .open = plan->stdin_open};
    p->running.container = strdup(context->container);
    p->running.command_id = plan->command_id == NULL ? NULL : strdup(plan->command_id);
    p->command = strdup(plan->argv[0]);
    p->cwd = strdup(plan->cwd);
    if (p->running.container == NULL || p->command == NULL || p->cwd == NULL ||
        (plan->command_id != NULL && p->running.command_id == NULL)) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return host_input_init(&p->running.input, &begin, err);
}

static int process_new(const struct docker_process_context *context,
                       const struct host_exec_plan *plan, const struct host_exec_events *events,
                       struct process **out, struct error *err)
{
    _cleanup_(cleanup_process) struct process *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    p->exec.fd = -1;
    p->list = context->running;
    p->engine = context->engine;
    p->pool = context->pool;
    p->stuck = context->stuck;
    p->grace_ms = context->grace_ms;
    p->events = *events;
    struct frames_events handlers = {.output = on_output, .control = on_control, .ctx = p};
    frames_init(&p->frames, &handlers);
    if (copy_plan(p, context, plan, err) != 0) {
        return -1;
    }
    *out = TAKE_PTR(p);
    return 0;
}

static int open_exec(const struct docker_process_context *context,
                     const struct host_exec_plan *plan, struct docker_exec *out, struct error *err)
{
    const char *command[7] = {GUEST_PATH, "run"};
    size_t count = 2;
    if (plan->has_stdin || plan->stdin_open) {
        command[count++] = "--stdin";
    }
    if (plan->cwd[0] != '\0') {
        command[count++] = "--cwd";
        command[count++] = plan->cwd;
    }
    command[count] = "--";
    struct docker_exec_spec spec = {.command = command,
                                    .arguments = plan->argv,
                                    .environment = plan->environment,
                                    .has_stdin = true}; /* signals come by it */
    return docker_exec_open(context, &spec, out, err);
}

int docker_process_start(const struct docker_process_context *context,
                         const struct host_exec_plan *plan, const struct host_exec_events *events,
                         struct error *err)
{
    _cleanup_(cleanup_process) struct process *p = NULL;
    if (process_new(context, plan, events, &p, err) != 0 ||
        open_exec(context, plan, &p->exec, err) != 0) {
        return -1;
    }
    struct engine_stream_events handler = {.ready = on_ready, .dropped = on_dropped, .ctx = p};
    if (running_add(p->list, &p->running, context->loop, p->exec.fd, &handler, err) != 0) {
        return -1;
    }
    p = NULL;
    return 0;
}
