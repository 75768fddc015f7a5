#include "server/routes/routes.h"

#include "base/macros.h"
#include "host/host.h"

enum {
    BODY_DEFAULT = 1024 * 1024,
    BODY_SMALL = 64 * 1024,
    BODY_CONFIGURED = 1,
    BODY_IMPORT = 2,
    BODY_UPLOAD = 3,
    BODY_ANSWER = 4,
    ANSWER_AROUND = 64, /* bytes of an answer around its value */
};

/* What is below BODY_SMALL stands for `maxBodyBytes`, `maxImportBytes`, `maxUploadBytes` and
 * `ptc.maxMessageBytes`. */
static struct http_route routes[] = {
    {"POST", "/v1/executions", ROUTE_JOB, route_execution_create, BODY_CONFIGURED, "wait"},
    {"GET", "/v1/executions", ROUTE_INLINE, route_execution_list, 0,
     "state host ownerId label limit cursor"},
    {"GET", "/v1/executions/{executionId}", ROUTE_INLINE, route_execution_get, 0,
     "waitMs incarnation"},
    {"PATCH", "/v1/executions/{executionId}", ROUTE_JOB, route_execution_patch, BODY_DEFAULT, ""},
    {"DELETE", "/v1/executions/{executionId}", ROUTE_JOB, route_execution_delete, 0, ""},
    {"POST", "/v1/executions/{executionId}/reclaim", ROUTE_JOB, route_execution_reclaim, 0, ""},
    {"PUT", "/v1/executions/{executionId}/owner", ROUTE_JOB, route_execution_owner, BODY_SMALL, ""},

    {"POST", "/v1/executions/{executionId}/commands", ROUTE_JOB, route_command_create,
     BODY_CONFIGURED, "wait"},
    {"GET", "/v1/executions/{executionId}/commands", ROUTE_INLINE, route_command_list, 0,
     "incarnation limit cursor"},
    {"GET", "/v1/executions/{executionId}/commands/{commandId}", ROUTE_INLINE, route_command_get, 0,
     "waitMs incarnation"},
    {"DELETE", "/v1/executions/{executionId}/commands/{commandId}", ROUTE_JOB, route_command_delete,
     0, "incarnation"},
    {"POST", "/v1/executions/{executionId}/commands/{commandId}/stdin", ROUTE_JOB | ROUTE_BODY_ANY,
     route_command_stdin, HOST_INPUT_MAX, "eof"},
    {"POST", "/v1/executions/{executionId}/commands/{commandId}/signal", ROUTE_JOB,
     route_command_signal, BODY_SMALL, ""},
    {"GET", "/v1/executions/{executionId}/commands/{commandId}/events", ROUTE_JOB,
     route_command_events, 0, "after follow incarnation"},
    {"GET", "/v1/executions/{executionId}/commands/{commandId}/stdout", ROUTE_JOB,
     route_command_stdout, 0, "incarnation"},
    {"GET", "/v1/executions/{executionId}/commands/{commandId}/stderr", ROUTE_JOB,
     route_command_stderr, 0, "incarnation"},
    {"GET", "/v1/events", ROUTE_INLINE, route_events, 0, "after follow"},

    {"POST", "/v1/executions/{executionId}/checkpoints", ROUTE_JOB, route_checkpoint_create,
     BODY_DEFAULT, "wait"},
    {"GET", "/v1/checkpoints", ROUTE_INLINE, route_checkpoint_list, 0,
     "sourceExecutionId durability limit cursor"},
    {"GET", "/v1/checkpoints/{checkpointId}", ROUTE_INLINE, route_checkpoint_get, 0, "waitMs"},
    {"DELETE", "/v1/checkpoints/{checkpointId}", ROUTE_JOB, route_checkpoint_delete, 0, "shared"},
    {"GET", "/v1/checkpoints/{checkpointId}/manifest", ROUTE_JOB, route_checkpoint_manifest, 0, ""},
    {"GET", "/v1/checkpoints/{checkpointId}/archive", ROUTE_JOB, route_checkpoint_archive, 0, ""},
    {"GET", "/v1/checkpoints/{checkpointId}/export", ROUTE_JOB, route_checkpoint_export, 0, ""},
    {"POST", "/v1/checkpoints/import", ROUTE_JOB | ROUTE_LONG | ROUTE_BODY_FILE,
     route_checkpoint_import, BODY_IMPORT, ""},
    {"POST", "/v1/checkpoints/{checkpointId}/verify", ROUTE_JOB | ROUTE_LONG,
     route_checkpoint_verify, 0, ""},
    {"POST", "/v1/checkpoints/{checkpointId}/share", ROUTE_JOB, route_checkpoint_share, 0, "wait"},
    {"GET", "/v1/shared-checkpoints", ROUTE_JOB | ROUTE_LONG, route_shared_list, 0,
     "prefix limit cursor"},
    {"POST", "/v1/checkpoints/{checkpointId}/restore", ROUTE_JOB, route_checkpoint_restore,
     BODY_DEFAULT, "wait"},

