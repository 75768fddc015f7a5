/* What a call for files does, on a worker: the host's work, and what is kept of it for the answer.
 */
#include "base/clock.h"
#include "host/files.h"
#include "server/http/range.h"
#include "server/services/files_private.h"
#include "workspace/archive.h"
#include "workspace/inflate.h"
#include "workspace/tar.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t APPARENT_BYTES_MIN = 64LL * 1024 * 1024;

static struct host_files files_of(struct file_call *call)
{
    struct live_execution *x = call->execution;
    return (struct host_files){
        .host = x->host->host,
        .id = {x->tenant, x->execution_id, x->incarnation},
        .handle = x->handle,
        .memory_bytes = x->limits.memory_bytes,
        .deadline_mono_ms = clock_mono_ms() + x->service->config->file_timeout_ms,
        .cancel = call->cancel,
    };
}

/* So much may the files of an archive pretend to hold. */
static int64_t apparent_bytes_max(const struct file_call *call)
{
    int64_t four = call->execution->limits.disk_bytes * 4;
    return four > APPARENT_BYTES_MIN ? four : APPARENT_BYTES_MIN;
}

/* A nameless file for what the answer will hold. */
static int scratch_open(const struct file_call *call, int *fd, struct error *err)
{
    *fd = open(call->execution->service->scratch, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return *fd < 0 ? error_set_errno(err, ERROR_INTERNAL, errno, "keeping the answer") : 0;
}

/* --- list --- */

static const char *type_name(enum workspace_entry_type type)
{
    switch (type) {
    case WORKSPACE_DIRECTORY: return "directory";
    case WORKSPACE_FILE: return "file";
    case WORKSPACE_SYMLINK: return "symlink";
    default: return "special";
    }
}

static int add_item(void *ctx, const struct workspace_entry *entry, struct error *err)
{
    struct file_call *call = ctx;
    _cleanup_free_ char *path = NULL;
    if (asprintf(&path, "%s%s%s", call->path, call->path[0] == '\0' ? "" : "/", entry->path) < 0) {
        path = NULL;
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    const struct api_file view = {
        .path = path,
        .type = type_name(entry->type),
        .target = entry->target,
        .size = entry->size,
        .mode = entry->mode,
        .mtime_ms = entry->mtime_ns / 1000000,
    };
    json_t *item = api_file_encode(&view);
    if (item == NULL || json_array_append_new(call->result.items, item) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

static int work_list(struct file_call *call, const struct host_files *files, struct error *err)
{
    call->result.items = json_array();
    return host_files_list(files, call->path, add_item, call, err);
}

/* --- read and write --- */

static int choose(void *ctx, int64_t size, struct host_files_range *range, struct error *err)
{
    struct file_call *call = ctx;
    struct file_result *result = &call->result;
    result->file_size = size;
    result->length = size;
    if (call->range == NULL) {
        return 0;
    }
    switch (range_parse(call->range, size, &result->first, &result->length)) {
    case RANGE_OUTSIDE:
        return error_set_field(err, ERROR_RANGE_NOT_SATISFIABLE, "Range",
                               "the content has %lld bytes", (long long)size);
    case RANGE_PART:
        result->part = true;
        range->offset = result->first;
        range->len = result->length;
        break;
    case RANGE_NONE: break;
    }
    return 0;
}

static int work_read(struct file_call *call, const struct host_files *files, struct error *err)
{
    if (scratch_open(call, &call->result.fd, err) != 0) {
        return -1;
    }
    const struct host_files_reader reader = {.choose = choose, .ctx = call, .fd = call->result.fd};
    return host_files_read(files, call->path, &reader, err);
}

static int work_write(struct file_call *call, const struct host_files *files, struct error *err)
{
    const struct host_files_content content = {
        .fd = call->body_fd, .size = call->body_size, .mode = call->mode};
    return host_files_write(files, call->path, &content, err);
}

/* --- archives --- */

/* The per-file list that a checkpoint's archive has beside it is thrown away. */
static int pack_into(struct file_call *call, const struct host_files *files, int list_fd,
                     struct error *err)
{
    const struct workspace_writer_spec spec = {
        .archive_fd = call->result.fd,
        .files_fd = list_fd,
        .compression = WORKSPACE_COMPRESSION_NONE,
        .apparent_bytes_max = apparent_bytes_max(call),
    };
    struct workspace_writer *writer = NULL;
    struct workspace_archive_facts facts;
    if (workspace_writer_new(&spec, &writer, err) != 0) {
        return -1;
    }
    int result = host_files_pack(files, call->path, workspace_writer_sink(writer), err);
    if (result == 0) {
        result = workspace_writer_finish(writer, &facts, err);
    }
    workspace_writer_free(writer);
    if (result == 0) {
        call->result.file_size = facts.archive_bytes;
        call->result.length = facts.archive_bytes;
    }
    return result;
}

static int work_pack(struct file_call *call, const struct host_files *files, struct error *err)
{
    int list_fd = -1;
    if (scratch_open(call, &call->result.fd, err) != 0 || scratch_open(call, &list_fd, err) != 0) {
        return -1;
    }
    int result = pack_into(call, files, list_fd, err);
    close(list_fd);
    return result;
}

static int feed_body(void *ctx, struct workspace_sink *sink, struct error *err)
{
    struct file_call *call = ctx;
    struct workspace_inflate *inflate = NULL;
    if (workspace_inflate_new(call->body_fd, call->cancel, &inflate, err) != 0) {
        return -1;
    }
    const struct workspace_tar_source source = {
        .read = workspace_inflate_read,
        .ctx = inflate,
        .apparent_bytes_max = apparent_bytes_max(call),
        .loose = true,
        .fault = ERROR_INVALID_REQUEST,
    };
    int result = workspace_tar_feed(&source, sink, err);
    workspace_inflate_free(inflate);
    return result;
}

static int work_unpack(struct file_call *call, const struct host_files *files, struct error *err)
{
    return host_files_unpack(files, call->path, feed_body, call, err);
}

int file_call_work(struct file_call *call, struct error *err)
{
    static int (*const work[])(struct file_call *, const struct host_files *, struct error *) = {
        [FILE_LIST] = work_list, [FILE_READ] = work_read,     [FILE_WRITE] = work_write,
        [FILE_PACK] = work_pack, [FILE_UNPACK] = work_unpack,
    };
    const struct host_files files = files_of(call);
    if (call->kind == FILE_REMOVE) {
        return host_files_remove(&files, call->path, call->recursive, err);
    }
    return work[call->kind](call, &files, err);
}
