/* Git import: streams `git archive` of one revision into a sink. The repository is hostile data:
 * its own directory serves `rev-parse` only, the archive comes from a private GIT_DIR whose
 * alternates name its objects, so that its configuration, filters and hooks never apply; `.git`
 * files and alternates that lead outside `root` are refused; nothing is fetched. Blocks; any
 * thread. */
#ifndef EXECHOST_WORKSPACE_GIT_H
#define EXECHOST_WORKSPACE_GIT_H

#include "base/cancel.h"
#include "workspace/entry.h"

struct workspace_git {
    const char *path; /* as asked, absolute */
    const char *root; /* configured, absolute */
    const char *revision;
    const char *scratch; /* an existing directory for the private GIT_DIR; NULL: /tmp */
    int64_t deadline_mono_ms;
    struct cancel *cancel;     /* borrowed, may be NULL */
    int64_t content_bytes_max; /* more is ERROR_RESOURCE_LIMIT */
};

/* The look before anything is created: real path below the root, is a repository.
 * ERROR_INVALID_REQUEST with field /workspace/repositoryPath. */
int workspace_git_check(const char *path, const char *root, struct error *err) WARN_UNUSED;
/* Unknown revision: ERROR_INVALID_REQUEST with field /workspace/revision. */
int workspace_git_feed(const struct workspace_git *git, struct workspace_sink *sink,
                       struct error *err) WARN_UNUSED;

#endif
