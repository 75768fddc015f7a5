#include "workspace/tar.h"

#include "workspace/blocks.h"
#include "workspace/names.h"
#include "workspace/path.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <string.h>

enum {
    /* What one header with its extensions may take: the map of a sparse file is the largest part.
     */
    HEADER_MAX = 8 * 1024 * 1024,
    /* What may follow the end mark: writers pad to their record size. */
    TRAILER_MAX = 1024 * 1024,
    END_MARK = WORKSPACE_TAR_BLOCK,
};

struct feed {
    const struct workspace_tar_source *source;
    struct workspace_sink *sink;
    struct archive *archive;
    struct workspace_names names;
    struct workspace_blocks blocks;
    struct error *err;
    bool primed; /* the first header was handed to the library */
    char first[END_MARK];
    bool failed; /* the source's read function has set `err` */
    bool in_header;
    int64_t header_left;
    int64_t apparent;
    char path[WORKSPACE_PATH_MAX + 2];
    char target[WORKSPACE_PATH_MAX + 2];
};

static enum error_code fault_code(const struct feed *f)
{
    return f->source->fault != ERROR_NONE ? f->source->fault : ERROR_RUNTIME;
}

static int fault_at(struct feed *f, const char *path, const char *what)
{
    return error_set(f->err, fault_code(f), "%s: %s", workspace_path_show(path).text, what);
}

/* For a failure inside libarchive, which may come from our own read function. */
static int fault_in_archive(struct feed *f)
{
    if (f->failed) {
        return -1;
    }
    const char *why = archive_error_string(f->archive);
    return error_set(f->err, fault_code(f), "broken tar stream: %s",
                     why != NULL ? workspace_path_show(why).text : "no reason given");
}

void workspace_tar_first_link(char header[WORKSPACE_TAR_BLOCK])
{
    unsigned sum = 0;
    memset(header, 0, END_MARK);
    memcpy(header, "first", 5);
    memcpy(header + 100, "0000777", 8);
    memcpy(header + 108, "0000000", 8);
    memcpy(header + 116, "0000000", 8);
    memcpy(header + 124, "00000000000", 12);
    memcpy(header + 136, "00000000000", 12);
    memset(header + 148, ' ', 8);
    header[156] = '2';
    header[157] = '.';
    memcpy(header + 257,
           "ustar\0"
           "00",
           8);
    for (int i = 0; i < END_MARK; i++) {
        sum += (unsigned char)header[i];
    }
    (void)snprintf(header + 148, 8, "%06o", sum);
}

static la_ssize_t read_source(struct archive *a, void *ctx, const void **data)
{
    struct feed *f = ctx;
    if (!f->primed) {
        f->primed = true;
        workspace_tar_first_link(f->first);
        *data = f->first;
        return END_MARK;
    }
    ssize_t n = f->source->read(f->source->ctx, data, f->err);
    if (n < 0) {
        f->failed = true;
        archive_set_error(a, EIO, "reading failed");
        return -1;
    }
    if (f->in_header) {
        f->header_left -= n;
        if (f->header_left < 0) {
            archive_set_error(a, EINVAL, "a header is too large");
            return -1;
        }
    }
    return n;
}

/* Drops "./" and the component to strip. NULL: not below it; "": the top itself. */
static const char *strip_name(const struct feed *f, const char *name)
{
    while (name[0] == '.' && name[1] == '/') {
        name += 2;
    }
    if (strcmp(name, ".") == 0) {
        name++;
    }
    if (f->source->strip == NULL) {
        return name;
    }
    size_t n = strlen(f->source->strip);
    if (strncmp(name, f->source->strip, n) != 0 || (name[n] != '/' && name[n] != '\0')) {
        return NULL;
    }
    return name[n] == '/' ? name + n + 1 : name + n;
}

