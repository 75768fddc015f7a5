/* Takes a connection over: libcurl connects, then the socket speaks for itself. */
#include "base/clock.h"
#include "host/docker/engine_head.h"
#include "host/docker/engine_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* Most bytes of an error answer that are looked at for the engine's words. */
enum { REFUSAL_MAX = 64 * 1024, REFUSAL_WAIT_MS = 2000 };

struct hijack {
    const struct engine_request *request;
    int fd;
    int64_t deadline;
};

static int connect_socket(struct engine *e, const struct engine_request *request, int *fd,
                          struct error *err)
{
    CURL *easy = curl_easy_init();
    curl_socket_t socket = CURL_SOCKET_BAD;
    CURLcode code;
    int result = 0;

    if (easy == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    engine_set_common(easy, e);
    curl_easy_setopt(easy, CURLOPT_URL, "http://engine/");
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    code = curl_easy_perform(easy);
    if (code == CURLE_OK) {
        code = curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &socket);
    }
    if (code != CURLE_OK || socket == CURL_SOCKET_BAD) {
        result = engine_transfer_error(err, request, code);
    } else {
        *fd = fcntl(socket, F_DUPFD_CLOEXEC, 3);
        if (*fd < 0) {
            result = error_set_errno(err, ERROR_INTERNAL, errno, "engine connection");
        }
    }
    curl_easy_cleanup(easy);
    if (result == 0 && fcntl(*fd, F_SETFL, fcntl(*fd, F_GETFL) | O_NONBLOCK) < 0) {
        result = error_set_errno(err, ERROR_INTERNAL, errno, "engine connection");
        close(*fd);
    }
    return result;
}

/* Waits for `events` on the socket, the deadline or `cancel`. */
static int await(const struct hijack *j, short events, struct error *err)
{
    struct pollfd fds[2] = {
        {.fd = j->fd, .events = events},
        {.fd = cancel_fd(j->request->cancel), .events = POLLIN},
    };
    int64_t left = j->deadline - clock_mono_ms();
    int ready;

    if (cancel_fired(j->request->cancel)) {
        return engine_interrupted(err);
    }
    if (left <= 0) {
        return engine_transfer_error(err, j->request, CURLE_OPERATION_TIMEDOUT);
    }
    ready = poll(fds, 2, left > 60000 ? 60000 : (int)left);
    if (ready < 0 && errno != EINTR) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "poll");
    }
    return 0;
}

static int send_all(const struct hijack *j, const struct buf *data, struct error *err)
{
    size_t at = 0;

    while (at < data->len) {
        ssize_t sent = send(j->fd, data->data + at, data->len - at, MSG_NOSIGNAL);

        if (sent >= 0) {
            at += (size_t)sent;
        } else if (errno == EAGAIN) {
            if (await(j, POLLOUT, err) < 0) {
                return -1;
            }
        } else if (errno != EINTR) {
            return engine_transfer_error(err, j->request, CURLE_SEND_ERROR);
        }
    }
    return 0;
}

/* Appends what has come; 0 at the end of the stream. */
static ssize_t receive(const struct hijack *j, struct buf *into, struct error *err)
{
    char *room = buf_reserve(into, 4096);

    if (room == NULL) {
        return error_set(err, ERROR_RUNTIME, "the engine's answer is too large (%s)",
                         engine_verb(j->request));
    }
    for (;;) {
        ssize_t got = recv(j->fd, room, 4096, 0);

        if (got >= 0) {
            into->len += (size_t)got;
            into->data[into->len] = '\0';
            return got;
        }
        if (errno == EAGAIN) {
            if (await(j, POLLIN, err) < 0) {
                return -1;
            }
        } else if (errno != EINTR) {
            return engine_transfer_error(err, j->request, CURLE_RECV_ERROR);
        }
    }
}

