/* What the files of the image store share; nobody else includes it. */
#ifndef EXECHOST_HOST_NATIVE_IMAGES_INTERNAL_H
#define EXECHOST_HOST_NATIVE_IMAGES_INTERNAL_H

#include "base/buf.h"
#include "base/digest.h"
#include "base/id.h"
#include "host/native/images.h"
#include "workspace/entry.h"
#include "workspace/names.h"

#include <jansson.h>
#include <sys/types.h>

enum {
    NATIVE_IMAGE_DOCUMENT_MAX = 4 * 1024 * 1024, /* configuration, manifest, index */
    NATIVE_IMAGE_LAYERS_MAX = 256,
    NATIVE_IMAGE_DEPTH_MAX = 256, /* components of a name */
};

static inline void native_json_done(json_t **json)
{
    json_decref(*json);
}
#define _cleanup_native_json_ _cleanup_(native_json_done)

/* --- image_config.c: the configuration. Pure --- */

struct native_image_config {
    json_t *root; /* owned; the strings below are borrowed from it */
    const char *os;
    const char *architecture;
    const json_t *environment; /* array of texts, or NULL */
    const char *volume;        /* the first that is declared, or NULL */
    const json_t *diff_ids;    /* array of digests */
};

/* Somebody else's document: unknown members are fine. ERROR_INVALID_REQUEST. */
int native_image_config_decode(const char *text, size_t len, struct native_image_config *out,
                               struct error *err) WARN_UNUSED;
void native_image_config_done(struct native_image_config *config);
/* Refuses what has no place in an execution on this kind of machine. */
int native_image_config_fit(const struct native_image_config *config,
                            struct error *err) WARN_UNUSED;
/* NULL-ended "NAME=VALUE"; returns owned, NULL when memory is out. */
char **native_image_config_environment(const struct native_image_config *config);
void native_image_environment_free(char **environment);
/* The configuration of a root file system that came without one. */
int native_image_config_make(const char *diff_id, struct buf *out, struct error *err) WARN_UNUSED;
/* "amd64", "arm64": what this machine is called in images; static. */
const char *native_image_machine(void);

/* --- image_manifest.c: what leads to the configuration and the layers. Pure --- */

struct native_image_blob {
    char digest[DIGEST_TEXT_SIZE]; /* "" where the document does not tell */
    int64_t size;                  /* -1 where it does not tell */
    char *member;                  /* owned; where it lies in a `docker save` archive, or NULL */
};

struct native_image_manifest {
    struct native_image_blob config;
    struct native_image_blob *layers; /* owned */
    size_t layer_count;
};

void native_image_manifest_done(struct native_image_manifest *m);
/* An image manifest of OCI or of Docker's registry. ERROR_INVALID_REQUEST. */
int native_image_manifest_decode(const char *text, size_t len, struct native_image_manifest *out,
                                 struct error *err) WARN_UNUSED;
/* manifest.json of `docker save`, which must hold one image. */
int native_image_manifest_decode_saved(const char *text, size_t len,
                                       struct native_image_manifest *out,
                                       struct error *err) WARN_UNUSED;
/* 1: an index; `*out` is the one entry for this machine (which may be an index again).
 * 0: no index. */
int native_image_index_choose(const char *text, size_t len, struct native_image_blob *out,
                              struct error *err) WARN_UNUSED;

/* --- image_stream.c: bytes, unpacked and counted on their way --- */

/* Next bytes: > 0 with *data set (borrowed until the next call), 0 at the end, -1 with `err`. */
typedef ssize_t (*native_image_read_fn)(void *ctx, const void **data, struct error *err);

struct native_image_source_bytes {
    native_image_read_fn read;
    void *ctx;
};

struct native_image_stream;

struct native_image_stream_facts {
    char raw_digest[DIGEST_TEXT_SIZE]; /* of what came */
    int64_t raw_size;
    char digest[DIGEST_TEXT_SIZE]; /* of what it unpacked to */
};

