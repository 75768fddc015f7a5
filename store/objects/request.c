#include "store/objects/internal.h"

#include "base/clock.h"
#include "base/fault.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

enum {
    URL_MAX = 16 * 1024,
    HEADER_MAX = 8 * 1024,
    ERROR_BODY_MAX = 64 * 1024,
    CONNECT_TIMEOUT_MS = 10 * 1000,
    STALL_BYTES = 1024, /* a second, less is standing still */
    TRANSFER_BUFFER = 512 * 1024,
    BACKOFF_FIRST_MS = 200,
    BACKOFF_MAX_MS = 10 * 1000,
};

const char OBJECTS_EMPTY_SHA256[SHA256_HEX_SIZE] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static const struct objects_watch NO_WATCH;

const struct objects_watch *objects_watch_or_none(const struct objects_watch *watch)
{
    return watch != NULL ? watch : &NO_WATCH;
}

void objects_moved(const struct objects_watch *watch, int64_t bytes)
{
    if (watch->moved != NULL) {
        watch->moved(watch->ctx, bytes);
    }
}

void objects_response_done(struct objects_response *r)
{
    buf_done(&r->body);
}

int objects_interrupted(struct error *err)
{
    return error_set(err, ERROR_SHARED_STORE_UNAVAILABLE, "interrupted");
}

/* --- one attempt --- */

struct attempt {
    const struct objects_request *request;
    struct objects_response *response;
    CURL *easy;
    int64_t sent; /* of the body */
    int64_t got;  /* of the answer */
    struct buf error_body;
    struct error error; /* why it was ended from here */
    char reason[CURL_ERROR_SIZE];
};

static size_t on_read(char *to, size_t size, size_t count, void *ctx)
{
    struct attempt *a = ctx;
    const struct objects_request *r = a->request;
    size_t room = size * count;
    size_t left = (size_t)(r->length - a->sent);
    size_t len = room < left ? room : left;
    ssize_t n;

    if (len == 0) {
        return 0;
    }
    if (r->fd < 0) {
        memcpy(to, (const char *)r->data + a->sent, len);
        a->sent += (int64_t)len;
        return len;
    }
    do {
        n = pread(r->fd, to, len, r->offset + a->sent);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        error_set_errno(&a->error, ERROR_INTERNAL, n < 0 ? errno : EIO,
                        "cannot read what is being sent");
        return CURL_READFUNC_ABORT;
    }
    a->sent += n;
    return (size_t)n;
}

static int on_seek(void *ctx, curl_off_t offset, int origin)
{
    struct attempt *a = ctx;

    if (origin != SEEK_SET || offset < 0 || offset > a->request->length) {
        return CURL_SEEKFUNC_FAIL;
    }
    a->sent = offset;
    return CURL_SEEKFUNC_OK;
}

