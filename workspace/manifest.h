/* A checkpoint's manifest, version 1: encode and strict decode. Any thread, each its own object.
 * Shape: checkpoint page "What one is". */
#ifndef EXECHOST_WORKSPACE_MANIFEST_H
#define EXECHOST_WORKSPACE_MANIFEST_H

#include "base/buf.h"
#include "base/id.h"
#include "workspace/archive.h"

#include <jansson.h>

enum { WORKSPACE_MANIFEST_VERSION = 1, WORKSPACE_MANIFEST_MAX = 16 * 1024 * 1024 };

struct workspace_manifest_resources {
    double cpus;
    int64_t memory_bytes;
    int64_t disk_bytes;
    int64_t pids;
    int64_t runtime_ms;
    int64_t max_output_bytes;
};

struct workspace_manifest {
    char checkpoint_id[ID_SIZE];
    char source_execution_id[ID_SIZE];
    int64_t source_incarnation; /* ≥ 1 */
    int64_t created_at;         /* wall clock, ms; on the wire RFC 3339 with milliseconds */
    char *image;                /* owned; the reference as asked */
    json_t *image_digests;      /* owned array: every digest that names the image */
    struct workspace_manifest_resources resources;
    json_t *network;     /* owned object */
    json_t *environment; /* owned object of strings: the execution's */
    json_t *metadata;    /* owned object: the checkpoint's own */
    /* Archive, file list and counts; apparent_bytes_max is not part of a manifest and 0 here. */
    struct workspace_archive_facts facts;
};

#define _cleanup_manifest_ _cleanup_(workspace_manifest_done)

void workspace_manifest_init(struct workspace_manifest *m); /* all empty */
void workspace_manifest_done(struct workspace_manifest *m);

/* Appends one compact JSON object without a newline: keys in the order of this page, the same bytes
 * for the same manifest. ERROR_INTERNAL when the cap is passed or a member is missing. */
int workspace_manifest_encode(const struct workspace_manifest *m, struct buf *out,
                              struct error *err) WARN_UNUSED;

/* `m` is initialised and empty, and stays so on failure. ERROR_CHECKPOINT_INVALID names the key:
 * one that is unknown, missing or of a wrong type, another version, a digest that is none. */
int workspace_manifest_decode(struct workspace_manifest *m, const char *text, size_t len,
                              struct error *err) WARN_UNUSED;

#endif
