#include "ptc/spec.h"

#include "base/id.h"
#include "ptc/bindings.h"
#include "ptc/places.h"

#include <math.h>
#include <string.h>

static const char *const mode_names[] = {
    [PTC_READ_ONLY] = "read-only",
    [PTC_WORKSPACE_WRITE] = "workspace-write",
    [PTC_DANGER] = "danger-full-access",
};

static const char *const request_keys[] = {
    "program",     "description", "bindings", "cwd",      "timeoutMs", "sandboxPolicy",
    "executionId", "runId",       "limits",   "metadata", "labels",
};

struct resolving {
    json_t *request;
    const struct ptc_rules *rules;
    const struct ptc_scope *scope;
    struct ptc_spec *spec; /* json is being filled */
    struct error *err;
};

static int refuse(struct resolving *r, const char *field, const char *why)
{
    return error_set_field(r->err, ERROR_PTC_INVALID_REQUEST, field, "%s", why);
}

static int set(struct resolving *r, const char *key, json_t *value)
{
    if (value == NULL || json_object_set_new(r->spec->json, key, value) != 0) {
        return error_set(r->err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

const char *ptc_mode_name(enum ptc_mode mode)
{
    return mode_names[mode];
}

int ptc_mode_from_name(const char *name, enum ptc_mode *mode)
{
    for (size_t i = 0; i < ARRAY_SIZE(mode_names); i++) {
        if (strcmp(name, mode_names[i]) == 0) {
            *mode = (enum ptc_mode)i;
            return 0;
        }
    }
    return -1;
}

/* NULL when the member is left out or null. */
static json_t *get(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static int check_keys(struct resolving *r, json_t *object, const char *pointer,
                      const char *const *known, size_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(known[i], key) != 0) {
            i++;
        }
        if (i == count) {
            char field[ERROR_FIELD_MAX];
            (void)snprintf(field, sizeof(field), "%s/%s", pointer, key);
            return refuse(r, field,
                          strcmp(key, "session") == 0 && pointer[0] == '\0'
                              ? "retained sessions are not delivered yet"
                              : "is not known");
        }
    }
    return 0;
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n\v\f")] == '\0';
}

static int resolve_texts(struct resolving *r)
{
    json_t *program = get(r->request, "program");
    json_t *description = get(r->request, "description");
    if (!json_is_string(program)) {
        return refuse(r, "/program", "must be a string");
    }
    if (json_string_length(program) > PTC_PROGRAM_MAX) {
        return refuse(r, "/program", "must have at most 1048576 bytes");
    }
    if (!json_is_string(description) || is_blank(json_string_value(description))) {
        return refuse(r, "/description", "must be a string that is not blank");
    }
    r->spec->program = json_string_value(program);
    r->spec->program_len = json_string_length(program);
    r->spec->description = json_string_value(description);
    return set(r, "program", json_incref(program)) != 0 ||
                   set(r, "description", json_incref(description)) != 0
               ? -1
               : 0;
}

static int resolve_bindings(struct resolving *r)
{
    json_t *bindings = get(r->request, "bindings");
    json_t *copy = bindings == NULL ? json_array() : ptc_bindings_resolve(bindings, r->err);
    if (copy == NULL) {
        return r->err->code != ERROR_NONE ? -1 : error_set(r->err, ERROR_INTERNAL, "out of memory");
    }
    r->spec->bindings = copy;
    return set(r, "bindings", copy);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int resolve_timeout(struct resolving *r)
{
    json_t *wanted = json_object_get(r->request, "timeoutMs");
    int64_t most = r->rules->timeout_max_ms;
    int64_t chosen = smaller(r->rules->timeout_default_ms, most);
    if (json_is_null(wanted)) {
        if (!r->scope->untimed) {
            return refuse(r, "/timeoutMs", "no timeout needs the scope ptc:untimed");
        }
        r->spec->timeout_ms = -1;
        return set(r, "timeoutMs", json_null());
    }
    if (wanted != NULL) {
        double value = json_is_number(wanted) ? json_number_value(wanted) : NAN;
        if (!isfinite(value) || value <= 0 || value > PTC_TIMEOUT_MAX) {
            return refuse(r, "/timeoutMs", "must be null or a number above 0, at most 2147483647");
        }
        chosen = smaller((int64_t)ceil(value), most);
    }
    r->spec->timeout_ms = chosen;
    return set(r, "timeoutMs", json_integer(chosen));
}

/* --- policy --- */

static int resolve_mode(struct resolving *r, json_t *policy)
{
    json_t *wanted = get(policy, "mode");
    r->spec->mode = r->rules->mode;
    if (wanted != NULL && (!json_is_string(wanted) ||
                           ptc_mode_from_name(json_string_value(wanted), &r->spec->mode) != 0)) {
        return refuse(r, "/sandboxPolicy/mode",
                      "must be read-only, workspace-write or danger-full-access");
    }
    if (r->spec->mode == PTC_DANGER && r->spec->execution_id != NULL) {
        return refuse(r, "/sandboxPolicy/mode", "is not for programs of an execution");
    }
    if (r->spec->mode == PTC_DANGER && !r->rules->allow_danger) {
        return refuse(r, "/sandboxPolicy/mode", "danger-full-access is not allowed here");
    }
    return 0;
}

static int resolve_network(struct resolving *r, json_t *policy)
{
    json_t *wanted = get(policy, "network");
    const char *name = wanted == NULL ? "none" : json_string_value(wanted);
    if (name == NULL || (strcmp(name, "none") != 0 && strcmp(name, "host") != 0)) {
        return refuse(r, "/sandboxPolicy/network", "must be none or host");
    }
    r->spec->network_host = strcmp(name, "host") == 0;
    if (r->spec->network_host && r->spec->execution_id != NULL) {
        return refuse(r, "/sandboxPolicy/network", "must be none in an execution");
    }
    if (r->spec->network_host && !r->rules->allow_network) {
        return refuse(r, "/sandboxPolicy/network", "network host is not allowed here");
    }
    return 0;
}

static int resolve_policy(struct resolving *r)
{
    static const char *const keys[] = {"mode", "workspaceRoot", "network"};
    json_t *policy = get(r->request, "sandboxPolicy");
    if (policy != NULL && !json_is_object(policy)) {
        return refuse(r, "/sandboxPolicy", "must be an object");
    }
    if (check_keys(r, policy, "/sandboxPolicy", keys, ARRAY_SIZE(keys)) != 0 ||
        resolve_mode(r, policy) != 0 || resolve_network(r, policy) != 0) {
        return -1;
    }
    json_t *root = json_null();
    if (get(policy, "workspaceRoot") != NULL && r->spec->execution_id != NULL) {
        return refuse(r, "/sandboxPolicy/workspaceRoot", "an execution has its own workspace");
    }
    if (get(policy, "workspaceRoot") != NULL) {
        root = ptc_places_root(get(policy, "workspaceRoot"), r->scope->workspace_roots, r->err);
        if (root == NULL) {
            return -1;
        }
    }
    r->spec->workspace_root = json_string_value(root);
    return set(r, "sandboxPolicy",
               json_pack("{s:s, s:o, s:s}", "mode", ptc_mode_name(r->spec->mode), "workspaceRoot",
                         root, "network", r->spec->network_host ? "host" : "none"));
}

static int resolve_cwd(struct resolving *r)
{
    json_t *cwd = ptc_places_cwd(get(r->request, "cwd"), r->spec, r->err);
    if (cwd == NULL) {
        return -1;
    }
    r->spec->cwd = json_string_value(cwd);
    return set(r, "cwd", cwd);
}

/* --- limits --- */

struct limit {
    const char *key;
    size_t offset;
    int64_t least;
};
#define LIMIT(key, member, least)                                                                  \
    {                                                                                              \
        key, offsetof(struct ptc_limits, member), least                                            \
    }
static const struct limit limits[] = {
    LIMIT("memoryBytes", memory_bytes, 64L * 1024 * 1024),
    LIMIT("pids", pids, 16),
    LIMIT("cpuMs", cpu_ms, 1),
    LIMIT("heapBytes", heap_bytes, 16L * 1024 * 1024),
    LIMIT("maxOutputBytes", output_max, 4),
};

static int64_t *limit_place(struct ptc_limits *all, const struct limit *limit)
{
    return (int64_t *)(void *)((char *)all + limit->offset);
}

static int resolve_limit(struct resolving *r, json_t *asked, json_t *out, const struct limit *limit)
{
    struct ptc_limits most = r->rules->limits_max;
    int64_t *place = limit_place(&r->spec->limits, limit);
    json_t *wanted = get(asked, limit->key);
    char field[ERROR_FIELD_MAX];
    /* An execution's are what they are. */
    bool given = r->spec->execution_id != NULL && (limit == &limits[0] || limit == &limits[1]);
    int64_t least = given ? 1 : limit->least;
    (void)snprintf(field, sizeof(field), "/limits/%s", limit->key);
    if (wanted != NULL) {
        if (!json_is_integer(wanted) || json_integer_value(wanted) < least) {
            return error_set_field(r->err, ERROR_PTC_INVALID_REQUEST, field,
                                   "must be an integer of %lld at least", (long long)least);
        }
        *place = json_integer_value(wanted);
    }
    *place = smaller(*place, *limit_place(&most, limit));
    if (json_object_set_new(out, limit->key, json_integer(*place)) != 0) {
        return error_set(r->err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

static int resolve_limits(struct resolving *r)
{
    const char *keys[ARRAY_SIZE(limits)];
    json_t *asked = get(r->request, "limits");
    if (asked != NULL && !json_is_object(asked)) {
        return refuse(r, "/limits", "must be an object");
    }
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        keys[i] = limits[i].key;
    }
    if (check_keys(r, asked, "/limits", keys, ARRAY_SIZE(keys)) != 0) {
        return -1;
    }
    json_t *out = json_object();
    r->spec->limits = r->rules->limits;
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        if (resolve_limit(r, asked, out, &limits[i]) != 0) {
            json_decref(out);
            return -1;
        }
    }
    return set(r, "limits", out);
}

/* --- the rest --- */

static bool is_id(json_t *value)
{
    return json_is_string(value) && json_string_length(value) == strlen(json_string_value(value)) &&
           id_is_valid(json_string_value(value));
}

static int resolve_ids(struct resolving *r)
{
    json_t *run = get(r->request, "runId");
    json_t *execution = get(r->request, "executionId");
    if (execution != NULL && !is_id(execution)) {
        return refuse(r, "/executionId", "must be [A-Za-z0-9][A-Za-z0-9_.-]{0,63}");
    }
    if (run != NULL && !is_id(run)) {
        return refuse(r, "/runId", "must be [A-Za-z0-9][A-Za-z0-9_.-]{0,63}");
    }
    r->spec->run_id = json_string_value(run);
    r->spec->execution_id = json_string_value(execution);
    return set(r, "executionId", execution == NULL ? json_null() : json_incref(execution)) != 0 ||
                   set(r, "runId", run == NULL ? json_null() : json_incref(run)) != 0
               ? -1
               : 0;
}

/* --- in an execution --- */

/* The execution's limit is the program's; a lower one can't be promised. */
static int take_limit(struct resolving *r, const char *key, int64_t value, int64_t *place)
{
    json_t *wanted = get(get(r->request, "limits"), key);
    json_t *shown = json_object_get(r->spec->json, "limits");
    char field[ERROR_FIELD_MAX];
    (void)snprintf(field, sizeof(field), "/limits/%s", key);
    if (wanted != NULL && json_integer_value(wanted) < value) {
        return refuse(r, field, "is lower than the limit of the execution, which is what holds");
    }
    *place = value;
    return json_object_set_new(shown, key, json_integer(value)) == 0
               ? 0
               : error_set(r->err, ERROR_INTERNAL, "out of memory");
}

/* After everything that is pure. */
static int resolve_execution(struct resolving *r)
{
    struct ptc_execution *execution = &r->spec->execution;
    if (r->spec->execution_id == NULL) {
        return 0;
    }
    if (r->scope->find_execution == NULL) {
        return refuse(r, "/executionId", "there are no executions here");
    }
    if (r->scope->find_execution(r->scope->ctx, r->spec->execution_id, execution, r->err) != 0) {
        return -1;
    }
    return take_limit(r, "memoryBytes", execution->memory_bytes, &r->spec->limits.memory_bytes) !=
                       0 ||
                   take_limit(r, "pids", execution->pids, &r->spec->limits.pids) != 0
               ? -1
               : 0;
}

static int resolve_notes(struct resolving *r)
{
    json_t *metadata = get(r->request, "metadata");
    json_t *labels = get(r->request, "labels");
    const char *key;
    json_t *value;
    if (metadata != NULL && !json_is_object(metadata)) {
        return refuse(r, "/metadata", "must be an object");
    }
    if (labels != NULL && !json_is_object(labels)) {
        return refuse(r, "/labels", "must be an object");
    }
    json_object_foreach(labels, key, value)
    {
        if (!json_is_string(value)) {
            return refuse(r, "/labels", "must have strings as values");
        }
    }
    return set(r, "metadata", metadata == NULL ? json_object() : json_incref(metadata)) != 0 ||
                   set(r, "labels", labels == NULL ? json_object() : json_incref(labels)) != 0
               ? -1
               : 0;
}

static int resolve_all(struct resolving *r)
{
    if (!json_is_object(r->request)) {
        return refuse(r, "", "must be an object");
    }
    return check_keys(r, r->request, "", request_keys, ARRAY_SIZE(request_keys)) != 0 ||
                   resolve_texts(r) != 0 || resolve_bindings(r) != 0 || resolve_timeout(r) != 0 ||
                   resolve_ids(r) != 0 || resolve_policy(r) != 0 || resolve_cwd(r) != 0 ||
                   resolve_limits(r) != 0 || resolve_notes(r) != 0 || resolve_execution(r) != 0
               ? -1
               : 0;
}

int ptc_resolve(json_t *request, const struct ptc_rules *rules, const struct ptc_scope *scope,
                struct ptc_spec *out, struct error *err)
{
    struct ptc_spec spec = {.json = json_object()};
    struct resolving r = {request, rules, scope, &spec, err};
    error_clear(err);
    if (spec.json == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (resolve_all(&r) != 0) {
        ptc_spec_done(&spec);
        return -1;
    }
    *out = spec;
    return 0;
}

void ptc_spec_done(struct ptc_spec *spec)
{
    json_decref(spec->json);
    *spec = (struct ptc_spec)PTC_SPEC_INIT;
}