/* Unpacks gzip, zstd, xz or bzip2, one layer of it; anything else goes through as it is. More than
 * `max` bytes unpacked: ERROR_INVALID_REQUEST. */
int native_image_stream_open(struct native_image_source_bytes source, int64_t max,
                             struct native_image_stream **out, struct error *err) WARN_UNUSED;
/* A native_image_read_fn; `stream` is the context. */
ssize_t native_image_stream_read(void *stream, const void **data, struct error *err);
/* Reads both ends to their end. */
int native_image_stream_finish(struct native_image_stream *stream,
                               struct native_image_stream_facts *out,
                               struct error *err) WARN_UNUSED;
void native_image_stream_free(struct native_image_stream *stream);
bool native_image_is_packed(const void *head, size_t len);

/* --- image_source.c: the file or directory that is imported --- */

enum native_image_kind {
    NATIVE_IMAGE_ROOTFS,
    NATIVE_IMAGE_SAVED,
    NATIVE_IMAGE_LAYOUT,
    NATIVE_IMAGE_COPIED, /* a registry's manifest and blobs in one directory ("skopeo copy … dir:")
                          */
};

struct native_image_source {
    int dir_fd; /* a layout as directory; owned, or -1 */
    int tar_fd; /* a plain tar; owned, or -1 */
    enum native_image_kind kind;
};

/* A compressed file is unpacked into a nameless one in `scratch_fd` (a directory, borrowed). */
int native_image_source_open(const char *path, int scratch_fd, int64_t max,
                             struct native_image_source *out, struct error *err) WARN_UNUSED;
void native_image_source_done(struct native_image_source *source);

struct native_image_member;
/* The whole tar when `name` is NULL. One at a time. */
int native_image_member_open(const struct native_image_source *source, const char *name,
                             struct native_image_member **out, struct error *err) WARN_UNUSED;
void native_image_member_free(struct native_image_member *member);
ssize_t native_image_member_read(void *member, const void **data, struct error *err);
/* A document, whole. */
int native_image_member_text(const struct native_image_source *source, const char *name,
                             struct buf *out, struct error *err) WARN_UNUSED;

/* --- image_tree.c: the root file system that layers make --- */

struct native_image_tree {
    struct workspace_sink sink; /* entries whose names are whiteouts remove what lower layers had */
    int root_fd;                /* borrowed */
    int64_t bytes_left;
    int64_t entries_left;
    int64_t bytes;                /* apparent, of all files that came */
    struct workspace_names names; /* of the layer under way */
    int file_fd;                  /* of the entry under way, or -1 */
    int64_t file_size;
    unsigned file_mode;
    int64_t file_mtime_ns;
};

void native_image_tree_init(struct native_image_tree *tree, int root_fd,
                            const struct native_images_limits *limits);
void native_image_tree_done(struct native_image_tree *tree);
/* What comes from now on lies over what came before. */
void native_image_tree_next_layer(struct native_image_tree *tree);
/* After the last layer: makes what an execution needs and nobody can make later, since the root is
 * read-only then: directories to mount upon, /etc/hosts. */
int native_image_tree_finish(const struct native_image_tree *tree, struct error *err) WARN_UNUSED;

/* --- image_layer.c: a layer's tar into a sink --- */

/* Reads `source` to its end. Refuses names that lead out; the sink refuses the rest. */
int native_image_layer_feed(struct native_image_source_bytes source, struct workspace_sink *sink,
                            struct error *err) WARN_UNUSED;

/* --- image_record.c: image.json --- */

struct native_image_record {
    json_t *digests;    /* array of texts, the id first; owned */
    json_t *references; /* array of {"reference", "namedAtMs"}, the oldest first; owned */
    int64_t size_bytes;
};

void native_image_record_done(struct native_image_record *record);
int native_image_record_init(struct native_image_record *record, const char *id,
                             struct error *err) WARN_UNUSED;
int native_image_record_decode(const char *text, size_t len, struct native_image_record *out,
                               struct error *err) WARN_UNUSED;
