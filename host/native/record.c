/* What of an execution must be known after a restart of the service and is not in the shim. */
#include "base/fault.h"
#include "base/file.h"
#include "host/native/native_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

enum { STATE_MAX = 64 * 1024, ENVIRONMENT_MAX = 64 * 1024 * 1024 };
#define STATE_FILE "state"
#define ENVIRONMENT_FILE "environment"

/* --- keys --- */

void native_key(const struct host_identity *id, char out[NATIVE_KEY_SIZE])
{
    snprintf(out, NATIVE_KEY_SIZE, "%s,%s,%u", id->tenant, id->execution_id, id->incarnation);
}

bool link_key_parse(char *key, struct host_identity *out)
{
    char *execution = strchr(key, ',');
    char *incarnation = execution == NULL ? NULL : strchr(execution + 1, ',');
    char *end = NULL;
    if (incarnation == NULL || incarnation[1] < '1' || incarnation[1] > '9') {
        return false;
    }
    unsigned long number = strtoul(incarnation + 1, &end, 10);
    if (*end != '\0' || number > UINT32_MAX) {
        return false;
    }
    *execution = '\0';
    *incarnation = '\0';
    *out = (struct host_identity){
        .tenant = key, .execution_id = execution + 1, .incarnation = (unsigned)number};
    return key[0] != '\0' && execution[1] != '\0';
}

/* --- environment --- */

void native_environment_free(char **environment)
{
    for (char **variable = environment; variable != NULL && *variable != NULL; variable++) {
        free(*variable);
    }
    free(environment);
}

static size_t count_of(char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    return count;
}

/* The place of a variable of the same name, or the end. */
static char **find(char **environment, const char *variable)
{
    size_t len = strcspn(variable, "=") + 1;
    while (*environment != NULL && strncmp(*environment, variable, len) != 0) {
        environment++;
    }
    return environment;
}

char **native_environment_merge(char *const *first, const char *const *second)
{
    char *const *lists[2] = {first, (char *const *)(uintptr_t)second};
    char **merged = calloc(count_of(lists[0]) + count_of(lists[1]) + 1, sizeof(char *));
    for (int i = 0; merged != NULL && i < 2; i++) {
        for (char *const *variable = lists[i]; variable != NULL && *variable != NULL; variable++) {
            char **at = find(merged, *variable);
            free(*at);
            *at = strdup(*variable);
            if (*at == NULL) {
                native_environment_free(merged);
                return NULL;
            }
        }
    }
    return merged;
}

/* --- files --- */

void native_record_done(struct native_record *record)
{
    free(record->owner_id);
    native_environment_free(record->environment);
    *record = (struct native_record){0};
}

static int write_file(int dir, const char *name, const void *data, size_t len, struct error *err)
{
    _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "making a file of the execution");
    }
    return file_write_all(fd, data, len, err);
}

static int write_state(int dir, const struct native_record *record, struct error *err)
{
    json_t *state = json_pack("{s:s?, s:I}", "owner", record->owner_id, "fencingToken",
                              (json_int_t)record->fencing_token);
    char *text = state == NULL ? NULL : json_dumps(state, JSON_COMPACT);
    json_decref(state);
    int result = text == NULL ? error_set(err, ERROR_INTERNAL, "out of memory")
                              : write_file(dir, STATE_FILE, text, strlen(text), err);
    free(text);
    return result;
}

static int write_environment(int dir, char *const *environment, struct error *err)
{
    _cleanup_buf_ struct buf text;
    buf_init(&text, ENVIRONMENT_MAX);
    for (; environment != NULL && *environment != NULL; environment++) {
        if (buf_add(&text, *environment, strlen(*environment) + 1) != 0) {
            return error_set(err, ERROR_INTERNAL, "the environment is too long");
        }
    }
    return write_file(dir, ENVIRONMENT_FILE, buf_str(&text), text.len, err);
}

int native_record_write(struct native_host *h, const char *key, const struct native_record *record,
                        struct error *err)
{
    errno = fault_point("native.directory");
    if (errno != 0 || mkdirat(h->run_fd, key, 0700) != 0) {
        return error_set_errno(err, errno == EEXIST ? ERROR_RUNTIME : ERROR_INTERNAL, errno,
                               "making the execution's directory");
    }
    _cleanup_close_ int dir = openat(h->run_fd, key, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "opening the execution's directory");
    }
    if (write_state(dir, record, err) != 0) {
        return -1;
    }
    int fault = fault_point("native.record");
    if (fault != 0) {
        return error_set_errno(err, ERROR_INTERNAL, fault, "writing the execution's record");
    }
    return write_environment(dir, record->environment, err);
}

static int read_part(struct native_host *h, const char *key, const char *name, struct buf *out,
                     struct error *err)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/%s/%s", h->run_path, key, name) >= (int)sizeof(path)) {
        return error_set(err, ERROR_INTERNAL, "the data directory's path is too long");
    }
    return file_read(path, out, err);
}

static int parse_environment(const struct buf *text, char ***out, struct error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < text->len; i++) {
        count += text->data[i] == '\0';
    }
    char **list = calloc(count + 1, sizeof(char *));
    const char *at = text->data;
    for (size_t i = 0; list != NULL && i < count; i++) {
        list[i] = strdup(at);
        if (list[i] == NULL) {
            native_environment_free(list);
            list = NULL;
        }
        at += strlen(at) + 1;
    }
    if (list == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *out = list;
    return 0;
}

static int parse_state(const struct buf *text, struct native_record *record, struct error *err)
{
    json_t *json = json_loadb(buf_str(text), text->len, 0, NULL);
    const char *owner = json_string_value(json_object_get(json, "owner"));
    record->owner_id = owner == NULL ? NULL : strdup(owner);
    record->fencing_token = json_integer_value(json_object_get(json, "fencingToken"));
    bool sound = json != NULL && (owner == NULL || record->owner_id != NULL);
    json_decref(json);
    return sound ? 0 : error_set(err, ERROR_INTERNAL, "the execution's record can't be read");
}

int native_record_read_at(const char *directory, struct native_record *out, struct error *err)
{
    char path[4096];
    _cleanup_buf_ struct buf state;
    struct native_record record = {0};
    buf_init(&state, STATE_MAX);
    if (snprintf(path, sizeof(path), "%s/%s", directory, STATE_FILE) >= (int)sizeof(path)) {
        return error_set(err, ERROR_INTERNAL, "the data directory's path is too long");
    }
    if (file_read(path, &state, err) != 0 || parse_state(&state, &record, err) != 0) {
        native_record_done(&record);
        return -1;
    }
    *out = record;
    return 0;
}

int native_record_read(struct native_host *h, const char *key, struct native_record *out,
                       struct error *err)
{
    _cleanup_buf_ struct buf state;
    _cleanup_buf_ struct buf environment;
    struct native_record record = {0};
    buf_init(&state, STATE_MAX);
    buf_init(&environment, ENVIRONMENT_MAX);
    if (read_part(h, key, STATE_FILE, &state, err) != 0 ||
        read_part(h, key, ENVIRONMENT_FILE, &environment, err) != 0) {
        return -1;
    }
    if (parse_state(&state, &record, err) != 0 ||
        parse_environment(&environment, &record.environment, err) != 0) {
        native_record_done(&record);
        return -1;
    }
    *out = record;
    return 0;
}
