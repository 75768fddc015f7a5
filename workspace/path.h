/* What a name inside a workspace may look like, the order of an archive, and names for people.
 * Pure; any thread. */
#ifndef EXECHOST_WORKSPACE_PATH_H
#define EXECHOST_WORKSPACE_PATH_H

#include "base/macros.h"

/* NULL when `path` is a name that entry.h allows, otherwise what is wrong with it (static text). */
const char *workspace_path_fault(const char *path);

/* Archive order: a directory before what is in it, names of one directory bytewise. As strcmp. */
int workspace_path_compare(const char *a, const char *b);

enum { WORKSPACE_PATH_TEXT_SIZE = 200 };
struct workspace_path_text {
    char text[WORKSPACE_PATH_TEXT_SIZE];
};
/* Printable ASCII for error details: other bytes as \xNN, long names cut. */
struct workspace_path_text workspace_path_show(const char *path);

#endif
