/* Finds what makes up a repository and that none of it leads outside of the root: `.git` (directory
 * or file), the common directory of a worktree, object directories and their alternates. Reads
 * files only, starts nothing. Any thread; blocks on files. All errors are ERROR_INVALID_REQUEST
 * with field /workspace/repositoryPath, but for memory. */
#ifndef EXECHOST_WORKSPACE_GITDIR_H
#define EXECHOST_WORKSPACE_GITDIR_H

#include "base/error.h"

enum { WORKSPACE_GITDIR_OBJECTS_MAX = 64 };

struct workspace_gitdir {
    char *root;                                  /* real paths, owned */
    char *git_dir;                               /* where HEAD is */
    char *objects[WORKSPACE_GITDIR_OBJECTS_MAX]; /* the repository's own first, then alternates */
    size_t object_count;
};

#define _cleanup_gitdir_ _cleanup_(workspace_gitdir_done)

/* `g` is zeroed; on failure too the caller calls workspace_gitdir_done. */
int workspace_gitdir_find(struct workspace_gitdir *g, const char *path, const char *root,
                          struct error *err) WARN_UNUSED;
void workspace_gitdir_done(struct workspace_gitdir *g);

#endif
