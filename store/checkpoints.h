/* Rows of checkpoints and the two files each has. See store.h for threads and errors. */
#ifndef EXECHOST_STORE_CHECKPOINTS_H
#define EXECHOST_STORE_CHECKPOINTS_H

#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>

struct store_checkpoint {
    int64_t row;
    char *tenant;
    char *checkpoint_id; /* unique per tenant */
    char *source_execution_id;
    unsigned source_incarnation;
    int64_t created_at;
    char *manifest; /* the manifest's exact bytes */
    int64_t content_bytes, archive_bytes, entries, skipped;
    char *archive_digest;
    char *durability;     /* local, uploading, durable or failed */
    int64_t stored_at;    /* when it came here: made or imported */
    int64_t stored_bytes; /* of its three files */
    int64_t stored_max;   /* for the insert: most bytes that may be stored of the tenant, 0: any */
    char *shared_uri;     /* NULL: nobody asked to share it yet */
    char *shared_digest;  /* of its manifest */
    int64_t shared_at;    /* when it became durable, 0: it is not */
    int64_t shared_sent;  /* bytes, of … */
    int64_t shared_bytes; /* … so many */
    char *shared_error;   /* JSON: why the last attempt failed; NULL: it did not */
    int64_t claim;        /* for the insert: row of the idempotency key it is bound to, 0: none */
};

void store_checkpoint_done(struct store_checkpoint *c);

struct store_checkpoint_list {
    struct store_checkpoint *items;
    size_t count;
};
void store_checkpoint_list_done(struct store_checkpoint_list *list);

/* The last step of a checkpoint: its files are in place. ERROR_ID_IN_USE when the id is taken,
 * ERROR_QUOTA_EXCEEDED when the tenant would have more stored than `stored_max`. */
int store_checkpoint_insert(struct store *s, struct store_checkpoint *c,
                            struct error *err) WARN_UNUSED;
int store_checkpoint_get(struct store *s, const char *tenant, const char *checkpoint_id,
                         struct store_checkpoint *out, struct error *err) WARN_UNUSED;

struct store_checkpoint_filter {
    const char *tenant; /* NULL: all */
    const char *source_execution_id;
    const char *durability;
};
int store_checkpoint_list(struct store *s, const struct store_checkpoint_filter *filter,
                          const struct store_page *page, struct store_checkpoint_list *out,
                          struct error *err) WARN_UNUSED;
/* How far sharing it has come. Borrows. ERROR_CHECKPOINT_NOT_FOUND. */
struct store_checkpoint_shared {
    const char *durability;
    const char *uri;
    const char *digest;
    int64_t at;
    int64_t sent;
    int64_t bytes;
    const char *error;
};
int store_checkpoint_set_shared(struct store *s, const char *tenant, const char *checkpoint_id,
                                const struct store_checkpoint_shared *shared,
                                struct error *err) WARN_UNUSED;
/* The row goes first, then the caller removes the files. Not there: ERROR_CHECKPOINT_NOT_FOUND. */
int store_checkpoint_delete(struct store *s, const char *tenant, const char *checkpoint_id,
                            struct error *err) WARN_UNUSED;

/* --- files: <root>/<tenant>/<id>/{manifest.json, workspace.tar.zst | workspace.tar,
 * files.jsonl.zst | files.jsonl}; directory 0700, files 0600. They are written in
 * <root>/<tenant>/.new-<id>-<random>/, all fsynced, and the directory is renamed: a reader sees all
 * of it or nothing. Tenant and id must be identifiers. Fault points checkpoint.*. --- */

struct store_checkpoint_draft {
    int archive_fd;       /* owned; open for reading and writing */
    int files_fd;         /* owned */
    char *directory;      /* owned; the one beside */
    char *target;         /* owned; where it goes */
    int64_t stored_bytes; /* of all three files, once it is published */
};

/* `compressed` decides the names. */
int store_checkpoint_draft_open(const char *root, const char *tenant, const char *checkpoint_id,
                                bool compressed, struct store_checkpoint_draft *out,
                                struct error *err) WARN_UNUSED;
/* Writes the manifest, fsyncs all, renames, fsyncs the parent. ERROR_ID_IN_USE when the target is
 * there. */
int store_checkpoint_draft_publish(struct store_checkpoint_draft *draft, const char *manifest,
                                   struct error *err) WARN_UNUSED;
/* Removes what was not published; frees; may be called in every case. */
void store_checkpoint_draft_done(struct store_checkpoint_draft *draft);

struct store_checkpoint_files {
    int archive_fd; /* owned, read-only */
    int files_fd;
    int manifest_fd;
    char *manifest; /* owned; the file's bytes, at most 16 MiB */
};
/* A missing file is ERROR_CHECKPOINT_INVALID naming it. */
int store_checkpoint_files_open(const char *root, const char *tenant, const char *checkpoint_id,
                                bool compressed, struct store_checkpoint_files *out,
                                struct error *err) WARN_UNUSED;
void store_checkpoint_files_done(struct store_checkpoint_files *files);
int store_checkpoint_files_remove(const char *root, const char *tenant, const char *checkpoint_id,
                                  struct error *err) WARN_UNUSED;
/* At start: removes drafts, and published directories without a row (`has_row` decides). Counts
 * them. */
int store_checkpoint_files_sweep(const char *root,
                                 bool (*has_row)(void *ctx, const char *tenant, const char *id),
                                 void *ctx, int *removed, struct error *err) WARN_UNUSED;

#endif
