#include "api/problem.h"

#include <string.h>

static const struct api_problem_kind KINDS[ERROR_CODE_COUNT] = {
    [ERROR_INVALID_REQUEST] = {400, "The request breaks a rule", false},
    [ERROR_RESOURCE_LIMIT] = {422, "A resource limit is missing, out of range or not met", false},
    [ERROR_NETWORK_POLICY] = {422, "Only network mode none is allowed", false},
    [ERROR_NOT_FOUND] = {404, "There is no such execution", false},
    [ERROR_ALREADY_EXISTS] = {409, "A live execution has this id", false},
    [ERROR_TIMEOUT] = {504, "The time was over", false},
    [ERROR_OUTPUT_LIMIT] = {422, "The program wrote more than allowed", false},
    [ERROR_HOST_UNAVAILABLE] = {503, "The host cannot be reached or started", true},
    [ERROR_RUNTIME] = {500, "The host failed", false},
    [ERROR_CREDENTIAL] = {422, "The image carries a secret-like environment", false},
    [ERROR_CHECKPOINT_NOT_FOUND] = {404, "There is no such checkpoint", false},
    [ERROR_CHECKPOINT_INVALID] = {422, "The checkpoint is damaged or not acceptable", false},
    [ERROR_CHECKPOINT_IN_USE] = {409, "The checkpoint is in use", false},
    [ERROR_FILE_NOT_FOUND] = {404, "There is no such file", false},
    [ERROR_COMMAND_NOT_FOUND] = {404, "There is no such command", false},
    [ERROR_TRANSCRIPT_GONE] = {410, "The transcript was removed by retention", false},
    [ERROR_IMAGE_NOT_FOUND] = {422, "The host does not have the image", false},
    [ERROR_SHARED_STORE_NOT_CONFIGURED] = {409, "No shared store is configured", false},
    [ERROR_SHARED_CONFLICT] = {409, "The shared store has another checkpoint of this id", false},
    [ERROR_UPLOAD_FAILED] = {502, "The checkpoint could not be published", false},
    [ERROR_UPLOAD_INTERRUPTED] = {502, "The checkpoint could not be published now", true},
    [ERROR_SHARED_STORE_REFUSED] = {502, "The shared store refuses", false},
    [ERROR_SHARED_STORE_UNAVAILABLE] = {503, "The shared store cannot be reached or fails", true},
    [ERROR_ID_IN_USE] = {409, "The id is in use", false},
    [ERROR_OWNER_FENCED] = {409, "The fencing token is too low", false},
    [ERROR_IDEMPOTENCY_CONFLICT] = {409, "The idempotency key belongs to another request", false},
    [ERROR_INTERNAL] = {500, "The service failed", false},
    [ERROR_ROUTE_NOT_FOUND] = {404, "There is nothing at this path", false},
    [ERROR_METHOD_NOT_ALLOWED] = {405, "The method is not allowed here", false},
    [ERROR_FORBIDDEN] = {403, "The request is not allowed", false},
    [ERROR_PAYLOAD_TOO_LARGE] = {413, "The body is too large", false},
    [ERROR_UNSUPPORTED_MEDIA_TYPE] = {415, "The body's media type is not accepted here", false},
    [ERROR_RANGE_NOT_SATISFIABLE] = {416, "The range lies outside of the content", false},
    [ERROR_UNAUTHENTICATED] = {401, "The request carries no token that is known here", false},
    [ERROR_QUOTA_EXCEEDED] = {429, "A quota is used up", true},
    [ERROR_OVERLOADED] = {503, "Too much work is waiting", true},
    [ERROR_STORAGE_FULL] = {507, "The storage is full", true},
    [ERROR_PTC_INVALID_REQUEST] = {400, "The request for a run breaks a rule", false},
    [ERROR_PTC_RUN_NOT_FOUND] = {404, "There is no such run", false},
    [ERROR_PTC_CALL_NOT_FOUND] = {404, "The run has made no such call", false},
    [ERROR_PTC_CALL_SETTLED] = {409, "The call has another answer", false},
    [ERROR_PTC_RUN_SETTLED] = {409, "The run is over", false},
};

const struct api_problem_kind *api_problem_kind(enum error_code code)
{
    if ((unsigned)code >= ERROR_CODE_COUNT || KINDS[code].status == 0) {
        return &KINDS[ERROR_INTERNAL];
    }
    return &KINDS[code];
}

const char *api_problem_detail(enum error_code code, const char *detail)
{
    switch (code) {
    case ERROR_INTERNAL: return "the service failed; its log says more";
    case ERROR_STORAGE_FULL: return "the disk of the service is full";
    default: return detail[0] == '\0' ? api_problem_kind(code)->title : detail;
    }
}

static json_t *encode_causes(const struct error *err)
{
    json_t *causes = json_array();

    for (int i = 0; causes != NULL && i < err->cause_count; i++) {
        json_t *cause =
            json_pack("{s:s, s:s}", "code", error_code_name(err->causes[i].code), "detail",
                      api_problem_detail(err->causes[i].code, err->causes[i].detail));

        if (json_array_append_new(causes, cause) != 0) {
            json_decref(causes);
            return NULL;
        }
    }
    return causes;
}

json_t *api_problem_encode(const struct error *err, const char *request_id)
{
    enum error_code code = err->code == ERROR_NONE ? ERROR_INTERNAL : err->code;
    const struct api_problem_kind *kind = api_problem_kind(code);
    const char *name = error_code_name(code);
    const char *phase = error_phase_name(err->phase);
    json_t *problem;
    int rc = 0;

    problem = json_pack("{s:s+, s:s, s:i, s:s, s:s, s:b, s:s}", "type",
                        "urn:exechost:problem:", name, "title", kind->title, "status", kind->status,
                        "detail", api_problem_detail(code, err->detail), "code", name, "retryable",
                        kind->retryable, "requestId", request_id);
    if (problem == NULL) {
        return NULL;
    }
    if (err->field[0] != '\0') {
        rc = json_object_set_new(problem, "field", json_string(err->field));
    }
    if (rc == 0 && phase != NULL) {
        rc = json_object_set_new(problem, "phase", json_string(phase));
    }
    if (rc == 0 && err->cause_count > 0) {
        rc = json_object_set_new(problem, "causes", encode_causes(err));
    }
    if (rc != 0) {
        json_decref(problem);
        return NULL;
    }
    return problem;
}
