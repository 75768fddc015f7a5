#include "base/clock.h"
#include "ptc/internal.h"

#include <string.h>
#include <sys/stat.h>

enum { IDLE_KIND_MS = 60000, SHORT_RUN_MS = 50, STEADY_MS = 100, REST_MS = 5 };

/* --- kinds --- */

bool ptc_kind_equals(const struct ptc_kind *a, const struct ptc_kind *b)
{
    if (a->mode != b->mode || a->network_host != b->network_host ||
        a->heap_bytes != b->heap_bytes) {
        return false;
    }
    return a->workspace_root == NULL || b->workspace_root == NULL
               ? a->workspace_root == b->workspace_root
               : strcmp(a->workspace_root, b->workspace_root) == 0;
}

int ptc_kind_copy(const struct ptc_kind *kind, struct ptc_kind *out)
{
    char *root = NULL;
    if (kind->workspace_root != NULL) {
        root = strdup(kind->workspace_root);
        if (root == NULL) {
            return -1;
        }
    }
    *out = *kind;
    out->workspace_root = root;
    return 0;
}

int ptc_kind_of(const struct ptc_spec *spec, struct ptc_kind *out)
{
    struct ptc_kind kind = {.mode = spec->mode,
                            .network_host = spec->network_host,
                            .heap_bytes = spec->limits.heap_bytes,
                            .workspace_root = (char *)spec->workspace_root};
    return ptc_kind_copy(&kind, out);
}

void ptc_kind_done(struct ptc_kind *kind)
{
    free(kind->workspace_root);
    kind->workspace_root = NULL;
}

/* --- what is there --- */

static bool is_spare(const struct ptc_worker *w)
{
    return w->run == NULL && (w->state == PTC_WORKER_READY || w->state == PTC_WORKER_STARTING);
}

static int64_t count_spare(const struct ptc_engine *e, const struct ptc_kind *kind)
{
    int64_t count = 0;
    for (const struct ptc_worker *w = e->workers; w != NULL; w = w->next) {
        count += is_spare(w) && (kind == NULL || ptc_kind_equals(&w->kind, kind));
    }
    return count;
}

/* What a process of a named workspace shows is still what has that name. */
static bool is_current(const struct ptc_worker *w)
{
    struct stat st;
    if (w->kind.workspace_root == NULL) {
        return true;
    }
    return w->state == PTC_WORKER_READY && stat(w->kind.workspace_root, &st) == 0 &&
           st.st_dev == w->place_device && st.st_ino == w->place_inode &&
           st.st_uid == w->place_owner;
}

static struct ptc_worker *find_spare(const struct ptc_engine *e, const struct ptc_kind *kind,
                                     enum ptc_worker_state state)
{
    struct ptc_worker *found = NULL;
    /* The last of the list is the oldest, which is furthest. */
    for (struct ptc_worker *w = e->workers; w != NULL; w = w->next) {
        if (is_spare(w) && w->state == state && ptc_kind_equals(&w->kind, kind) && is_current(w)) {
            found = w;
        }
    }
    return found;
}

struct ptc_worker *ptc_pool_start(struct ptc_engine *e, const struct ptc_kind *kind)
{
    struct ptc_worker *w = ptc_worker_new(e, kind);
    if (w != NULL) {
        w->next = e->workers;
        e->workers = w;
        ptc_helper_spawn(w);
    }
    return w;
}

/* --- what is asked for --- */

static void forget(struct ptc_engine *e, size_t index)
{
    for (struct ptc_worker *w = e->workers; w != NULL; w = w->next) {
        if (is_spare(w) && ptc_kind_equals(&w->kind, &e->recent[index].kind)) {
            ptc_worker_kill(w);
        }
    }
    ptc_kind_done(&e->recent[index].kind);
    e->recent[index] = e->recent[--e->recent_count];
}

/* The first is what the defaults ask for and stays. */
static size_t find_oldest(const struct ptc_engine *e)
{
    size_t oldest = 1;
    for (size_t i = 2; i < e->recent_count; i++) {
        if (e->recent[i].used_at < e->recent[oldest].used_at) {
            oldest = i;
        }
    }
    return oldest;
}

static void note(struct ptc_engine *e, const struct ptc_kind *kind)
{
    for (size_t i = 0; i < e->recent_count; i++) {
        if (ptc_kind_equals(&e->recent[i].kind, kind)) {
            e->recent[i].used_at = clock_mono_ms();
            return;
        }
    }
    if (e->recent_count == PTC_KINDS_MAX) {
        forget(e, find_oldest(e));
    }
    if (ptc_kind_copy(kind, &e->recent[e->recent_count].kind) == 0) {
        e->recent[e->recent_count++].used_at = clock_mono_ms();
    }
}

static void end_stale(struct ptc_engine *e, const struct ptc_kind *kind)
{
    for (struct ptc_worker *w = e->workers; w != NULL; w = w->next) {
        if (is_spare(w) && w->state == PTC_WORKER_READY && ptc_kind_equals(&w->kind, kind) &&
            !is_current(w)) {
            ptc_worker_kill(w);
        }
    }
}

/* A short run is over sooner when nothing starts beside it. Where one run follows the other, or
 * none was ready, the next one comes sooner when it does. */
struct ptc_worker *ptc_pool_take(struct ptc_engine *e, const struct ptc_kind *kind)
{
    end_stale(e, kind);
    struct ptc_worker *w = find_spare(e, kind, PTC_WORKER_READY);
    int64_t now = clock_mono_ms();
    bool steady = now - e->taken_at < STEADY_MS;
    note(e, kind);
    e->taken_at = now;
    e->quiet_until = w != NULL && !steady ? now + SHORT_RUN_MS : now;
    if (w == NULL) {
        w = find_spare(e, kind, PTC_WORKER_STARTING);
    }
    return w != NULL ? w : ptc_pool_start(e, kind);
}

void ptc_pool_rest(struct ptc_engine *e)
{
    int64_t until = clock_mono_ms() + REST_MS;
    e->quiet_until = until < e->quiet_until ? until : e->quiet_until;
}

void ptc_pool_tend(struct ptc_engine *e, int64_t now)
{
    for (size_t i = e->recent_count; i-- > 1;) {
        if (now - e->recent[i].used_at > IDLE_KIND_MS) {
            forget(e, i);
        }
    }
    if (now < e->refill_at) {
        return;
    }
    bool quiet = now < e->quiet_until;
    int64_t all = count_spare(e, NULL);
    for (size_t i = 0; i < e->recent_count; i++) {
        int64_t spare = count_spare(e, &e->recent[i].kind);
        while (!(quiet && spare > 0) && spare < e->config.pool_size && all < e->config.pool_max &&
               ptc_pool_start(e, &e->recent[i].kind) != NULL) {
            spare++;
            all++;
        }
    }
}
