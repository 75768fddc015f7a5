#include "host/docker/container.h"

#include "guest/protocol.h"

#include <inttypes.h>
#include <string.h>

/* The idle process. Its arguments are data of the script, never part of it. */
#define IDLE_SCRIPT "PATH=$1; exec sleep \"$2\""

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Both names may hold dashes: a tenant's that does stands behind its length, which begins with a
 * dot because no name does. */
static int add_tenant(struct buf *name, const char *tenant)
{
    return strchr(tenant, '-') == NULL ? buf_add_str(name, tenant)
                                       : buf_addf(name, ".%zu.%s", strlen(tenant), tenant);
}

char *container_name(const char *instance, const struct host_identity *id)
{
    _cleanup_buf_ struct buf name;

    buf_init(&name, CONTAINER_NAME_MAX);
    if (buf_addf(&name, "exechost-%s-", instance) < 0 || add_tenant(&name, id->tenant) < 0 ||
        buf_addf(&name, "-%s-%u", id->execution_id, id->incarnation) < 0) {
        return NULL;
    }
    return buf_take(&name, NULL);
}

static int set_number(json_t *labels, const char *key, int64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, value);
    return json_object_set_new(labels, key, json_string(text));
}

static json_t *labels_of(const struct container_spec *spec, bool all)
{
    json_t *labels = json_object();
    int failed =
        json_object_set_new(labels, CONTAINER_LABEL_INSTANCE, json_string(spec->instance)) |
        json_object_set_new(labels, CONTAINER_LABEL_TENANT, json_string(spec->id.tenant)) |
        json_object_set_new(labels, CONTAINER_LABEL_EXECUTION, json_string(spec->id.execution_id)) |
        set_number(labels, CONTAINER_LABEL_INCARNATION, spec->id.incarnation);

    if (all) {
        failed |= set_number(labels, CONTAINER_LABEL_DEADLINE, spec->deadline_wall_ms);
    }
    if (all && spec->owner_id != NULL) {
        failed |= json_object_set_new(labels, CONTAINER_LABEL_OWNER, json_string(spec->owner_id)) |
                  set_number(labels, CONTAINER_LABEL_FENCING, spec->fencing_token);
    }
    if (failed != 0) {
        json_decref(labels);
        return NULL;
    }
    return labels;
}

/* An anonymous volume on a tmpfs: what the engine can copy while the container is frozen, and
 * removes with it. */
static json_t *volume(const struct container_spec *spec, const char *target, const char *options)
{
    return json_pack("{s:s,s:s,s:{s:b,s:o,s:{s:s,s:{s:s,s:s,s:s}}}}", "Type", "volume", "Target",
                     target, "VolumeOptions", "NoCopy", 1, "Labels", labels_of(spec, false),
                     "DriverConfig", "Name", "local", "Options", "type", "tmpfs", "device", "tmpfs",
                     "o", options);
}

static json_t *mounts(const struct container_spec *spec)
{
    char workspace[160];
    int64_t inodes =
        clamp(spec->limits->disk_bytes / 4096, CONTAINER_INODES_MIN, CONTAINER_INODES_MAX);

    snprintf(workspace, sizeof(workspace),
             "size=%" PRId64 ",nr_inodes=%" PRId64 ",uid=%u,gid=%u,mode=0700,nosuid,nodev",
             spec->limits->disk_bytes, inodes, spec->uid, spec->gid);
    return json_pack(
        "[o,o]", volume(spec, CONTAINER_WORKSPACE, workspace),
        volume(spec, GUEST_DIRECTORY, "size=4m,nr_inodes=64,uid=0,gid=0,mode=0755,nosuid,nodev"));
}

static json_t *tmp(const struct container_spec *spec)
{
    char options[128];

    snprintf(options, sizeof(options),
             "rw,nosuid,nodev,noexec,mode=1777,size=%" PRId64 ",nr_inodes=%d",
             clamp(spec->limits->memory_bytes / 4, CONTAINER_TMP_MIN, CONTAINER_TMP_MAX),
             CONTAINER_TMP_INODES);
    return json_pack("{s:s}", "/tmp", options);
}

static json_t *host_config(const struct container_spec *spec)
{
    const struct host_limits *limits = spec->limits;
    int64_t shm = clamp(limits->memory_bytes / 4, CONTAINER_SHM_MIN, spec->shm_bytes_max);

    return json_pack(
        "{s:b,s:b,s:I,s:I,s:I,s:I,s:I,s:b,s:[s],s:[s],s:s,s:s,s:{s:s},s:o,s:o}", "Init", 1,
        "AutoRemove", 1, "NanoCpus", (json_int_t)limits->nano_cpus, "Memory",
        (json_int_t)limits->memory_bytes, "MemorySwap", (json_int_t)limits->memory_bytes,
        "PidsLimit", (json_int_t)limits->pids, "ShmSize", (json_int_t)shm, "ReadonlyRootfs", 1,
        "CapDrop", "ALL", "SecurityOpt", "no-new-privileges", "NetworkMode", "none", "IpcMode",
        "private", "LogConfig", "Type", "none", "Tmpfs", tmp(spec), "Mounts", mounts(spec));
}

