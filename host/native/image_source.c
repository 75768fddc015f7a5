/* What is imported: a tar (made plain first, so that it can be read at any place) or a directory.
 */
#include "host/native/images_internal.h"

#include "base/file.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK = 128 * 1024, LINKS_MAX = 4, MEMBER_NAME_MAX = 1024, MEMBERS_MAX = 2000000 };

struct native_image_member {
    int fd;                  /* of the tar (borrowed) or of a file (owned, see own_fd) */
    int own_fd;              /* -1 */
    off_t at;                /* in fd */
    struct archive *archive; /* NULL: the file as it is */
    char chunk[CHUNK];
};

/* --- the tar --- */

static la_ssize_t read_tar(struct archive *a, void *ctx, const void **data)
{
    struct native_image_member *m = ctx;
    ssize_t n;

    do {
        n = pread(m->fd, m->chunk, sizeof(m->chunk), m->at);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        archive_set_error(a, errno, "reading failed");
        return -1;
    }
    m->at += n;
    *data = m->chunk;
    return n;
}

static la_int64_t skip_tar(struct archive *a, void *ctx, la_int64_t request)
{
    struct native_image_member *m = ctx;
    struct stat st;

    (void)a;
    if (fstat(m->fd, &st) < 0 || request <= 0 || request > st.st_size - m->at) {
        return 0;
    }
    m->at += request;
    return request;
}

static int no_tar(struct archive *a, struct error *err)
{
    const char *why = archive_error_string(a);

    return error_set(err, ERROR_INVALID_REQUEST, "the file is no tar archive: %.200s",
                     why != NULL ? why : "no reason given");
}

