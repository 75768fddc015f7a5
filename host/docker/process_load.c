#include "host/docker/process.h"

#include "base/clock.h"
#include "host/docker/process_exec.h"
#include "host/docker/process_frames.h"
#include "workspace/entry.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { BATCH_MAX = 4 * (GUEST_FRAME_HEADER + GUEST_FRAME_MAX), ENTRY_FIXED = 1 + 4 + 8 + 8 };
enum { DATA_MAX = GUEST_FRAME_MAX - 8, KILLED = 137 };

struct loader {
    struct workspace_sink sink;
    const struct docker_process_context *context;
    const struct docker_load *load;
    struct docker_exec exec;
    struct frames frames;
    bool skipping; /* the entry at hand is left out */
    bool complete; /* the end frame is on its way */
    bool done;
    bool over; /* nothing more comes from the guest */
    bool failed;
    int errnum;
    char failure[256];
    size_t batch_len;
    uint8_t batch[BATCH_MAX];
};

/* --- what comes back --- */

static void on_output(void *ctx, enum guest_frame_type type, const void *data, size_t len)
{
    struct loader *l = ctx;
    (void)type;
    (void)data;
    (void)len;
    l->failed = true;
}

static void on_control(void *ctx, enum guest_frame_type type, const uint8_t *payload, size_t len)
{
    struct loader *l = ctx;
    if (type == GUEST_DONE && l->complete) {
        l->done = true;
        return;
    }
    l->failed = true;
    if (type == GUEST_FAILED) {
        l->errnum = frames_decode_failed(payload, len, l->failure, sizeof(l->failure));
    }
}

static void take(struct loader *l, const void *data, size_t len)
{
    if (frames_feed(&l->frames, data, len) != 0) {
        l->failed = true;
    }
}

static void receive(struct loader *l)
{
    char data[4096];
    ssize_t n = read(l->exec.fd, data, sizeof(data));
    if (n > 0) {
        take(l, data, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        l->over = true;
    }
}

static int report_failed(const struct loader *l, struct error *err)
{
    const char *reason = strerrordesc_np(l->errnum);
    reason = reason != NULL ? reason : "unknown error";
    switch (l->errnum) {
    case 0: return error_set(err, ERROR_RUNTIME, "the loader inside answered out of order");
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
        return error_set(err, ERROR_RESOURCE_LIMIT, "the content does not fit: %s: %s", l->failure,
                         reason);
    default:
        return error_set(err, ERROR_RUNTIME, "the workspace could not be loaded: %s: %s",
                         l->failure, reason);
    }
}

/* The stream has ended without an answer of the loader. */
static int report_over(const struct loader *l, struct error *err)
{
    struct docker_exec_end end;
    docker_exec_ask(l->context, l->exec.id, &end);
    if (end.known && end.exit_code == KILLED) {
        /* Nothing else of the user runs during a load: only the kernel kills, and only for memory.
         */
        return error_set(err, ERROR_RESOURCE_LIMIT,
                         "the content does not fit into the memory limit");
    }
    const char *text = frames_text(&l->frames);
    return error_set(err, ERROR_RUNTIME, "%s%s%s",
                     end.container_lives ? "the loader inside ended without an answer"
                                         : "the container has ended during the load",
                     text[0] != '\0' ? ": " : "", text);
}

/* --- sending --- */

/* 0 to go on, -1 when the loader has answered, gone or must be waited for no longer. */
static int check(struct loader *l, struct error *err)
{
    if (l->failed) {
        return report_failed(l, err);
    }
    if (l->over && !l->done) {
        return report_over(l, err);
    }
    if (cancel_fired(l->load->cancel)) {
        return error_set(err, ERROR_RUNTIME, "the load was interrupted");
    }
    if (clock_mono_ms() >= l->load->deadline_mono_ms) {
        return error_set(err, ERROR_TIMEOUT, "loading the workspace took too long");
    }
    return 0;
}

/* Waits until the loader takes or says something. */
static int wait_ready(struct loader *l, short events, short *revents, struct error *err)
{
    struct pollfd fds[2] = {
        {.fd = l->exec.fd, .events = events},
        {.fd = cancel_fd(l->load->cancel), .events = POLLIN},
    };
    int64_t left = l->load->deadline_mono_ms - clock_mono_ms();
    int timeout = left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
    if (poll(fds, ARRAY_SIZE(fds), timeout) < 0 && errno != EINTR) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "waiting for the loader inside");
    }
    if (fds[0].revents & (POLLIN | POLLHUP | POLLERR)) {
        receive(l);
    }
    *revents = fds[0].revents;
    return check(l, err);
}

