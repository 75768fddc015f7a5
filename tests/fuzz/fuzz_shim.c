/* What the service and a shim send each other. The first byte says how the rest is meant: a plan as
 * it reaches the shim; words from which the service makes one, which the shim must read the same;
 * a message of any length with descriptors; events of a shim with the spool that they tell of. */
#include "tests/fuzz/fuzz.h"

#include "host/native/link_internal.h"
#include "host/native/native_internal.h"
#include "host/native/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORDS_MAX = 16, ROOM = 4096 };

static int file_of(const void *data, size_t size)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    fuzz_require(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return fd;
}

/* --- plans --- */

static size_t count_words(char *const *words)
{
    size_t count = 0;
    for (; words[count] != NULL; count++) {
        (void)strlen(words[count]);
    }
    return count;
}

static void try_plan(const uint8_t *data, size_t size)
{
    struct plan plan;
    int fd = file_of(data, size);
    if (plan_open(fd, &plan) == 0) {
        struct shim_plan head;
        memcpy(&head, data, sizeof(head));
        fuzz_require(count_words(plan.argv) == head.argc && head.argc >= 1);
        fuzz_require(count_words(plan.envp) == head.envc);
        fuzz_require(plan.cwd + strlen(plan.cwd) < (char *)plan.mapping + plan.size);
        plan_close(&plan);
    } else {
        fuzz_require(errno == EPROTO);
    }
    close(fd);
}

static void require_same(char *const *read, char *const *written)
{
    size_t at = 0;
    for (; written[at] != NULL; at++) {
        fuzz_require(read[at] != NULL && strcmp(read[at], written[at]) == 0);
    }
    fuzz_require(read[at] == NULL);
}

/* Lines: the first is the directory, the next half the words, the others the environment. */
static void try_words(const uint8_t *data, size_t size)
{
    char *words[WORDS_MAX + 1] = {NULL};
    char *environment[WORDS_MAX + 1] = {NULL};
    size_t count = 0;
    struct error err = ERROR_INIT;
    struct plan plan;
    char *text = malloc(size + 1);
    fuzz_require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    char *rest = text;
    const char *cwd = strsep(&rest, "\n");
    while (rest != NULL && count < 2 * (size_t)WORDS_MAX) {
        char *word = strsep(&rest, "\n");
        *(count % 2 == 0 ? &words[count / 2] : &environment[count / 2]) = word;
        count++;
    }
    int fd = native_plan_file((const char *const *)words, environment, cwd, &err);
    fuzz_require(fd >= 0);
    fuzz_require((plan_open(fd, &plan) == 0) == (count > 0));
    if (count > 0) {
        require_same(plan.argv, words);
        require_same(plan.envp, environment);
        fuzz_require(strcmp(plan.cwd, cwd) == 0);
        plan_close(&plan);
    }
    close(fd);
    free(text);
}

/* --- messages --- */

static size_t open_count(int fd)
{
    size_t count = 0;
    for (int i = fd; i < fd + 2 * SHIM_FDS_MAX + 2; i++) {
        count += fcntl(i, F_GETFD) >= 0;
    }
    return count;
}

/* Two bytes: how many descriptors are sent, and how many may come; then the message. */
static void try_message(const uint8_t *data, size_t size)
{
    int ends[2];
    int sent[SHIM_FDS_MAX];
    int got[SHIM_FDS_MAX];
    char room[sizeof(struct shim_request)];
    if (size < 3) {
        return;
    }
    size_t send_count = data[0] % (SHIM_FDS_MAX + 1);
    size_t room_count = data[1] % (SHIM_FDS_MAX + 1);
    size_t count = room_count;
    fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    for (size_t i = 0; i < send_count; i++) {
        sent[i] = ends[0];
    }
    size_t before = open_count(ends[0]);
    fuzz_require(wire_send(ends[0], data + 2, size - 2, sent, send_count, MSG_DONTWAIT) == 0);
    size_t want = data[1] % 2 == 0 ? size - 2 : sizeof(room);
    want = want < sizeof(room) ? want : sizeof(room);
    int result = wire_receive(ends[1], room, want, got, &count, MSG_DONTWAIT);
    fuzz_require(result == 1 || (result == -1 && errno == EPROTO && count == 0));
    fuzz_require((result == 1) == (want == size - 2));
    fuzz_require(count <= room_count && count <= send_count);
    for (size_t i = 0; i < count; i++) {
        close(got[i]);
    }
    fuzz_require(open_count(ends[0]) == before);
    close(ends[0]);
    count = room_count;
    fuzz_require(wire_receive(ends[1], room, want, got, &count, MSG_DONTWAIT) == 0);
    close(ends[1]);
}

