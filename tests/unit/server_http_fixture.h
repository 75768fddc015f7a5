/* A server with routes of a test's own and raw sockets against it. */
#ifndef EXECHOST_TESTS_SERVER_HTTP_FIXTURE_H
#define EXECHOST_TESTS_SERVER_HTTP_FIXTURE_H

#include "server/http/http.h"

#include <jansson.h>

struct fixture {
    struct pool *pool;
    struct timers *timers;
    struct topics *topics;
    struct http_server *server;
    unsigned short port;
};

/* `listen` NULL: 127.0.0.1:0. Asserts that it starts. */
void fixture_start(struct fixture *f, const struct http_config *config,
                   const struct http_route *routes, size_t count, void *service);
void fixture_stop(struct fixture *f);

struct answer {
    int status; /* 0: the peer closed without one */
    char head[8192];
    char *body; /* owned, NUL-terminated */
    size_t body_len;
    bool closed; /* end of stream was seen */
};

int fixture_connect(const struct fixture *f);
void client_send(int fd, const char *data, size_t len);
void client_send_text(int fd, const char *text);
/* One answer by its Content-Length. `head_only`: to a HEAD request. 10 s at most. */
void client_read(int fd, struct answer *a, bool head_only);
void answer_done(struct answer *a);
/* Sends on a connection of its own (closed afterwards) and reads one answer. */
void fixture_ask(const struct fixture *f, const char *request, struct answer *a);
/* The value of a header in the answer's head, "" when absent; static. */
const char *answer_header(const struct answer *a, const char *name);
/* Asserts a problem document with this status, code and field ("" for none). */
void assert_problem(const struct answer *a, int status, const char *code, const char *field);
/* True when the peer ends the stream within `ms`. */
bool client_sees_end(int fd, int ms);

#endif
