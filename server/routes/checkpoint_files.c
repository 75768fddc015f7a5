/* Checkpoints as files: what a checkpoint consists of, out and in. */
#include "api/checkpoint.h"
#include "base/clock.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"
#include "server/services/checkpoints.h"
#include "server/services/sharing.h"
#include "workspace/bundle.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { REFERENCE_MAX = 64 * 1024, HEADER_MAX = 160, HEADS_MAX = 64 * 1024 };

static const char TAR_TYPE[] = "application/x-tar";

/* --- out --- */

static int open_download(struct http_exchange *x, struct checkpoint_download *d, struct error *err)
{
    return checkpoint_download_open(http_service(x), http_tenant(x), http_param(x, 0), d, err);
}

/* `fd` is taken out of the download by the caller. */
static void reply_file(struct http_exchange *x, int fd, int64_t size, const char *type,
                       const char *digest)
{
    char etag[DIGEST_TEXT_SIZE + 2];
    snprintf(etag, sizeof(etag), "\"%s\"", digest);
    const struct http_content content = {.fd = fd, .size = size, .type = type, .etag = etag};
    http_reply_content(x, &content);
}

void route_checkpoint_manifest(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct checkpoint_download d;
    if (open_download(x, &d, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    reply_file(x, TAKE_FD(d.files.manifest_fd), d.manifest_bytes, "application/json",
               d.manifest_digest);
    checkpoint_download_done(&d);
}

void route_checkpoint_archive(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct checkpoint_download d;
    if (open_download(x, &d, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    const struct workspace_archive_facts *facts = &d.manifest.facts;
    bool zstd = facts->compression == WORKSPACE_COMPRESSION_ZSTD;
    reply_file(x, TAKE_FD(d.files.archive_fd), facts->archive_bytes,
               zstd ? "application/zstd" : TAR_TYPE, facts->archive_digest);
    checkpoint_download_done(&d);
}

/* What stands around the members: before the first, between two, behind the last. */
enum { AROUND = WORKSPACE_BUNDLE_PARTS + 1 };
_Static_assert(WORKSPACE_BUNDLE_PARTS + AROUND <= HTTP_PARTS_MAX, "an export has room");

static int put_around(struct buf around[AROUND], const struct checkpoint_download *d,
                      const int64_t sizes[WORKSPACE_BUNDLE_PARTS], struct error *err)
{
    for (int i = 0; i < WORKSPACE_BUNDLE_PARTS; i++) {
        enum workspace_bundle_part part = (enum workspace_bundle_part)i;
        if (workspace_bundle_put_head(&around[i], part, d->manifest.facts.compression, sizes[i],
                                      d->manifest.created_at) != 0 ||
            workspace_bundle_put_tail(&around[i + 1], part, sizes[i]) != 0) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
    }
    return 0;
}

static void reply_export(struct http_exchange *x, struct checkpoint_download *d,
                         const struct buf around[AROUND],
                         const int64_t sizes[WORKSPACE_BUNDLE_PARTS])
{
    int *const fds[] = {&d->files.manifest_fd, &d->files.files_fd, &d->files.archive_fd};
    struct http_part parts[HTTP_PARTS_MAX];
    size_t count = 0;
    char name[HEADER_MAX];
    for (int i = 0; i < AROUND; i++) {
        parts[count++] =
            (struct http_part){.data = around[i].data, .fd = -1, .size = (int64_t)around[i].len};
        if (i < WORKSPACE_BUNDLE_PARTS) {
            parts[count++] = (struct http_part){.fd = TAKE_FD(*fds[i]), .size = sizes[i]};
        }
    }
    snprintf(name, sizeof(name), "attachment; filename=\"%s.tar\"", d->manifest.checkpoint_id);
    http_add_header(x, "Content-Disposition", name);
    http_reply_parts(x, TAR_TYPE, parts, count);
}

void route_checkpoint_export(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct checkpoint_download d;
    struct buf around[AROUND];
    if (open_download(x, &d, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    const int64_t sizes[] = {d.manifest_bytes, d.files_bytes, d.manifest.facts.archive_bytes};
    for (int i = 0; i < AROUND; i++) {
        buf_init(&around[i], HEADS_MAX);
    }
    if (put_around(around, &d, sizes, &err) == 0) {
        reply_export(x, &d, around, sizes);
    } else {
        route_fail(x, &err);
    }
    for (int i = 0; i < AROUND; i++) {
        buf_done(&around[i]);
    }
    checkpoint_download_done(&d);
}

/* --- in --- */

static bool is_type(const char *header, const char *type)
{
    size_t len = strlen(type);
    return header != NULL && strncasecmp(header, type, len) == 0 &&
           (header[len] == '\0' || header[len] == ';' || header[len] == ' ');
}

static int read_reference(int fd, int64_t size, char text[REFERENCE_MAX + 1], struct error *err)
{
    if (size > REFERENCE_MAX) {
        return error_set(err, ERROR_PAYLOAD_TOO_LARGE, "a reference has at most %d bytes",
                         REFERENCE_MAX);
    }
    for (int64_t done = 0; done < size;) {
        ssize_t n = pread(fd, text + done, (size_t)(size - done), done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, ERROR_INTERNAL, n < 0 ? errno : EIO,
                                   "cannot read the body");
        }
        done += n;
    }
    return 0;
}

static int import_shared(struct http_exchange *x, char id[ID_SIZE], bool *made, struct error *err)
{
    int64_t size = 0;
    int fd = http_body_file(x, &size);

    char text[REFERENCE_MAX + 1];
    struct api_checkpoint_import request = {0};
    if (read_reference(fd, size, text, err) != 0 ||
        api_checkpoint_import_decode(text, (size_t)size, &request, err) != 0) {
        return -1;
    }
    const struct sharing_import reference = {
        {http_tenant(x), http_quotas(x)}, request.uri, request.digest, route_claim(x)};
    int result = sharing_import(http_service(x), &reference, id, made, err);
    api_checkpoint_import_done(&request);
    return result;
}

static int import(struct http_exchange *x, char id[ID_SIZE], bool *made, struct error *err)
{
    const char *type = http_header(x, "Content-Type");
    int64_t size = 0;
    int fd = http_body_file(x, &size);
    if (service_accepts_work(http_service(x), err) != 0) {
        return -1;
    }
    if (is_type(type, TAR_TYPE)) {
        const struct checkpoint_import request = {
            {http_tenant(x), http_quotas(x)}, fd, size, route_claim(x)};
        return checkpoints_import(http_service(x), &request, id, made, err);
    }
    if (is_type(type, "application/json")) {
        return import_shared(x, id, made, err);
    }
    return error_set(err, ERROR_UNSUPPORTED_MEDIA_TYPE,
                     "the body must be an exported checkpoint (application/x-tar) or a shared "
                     "reference (application/json)");
}

void route_checkpoint_import(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    char id[ID_SIZE];
    bool made = false;
    if (import(x, id, &made, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    route_location(x, "/v1/checkpoints/%s", id);
    route_reply_checkpoint(x, made ? 201 : 200, id);
}
