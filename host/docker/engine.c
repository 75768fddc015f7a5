#include "host/docker/engine.h"

#include "base/clock.h"
#include "base/fault.h"
#include "host/docker/engine_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/un.h>

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void curl_start(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int engine_new(const char *socket_path, struct engine **out, struct error *err)
{
    struct engine *e;

    pthread_once(&curl_once, curl_start);
    if (curl_ready != CURLE_OK) {
        return error_set(err, ERROR_INTERNAL, "libcurl does not start");
    }
    if (socket_path[0] != '/' ||
        strlen(socket_path) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        return error_set(err, ERROR_INVALID_REQUEST, "no absolute socket path: %s", socket_path);
    }
    e = calloc(1, sizeof(*e));
    if (e == NULL || (e->socket_path = strdup(socket_path)) == NULL) {
        free(e);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&e->lock, NULL);
    *out = e;
    return 0;
}

static void handle_free(struct engine_handle *h)
{
    if (h == NULL) {
        return;
    }
    curl_slist_free_all(h->headers);
    curl_easy_cleanup(h->easy);
    curl_multi_cleanup(h->multi);
    free(h);
}

void engine_free(struct engine *e)
{
    if (e == NULL) {
        return;
    }
    while (e->idle != NULL) {
        struct engine_handle *h = e->idle;

        e->idle = h->next;
        handle_free(h);
    }
    pthread_mutex_destroy(&e->lock);
    free(e->socket_path);
    free(e);
}

void engine_set_common(CURL *easy, const struct engine *e)
{
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, e->socket_path);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "exechost/" EXECHOST_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)ENGINE_CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
}

static struct engine_handle *handle_new(struct error *err)
{
    struct engine_handle *h = calloc(1, sizeof(*h));

    if (h == NULL || (h->easy = curl_easy_init()) == NULL ||
        (h->multi = curl_multi_init()) == NULL) {
        handle_free(h);
        error_set(err, ERROR_INTERNAL, "out of memory");
        return NULL;
    }
    curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, 1L);
    return h;
}

struct engine_handle *engine_handle_get(struct engine *e, struct error *err)
{
    struct engine_handle *h;

    pthread_mutex_lock(&e->lock);
    h = e->idle;
    if (h != NULL) {
        e->idle = h->next;
        e->idle_count--;
    }
    pthread_mutex_unlock(&e->lock);
    if (h == NULL) {
        h = handle_new(err);
    }
    if (h != NULL) {
        engine_set_common(h->easy, e);
    }
    return h;
}

void engine_handle_put(struct engine *e, struct engine_handle *h, bool reusable)
{
    if (h == NULL) {
        return;
    }
    if (reusable) {
        curl_easy_reset(h->easy);
        curl_slist_free_all(h->headers);
        h->headers = NULL;
        pthread_mutex_lock(&e->lock);
        if (e->idle_count < ENGINE_IDLE_HANDLES) {
            h->next = e->idle;
            e->idle = h;
            e->idle_count++;
            h = NULL;
        }
        pthread_mutex_unlock(&e->lock);
    }
    handle_free(h);
}

const char *engine_verb(const struct engine_request *request)
{
    return request->verb != NULL ? request->verb : "call";
}

int engine_interrupted(struct error *err)
{
    return error_set(err, ERROR_RUNTIME, "interrupted");
}

int engine_fault(const struct engine_request *request, struct error *err)
{
    char name[64];
    int fault;

    snprintf(name, sizeof(name), "engine.%s", engine_verb(request));
    fault = fault_point(name);
    if (fault != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, fault, "engine %s",
                               engine_verb(request));
    }
    return 0;
}

