#include "workspace/archive.h"

#include "base/fault.h"
#include "workspace/blocks.h"
#include "workspace/content.h"
#include "workspace/hashing.h"
#include "workspace/list.h"
#include "workspace/path.h"
#include "workspace/pax.h"
#include "workspace/stream.h"

#include <string.h>

struct workspace_writer {
    struct workspace_sink sink;
    struct workspace_writer_spec spec;
    struct workspace_output *archive;
    struct workspace_output *files;
    struct digest *files_digest;
    struct workspace_archive_facts facts;
    int64_t apparent;
    struct workspace_entry entry; /* the current one; its strings are `path` and `target` */
    struct workspace_blocks blocks;
    struct workspace_content content;
    struct workspace_hashing hashing;
    struct buf text; /* headers and lines before they are written */
    char path[WORKSPACE_PATH_MAX + 1];
    char target[WORKSPACE_PATH_MAX + 1];
};

static int copy_names(struct workspace_writer *w, const struct workspace_entry *entry,
                      struct error *err)
{
    const char *what = workspace_path_fault(entry->path);
    if (what != NULL) {
        return error_set(err, ERROR_INTERNAL, "%s: %s", workspace_path_show(entry->path).text,
                         what);
    }
    if (w->path[0] != '\0' && workspace_path_compare(w->path, entry->path) >= 0) {
        return error_set(err, ERROR_INTERNAL, "%s: not in archive order",
                         workspace_path_show(entry->path).text);
    }
    memcpy(w->path, entry->path, strlen(entry->path) + 1);
    w->entry = *entry;
    w->entry.path = w->path;
    w->entry.mode &= 01777;
    if (entry->target != NULL) {
        size_t len = strlen(entry->target);
        if (len > WORKSPACE_PATH_MAX) {
            return error_set(err, ERROR_INTERNAL, "%s: target too long",
                             workspace_path_show(entry->path).text);
        }
        memcpy(w->target, entry->target, len + 1);
        w->entry.target = w->target;
    }
    return 0;
}

static int take_run(void *ctx, int64_t offset, const void *data, size_t len, struct error *err)
{
    struct workspace_writer *w = ctx;
    workspace_hashing_add(&w->hashing, offset, data, len);
    w->facts.content_bytes += workspace_blocks_count(len) * WORKSPACE_BLOCK;
    return workspace_content_add(&w->content, offset, data, len, err);
}

static int writer_begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                        struct error *err)
{
    struct workspace_writer *w = (struct workspace_writer *)sink;
    if (copy_names(w, entry, err) != 0) {
        return -1;
    }
    if (entry->type != WORKSPACE_FILE) {
        return 0;
    }
    if (entry->size < 0 || entry->size > w->spec.apparent_bytes_max - w->apparent) {
        return error_set(err, ERROR_RESOURCE_LIMIT,
                         "the workspace's files are together larger than %lld bytes",
                         (long long)w->spec.apparent_bytes_max);
    }
    w->apparent += entry->size;
    workspace_hashing_begin(&w->hashing);
    workspace_blocks_begin(&w->blocks, entry->size, take_run, w);
    return workspace_content_begin(&w->content, err);
}

static int writer_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                       struct error *err)
{
    struct workspace_writer *w = (struct workspace_writer *)sink;
    return workspace_blocks_add(&w->blocks, offset, data, len, err);
}

static int write_piece(void *ctx, const void *data, size_t len, struct error *err)
{
    struct workspace_writer *w = ctx;
    return workspace_output_write(w->archive, data, len, err);
}

