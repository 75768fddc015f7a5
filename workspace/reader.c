#include "workspace/archive.h"

#include "workspace/blocks.h"
#include "workspace/hashing.h"
#include "workspace/list.h"
#include "workspace/path.h"
#include "workspace/stream.h"
#include "workspace/tar.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct workspace_reader {
    int archive_fd;
    int files_fd;
    struct workspace_archive_facts facts;
};

/* One pass: stands between the tar stream and the caller's sink and holds every entry to the list.
 */
struct check {
    struct workspace_sink sink;
    const struct workspace_archive_facts *facts;
    struct workspace_sink *next; /* or NULL */
    struct cancel *cancel;
    struct workspace_input *archive;
    struct workspace_input *files;
    const char *list; /* what of the list is decompressed and not compared yet */
    size_t list_len;
    struct digest *list_digest;
    struct workspace_hashing hashing;
    struct buf line;
    int64_t entries;
    int64_t content_bytes;
    int64_t apparent_bytes;
    struct workspace_entry entry; /* the current one; strings are those of the tar feed */
    char last[WORKSPACE_PATH_MAX + 1];
};

int workspace_reader_new(int archive_fd, int files_fd, const struct workspace_archive_facts *facts,
                         struct workspace_reader **out, struct error *err)
{
    struct stat st;
    if (fstat(archive_fd, &st) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "looking at the archive");
    }
    if (st.st_size != facts->archive_bytes) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "the archive has %lld bytes, the manifest says %lld",
                         (long long)st.st_size, (long long)facts->archive_bytes);
    }
    struct workspace_reader *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    r->archive_fd = archive_fd;
    r->files_fd = files_fd;
    r->facts = *facts;
    *out = r;
    return 0;
}

void workspace_reader_free(struct workspace_reader *r)
{
    free(r);
}

const struct workspace_archive_facts *workspace_reader_facts(const struct workspace_reader *r)
{
    return &r->facts;
}

static int invalid_entry(const struct check *c, const char *what, struct error *err)
{
    return error_set(err, ERROR_CHECKPOINT_INVALID, "%s: %s",
                     workspace_path_show(c->entry.path).text, what);
}

static int check_begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                       struct error *err)
{
    struct check *c = (struct check *)sink;
    c->entry = *entry;
    if (entry->type == WORKSPACE_SPECIAL) {
        return invalid_entry(c, "a special file in the archive", err);
    }
    if ((entry->mode & 06000) != 0) {
        return invalid_entry(c, "setuid or setgid in the archive", err);
    }
    if (c->last[0] != '\0' && workspace_path_compare(c->last, entry->path) >= 0) {
        return invalid_entry(c, "not in archive order", err);
    }
    memcpy(c->last, entry->path, strlen(entry->path) + 1);
    c->entries++;
    if (c->entries > c->facts->entries) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "the archive has more entries than the manifest's %lld",
                         (long long)c->facts->entries);
    }
    if (entry->type == WORKSPACE_FILE) {
        int64_t max = c->facts->apparent_bytes_max;
        if (max > 0 && entry->size > max - c->apparent_bytes) {
            return error_set(err, ERROR_CHECKPOINT_INVALID,
                             "the archive's files are together larger than %lld bytes",
                             (long long)max);
        }
        c->apparent_bytes += entry->size;
        workspace_hashing_begin(&c->hashing);
    }
    return c->next != NULL ? c->next->ops->begin(c->next, entry, err) : 0;
}

static int check_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                      struct error *err)
{
    struct check *c = (struct check *)sink;
    workspace_hashing_add(&c->hashing, offset, data, len);
    c->content_bytes += workspace_blocks_count(len) * WORKSPACE_BLOCK;
    if (c->content_bytes > c->facts->content_bytes) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "the archive has more content than the manifest's %lld bytes",
                         (long long)c->facts->content_bytes);
    }
    return c->next != NULL ? c->next->ops->data(c->next, offset, data, len, err) : 0;
}

/* More of the list; 0 at its end. */
static ssize_t list_fill(struct check *c, struct error *err)
{
    const void *data;
    ssize_t n = workspace_input_read(c->files, &data, err);
    if (n > 0) {
        digest_update(c->list_digest, data, (size_t)n);
        c->list = data;
        c->list_len = (size_t)n;
    }
    return n;
}

