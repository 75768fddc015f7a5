/* What goes to the command: standard input, from one memory file through a pipe, and signals. */
#include "host/native/shim/shim.h"

#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static const int64_t INPUT_MAX = 4 * 1024 * 1024; /* what may wait for the program */

void command_pump(struct command *c)
{
    while (c->input_at < c->input_end) {
        off_t at = c->input_at;
        ssize_t n = sendfile(c->program_in, c->input, &at, (size_t)(c->input_end - c->input_at));
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            /* It takes no more: what is left is dropped. */
            shim_close(&c->program_in);
            c->input_at = c->input_end;
            return;
        }
        c->input_at = at;
    }
    if (!c->input_open) {
        shim_close(&c->program_in);
    }
    if (c->input >= 0 && ftruncate(c->input, 0) == 0) {
        c->input_at = 0;
        c->input_end = 0;
    }
}

/* Appends what the service sent; the kernel copies from one memory file to the other. */
static int append_input(struct command *c, int from, int64_t len)
{
    off_t at = 0;
    if (c->input_end - c->input_at + len > INPUT_MAX) {
        return EAGAIN;
    }
    if (lseek(c->input, c->input_end, SEEK_SET) < 0) {
        return errno;
    }
    while (at < len) {
        ssize_t n = sendfile(c->input, from, &at, (size_t)(len - at));
        if (n <= 0) {
            return n < 0 ? errno : EIO;
        }
    }
    c->input_end += len;
    return 0;
}

int command_input(struct shim *s, const struct shim_request *request, int fd)
{
    struct command *c = &s->command;
    if (!c->running || c->ended || strncmp(c->id, request->command, sizeof(c->id)) != 0) {
        return ESRCH;
    }
    if (!c->input_open) {
        return c->input_was_open ? EPIPE : EBADF;
    }
    if (c->program_in >= 0 && request->value > 0) {
        int result = fd < 0 ? EPROTO : append_input(c, fd, request->value);
        if (result != 0) {
            return result;
        }
    }
    c->input_open = (request->flags & SHIM_EOF) == 0;
    if (c->program_in >= 0) {
        command_pump(c);
    }
    return 0;
}

static bool remember_signal(struct shim *s, uint32_t token)
{
    for (size_t i = 0; i < ARRAY_SIZE(s->signals_asked); i++) {
        if (s->signals_asked[i] == 0) {
            s->signals_asked[i] = token;
            return true;
        }
    }
    return false;
}

int command_signal(struct shim *s, const struct shim_request *request)
{
    const struct command *c = &s->command;
    struct init_request to_init = {
        .type = INIT_SIGNAL, .serial = c->serial, .token = request->serial};
    if (!c->running || c->ended || strncmp(c->id, request->command, sizeof(c->id)) != 0) {
        return ESRCH;
    }
    to_init.signal = (int32_t)request->value;
    if (wire_send(s->init, &to_init, sizeof(to_init), NULL, 0, MSG_DONTWAIT) != 0) {
        return errno;
    }
    return !cgroup_is_frozen(&s->group) && remember_signal(s, request->serial) ? SHIM_LATER : 0;
}

static void answer_signal(struct shim *s, uint32_t *asked)
{
    const struct shim_event event = {.type = SHIM_REPLY, .serial = *asked};
    *asked = 0;
    shim_answer(s, &event);
}

/* The token is process 1's word: only one that is waited for counts. */
void command_signal_passed(struct shim *s, uint32_t token)
{
    for (size_t i = 0; token != 0 && i < ARRAY_SIZE(s->signals_asked); i++) {
        if (s->signals_asked[i] == token) {
            answer_signal(s, &s->signals_asked[i]);
        }
    }
}

void command_signals_settle(struct shim *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(s->signals_asked); i++) {
        if (s->signals_asked[i] != 0) {
            answer_signal(s, &s->signals_asked[i]);
        }
    }
}
