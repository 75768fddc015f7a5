/* Destroying, and the proof that nothing is left. */
#include "base/clock.h"
#include "host/docker/docker_internal.h"

#include <string.h>

enum { REMOVE_WAIT_MS = 15 * 1000, POLL_FIRST_MS = 2, POLL_MOST_MS = 100 };

/* One named thing of the engine's: asked to go, then asked about until it is gone. */
struct target {
    struct docker_host *h;
    const char *path;  /* "/containers/<id>", "/volumes/<name>" */
    const char *query; /* of the delete call */
    const char *look;  /* appended to ask about it */
    const char *what;
    bool busy; /* the engine is at it, or something still holds it */
};

static int delete_once(struct target *t, struct error *err)
{
    static const struct docker_call call = {
        .verb = "remove", .method = "DELETE", .timeout_ms = 30 * 1000};
    _cleanup_answer_ struct engine_answer answer = {0};

    if (docker_call(t->h, &call, &answer, err, "%s%s", t->path, t->query) < 0) {
        return -1;
    }
    t->busy = answer.status == 409;
    if (answer.status != 204 && answer.status != 404 && !t->busy) {
        return docker_refused(err, &call, &answer);
    }
    return 0;
}

/* 1 when it is gone, 0 when it is still there. */
static int is_gone(const struct target *t, struct error *err)
{
    static const struct docker_call call = {
        .verb = "remove_proof", .method = "GET", .timeout_ms = 30 * 1000};
    _cleanup_answer_ struct engine_answer answer = {0};

    if (docker_call(t->h, &call, &answer, err, "%s%s", t->path, t->look) < 0) {
        return -1;
    }
    if (answer.status != 200 && answer.status != 404) {
        return docker_refused(err, &call, &answer);
    }
    return answer.status == 404 ? 1 : 0;
}

static int destroy(struct target *t, struct error *err)
{
    int64_t deadline = clock_mono_ms() + REMOVE_WAIT_MS;
    unsigned pause = POLL_FIRST_MS;

    for (;;) {
        int gone;

        if (delete_once(t, err) < 0) {
            return -1;
        }
        gone = is_gone(t, err);
        if (gone != 0) {
            return gone < 0 ? -1 : 0;
        }
        if (clock_mono_ms() >= deadline) {
            return error_set(err, ERROR_RUNTIME, "the %s is still there%s", t->what,
                             t->busy ? ": the engine says that it is busy" : "");
        }
        usleep(pause * 1000);
        pause = pause * 2 < POLL_MOST_MS ? pause * 2 : POLL_MOST_MS;
    }
}

static int destroy_container(struct docker_host *h, const char *id, struct error *err)
{
    char path[CONTAINER_ID_SIZE + 16];
    struct target t = {
        .h = h, .path = path, .query = "?force=1&v=1", .look = "/json", .what = "container"};
    _cleanup_stuck_wait_ struct stuck_wait *wait = stuck_wait_begin(h->stuck, id, STUCK_END);

    snprintf(path, sizeof(path), "/containers/%s", id);
    return destroy(&t, err);
}

/* The container takes its volumes along; one that it left behind goes by itself. */
static int destroy_volume(struct docker_host *h, const char *name, struct error *err)
{
    char path[CONTAINER_ID_SIZE + 16];
    struct target t = {.h = h, .path = path, .query = "", .look = "", .what = "volume"};
    int gone;

    snprintf(path, sizeof(path), "/volumes/%s", name);
    gone = is_gone(&t, err);
    return gone == 0 ? destroy(&t, err) : gone < 0 ? -1 : 0;
}

int docker_remove(struct docker_host *h, const struct container_handle *handle, struct error *err)
{
    if (handle->id[0] != '-') {
        observer_remove(h->observer, handle->id);
        if (destroy_container(h, handle->id, err) < 0) {
            return error_in_phase(err, PHASE_CLEANUP);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (handle->volumes[i][0] != '-' && destroy_volume(h, handle->volumes[i], err) < 0) {
            return error_in_phase(err, PHASE_CLEANUP);
        }
    }
    return 0;
}

static int remove_containers(struct docker_host *h, const json_t *filter, struct error *err)
{
    _cleanup_answer_ struct engine_answer answer = {0};
    size_t i;
    const json_t *item;

    if (docker_list_containers(h, filter, &answer, err) < 0) {
        return -1;
    }
    json_array_foreach(answer.json, i, item)
    {
        const char *id = json_string_value(json_object_get(item, "Id"));
        struct container_handle handle = {0};

        if (id == NULL || !container_id_valid(id) ||
            container_handle_from_mounts(json_object_get(item, "Mounts"), &handle) < 0) {
            return error_set(err, ERROR_RUNTIME, "the engine lists a container without an id");
        }
        memcpy(handle.id, id, sizeof(handle.id));
        if (docker_remove(h, &handle, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int remove_volumes(struct docker_host *h, const json_t *filter, struct error *err)
{
    _cleanup_answer_ struct engine_answer answer = {0};
    size_t i;
    const json_t *item;

    if (docker_list_volumes(h, filter, &answer, err) < 0) {
        return -1;
    }
    json_array_foreach(json_object_get(answer.json, "Volumes"), i, item)
    {
        const char *name = json_string_value(json_object_get(item, "Name"));

        if (name == NULL || !container_id_valid(name)) {
            return error_set(err, ERROR_RUNTIME, "the engine lists a volume without a name");
        }
        if (destroy_volume(h, name, err) < 0) {
            return -1;
        }
    }
    return 0;
}

int docker_remove_identity(struct docker_host *h, const struct host_identity *id, struct error *err)
{
    _cleanup_json_ json_t *filter = docker_identity_filter(h->instance, id);

    if (filter == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (remove_containers(h, filter, err) < 0 || remove_volumes(h, filter, err) < 0) {
        return error_in_phase(err, PHASE_CLEANUP);
    }
    return 0;
}
