/* What goes into a new workspace, whatever host makes it. */
#ifndef EXECHOST_HOST_CONTENT_H
#define EXECHOST_HOST_CONTENT_H

#include "base/error.h"
#include "host/plan.h"
#include "workspace/archive.h"

#include <stdint.h>

/* Borrows all. */
struct host_content {
    const struct host_provision_plan *plan;
    struct workspace_reader *archive; /* of a restore; NULL: the plan's repository */
    const char *scratch;              /* directory for what git needs meanwhile */
    int64_t deadline_mono_ms;
};
/* Feeds it into `sink`; `content` is a struct host_content, so that it serves as a callback.
 * Blocks. Errors as workspace_reader_run and workspace_git_feed. */
int host_content_feed(void *content, struct workspace_sink *sink, struct error *err) WARN_UNUSED;

#endif
