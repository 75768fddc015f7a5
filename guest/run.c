#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 200, OOM_CHECK_MS = 250 };

/* A whole frame fits into an empty pipe of the usual size, so that one write passes it on. */
enum { READ_PIECE = GUEST_FRAME_MAX - GUEST_FRAME_HEADER };

enum { SLOT_SIGNAL, SLOT_OUT, SLOT_ERR, SLOT_SERVICE, SLOT_INPUT, SLOT_PROGRAM_IN, SLOT_COUNT };

struct stream {
    int fd; /* -1: at its end */
    enum guest_frame_type type;
    int owed; /* once the leader has ended: bytes that it had written and that are still to be read
               */
};

struct run {
    pid_t pid;
    struct stream streams[2];
    unsigned turn; /* which stream may go first */
    int signal_fd;
    int oom_fd;
    int64_t oom_before;
    int64_t oom_check_at;
    bool oom;
    bool ended;
    int64_t late_at;
    int wait_status;
    struct rusage usage;
    struct pollfd poll[SLOT_COUNT];
    struct frame_out out;
    struct input in;
};

enum loop_end { LOOP_DONE, LOOP_SERVICE_GONE, LOOP_OUT_OF_STEP };

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_late(const struct run *run)
{
    return run->ended && now_ms() >= run->late_at;
}

static bool is_done(const struct run *run)
{
    return run->ended && run->streams[0].fd < 0 && run->streams[1].fd < 0 &&
           frame_out_empty(&run->out);
}

/* --- the leader and the memory counter --- */

static void reap(struct run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signal_fd, &info, sizeof(info)) > 0) {
    }
    if (run->ended || wait4(run->pid, &run->wait_status, WNOHANG, &run->usage) != run->pid) {
        return;
    }
    run->ended = true;
    run->late_at = now_ms() + (run->oom ? 0 : GRACE_MS);
    for (int i = 0; i < 2; i++) {
        struct stream *stream = &run->streams[i];
        if (stream->fd >= 0 && ioctl(stream->fd, FIONREAD, &stream->owed) != 0) {
            stream->owed = 0;
        }
    }
}

static void kill_leader(const struct run *run)
{
    if (!run->ended) {
        (void)kill(-run->pid, SIGKILL);
        (void)kill(run->pid, SIGKILL);
    }
}

static void check_oom(struct run *run)
{
    if (run->oom_before >= 0 && cgroup_oom_kills(run->oom_fd) > run->oom_before) {
        run->oom = true;
        kill_leader(run);
    }
    run->oom_check_at = now_ms() + OOM_CHECK_MS;
}

/* --- output --- */

static void read_stream(struct run *run, struct stream *stream)
{
    bool late = is_late(run);
    size_t room = READ_PIECE;
    if (late && stream->owed <= 0) {
        guest_close(&stream->fd);
        return;
    }
    if (late && (size_t)stream->owed < room) {
        room = (size_t)stream->owed;
    }
    ssize_t n = read(stream->fd, frame_out_payload(&run->out), room);
    if (n > 0) {
        stream->owed -= (int)n < stream->owed ? (int)n : stream->owed;
        frame_out_seal(&run->out, stream->type, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR) || (late && errno == EAGAIN)) {
        /* Late and nothing there: somebody else has read from the program's pipe. */
        guest_close(&stream->fd);
    }
}

static int serve_output(struct run *run)
{
    for (unsigned i = 0; i < 2; i++) {
        unsigned which = (run->turn + i) % 2;
        struct stream *stream = &run->streams[which];
        if (stream->fd < 0 || !frame_out_empty(&run->out)) {
            continue;
        }
        if (run->poll[SLOT_OUT + which].revents == 0 && !is_late(run)) {
            continue;
        }
        read_stream(run, stream);
        if (!frame_out_empty(&run->out)) {
            run->turn = which + 1;
        }
        if (frame_out_flush(&run->out) != 0) {
            return -1;
        }
    }
    return 0;
}

/* --- input and signals --- */

/* The leader is not reaped yet: its number can't be another's. */
static void signal_program(const struct run *run, int number)
{
    (void)kill(-run->pid, number);
}

/* -1: the service is out of step. */
static int serve_input(struct run *run)
{
    if (!run->ended && run->poll[SLOT_INPUT].revents != 0) {
        int number;
        while ((number = input_read(&run->in)) > 0) {
            signal_program(run, number);
        }
        if (number < 0) {
            return -1;
        }
    }
    if (run->poll[SLOT_INPUT].revents != 0 || run->poll[SLOT_PROGRAM_IN].revents != 0) {
        input_write(&run->in);
    }
    (void)input_report(&run->in, &run->out);
    return 0;
}

/* --- the loop --- */

static void watch(struct run *run, int slot, int fd, short events)
{
    run->poll[slot] = (struct pollfd){.fd = fd, .events = events};
}

/* A descriptor whose event could not be used now is left out: a hang-up would wake the loop for
 * nothing. */
static void watch_all(struct run *run)
{
    bool room = frame_out_empty(&run->out);
    watch(run, SLOT_SIGNAL, run->signal_fd, POLLIN);
    watch(run, SLOT_OUT, room ? run->streams[0].fd : -1, POLLIN);
    watch(run, SLOT_ERR, room ? run->streams[1].fd : -1, POLLIN);
    watch(run, SLOT_SERVICE, STDOUT_FILENO, room ? 0 : POLLOUT);
    watch(run, SLOT_INPUT, run->ended ? -1 : run->in.fd, POLLIN);
    watch(run, SLOT_PROGRAM_IN, input_pending(&run->in) ? run->in.program : -1, POLLOUT);
}

static int until(int64_t at)
{
    int64_t left = at - now_ms();
    return left < 0 ? 0 : (int)left;
}

