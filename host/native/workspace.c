/* Workspaces in and out: both by the helper inside, out with everything else frozen. */
#include "base/clock.h"
#include "host/content.h"
#include "host/files.h"
#include "host/native/native_internal.h"
#include "host/result.h"

#include <errno.h>
#include <string.h>

enum { FREEZE_MS = 15 * 1000 };

static int ask(struct link *k, uint32_t type, const char *what, struct error *err)
{
    const struct link_call call = {.request = {.type = type}, .timeout_ms = FREEZE_MS};
    struct shim_event reply;
    if (link_request(k, &call, &reply, err) != 0) {
        return -1;
    }
    return reply.errnum == 0 ? 0 : error_set_errno(err, ERROR_RUNTIME, reply.errnum, "%s", what);
}

/* --- out --- */

/* The helper that a checkpoint talks to is outside of what is frozen. */
struct outside {
    struct host base;
    struct native_host *native;
};

static int outside_guest(struct host *host, const struct host_guest_call *call,
                         struct host_guest **out, struct error *err)
{
    return native_guest(((struct outside *)host)->native, call, true, out, err);
}

static const struct host_ops outside_ops = {.name = "native", .guest = outside_guest};

/* Refuses what would take too long to read, however little is in it. */
struct bounded {
    struct workspace_sink base;
    struct workspace_sink *to;
    int64_t left;
};

static int bounded_begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                         struct error *err)
{
    struct bounded *b = (struct bounded *)sink;
    b->left -= entry->size;
    if (b->left < 0) {
        return error_set(err, ERROR_RESOURCE_LIMIT, "the workspace's files are too large to read");
    }
    return b->to->ops->begin(b->to, entry, err);
}

static int bounded_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                        struct error *err)
{
    struct bounded *b = (struct bounded *)sink;
    return b->to->ops->data(b->to, offset, data, len, err);
}

static int bounded_end(struct workspace_sink *sink, struct error *err)
{
    struct bounded *b = (struct bounded *)sink;
    return b->to->ops->end(b->to, err);
}

static const struct workspace_sink_ops bounded_ops = {.begin = bounded_begin,
                                                      .data = bounded_data,
                                                      .end = bounded_end};

static int pack(struct native_host *h, const struct host_checkpoint_plan *plan,
                struct workspace_sink *sink, struct error *err)
{
    struct outside outside = {.base = {.ops = &outside_ops}, .native = h};
    struct bounded bounded = {
        .base = {.ops = &bounded_ops}, .to = sink, .left = plan->apparent_bytes_max};
    const struct host_files files = {
        .host = &outside.base,
        .id = plan->id,
        .handle = plan->handle,
        .deadline_mono_ms = plan->deadline_mono_ms,
        .cancel = plan->cancel,
    };
    return host_files_pack(&files, "", &bounded.base, err);
}

int native_checkpoint(struct native_host *h, const struct host_checkpoint_plan *plan,
                      struct workspace_sink *sink, struct error *err)
{
    _cleanup_link_ struct link *k = NULL;
    struct error first = ERROR_INIT;
    struct error thawing = ERROR_INIT;
    if (native_link(h, plan->handle, &k, err) != 0) {
        return -1;
    }
    if (cancel_fired(plan->cancel)) {
        return error_set(err, ERROR_RUNTIME, "interrupted");
    }
    int result = ask(k, SHIM_FREEZE, "freezing the execution", &first);
    if (result == 0) {
        result = pack(h, plan, sink, &first);
    }
    /* Also when freezing failed: it may have come too late, but it comes. */
    if (ask(k, SHIM_THAW, "thawing the execution", &thawing) != 0 && link_alive(k)) {
        return host_still_frozen(err, &first, &thawing);
    }
    if (result != 0) {
        *err = first;
        return error_in_phase(err, PHASE_EXPORT);
    }
    return 0;
}

/* --- in --- */

int native_load_workspace(struct native_host *h, const char *key,
                          const struct host_provision_plan *plan, struct workspace_reader *archive,
                          int64_t deadline_mono_ms, struct error *err)
{
    static const char *const argv[] = {"load", ".", NULL};
    const struct host_guest_call call = {
        .id = host_provision_plan_identity(plan),
        .handle = key,
        .argv = argv,
        .deadline_mono_ms = deadline_mono_ms,
        .cancel = plan->cancel,
        .alone = true,
        .failed = host_guest_load_failed,
    };
    struct host_content content = {.plan = plan,
                                   .archive = archive,
                                   .scratch = h->scratch,
                                   .deadline_mono_ms = deadline_mono_ms};
    _cleanup_guest_ struct host_guest *guest = NULL;
    if (native_guest(h, &call, false, &guest, err) != 0) {
        return -1;
    }
    return host_guest_load(guest, host_content_feed, &content, err);
}
