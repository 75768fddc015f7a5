#include "cli/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum {
    URL_MAX = 16 * 1024,
    HEADER_MAX = 8192,
    CONNECT_TIMEOUT_MS = 10000,
    /* A stream says something every 15 s; this is for peers that vanish without a word. */
    KEEPALIVE_SECONDS = 30,
    RETRY_FIRST_MS = 100,
    RETRY_MOST_MS = 2000,
    RETRY_FOR_MS = 60000
};

struct cli_client {
    CURL *curl;
    char *base;   /* "http://host:port" */
    char *socket; /* NULL unless it is a unix socket */
    char *token;  /* NULL: none */
    bool cut;
    bool answered;
};

/* What one call is doing. */
struct exchange {
    struct cli_client *client;
    const struct cli_request *request;
    struct buf *out;
    bool full;    /* the answer is longer than may be */
    bool stopped; /* by the sink */
};

static volatile sig_atomic_t interrupted;

static void note_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

void cli_interrupt_watch(void)
{
    /* The second one does what it does by default. */
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

void cli_interrupt_forget(void)
{
    interrupted = 0;
}

/* --- where the service is --- */

static char *base_of(const char *server)
{
    char *text = NULL;
    bool has_scheme = strstr(server, "://") != NULL;

    if (asprintf(&text, "%s%s", has_scheme ? "" : "http://", server) < 0) {
        return NULL;
    }
    for (size_t len = strlen(text); len > 0 && text[len - 1] == '/'; len--) {
        text[len - 1] = '\0';
    }
    return text;
}

static int find_server(struct cli_client *client, const char *server, struct error *err)
{
    const char *token = getenv("EXECHOST_TOKEN");

    if (server == NULL) {
        server = getenv("EXECHOST_SERVER");
    }
    if (server == NULL || server[0] == '\0') {
        server = "http://127.0.0.1:8470";
    }
    if (strncmp(server, "unix:", 5) == 0) {
        client->socket = strdup(server + 5);
        server = "http://localhost";
    } else if (strstr(server, "://") != NULL && strncmp(server, "http://", 7) != 0 &&
               strncmp(server, "https://", 8) != 0) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "%s is neither http://, https:// nor unix:PATH", server);
    }
    client->base = base_of(server);
    if (token != NULL && token[0] != '\0') {
        client->token = strdup(token);
    }
    client->curl = curl_easy_init();
    if (client->base == NULL || client->curl == NULL) {
        return error_set(err, ERROR_INTERNAL, "no memory");
    }
    return 0;
}

struct cli_client *cli_client_new(const char *server, struct error *err)
{
    struct cli_client *client = calloc(1, sizeof(*client));

    if (client == NULL) {
        error_set(err, ERROR_INTERNAL, "no memory");
        return NULL;
    }
    if (find_server(client, server, err) != 0) {
        cli_client_free(client);
        return NULL;
    }
    return client;
}

void cli_client_free(struct cli_client *client)
{
    if (client == NULL) {
        return;
    }
    curl_easy_cleanup(client->curl);
    free(client->base);
    free(client->socket);
    free(client->token);
    free(client);
}

bool cli_client_was_cut(const struct cli_client *client)
{
    return client->cut;
}

bool cli_client_has_answered(const struct cli_client *client)
{
    return client->answered;
}

char *cli_escape(const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, (int)strlen(text));
    char *copy = escaped == NULL ? NULL : strdup(escaped);

    curl_free(escaped);
    return copy;
}

/* --- what libcurl calls --- */

static size_t on_body(char *data, size_t size, size_t count, void *opaque)
{
    struct exchange *x = opaque;
    size_t len = size * count;
    long status = 0;

    curl_easy_getinfo(x->client->curl, CURLINFO_RESPONSE_CODE, &status);
    x->client->answered = true;
    if (status < 300 && x->request->sink != NULL) {
        x->stopped = x->request->sink(x->request->sink_ctx, data, len) != 0;
        return x->stopped ? 0 : len;
    }
    x->full = buf_add(x->out, data, len) != 0;
    return x->full ? 0 : len;
}

static size_t on_read(char *data, size_t size, size_t count, void *opaque)
{
    const struct exchange *x = opaque;
    size_t len = fread(data, 1, size * count, x->request->upload);

    return ferror(x->request->upload) != 0 ? CURL_READFUNC_ABORT : len;
}

static int on_progress(void *opaque, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    const struct exchange *x = opaque;

    if (x->request->progress != NULL) {
        if (x->request->upload != NULL) {
            progress_show(x->request->progress, up, up_total);
        } else {
            progress_show(x->request->progress, down, down_total);
        }
    }
    if (x->request->tick != NULL) {
        x->request->tick(x->request->tick_ctx);
    }
    return cli_interrupted() ? 1 : 0;
}

/* --- one request --- */

static void add_header(struct curl_slist **headers, const char *name, const char *value)
{
    char line[HEADER_MAX];
    struct curl_slist *more;

    if (value == NULL || snprintf(line, sizeof(line), "%s: %s", name, value) >= (int)sizeof(line)) {
        return;
    }
    more = curl_slist_append(*headers, line);
    *headers = more != NULL ? more : *headers;
}

