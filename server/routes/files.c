#include "server/services/files.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"
#include "server/services/executions.h"

#include <stdlib.h>

enum { MODE_DEFAULT = 0644 };

/* --- how every one of them answers --- */

static void reply_part(struct http_exchange *x, struct file_result *result)
{
    struct http_content content = {
        .offset = result->first,
        .size = result->length,
        .type = "application/octet-stream",
        .first = result->first,
        .of = result->file_size,
    };
    content.fd = TAKE_FD(result->fd);
    http_reply_content(x, &content);
}

static void reply_whole(struct http_exchange *x, struct file_result *result, const char *type)
{
    struct http_content content = {.size = result->length, .type = type};
    content.fd = TAKE_FD(result->fd);
    http_reply_content(x, &content);
}

/* Says of how many bytes nothing was in the range. */
static void reply_failed(struct http_exchange *x, const struct file_result *result,
                         const struct error *err)
{
    struct error ignored = ERROR_INIT;
    int64_t first;
    int64_t length;
    if (err->code == ERROR_RANGE_NOT_SATISFIABLE) {
        (void)!http_range(x, result->file_size, &first, &length, &ignored);
    }
    http_reply_error(x, err);
}

static void reply(struct http_exchange *x, struct file_call *call, enum file_kind kind)
{
    struct error err = ERROR_INIT;
    struct file_result *result;
    if (file_call_outcome(call, &result, &err) != 0) {
        reply_failed(x, result, &err);
        return;
    }
    switch (kind) {
    case FILE_LIST:
        http_reply_json(x, 200, json_pack("{s:o}", "items", TAKE_PTR(result->items)));
        return;
    case FILE_READ:
        if (result->part) {
            reply_part(x, result);
        } else {
            reply_whole(x, result, "application/octet-stream");
        }
        return;
    case FILE_PACK: reply_whole(x, result, "application/x-tar"); return;
    default: http_reply_empty(x, 204); return;
    }
}

struct wait {
    struct file_call *call;
    enum file_kind kind;
};

static void wait_free(void *arg)
{
    struct wait *w = arg;
    file_call_unref(w->call);
    free(w);
}

static bool is_over(struct http_exchange *x)
{
    const struct wait *w = http_state(x);
    return file_call_is_over(w->call);
}

static void await(struct http_exchange *x)
{
    const struct wait *w = http_state(x);
    if (is_over(x)) {
        reply(x, w->call, w->kind);
    } else {
        http_wait(x, file_call_topic(w->call), 0, is_over, await);
    }
}

/* --- how every one of them begins --- */

static int take_path(const struct http_exchange *x, bool names_workspace,
                     char path[API_PATH_MAX + 1], struct error *err)
{
    const char *base64 = http_query(x, "pathBase64");
    if (api_path_decode(http_query(x, "path"), base64, path, err) != 0) {
        return -1;
    }
    if (path[0] == '\0' && !names_workspace) {
        return error_set_field(err, ERROR_INVALID_REQUEST, base64 != NULL ? "?pathBase64" : "?path",
                               "it must name something in the workspace");
    }
    return 0;
}

static int find(struct http_exchange *x, struct file_request *request,
                struct live_execution **execution, struct error *err)
{
    bool changes =
        request->kind == FILE_WRITE || request->kind == FILE_REMOVE || request->kind == FILE_UNPACK;
    request->fencing_token = -1;
    if (changes) {
        return route_living(x, execution, &request->fencing_token, err);
    }
    return executions_find_live(http_service(x), http_tenant(x), http_param(x, 0), execution, err);
}

static int begin(struct http_exchange *x, struct file_request *request, struct error *err)
{
    struct live_execution *execution = NULL;
    struct wait *w = malloc(sizeof(*w));
    if (w == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    w->kind = request->kind;
    int result = service_accepts_work(http_service(x), err);
    if (result == 0) {
        result = find(x, request, &execution, err);
    }
    if (result == 0) {
        result = files_start(execution, request, &w->call, err);
    }
    live_unref(execution);
    if (result != 0) {
        free(w);
        return -1;
    }
    http_set_state(x, w, wait_free);
    return 0;
}

/* `wanted` says all but path and body. */
static void serve(struct http_exchange *x, const struct file_request *wanted, bool names_workspace)
{
    char path[API_PATH_MAX + 1];
    struct error err = ERROR_INIT;
    struct file_request request = *wanted;
    request.path = path;
    request.body_fd = -1;
    request.quotas = http_quotas(x);
    if (request.kind == FILE_WRITE || request.kind == FILE_UNPACK) {
        request.body_fd = http_body_file(x, &request.body_size);
    }
    if (take_path(x, names_workspace, path, &err) != 0 || begin(x, &request, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    await(x);
}

/* --- the routes --- */

void route_file_list(struct http_exchange *x)
{
    struct file_request request = {.kind = FILE_LIST};
    serve(x, &request, true);
}

void route_file_read(struct http_exchange *x)
{
    struct file_request request = {.kind = FILE_READ};
    struct error err = ERROR_INIT;
    int64_t first;
    int64_t length;
    /* Whether there is a range that counts, whatever the file's size. */
    if (http_range(x, INT64_MAX, &first, &length, &err) > 0) {
        request.range = http_header(x, "Range");
    }
    serve(x, &request, false);
}

void route_file_write(struct http_exchange *x)
{
    struct file_request request = {.kind = FILE_WRITE, .mode = MODE_DEFAULT};
    struct error err = ERROR_INIT;
    const char *mode = http_query(x, "mode");
    if (mode != NULL && api_file_mode_decode(mode, &request.mode, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    serve(x, &request, false);
}

void route_file_remove(struct http_exchange *x)
{
    struct file_request request = {.kind = FILE_REMOVE};
    struct error err = ERROR_INIT;
    if (http_query_bool(x, "recursive", &request.recursive, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    serve(x, &request, false);
}

void route_archive_read(struct http_exchange *x)
{
    struct file_request request = {.kind = FILE_PACK};
    serve(x, &request, true);
}

void route_archive_write(struct http_exchange *x)
{
    struct file_request request = {.kind = FILE_UNPACK};
    serve(x, &request, true);
}