static int open_tar(struct native_image_member *m, int fd, struct error *err)
{
    m->fd = fd;
    m->at = 0;
    m->archive = archive_read_new();
    if (m->archive == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    archive_read_support_format_tar(m->archive);
    if (archive_read_open2(m->archive, m, NULL, read_tar, skip_tar, NULL) != ARCHIVE_OK) {
        return no_tar(m->archive, err);
    }
    return 0;
}

static const char *plain_name(const char *name)
{
    while (name != NULL && name[0] == '.' && name[1] == '/') {
        name += 2;
    }
    return name != NULL ? name : "";
}

/* 1 and the entry, 0 at the end. */
static int next_entry(struct native_image_member *m, struct archive_entry **entry,
                      struct error *err)
{
    int r = archive_read_next_header(m->archive, entry);

    if (r == ARCHIVE_EOF) {
        return 0;
    }
    return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 1 : no_tar(m->archive, err);
}

/* What the names at the top say it is. */
struct top {
    bool manifest; /* manifest.json */
    bool layout;   /* oci-layout */
    bool system;   /* a directory that a root file system has */
};

static void look_at(struct top *top, const char *path)
{
    static const char *const SYSTEM[] = {"bin", "usr", "etc", "lib"};

    top->manifest |= strcmp(path, "manifest.json") == 0;
    top->layout |= strcmp(path, "oci-layout") == 0;
    for (size_t i = 0; i < ARRAY_SIZE(SYSTEM); i++) {
        size_t len = strlen(SYSTEM[i]);

        top->system |=
            strncmp(path, SYSTEM[i], len) == 0 && (path[len] == '/' || path[len] == '\0');
    }
}

static int read_names(struct native_image_member *m, struct top *top, struct error *err)
{
    struct archive_entry *entry;

    for (int count = 0; count < MEMBERS_MAX; count++) {
        int r = next_entry(m, &entry, err);

        if (r <= 0) {
            return r;
        }
        look_at(top, plain_name(archive_entry_pathname(entry)));
    }
    return error_set(err, ERROR_INVALID_REQUEST, "the archive has too many entries");
}

static int find_kind(struct native_image_source *source, struct error *err)
{
    struct native_image_member *m = calloc(1, sizeof(*m));
    struct top top = {0};
    int result;

    if (m == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    m->own_fd = -1;
    result = open_tar(m, source->tar_fd, err);
    result = result == 0 ? read_names(m, &top, err) : result;
    native_image_member_free(m);
    if (!top.system && top.layout) {
        source->kind = NATIVE_IMAGE_LAYOUT;
    } else if (!top.system && top.manifest) {
        source->kind = NATIVE_IMAGE_SAVED;
    } else {
        source->kind = NATIVE_IMAGE_ROOTFS;
    }
    return result;
}

/* --- opening --- */

static ssize_t read_file(void *ctx, const void **data, struct error *err)
{
    struct native_image_member *m = ctx;
    ssize_t n;

    do {
        n = pread(m->fd, m->chunk, sizeof(m->chunk), m->at);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return error_set_errno(err, ERROR_INVALID_REQUEST, errno, "the file can't be read");
    }
    m->at += n;
    *data = m->chunk;
    return n;
}

static int copy_unpacked(struct native_image_stream *stream, int to, struct error *err)
{
    const void *data;
    ssize_t n;

    while ((n = native_image_stream_read(stream, &data, err)) > 0) {
        if (file_write_all(to, data, (size_t)n, err) < 0) {
            return -1;
        }
    }
    return (int)n;
}

/* Replaces the descriptor of a compressed file by one of its content. */
static int unpack_file(struct native_image_source *source, int scratch_fd, int64_t max,
                       struct error *err)
{
    struct native_image_member *m = calloc(1, sizeof(*m));
    struct native_image_stream *stream = NULL;
    _cleanup_close_ int to = openat(scratch_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int result = -1;

    if (m == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    m->fd = source->tar_fd;
    if (to < 0) {
        error_set_errno(err, ERROR_INTERNAL, errno, "cannot make a scratch file");
    } else {
        result = native_image_stream_open(
            (struct native_image_source_bytes){.read = read_file, .ctx = m}, max, &stream, err);
    }
    result = result == 0 ? copy_unpacked(stream, to, err) : result;
    native_image_stream_free(stream);
    free(m);
    if (result == 0) {
        close(source->tar_fd);
        source->tar_fd = TAKE_FD(to);
    }
    return result;
}

static int open_file(struct native_image_source *source, int scratch_fd, int64_t max,
                     struct error *err)
{
    char head[8];
    ssize_t n = pread(source->tar_fd, head, sizeof(head), 0);

    if (n < 0) {
        return error_set_errno(err, ERROR_INVALID_REQUEST, errno, "the file can't be read");
    }
    if (native_image_is_packed(head, (size_t)n) && unpack_file(source, scratch_fd, max, err) < 0) {
        return -1;
    }
    return find_kind(source, err);
}

int native_image_source_open(const char *path, int scratch_fd, int64_t max,
                             struct native_image_source *out, struct error *err)
{
    struct native_image_source source = {.dir_fd = -1, .tar_fd = -1};
    _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return error_set_errno(err, ERROR_INVALID_REQUEST, errno, "%s", path);
    }
    if (S_ISDIR(st.st_mode)) {
        source.kind =
            faccessat(fd, "oci-layout", F_OK, 0) == 0 ? NATIVE_IMAGE_LAYOUT : NATIVE_IMAGE_COPIED;
        source.dir_fd = TAKE_FD(fd);
    } else if (S_ISREG(st.st_mode)) {
        source.tar_fd = TAKE_FD(fd);
        if (open_file(&source, scratch_fd, max, err) < 0) {
            native_image_source_done(&source);
            return -1;
        }
    } else {
        return error_set(err, ERROR_INVALID_REQUEST, "%s is neither a file nor a directory", path);
    }
    *out = source;
    return 0;
}

void native_image_source_done(struct native_image_source *source)
{
    cleanup_close(&source->dir_fd);
    cleanup_close(&source->tar_fd);
    source->dir_fd = -1;
    source->tar_fd = -1;
}

/* --- members --- */

static int lacks(struct error *err, const char *name)
{
    return error_set(err, ERROR_INVALID_REQUEST, "the image lacks %.200s", name);
}

static int open_in_directory(struct native_image_member *m, int dir_fd, const char *name,
                             struct error *err)
{
    struct stat st;

    m->own_fd = file_open_beneath(dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (m->own_fd < 0) {
        return errno == ENOENT ? lacks(err, name)
                               : error_set_errno(err, ERROR_INVALID_REQUEST, errno, "%.200s", name);
    }
    if (fstat(m->own_fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return error_set(err, ERROR_INVALID_REQUEST, "%.200s is no file", name);
    }
    m->fd = m->own_fd;
    return 0;
}

/* The member that a link in the archive names: "../ID/layer.tar" of "ID2/layer.tar". */
static int follow(char name[MEMBER_NAME_MAX], const char *target, struct error *err)
{
    char joined[MEMBER_NAME_MAX];
    const char *slash = strrchr(name, '/');
    int up = slash != NULL ? (int)(slash - name) : 0;

    while (strncmp(target, "../", 3) == 0 && up > 0) {
        target += 3;
        while (up > 0 && name[up - 1] != '/') {
            up--;
        }
        up -= up > 0 ? 1 : 0;
    }
    if ((size_t)snprintf(joined, sizeof(joined), "%.*s%s%s", up, name, up > 0 ? "/" : "", target) >=
        sizeof(joined)) {
        return error_set(err, ERROR_INVALID_REQUEST, "a link in the archive is too long");
    }
    memcpy(name, joined, sizeof(joined));
    return 0;
}

/* 1: at the member's content; 0: `name` is another member now, to be looked for. */
static int find_member(struct native_image_member *m, char name[MEMBER_NAME_MAX], struct error *err)
{
    struct archive_entry *entry;

    for (;;) {
        int r = next_entry(m, &entry, err);

        if (r <= 0) {
            return r < 0 ? -1 : lacks(err, name);
        }
        if (strcmp(plain_name(archive_entry_pathname(entry)), name) != 0) {
            continue;
        }
        if (archive_entry_hardlink(entry) != NULL) {
            (void)snprintf(name, MEMBER_NAME_MAX, "%s", plain_name(archive_entry_hardlink(entry)));
            return 0;
        }
        if (archive_entry_symlink(entry) != NULL) {
            return follow(name, archive_entry_symlink(entry), err);
        }
        return archive_entry_filetype(entry) == AE_IFREG
                   ? 1
                   : error_set(err, ERROR_INVALID_REQUEST, "%.200s is no file", name);
    }
}

static int open_in_tar(struct native_image_member *m, int tar_fd, const char *wanted,
                       struct error *err)
{
    char name[MEMBER_NAME_MAX];

    if ((size_t)snprintf(name, sizeof(name), "%s", plain_name(wanted)) >= sizeof(name)) {
        return error_set(err, ERROR_INVALID_REQUEST, "a name in the image is too long");
    }
    for (int tries = 0; tries < LINKS_MAX; tries++) {
        int r = open_tar(m, tar_fd, err) < 0 ? -1 : find_member(m, name, err);

        if (r != 0) {
            return r < 0 ? -1 : 0;
        }
        archive_read_free(TAKE_PTR(m->archive));
    }
    return error_set(err, ERROR_INVALID_REQUEST, "%.200s: too many links", wanted);
}

int native_image_member_open(const struct native_image_source *source, const char *name,
                             struct native_image_member **out, struct error *err)
{
    struct native_image_member *m = calloc(1, sizeof(*m));
    int result = 0;

    if (m == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    m->own_fd = -1;
    if (name == NULL) {
        m->fd = source->tar_fd;
    } else if (source->dir_fd >= 0) {
        result = open_in_directory(m, source->dir_fd, name, err);
    } else {
        result = open_in_tar(m, source->tar_fd, name, err);
    }
    if (result < 0) {
        native_image_member_free(m);
        return -1;
    }
    *out = m;
    return 0;
}

void native_image_member_free(struct native_image_member *m)
{
    if (m == NULL) {
        return;
    }
    if (m->archive != NULL) {
        archive_read_free(m->archive);
    }
    cleanup_close(&m->own_fd);
    free(m);
}

ssize_t native_image_member_read(void *member, const void **data, struct error *err)
{
    struct native_image_member *m = member;
    la_int64_t offset;
    size_t len;

    if (m->archive == NULL) {
        return read_file(m, data, err);
    }
    for (;;) {
        int r = archive_read_data_block(m->archive, data, &len, &offset);

        if (r == ARCHIVE_EOF) {
            return 0;
        }
        if (r != ARCHIVE_OK) {
            return no_tar(m->archive, err);
        }
        if (len > 0) {
            return (ssize_t)len;
        }
    }
}

int native_image_member_text(const struct native_image_source *source, const char *name,
                             struct buf *out, struct error *err)
{
    struct native_image_member *m;
    const void *data;
    ssize_t n;

    if (native_image_member_open(source, name, &m, err) < 0) {
        return -1;
    }
    buf_reset(out);
    while ((n = native_image_member_read(m, &data, err)) > 0) {
        if (buf_add(out, data, (size_t)n) < 0) {
            n = error_set(err, ERROR_INVALID_REQUEST, "%.200s is too large", name);
            break;
        }
    }
    native_image_member_free(m);
    return (int)n;
}
