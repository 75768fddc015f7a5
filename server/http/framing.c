#include "server/http/exchange.h"

#include <string.h>
#include <strings.h>

/* RFC 9112 §6.3: two readings of where a message ends are an attack, not a mistake, and so is a
 * head that another program on the way may have read differently. libmicrohttpd 0.9 takes the first
 * of two headers, joins folded lines, ends values at a NUL and lines at a bare LF, and goes on.
 * What it has dropped shows in where it left the parts: it parses in place, with each line end
 * turned into NULs, so that after CRLF every part begins exactly two bytes behind the one before.
 * Later versions refuse all that themselves, and trim values, which makes gaps of their own. */
struct scan {
    struct framing *framing;
    const char *end; /* of the part before: its first NUL; NULL when places say nothing */
    const char *fault;
};

enum { LINE_END = 2, VERSION_LEN = 8 };

static bool is_token(const char *name)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    return name[0] != '\0' && name[strspn(name, allowed)] == '\0';
}

/* No control character but the tab that separates words. */
static bool is_field_text(const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_host_text(const char *host)
{
    return host[strcspn(host, " \t,/?#@\\\"<>")] == '\0';
}

static void count_field(struct framing *f, const char *name, const char *value)
{
    if (strcasecmp(name, "Host") == 0) {
        f->hosts++;
        f->host = value;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        f->lengths++;
        f->length = value;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        f->encodings++;
        f->encoding = value;
    }
}

static void found(struct scan *s, const char *fault)
{
    if (s->fault == NULL) {
        s->fault = fault;
    }
}

static enum MHD_Result look_at_field(void *cls, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    struct scan *s = cls;

    (void)kind;
    value = value != NULL ? value : "";
    if (s->end != NULL) {
        if (name != s->end + LINE_END) {
            found(s, "a line of the head does not end with CRLF, is folded, or holds a NUL");
        }
        s->end = value + strlen(value);
    }
    if (!is_token(name)) {
        found(s, "the name of a header is no token");
    }
    if (!is_field_text(value)) {
        found(s, "a header holds a control character");
    }
    count_field(s->framing, name, value);
    return MHD_YES;
}

/* Behind the last field are its line end and the empty line, and that is the head. */
static bool ends_exactly(const struct http_exchange *x, const struct request_line *line,
                         const char *end)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return info != NULL && end + LINE_END + LINE_END == line->method + info->header_size;
}

static void look_at_line(struct scan *s, const struct http_exchange *x,
                         const struct request_line *line)
{
    const char *target = line->method + strlen(line->method) + 1;

    for (const char *c = x->uri.raw; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f) {
            found(s, "the target holds a blank or a control character");
        }
    }
    if (strncmp(MHD_get_version(), "0.9.", 4) != 0) {
        return;
    }
    if (line->url != target || line->version != target + strlen(x->uri.raw) + 1) {
        found(s, "the request line has more than single blanks between its parts, or holds a NUL");
    }
    s->end = line->version + VERSION_LEN;
}

/* An absolute target goes before Host; where they differ, others may have looked at either. */
static const char *fault_of_host(const struct http_exchange *x, const struct framing *f)
{
    const char *authority = x->uri.authority;

    if (f->hosts > 1) {
        return "the request has more than one Host";
    }
    if (f->hosts == 1 && !is_host_text(f->host)) {
        return "Host is not a single name";
    }
    if (authority != NULL && (f->host == NULL || strcasecmp(authority, f->host) != 0)) {
        return "the target names another host than Host";
    }
    return NULL;
}

/* What decides what a request does has one value. */
static const char *fault_of_doubles(const struct http_exchange *x)
{
    static const struct {
        const char *name;
        const char *fault;
    } single[] = {
        {"Content-Type", "the request has more than one Content-Type"},
        {"Fencing-Token", "the request has more than one Fencing-Token"},
        {"Idempotency-Key", "the request has more than one Idempotency-Key"},
        {"Last-Event-ID", "the request has more than one Last-Event-ID"},
        {"Origin", "the request has more than one Origin"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(single); i++) {
        const char *value = NULL;

        if (exchange_header(x, single[i].name, &value) > 1) {
            return single[i].fault;
        }
    }
    return NULL;
}

static const char *fault_of_length(const struct http_exchange *x, const struct framing *f)
{
    if (f->lengths > 1) {
        return "the request has more than one Content-Length";
    }
    if (f->lengths > 0 && f->encodings > 0) {
        return "the request has both Content-Length and Transfer-Encoding";
    }
    if (f->encodings > 1 || (f->encodings == 1 && strcasecmp(f->encoding, "chunked") != 0)) {
        return "the only Transfer-Encoding understood is chunked";
    }
    if (f->encodings == 1 && x->http10) {
        return "HTTP/1.0 has no Transfer-Encoding";
    }
    return NULL;
}

int framing_check(struct http_exchange *x, const struct request_line *line, struct framing *f,
                  struct error *err)
{
    struct scan scan = {.framing = f};

    *f = (struct framing){0};
    look_at_line(&scan, x, line);
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, look_at_field, &scan);
    if (scan.end != NULL && scan.fault == NULL && !ends_exactly(x, line, scan.end)) {
        scan.fault = "a line of the head does not end with CRLF, is folded, or holds a NUL";
    }
    if (scan.fault == NULL) {
        scan.fault = fault_of_host(x, f);
    }
    if (scan.fault == NULL) {
        scan.fault = fault_of_length(x, f);
    }
    if (scan.fault == NULL) {
        scan.fault = fault_of_doubles(x);
    }
    if (scan.fault != NULL) {
        x->reply.close = true;
        return error_set(err, ERROR_INVALID_REQUEST, "%s", scan.fault);
    }
    return 0;
}
