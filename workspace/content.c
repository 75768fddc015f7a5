#include "workspace/content.h"

#include "base/fault.h"
#include "workspace/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

enum { PIECE = 256 * 1024 };

void workspace_content_init(struct workspace_content *c, int beside_fd)
{
    *c = (struct workspace_content){.beside_fd = beside_fd, .spool_fd = -1};
    buf_init(&c->memory, CONTENT_MEMORY);
}

void workspace_content_done(struct workspace_content *c)
{
    buf_done(&c->memory);
    free(c->extents);
    c->extents = NULL;
    if (c->spool_fd >= 0) {
        close(c->spool_fd);
        c->spool_fd = -1;
    }
}

int workspace_content_begin(struct workspace_content *c, struct error *err)
{
    buf_reset(&c->memory);
    c->extent_count = 0;
    c->gap_min = WORKSPACE_BLOCK;
    if (c->spooled && ftruncate(c->spool_fd, 0) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "emptying the spool file");
    }
    c->spooled = false;
    return 0;
}

/* Joins what lies closer together than the new, doubled gap. The map depends on the content alone,
 * not on when this happens. */
static void thin_out(struct workspace_content *c)
{
    c->gap_min *= 2;
    size_t kept = 0;
    for (size_t i = 1; i < c->extent_count; i++) {
        struct workspace_extent *last = &c->extents[kept];
        const struct workspace_extent *x = &c->extents[i];
        if (x->offset - (last->offset + last->len) < c->gap_min) {
            last->len = x->offset + x->len - last->offset;
        } else {
            c->extents[++kept] = *x;
        }
    }
    c->extent_count = kept + 1;
}

static int add_extent(struct workspace_content *c, int64_t offset, int64_t len)
{
    if (c->extent_count > 0) {
        struct workspace_extent *last = &c->extents[c->extent_count - 1];
        if (offset - (last->offset + last->len) < c->gap_min) {
            last->len = offset + len - last->offset;
            return 0;
        }
    }
    if (c->extent_count == c->extent_size) {
        size_t size = c->extent_size == 0 ? 64 : c->extent_size * 2;
        struct workspace_extent *grown = reallocarray(c->extents, size, sizeof(*grown));
        if (grown == NULL) {
            return -1;
        }
        c->extents = grown;
        c->extent_size = size;
    }
    c->extents[c->extent_count++] = (struct workspace_extent){offset, len};
    while (c->extent_count > CONTENT_EXTENTS_MAX) {
        thin_out(c);
    }
    return 0;
}

static int open_spool(struct workspace_content *c, struct error *err)
{
    char link[64];
    char path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", c->beside_fd);
    ssize_t n = readlink(link, path, sizeof(path) - sizeof("/.spool-XXXXXX"));
    if (n <= 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "finding the archive's directory");
    }
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return error_set(err, ERROR_INTERNAL, "the archive is in no directory");
    }
    memcpy(slash, "/.spool-XXXXXX", sizeof("/.spool-XXXXXX"));
    errno = fault_point("workspace.spool.create");
    c->spool_fd = errno == 0 ? mkostemp(path, O_CLOEXEC) : -1;
    if (c->spool_fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "making a spool file");
    }
    unlink(path);
    return 0;
}

static int spool_write(const struct workspace_content *c, int64_t offset, const char *data,
                       size_t len, struct error *err)
{
    while (len > 0) {
        ssize_t n = pwrite(c->spool_fd, data, len, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set_errno(err, ERROR_INTERNAL, errno, "writing the spool file");
        }
        data += n;
        offset += n;
        len -= (size_t)n;
    }
    return 0;
}

static int move_to_spool(struct workspace_content *c, struct error *err)
{
    if (c->spool_fd < 0 && open_spool(c, err) != 0) {
        return -1;
    }
    c->spooled = true;
    const char *data = buf_str(&c->memory);
    for (size_t i = 0; i < c->extent_count; i++) {
        const struct workspace_extent *x = &c->extents[i];
        if (spool_write(c, x->offset, data, (size_t)x->len, err) != 0) {
            return -1;
        }
        data += x->len;
    }
    buf_reset(&c->memory);
    return 0;
}

int workspace_content_add(struct workspace_content *c, int64_t offset, const void *data, size_t len,
                          struct error *err)
{
    if (!c->spooled && c->memory.len + len > CONTENT_MEMORY && move_to_spool(c, err) != 0) {
        return -1;
    }
    if (c->spooled) {
        if (spool_write(c, offset, data, len, err) != 0) {
            return -1;
        }
    } else if (buf_add(&c->memory, data, len) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (add_extent(c, offset, (int64_t)len) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

static int spool_read(const struct workspace_content *c, const struct workspace_extent *x,
                      void *piece, workspace_content_fn fn, void *ctx, struct error *err)
{
    for (int64_t done = 0; done < x->len;) {
        int64_t want = x->len - done < PIECE ? x->len - done : PIECE;
        ssize_t n = pread(c->spool_fd, piece, (size_t)want, x->offset + done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, ERROR_INTERNAL, n < 0 ? errno : EIO,
                                   "reading the spool file");
        }
        if (fn(ctx, piece, (size_t)n, err) != 0) {
            return -1;
        }
        done += n;
    }
    return 0;
}

int workspace_content_read(const struct workspace_content *c, workspace_content_fn fn, void *ctx,
                           struct error *err)
{
    if (!c->spooled) {
        return c->memory.len > 0 ? fn(ctx, c->memory.data, c->memory.len, err) : 0;
    }
    _cleanup_free_ void *piece = malloc(PIECE);
    if (piece == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    for (size_t i = 0; i < c->extent_count; i++) {
        if (spool_read(c, &c->extents[i], piece, fn, ctx, err) != 0) {
            return -1;
        }
    }
    return 0;
}
