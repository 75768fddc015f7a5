/* Images from files: a root file system as tar, or what `docker save` wrote. */
#include "base/digest.h"
#include "host/docker/images.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum import_kind { IMPORT_ROOTFS, IMPORT_SAVED, IMPORT_OCI };

enum { IMPORT_TIMEOUT_MS = 30 * 60 * 1000, READ_BLOCK = 64 * 1024 };

struct import {
    struct engine *engine;
    const char *name;
    int fd;
    off_t size;
};

/* What the names at the top say it is. */
struct top {
    bool manifest; /* manifest.json */
    bool layout;   /* oci-layout */
    bool system;   /* a directory that a root file system has */
};

static void look_at(struct top *top, const char *path)
{
    static const char *const SYSTEM[] = {"bin", "usr", "etc", "lib"};

    while (path[0] == '.' && path[1] == '/') {
        path += 2;
    }
    top->manifest |= strcmp(path, "manifest.json") == 0;
    top->layout |= strcmp(path, "oci-layout") == 0;
    for (size_t i = 0; i < ARRAY_SIZE(SYSTEM); i++) {
        size_t len = strlen(SYSTEM[i]);

        top->system |=
            strncmp(path, SYSTEM[i], len) == 0 && (path[len] == '/' || path[len] == '\0');
    }
}

static int read_names(struct archive *a, const struct import *import, struct top *top,
                      struct error *err)
{
    struct archive_entry *entry;
    int code = archive_read_open_fd(a, import->fd, READ_BLOCK);

    while (code == ARCHIVE_OK || code == ARCHIVE_WARN) {
        code = archive_read_next_header(a, &entry);
        if (code == ARCHIVE_OK || code == ARCHIVE_WARN) {
            const char *path = archive_entry_pathname(entry);

            look_at(top, path != NULL ? path : "");
        }
    }
    if (code != ARCHIVE_EOF) {
        return error_set(err, ERROR_INVALID_REQUEST, "the file is no tar archive: %s",
                         archive_error_string(a));
    }
    return 0;
}

