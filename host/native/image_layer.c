/* A layer's tar as a flow of entries. */
#include "host/native/images_internal.h"

#include "workspace/path.h"
#include "workspace/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <string.h>

/* What one header with its extensions may take. */
enum { HEADER_MAX = 8 * 1024 * 1024 };

struct feed {
    struct native_image_source_bytes source;
    struct workspace_sink *sink;
    struct archive *archive;
    struct error *err;
    char first[WORKSPACE_TAR_BLOCK];
    bool primed; /* the header of our own was handed to the library */
    bool failed; /* the source has set `err` */
    bool in_header;
    int64_t header_left;
    char path[WORKSPACE_PATH_MAX + 1];
    char target[WORKSPACE_PATH_MAX + 1];
};

static int fault_at(struct feed *f, const char *path, const char *what)
{
    return error_set(f->err, ERROR_INVALID_REQUEST, "%s: %s", workspace_path_show(path).text, what);
}

static int fault_in_archive(struct feed *f)
{
    const char *why = archive_error_string(f->archive);

    if (f->failed) {
        return -1;
    }
    return error_set(f->err, ERROR_INVALID_REQUEST, "a layer is no tar archive: %s",
                     why != NULL ? workspace_path_show(why).text : "no reason given");
}

static la_ssize_t read_source(struct archive *a, void *ctx, const void **data)
{
    struct feed *f = ctx;
    ssize_t n;

    if (!f->primed) {
        f->primed = true;
        workspace_tar_first_link(f->first);
        *data = f->first;
        return sizeof(f->first);
    }
    n = f->source.read(f->source.ctx, data, f->err);
    if (n < 0) {
        f->failed = true;
        archive_set_error(a, EIO, "reading failed");
        return -1;
    }
    if (f->in_header && (f->header_left -= n) < 0) {
        archive_set_error(a, EINVAL, "a header is too large");
        return -1;
    }
    return n;
}

/* --- names --- */

/* Without "./" and, of a directory, what ends it; *top: the root itself. */
static int take_name(struct feed *f, const char *name, bool directory, char *out, bool *top)
{
    const char *rest = name;
    const char *what;
    size_t len;

    while (rest[0] == '.' && rest[1] == '/') {
        rest += 2;
    }
    if (strcmp(rest, ".") == 0) {
        rest++;
    }
    len = strlen(rest);
    while (directory && len > 0 && rest[len - 1] == '/' && rest[0] != '/') {
        len--;
    }
    *top = len == 0 && directory;
    if (len > WORKSPACE_PATH_MAX) {
        return fault_at(f, name, "name longer than 4095 bytes");
    }
    memcpy(out, rest, len);
    out[len] = '\0';
    what = *top ? NULL : workspace_path_fault(out);
    return what == NULL ? 0 : fault_at(f, name, what);
}

static enum workspace_entry_type type_of(struct archive_entry *e)
{
    if (archive_entry_hardlink(e) != NULL) {
        return WORKSPACE_HARDLINK;
    }
    switch (archive_entry_filetype(e)) {
    case AE_IFREG: return WORKSPACE_FILE;
    case AE_IFDIR: return WORKSPACE_DIRECTORY;
    case AE_IFLNK: return WORKSPACE_SYMLINK;
    default: return WORKSPACE_SPECIAL;
    }
}

static int64_t mtime_ns_of(struct archive_entry *e)
{
    static const int64_t SECOND = 1000000000;
    static const int64_t SECONDS_MAX = INT64_C(1) << 33;
    int64_t s = archive_entry_mtime(e);

    if (s < 0 || s > SECONDS_MAX) {
        return 0;
    }
    return s * SECOND + archive_entry_mtime_nsec(e);
}

static int take_target(struct feed *f, struct archive_entry *e, struct workspace_entry *entry)
{
    bool top = false;

    switch (entry->type) {
    case WORKSPACE_FILE:
        entry->size = archive_entry_size(e);
        return entry->size >= 0 ? 0 : fault_at(f, entry->path, "negative size");
    case WORKSPACE_SYMLINK:
        entry->target = archive_entry_symlink(e);
        if (entry->target == NULL || entry->target[0] == '\0' ||
            strlen(entry->target) > WORKSPACE_PATH_MAX) {
            return fault_at(f, entry->path, "a symbolic link without a target of 1 to 4095 bytes");
        }
        return 0;
    case WORKSPACE_HARDLINK:
        entry->target = f->target;
        return take_name(f, archive_entry_hardlink(e), false, f->target, &top);
    default: return 0;
    }
}