static int wait_ms(const struct run *run)
{
    if (run->ended) {
        /* After the grace only the service may still be waited for. */
        return frame_out_empty(&run->out) ? until(run->late_at) : -1;
    }
    return run->oom_before >= 0 && !run->oom ? until(run->oom_check_at) : -1;
}

static enum loop_end loop(struct run *run)
{
    while (!is_done(run)) {
        watch_all(run);
        if (poll(run->poll, SLOT_COUNT, wait_ms(run)) < 0 && errno != EINTR) {
            return LOOP_SERVICE_GONE;
        }
        if (run->poll[SLOT_SERVICE].revents & (POLLERR | POLLNVAL)) {
            return LOOP_SERVICE_GONE;
        }
        if (run->poll[SLOT_SIGNAL].revents != 0) {
            reap(run);
        }
        if (!run->ended && !run->oom && now_ms() >= run->oom_check_at) {
            check_oom(run);
        }
        if (frame_out_flush(&run->out) != 0) {
            return LOOP_SERVICE_GONE;
        }
        if (serve_input(run) != 0) {
            return LOOP_OUT_OF_STEP;
        }
        if (frame_out_flush(&run->out) != 0 || serve_output(run) != 0) {
            return LOOP_SERVICE_GONE;
        }
    }
    return LOOP_DONE;
}

/* --- the result --- */

static int64_t workspace_bytes(void)
{
    struct statvfs fs;
    if (statvfs("/workspace", &fs) != 0) {
        return -1;
    }
    return (int64_t)((fs.f_blocks - fs.f_bfree) * fs.f_frsize);
}

static int64_t timeval_ms(const struct timeval *time)
{
    return (int64_t)time->tv_sec * 1000 + time->tv_usec / 1000;
}

static int send_exit(struct frame_out *out, struct guest_exit *exit)
{
    struct cgroup_usage usage;
    cgroup_read_usage(&usage);
    uint8_t *at = frame_out_payload(out);
    guest_put_u32(at, exit->flags);
    guest_put_u32(at + 4, exit->status);
    guest_put_u32(at + 8, exit->errnum);
    guest_put_i64(at + 12, exit->cpu_ms);
    guest_put_i64(at + 20, exit->max_rss_bytes);
    guest_put_i64(at + 28, usage.cpu_ms);
    guest_put_i64(at + 36, usage.memory_peak_bytes);
    guest_put_i64(at + 44, usage.pids_peak);
    guest_put_i64(at + 52, workspace_bytes());
    frame_out_seal(out, GUEST_EXIT, GUEST_EXIT_SIZE);
    return frame_out_drain(out) == 0 ? 0 : 1;
}

static int report_ended(struct run *run)
{
    struct guest_exit exit = {
        .cpu_ms = timeval_ms(&run->usage.ru_utime) + timeval_ms(&run->usage.ru_stime),
        .max_rss_bytes = (int64_t)run->usage.ru_maxrss * 1024,
    };
    if (WIFSIGNALED(run->wait_status)) {
        exit.flags |= GUEST_EXIT_SIGNALED;
        exit.status = (uint32_t)WTERMSIG(run->wait_status);
    } else {
        exit.status = (uint32_t)WEXITSTATUS(run->wait_status);
    }
    check_oom(run);
    if (run->oom) {
        exit.flags |= GUEST_EXIT_OOM;
    }
    return send_exit(&run->out, &exit);
}

static int report_not_started(struct run *run, const struct spawn_failure *failure)
{
    struct guest_exit exit = {
        .flags = GUEST_EXIT_NOT_STARTED | (failure->in_cwd ? GUEST_EXIT_CWD : 0),
        .status = failure->errnum == ENOENT ? 127 : 126,
        .errnum = (uint32_t)failure->errnum,
        .max_rss_bytes = -1,
    };
    return send_exit(&run->out, &exit);
}

static void report_started(struct run *run)
{
    guest_put_u32(frame_out_payload(&run->out), (uint32_t)run->pid);
    frame_out_seal(&run->out, GUEST_STARTED, 4);
}

static void set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) {
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    }
}

static int prepare(struct run *run)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    run->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    run->oom_fd = cgroup_open_oom();
    run->oom_before = cgroup_oom_kills(run->oom_fd);
    run->oom_check_at = now_ms() + OOM_CHECK_MS;
    set_nonblocking(STDIN_FILENO);
    set_nonblocking(STDOUT_FILENO);
    return run->signal_fd < 0 ? -1 : 0;
}

int run_main(const struct spawn_spec *spec)
{
    static struct run run;
    /* Its pages are needed most when there are no more to be had. */
    explicit_bzero(&run, sizeof(run));
    struct spawn_failure failure;
    struct spawned program;
    if (prepare(&run) != 0) {
        return frame_failed(&run.out, errno, "signalfd");
    }
    switch (spawn(spec, &program, &failure)) {
    case SPAWN_STARTED: break;
    case SPAWN_NOT_STARTED: return report_not_started(&run, &failure);
    case SPAWN_BROKEN: return frame_failed(&run.out, errno, "pipe");
    }
    run.pid = program.pid;
    run.streams[0] = (struct stream){.fd = program.out, .type = GUEST_STDOUT};
    run.streams[1] = (struct stream){.fd = program.err, .type = GUEST_STDERR};
    input_init(&run.in, STDIN_FILENO, program.in);
    report_started(&run);
    switch (loop(&run)) {
    case LOOP_DONE: return report_ended(&run);
    case LOOP_SERVICE_GONE: break;
    case LOOP_OUT_OF_STEP: kill_leader(&run); return frame_failed(&run.out, EPROTO, "input");
    }
    kill_leader(&run);
    return 1;
}
