/* From a file or a directory to an image of the store. */
#include "host/native/images_internal.h"

#include "base/file.h"

#include <fcntl.h>
#include <string.h>

/* What one import works with. */
struct import {
    const struct native_image_job *job;
    struct native_image_source source;
    struct native_image_draft draft;
    struct native_image_tree tree;
    struct native_image_manifest manifest;
    struct native_image_config config;
    struct native_image_record record;
    struct buf config_text;
    int64_t stream_left; /* of all layers' tars */
};

/* A tar has headers beside what is in the files. */
enum { HEADER_BYTES = 2048 };

static void import_init(struct import *import, const struct native_image_job *job)
{
    *import = (struct import){
        .job = job,
        .source = {.dir_fd = -1, .tar_fd = -1},
        .draft = {.fd = -1, .root_fd = -1},
        .stream_left = job->limits.bytes + job->limits.entries * HEADER_BYTES,
    };
    buf_init(&import->config_text, NATIVE_IMAGE_DOCUMENT_MAX);
    native_image_tree_init(&import->tree, -1, &job->limits);
}

static void import_done(struct import *import)
{
    native_image_tree_done(&import->tree);
    native_image_draft_drop(import->job->store, &import->draft);
    native_image_source_done(&import->source);
    native_image_manifest_done(&import->manifest);
    native_image_config_done(&import->config);
    native_image_record_done(&import->record);
    buf_done(&import->config_text);
}

void native_image_digest(const struct buf *text, char out[DIGEST_TEXT_SIZE])
{
    struct digest *d = digest_new();

    digest_update(d, buf_str(text), text->len);
    digest_final(d, out);
    digest_free(d);
}

static int differs(struct error *err, const char *what)
{
    return error_set(err, ERROR_INVALID_REQUEST, "%s is not what its digest says", what);
}

/* --- layers --- */

/* Stops at what the job's owner does not want any more. */
struct guarded {
    struct import *import;
    struct native_image_member *member;
};

static ssize_t read_guarded(void *ctx, const void **data, struct error *err)
{
    struct guarded *g = ctx;

    if (cancel_fired(g->import->job->cancel)) {
        return error_set(err, ERROR_RUNTIME, "the import was interrupted");
    }
    return native_image_member_read(g->member, data, err);
}

static int feed_stream(struct import *import, struct native_image_stream *stream,
                       struct native_image_stream_facts *facts, struct error *err)
{
    const struct native_image_source_bytes bytes = {.read = native_image_stream_read,
                                                    .ctx = stream};

    native_image_tree_next_layer(&import->tree);
    if (native_image_layer_feed(bytes, &import->tree.sink, err) < 0) {
        return -1;
    }
    return native_image_stream_finish(stream, facts, err);
}

/* `name` NULL: the file itself is the layer. */
static int apply_layer(struct import *import, const char *name,
                       struct native_image_stream_facts *facts, struct error *err)
{
    struct guarded guarded = {.import = import};
    struct native_image_stream *stream = NULL;
    int result;

    if (native_image_member_open(&import->source, name, &guarded.member, err) < 0) {
        return -1;
    }
    result = native_image_stream_open(
        (struct native_image_source_bytes){.read = read_guarded, .ctx = &guarded},
        import->stream_left, &stream, err);
    result = result == 0 ? feed_stream(import, stream, facts, err) : result;
    native_image_stream_free(stream);
    native_image_member_free(guarded.member);
    return result;
}

/* Where the blob "sha256:HEX" lies. */
static void blob_path(const struct import *import, const struct native_image_blob *blob,
                      char out[128])
{
    (void)snprintf(out, 128, "%s%s",
                   import->source.kind == NATIVE_IMAGE_LAYOUT ? "blobs/sha256/" : "",
                   strchr(blob->digest, ':') + 1);
}