/* The list goes on with c->line. */
static int compare_line(struct check *c, struct error *err)
{
    const char *want = c->line.data;
    size_t left = c->line.len;
    while (left > 0) {
        if (c->list_len == 0) {
            ssize_t n = list_fill(c, err);
            if (n < 0) {
                return -1;
            }
            if (n == 0) {
                return invalid_entry(c, "not in the file list", err);
            }
        }
        size_t n = left < c->list_len ? left : c->list_len;
        if (memcmp(want, c->list, n) != 0) {
            return invalid_entry(c, "differs from the file list", err);
        }
        want += n;
        left -= n;
        c->list += n;
        c->list_len -= n;
    }
    return 0;
}

static int check_end(struct workspace_sink *sink, struct error *err)
{
    struct check *c = (struct check *)sink;
    char digest[DIGEST_TEXT_SIZE];
    bool is_file = c->entry.type == WORKSPACE_FILE;
    if (is_file) {
        workspace_hashing_end(&c->hashing, c->entry.size, digest);
    }
    buf_reset(&c->line);
    if (workspace_list_line(&c->line, &c->entry, is_file ? digest : NULL) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (compare_line(c, err) != 0) {
        return -1;
    }
    return c->next != NULL ? c->next->ops->end(c->next, err) : 0;
}

static const struct workspace_sink_ops check_ops = {.begin = check_begin,
                                                    .data = check_data,
                                                    .end = check_end};

static ssize_t read_archive(void *ctx, const void **data, struct error *err)
{
    struct check *c = ctx;
    if (cancel_fired(c->cancel)) {
        return error_set(err, ERROR_RUNTIME, "reading the archive was interrupted");
    }
    return workspace_input_read(c->archive, data, err);
}

static int check_digest(const char *what, const char *is, const char *wanted, struct error *err)
{
    if (strcmp(is, wanted) == 0) {
        return 0;
    }
    return error_set(err, ERROR_CHECKPOINT_INVALID, "the %s digest is %s, the manifest says %s",
                     what, is, wanted);
}

static int check_number(const char *what, int64_t is, int64_t wanted, struct error *err)
{
    if (is == wanted) {
        return 0;
    }
    return error_set(err, ERROR_CHECKPOINT_INVALID, "%s: %lld, the manifest says %lld", what,
                     (long long)is, (long long)wanted);
}

/* What is only known at the end. */
static int check_totals(struct check *c, struct error *err)
{
    char digest[DIGEST_TEXT_SIZE];
    int64_t stored;
    workspace_input_finish(c->archive, digest, &stored);
    if (check_digest("archive", digest, c->facts->archive_digest, err) != 0 ||
        check_number("archive bytes", stored, c->facts->archive_bytes, err) != 0 ||
        check_number("entries", c->entries, c->facts->entries, err) != 0 ||
        check_number("content bytes", c->content_bytes, c->facts->content_bytes, err) != 0) {
        return -1;
    }
    ssize_t more = c->list_len > 0 ? 1 : list_fill(c, err);
    if (more < 0) {
        return -1;
    }
    if (more > 0) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "the file list names more than the archive has");
    }
    digest_final(c->list_digest, digest);
    return check_digest("file list", digest, c->facts->files_digest, err);
}

static int check_run(struct check *c, const struct workspace_reader *r, struct error *err)
{
    if (workspace_input_new(r->archive_fd, r->facts.compression, "archive", &c->archive, err) !=
            0 ||
        workspace_input_new(r->files_fd, r->facts.compression, "file list", &c->files, err) != 0) {
        return -1;
    }
    struct workspace_tar_source source = {
        .read = read_archive,
        .ctx = c,
        .apparent_bytes_max = -1, /* check_begin has the bound and the code for it */
        .fault = ERROR_CHECKPOINT_INVALID,
    };
    return workspace_tar_feed(&source, &c->sink, err) == 0 ? check_totals(c, err) : -1;
}

int workspace_reader_run(struct workspace_reader *r, struct workspace_sink *sink,
                         struct cancel *cancel, struct error *err)
{
    struct check *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    c->sink.ops = &check_ops;
    c->facts = &r->facts;
    c->next = sink;
    c->cancel = cancel;
    c->list_digest = digest_new();
    buf_init(&c->line, WORKSPACE_LIST_LINE_MAX);
    int result = check_run(c, r, err);
    workspace_input_free(c->archive);
    workspace_input_free(c->files);
    digest_free(c->list_digest);
    workspace_hashing_done(&c->hashing);
    buf_done(&c->line);
    free(c);
    return result;
}