int engine_transfer_error(struct error *err, const struct engine_request *request, CURLcode result)
{
    const char *verb = engine_verb(request);

    switch (result) {
    case CURLE_COULDNT_CONNECT:
        return error_set(err, ERROR_HOST_UNAVAILABLE, "the engine can't be reached (%s)", verb);
    case CURLE_OPERATION_TIMEDOUT:
        return error_set(err, ERROR_TIMEOUT, "the engine did not answer in time (%s)", verb);
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return error_set(err, ERROR_HOST_UNAVAILABLE, "the connection to the engine was lost (%s)",
                         verb);
    case CURLE_OUT_OF_MEMORY: return error_set(err, ERROR_INTERNAL, "out of memory");
    case CURLE_WRITE_ERROR:
        return error_set(err, ERROR_RUNTIME, "the engine's answer is too large (%s)", verb);
    default:
        return error_set(err, ERROR_RUNTIME, "the engine's answer is not understood (%s): %s", verb,
                         curl_easy_strerror(result));
    }
}

static size_t read_file(char *to, size_t size, size_t count, void *ctx)
{
    ssize_t got;

    do {
        got = read(*(const int *)ctx, to, size * count);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static int add_header(struct engine_handle *h, const char *line, struct error *err)
{
    struct curl_slist *more = curl_slist_append(h->headers, line);

    if (more == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    h->headers = more;
    return 0;
}

static int set_body(struct engine_handle *h, const struct engine_request *request, char **text,
                    struct error *err)
{
    const char *type = request->body != NULL ? "Content-Type: application/json"
                                             : "Content-Type: application/x-tar";
    const char *data = request->raw != NULL ? request->raw : "";
    size_t len = request->raw_len;

    if (request->raw_fd != NULL) {
        curl_easy_setopt(h->easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(h->easy, CURLOPT_READFUNCTION, read_file);
        curl_easy_setopt(h->easy, CURLOPT_READDATA, (void *)request->raw_fd);
        curl_easy_setopt(h->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)len);
    } else {
        if (request->body != NULL) {
            *text = json_dumps(request->body, JSON_COMPACT);
            if (*text == NULL) {
                return error_set(err, ERROR_INTERNAL, "out of memory");
            }
            data = *text;
            len = strlen(*text);
        }
        curl_easy_setopt(h->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, data);
        curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
    }
    if (add_header(h, type, err) < 0 || add_header(h, "Expect:", err) < 0) {
        return -1;
    }
    curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, h->headers);
    return 0;
}

/* A path that is the same in every version carries none, so that the negotiation itself can ask. */
static bool is_unversioned(const char *path)
{
    return strcmp(path, "/version") == 0 || strcmp(path, "/info") == 0;
}

int engine_prepare(struct engine *e, struct engine_handle *h, const struct engine_request *request,
                   char **text, struct error *err)
{
    char prefix[ENGINE_PREFIX_SIZE] = "";
    _cleanup_buf_ struct buf url;

    buf_init(&url, 64 * 1024);
    if (!is_unversioned(request->path) && engine_prefix(e, prefix, err) < 0) {
        return -1;
    }
    if (buf_addf(&url, "http://engine%s%s", prefix, request->path) < 0) {
        return error_set(err, ERROR_INTERNAL, "address of an engine call is too long");
    }
    curl_easy_setopt(h->easy, CURLOPT_URL, buf_str(&url));
    if (strcmp(request->method, "HEAD") == 0) {
        curl_easy_setopt(h->easy, CURLOPT_NOBODY, 1L);
    } else if (strcmp(request->method, "GET") != 0) {
        if (set_body(h, request, text, err) < 0) {
            return -1;
        }
        curl_easy_setopt(h->easy, CURLOPT_CUSTOMREQUEST, request->method);
    }
    return 0;
}

static bool drive_ended(struct engine_handle *h, struct engine_drive *drive)
{
    int left;
    CURLMsg *message;

    while ((message = curl_multi_info_read(h->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            drive->ended = true;
            drive->result = message->data.result;
        }
    }
    return drive->ended;
}

int engine_handle_drive(struct engine_handle *h, const struct engine_request *request,
                        struct engine_drive *drive, struct error *err)
{
    struct curl_waitfd extra = {.fd = cancel_fd(drive->cancel), .events = CURL_WAIT_POLLIN};

    for (;;) {
        int running;
        CURLMcode code = curl_multi_perform(h->multi, &running);

        if (code != CURLM_OK) {
            return error_set(err, ERROR_INTERNAL, "engine %s: %s", engine_verb(request),
                             curl_multi_strerror(code));
        }
        if (drive_ended(h, drive) || (drive->done != NULL && drive->done(drive->ctx))) {
            return 0;
        }
        if (cancel_fired(drive->cancel)) {
            return engine_interrupted(err);
        }
        code = curl_multi_poll(h->multi, &extra, extra.fd >= 0 ? 1 : 0, 1000, NULL);
        if (code != CURLM_OK) {
            return error_set(err, ERROR_INTERNAL, "engine %s: %s", engine_verb(request),
                             curl_multi_strerror(code));
        }
    }
}

static size_t collect(char *data, size_t size, size_t count, void *ctx)
{
    return buf_add(ctx, data, size * count) == 0 ? size * count : 0;
}

static int decode_answer(const struct engine_request *request, CURL *easy, const struct buf *body,
                         struct engine_answer *out, struct error *err)
{
    struct engine_answer answer = {0};
    const char *type = NULL;

    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.status);
    curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
    if (body->len > 0) {
        json_error_t where;

        answer.json = json_loadb(body->data, body->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
        if (answer.json == NULL && type != NULL && strncmp(type, "application/json", 16) == 0 &&
            answer.status < 300) {
            return error_set(err, ERROR_RUNTIME, "the engine's answer is no JSON (%s): %s",
                             engine_verb(request), where.text);
        }
    }
    *out = answer;
    return 0;
}

static int call_on(struct engine *e, struct engine_handle *h, const struct engine_request *request,
                   struct buf *body, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    struct engine_drive drive = {.cancel = request->cancel};
    int64_t timeout = request->timeout_ms > 0 ? request->timeout_ms : ENGINE_TIMEOUT_MS;
    int result;

    if (engine_prepare(e, h, request, &text, err) < 0) {
        return -1;
    }
    curl_easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(h->easy, CURLOPT_TIMEOUT_MS, (long)timeout);
    if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    result = engine_handle_drive(h, request, &drive, err);
    if (request->sent != NULL) {
        long size = 0;

        curl_easy_getinfo(h->easy, CURLINFO_REQUEST_SIZE, &size);
        *request->sent = size > 0;
    }
    curl_multi_remove_handle(h->multi, h->easy);
    if (result == 0 && drive.result != CURLE_OK) {
        return engine_transfer_error(err, request, drive.result);
    }
    return result;
}

int engine_call(struct engine *e, const struct engine_request *request, struct engine_answer *out,
                struct error *err)
{
    _cleanup_buf_ struct buf body;
    struct engine_handle *h;
    int result;

    buf_init(&body, ENGINE_ANSWER_MAX);
    if (engine_fault(request, err) < 0) {
        return -1;
    }
    h = engine_handle_get(e, err);
    if (h == NULL) {
        return -1;
    }
    result = call_on(e, h, request, &body, err);
    if (result == 0) {
        result = decode_answer(request, h->easy, &body, out, err);
    }
    engine_handle_put(e, h, result == 0);
    return result;
}

void engine_answer_done(struct engine_answer *a)
{
    json_decref(a->json);
    *a = (struct engine_answer){0};
}

const char *engine_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

const char *engine_answer_message(const struct engine_answer *a, char *scratch, size_t size)
{
    const char *message = json_string_value(json_object_get(a->json, "message"));

    if (message != NULL) {
        return message;
    }
    snprintf(scratch, size, "HTTP %ld", a->status);
    return scratch;
}

int engine_escape(struct buf *out, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";

    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || strchr("-._~", *p) != NULL;
        char code[3] = {'%', hex[*p >> 4], hex[*p & 15]};

        if ((plain ? buf_add_char(out, (char)*p) : buf_add(out, code, 3)) < 0) {
            return -1;
        }
    }
    return 0;
}