static int write_archive(struct workspace_writer *w, struct error *err)
{
    static const char zeros[PAX_BLOCK];
    bool is_file = w->entry.type == WORKSPACE_FILE;
    struct workspace_pax_file file = {w->content.extents, w->content.extent_count};
    int64_t stored;
    buf_reset(&w->text);
    if (workspace_pax_header(&w->text, &w->entry, is_file ? &file : NULL, &stored) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (write_piece(w, w->text.data, w->text.len, err) != 0) {
        return -1;
    }
    if (!is_file) {
        return 0;
    }
    if (workspace_content_read(&w->content, write_piece, w, err) != 0) {
        return -1;
    }
    size_t over = (size_t)(stored % PAX_BLOCK);
    return over > 0 ? write_piece(w, zeros, PAX_BLOCK - over, err) : 0;
}

static int write_line(struct workspace_writer *w, const char *digest, struct error *err)
{
    buf_reset(&w->text);
    if (workspace_list_line(&w->text, &w->entry, digest) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    digest_update(w->files_digest, w->text.data, w->text.len);
    return workspace_output_write(w->files, w->text.data, w->text.len, err);
}

static int writer_end(struct workspace_sink *sink, struct error *err)
{
    struct workspace_writer *w = (struct workspace_writer *)sink;
    if (w->entry.type == WORKSPACE_SPECIAL) {
        w->facts.skipped++;
        return 0;
    }
    int injected = fault_point("workspace.writer.entry");
    if (injected != 0) {
        return error_set_errno(err, ERROR_INTERNAL, injected, "writing the archive");
    }
    char digest[DIGEST_TEXT_SIZE];
    bool is_file = w->entry.type == WORKSPACE_FILE;
    if (is_file) {
        if (workspace_blocks_end(&w->blocks, err) != 0) {
            return -1;
        }
        workspace_hashing_end(&w->hashing, w->entry.size, digest);
    }
    w->facts.entries++;
    return write_archive(w, err) == 0 ? write_line(w, is_file ? digest : NULL, err) : -1;
}

static void writer_skipped(struct workspace_sink *sink, int64_t count)
{
    struct workspace_writer *w = (struct workspace_writer *)sink;
    w->facts.skipped += count;
}

static const struct workspace_sink_ops writer_ops = {.begin = writer_begin,
                                                     .data = writer_data,
                                                     .end = writer_end,
                                                     .skipped = writer_skipped};

int workspace_writer_new(const struct workspace_writer_spec *spec, struct workspace_writer **out,
                         struct error *err)
{
    struct workspace_writer *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    w->sink.ops = &writer_ops;
    w->spec = *spec;
    w->facts.compression = spec->compression;
    w->files_digest = digest_new();
    buf_init(&w->text, PAX_HEADERS_MAX);
    workspace_content_init(&w->content, spec->archive_fd);
    if (workspace_output_new(spec->archive_fd, spec->compression, spec->level, &w->archive, err) !=
            0 ||
        workspace_output_new(spec->files_fd, spec->compression, spec->level, &w->files, err) != 0) {
        workspace_writer_free(w);
        return -1;
    }
    *out = w;
    return 0;
}

struct workspace_sink *workspace_writer_sink(struct workspace_writer *w)
{
    return &w->sink;
}

int workspace_writer_finish(struct workspace_writer *w, struct workspace_archive_facts *facts,
                            struct error *err)
{
    static const char end_mark[2 * PAX_BLOCK];
    char list_as_stored[DIGEST_TEXT_SIZE];
    int64_t list_bytes;
    if (workspace_output_write(w->archive, end_mark, sizeof(end_mark), err) != 0 ||
        workspace_output_finish(w->archive, w->facts.archive_digest, &w->facts.archive_bytes,
                                err) != 0 ||
        workspace_output_finish(w->files, list_as_stored, &list_bytes, err) != 0) {
        return -1;
    }
    digest_final(w->files_digest, w->facts.files_digest);
    *facts = w->facts;
    return 0;
}

void workspace_writer_free(struct workspace_writer *w)
{
    if (w != NULL) {
        workspace_output_free(w->archive);
        workspace_output_free(w->files);
        digest_free(w->files_digest);
        workspace_content_done(&w->content);
        workspace_hashing_done(&w->hashing);
        buf_done(&w->text);
        free(w);
    }
}
