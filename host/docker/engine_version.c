/* Which engine answers, and which version of its interface to speak. */
#include "base/macros.h"
#include "host/docker/engine_internal.h"

#include <string.h>

/* The oldest interface that has everything the service needs; also the one it was written against.
 */
enum { API_MAJOR = 1, API_MINOR = 41 };

static void answer_cleanup(struct engine_answer *a)
{
    engine_answer_done(a);
}

static int get(struct engine *e, const char *verb, const char *path, struct engine_answer *out,
               struct error *err)
{
    struct engine_request request = {
        .verb = verb, .method = "GET", .path = path, .timeout_ms = 10 * 1000};
    char scratch[32];

    if (engine_call(e, &request, out, err) < 0) {
        return -1;
    }
    if (out->status != 200 || !json_is_object(out->json)) {
        error_set(err, ERROR_HOST_UNAVAILABLE, "the engine does not tell its version: %s",
                  engine_answer_message(out, scratch, sizeof(scratch)));
        engine_answer_done(out);
        return -1;
    }
    return 0;
}

/* "1.41" → 41; -1 when it is none or of another generation. */
static int minor_of(const char *version)
{
    char *end;
    long major = strtol(version, &end, 10);
    long minor;

    if (end == version || *end != '.' || major != API_MAJOR) {
        return -1;
    }
    version = end + 1;
    minor = strtol(version, &end, 10);
    return end == version || *end != '\0' || minor < 0 || minor > 9999 ? -1 : (int)minor;
}

/* Podman and others name their component otherwise. */
static bool is_docker(const json_t *version)
{
    size_t i;
    const json_t *component;

    json_array_foreach(json_object_get(version, "Components"), i, component)
    {
        if (strcmp(engine_text(component, "Name"), "Engine") == 0) {
            return true;
        }
    }
    return false;
}

static int decode_version(const json_t *json, struct engine_version *v, struct error *err)
{
    int newest = minor_of(engine_text(json, "ApiVersion"));
    int oldest = minor_of(engine_text(json, "MinAPIVersion"));
    int minor = oldest > API_MINOR ? oldest : API_MINOR;

    if (!is_docker(json)) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "the engine is not Docker");
    }
    if (newest < minor) {
        return error_set(err, ERROR_HOST_UNAVAILABLE,
                         "the engine's interface %s is older than %d.%d",
                         engine_text(json, "ApiVersion"), API_MAJOR, API_MINOR);
    }
    if (strcmp(engine_text(json, "Os"), "linux") != 0) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "the engine does not run Linux");
    }
    snprintf(v->engine, sizeof(v->engine), "%s", engine_text(json, "Version"));
    snprintf(v->arch, sizeof(v->arch), "%s", engine_text(json, "Arch"));
    snprintf(v->api, sizeof(v->api), "%d.%d", API_MAJOR, minor);
    return 0;
}

static void decode_info(const json_t *json, struct engine_version *v)
{
    static const char *const NEEDED[] = {"MemoryLimit", "SwapLimit", "CpuCfsQuota", "PidsLimit"};

    v->cpus = json_integer_value(json_object_get(json, "NCPU"));
    v->limits = true;
    for (size_t i = 0; i < ARRAY_SIZE(NEEDED); i++) {
        v->limits = v->limits && json_is_true(json_object_get(json, NEEDED[i]));
    }
}

int engine_negotiate(struct engine *e, struct engine_version *out, struct error *err)
{
    _cleanup_(answer_cleanup) struct engine_answer version = {0};
    _cleanup_(answer_cleanup) struct engine_answer info = {0};
    struct engine_version v = {0};

    if (get(e, "version", "/version", &version, err) < 0 ||
        decode_version(version.json, &v, err) < 0 || get(e, "info", "/info", &info, err) < 0) {
        return -1;
    }
    decode_info(info.json, &v);
    pthread_mutex_lock(&e->lock);
    snprintf(e->prefix, sizeof(e->prefix), "/v%s", v.api);
    pthread_mutex_unlock(&e->lock);
    *out = v;
    return 0;
}

int engine_prefix(struct engine *e, char out[ENGINE_PREFIX_SIZE], struct error *err)
{
    struct engine_version unused;

    pthread_mutex_lock(&e->lock);
    memcpy(out, e->prefix, ENGINE_PREFIX_SIZE);
    pthread_mutex_unlock(&e->lock);
    if (out[0] != '\0') {
        return 0;
    }
    if (engine_negotiate(e, &unused, err) < 0) {
        return -1;
    }
    snprintf(out, ENGINE_PREFIX_SIZE, "/v%s", unused.api);
    return 0;
}
