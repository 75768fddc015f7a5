/* A response body that the caller pulls: the transfer stands still while nobody reads. */
#include "host/docker/engine_internal.h"

/* Received and not yet read; the transfer is paused beyond. */
enum { DOWNLOAD_AHEAD = 256 * 1024 };

struct engine_download {
    struct engine *engine;
    struct engine_handle *handle;
    struct engine_request request;
    char *text;
    struct buf chunk;
    struct engine_drive drive;
    bool added;
    bool head_complete;
    bool paused;
    bool delivered; /* `chunk` was handed out and is stale */
};

static size_t on_body(char *data, size_t size, size_t count, void *ctx)
{
    struct engine_download *d = ctx;

    if (d->chunk.len >= DOWNLOAD_AHEAD) {
        d->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    return buf_add(&d->chunk, data, size * count) == 0 ? size * count : 0;
}

static size_t on_header(char *data, size_t size, size_t count, void *ctx)
{
    struct engine_download *d = ctx;
    size_t len = size * count;
    long status = 0;

    if (len <= 2 && data[0] != '\0') {
        curl_easy_getinfo(d->handle->easy, CURLINFO_RESPONSE_CODE, &status);
        d->head_complete = status >= 200;
    }
    return len;
}

static bool head_arrived(void *ctx)
{
    return ((struct engine_download *)ctx)->head_complete;
}

static bool data_arrived(void *ctx)
{
    struct engine_download *d = ctx;

    return !d->delivered && d->chunk.len > 0;
}

static int start(struct engine_download *d, struct error *err)
{
    CURL *easy;

    d->handle = engine_handle_get(d->engine, err);
    if (d->handle == NULL) {
        return -1;
    }
    if (engine_prepare(d->engine, d->handle, &d->request, &d->text, err) < 0) {
        return -1;
    }
    easy = d->handle->easy;
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, d);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, d);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 128L * 1024);
    if (d->request.timeout_ms > 0) {
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)d->request.timeout_ms);
    } else {
        curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)ENGINE_STALL_S);
    }
    if (curl_multi_add_handle(d->handle->multi, easy) != CURLM_OK) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    d->added = true;
    return 0;
}

/* Drives until `done`; a transfer that has ended badly is an error now. */
static int advance(struct engine_download *d, bool (*done)(void *ctx), struct error *err)
{
    if (d->drive.ended) {
        return 0;
    }
    d->drive.done = done;
    if (engine_handle_drive(d->handle, &d->request, &d->drive, err) < 0) {
        return -1;
    }
    if (d->drive.ended && d->drive.result != CURLE_OK) {
        return engine_transfer_error(err, &d->request, d->drive.result);
    }
    return 0;
}

int engine_download_open(struct engine *e, const struct engine_request *request,
                         struct engine_download **out, long *status, struct error *err)
{
    struct engine_download *d;

    if (engine_fault(request, err) < 0) {
        return -1;
    }
    d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    d->engine = e;
    d->request = *request;
    d->drive.cancel = request->cancel;
    d->drive.ctx = d;
    buf_init(&d->chunk, (size_t)2 * DOWNLOAD_AHEAD);
    if (start(d, err) < 0 || advance(d, head_arrived, err) < 0) {
        engine_download_free(d);
        return -1;
    }
    curl_easy_getinfo(d->handle->easy, CURLINFO_RESPONSE_CODE, status);
    *out = d;
    return 0;
}

ssize_t engine_download_read(void *download, const void **data, struct error *err)
{
    struct engine_download *d = download;

    if (d->delivered) {
        buf_reset(&d->chunk);
        d->delivered = false;
    }
    if (d->chunk.len == 0) {
        if (d->paused) {
            CURLcode code;

            d->paused = false;
            code = curl_easy_pause(d->handle->easy, CURLPAUSE_CONT);
            if (code != CURLE_OK) {
                return engine_transfer_error(err, &d->request, code);
            }
        }
        if (advance(d, data_arrived, err) < 0) {
            return -1;
        }
    }
    *data = d->chunk.data;
    d->delivered = true;
    return (ssize_t)d->chunk.len;
}

void engine_download_free(struct engine_download *d)
{
    if (d == NULL) {
        return;
    }
    if (d->added) {
        curl_multi_remove_handle(d->handle->multi, d->handle->easy);
    }
    engine_handle_put(d->engine, d->handle, d->drive.ended && d->drive.result == CURLE_OK);
    buf_done(&d->chunk);
    free(d->text);
    free(d);
}