/* Writes the name below the workspace into `out`; sets *top when it is the workspace itself. */
static int take_name(struct feed *f, const char *name, bool directory, char *out, bool *top)
{
    const char *rest = strip_name(f, name);
    if (rest == NULL) {
        return fault_at(f, name, "outside of the workspace");
    }
    size_t len = strlen(rest);
    while (directory && len > 0 && rest[len - 1] == '/') {
        len--;
    }
    *top = len == 0 && directory && rest[0] != '/';
    if (len > WORKSPACE_PATH_MAX) {
        return fault_at(f, name, "name longer than 4095 bytes");
    }
    memcpy(out, rest, len);
    out[len] = '\0';
    const char *what = *top ? NULL : workspace_path_fault(out);
    return what == NULL ? 0 : fault_at(f, name, what);
}

static enum workspace_entry_type entry_type(struct archive_entry *e)
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

/* Makes `entry` a hard link to the name in f->target; one to a special file is a special file. */
static int take_hardlink(struct feed *f, struct archive_entry *e, struct workspace_entry *entry)
{
    bool top = false;
    if (take_name(f, archive_entry_hardlink(e), false, f->target, &top) != 0) {
        return -1;
    }
    if (archive_entry_size(e) != 0) {
        return fault_at(f, entry->path, "hard link with content");
    }
    switch (workspace_names_find(&f->names, f->target, strlen(f->target))) {
    case WORKSPACE_NAMES_FILE:
    case WORKSPACE_NAMES_SYMLINK: entry->target = f->target; return 0;
    case WORKSPACE_NAMES_SPECIAL: entry->type = WORKSPACE_SPECIAL; return 0;
    default: return fault_at(f, entry->path, "hard link to no earlier file");
    }
}

static int take_symlink(struct feed *f, struct archive_entry *e, struct workspace_entry *entry)
{
    entry->target = archive_entry_symlink(e);
    if (entry->target == NULL || entry->target[0] == '\0') {
        return fault_at(f, entry->path, "symbolic link without a target");
    }
    if (strlen(entry->target) > WORKSPACE_PATH_MAX) {
        return fault_at(f, entry->path, "symbolic link target longer than 4095 bytes");
    }
    return 0;
}

static int take_file(struct feed *f, struct archive_entry *e, struct workspace_entry *entry)
{
    entry->size = archive_entry_size(e);
    if (entry->size < 0) {
        return fault_at(f, entry->path, "negative size");
    }
    int64_t max = f->source->apparent_bytes_max;
    if (max >= 0 && entry->size > max - f->apparent) {
        return error_set(f->err, ERROR_RESOURCE_LIMIT,
                         "the files are together larger than %lld bytes", (long long)max);
    }
    if (__builtin_add_overflow(f->apparent, entry->size, &f->apparent)) {
        return fault_at(f, entry->path, "impossible size");
    }
    return 0;
}

static enum workspace_names_kind name_kind(const struct feed *f,
                                           const struct workspace_entry *entry)
{
    switch (entry->type) {
    case WORKSPACE_DIRECTORY: return WORKSPACE_NAMES_DIRECTORY;
    case WORKSPACE_FILE: return WORKSPACE_NAMES_FILE;
    case WORKSPACE_SYMLINK: return WORKSPACE_NAMES_SYMLINK;
    case WORKSPACE_HARDLINK:
        return workspace_names_find(&f->names, entry->target, strlen(entry->target));
    default: return WORKSPACE_NAMES_SPECIAL;
    }
}

/* Passes on a directory that `entry` lies in and the stream has left out. */
static int pass_missing(struct feed *f, const struct workspace_entry *entry, size_t len)
{
    char path[WORKSPACE_PATH_MAX + 1];
    memcpy(path, entry->path, len);
    path[len] = '\0';
    const struct workspace_entry directory = {
        .type = WORKSPACE_DIRECTORY, .path = path, .mode = 0755, .mtime_ns = entry->mtime_ns};
    if (workspace_names_add(&f->names, path, len, WORKSPACE_NAMES_DIRECTORY) != 0) {
        return error_set(f->err, ERROR_INTERNAL, "out of memory");
    }
    return f->sink->ops->begin(f->sink, &directory, f->err) == 0
               ? f->sink->ops->end(f->sink, f->err)
               : -1;
}

