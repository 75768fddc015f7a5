/* Workspaces in and out: out as the engine's copy of a frozen container, in by the helper inside.
 */
#include "base/clock.h"
#include "host/content.h"
#include "host/docker/docker_internal.h"
#include "host/result.h"
#include "workspace/tar.h"

#include <limits.h>
#include <string.h>

enum { PAUSE_TRIES = 10, PAUSE_PAUSE_MS = 100 };
enum { UNPAUSE_TRIES = 3, UNPAUSE_PAUSE_MS = 200, FREEZE_TIMEOUT_MS = 15 * 1000 };
/* The engine leaves out, without a word, what has a longer path on its side. */
enum { ENGINE_PATH_MAX = 4095 };

/* --- out --- */

static bool says(const struct engine_answer *answer, const char *words)
{
    const char *message = json_string_value(json_object_get(answer->json, "message"));

    return message != NULL && strcasestr(message, words) != NULL;
}

static int ended_meanwhile(struct error *err)
{
    error_set(err, ERROR_RUNTIME, "the execution ended meanwhile");
    return error_in_phase(err, PHASE_EXPORT);
}

/* `*lost`: the engine gave up against programs that were being started all the time, or a busy
 * machine; nothing is frozen then. */
static int freeze_once(struct docker_host *h, const char *container, bool *lost, struct error *err)
{
    static const struct docker_call call = {
        .verb = "pause", .method = "POST", .timeout_ms = FREEZE_TIMEOUT_MS};
    _cleanup_stuck_wait_ struct stuck_wait *wait =
        stuck_wait_begin(h->stuck, container, STUCK_LIFE);
    _cleanup_answer_ struct engine_answer answer = {0};

    if (docker_call(h, &call, &answer, err, "/containers/%s/pause", container) < 0) {
        return -1;
    }
    if (answer.status == 204 || says(&answer, "already paused")) {
        return 0;
    }
    if (answer.status == 404 || says(&answer, "is not running")) {
        return ended_meanwhile(err);
    }
    *lost = says(&answer, "unable to freeze");
    return docker_refused(err, &call, &answer);
}

static int freeze(struct docker_host *h, const char *container,
                  const struct host_checkpoint_plan *plan, struct error *err)
{
    for (int try = 1;; try++) {
        bool lost = false;

        if (freeze_once(h, container, &lost, err) == 0) {
            return 0;
        }
        if (!lost || try == PAUSE_TRIES || cancel_fired(plan->cancel) ||
            clock_mono_ms() + PAUSE_PAUSE_MS >= plan->deadline_mono_ms) {
            return -1;
        }
        error_clear(err);
        usleep(PAUSE_PAUSE_MS * 1000);
    }
}

/* 0: it runs or is gone; `*gone` tells which. */
static int thaw_once(struct docker_host *h, const char *container, bool *gone, struct error *err)
{
    static const struct docker_call call = {
        .verb = "unpause", .method = "POST", .timeout_ms = FREEZE_TIMEOUT_MS};
    _cleanup_stuck_wait_ struct stuck_wait *wait =
        stuck_wait_begin(h->stuck, container, STUCK_THAW);
    _cleanup_answer_ struct engine_answer answer = {0};

    if (docker_call(h, &call, &answer, err, "/containers/%s/unpause", container) < 0) {
        return -1;
    }
    *gone = answer.status == 404 || says(&answer, "is not running");
    if (answer.status == 204 || *gone || says(&answer, "not paused")) {
        return 0;
    }
    return docker_refused(err, &call, &answer);
}

static int thaw(struct docker_host *h, const char *container, bool *gone, struct error *err)
{
    for (int try = 1;; try++) {
        if (thaw_once(h, container, gone, err) == 0) {
            return 0;
        }
        if (try == UNPAUSE_TRIES) {
            return error_in_phase(err, PHASE_CLEANUP);
        }
        usleep(UNPAUSE_PAUSE_MS * 1000);
    }
}

