/* What a restart needs: everything that bears a mark of this service, whoever made it. */
#include "host/docker/docker_internal.h"

#include <string.h>

static const char *label(const json_t *labels, const char *key)
{
    return json_string_value(json_object_get(labels, key));
}

static char *copy_of(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static unsigned parse_incarnation(const char *text)
{
    char *end;
    unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;

    return text != NULL && end != text && *end == '\0' && value <= 0xffffffffU ? (unsigned)value
                                                                               : 0;
}

/* False when the labels are not complete, or memory is out: then it is none of this service's. */
static bool fill_identity(const struct docker_host *h, const json_t *labels,
                          struct host_found *found)
{
    const char *instance = label(labels, CONTAINER_LABEL_INSTANCE);
    const char *fencing = label(labels, CONTAINER_LABEL_FENCING);
    const char *owner = label(labels, CONTAINER_LABEL_OWNER);

    found->tenant = copy_of(label(labels, CONTAINER_LABEL_TENANT));
    found->execution_id = copy_of(label(labels, CONTAINER_LABEL_EXECUTION));
    found->incarnation = parse_incarnation(label(labels, CONTAINER_LABEL_INCARNATION));
    found->owner_id = copy_of(owner);
    found->fencing_token = fencing != NULL ? strtoll(fencing, NULL, 10) : 0;
    found->ours = instance != NULL && strcmp(instance, h->instance) == 0;
    return instance != NULL && found->tenant != NULL && found->execution_id != NULL &&
           found->incarnation > 0 && (owner == NULL || found->owner_id != NULL);
}

static int add_container(const struct docker_host *h, const json_t *item,
                         struct host_found_list *list, struct error *err)
{
    struct host_found found = {0};
    struct container_handle handle = {0};
    const char *id = json_string_value(json_object_get(item, "Id"));
    const char *state = json_string_value(json_object_get(item, "State"));

    if (id == NULL || !container_id_valid(id) || state == NULL ||
        container_handle_from_mounts(json_object_get(item, "Mounts"), &handle) < 0 ||
        !fill_identity(h, json_object_get(item, "Labels"), &found)) {
        host_found_done(&found);
        return 0;
    }
    memcpy(handle.id, id, sizeof(handle.id));
    found.frozen = strcmp(state, "paused") == 0;
    found.running = found.frozen || strcmp(state, "running") == 0;
    found.handle = container_handle_format(&handle);
    if (found.handle == NULL) {
        host_found_done(&found);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return host_found_list_add(list, &found, err);
}

/* Volumes that belong to a container are found with it. */
static bool is_held(const struct host_found_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strstr(list->items[i].handle, name) != NULL) {
            return true;
        }
    }
    return false;
}

static int add_volume(const struct docker_host *h, const json_t *item, struct host_found_list *list,
                      struct error *err)
{
    struct host_found found = {0};
    struct container_handle handle = {.id = "-", .volumes = {"-", "-"}};
    const char *name = json_string_value(json_object_get(item, "Name"));

    if (name == NULL || !container_id_valid(name) || is_held(list, name) ||
        !fill_identity(h, json_object_get(item, "Labels"), &found)) {
        host_found_done(&found);
        return 0;
    }
    memcpy(handle.volumes[0], name, sizeof(handle.volumes[0]));
    found.handle = container_handle_format(&handle);
    if (found.handle == NULL) {
        host_found_done(&found);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return host_found_list_add(list, &found, err);
}

static int list_containers(struct docker_host *h, const json_t *filter,
                           struct host_found_list *list, struct error *err)
{
    _cleanup_answer_ struct engine_answer answer = {0};
    size_t i;
    const json_t *item;

    if (docker_list_containers(h, filter, &answer, err) < 0) {
        return -1;
    }
    json_array_foreach(answer.json, i, item)
    {
        if (add_container(h, item, list, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int add_volumes(const struct docker_host *h, const json_t *volumes,
                       struct host_found_list *list, struct error *err)
{
    size_t i;
    const json_t *item;

    json_array_foreach(volumes, i, item)
    {
        if (add_volume(h, item, list, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Volumes are asked for first: one that a container made in between holds is then not in the list,
 * and what a container that went in between has left is. */
int docker_list(struct docker_host *h, struct host_found_list *out, struct error *err)
{
    _cleanup_json_ json_t *filter = json_pack("[s]", CONTAINER_LABEL_INSTANCE);
    _cleanup_answer_ struct engine_answer volumes = {0};
    struct host_found_list list = {0};

    if (filter == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (docker_list_volumes(h, filter, &volumes, err) < 0) {
        return -1;
    }
    if (list_containers(h, filter, &list, err) < 0 ||
        add_volumes(h, json_object_get(volumes.json, "Volumes"), &list, err) < 0) {
        host_found_list_done(&list);
        return -1;
    }
    *out = list;
    return 0;
}

static int look(struct docker_host *h, const char *container, bool *running, bool *paused,
                struct error *err)
{
    static const struct docker_call call = {.verb = "inspect", .method = "GET"};
    _cleanup_stuck_wait_ struct stuck_wait *wait =
        stuck_wait_begin(h->stuck, container, STUCK_LIFE);
    _cleanup_answer_ struct engine_answer answer = {0};
    const json_t *state;

    if (docker_call(h, &call, &answer, err, "/containers/%s/json", container) < 0) {
        return -1;
    }
    if (answer.status != 200) {
        return docker_refused(err, &call, &answer);
    }
    state = json_object_get(answer.json, "State");
    *running = json_is_true(json_object_get(state, "Running"));
    *paused = json_is_true(json_object_get(state, "Paused"));
    return 0;
}

int docker_adopt(struct docker_host *h, const struct host_found *found, struct error *err)
{
    struct host_identity id = {.tenant = found->tenant,
                               .execution_id = found->execution_id,
                               .incarnation = found->incarnation};
    struct container_handle handle;
    bool running = false;
    bool paused = false;

    if (container_handle_parse(found->handle, &handle) < 0 || handle.id[0] == '-') {
        return error_set(err, ERROR_RUNTIME, "the execution has no container");
    }
    if (observer_add(h->observer, handle.id, &id, err) < 0) {
        return -1;
    }
    if (look(h, handle.id, &running, &paused, err) < 0 ||
        (paused && docker_unpause(h, handle.id, err) < 0)) {
        observer_remove(h->observer, handle.id);
        return -1;
    }
    if (!running || !observer_publish(h->observer, handle.id)) {
        observer_remove(h->observer, handle.id);
        return error_set(err, ERROR_RUNTIME, "the container does not run");
    }
    return 0;
}
