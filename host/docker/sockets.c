/* The sockets of a workspace, which the engine's copy leaves out without a word. */
#include "base/clock.h"
#include "base/log.h"
#include "host/docker/docker_internal.h"
#include "host/guest.h"

enum {
    TIMEOUT_MS = 3000,       /* for all of it */
    MEMORY_NEEDED = 8 << 20, /* for starting something inside, with room to spare */
    SOCKETS_MAX = 1 << 20,   /* the most inodes of a workspace */
};

static int64_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Whether the helper can be started without the kernel killing something for it. */
static bool has_room(const json_t *stats)
{
    const json_t *memory = json_object_get(stats, "memory_stats");
    const json_t *details = json_object_get(memory, "stats");
    /* As the two versions of cgroups call what can be dropped at once. */
    int64_t spare = number(details, "total_inactive_file") + number(details, "inactive_file");
    int64_t usage = number(memory, "usage");

    return usage > 0 && number(memory, "limit") - usage + spare >= MEMORY_NEEDED;
}

static int check_room(struct docker_host *h, const char *container, struct cancel *cancel,
                      struct error *err)
{
    const struct docker_call call = {
        .verb = "stats", .method = "GET", .timeout_ms = TIMEOUT_MS, .cancel = cancel};
    _cleanup_answer_ struct engine_answer answer = {0};

    if (docker_call(h, &call, &answer, err, "/containers/%s/stats?stream=0&one-shot=1", container) <
        0) {
        return -1;
    }
    if (answer.status != 200) {
        return docker_refused(err, &call, &answer);
    }
    return has_room(answer.json)
               ? 0
               : error_set(err, ERROR_RESOURCE_LIMIT, "the execution has too little memory left");
}

static int sockets_failed(int errnum, const char *text, struct error *err)
{
    return error_set_errno(err, ERROR_RUNTIME, errnum, "%s", text);
}

static int ask_sockets(struct docker_host *h, const char *container,
                       const struct host_checkpoint_plan *plan, int64_t *count, struct error *err)
{
    static const char *const argv[] = {"sockets", "", NULL};
    struct docker_process_context context = docker_context(h, container);
    int64_t until = clock_mono_ms() + TIMEOUT_MS;
    struct host_guest_call call = {
        .id = plan->id,
        .handle = plan->handle,
        .argv = argv,
        .deadline_mono_ms = until < plan->deadline_mono_ms ? until : plan->deadline_mono_ms,
        .cancel = plan->cancel,
        .failed = sockets_failed,
    };
    _cleanup_guest_ struct host_guest *guest = NULL;
    struct host_guest_frame frame;

    if (check_room(h, container, plan->cancel, err) < 0 ||
        docker_helper_ready(h, container, plan->cancel, err) < 0 ||
        docker_process_guest(&context, &call, &guest, err) < 0 ||
        host_guest_receive(guest, &frame, err) < 0) {
        return -1;
    }
    if (frame.type != GUEST_COUNT || frame.len != 8 || guest_get_i64(frame.payload) < 0) {
        return host_guest_out_of_place(err);
    }
    *count = guest_get_i64(frame.payload);
    return 0;
}

int64_t docker_count_sockets(struct docker_host *h, const char *container,
                             const struct host_checkpoint_plan *plan)
{
    struct error err = ERROR_INIT;
    int64_t count = 0;

    if (ask_sockets(h, container, plan, &count, &err) < 0) {
        log_failure(LOG_LEVEL_INFO, &err, "the sockets of a workspace could not be counted",
                    "execution", plan->id.execution_id, NULL);
        return 0;
    }
    return count <= SOCKETS_MAX ? count : 0;
}