/* --- a command's events and spool --- */

struct heard {
    size_t bytes;
    unsigned ends;
    bool full;
};

static bool on_output(void *ctx, enum host_stream stream, const void *data, size_t len)
{
    struct heard *h = ctx;
    volatile uint8_t touch = 0;
    fuzz_require(stream == HOST_STDOUT || stream == HOST_STDERR);
    fuzz_require(h->ends == 0 && len > 0 && !h->full);
    for (size_t i = 0; i < len; i++) {
        touch ^= ((const uint8_t *)data)[i];
    }
    (void)touch;
    h->bytes += len;
    h->full = h->bytes > ROOM;
    return !h->full;
}

static void on_finished(void *ctx, const struct host_exec_result *result)
{
    struct heard *h = ctx;
    fuzz_require(h->ends++ == 0);
    fuzz_require(!result->started || !result->lost || result->exit_code >= -1);
}

static struct link *new_link(struct heard *heard, const uint8_t *data)
{
    static struct links links = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct error err = ERROR_INIT;
    struct link *k = calloc(1, sizeof(*k));
    fuzz_require(k != NULL);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
    k->links = &links;
    k->refs = 1;
    k->fd = -1;
    k->command.spool = -1;
    links.run_fd = AT_FDCWD;
    struct link_command command = {
        .id = "c",
        .name = "name",
        .cwd = "cwd",
        .events = {.output = on_output, .finished = on_finished, .ctx = heard},
        .skip = {data[0], data[1]},
    };
    fuzz_require(link_command_begin(k, &command, &err) == 0);
    fuzz_require(link_command_begin(k, &command, &err) != 0);
    return k;
}

/* Four bytes: what is known of the streams, what the event is, and how much it says is whole. Then
 * the end's event, as far as it is there, and the spool. */
static void try_events(const uint8_t *data, size_t size)
{
    struct heard heard = {0};
    struct shim_event event = {.type = SHIM_OUTPUT};
    if (size < 4) {
        return;
    }
    struct link *k = new_link(&heard, data);
    bool ends = data[2] % 4 < 2;
    struct shim_event end = {.command = "c"};
    size_t head = size - 4 < sizeof(end) ? 0 : sizeof(end);
    if (data[2] % 2 == 0) {
        memcpy(&end, data + 4, head);
        memcpy(end.command, "c", 2);
    }
    k->command.spool = (data[2] & 8) != 0 ? -1 : file_of(data + 4 + head, size - 4 - head);
    snprintf(event.command, sizeof(event.command), "%s", (data[2] & 16) != 0 ? "other" : "c");
    event.spool_end = data[3] == 0 ? INT64_MAX : data[3];
    link_command_output(k, &event);
    event.spool_end = end.spool_end;
    link_command_output(k, &event);
    if (ends) {
        link_command_finished(k, &end);
        fuzz_require(heard.ends == 1);
        link_command_finished(k, &end);
    } else if ((data[2] & 32) != 0) {
        link_command_let_go(k);
    }
    link_command_lost(k, "gone");
    fuzz_require(heard.ends == 1 && heard.bytes <= size + ROOM);
    link_unref(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const TRIES[])(const uint8_t *data, size_t size) = {
        try_plan,
        try_words,
        try_message,
        try_events,
    };
    if (size > 0) {
        TRIES[data[0] % (sizeof(TRIES) / sizeof(TRIES[0]))](data + 1, size - 1);
    }
    return 0;
}