int native_image_record_encode(const struct native_image_record *record, struct buf *out,
                               struct error *err) WARN_UNUSED;
const char *native_image_record_id(const struct native_image_record *record);
/* Both are fine when it is there already. */
int native_image_record_add_digest(struct native_image_record *record, const char *digest,
                                   struct error *err) WARN_UNUSED;
int native_image_record_add_reference(struct native_image_record *record, const char *name,
                                      const char *digest, struct error *err) WARN_UNUSED;
/* When it got this name; -1: it is not called so. By digest alone for "NAME@sha256:…". */
int64_t native_image_record_match(const struct native_image_record *record, const char *reference);
/* All that `from` knows more. */
int native_image_record_merge(struct native_image_record *to,
                              const struct native_image_record *from,
                              struct error *err) WARN_UNUSED;
int native_image_record_describe(const struct native_image_record *record, struct host_image *out,
                                 struct error *err) WARN_UNUSED;

/* --- image_store.c: the directory --- */

struct native_image_store {
    char *directory;
    int dir_fd;
    int new_fd; /* new/ */
};

int native_image_store_open(const char *directory, struct native_image_store *out,
                            struct error *err) WARN_UNUSED;
void native_image_store_done(struct native_image_store *store);

/* An image that is being unpacked. */
struct native_image_draft {
    char name[ID_SIZE];
    int fd;      /* new/NAME, locked; owned */
    int root_fd; /* owned */
};

int native_image_draft_new(const struct native_image_store *store, struct native_image_draft *out,
                           struct error *err) WARN_UNUSED;
/* Removes what is left of it. */
void native_image_draft_drop(const struct native_image_store *store,
                             struct native_image_draft *draft);
/* Makes it the image, or, where that is there already, adds what `record` knows more. */
int native_image_draft_publish(const struct native_image_store *store,
                               struct native_image_draft *draft, struct native_image_record *record,
                               const struct buf *config, struct error *err) WARN_UNUSED;
/* Adds to an image that may be there: 1 done, 0 not there. `record` has all of it afterwards. */
int native_image_store_extend(const struct native_image_store *store,
                              struct native_image_record *record, struct error *err) WARN_UNUSED;
/* Calls `each` for every image; stops at the first that is not 0 and returns that. */
int native_image_store_scan(const struct native_image_store *store,
                            int (*each)(void *ctx, struct native_image_record *record,
                                        struct error *err),
                            void *ctx, struct error *err) WARN_UNUSED;
/* 1: found, `out` is owned; 0: none is called so. */
int native_image_store_find(const struct native_image_store *store, const char *reference,
                            struct native_image_record *out, struct error *err) WARN_UNUSED;
/* 1: `*fd` holds the image; 0: it is gone. */
int native_image_store_hold(const struct native_image_store *store, const char *id, int *fd,
                            struct error *err) WARN_UNUSED;
int native_image_store_config(int image_fd, struct buf *out, struct error *err) WARN_UNUSED;
/* 1: removed; 0: it was not there. ERROR_ID_IN_USE. */
int native_image_store_remove(const struct native_image_store *store, const char *id,
                              struct error *err) WARN_UNUSED;
/* Removes what nobody is at any more. */
int native_image_store_sweep(const struct native_image_store *store, struct error *err) WARN_UNUSED;

/* --- image_import.c, image_fetch.c --- */

struct native_image_job {
    const struct native_image_store *store;
    struct native_images_limits limits;
    const char *name;      /* of the reference it gets */
    const char *digest;    /* of that reference; NULL: the image's id */
    struct cancel *cancel; /* or NULL */
};

void native_image_digest(const struct buf *text, char out[DIGEST_TEXT_SIZE]);
/* A file or directory, see native_images_import(). */
int native_image_import(const struct native_image_job *job, const char *file,
                        struct native_image_record *out, struct error *err) WARN_UNUSED;
/* What a registry has, by skopeo. */
int native_image_fetch(const struct native_image_job *job, const char *reference,
                       struct native_image_record *out, struct error *err) WARN_UNUSED;

#endif
