/* The helper inside as the other end of a conversation: an exec whose stream the engine
 * multiplexes. */
#include "host/docker/process.h"
#include "host/docker/process_exec.h"
#include "host/docker/process_frames.h"

#include <string.h>

enum { ARGUMENTS_MAX = 8, KILLED = 137 };

struct talk {
    struct docker_process_context context; /* strings are those below */
    char *container;
    char *user;
    bool alone;
    struct docker_exec exec;

    uint8_t head[FRAMES_MUX_HEADER];
    size_t head_have;
    uint32_t left; /* of the part at hand */
    bool seen;     /* a part has begun: what comes is multiplexed */
    bool raw;      /* the engine speaks itself instead */
    size_t text_len;
    char text[FRAMES_TEXT_MAX + 1];
};

/* --- the engine's framing --- */

static void add_text(struct talk *t, const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len && t->text_len < FRAMES_TEXT_MAX; i++) {
        uint8_t c = data[i];
        t->text[t->text_len++] = c >= 0x7f ? '?' : c < 0x20 ? ' ' : (char)c;
    }
    t->text[t->text_len] = '\0';
}

/* Takes up to the missing bytes of a part's head; returns how many. */
static size_t take_head(struct talk *t, const uint8_t *data, size_t len)
{
    size_t want = FRAMES_MUX_HEADER - t->head_have;
    size_t n = len < want ? len : want;
    memcpy(t->head + t->head_have, data, n);
    t->head_have += n;
    return n;
}

static int begin_part(struct talk *t)
{
    if (t->head[0] <= 2 && memcmp(t->head + 1, "\0\0\0", 3) == 0) {
        t->seen = true;
        t->left = guest_get_u32(t->head + 4);
        t->head_have = t->left == 0 ? 0 : t->head_have;
        return 0;
    }
    t->raw = true;
    add_text(t, t->head, sizeof(t->head));
    return t->seen ? -1 : 0;
}

static ssize_t unwrap(void *ctx, uint8_t *data, size_t len)
{
    struct talk *t = ctx;
    size_t kept = 0;
    for (size_t at = 0; at < len;) {
        if (t->raw) {
            add_text(t, data + at, len - at);
            break;
        }
        if (t->head_have < FRAMES_MUX_HEADER) {
            at += take_head(t, data + at, len - at);
            if (t->head_have == FRAMES_MUX_HEADER && begin_part(t) != 0) {
                return -1;
            }
            continue;
        }
        size_t n = len - at < t->left ? len - at : t->left;
        if (t->head[0] == 1) {
            memmove(data + kept, data + at, n);
            kept += n;
        } else {
            add_text(t, data + at, n);
        }
        at += n;
        t->left -= (uint32_t)n;
        t->head_have = t->left == 0 ? 0 : t->head_have;
    }
    return (ssize_t)kept;
}

/* --- the end --- */

static int report_over(void *ctx, struct error *err)
{
    struct talk *t = ctx;
    struct docker_exec_end end;
    docker_exec_ask(&t->context, t->exec.id, &end);
    if (end.known && end.exit_code == KILLED) {
        return error_set(err, ERROR_RESOURCE_LIMIT, "%s",
                         t->alone ? "the content does not fit into the memory limit"
                                  : "the helper inside was killed: for memory, or by a program");
    }
    return error_set(err, ERROR_RUNTIME, "%s%s%s",
                     end.container_lives ? "the helper inside ended without an answer"
                                         : "the container has ended meanwhile",
                     t->text[0] != '\0' ? ": " : "", t->text);
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