static int find_kind(const struct import *import, enum import_kind *kind, struct error *err)
{
    struct archive *a = archive_read_new();
    struct top top = {0};
    int result;

    if (a == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    archive_read_support_format_tar(a);
    archive_read_support_filter_all(a);
    result = read_names(a, import, &top, err);
    archive_read_free(a);
    if (result < 0) {
        return -1;
    }
    *kind = top.system     ? IMPORT_ROOTFS
            : top.manifest ? IMPORT_SAVED
            : top.layout   ? IMPORT_OCI
                           : IMPORT_ROOTFS;
    if (lseek(import->fd, 0, SEEK_SET) < 0) {
        return error_set_errno(err, ERROR_INVALID_REQUEST, errno, "the file can't be read twice");
    }
    return 0;
}

/* Sends the file to `path`; what the engine said last is in `progress`. */
static int send_file(const struct import *import, const char *verb, const char *path,
                     struct image_progress *progress, struct error *err)
{
    struct engine_request request = {
        .verb = verb,
        .method = "POST",
        .path = path,
        .raw_fd = &import->fd,
        .raw_len = (size_t)import->size,
        .timeout_ms = IMPORT_TIMEOUT_MS,
    };
    long status;

    if (image_follow(import->engine, &request, progress, &status, err) < 0) {
        return -1;
    }
    if (status != 200 || progress->failure[0] != '\0') {
        return error_set(err, ERROR_INVALID_REQUEST, "the engine does not take the file: %s",
                         progress->failure[0] != '\0' ? progress->failure : progress->last);
    }
    return 0;
}

/* → the new image's id. */
static int import_rootfs(const struct import *import, char id[IMAGE_ID_SIZE], struct error *err)
{
    struct image_progress progress;
    _cleanup_buf_ struct buf path;

    buf_init(&path, 4096);
    if (buf_add_str(&path, "/images/create?fromSrc=-&tag=latest&repo=") < 0 ||
        engine_escape(&path, import->name) < 0) {
        return error_set(err, ERROR_INVALID_REQUEST, "the name is too long");
    }
    if (send_file(import, "image_import", buf_str(&path), &progress, err) < 0) {
        return -1;
    }
    if (!digest_is_valid(progress.last)) {
        return error_set(err, ERROR_RUNTIME, "the engine does not tell the image's id");
    }
    memcpy(id, progress.last, IMAGE_ID_SIZE);
    return 0;
}

static int tag_image(const struct import *import, const char *image, struct error *err)
{
    _cleanup_buf_ struct buf path;
    struct engine_request request = {.verb = "image_tag", .method = "POST"};
    struct engine_answer answer;
    char scratch[32];
    int result = 0;

    buf_init(&path, 4096);
    if (buf_add_str(&path, "/images/") < 0 || engine_escape(&path, image) < 0 ||
        buf_add_str(&path, "/tag?tag=latest&repo=") < 0 || engine_escape(&path, import->name) < 0) {
        return error_set(err, ERROR_INVALID_REQUEST, "the name is too long");
    }
    request.path = buf_str(&path);
    if (engine_call(import->engine, &request, &answer, err) < 0) {
        return -1;
    }
    if (answer.status != 201) {
        result = error_set(err, ERROR_INVALID_REQUEST, "the image could not be named: %s",
                           engine_answer_message(&answer, scratch, sizeof(scratch)));
    }
    engine_answer_done(&answer);
    return result;
}

/* "Loaded image: NAME:tag" or "Loaded image ID: sha256:…" → the id, and the image bears the name.
 */
static int import_saved(const struct import *import, char id[IMAGE_ID_SIZE], struct error *err)
{
    static const char BY_NAME[] = "Loaded image: ";
    static const char BY_ID[] = "Loaded image ID: ";
    struct image_progress progress;
    const char *image;
    json_t *item;

    if (send_file(import, "image_load", "/images/load?quiet=1", &progress, err) < 0) {
        return -1;
    }
    progress.last[strcspn(progress.last, "\r\n")] = '\0';
    if (strncmp(progress.last, BY_NAME, strlen(BY_NAME)) == 0) {
        image = progress.last + strlen(BY_NAME);
    } else if (strncmp(progress.last, BY_ID, strlen(BY_ID)) == 0) {
        image = progress.last + strlen(BY_ID);
    } else {
        return error_set(err, ERROR_RUNTIME, "the engine does not tell what it loaded: %.200s",
                         progress.last);
    }
    if (tag_image(import, image, err) < 0 ||
        image_find(import->engine, import->name, NULL, &item, err) < 0) {
        return -1;
    }
    image = json_string_value(json_object_get(item, "Id"));
    if (image == NULL || !digest_is_valid(image)) {
        json_decref(item);
        return error_set(err, ERROR_RUNTIME, "the loaded image is not there");
    }
    memcpy(id, image, IMAGE_ID_SIZE);
    json_decref(item);
    return 0;
}

static int describe(const struct import *import, const char *id, struct host_image *out,
                    struct error *err)
{
    _cleanup_buf_ struct buf reference;
    struct host_image image = {0};
    json_t *item;

    buf_init(&reference, 4096);
    if (buf_addf(&reference, "%s@%s", import->name, id) < 0) {
        return error_set(err, ERROR_INVALID_REQUEST, "the name is too long");
    }
    if (image_find(import->engine, buf_str(&reference), NULL, &item, err) < 0) {
        return -1;
    }
    if (item == NULL) {
        return error_set(err, ERROR_RUNTIME, "the imported image is not there");
    }
    image.digests = image_digests(item);
    image.size_bytes = json_integer_value(json_object_get(item, "Size"));
    image.reference = buf_take(&reference, NULL);
    json_decref(item);
    if (image.digests == NULL || image.reference == NULL) {
        free(image.digests);
        free(image.reference);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *out = image;
    return 0;
}

/* An OCI layout is tried as well: engines with the newer image store take it. */
static int import_any(const struct import *import, char id[IMAGE_ID_SIZE], struct error *err)
{
    enum import_kind kind = IMPORT_ROOTFS;

    if (find_kind(import, &kind, err) < 0) {
        return -1;
    }
    if (kind == IMPORT_ROOTFS) {
        return import_rootfs(import, id, err);
    }
    if (import_saved(import, id, err) < 0) {
        if (kind == IMPORT_OCI) {
            char reason[ERROR_DETAIL_MAX];

            snprintf(reason, sizeof(reason), "%s", err->detail);
            error_set(err, ERROR_INVALID_REQUEST,
                      "this engine does not load OCI layouts; convert the file to a docker archive "
                      "first (%s)",
                      reason);
        }
        return -1;
    }
    return 0;
}

int image_import_file(struct engine *e, const char *name, const char *file, struct host_image *out,
                      struct error *err)
{
    _cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct import import = {.engine = e, .name = name, .fd = fd};
    char id[IMAGE_ID_SIZE];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return error_set_errno(err, ERROR_INVALID_REQUEST, errno, "%s", file);
    }
    if (!S_ISREG(st.st_mode)) {
        return error_set(err, ERROR_INVALID_REQUEST, "%s is no file", file);
    }
    import.size = st.st_size;
    if (import_any(&import, id, err) < 0) {
        return -1;
    }
    return describe(&import, id, out, err);
}
