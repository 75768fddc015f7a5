/* The per-file list: one JSON object a line, in archive order. There is exactly one text for an
 * entry, so a reader compares lines and parses none. Pure; any thread. */
#ifndef EXECHOST_WORKSPACE_LIST_H
#define EXECHOST_WORKSPACE_LIST_H

#include "base/buf.h"
#include "workspace/entry.h"

enum { WORKSPACE_LIST_LINE_MAX = 128 * 1024 };

/* Appends the line, newline included: path (pathBase64 when it is no UTF-8), type, mode, then size
 * and sha256 of a file or target (targetBase64) of a link. `digest` ("sha256:…") is for files, else
 * NULL. -1: cap or memory is out. */
int workspace_list_line(struct buf *out, const struct workspace_entry *entry,
                        const char *digest) WARN_UNUSED;

#endif
