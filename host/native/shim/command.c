/* The command: started by process 1, its output kept in a spool file until the service has it, its
 * input fed from a memory file, its end made out. */
#include "host/native/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { ERRNO_MAX = 4095 };
enum { GRACE_MS = 200, READ_PIECES = 16 };

static struct init_request request_for(const struct command *c, uint32_t type)
{
    return (struct init_request){.type = type, .serial = c->serial};
}

/* --- the end --- */

static void close_all(struct command *c)
{
    shim_close(&c->streams[0].fd);
    shim_close(&c->streams[1].fd);
    shim_close(&c->program_in);
    shim_close(&c->input);
}

static void tell_output(struct shim *s)
{
    struct command *c = &s->command;
    struct shim_event event = {.type = SHIM_OUTPUT, .spool_end = c->spool_end};
    if (c->spool_told == c->spool_end) {
        return;
    }
    memcpy(event.command, c->id, sizeof(event.command));
    if (shim_tell(s, &event)) {
        c->spool_told = c->spool_end;
    }
}

void command_tell(struct shim *s)
{
    struct command *c = &s->command;
    tell_output(s);
    if (!c->running && c->id[0] != '\0' && !c->told && c->spool_told == c->spool_end) {
        c->told = shim_tell(s, &c->result);
    }
}

bool command_has_news(const struct shim *s)
{
    const struct command *c = &s->command;
    return c->id[0] != '\0' && (c->spool_told != c->spool_end || (!c->running && !c->told));
}

void command_tell_anew(struct shim *s)
{
    s->command.told = false;
    s->command.spool_told = 0;
    command_tell(s);
}

static void finish(struct shim *s)
{
    struct command *c = &s->command;
    close_all(c);
    if (c->oom_before >= 0 && shim_oom_kills(s) > c->oom_before) {
        c->result.flags |= SHIM_OOM_KILLED;
    }
    if (s->init_pid == 0) {
        c->result.flags |= SHIM_ENDED;
        s->gone_told = true;
    }
    c->running = false;
    c->result.type = SHIM_FINISHED;
    c->result.spool_end = c->spool_end;
    memcpy(c->result.command, c->id, sizeof(c->result.command));
    shim_read_usage(s, &c->result);
    command_tell(s);
}

static bool is_late(const struct command *c)
{
    return c->ended && shim_now_ms() >= c->late_at;
}

static void finish_if_done(struct shim *s)
{
    struct command *c = &s->command;
    if (c->running && c->ended && c->streams[0].fd < 0 && c->streams[1].fd < 0) {
        finish(s);
    }
}

static void set_ended(struct command *c, int grace_ms)
{
    if (c->ended) {
        return;
    }
    c->ended = true;
    c->late_at = shim_now_ms() + grace_ms;
    for (int i = 0; i < 2; i++) {
        int ready = 0;
        if (c->streams[i].fd >= 0 && ioctl(c->streams[i].fd, FIONREAD, &ready) == 0) {
            c->streams[i].owed = ready;
        }
    }
}

/* The whole execution goes: what a limit means, and nobody else is there to see to it. */
static void end_for(struct shim *s, uint32_t flag)
{
    s->command.result.flags |= flag;
    (void)end_kill(s);
}

void command_out_of_memory(struct shim *s)
{
    struct command *c = &s->command;
    if (c->running && shim_oom_kills(s) > c->oom_before) {
        end_for(s, SHIM_OOM_KILLED);
    }
}

/* --- output --- */

static int open_spool(struct shim *s)
{
    char name[SHIM_ID_SIZE + sizeof(SHIM_SPOOL_SUFFIX)];
    snprintf(name, sizeof(name), "%s%s", s->command.id, SHIM_SPOOL_SUFFIX);
    s->command.spool =
        openat(s->fds[SHIM_START_DIRECTORY], name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return s->command.spool < 0 ? -1 : 0;
}

/* A record is told of when it is whole; a part of one is written over by the next. */
static int keep(struct shim *s, unsigned stream, const char *data, size_t len)
{
    struct command *c = &s->command;
    struct shim_spool_head head = {.len = (uint32_t)len, .stream = stream + 1};
    struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)(uintptr_t)data, len}};
    if (c->spool < 0 && open_spool(s) != 0) {
        return -1;
    }
    ssize_t n = pwritev(c->spool, parts, 2, c->spool_end);
    if (n != (ssize_t)(sizeof(head) + len)) {
        errno = n < 0 ? errno : ENOSPC;
        return -1;
    }
    c->spool_end += n;
    c->output += (int64_t)len;
    return 0;
}

