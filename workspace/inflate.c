#include "workspace/inflate.h"

#include "workspace/path.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE = 64 * 1024 };

struct workspace_inflate {
    int fd;
    struct cancel *cancel;
    int64_t at;
    bool begun;
    bool failed; /* `err` is set by our own read function */
    struct error *err;
    struct archive *archive;
    char piece[PIECE];
};

static la_ssize_t read_file(struct archive *a, void *ctx, const void **data)
{
    struct workspace_inflate *i = ctx;
    ssize_t n;
    do {
        n = pread(i->fd, i->piece, sizeof(i->piece), i->at);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        i->failed = true;
        archive_set_error(a, EIO, "reading failed");
        return error_set_errno(i->err, ERROR_INTERNAL, errno, "reading what was sent");
    }
    i->at += n;
    *data = i->piece;
    return n;
}

int workspace_inflate_new(int fd, struct cancel *cancel, struct workspace_inflate **out,
                          struct error *err)
{
    struct workspace_inflate *i = calloc(1, sizeof(*i));
    struct archive *archive = archive_read_new();
    if (i == NULL || archive == NULL) {
        free(i);
        archive_read_free(archive);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    i->fd = fd;
    i->cancel = cancel;
    i->archive = archive;
    *out = i;
    return 0;
}

void workspace_inflate_free(struct workspace_inflate *i)
{
    if (i != NULL) {
        archive_read_free(i->archive);
        free(i);
    }
}

static int fault(struct workspace_inflate *i, struct error *err)
{
    if (i->failed) {
        return -1;
    }
    const char *why = archive_error_string(i->archive);
    return error_set(err, ERROR_INVALID_REQUEST, "the archive can't be read: %s",
                     why != NULL ? workspace_path_show(why).text : "it is empty or damaged");
}

/* The library's "raw" format is whatever is left once the filters are off. */
static int begin(struct workspace_inflate *i, struct error *err)
{
    struct archive_entry *entry;
    archive_read_support_filter_gzip(i->archive);
    archive_read_support_filter_zstd(i->archive);
    archive_read_support_format_raw(i->archive);
    if (archive_read_open(i->archive, i, NULL, read_file, NULL) != ARCHIVE_OK ||
        archive_read_next_header(i->archive, &entry) != ARCHIVE_OK) {
        return fault(i, err);
    }
    i->begun = true;
    return 0;
}

ssize_t workspace_inflate_read(void *inflate, const void **data, struct error *err)
{
    struct workspace_inflate *i = inflate;
    size_t len = 0;
    la_int64_t offset;
    if (cancel_fired(i->cancel)) {
        return error_set(err, ERROR_RUNTIME, "reading the archive was interrupted");
    }
    i->err = err;
    if (!i->begun && begin(i, err) != 0) {
        return -1;
    }
    while (len == 0) {
        int r = archive_read_data_block(i->archive, data, &len, &offset);
        if (r == ARCHIVE_EOF) {
            return 0;
        }
        if (r != ARCHIVE_OK) {
            return fault(i, err);
        }
    }
    return (ssize_t)len;
}