static long status_of(CURL *easy)
{
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t on_write(char *data, size_t size, size_t count, void *ctx)
{
    struct attempt *a = ctx;
    size_t len = size * count;
    long status = status_of(a->easy);

    if (status < 200 || status >= 300) {
        if (a->error_body.len + len <= ERROR_BODY_MAX) {
            (void)!buf_add(&a->error_body, data, len);
        }
        return len;
    }
    if (a->request->sink != NULL) {
        if (a->request->sink(a->request->sink_ctx, a->got, data, len, &a->error) != 0) {
            return CURL_WRITEFUNC_ERROR;
        }
    } else if (buf_add(&a->response->body, data, len) != 0) {
        error_set(&a->error, ERROR_SHARED_STORE_REFUSED,
                  "the shared store answers with more than what is read of it");
        return CURL_WRITEFUNC_ERROR;
    }
    a->got += (int64_t)len;
    return len;
}

/* The value of a header line if it is that header. */
static bool header_value(const char *line, size_t len, const char *name, char *out, size_t size)
{
    size_t name_len = strlen(name);

    if (len <= name_len + 1 || line[name_len] != ':' || strncasecmp(line, name, name_len) != 0) {
        return false;
    }
    line += name_len + 1;
    len -= name_len + 1;
    while (len > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        len--;
    }
    while (len > 0 && strchr(" \t\r\n", line[len - 1]) != NULL) {
        len--;
    }
    if (len >= size) {
        return false;
    }
    memcpy(out, line, len);
    out[len] = '\0';
    return true;
}

static int64_t date_of(const char *text)
{
    time_t at = curl_getdate(text, NULL);

    return at < 0 ? 0 : (int64_t)at * 1000;
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct attempt *a = ctx;
    size_t len = size * count;
    char text[ETAG_SIZE];

    if (header_value(line, len, "ETag", text, sizeof(text))) {
        memcpy(a->response->etag, text, sizeof(text));
    } else if (header_value(line, len, "Last-Modified", text, sizeof(text))) {
        a->response->modified = date_of(text);
    } else if (header_value(line, len, "Date", text, sizeof(text))) {
        a->response->date = date_of(text);
    }
    return len;
}

static int on_progress(void *ctx, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    const struct attempt *a = ctx;

    (void)down_total;
    (void)down;
    (void)up_total;
    (void)up;
    return cancel_fired(a->request->watch->cancel) ? 1 : 0;
}

static int add_header(struct curl_slist **list, const char *name, const char *value)
{
    char line[HEADER_MAX];
    struct curl_slist *longer;

    if (snprintf(line, sizeof(line), "%s: %s", name, value) >= (int)sizeof(line)) {
        return -1;
    }
    longer = curl_slist_append(*list, line);
    explicit_bzero(line, sizeof(line));
    if (longer == NULL) {
        return -1;
    }
    *list = longer;
    return 0;
}

/* Every one of them is signed. */
static int make_headers(const struct objects *o, const struct objects_request *r,
                        struct curl_slist **out)
{
    const char *sha256 = r->sha256 != NULL ? r->sha256 : OBJECTS_EMPTY_SHA256;
    const char *token = o->credentials.session_token;
    int result = add_header(out, "x-amz-content-sha256", sha256);

    if (result == 0 && token != NULL) {
        result = add_header(out, "x-amz-security-token", token);
    }
    if (result == 0 && (r->method == METHOD_PUT || r->method == METHOD_POST)) {
        result = add_header(out, "Content-Type", "application/octet-stream");
    }
    if (result == 0 && r->only_if_absent) {
        result = add_header(out, "If-None-Match", "*");
    }
    return result;
}

static void set_body(struct attempt *a)
{
    const struct objects_request *r = a->request;
    CURL *e = a->easy;

    switch (r->method) {
    case METHOD_GET: curl_easy_setopt(e, CURLOPT_HTTPGET, 1L); break;
    case METHOD_HEAD: curl_easy_setopt(e, CURLOPT_NOBODY, 1L); break;
    case METHOD_DELETE:
        curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
        curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "DELETE");
        break;
    case METHOD_PUT:
        curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->length);
        curl_easy_setopt(e, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(e, CURLOPT_READDATA, a);
        curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(e, CURLOPT_SEEKDATA, a);
        break;
    case METHOD_POST:
        /* On a kept connection that ends without an answer libcurl sends it again, unseen. */
        curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(e, CURLOPT_POST, 1L);
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->data != NULL ? r->data : "");
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->length);
        break;
    }
}

static void set_limits(const struct objects *o, struct attempt *a)
{
    CURL *e = a->easy;
    unsigned stall = a->request->stall_s != 0 ? a->request->stall_s : o->stall_s;

    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)stall);
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)TRANSFER_BUFFER);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)TRANSFER_BUFFER);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    if (o->ca_file != NULL) {
        curl_easy_setopt(e, CURLOPT_CAINFO, o->ca_file);
    }
}

static void set_answer(struct attempt *a)
{
    CURL *e = a->easy;

    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(e, CURLOPT_XFERINFODATA, a);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, a->reason);
}

static CURL *take_handle(struct objects *o)
{
    CURL *easy = NULL;

    pthread_mutex_lock(&o->lock);
    if (o->idle_count > 0) {
        easy = o->idle[--o->idle_count];
    }
    pthread_mutex_unlock(&o->lock);
    return easy != NULL ? easy : curl_easy_init();
}