static size_t room_for(const struct command *c, const struct stream *stream, bool late)
{
    int64_t room = SHIM_SPOOL_PIECE;
    int64_t cap = c->output_max + 1 - c->output;
    room = cap < room ? cap : room;
    if (late) {
        room = stream->owed < room ? stream->owed : room;
    }
    return room > 0 ? (size_t)room : 0;
}

static void overflow(struct shim *s)
{
    s->command.result.flags |= SHIM_OVERFLOWED;
    if (s->service < 0) {
        end_for(s, SHIM_OVERFLOWED);
    }
}

/* False when there is nothing more to read now. */
static bool read_stream(struct shim *s, unsigned which)
{
    static char data[SHIM_SPOOL_PIECE];
    struct command *c = &s->command;
    struct stream *stream = &c->streams[which];
    bool late = is_late(c);
    size_t room = room_for(c, stream, late);
    if (room == 0) {
        /* Over the cap it is left to block; after the grace nobody waits for it. */
        if (late) {
            shim_close(&stream->fd);
        }
        return false;
    }
    ssize_t n = read(stream->fd, data, room);
    if (n > 0) {
        stream->owed -= n < stream->owed ? n : stream->owed;
        if (keep(s, which, data, (size_t)n) != 0) {
            c->result.errnum = errno;
            end_for(s, SHIM_SPOOL_FAILED);
            return false;
        }
        if (c->output > c->output_max) {
            overflow(s);
        }
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR) || (late && errno == EAGAIN)) {
        shim_close(&stream->fd);
    }
    return false;
}

static bool over_cap(const struct command *c)
{
    return c->output > c->output_max;
}

static void read_output(struct shim *s)
{
    struct command *c = &s->command;
    bool more = true;
    for (int pieces = 0; more && pieces < READ_PIECES; pieces++) {
        more = false;
        for (unsigned i = 0; i < 2; i++) {
            unsigned which = (c->turn + i) % 2;
            if (c->streams[which].fd >= 0 && read_stream(s, which)) {
                more = true;
            }
        }
        c->turn++;
    }
    if (c->running) {
        tell_output(s);
    }
}

/* --- start --- */

static void forget(struct shim *s)
{
    struct command *c = &s->command;
    char name[SHIM_ID_SIZE + sizeof(SHIM_SPOOL_SUFFIX)];
    if (c->spool >= 0) {
        snprintf(name, sizeof(name), "%s%s", c->id, SHIM_SPOOL_SUFFIX);
        (void)unlinkat(s->fds[SHIM_START_DIRECTORY], name, 0);
        shim_close(&c->spool);
    }
}

static void set_command(struct shim *s, const struct shim_request *request)
{
    struct command *c = &s->command;
    *c = (struct command){
        .running = true,
        .serial = ++s->serial,
        .streams = {{.fd = -1}, {.fd = -1}},
        .input = -1,
        .input_open = (request->flags & SHIM_STDIN_OPEN) != 0,
        .input_was_open = (request->flags & SHIM_STDIN_OPEN) != 0,
        .program_in = -1,
        .spool = -1,
        .output_max = request->max_output_bytes,
        .timeout_at = request->timeout_ms < 0 ? INT64_MAX : shim_now_ms() + request->timeout_ms,
        .oom_before = shim_oom_kills(s),
        .result = {.status = -1, .cpu_ms = -1},
    };
    memcpy(c->id, request->command, sizeof(c->id) - 1);
}

static int take_input(struct command *c, int fd, bool has_stdin)
{
    struct stat st;
    if (!has_stdin) {
        return 0;
    }
    c->input = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (c->input < 0 || fstat(c->input, &st) != 0) {
        return -1;
    }
    c->input_end = st.st_size;
    return 0;
}

struct ends {
    int out[2];
    int err[2];
    int in[2];
};

static int open_ends(struct ends *e, bool has_stdin)
{
    *e = (struct ends){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(e->out, O_CLOEXEC) != 0 || pipe2(e->err, O_CLOEXEC) != 0) {
        return -1;
    }
    return has_stdin ? pipe2(e->in, O_CLOEXEC) : 0;
}

static void close_ends(struct ends *e)
{
    for (int i = 0; i < 2; i++) {
        shim_close(&e->out[i]);
        shim_close(&e->err[i]);
        shim_close(&e->in[i]);
    }
}

static int take_end(int *fd)
{
    int taken = *fd;
    *fd = -1;
    if (taken >= 0) {
        (void)fcntl(taken, F_SETFL, O_NONBLOCK);
    }
    return taken;
}