static json_t *environment(const struct container_spec *spec)
{
    json_t *list = json_array();

    for (char *const *variable = spec->environment; variable != NULL && *variable != NULL;
         variable++) {
        if (json_array_append_new(list, json_string(*variable)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    if (spec->set_home &&
        json_array_append_new(list, json_string("HOME=" CONTAINER_WORKSPACE)) < 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *container_body(const struct container_spec *spec, struct error *err)
{
    char user[CONTAINER_USER_SIZE];
    char seconds[24];
    json_t *body;

    /* Not the commands' user, so that no command can stop what ends the execution. */
    snprintf(user, sizeof(user), "%u:%u", spec->uid + 1, spec->gid);
    snprintf(seconds, sizeof(seconds), "%" PRId64, spec->sleep_s);
    body = json_pack("{s:s,s:[s,s,s,s,s,s],s:[],s:s,s:s,s:o,s:o,s:{s:[s]},s:o}", "Image",
                     spec->image, "Entrypoint", "/bin/sh", "-c", IDLE_SCRIPT, "exechost-idle",
                     spec->search_path, seconds, "Cmd", "User", user, "WorkingDir",
                     CONTAINER_WORKSPACE, "Env", environment(spec), "Labels", labels_of(spec, true),
                     "Healthcheck", "Test", "NONE", "HostConfig", host_config(spec));
    if (body == NULL) {
        error_set(err, ERROR_INTERNAL, "the container's description could not be built");
    }
    return body;
}

/* --- handles --- */

bool container_id_valid(const char *id)
{
    size_t len = strspn(id, "0123456789abcdef");

    return len == CONTAINER_ID_SIZE - 1 && id[len] == '\0';
}

char *container_handle_format(const struct container_handle *handle)
{
    _cleanup_buf_ struct buf text;

    buf_init(&text, 1024);
    if (buf_addf(&text, "%s %s %s", handle->id, handle->volumes[0], handle->volumes[1]) < 0) {
        return NULL;
    }
    return buf_take(&text, NULL);
}

static bool take_word(const char **text, char out[CONTAINER_ID_SIZE])
{
    size_t len = strcspn(*text, " ");

    if (len == 0 || len >= CONTAINER_ID_SIZE) {
        return false;
    }
    memcpy(out, *text, len);
    out[len] = '\0';
    *text += len;
    if (**text == ' ') {
        (*text)++;
    }
    return strcmp(out, "-") == 0 || container_id_valid(out);
}

int container_handle_parse(const char *text, struct container_handle *out)
{
    struct container_handle handle;

    if (!take_word(&text, handle.id) || !take_word(&text, handle.volumes[0]) ||
        !take_word(&text, handle.volumes[1]) || *text != '\0') {
        return -1;
    }
    *out = handle;
    return 0;
}

int container_handle_from_mounts(const json_t *mounts_list, struct container_handle *handle)
{
    size_t i;
    const json_t *mount;

    snprintf(handle->volumes[0], CONTAINER_ID_SIZE, "-");
    snprintf(handle->volumes[1], CONTAINER_ID_SIZE, "-");
    json_array_foreach(mounts_list, i, mount)
    {
        const char *name = json_string_value(json_object_get(mount, "Name"));
        const char *target = json_string_value(json_object_get(mount, "Destination"));
        bool workspace = target != NULL && strcmp(target, CONTAINER_WORKSPACE) == 0;
        bool helper = target != NULL && strcmp(target, GUEST_DIRECTORY) == 0;

        if (!workspace && !helper) {
            continue;
        }
        if (name == NULL || !container_id_valid(name)) {
            return -1;
        }
        memcpy(handle->volumes[workspace ? 0 : 1], name, CONTAINER_ID_SIZE);
    }
    return 0;
}

/* --- search path and labels --- */

/* Absolute, free of "..", and not below what a command can write. */
static bool is_safe_directory(const char *dir, size_t len)
{
    static const char *const WRITABLE[] = {CONTAINER_WORKSPACE, "/tmp", "/dev", "/proc"};

    if (len == 0 || dir[0] != '/' || memmem(dir, len, "..", 2) != NULL ||
        memmem(dir, len, "//", 2) != NULL || memmem(dir, len, "/./", 3) != NULL) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_SIZE(WRITABLE); i++) {
        size_t root = strlen(WRITABLE[i]);

        if (len >= root && memcmp(dir, WRITABLE[i], root) == 0 &&
            (len == root || dir[root] == '/')) {
            return false;
        }
    }
    return true;
}

char *container_search_path(const char *path)
{
    _cleanup_buf_ struct buf out;

    buf_init(&out, 64 * 1024);
    while (path != NULL && *path != '\0') {
        size_t len = strcspn(path, ":");

        if (is_safe_directory(path, len) &&
            (buf_add(&out, path, len) < 0 || buf_add_char(&out, ':') < 0)) {
            return NULL;
        }
        path += len + (path[len] == ':' ? 1 : 0);
    }
    if (buf_add_str(&out, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") < 0) {
        return NULL;
    }
    return buf_take(&out, NULL);
}

static bool label_is(const json_t *labels, const char *key, const char *value)
{
    const char *text = json_string_value(json_object_get(labels, key));

    return text != NULL && strcmp(text, value) == 0;
}

bool container_labels_match(const json_t *labels, const char *instance,
                            const struct host_identity *id)
{
    char incarnation[16];

    snprintf(incarnation, sizeof(incarnation), "%u", id->incarnation);
    return label_is(labels, CONTAINER_LABEL_INSTANCE, instance) &&
           label_is(labels, CONTAINER_LABEL_TENANT, id->tenant) &&
           label_is(labels, CONTAINER_LABEL_EXECUTION, id->execution_id) &&
           label_is(labels, CONTAINER_LABEL_INCARNATION, incarnation);
}