static int flush(struct loader *l, struct error *err)
{
    size_t sent = 0;
    while (sent < l->batch_len) {
        ssize_t n =
            send(l->exec.fd, l->batch + sent, l->batch_len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            sent += (size_t)n;
            continue;
        }
        /* A peer that reads no more has said why, or will end the stream: only reading is left
         * then. */
        bool full = errno == EAGAIN || errno == EINTR;
        short revents;
        if (wait_ready(l, full ? POLLIN | POLLOUT : POLLIN, &revents, err) != 0) {
            return -1;
        }
    }
    l->batch_len = 0;
    return 0;
}

/* Room for a frame of `len` payload bytes, its header written; NULL with `err`. */
static uint8_t *add_frame(struct loader *l, enum guest_load_type type, size_t len,
                          struct error *err)
{
    if (l->batch_len + GUEST_FRAME_HEADER + len > BATCH_MAX && flush(l, err) != 0) {
        return NULL;
    }
    uint8_t *at = l->batch + l->batch_len;
    at[0] = (uint8_t)type;
    guest_put_u32(at + 1, (uint32_t)len);
    l->batch_len += GUEST_FRAME_HEADER + len;
    return at + GUEST_FRAME_HEADER;
}

/* --- the sink --- */

static uint8_t *put_text(uint8_t *at, const char *text, size_t len)
{
    guest_put_u32(at, (uint32_t)len);
    memcpy(at + 4, text, len);
    return at + 4 + len;
}

static int sink_begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                      struct error *err)
{
    struct loader *l = (struct loader *)sink;
    l->skipping = entry->type == WORKSPACE_SPECIAL;
    if (l->skipping) {
        return 0;
    }
    const char *target = entry->target != NULL ? entry->target : "";
    size_t path_len = strlen(entry->path);
    size_t target_len = strlen(target);
    if (path_len > WORKSPACE_PATH_MAX || target_len > WORKSPACE_PATH_MAX) {
        return error_set(err, ERROR_INVALID_REQUEST, "a path is longer than %d bytes",
                         WORKSPACE_PATH_MAX);
    }
    uint8_t *at = add_frame(l, GUEST_LOAD_ENTRY, ENTRY_FIXED + 4 + path_len + 4 + target_len, err);
    if (at == NULL) {
        return -1;
    }
    at[0] = (uint8_t)entry->type;
    guest_put_u32(at + 1, entry->mode & 07777);
    guest_put_i64(at + 5, entry->mtime_ns);
    guest_put_i64(at + 13, entry->type == WORKSPACE_FILE ? entry->size : 0);
    at = put_text(at + ENTRY_FIXED, entry->path, path_len);
    (void)put_text(at, target, target_len);
    return 0;
}

static int sink_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                     struct error *err)
{
    struct loader *l = (struct loader *)sink;
    const uint8_t *from = data;
    while (len > 0 && !l->skipping) {
        size_t part = len < DATA_MAX ? len : DATA_MAX;
        uint8_t *at = add_frame(l, GUEST_LOAD_DATA, 8 + part, err);
        if (at == NULL) {
            return -1;
        }
        guest_put_i64(at, offset);
        memcpy(at + 8, from, part);
        from += part;
        offset += (int64_t)part;
        len -= part;
    }
    return 0;
}

static int sink_end(struct workspace_sink *sink, struct error *err)
{
    (void)sink;
    (void)err;
    return 0;
}

static const struct workspace_sink_ops sink_ops = {.begin = sink_begin,
                                                   .data = sink_data,
                                                   .end = sink_end};

/* --- the whole --- */

static int finish(struct loader *l, struct error *err)
{
    if (add_frame(l, GUEST_LOAD_END, 0, err) == NULL) {
        return -1;
    }
    l->complete = true;
    if (flush(l, err) != 0) {
        return -1;
    }
    while (!l->done) {
        short revents;
        if (wait_ready(l, POLLIN, &revents, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int transfer(struct loader *l, struct error *err)
{
    static const char *const command[] = {GUEST_PATH, "load", ".", NULL};
    struct docker_exec_spec spec = {
        .command = command, .has_stdin = true, .cancel = l->load->cancel};
    struct frames_events events = {.output = on_output, .control = on_control, .ctx = l};
    frames_init(&l->frames, &events);
    if (docker_exec_open(l->context, &spec, &l->exec, err) != 0) {
        return -1;
    }
    if (l->exec.early.len > 0) {
        take(l, l->exec.early.data, l->exec.early.len);
    }
    if (l->load->feed(l->load->ctx, &l->sink, err) != 0) {
        return -1;
    }
    return finish(l, err);
}

int docker_process_load(const struct docker_process_context *context,
                        const struct docker_load *load, struct error *err)
{
    _cleanup_free_ struct loader *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    l->sink.ops = &sink_ops;
    l->context = context;
    l->load = load;
    l->exec.fd = -1;
    int result = transfer(l, err);
    docker_exec_done(&l->exec);
    return result;
}