static int ask_init(struct shim *s, struct ends *e, int plan, bool has_stdin)
{
    struct command *c = &s->command;
    struct init_request spawn = request_for(c, INIT_SPAWN);
    const int fds[] = {plan, e->out[1], e->err[1], e->in[0]};
    spawn.flags = has_stdin ? INIT_HAS_STDIN : 0;
    if (wire_send(s->init, &spawn, sizeof(spawn), fds, has_stdin ? 4 : 3, MSG_DONTWAIT) != 0) {
        return -1;
    }
    c->streams[0].fd = take_end(&e->out[0]);
    c->streams[1].fd = take_end(&e->err[0]);
    c->program_in = take_end(&e->in[1]);
    return 0;
}

int command_start(struct shim *s, const struct shim_request *request, const int *fds,
                  size_t fd_count)
{
    bool has_stdin = (request->flags & SHIM_HAS_STDIN) != 0;
    struct ends e;
    if (s->command.running) {
        return EBUSY;
    }
    if (fd_count != (has_stdin ? 2U : 1U)) {
        return EPROTO;
    }
    forget(s);
    set_command(s, request);
    int result = take_input(&s->command, fd_count > 1 ? fds[1] : -1, has_stdin);
    if (result == 0) {
        result = open_ends(&e, has_stdin);
        result = result == 0 ? ask_init(s, &e, fds[0], has_stdin) : result;
        close_ends(&e);
    }
    if (result != 0) {
        s->command.result.flags |= SHIM_LOST;
        s->command.result.errnum = errno;
        s->command.ended = true;
        finish(s);
        return 0;
    }
    if (has_stdin) {
        command_pump(&s->command);
    }
    return 0;
}

/* --- its course --- */

void command_init_event(struct shim *s, const struct init_event *event)
{
    struct command *c = &s->command;
    if (!c->running || event->serial != c->serial || c->ended) {
        return;
    }
    /* Numbers of somebody who may have been taken over: only such as there are. */
    c->result.status = event->status & 0xffff;
    if (event->type == INIT_REFUSED) {
        c->result.flags |= SHIM_NOT_STARTED | (event->in_cwd != 0 ? SHIM_IN_CWD : 0);
        c->result.errnum = event->errnum > 0 && event->errnum <= ERRNO_MAX ? event->errnum : EIO;
        c->result.cpu_ms = 0;
        set_ended(c, 0);
        shim_close(&c->streams[0].fd);
        shim_close(&c->streams[1].fd);
    } else {
        c->result.cpu_ms = event->cpu_ms < 0 ? -1 : event->cpu_ms;
        set_ended(c, GRACE_MS);
        read_output(s);
    }
    shim_close(&c->program_in);
    finish_if_done(s);
}

void command_lost(struct shim *s)
{
    struct command *c = &s->command;
    if (!c->running) {
        return;
    }
    if (!c->ended) {
        c->result.flags |= SHIM_LOST;
    }
    set_ended(c, 0);
    c->late_at = 0;
    while (c->running && (c->streams[0].fd >= 0 || c->streams[1].fd >= 0)) {
        read_output(s);
    }
    finish_if_done(s);
}

void command_watch(struct shim *s)
{
    const struct command *c = &s->command;
    bool open = c->running && !over_cap(c);
    s->poll[SLOT_OUT] = (struct pollfd){.fd = open ? c->streams[0].fd : -1, .events = POLLIN};
    s->poll[SLOT_ERR] = (struct pollfd){.fd = open ? c->streams[1].fd : -1, .events = POLLIN};
    s->poll[SLOT_PROGRAM_IN] = (struct pollfd){
        .fd = c->running && c->input_at < c->input_end ? c->program_in : -1, .events = POLLOUT};
}

int64_t command_wakes_at(const struct shim *s)
{
    const struct command *c = &s->command;
    if (!c->running) {
        return INT64_MAX;
    }
    if (c->ended) {
        return c->late_at;
    }
    /* While the service is there it sees to the time, and may want a checkpoint first. */
    return s->service < 0 ? c->timeout_at : INT64_MAX;
}

void command_serve(struct shim *s)
{
    struct command *c = &s->command;
    if (!c->running) {
        return;
    }
    if (s->poll[SLOT_PROGRAM_IN].revents != 0 && c->program_in >= 0) {
        command_pump(c);
    }
    if (s->poll[SLOT_OUT].revents != 0 || s->poll[SLOT_ERR].revents != 0 || is_late(c)) {
        read_output(s);
    }
    if (c->running && s->service < 0 && !c->ended) {
        if (over_cap(c)) {
            end_for(s, SHIM_OVERFLOWED);
        } else if (shim_now_ms() >= c->timeout_at) {
            end_for(s, SHIM_TIMED_OUT);
        }
    }
    finish_if_done(s);
}