int docker_unpause(struct docker_host *h, const char *container, struct error *err)
{
    bool gone = false;

    if (thaw(h, container, &gone, err) < 0) {
        return -1;
    }
    return gone ? error_set(err, ERROR_RUNTIME, "the container is gone") : 0;
}

static int out_of_time(struct error *err)
{
    return error_set(err, ERROR_TIMEOUT, "the checkpoint took too long");
}

static int read_workspace(struct docker_host *h, const char *container,
                          const struct host_checkpoint_plan *plan, struct workspace_sink *sink,
                          struct error *err)
{
    static const struct docker_call call = {.verb = "archive"};
    char path[128];
    struct engine_request request = {
        .verb = call.verb, .method = "GET", .path = path, .cancel = plan->cancel};
    struct workspace_tar_source source = {
        .read = engine_download_read,
        .strip = "workspace",
        .apparent_bytes_max = plan->apparent_bytes_max,
        .directory_path_max = ENGINE_PATH_MAX - sizeof(CONTAINER_WORKSPACE "/") - NAME_MAX,
    };
    struct engine_download *download;
    long status;
    int result;

    request.timeout_ms = plan->deadline_mono_ms - clock_mono_ms();
    if (request.timeout_ms <= 0) {
        return out_of_time(err);
    }
    snprintf(path, sizeof(path), "/containers/%s/archive?path=" CONTAINER_WORKSPACE, container);
    if (engine_download_open(h->engine, &request, &download, &status, err) < 0) {
        return -1;
    }
    source.ctx = download;
    if (status == 200) {
        result = workspace_tar_feed(&source, sink, err);
    } else {
        result = status == 404
                     ? ended_meanwhile(err)
                     : error_set(err, ERROR_RUNTIME,
                                 "the engine does not hand out the workspace: HTTP %ld", status);
    }
    engine_download_free(download);
    return result;
}

int docker_checkpoint(struct docker_host *h, const struct host_checkpoint_plan *plan,
                      struct workspace_sink *sink, struct error *err)
{
    struct error first = ERROR_INIT;
    struct error thawing = ERROR_INIT;
    _cleanup_stuck_wait_ struct stuck_wait *wait = NULL;
    struct container_handle handle;
    bool gone = false;
    int64_t sockets;
    int result;

    if (container_handle_parse(plan->handle, &handle) < 0 || handle.id[0] == '-') {
        return error_set(err, ERROR_RUNTIME, "the execution has no container");
    }
    if (cancel_fired(plan->cancel)) {
        return error_set(err, ERROR_RUNTIME, "interrupted");
    }
    wait = stuck_wait_begin(h->stuck, handle.id, STUCK_LIFE);
    sockets = docker_count_sockets(h, handle.id, plan);
    result = freeze(h, handle.id, plan, &first);
    if (result == 0) {
        result = read_workspace(h, handle.id, plan, sink, &first);
    }
    if (result == 0 && sink->ops->skipped != NULL) {
        sink->ops->skipped(sink, sockets);
    }
    /* Also when freezing failed: an answer that was lost says nothing about what happened. */
    if (thaw(h, handle.id, &gone, &thawing) < 0) {
        return host_still_frozen(err, &first, &thawing);
    }
    if (result < 0) {
        *err = first;
        return error_in_phase(err, PHASE_EXPORT);
    }
    return gone ? ended_meanwhile(err) : 0;
}

/* --- in --- */

int docker_load_workspace(struct docker_host *h, const char *container,
                          const struct host_provision_plan *plan, struct workspace_reader *archive,
                          int64_t deadline_mono_ms, struct error *err)
{
    struct docker_process_context context = docker_context(h, container);
    struct host_content content = {.plan = plan,
                                   .archive = archive,
                                   .scratch = h->scratch,
                                   .deadline_mono_ms = deadline_mono_ms};
    struct docker_load load = {
        .deadline_mono_ms = deadline_mono_ms,
        .cancel = plan->cancel,
        .feed = host_content_feed,
        .ctx = &content,
    };

    if (docker_process_install_guest(&context, plan->cancel, err) < 0) {
        return -1;
    }
    observer_set_helper_ready(h->observer, container);
    return docker_process_load(&context, &load, err);
}