static void give_handle(struct objects *o, CURL *easy)
{
    if (easy == NULL) {
        return;
    }
    curl_easy_reset(easy);
    pthread_mutex_lock(&o->lock);
    if (o->idle_count < HANDLES_MAX) {
        o->idle[o->idle_count++] = easy;
        easy = NULL;
    }
    pthread_mutex_unlock(&o->lock);
    curl_easy_cleanup(easy);
}

static void read_error(struct attempt *a)
{
    struct objects_answer answer;

    if (a->error_body.len == 0 ||
        objects_answer_parse(buf_str(&a->error_body), a->error_body.len, &answer) != 0) {
        return;
    }
    memcpy(a->response->code, answer.code, sizeof(answer.code));
    objects_answer_done(&answer);
}

static CURLcode transfer(struct objects *o, struct attempt *a, const char *url,
                         struct curl_slist *headers)
{
    const struct objects_request *r = a->request;
    char range[64];
    CURLcode code;

    set_limits(o, a);
    set_body(a);
    set_answer(a);
    curl_easy_setopt(a->easy, CURLOPT_URL, url);
    curl_easy_setopt(a->easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(a->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(a->easy, CURLOPT_AWS_SIGV4, o->sigv4);
    curl_easy_setopt(a->easy, CURLOPT_USERNAME, o->credentials.access_key);
    curl_easy_setopt(a->easy, CURLOPT_PASSWORD, o->credentials.secret_key);
    if (r->count > 0) {
        snprintf(range, sizeof(range), "%lld-%lld", (long long)r->first,
                 (long long)(r->first + r->count - 1));
        curl_easy_setopt(a->easy, CURLOPT_RANGE, range);
    }
    code = curl_easy_perform(a->easy);
    if (code == CURLE_OK) {
        curl_off_t length = -1;

        curl_easy_getinfo(a->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
        a->response->length = length;
        a->response->status = status_of(a->easy);
        read_error(a);
    }
    return code;
}

/* 0 answered, 1 worth another attempt (`err` says why), -1. */
static int judge_transport(const struct objects *o, const struct attempt *a, CURLcode code,
                           struct error *err)
{
    if (code == CURLE_OK) {
        return 0;
    }
    if (a->error.code != ERROR_NONE) {
        *err = a->error;
        return -1;
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        return objects_interrupted(err);
    }
    error_set(err, ERROR_SHARED_STORE_UNAVAILABLE, "the shared store at %s: %s (%s)",
              o->place.endpoint, a->reason[0] != '\0' ? a->reason : curl_easy_strerror(code),
              a->request->name + strlen("objects."));
    switch (code) {
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_URL_MALFORMAT:
    case CURLE_AUTH_ERROR: err->code = ERROR_SHARED_STORE_REFUSED; return -1;
    default: return 1;
    }
}

static bool is_transient(const struct objects_response *r)
{
    static const char *const codes[] = {
        "RequestTimeout", "BadDigest",        "XAmzContentSHA256Mismatch",
        "InvalidDigest",  "OperationAborted", "IncompleteBody"};

    if (r->status == 408 || r->status == 429 || (r->status >= 500 && r->status != 501)) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        if (r->status >= 400 && strcmp(r->code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int attempt(struct objects *o, const struct objects_request *r, struct objects_response *out,
                   struct error *err)
{
    _cleanup_buf_ struct buf url;
    struct attempt a = {.request = r, .response = out};
    struct curl_slist *headers = NULL;
    int errnum = fault_point(r->name);
    int result;

    buf_init(&url, URL_MAX);
    buf_init(&a.error_body, ERROR_BODY_MAX);
    if (errnum != 0) {
        error_set_errno(err, ERROR_SHARED_STORE_UNAVAILABLE, errnum, "the shared store");
        return 1;
    }
    a.easy = take_handle(o);
    if (a.easy == NULL || make_headers(o, r, &headers) != 0 ||
        objects_url(&url, &o->place, r->key, r->query) != 0) {
        result = error_set(err, ERROR_INTERNAL, "out of memory");
    } else {
        result = judge_transport(o, &a, transfer(o, &a, buf_str(&url), headers), err);
    }
    give_handle(o, a.easy);
    curl_slist_free_all(headers);
    buf_done(&a.error_body);
    if (result == 0 && is_transient(out)) {
        (void)objects_refused(o, r, out, err);
        result = 1;
    }
    (void)fault_point(r->done);
    return result;
}

/* --- attempts --- */

/* Half of it is chance, so that those whom one fault has hit do not come back together. */
int objects_back_off(unsigned n, const struct objects_watch *watch, struct error *err)
{
    int64_t ms = BACKOFF_FIRST_MS;
    uint32_t chance = 0;
    struct pollfd p = {.fd = cancel_fd(watch->cancel), .events = POLLIN};

    while (--n > 0 && ms < BACKOFF_MAX_MS) {
        ms *= 2;
    }
    (void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
    ms = ms / 2 + chance % (ms / 2 + 1);
    (void)!poll(&p, 1, (int)ms); /* a negative descriptor only waits */
    return cancel_fired(watch->cancel) ? objects_interrupted(err) : 0;
}

static void response_init(struct objects_response *r)
{
    *r = (struct objects_response){.length = -1};
    buf_init(&r->body, ANSWER_MAX);
}

int objects_perform(struct objects *o, const struct objects_request *request,
                    struct objects_response *out, struct error *err)
{
    int result = 1;

    for (unsigned n = 1; result > 0 && n <= o->attempts; n++) {
        struct error interrupted = ERROR_INIT;

        if (n > 1) {
            objects_response_done(out);
            if (objects_back_off(n - 1, request->watch, &interrupted) != 0) {
                *err = interrupted;
                response_init(out);
                return -1;
            }
        }
        response_init(out);
        error_clear(err);
        out->attempt = n;
        result = attempt(o, request, out, err);
    }
    return result == 0 ? 0 : -1;
}

/* What the code says to people who run the service. */
static const struct {
    const char *code;
    const char *what;
} MEANINGS[] = {
    {"NoSuchBucket", "there is no such bucket"},
    {"RequestTimeTooSkewed", "the clocks of this machine and of the shared store differ too much"},
    {"InvalidAccessKeyId", "the access key is not known: the credentials are wrong"},
    {"SignatureDoesNotMatch", "the signature does not match: the credentials are wrong"},
    {"ExpiredToken", "the session token has expired"},
    {"InvalidToken", "the session token is not valid"},
    {"AuthorizationHeaderMalformed", "the region is wrong"},
    {"AccessDenied", "these credentials may not do that"},
    {"QuotaExceeded", "the quota of the bucket is used up"},
    {"BadDigest", "what arrived is not what was sent"},
    {"XAmzContentSHA256Mismatch", "what arrived is not what was sent"},
    {"SlowDown", "too many requests"},
};

static const char *meaning_of(const struct objects_response *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(MEANINGS); i++) {
        if (strcmp(r->code, MEANINGS[i].code) == 0) {
            return MEANINGS[i].what;
        }
    }
    if (r->status == 401 || r->status == 403) {
        return "the credentials are wrong or may not do that";
    }
    if (r->status >= 300 && r->status < 400) {
        return "it redirects elsewhere, where nothing is sent";
    }
    return r->status >= 500 ? "it failed" : "it refused the request";
}

/* A store may repeat what it was sent; only its code and what that means are passed on. */
int objects_refused(const struct objects *o, const struct objects_request *request,
                    const struct objects_response *r, struct error *err)
{
    enum error_code code =
        is_transient(r) ? ERROR_SHARED_STORE_UNAVAILABLE : ERROR_SHARED_STORE_REFUSED;

    return error_set(err, code, "the shared store at %s, bucket %s: %s (%s: %ld%s%s)",
                     o->place.endpoint, o->place.bucket, meaning_of(r),
                     request->name + strlen("objects."), r->status, r->code[0] != '\0' ? " " : "",
                     r->code);
}
