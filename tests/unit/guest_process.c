#include "guest_process.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

enum { OUTPUT_MAX = 64 * 1024 * 1024, ARGUMENTS_MAX = 32, LEAKED_FD = 57 };

static void start_guest(const struct guest_run *run, int in, int out)
{
    static const char *const path_only[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    const char *argv[ARGUMENTS_MAX] = {EXECHOST_GUEST_FILE};
    for (int i = 0; run->argv[i] != NULL && i + 2 < ARGUMENTS_MAX; i++) {
        argv[i + 1] = run->argv[i];
    }
    const char *const *environment = run->environment != NULL ? run->environment : path_only;
    /* What a careless starter leaves behind must not reach the program. */
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGINT);
    sigprocmask(SIG_BLOCK, &some, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(STDERR_FILENO, LEAKED_FD);
    execve(argv[0], (char *const *)argv, (char *const *)environment);
    _exit(99);
}

static void take_exit(struct guest_run *run, const uint8_t *p)
{
    run->exit = (struct guest_exit){.flags = guest_get_u32(p),
                                    .status = guest_get_u32(p + 4),
                                    .errnum = guest_get_u32(p + 8),
                                    .cpu_ms = guest_get_i64(p + 12),
                                    .max_rss_bytes = guest_get_i64(p + 20),
                                    .execution_cpu_ms = guest_get_i64(p + 28),
                                    .execution_memory_peak_bytes = guest_get_i64(p + 36),
                                    .execution_pids_peak = guest_get_i64(p + 44),
                                    .execution_workspace_bytes = guest_get_i64(p + 52)};
}

static void take_frame(struct guest_run *run, uint8_t type, const uint8_t *payload, size_t len)
{
    assert_int_equal(run->last, 0);
    switch (type) {
    case GUEST_STARTED:
        assert_int_equal(len, 4);
        assert_false(run->started);
        run->started = true;
        run->leader = (pid_t)guest_get_u32(payload);
        return;
    case GUEST_STDIN_TAKEN: assert_int_equal(len, 4); return; /* counted as it came */
    case GUEST_STDOUT:
    case GUEST_STDERR:
        assert_true(run->started && len > 0);
        assert_int_equal(buf_add(type == GUEST_STDOUT ? &run->out : &run->err, payload, len), 0);
        return;
    case GUEST_EXIT:
        assert_int_equal(len, GUEST_EXIT_SIZE);
        take_exit(run, payload);
        break;
    case GUEST_FAILED:
        assert_true(len >= 4 && len < sizeof(run->failed_text));
        run->failed_errno = (int)guest_get_u32(payload);
        memcpy(run->failed_text, payload + 4, len - 4);
        run->failed_text[len - 4] = '\0';
        break;
    case GUEST_DONE: assert_int_equal(len, 0); break;
    case GUEST_COUNT:
        assert_int_equal(len, 8);
        run->count = guest_get_i64(payload);
        return;
    default: fail_msg("unknown frame type %d", type);
    }
    run->last = type;
}

static void take_frames(struct guest_run *run, struct buf *stream)
{
    const uint8_t *at = (const uint8_t *)stream->data;
    size_t left = stream->len;
    while (left > 0) {
        assert_true(left >= GUEST_FRAME_HEADER);
        uint32_t len = guest_get_u32(at + 1);
        assert_true(len <= GUEST_FRAME_MAX && len <= left - GUEST_FRAME_HEADER);
        take_frame(run, at[0], at + GUEST_FRAME_HEADER, len);
        at += GUEST_FRAME_HEADER + len;
        left -= GUEST_FRAME_HEADER + len;
    }
}

/* The service's side while the guest runs. */
struct service_end {
    struct guest_run *run;
    int in; /* -1: closed */
    int out;
    struct buf *stream; /* from the guest */
    size_t seen;        /* of the stream, by count_taken */
    struct buf send;
    size_t given; /* of stdin_data */
    size_t acted;
    bool ends; /* nothing comes behind what is in `send` */
};

static void add_frame(struct service_end *s, uint8_t type, const void *data, size_t len)
{
    uint8_t head[GUEST_FRAME_HEADER] = {type};
    guest_put_u32(head + 1, (uint32_t)len);
    assert_int_equal(buf_add(&s->send, head, sizeof(head)), 0);
    assert_int_equal(buf_add(&s->send, len > 0 ? data : "", len), 0);
}

static void count_taken(struct service_end *s)
{
    while (s->stream->len - s->seen >= GUEST_FRAME_HEADER) {
        const uint8_t *at = (const uint8_t *)s->stream->data + s->seen;
        size_t whole = GUEST_FRAME_HEADER + guest_get_u32(at + 1);
        if (s->stream->len - s->seen < whole) {
            return;
        }
        if (at[0] == GUEST_STDIN_TAKEN) {
            s->run->taken += guest_get_u32(at + GUEST_FRAME_HEADER);
        }
        s->seen += whole;
    }
}

static void give_stdin(struct service_end *s)
{
    struct guest_run *run = s->run;
    if (!run->has_stdin) {
        return;
    }
    size_t window = GUEST_STDIN_WINDOW - (s->given - run->taken);
    size_t left = run->stdin_len - s->given;
    size_t part = left < window ? left : window;
    if (part > 0) {
        add_frame(s, GUEST_STDIN, (const char *)run->stdin_data + s->given, part);
        s->given += part;
        if (s->given == run->stdin_len) {
            add_frame(s, GUEST_STDIN_EOF, NULL, 0);
        }
    }
}

static void act(struct service_end *s)
{
    for (; s->acted < s->run->act_count; s->acted++) {
        const struct guest_act *next = &s->run->acts[s->acted];
        uint8_t number[4];
        if (s->run->taken < next->taken ||
            (next->when != NULL &&
             memmem(buf_str(s->stream), s->stream->len, next->when, strlen(next->when)) == NULL)) {
            return;
        }
        guest_put_u32(number, next->number);
        s->given += next->type == GUEST_STDIN ? next->len : 0;
        if (next->type == 0) {
            s->ends = true;
        } else if (next->text != NULL) {
            add_frame(s, next->type, next->text, next->len);
        } else {
            add_frame(s, next->type, number, next->type == GUEST_SIGNAL ? 4 : 0);
        }
    }
}

static void write_some(struct service_end *s)
{
    ssize_t n = write(s->in, s->send.data, s->send.len);
    if (n >= 0) {
        buf_consume(&s->send, (size_t)n);
    } else if (errno == EPIPE) {
        close(TAKE_FD(s->in));
    }
}

/* False at the end of the guest's stream. */
static bool read_some(struct service_end *s)
{
    char *to = buf_reserve(s->stream, 65536);
    assert_non_null(to);
    ssize_t n = read(s->out, to, 65536);
    assert_true(n >= 0);
    s->stream->len += (size_t)n;
    count_taken(s);
    return n > 0;
}

/* Writes standard input while reading, as the service does. */
static void exchange(struct service_end *s)
{
    bool open = true;
    fcntl(s->in, F_SETFL, O_NONBLOCK);
    if (s->run->has_stdin && s->run->stdin_len == 0) {
        add_frame(s, GUEST_STDIN_EOF, NULL, 0);
    } else if (!s->run->has_stdin && s->run->act_count == 0) {
        assert_int_equal(buf_add(&s->send, s->run->in_len > 0 ? s->run->in : "", s->run->in_len),
                         0);
        s->ends = true;
    }
    while (open) {
        give_stdin(s);
        act(s);
        if (s->in >= 0 && s->ends && s->send.len == 0) {
            close(TAKE_FD(s->in));
        }
        struct pollfd fds[2] = {{.fd = s->out, .events = POLLIN},
                                {.fd = s->send.len > 0 ? s->in : -1, .events = POLLOUT}};
        assert_true(poll(fds, 2, 60000) > 0);
        if (fds[1].revents != 0) {
            write_some(s);
        }
        if (fds[0].revents != 0) {
            open = read_some(s);
        }
    }
    if (s->in >= 0) {
        close(s->in);
    }
}

void guest_process_run(struct guest_run *run)
{
    int in[2];
    int out[2];
    _cleanup_buf_ struct buf stream;
    buf_init(&stream, OUTPUT_MAX);
    buf_init(&run->out, OUTPUT_MAX);
    buf_init(&run->err, OUTPUT_MAX);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    int64_t begin = clock_mono_ms();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        start_guest(run, in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    if (run->read_delay_ms > 0) {
        struct timespec delay = {run->read_delay_ms / 1000, run->read_delay_ms % 1000 * 1000000L};
        nanosleep(&delay, NULL);
    }
    struct service_end service = {.run = run, .in = in[1], .out = out[0], .stream = &stream};
    buf_init(&service.send, OUTPUT_MAX);
    exchange(&service);
    buf_done(&service.send);
    close(out[0]);
    assert_int_equal(waitpid(pid, &run->status, 0), pid);
    run->elapsed_ms = clock_mono_ms() - begin;
    take_frames(run, &stream);
}

void guest_process_done(struct guest_run *run)
{
    buf_done(&run->out);
    buf_done(&run->err);
}
