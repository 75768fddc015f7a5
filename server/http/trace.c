#include "server/http/exchange.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"

#include <inttypes.h>
#include <string.h>

static bool request_id_is_sane(const char *s)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strspn(s, allowed);

    return len >= 1 && len <= REQUEST_ID_MAX && s[len] == '\0';
}

void trace_request_id(const char *header, char out[REQUEST_ID_MAX + 1])
{
    char generated[ID_SIZE];

    if (header != NULL && request_id_is_sane(header)) {
        snprintf(out, REQUEST_ID_MAX + 1, "%s", header);
        return;
    }
    id_generate("req", generated);
    snprintf(out, REQUEST_ID_MAX + 1, "%s", generated);
}

static bool is_hex(const char *s, size_t len)
{
    return strspn(s, "0123456789abcdef") >= len;
}

/* https://www.w3.org/TR/trace-context: version-traceid-parentid-flags; later versions may append.
 */
void trace_parent(const char *header, struct log_trace *out)
{
    enum { VERSION = 2, PARENT_ID = 16, FLAGS = 2, WHOLE = 2 + 1 + 32 + 1 + 16 + 1 + 2 };
    static const char zeros[] = "00000000000000000000000000000000";
    const char *trace;
    const char *parent;

    *out = (struct log_trace){{0}};
    if (header == NULL || strlen(header) < WHOLE) {
        return;
    }
    trace = header + VERSION + 1;
    parent = trace + TRACE_ID_LEN + 1;
    if (!is_hex(header, VERSION) || trace[-1] != '-' || !is_hex(trace, TRACE_ID_LEN) ||
        parent[-1] != '-' || !is_hex(parent, PARENT_ID) || parent[PARENT_ID] != '-' ||
        !is_hex(parent + PARENT_ID + 1, FLAGS)) {
        return;
    }
    if (strncmp(header, "ff", VERSION) == 0 || strncmp(trace, zeros, TRACE_ID_LEN) == 0 ||
        strncmp(parent, zeros, PARENT_ID) == 0) {
        return;
    }
    if (header[WHOLE] != '\0' && (strncmp(header, "00", VERSION) == 0 || header[WHOLE] != '-')) {
        return;
    }
    memcpy(out->id, trace, TRACE_ID_LEN);
}

void trace_log(const struct http_exchange *x)
{
    bool read_only = strcmp(x->method, "GET") == 0 || strcmp(x->method, "HEAD") == 0;
    /* Without a method the head never was complete: libmicrohttpd refused it, or the peer went. */
    bool quiet =
        x->method[0] == '\0' || (read_only && x->status_sent >= 200 && x->status_sent < 300);
    char status[16];
    char duration[32];

    snprintf(status, sizeof(status), "%u", x->status_sent);
    snprintf(duration, sizeof(duration), "%" PRId64, (clock_mono_us() - x->started_us) / 1000);
    /* Status 0: the connection broke before an answer. */
    log_write(quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "request", "method", x->method, "path",
              x->uri.path, "status", status, "durationMs", duration, "requestId", x->request_id,
              "tenant", http_tenant(x), NULL);
}

static const char *added_header(const struct http_exchange *x, const char *name)
{
    for (unsigned i = 0; i < x->reply.header_count; i++) {
        if (strcmp(x->reply.headers[i].name, name) == 0) {
            return x->reply.headers[i].value;
        }
    }
    return "";
}

void http_outcome(const struct http_exchange *x, struct http_outcome *out)
{
    *out = (struct http_outcome){
        .status = x->status_sent,
        .code = x->reply.code,
        .path = x->uri.path,
        .location = added_header(x, "Location"),
        .trace_id = x->trace.id,
        .token_id = x->token_id,
    };
}
