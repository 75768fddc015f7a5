#include "server_http_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <cmocka.h>

enum { PATIENCE_MS = 10000 };

void fixture_start(struct fixture *f, const struct http_config *config,
                   const struct http_route *routes, size_t count, void *service)
{
    struct error err = ERROR_INIT;
    struct http_config own = config != NULL ? *config : (struct http_config){0};
    const char *address;

    *f = (struct fixture){0};
    assert_int_equal(pool_new(8, 2048, &f->pool, &err), 0);
    assert_int_equal(timers_new(&f->timers, &err), 0);
    assert_int_equal(topics_new(&f->topics, &err), 0);
    own.listen = own.listen != NULL ? own.listen : "127.0.0.1:0";
    own.threads = own.threads != 0 ? own.threads : 2;
    own.connections_max = own.connections_max != 0 ? own.connections_max : 4096;
    own.head_timeout_s = own.head_timeout_s != 0 ? own.head_timeout_s : 30;
    own.topics = f->topics;
    own.routes = routes;
    own.route_count = count;
    own.service = service;
    own.pool = f->pool;
    own.timers = f->timers;
    if (http_server_new(&own, &f->server, &err) != 0) {
        fail_msg("http_server_new: %s", err.detail);
    }
    address = http_server_address(f->server);
    if (strncmp(address, "http://", 7) == 0) {
        f->port = (unsigned short)strtoul(strrchr(address, ':') + 1, NULL, 10);
        assert_int_not_equal(f->port, 0);
    }
}

void fixture_stop(struct fixture *f)
{
    http_server_free(f->server);
    pool_free(f->pool);
    timers_free(f->timers);
    topics_free(f->topics);
}

int fixture_connect(const struct fixture *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(f->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

void client_send(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n < 0) {
            fail_msg("send: %s", strerror(errno));
        }
        data += n;
        len -= (size_t)n;
    }
}

void client_send_text(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

/* 0 at the end. */
static size_t read_some(int fd, char *to, size_t max)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;

    if (poll(&p, 1, PATIENCE_MS) != 1) {
        fail_msg("no answer within %d ms", PATIENCE_MS);
    }
    n = recv(fd, to, max, 0);
    return n > 0 ? (size_t)n : 0;
}

static bool read_head(int fd, struct answer *a)
{
    size_t len = 0;

    while (len + 1 < sizeof(a->head)) {
        if (read_some(fd, &a->head[len], 1) == 0) {
            a->closed = true;
            return false;
        }
        len++;
        if (len >= 4 && memcmp(a->head + len - 4, "\r\n\r\n", 4) == 0) {
            a->head[len] = '\0';
            return true;
        }
    }
    fail_msg("the answer's head is too long");
    return false;
}

void client_read(int fd, struct answer *a, bool head_only)
{
    size_t want;

    *a = (struct answer){0};
    if (!read_head(fd, a)) {
        return;
    }
    assert_memory_equal(a->head, "HTTP/1.1 ", 9);
    a->status = (int)strtol(a->head + 9, NULL, 10);
    want = head_only ? 0 : strtoul(answer_header(a, "Content-Length"), NULL, 10);
    a->body = calloc(1, want + 1);
    assert_non_null(a->body);
    while (a->body_len < want) {
        size_t n = read_some(fd, a->body + a->body_len, want - a->body_len);

        assert_int_not_equal(n, 0);
        a->body_len += n;
    }
}

void answer_done(struct answer *a)
{
    free(a->body);
    *a = (struct answer){0};
}

void fixture_ask(const struct fixture *f, const char *request, struct answer *a)
{
    int fd = fixture_connect(f);

    client_send_text(fd, request);
    client_read(fd, a, strncmp(request, "HEAD ", 5) == 0);
    close(fd);
}

const char *answer_header(const struct answer *a, const char *name)
{
    static char value[1024];
    size_t len = strlen(name);

    for (const char *line = strstr(a->head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            const char *start = line + len + 1 + strspn(line + len + 1, " ");

            snprintf(value, sizeof(value), "%.*s", (int)strcspn(start, "\r"), start);
            return value;
        }
    }
    return "";
}

void assert_problem(const struct answer *a, int status, const char *code, const char *field)
{
    json_t *body = json_loads(a->body != NULL ? a->body : "", 0, NULL);
    const char *seen = json_string_value(json_object_get(body, "field"));

    assert_int_equal(a->status, status);
    assert_string_equal(answer_header(a, "Content-Type"), "application/problem+json");
    assert_non_null(body);
    assert_string_equal(json_string_value(json_object_get(body, "code")), code);
    assert_string_equal(seen != NULL ? seen : "", field);
    assert_int_equal(json_integer_value(json_object_get(body, "status")), status);
    assert_string_equal(json_string_value(json_object_get(body, "requestId")),
                        answer_header(a, "X-Request-Id"));
    json_decref(body);
}

bool client_sees_end(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char c;

    return poll(&p, 1, ms) == 1 && recv(fd, &c, 1, 0) <= 0;
}