static int send_request(struct engine *e, const struct hijack *j, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    _cleanup_buf_ struct buf head;
    char prefix[ENGINE_PREFIX_SIZE];
    size_t len = 0;

    buf_init(&head, 4 << 20);
    if (engine_prefix(e, prefix, err) < 0) {
        return -1;
    }
    if (j->request->body != NULL) {
        text = json_dumps(j->request->body, JSON_COMPACT);
        if (text == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        len = strlen(text);
    }
    if (buf_addf(&head,
                 "%s %s%s HTTP/1.1\r\nHost: engine\r\nUser-Agent: exechost/" EXECHOST_VERSION
                 "\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 j->request->method, prefix, j->request->path, len) < 0 ||
        buf_add(&head, text != NULL ? text : "", len) < 0) {
        return error_set(err, ERROR_INTERNAL, "engine %s: request too large",
                         engine_verb(j->request));
    }
    return send_all(j, &head, err);
}

/* The refusal's JSON, wherever its framing put it. */
static int refuse(struct hijack *j, const struct engine_head *head, struct buf *body,
                  struct error *err)
{
    struct engine_answer answer = {.status = head->status};
    const char *open;
    const char *close;
    char scratch[32];
    int64_t soon = clock_mono_ms() + REFUSAL_WAIT_MS;

    j->deadline = soon < j->deadline ? soon : j->deadline;
    while (body->len < REFUSAL_MAX &&
           (head->content_length < 0 || (int64_t)body->len < head->content_length)) {
        if (head->chunked && body->len >= 5 &&
            memcmp(body->data + body->len - 5, "0\r\n\r\n", 5) == 0) {
            break;
        }
        if (receive(j, body, err) <= 0) {
            break;
        }
    }
    open = body->len > 0 ? memchr(body->data, '{', body->len) : NULL;
    close = body->len > 0 ? memrchr(body->data, '}', body->len) : NULL;
    if (open != NULL && close > open) {
        answer.json = json_loadb(open, (size_t)(close - open) + 1, 0, NULL);
    }
    error_set(err, ERROR_RUNTIME, "engine %s: %s", engine_verb(j->request),
              engine_answer_message(&answer, scratch, sizeof(scratch)));
    engine_answer_done(&answer);
    return -1;
}

static int read_head(struct hijack *j, struct buf *data, struct error *err)
{
    struct engine_head head;

    for (;;) {
        ssize_t got = receive(j, data, err);
        ssize_t len;

        if (got <= 0) {
            return got < 0 ? -1 : engine_transfer_error(err, j->request, CURLE_GOT_NOTHING);
        }
        len = engine_head_parse(data->data, data->len, &head);
        if (len < 0) {
            return error_set(err, ERROR_RUNTIME, "the engine's answer is no HTTP (%s)",
                             engine_verb(j->request));
        }
        if (len > 0) {
            buf_consume(data, (size_t)len);
            break;
        }
    }
    return head.status == 101 || (head.status == 200 && !head.chunked)
               ? 0
               : refuse(j, &head, data, err);
}

int engine_hijack(struct engine *e, const struct engine_request *request, int *fd,
                  struct buf *early, struct error *err)
{
    _cleanup_close_ int socket = -1;
    _cleanup_buf_ struct buf data;
    struct hijack j = {.request = request};

    buf_init(&data, REFUSAL_MAX + ENGINE_HEAD_MAX + 8192);
    if (engine_fault(request, err) < 0 || connect_socket(e, request, &socket, err) < 0) {
        return -1;
    }
    j.fd = socket;
    j.deadline = clock_mono_ms() +
                 (request->timeout_ms > 0 ? request->timeout_ms : (int64_t)ENGINE_TIMEOUT_MS);
    if (send_request(e, &j, err) < 0 || read_head(&j, &data, err) < 0) {
        return -1;
    }
    if (data.len > 0 && buf_add(early, data.data, data.len) < 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *fd = TAKE_FD(socket);
    return 0;
}
