/* The engine's event stream: one endless response, opened again whenever it ends. */
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "host/docker/engine_lines.h"
#include "host/docker/engine_loop_internal.h"

#include <string.h>

enum { BACKOFF_FIRST_MS = 100, BACKOFF_MOST_MS = 5000 };

struct engine_watch {
    struct engine_watch *next;
    struct engine *engine;
    struct engine_watch_events handler;
    struct engine_lines lines;
    char *url;
    CURL *easy; /* NULL between two connections */
    bool up;
    bool complained;
    int64_t retry_at;
    int64_t backoff;
};

struct engine_watch **engine_watch_next(struct engine_watch *w)
{
    return &w->next;
}

static void on_line(void *ctx, const json_t *event)
{
    struct engine_watch *w = ctx;

    w->handler.line(w->handler.ctx, event);
}

static char *watch_url(const char *label)
{
    _cleanup_buf_ struct buf url;
    json_t *filters = json_pack("{s:[s],s:[s]}", "type", "container", "label", label);
    char *text = json_dumps(filters, JSON_COMPACT);
    bool good;

    buf_init(&url, 16 * 1024);
    good = text != NULL && buf_add_str(&url, "http://engine/events?filters=") == 0 &&
           engine_escape(&url, text) == 0;
    free(text);
    json_decref(filters);
    return good ? buf_take(&url, NULL) : NULL;
}

int engine_watch_new(struct engine *e, const char *label, const struct engine_watch_events *handler,
                     struct engine_watch **out, struct error *err)
{
    struct engine_watch *w = calloc(1, sizeof(*w));

    if (w == NULL || (w->url = watch_url(label)) == NULL) {
        free(w);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    w->engine = e;
    w->handler = *handler;
    w->backoff = BACKOFF_FIRST_MS;
    engine_lines_init(&w->lines, on_line, w);
    *out = w;
    return 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx)
{
    struct engine_watch *w = ctx;
    size_t len = size * count;

    if (!w->up) {
        return len; /* words of an error status */
    }
    return engine_lines_feed(&w->lines, data, len) == 0 ? len : 0;
}

static size_t on_header(char *data, size_t size, size_t count, void *ctx)
{
    struct engine_watch *w = ctx;
    size_t len = size * count;
    long status = 0;

    if (len <= 2 && data[0] != '\0' && !w->up) {
        curl_easy_getinfo(w->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status == 200) {
            w->up = true;
            w->complained = false;
            w->backoff = BACKOFF_FIRST_MS;
            w->handler.connected(w->handler.ctx, true);
        }
    }
    return len;
}

static bool open_stream(struct engine_watch *w, CURLM *multi)
{
    if (fault_point("engine.watch") != 0) {
        return false;
    }
    w->easy = curl_easy_init();
    if (w->easy == NULL) {
        return false;
    }
    engine_set_common(w->easy, w->engine);
    curl_easy_setopt(w->easy, CURLOPT_URL, w->url);
    curl_easy_setopt(w->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(w->easy, CURLOPT_WRITEDATA, w);
    curl_easy_setopt(w->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(w->easy, CURLOPT_HEADERDATA, w);
    if (curl_multi_add_handle(multi, w->easy) != CURLM_OK) {
        curl_easy_cleanup(w->easy);
        w->easy = NULL;
        return false;
    }
    return true;
}

static void schedule(struct engine_watch *w)
{
    w->retry_at = clock_mono_ms() + w->backoff;
    w->backoff = w->backoff * 2 < BACKOFF_MOST_MS ? w->backoff * 2 : BACKOFF_MOST_MS;
}

int64_t engine_watch_tick(struct engine_watch *w, CURLM *multi)
{
    int64_t left;

    if (w->easy != NULL) {
        return -1;
    }
    left = w->retry_at - clock_mono_ms();
    if (left > 0) {
        return left;
    }
    if (!open_stream(w, multi)) {
        schedule(w);
        return w->backoff;
    }
    return 0;
}

static void close_stream(struct engine_watch *w, CURLM *multi)
{
    curl_multi_remove_handle(multi, w->easy);
    curl_easy_cleanup(w->easy);
    w->easy = NULL;
    buf_reset(&w->lines.rest);
}

bool engine_watch_ended(struct engine_watch *w, CURLM *multi, CURL *easy)
{
    if (w->easy != easy) {
        return false;
    }
    close_stream(w, multi);
    if (!w->complained) {
        w->complained = true;
        log_warn("the engine's event stream ended; trying again", NULL);
    }
    if (w->up) {
        w->up = false;
        w->handler.connected(w->handler.ctx, false);
    }
    schedule(w);
    return true;
}

void engine_watch_free(struct engine_watch *w, CURLM *multi)
{
    if (w->easy != NULL) {
        close_stream(w, multi);
    }
    engine_lines_done(&w->lines);
    free(w->url);
    free(w);
}
