/* Runs as they are shown. */
#include "server/services/runs_private.h"

#include <string.h>

enum { LARGE_BYTES = 256 * 1024 };

static const char *const state_names[] = {
    [STORE_RUN_STARTING] = "starting",
    [STORE_RUN_RUNNING] = "running",
    [STORE_RUN_SETTLED] = "settled",
};

/* What a living run has beyond its row. */
static void overlay(struct run *r, struct store_run *row)
{
    pthread_mutex_lock(&r->lock);
    row->state = r->state;
    row->started_at = r->started_at;
    row->calls_total = r->calls_total;
    row->calls_answered = r->calls_answered;
    row->calls_cancelled = r->calls_cancelled;
    pthread_mutex_unlock(&r->lock);
}

static struct api_run view_of(const struct store_run *row)
{
    return (struct api_run){
        .run_id = row->run_id,
        .state = state_names[row->state],
        .description = row->description,
        .started_at = row->started_at == 0 ? -1 : row->started_at,
        .completed_at = row->completed_at == 0 ? -1 : row->completed_at,
        .calls_total = row->calls_total,
        .calls_answered = row->calls_answered,
        .calls_cancelled = row->calls_cancelled,
        .outcome = row->outcome,
    };
}

/* The row, and of a living run what is newer. The registry is asked first: who has left it has a
 * row that is final. */
static int read_run(struct service *s, const char *tenant, const char *run_id,
                    struct store_run *out, struct error *err)
{
    struct run *r = run_find(s->runs, tenant, run_id);
    int result = store_run_get(s->store, tenant, run_id, out, err);
    if (result == 0 && r != NULL && out->state != STORE_RUN_SETTLED) {
        overlay(r, out);
    }
    run_unref(r);
    return result;
}

bool runs_is_final(struct service *s, const char *tenant, const char *run_id)
{
    struct error ignored = ERROR_INIT;
    struct store_run row = {0};
    struct run *r = run_find(s->runs, tenant, run_id);
    if (r != NULL) {
        run_unref(r);
        return false;
    }
    bool final = store_run_get(s->store, tenant, run_id, &row, &ignored) != 0 ||
                 row.state == STORE_RUN_SETTLED;
    store_run_done(&row);
    return final;
}

bool runs_is_unrecorded(struct service *s, const char *tenant, const char *run_id,
                        struct error *err)
{
    struct run *r = run_find(s->runs, tenant, run_id);
    if (r == NULL) {
        return false;
    }
    pthread_mutex_lock(&r->lock);
    bool unrecorded = r->unrecorded;
    if (unrecorded) {
        *err = r->failure;
    }
    pthread_mutex_unlock(&r->lock);
    run_unref(r);
    return unrecorded;
}

bool runs_is_large(struct service *s, const char *tenant, const char *run_id)
{
    struct error ignored = ERROR_INIT;
    struct store_run row = {0};
    bool large = store_run_get(s->store, tenant, run_id, &row, &ignored) == 0 &&
                 row.result_bytes > LARGE_BYTES;
    store_run_done(&row);
    return large;
}

static int gone(const char *run_id, struct error *err)
{
    return error_set(err, ERROR_TRANSCRIPT_GONE, "the record of run %s was removed by retention",
                     run_id);
}

/* The result's text out of the log. */
static int read_result(struct service *s, const struct store_run *row, struct buf *out,
                       struct error *err)
{
    struct store_run_log_name name = run_log_name(s, row->tenant, row->run_id);
    size_t len = (size_t)row->result_bytes;
    _cleanup_close_ int fd = store_run_log_open(&name, err);
    if (fd < 0) {
        return err->code == ERROR_NOT_FOUND ? gone(row->run_id, err) : -1;
    }
    char *place = buf_reserve(out, len);
    if (place == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    int64_t got = store_run_log_read(fd, row->result_place, place, len, err);
    if (got < 0) {
        return -1;
    }
    /* The log of a run without a key is the kernel's to write; its row may have been sooner. */
    if ((size_t)got < len || place[0] != '{') {
        return error_set(err, ERROR_TRANSCRIPT_GONE, "the record of run %s went with the machine",
                         row->run_id);
    }
    out->len += len;
    return 0;
}

int runs_view(struct service *s, const char *tenant, const char *run_id, struct buf *out,
              struct error *err)
{
    _cleanup_(store_run_done) struct store_run row = {0};
    _cleanup_buf_ struct buf result;
    buf_init(&result, RUNS_REPLY_MAX);
    if (read_run(s, tenant, run_id, &row, err) != 0 ||
        (row.state == STORE_RUN_SETTLED && read_result(s, &row, &result, err) != 0)) {
        return -1;
    }
    struct api_run view = view_of(&row);
    view.spec = (struct api_raw){row.spec, strlen(row.spec)};
    view.result = (struct api_raw){result.data, result.len};
    return api_run_add(&view, out) == 0 ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

json_t *runs_encode_item(struct service *s, const void *item)
{
    struct store_run row = *(const struct store_run *)item; /* its texts stay the list's */
    struct run *r = run_find(s->runs, row.tenant, row.run_id);
    if (r != NULL && row.state != STORE_RUN_SETTLED) {
        overlay(r, &row);
    }
    run_unref(r);
    struct api_run view = view_of(&row);
    return api_run_encode_item(&view);
}

int runs_published(void *service, const char *tenant, const char *run_id, int64_t *bytes, bool *all,
                   struct error *err)
{
    struct service *s = service;
    struct store_run row = {0};
    struct run *r = run_find(s->runs, tenant, run_id);
    if (r != NULL) {
        pthread_mutex_lock(&r->lock);
        *bytes = r->published;
        pthread_mutex_unlock(&r->lock);
        *all = false;
        run_unref(r);
        return 0;
    }
    if (store_run_get(s->store, tenant, run_id, &row, err) != 0) {
        return -1;
    }
    *all = row.state == STORE_RUN_SETTLED;
    *bytes = *all ? row.log_bytes : 0;
    store_run_done(&row);
    return 0;
}