static struct curl_slist *headers_of(const struct cli_client *client,
                                     const struct cli_request *request)
{
    struct curl_slist *headers = NULL;
    char authorization[HEADER_MAX];

    if (client->token != NULL) {
        snprintf(authorization, sizeof(authorization), "Bearer %s", client->token);
        add_header(&headers, "Authorization", authorization);
    }
    if (request->json != NULL) {
        add_header(&headers, "Content-Type", "application/json");
    } else if (request->data != NULL || request->upload != NULL) {
        add_header(&headers, "Content-Type", "application/octet-stream");
    }
    add_header(&headers, "Accept", request->accept);
    add_header(&headers, "Idempotency-Key", request->key);
    return headers;
}

static void set_body(CURL *curl, const struct cli_request *request, struct exchange *x)
{
    if (request->upload != NULL) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, x);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->upload_len);
    } else if (request->json != NULL || request->data != NULL) {
        const char *body = request->json != NULL ? request->json : request->data;
        size_t len = request->json != NULL ? strlen(request->json) : request->data_len;

        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
    } else if (strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static void set_up(struct cli_client *client, const char *url, struct exchange *x)
{
    CURL *curl = client->curl;

    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, client->socket);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_SECONDS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, x);
    set_body(curl, x->request, x);
}

/* What an answer of 400 or more says. */
static int refused(long status, const struct buf *body, struct error *err)
{
    json_t *problem = json_loadb(buf_str(body), body->len, 0, NULL);
    const char *code = json_string_value(json_object_get(problem, "code"));
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    const char *field = json_string_value(json_object_get(problem, "field"));

    if (code == NULL || detail == NULL) {
        error_set(err, ERROR_INTERNAL, "the answer is %ld, not from a service of this kind",
                  status);
    } else {
        error_set_field(err, error_code_from_name(code), field == NULL ? "" : field, "%s: %s", code,
                        detail);
    }
    json_decref(problem);
    return -1;
}

static int outcome(struct cli_client *client, CURLcode code, const struct exchange *x,
                   struct error *err)
{
    long status = 0;

    if (x->stopped) {
        client->answered = true;
        return 0;
    }
    if (cli_interrupted()) {
        return error_set(err, ERROR_INTERNAL, "interrupted");
    }
    if (x->full) {
        return error_set(err, ERROR_INTERNAL, "the answer is too long");
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        return error_set(err, ERROR_INTERNAL, "the file can't be read");
    }
    if (code != CURLE_OK) {
        client->cut = true;
        return error_set(err, ERROR_HOST_UNAVAILABLE, "no service answers at %s: %s",
                         client->socket != NULL ? client->socket : client->base,
                         curl_easy_strerror(code));
    }
    client->answered = true;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    return status < 300 ? 0 : refused(status, x->out, err);
}

int cli_call(struct cli_client *client, const struct cli_request *request, struct buf *out,
             struct error *err)
{
    _cleanup_buf_ struct buf own;
    char url[URL_MAX];
    struct curl_slist *headers = headers_of(client, request);
    struct exchange x = {.client = client, .request = request, .out = out != NULL ? out : &own};
    CURLcode code;

    buf_init(&own, CLI_ANSWER_MAX);
    client->cut = false;
    if (snprintf(url, sizeof(url), "%s%s", client->base, request->path) >= (int)sizeof(url)) {
        curl_slist_free_all(headers);
        return error_set(err, ERROR_INVALID_REQUEST, "the path is too long");
    }
    set_up(client, url, &x);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
    code = curl_easy_perform(client->curl);
    curl_slist_free_all(headers);
    if (request->progress != NULL) {
        progress_end(request->progress);
    }
    return outcome(client, code, &x, err);
}

int cli_call_safely(struct cli_client *client, const struct cli_request *request, struct buf *out,
                    struct error *err)
{
    long waited = 0;

    for (long pause = RETRY_FIRST_MS;;
         pause = pause * 2 > RETRY_MOST_MS ? RETRY_MOST_MS : pause * 2) {
        struct timespec delay = {.tv_sec = pause / 1000, .tv_nsec = pause % 1000 * 1000000};

        if (cli_call(client, request, out, err) == 0) {
            return 0;
        }
        if (!client->cut || !client->answered || waited > RETRY_FOR_MS) {
            return -1;
        }
        if (out != NULL) {
            buf_reset(out);
        }
        nanosleep(&delay, NULL);
        waited += pause;
    }
}

int cli_call_json(struct cli_client *client, const struct cli_request *request, json_t **out,
                  struct error *err)
{
    _cleanup_buf_ struct buf body;
    json_t *value;

    buf_init(&body, CLI_ANSWER_MAX);
    if (cli_call_safely(client, request, &body, err) != 0) {
        return -1;
    }
    value = json_loadb(buf_str(&body), body.len, JSON_ALLOW_NUL, NULL);
    if (value == NULL) {
        return error_set(err, ERROR_INTERNAL, "the answer to %s %s is no JSON", request->method,
                         request->path);
    }
    *out = value;
    return 0;
}
