#include "api/signal.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"
#include "server/services/commands.h"

/* 204, or why not. */
static void reply(struct http_exchange *x, int result, const struct error *err)
{
    if (result != 0) {
        route_fail(x, err);
    } else {
        http_reply_empty(x, 204);
    }
}

void route_command_stdin(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct live_execution *execution = NULL;
    struct command_bytes bytes = {0};
    int64_t token;
    bytes.data = http_body(x, &bytes.len);
    int result = http_query_bool(x, "eof", &bytes.eof, &err);
    if (result == 0) {
        result = route_living(x, &execution, &token, &err);
    }
    if (result == 0) {
        result = commands_input(execution, http_param(x, 1), &bytes, &err);
    }
    live_unref(execution);
    reply(x, result, &err);
}

void route_command_signal(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct live_execution *execution = NULL;
    int64_t token;
    int number = 0;
    size_t len;
    const char *body = http_body(x, &len);
    int result = api_signal_decode(body, len, &number, &err);
    if (result == 0) {
        result = route_living(x, &execution, &token, &err);
    }
    if (result == 0) {
        result = commands_signal(execution, http_param(x, 1), number, &err);
    }
    live_unref(execution);
    reply(x, result, &err);
}