    {"GET", "/v1/executions/{executionId}/files", ROUTE_JOB, route_file_list, 0, "path pathBase64"},
    {"DELETE", "/v1/executions/{executionId}/files", ROUTE_JOB, route_file_remove, 0,
     "path pathBase64 recursive"},
    {"GET", "/v1/executions/{executionId}/files/content", ROUTE_JOB, route_file_read, 0,
     "path pathBase64"},
    {"PUT", "/v1/executions/{executionId}/files/content", ROUTE_JOB | ROUTE_BODY_FILE,
     route_file_write, BODY_UPLOAD, "path pathBase64 mode"},
    {"GET", "/v1/executions/{executionId}/archive", ROUTE_JOB, route_archive_read, 0,
     "path pathBase64"},
    {"PUT", "/v1/executions/{executionId}/archive", ROUTE_JOB | ROUTE_BODY_FILE,
     route_archive_write, BODY_UPLOAD, "path pathBase64"},

    {"GET", "/v1/images", ROUTE_JOB, route_image_list, 0, ""},
    {"POST", "/v1/images", ROUTE_JOB | ROUTE_LONG, route_image_fetch, BODY_SMALL, ""},
    {"DELETE", "/v1/images", ROUTE_JOB, route_image_remove, 0, "reference host"},

    {"GET", "/v1/ptc", ROUTE_JOB, route_ptc, 0, ""},
    {"POST", "/v1/ptc/resolve", ROUTE_JOB, route_ptc_resolve, BODY_CONFIGURED, ""},
    {"POST", "/v1/ptc/runs", ROUTE_JOB, route_run_create, BODY_CONFIGURED, "wait"},
    {"GET", "/v1/ptc/runs", ROUTE_INLINE, route_run_list, 0, "limit cursor"},
    {"GET", "/v1/ptc/runs/{runId}", ROUTE_INLINE, route_run_get, 0, "waitMs"},
    {"DELETE", "/v1/ptc/runs/{runId}", ROUTE_INLINE, route_run_delete, 0, "reason"},
    {"GET", "/v1/ptc/runs/{runId}/events", ROUTE_INLINE, route_run_events, 0, "after follow"},
    {"GET", "/v1/ptc/runs/{runId}/calls", ROUTE_INLINE, route_run_calls, 0, "state after waitMs"},
    {"POST", "/v1/ptc/runs/{runId}/calls/{callId}", ROUTE_INLINE, route_run_answer, BODY_ANSWER,
     ""},

    {"GET", "/v1/host", ROUTE_INLINE, route_host, 0, ""},
    {"GET", "/", ROUTE_INLINE | ROUTE_PUBLIC, route_dashboard, 0, ""},
    {"GET", "/assets/{asset}", ROUTE_INLINE | ROUTE_PUBLIC, route_asset, 0, ""},
    {"GET", "/metrics", ROUTE_INLINE | ROUTE_ADMIN, route_metrics, 0, ""},
    {"GET", "/healthz", ROUTE_INLINE | ROUTE_PUBLIC, route_health, 0, ""},
    {"GET", "/readyz", ROUTE_INLINE | ROUTE_PUBLIC, route_ready, 0, ""},
    {"GET", "/openapi.json", ROUTE_INLINE | ROUTE_ANY_SCOPE, route_openapi_json, 0, ""},
    {"GET", "/openapi.yaml", ROUTE_INLINE | ROUTE_ANY_SCOPE, route_openapi_yaml, 0, ""},
};

const struct http_route *routes_table(const struct config *config, size_t *count)
{
    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        if (routes[i].body_max == BODY_CONFIGURED) {
            routes[i].body_max = (size_t)config->body_max;
        } else if (routes[i].body_max == BODY_IMPORT) {
            routes[i].body_max = (size_t)config->import_max;
        } else if (routes[i].body_max == BODY_UPLOAD) {
            routes[i].body_max = (size_t)config->upload_max;
        } else if (routes[i].body_max == BODY_ANSWER) {
            routes[i].body_max = (size_t)config->ptc_message_max + ANSWER_AROUND;
        }
    }
    *count = ARRAY_SIZE(routes);
    return routes;
}

size_t routes_count(void)
{
    return ARRAY_SIZE(routes);
}

size_t routes_index(const struct http_route *route)
{
    return route == NULL ? ARRAY_SIZE(routes) : (size_t)(route - routes);
}

void routes_name(size_t index, const char **method, const char **path)
{
    *method = routes[index].method;
    *path = routes[index].path;
}