static int make_missing(struct feed *f, const struct workspace_entry *entry)
{
    for (const char *slash = strchr(entry->path, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - entry->path);
        if (workspace_names_find(&f->names, entry->path, len) == WORKSPACE_NAMES_NONE &&
            pass_missing(f, entry, len) != 0) {
            return -1;
        }
    }
    return 0;
}

static int remember_name(struct feed *f, const struct workspace_entry *entry)
{
    size_t len = strlen(entry->path);
    const char *slash = strrchr(entry->path, '/');
    if (f->source->loose && make_missing(f, entry) != 0) {
        return -1;
    }
    if (f->source->loose && entry->type == WORKSPACE_DIRECTORY &&
        workspace_names_find(&f->names, entry->path, len) == WORKSPACE_NAMES_DIRECTORY) {
        return 0;
    }
    if (slash != NULL &&
        workspace_names_find(&f->names, entry->path, (size_t)(slash - entry->path)) !=
            WORKSPACE_NAMES_DIRECTORY) {
        return fault_at(f, entry->path, "not in a directory that came before it");
    }
    if (workspace_names_find(&f->names, entry->path, len) != WORKSPACE_NAMES_NONE) {
        return fault_at(f, entry->path, "the name comes twice");
    }
    if (workspace_names_add(&f->names, entry->path, len, name_kind(f, entry)) != 0) {
        return error_set(f->err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

static int64_t entry_mtime_ns(struct archive_entry *e)
{
    static const int64_t second = 1000000000;
    int64_t s = archive_entry_mtime(e);
    if (s > INT64_MAX / second - 1) {
        return INT64_MAX;
    }
    if (s < INT64_MIN / second + 1) {
        return INT64_MIN;
    }
    /* The library loses the sign of a fraction. */
    return s * second + (s < 0 ? 0 : archive_entry_mtime_nsec(e));
}

/* Checks everything about one header and describes it; *top: nothing to pass on. */
static int take_entry(struct feed *f, struct archive_entry *e, struct workspace_entry *entry,
                      bool *top)
{
    const char *name = archive_entry_pathname(e);
    if (name == NULL) {
        return error_set(f->err, fault_code(f), "an entry without a name");
    }
    *entry = (struct workspace_entry){
        .type = entry_type(e),
        .path = f->path,
        .mode = (unsigned)archive_entry_perm(e) & 07777,
        .mtime_ns = entry_mtime_ns(e),
    };
    if (take_name(f, name, entry->type == WORKSPACE_DIRECTORY, f->path, top) != 0) {
        return -1;
    }
    if (*top) {
        return 0;
    }
    size_t path_max = f->source->directory_path_max;
    if (entry->type == WORKSPACE_DIRECTORY && path_max > 0 && strlen(f->path) > path_max) {
        return error_set(f->err, ERROR_RESOURCE_LIMIT,
                         "%s: the directory lies too deep: names in it can't be read",
                         workspace_path_show(f->path).text);
    }
    int r = 0;
    if (entry->type == WORKSPACE_HARDLINK) {
        r = take_hardlink(f, e, entry);
    } else if (entry->type == WORKSPACE_SYMLINK) {
        r = take_symlink(f, e, entry);
    } else if (entry->type == WORKSPACE_FILE) {
        r = take_file(f, e, entry);
    }
    return r == 0 ? remember_name(f, entry) : -1;
}

static int pass_run(void *ctx, int64_t offset, const void *data, size_t len, struct error *err)
{
    struct feed *f = ctx;
    return f->sink->ops->data(f->sink, offset, data, len, err);
}

static int pass_content(struct feed *f, const struct workspace_entry *entry)
{
    workspace_blocks_begin(&f->blocks, entry->size, pass_run, f);
    int64_t next = 0;
    for (;;) {
        const void *data;
        size_t len;
        la_int64_t offset;
        int r = archive_read_data_block(f->archive, &data, &len, &offset);
        if (r == ARCHIVE_EOF) {
            return workspace_blocks_end(&f->blocks, f->err);
        }
        if (r != ARCHIVE_OK) {
            return fault_in_archive(f);
        }
        if (len == 0) {
            continue;
        }
        if (offset < next || offset > entry->size || (int64_t)len > entry->size - offset) {
            return fault_at(f, entry->path, "content out of order or beyond its size");
        }
        next = offset + (int64_t)len;
        if (workspace_blocks_add(&f->blocks, offset, data, len, f->err) != 0) {
            return -1;
        }
    }
}

static int pass_entry(struct feed *f, struct archive_entry *e)
{
    struct workspace_entry entry;
    bool top = false;
    if (take_entry(f, e, &entry, &top) != 0) {
        return -1;
    }
    if (top) {
        return 0;
    }
    if (f->sink->ops->begin(f->sink, &entry, f->err) != 0) {
        return -1;
    }
    if (entry.type == WORKSPACE_FILE && pass_content(f, &entry) != 0) {
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

static int pass_all(struct feed *f)
{
    for (;;) {
        struct archive_entry *e;
        int64_t before = archive_filter_bytes(f->archive, -1);
        f->in_header = true;
        f->header_left = HEADER_MAX;
        int r = archive_read_next_header(f->archive, &e);
        f->in_header = false;
        if (r == ARCHIVE_EOF) {
            if (archive_filter_bytes(f->archive, -1) - before < END_MARK) {
                return error_set(f->err, fault_code(f), "the tar stream ends without its end mark");
            }
            return 0;
        }
        if (r != ARCHIVE_OK && !is_harmless(f->archive, r)) {
            return fault_in_archive(f);
        }
        if (pass_entry(f, e) != 0) {
            return -1;
        }
    }
}

static int drain(struct feed *f)
{
    int64_t left = TRAILER_MAX;
    for (;;) {
        const void *data;
        ssize_t n = f->source->read(f->source->ctx, &data, f->err);
        if (n <= 0) {
            return (int)n;
        }
        left -= n;
        if (left < 0) {
            return error_set(f->err, fault_code(f), "bytes behind the end of the tar stream");
        }
    }
}

static int feed_run(struct feed *f)
{
    archive_read_support_format_tar(f->archive);
    f->in_header = true;
    f->header_left = HEADER_MAX;
    if (archive_read_open(f->archive, f, NULL, read_source, NULL) != ARCHIVE_OK) {
        return fault_in_archive(f);
    }
    struct archive_entry *first;
    if (archive_read_next_header(f->archive, &first) != ARCHIVE_OK) {
        return fault_in_archive(f);
    }
    return pass_all(f) == 0 ? drain(f) : -1;
}

int workspace_tar_feed(const struct workspace_tar_source *source, struct workspace_sink *sink,
                       struct error *err)
{
    /* In any other locale the library recodes names. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    struct feed *f = calloc(1, sizeof(*f));
    struct archive *archive = archive_read_new();
    int r = -1;
    if (plain == (locale_t)0 || f == NULL || archive == NULL) {
        error_set(err, ERROR_INTERNAL, "out of memory");
    } else {
        locale_t old = uselocale(plain);
        f->source = source;
        f->sink = sink;
        f->archive = archive;
        f->err = err;
        workspace_names_init(&f->names);
        r = feed_run(f);
        workspace_names_done(&f->names);
        uselocale(old);
    }
    if (archive != NULL) {
        archive_read_free(archive);
    }
    if (plain != (locale_t)0) {
        freelocale(plain);
    }
    free(f);
    return r;
}