static int apply_blob(struct import *import, size_t i, struct error *err)
{
    const struct native_image_blob *layer = &import->manifest.layers[i];
    const char *diff_id = json_string_value(json_array_get(import->config.diff_ids, i));
    struct native_image_stream_facts facts = {0};
    char path[128];

    if (layer->member == NULL) {
        blob_path(import, layer, path);
    }
    if (apply_layer(import, layer->member != NULL ? layer->member : path, &facts, err) < 0) {
        return -1;
    }
    if (layer->digest[0] != '\0' &&
        (strcmp(layer->digest, facts.raw_digest) != 0 || layer->size != facts.raw_size)) {
        return differs(err, "a layer");
    }
    return strcmp(diff_id, facts.digest) == 0 ? 0 : differs(err, "a layer's content");
}

static int apply_layers(struct import *import, struct error *err)
{
    for (size_t i = 0; i < import->manifest.layer_count; i++) {
        if (apply_blob(import, i, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int begin_draft(struct import *import, struct error *err)
{
    if (native_image_draft_new(import->job->store, &import->draft, err) < 0) {
        return -1;
    }
    import->tree.root_fd = import->draft.root_fd;
    return 0;
}

/* --- documents --- */

/* A blob's text, held to its digest. */
static int read_blob(struct import *import, const struct native_image_blob *blob, struct buf *out,
                     struct error *err)
{
    char path[128];
    char digest[DIGEST_TEXT_SIZE];

    blob_path(import, blob, path);
    if (native_image_member_text(&import->source, path, out, err) < 0) {
        return -1;
    }
    native_image_digest(out, digest);
    return strcmp(digest, blob->digest) == 0 ? 0 : differs(err, "a document of the image");
}

/* From the index at the top to the manifest of this machine's image. */
static int find_manifest(struct import *import, struct error *err)
{
    enum { NESTED_MAX = 4 };
    struct native_image_blob blob = {.digest = ""};
    _cleanup_buf_ struct buf text;

    buf_init(&text, NATIVE_IMAGE_DOCUMENT_MAX);
    if (native_image_member_text(&import->source, "index.json", &text, err) < 0) {
        return -1;
    }
    for (int depth = 0; depth < NESTED_MAX; depth++) {
        int r = native_image_index_choose(buf_str(&text), text.len, &blob, err);

        if (r < 0) {
            return -1;
        }
        if (r == 0) {
            break;
        }
        if (read_blob(import, &blob, &text, err) < 0 ||
            native_image_record_add_digest(&import->record, blob.digest, err) < 0) {
            return -1;
        }
    }
    if (native_image_manifest_decode(buf_str(&text), text.len, &import->manifest, err) < 0) {
        return -1;
    }
    return read_blob(import, &import->manifest.config, &import->config_text, err);
}

/* A registry's own manifest beside its blobs. */
static int find_copied(struct import *import, struct error *err)
{
    _cleanup_buf_ struct buf text;
    char digest[DIGEST_TEXT_SIZE];

    buf_init(&text, NATIVE_IMAGE_DOCUMENT_MAX);
    if (native_image_member_text(&import->source, "manifest.json", &text, err) < 0 ||
        native_image_manifest_decode(buf_str(&text), text.len, &import->manifest, err) < 0) {
        return -1;
    }
    native_image_digest(&text, digest);
    if (native_image_record_add_digest(&import->record, digest, err) < 0) {
        return -1;
    }
    return read_blob(import, &import->manifest.config, &import->config_text, err);
}

/* A configuration is called by its digest: "HEX.json" or "blobs/sha256/HEX". */
static int check_name(const char *member, const char *digest, struct error *err)
{
    const char *slash = strrchr(member, '/');
    const char *base = slash != NULL ? slash + 1 : member;
    size_t len = strspn(base, "0123456789abcdef");

    if (len == 64 && strncmp(base, strchr(digest, ':') + 1, len) != 0) {
        return differs(err, "the image's configuration");
    }
    return 0;
}

static int find_saved(struct import *import, struct error *err)
{
    _cleanup_buf_ struct buf text;
    char digest[DIGEST_TEXT_SIZE];

    buf_init(&text, NATIVE_IMAGE_DOCUMENT_MAX);
    if (native_image_member_text(&import->source, "manifest.json", &text, err) < 0 ||
        native_image_manifest_decode_saved(buf_str(&text), text.len, &import->manifest, err) < 0 ||
        native_image_member_text(&import->source, import->manifest.config.member,
                                 &import->config_text, err) < 0) {
        return -1;
    }
    native_image_digest(&import->config_text, digest);
    return check_name(import->manifest.config.member, digest, err);
}

static int read_documents(struct import *import, struct error *err)
{
    int result;

    switch (import->source.kind) {
    case NATIVE_IMAGE_LAYOUT: result = find_manifest(import, err); break;
    case NATIVE_IMAGE_COPIED: result = find_copied(import, err); break;
    default: result = find_saved(import, err); break;
    }
    if (result < 0 ||
        native_image_config_decode(buf_str(&import->config_text), import->config_text.len,
                                   &import->config, err) < 0) {
        return -1;
    }
    if (json_array_size(import->config.diff_ids) != import->manifest.layer_count) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "the image's manifest and configuration have not the same layers");
    }
    return 0;
}

/* The id, what other digests were found on the way, and the name it gets. */
static int make_record(struct import *import, struct error *err)
{
    char id[DIGEST_TEXT_SIZE];
    struct native_image_record others = import->record;
    const char *digest = import->job->digest;
    int result;

    native_image_digest(&import->config_text, id);
    import->record = (struct native_image_record){0};
    if (native_image_record_init(&import->record, id, err) < 0) {
        native_image_record_done(&others);
        return -1;
    }
    result = native_image_record_merge(&import->record, &others, err);
    native_image_record_done(&others);
    if (result < 0 ||
        (digest != NULL && native_image_record_add_digest(&import->record, digest, err) < 0)) {
        return -1;
    }
    return native_image_record_add_reference(&import->record, import->job->name,
                                             digest != NULL ? digest : id, err);
}

/* --- kinds --- */

static int publish(struct import *import, struct error *err)
{
    import->record.size_bytes = import->tree.bytes;
    if (native_image_tree_finish(&import->tree, err) < 0) {
        return -1;
    }
    return native_image_draft_publish(import->job->store, &import->draft, &import->record,
                                      &import->config_text, err);
}

static int import_described(struct import *import, struct error *err)
{
    int known;

    if (read_documents(import, err) < 0 || make_record(import, err) < 0) {
        return -1;
    }
    known = native_image_store_extend(import->job->store, &import->record, err);
    if (known != 0) {
        return known < 0 ? -1 : 0;
    }
    return begin_draft(import, err) < 0 || apply_layers(import, err) < 0 ? -1
                                                                         : publish(import, err);
}

static int import_rootfs(struct import *import, struct error *err)
{
    struct native_image_stream_facts facts = {0};

    if (begin_draft(import, err) < 0 || apply_layer(import, NULL, &facts, err) < 0 ||
        native_image_config_make(facts.digest, &import->config_text, err) < 0 ||
        make_record(import, err) < 0) {
        return -1;
    }
    return publish(import, err);
}

int native_image_import(const struct native_image_job *job, const char *file,
                        struct native_image_record *out, struct error *err)
{
    struct import import;
    int result;

    import_init(&import, job);
    result =
        native_image_source_open(file, job->store->new_fd, import.stream_left, &import.source, err);
    if (result == 0) {
        import.record =
            (struct native_image_record){.digests = json_array(), .references = json_array()};
        result = import.source.kind == NATIVE_IMAGE_ROOTFS ? import_rootfs(&import, err)
                                                           : import_described(&import, err);
    }
    if (result == 0) {
        *out = import.record;
        import.record = (struct native_image_record){0};
    }
    import_done(&import);
    return result;
}
