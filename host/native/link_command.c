/* A command as its link sees it: the spool is read as far as the shim says that it is whole, and
 * its end becomes a result. */
#include "host/native/link_internal.h"
#include "host/result.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

void link_command_forget(struct link *k)
{
    struct link_running *c = &k->command;
    free(c->name);
    free(c->cwd);
    if (c->spool >= 0) {
        close(c->spool);
    }
    *c = (struct link_running){.spool = -1};
}

int link_command_begin(struct link *k, const struct link_command *command, struct error *err)
{
    struct link_running *c = &k->command;
    if (c->active) {
        return error_set(err, ERROR_RUNTIME, "another command is running in the execution");
    }
    link_command_forget(k);
    c->name = strdup(command->name);
    c->cwd = strdup(command->cwd);
    if (c->name == NULL || c->cwd == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    snprintf(c->id, sizeof(c->id), "%s", command->id);
    c->events = command->events;
    c->skip[0] = command->skip[0];
    c->skip[1] = command->skip[1];
    c->active = true;
    return 0;
}

/* --- output --- */

static int open_spool(struct link *k)
{
    char path[LINK_KEY_SIZE + SHIM_ID_SIZE + sizeof("/" SHIM_SPOOL_SUFFIX)];
    snprintf(path, sizeof(path), "%s/%s%s", k->key, k->command.id, SHIM_SPOOL_SUFFIX);
    k->command.spool = openat(k->links->run_fd, path, O_RDONLY | O_CLOEXEC);
    return k->command.spool < 0 ? -1 : 0;
}

static int read_at(int fd, void *data, size_t len, int64_t offset)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = pread(fd, (char *)data + at, len - at, offset + (int64_t)at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return -1;
        }
        at += (size_t)n;
    }
    return 0;
}

/* What an earlier run of the service has taken is left out. */
static void hand_out(struct link_running *c, uint32_t stream, const char *data, size_t len)
{
    int64_t *skip = &c->skip[stream - 1];
    size_t known = *skip < (int64_t)len ? (size_t)*skip : len;
    *skip -= (int64_t)known;
    if (known < len && !c->muted) {
        enum host_stream which = stream == 1 ? HOST_STDOUT : HOST_STDERR;
        c->muted = !c->events.output(c->events.ctx, which, data + known, len - known);
    }
}

static int read_record(struct link_running *c, int64_t end)
{
    static _Thread_local char data[SHIM_SPOOL_PIECE];
    struct shim_spool_head head;
    if (read_at(c->spool, &head, sizeof(head), c->at) != 0) {
        return -1;
    }
    if (head.len > sizeof(data) || head.stream < 1 || head.stream > 2 ||
        c->at + (int64_t)(sizeof(head) + head.len) > end) {
        errno = EPROTO;
        return -1;
    }
    if (read_at(c->spool, data, head.len, c->at + (int64_t)sizeof(head)) != 0) {
        return -1;
    }
    c->at += (int64_t)(sizeof(head) + head.len);
    hand_out(c, head.stream, data, head.len);
    return 0;
}

static void read_to(struct link *k, int64_t end)
{
    struct link_running *c = &k->command;
    if (c->at < end && c->errnum == 0 && c->spool < 0 && open_spool(k) != 0) {
        c->errnum = errno;
    }
    while (c->at < end && c->errnum == 0) {
        if (read_record(c, end) != 0) {
            c->errnum = errno;
        }
    }
}

static bool is_current(struct link *k, const struct shim_event *event)
{
    pthread_mutex_lock(&k->lock);
    bool current = k->command.active && strcmp(k->command.id, event->command) == 0;
    pthread_mutex_unlock(&k->lock);
    return current;
}

void link_command_output(struct link *k, const struct shim_event *event)
{
    if (is_current(k, event)) {
        read_to(k, event->spool_end);
    }
}

/* --- the end --- */

static void set_lost(struct host_exec_result *out, const struct shim_event *event)
{
    out->lost = true;
    out->unheard = (event->flags & SHIM_UNHEARD) != 0;
    if ((event->flags & SHIM_SPOOL_FAILED) != 0) {
        out->output_errno = event->errnum;
        host_exec_result_say(out, "the output could not be kept: %s",
                             error_errno_text(event->errnum));
    } else if (event->errnum != 0) {
        host_exec_result_say(out, "the command was not started: %s",
                             error_errno_text(event->errnum));
    } else {
        host_exec_result_say(out, "everything inside has ended");
    }
}

static void set_result(struct host_exec_result *out, const struct link_running *c,
                       const struct shim_event *event)
{
    *out = host_exec_result_unknown();
    out->oom = (event->flags & SHIM_OOM_KILLED) != 0;
    out->gone = (event->flags & SHIM_ENDED) != 0;
    out->timed_out = (event->flags & SHIM_TIMED_OUT) != 0;
    out->cpu_ms = event->cpu_ms;
    out->memory_peak_bytes = event->usage_memory_peak_bytes;
    out->usage = (struct host_usage){.cpu_ms = event->usage_cpu_ms,
                                     .memory_peak_bytes = event->usage_memory_peak_bytes,
                                     .pids_peak = event->usage_pids_peak,
                                     .workspace_bytes = event->usage_workspace_bytes};
    if ((event->flags & SHIM_NOT_STARTED) != 0) {
        bool in_cwd = (event->flags & SHIM_IN_CWD) != 0;
        host_exec_result_not_started(out, event->errnum, in_cwd, in_cwd ? c->cwd : c->name);
        return;
    }
    if ((event->flags & (SHIM_LOST | SHIM_SPOOL_FAILED)) != 0) {
        set_lost(out, event);
        return;
    }
    out->started = true;
    if (WIFSIGNALED(event->status)) {
        out->signal = WTERMSIG(event->status);
    } else {
        out->exit_code = WEXITSTATUS(event->status);
    }
}

/* Whoever starts the next command may be waiting for this call. */
static void end(struct link *k, const struct host_exec_result *result)
{
    struct host_exec_events events = k->command.events;
    pthread_mutex_lock(&k->lock);
    link_command_forget(k);
    pthread_mutex_unlock(&k->lock);
    events.finished(events.ctx, result);
}

void link_command_finished(struct link *k, const struct shim_event *event)
{
    struct host_exec_result result;
    if (!is_current(k, event)) {
        return;
    }
    read_to(k, event->spool_end);
    if ((event->flags & SHIM_ENDED) != 0) {
        link_ended(k);
    }
    set_result(&result, &k->command, event);
    if (k->command.errnum != 0) {
        result.lost = true;
        host_exec_result_say(&result, "the output could not be read back: %s",
                             error_errno_text(k->command.errnum));
    }
    end(k, &result);
}

static bool is_active(struct link *k)
{
    pthread_mutex_lock(&k->lock);
    bool active = k->command.active;
    pthread_mutex_unlock(&k->lock);
    return active;
}

void link_command_lost(struct link *k, const char *detail)
{
    struct host_exec_result result = host_exec_result_unknown();
    if (is_active(k)) {
        result.lost = true;
        host_exec_result_say(&result, "%s", detail);
        end(k, &result);
    }
}

void link_command_let_go(struct link *k)
{
    struct host_exec_result result = host_exec_result_unknown();
    if (is_active(k)) {
        result.detached = true;
        end(k, &result);
    }
}
