#include "host/content.h"

#include "workspace/git.h"

int host_content_feed(void *content, struct workspace_sink *sink, struct error *err)
{
    const struct host_content *c = content;
    const struct host_provision_plan *plan = c->plan;
    if (c->archive != NULL) {
        return workspace_reader_run(c->archive, sink, plan->cancel, err);
    }
    struct workspace_git git = {
        .path = plan->repository_path,
        .root = plan->repository_root,
        .revision = plan->revision,
        .scratch = c->scratch,
        .deadline_mono_ms = c->deadline_mono_ms,
        .cancel = plan->cancel,
        .content_bytes_max = plan->limits.disk_bytes,
    };
    return workspace_git_feed(&git, sink, err);
}
