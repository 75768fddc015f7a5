/* Checkpoints as files: sent, and taken in from an export. */
#include "base/file.h"
#include "base/log.h"
#include "server/services/admission.h"
#include "server/services/checkpoints_private.h"
#include "workspace/archive.h"
#include "workspace/bundle.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* --- out --- */

static int measure(struct checkpoint_download *d, struct error *err)
{
    struct stat archive;
    struct stat files;
    if (fstat(d->files.archive_fd, &archive) != 0 || fstat(d->files.files_fd, &files) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot look at the checkpoint's files");
    }
    if (archive.st_size != d->manifest.facts.archive_bytes) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "the archive has %lld bytes, the manifest says %lld",
                         (long long)archive.st_size, (long long)d->manifest.facts.archive_bytes);
    }
    d->files_bytes = files.st_size;
    d->manifest_bytes = (int64_t)strlen(d->files.manifest);
    struct digest *digest = digest_new();
    digest_update(digest, d->files.manifest, (size_t)d->manifest_bytes);
    digest_final(digest, d->manifest_digest);
    digest_free(digest);
    return 0;
}

int checkpoint_download_open(struct service *s, const char *tenant, const char *id,
                             struct checkpoint_download *out, struct error *err)
{
    struct checkpoint_download d = {.files = {.archive_fd = -1, .files_fd = -1, .manifest_fd = -1}};
    workspace_manifest_init(&d.manifest);
    if (checkpoint_files_open(s, tenant, id, &d.files, &d.manifest, err) != 0 ||
        measure(&d, err) != 0) {
        checkpoint_download_done(&d);
        return -1;
    }
    *out = d;
    return 0;
}

void checkpoint_download_done(struct checkpoint_download *d)
{
    store_checkpoint_files_done(&d->files);
    workspace_manifest_done(&d->manifest);
}

/* --- in --- */

struct import {
    struct service *service;
    const char *tenant;
    int64_t stored_max;
    int fd;
    int64_t claim;
    struct workspace_bundle bundle;
    struct buf text; /* the manifest's */
    struct workspace_manifest manifest;
};

static int read_manifest(struct import *i, struct error *err)
{
    const struct workspace_bundle_member *m = &i->bundle.members[WORKSPACE_BUNDLE_MANIFEST];
    if (buf_reserve(&i->text, (size_t)m->size + 1) == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    while (i->text.len < (size_t)m->size) {
        ssize_t n = pread(i->fd, i->text.data + i->text.len, (size_t)m->size - i->text.len,
                          m->offset + (int64_t)i->text.len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, ERROR_INTERNAL, n < 0 ? errno : EIO,
                                   "cannot read the export");
        }
        i->text.len += (size_t)n;
    }
    i->text.data[i->text.len] = '\0';
    if (memchr(i->text.data, '\0', i->text.len) != NULL) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "manifest: a NUL in it");
    }
    return workspace_manifest_decode(&i->manifest, i->text.data, i->text.len, err);
}

static int check_bundle(const struct import *i, struct error *err)
{
    if (i->bundle.compression != i->manifest.facts.compression) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "manifest: compression: the files' names say another");
    }
    if (i->bundle.members[WORKSPACE_BUNDLE_ARCHIVE].size != i->manifest.facts.archive_bytes) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "the archive has %lld bytes, the manifest says %lld",
                         (long long)i->bundle.members[WORKSPACE_BUNDLE_ARCHIVE].size,
                         (long long)i->manifest.facts.archive_bytes);
    }
    return 0;
}

static int copy_member(const struct import *i, enum workspace_bundle_part part, int to,
                       struct error *err)
{
    const struct workspace_bundle_member *m = &i->bundle.members[part];
    return file_copy_range(i->fd, m->offset, m->size, to, err);
}

static int copy_members(void *ctx, const struct store_checkpoint_draft *draft, struct error *err)
{
    const struct import *i = ctx;
    return copy_member(i, WORKSPACE_BUNDLE_ARCHIVE, draft->archive_fd, err) != 0
               ? -1
               : copy_member(i, WORKSPACE_BUNDLE_FILES, draft->files_fd, err);
}

static int import(struct import *i, int64_t size, bool *made, struct error *err)
{
    if (workspace_bundle_find(i->fd, size, &i->bundle, err) != 0 || read_manifest(i, err) != 0 ||
        check_bundle(i, err) != 0) {
        return -1;
    }
    const struct checkpoint_intake intake = {
        .tenant = i->tenant,
        .manifest = &i->manifest,
        .text = i->text.data,
        .claim = i->claim,
        .stored_max = i->stored_max,
        .fill = copy_members,
        .ctx = i,
    };
    return checkpoint_take_in(i->service, &intake, made, err);
}

int checkpoints_import(struct service *s, const struct checkpoint_import *request, char id[ID_SIZE],
                       bool *made, struct error *err)
{
    const struct caller *who = &request->who;
    struct import i = {.service = s,
                       .tenant = who->tenant,
                       .stored_max = who->quotas->stored_bytes,
                       .fd = request->fd,
                       .claim = request->claim};

    if (admission_storing(s, who->tenant, who->quotas, 0, err) != 0) {
        return -1;
    }
    workspace_manifest_init(&i.manifest);
    buf_init(&i.text, WORKSPACE_MANIFEST_MAX + 1);
    int result = import(&i, request->size, made, err);
    if (result == 0) {
        memcpy(id, i.manifest.checkpoint_id, ID_SIZE);
        log_info("checkpoint imported", "checkpoint", id, "tenant", i.tenant, NULL);
    }
    workspace_manifest_done(&i.manifest);
    buf_done(&i.text);
    return result;
}
