/* What the engine says it made, held against what it was asked for. */
#include "guest/protocol.h"
#include "host/docker/container.h"

#include <string.h>

/* The value may be absent, null, or this kind of nothing. */
static bool is_nothing(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_integer(value) && json_integer_value(value) == 0);
}

static int differs(struct error *err, const char *name, const json_t *asked, const json_t *got)
{
    char *asked_text = asked != NULL ? json_dumps(asked, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    char *got_text = got != NULL ? json_dumps(got, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

    error_set(err, ERROR_RESOURCE_LIMIT,
              "the engine applied %s otherwise: asked for %.150s, got %.150s", name,
              asked_text != NULL ? asked_text : "nothing", got_text != NULL ? got_text : "nothing");
    free(asked_text);
    free(got_text);
    return error_in_phase(err, PHASE_CREATE);
}

static bool matches(const json_t *asked, const json_t *got);

static bool object_matches(const json_t *asked, const json_t *got)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)asked, key, value)
    {
        const json_t *other = json_object_get(got, key);

        /* More options would be another file system. */
        if (strcmp(key, "Options") == 0 ? !json_equal(value, other) : !matches(value, other)) {
            return false;
        }
    }
    return true;
}

/* Objects may say more than was asked: newer engines echo their defaults. */
static bool matches(const json_t *asked, const json_t *got)
{
    if (is_nothing(asked)) {
        return is_nothing(got);
    }
    if (json_is_object(asked) && json_is_object(got)) {
        return object_matches(asked, got);
    }
    if (json_is_array(asked) && json_is_array(got)) {
        if (json_array_size(asked) != json_array_size(got)) {
            return false;
        }
        for (size_t i = 0; i < json_array_size(asked); i++) {
            if (!matches(json_array_get(asked, i), json_array_get(got, i))) {
                return false;
            }
        }
        return true;
    }
    return json_equal(asked, got);
}

/* The engine merges the image's variables behind ours. */
static int verify_environment(const json_t *asked, const json_t *got, struct error *err)
{
    size_t i;
    const json_t *variable;

    json_array_foreach(asked, i, variable)
    {
        bool found = false;

        for (size_t k = 0; k < json_array_size(got) && !found; k++) {
            found = json_equal(variable, json_array_get(got, k));
        }
        if (!found) {
            const char *text = json_string_value(variable);

            /* Names only: values are nobody else's business. */
            error_set(err, ERROR_RESOURCE_LIMIT, "the engine left out the variable %.*s",
                      (int)strcspn(text, "="), text);
            return error_in_phase(err, PHASE_CREATE);
        }
    }
    return 0;
}

static int verify_config(const json_t *body, const json_t *config, struct error *err)
{
    static const char *const SAME[] = {"Entrypoint", "Cmd",   "User",       "WorkingDir",
                                       "Labels",     "Image", "Healthcheck"};
    static const char *const NOTHING[] = {"Volumes", "Tty", "OpenStdin"};

    for (size_t i = 0; i < ARRAY_SIZE(SAME); i++) {
        const json_t *asked = json_object_get(body, SAME[i]);
        const json_t *got = json_object_get(config, SAME[i]);

        if (!matches(asked, got)) {
            return differs(err, SAME[i], asked, got);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(NOTHING); i++) {
        const json_t *got = json_object_get(config, NOTHING[i]);

        if (!is_nothing(got)) {
            return differs(err, NOTHING[i], NULL, got);
        }
    }
    return verify_environment(json_object_get(body, "Env"), json_object_get(config, "Env"), err);
}

static int verify_host_config(const json_t *asked, const json_t *got, struct error *err)
{
    static const char *const NOTHING[] = {
        "Binds",      "VolumesFrom",       "CapAdd",         "GroupAdd",   "Links",
        "ExtraHosts", "PortBindings",      "Devices",        "Sysctls",    "DeviceRequests",
        "Privileged", "DeviceCgroupRules", "OomKillDisable", "PidMode",    "UTSMode",
        "UsernsMode", "CgroupParent",      "VolumeDriver",   "CpuQuota",   "PublishAllPorts",
        "CpuPeriod",  "CpusetCpus",        "CpusetMems",     "OomScoreAdj"};
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)asked, key, value)
    {
        const json_t *other = json_object_get(got, key);

        if (!matches(value, other)) {
            return differs(err, key, value, other);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(NOTHING); i++) {
        const json_t *other = json_object_get(got, NOTHING[i]);

        if (!is_nothing(other)) {
            return differs(err, NOTHING[i], NULL, other);
        }
    }
    /* Nothing but /tmp, with nothing but what was asked for. */
    if (!json_equal(json_object_get(asked, "Tmpfs"), json_object_get(got, "Tmpfs"))) {
        return differs(err, "Tmpfs", json_object_get(asked, "Tmpfs"),
                       json_object_get(got, "Tmpfs"));
    }
    if (is_nothing(json_object_get(got, "MaskedPaths")) ||
        is_nothing(json_object_get(got, "ReadonlyPaths"))) {
        return differs(err, "MaskedPaths", NULL, json_object_get(got, "MaskedPaths"));
    }
    return 0;
}

static int verify_mounts(const json_t *mounts, struct container_handle *handle, struct error *err)
{
    size_t i;
    const json_t *mount;

    json_array_foreach(mounts, i, mount)
    {
        const char *type = json_string_value(json_object_get(mount, "Type"));
        const char *driver = json_string_value(json_object_get(mount, "Driver"));

        if (type == NULL || strcmp(type, "volume") != 0 || driver == NULL ||
            strcmp(driver, "local") != 0 || !json_is_true(json_object_get(mount, "RW"))) {
            return differs(err, "Mounts", NULL, mount);
        }
    }
    if (json_array_size(mounts) != 2 || container_handle_from_mounts(mounts, handle) < 0 ||
        handle->volumes[0][0] == '-' || handle->volumes[1][0] == '-') {
        return differs(err, "Mounts", NULL, mounts);
    }
    return 0;
}

static int verify_state(const json_t *inspection, struct error *err)
{
    const json_t *state = json_object_get(inspection, "State");
    const json_t *networks =
        json_object_get(json_object_get(inspection, "NetworkSettings"), "Networks");

    if (!json_is_true(json_object_get(state, "Running")) ||
        json_is_true(json_object_get(state, "Paused"))) {
        error_set(err, ERROR_RUNTIME, "the container ended right after its start");
        return error_in_phase(err, PHASE_START);
    }
    if (json_object_size(networks) > 1 ||
        (json_object_size(networks) == 1 && json_object_get(networks, "none") == NULL)) {
        return differs(err, "Networks", NULL, networks);
    }
    return 0;
}

int container_verify(const json_t *body, const json_t *inspection, struct container_handle *handle,
                     struct error *err)
{
    struct container_handle found;
    const char *id = json_string_value(json_object_get(inspection, "Id"));

    if (id == NULL || !container_id_valid(id)) {
        return error_set(err, ERROR_RUNTIME, "the engine's inspection names no container");
    }
    memcpy(found.id, id, CONTAINER_ID_SIZE);
    if (verify_state(inspection, err) < 0 ||
        verify_config(body, json_object_get(inspection, "Config"), err) < 0 ||
        verify_host_config(json_object_get(body, "HostConfig"),
                           json_object_get(inspection, "HostConfig"), err) < 0 ||
        verify_mounts(json_object_get(inspection, "Mounts"), &found, err) < 0) {
        return -1;
    }
    *handle = found;
    return 0;
}