/* --- content --- */

static int pass_content(struct feed *f, const struct workspace_entry *entry)
{
    for (;;) {
        const void *data;
        size_t len;
        la_int64_t offset;
        int r = archive_read_data_block(f->archive, &data, &len, &offset);

        if (r == ARCHIVE_EOF) {
            return 0;
        }
        if (r != ARCHIVE_OK) {
            return fault_in_archive(f);
        }
        if (len == 0) {
            continue;
        }
        if (offset < 0 || offset > entry->size || (int64_t)len > entry->size - offset) {
            return fault_at(f, entry->path, "content beyond its size");
        }
        if (f->sink->ops->data(f->sink, offset, data, len, f->err) < 0) {
            return -1;
        }
    }
}

static int pass_entry(struct feed *f, struct archive_entry *e)
{
    const char *name = archive_entry_pathname(e);
    struct workspace_entry entry;
    bool top = false;

    if (name == NULL) {
        return error_set(f->err, ERROR_INVALID_REQUEST, "a layer has an entry without a name");
    }
    entry = (struct workspace_entry){
        .type = type_of(e),
        .path = f->path,
        .mode = (unsigned)archive_entry_perm(e) & 07777,
        .mtime_ns = mtime_ns_of(e),
    };
    if (take_name(f, name, entry.type == WORKSPACE_DIRECTORY, f->path, &top) < 0) {
        return -1;
    }
    if (top) {
        return 0;
    }
    if (take_target(f, e, &entry) < 0 || f->sink->ops->begin(f->sink, &entry, f->err) < 0) {
        return -1;
    }
    if (entry.type == WORKSPACE_FILE && pass_content(f, &entry) < 0) {
        return -1;
    }
    return f->sink->ops->end(f->sink, f->err);
}

/* A name that the C locale can't show is no fault: the library keeps its bytes. */
static bool is_harmless(struct archive *a, int result)
{
    const char *why = archive_error_string(a);

    return result == ARCHIVE_WARN && why != NULL && strstr(why, "can't be converted") != NULL;
}

static int next(struct feed *f, struct archive_entry **e)
{
    int r;

    f->in_header = true;
    f->header_left = HEADER_MAX;
    r = archive_read_next_header(f->archive, e);
    f->in_header = false;
    if (r == ARCHIVE_EOF) {
        return 0;
    }
    return r == ARCHIVE_OK || is_harmless(f->archive, r) ? 1 : fault_in_archive(f);
}

static int pass_all(struct feed *f)
{
    struct archive_entry *e;
    int r;

    archive_read_support_format_tar(f->archive);
    f->in_header = true;
    f->header_left = HEADER_MAX;
    if (archive_read_open(f->archive, f, NULL, read_source, NULL) != ARCHIVE_OK) {
        return fault_in_archive(f);
    }
    r = next(f, &e); /* our own */
    while (r > 0 && (r = next(f, &e)) > 0) {
        if (pass_entry(f, e) < 0) {
            return -1;
        }
    }
    return r;
}

int native_image_layer_feed(struct native_image_source_bytes source, struct workspace_sink *sink,
                            struct error *err)
{
    /* In any other locale the library recodes names. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    struct feed *f = calloc(1, sizeof(*f));
    struct archive *archive = archive_read_new();
    int result = -1;

    if (plain == (locale_t)0 || f == NULL || archive == NULL) {
        error_set(err, ERROR_INTERNAL, "out of memory");
    } else {
        locale_t old = uselocale(plain);

        *f = (struct feed){.source = source, .sink = sink, .archive = archive, .err = err};
        result = pass_all(f);
        uselocale(old);
    }
    if (archive != NULL) {
        archive_read_free(archive);
    }
    if (plain != (locale_t)0) {
        freelocale(plain);
    }
    free(f);
    return result;
}
