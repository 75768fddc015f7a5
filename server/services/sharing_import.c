/* Taking in what another worker has published. */
#include "base/clock.h"
#include "base/log.h"
#include "server/metrics.h"
#include "server/services/admission.h"
#include "server/services/sharing_private.h"
#include "workspace/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { COPY_SIZE = 256 * 1024 };

/* --- manifests --- */

void sharing_digest_of(const char *text, size_t len, char out[DIGEST_TEXT_SIZE])
{
    struct digest *digest = digest_new();

    digest_update(digest, text, len);
    digest_final(digest, out);
    digest_free(digest);
}

void sharing_manifest_init(struct sharing_manifest *out)
{
    *out = (struct sharing_manifest){0};
    buf_init(&out->text, WORKSPACE_MANIFEST_MAX + 1);
    workspace_manifest_init(&out->m);
}

void sharing_manifest_done(struct sharing_manifest *out)
{
    buf_done(&out->text);
    workspace_manifest_done(&out->m);
}

int sharing_manifest_fetch(struct sharing *sh, const char *key, struct sharing_manifest *out,
                           struct error *err)
{
    const struct objects_watch watch = sharing_watch(sh);

    if (objects_get(sh->objects, key, &watch, &out->text, &out->head, err) != 0) {
        return -1;
    }
    sharing_digest_of(buf_str(&out->text), out->text.len, out->digest);
    return 0;
}

int sharing_manifest_decode(struct sharing_manifest *out, struct error *err)
{
    const char *text = buf_str(&out->text);

    if (memchr(text, '\0', out->text.len) != NULL) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "manifest: a NUL in it");
    }
    return workspace_manifest_decode(&out->m, text, out->text.len, err);
}

/* --- the files --- */

struct arrival {
    struct sharing *sh;
    const char *tenant;
    const char *id;
    const char *digest; /* of the manifest, as the reference says */
    struct sharing_manifest manifest;
    _Atomic int64_t fetched; /* bytes of blobs */
};

static void on_moved(void *ctx, int64_t bytes)
{
    struct arrival *a = ctx;
    atomic_fetch_add(&a->fetched, bytes);
}

static int look_for(struct arrival *a, const char *key, const char *name, int64_t *size,
                    struct error *err)
{
    struct objects_head head;
    const struct objects_watch watch = sharing_watch(a->sh);

    if (objects_head(a->sh->objects, key, &watch, &head, err) != 0) {
        return -1;
    }
    if (!head.exists) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the %s is missing in the shared store",
                         name);
    }
    if (*size >= 0 && head.size != *size) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "the %s has %lld bytes in the shared store, the manifest says %lld: its "
                         "digest can't be %s",
                         name, (long long)head.size, (long long)*size,
                         a->manifest.m.facts.archive_digest);
    }
    *size = head.size;
    return 0;
}

static int fetch(struct arrival *a, const char *key, const struct objects_target *target,
                 struct error *err)
{
    struct objects_watch watch = sharing_watch(a->sh);
    watch.moved = on_moved;
    watch.ctx = a;
    return objects_get_file(a->sh->objects, key, target, &watch, err);
}

static int fetch_archive(struct arrival *a, int fd, struct error *err)
{
    char key[SHARED_KEY_SIZE];
    const struct workspace_archive_facts *facts = &a->manifest.m.facts;
    struct objects_target target = {fd, facts->archive_bytes, facts->archive_digest, "archive"};

    if (sharing_blob_key(a->sh, a->tenant, a->manifest.m.facts.archive_digest, key, err) != 0 ||
        look_for(a, key, target.name, &target.size, err) != 0) {
        return -1;
    }
    return fetch(a, key, &target, err);
}

static int pack(const struct objects_target *from, struct workspace_output *output,
                struct error *err)
{
    _cleanup_free_ char *data = malloc(COPY_SIZE);
    int result = data != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");

    for (int64_t at = 0; result == 0 && at < from->size;) {
        ssize_t n = pread(from->fd, data, COPY_SIZE, at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            result = error_set_errno(err, ERROR_INTERNAL, n < 0 ? errno : EIO,
                                     "cannot read what was fetched");
            break;
        }
        result = workspace_output_write(output, data, (size_t)n, err);
        at += n;
    }
    return result;
}

static int store_list(struct arrival *a, const struct objects_target *from, int to,
                      struct error *err)
{
    const struct config *config = a->sh->service->config;
    struct workspace_output *output = NULL;
    char digest[DIGEST_TEXT_SIZE];
    int64_t stored;

    if (workspace_output_new(to, a->manifest.m.facts.compression, (int)config->zstd_level, &output,
                             err) != 0) {
        return -1;
    }
    int result = pack(from, output, err);
    if (result == 0) {
        result = workspace_output_finish(output, digest, &stored, err);
    }
    workspace_output_free(output);
    return result;
}

/* The list is as large as it says; as much as an archive may have is enough for any. */
static int fetch_list(struct arrival *a, int to, struct error *err)
{
    char key[SHARED_KEY_SIZE];
    _cleanup_close_ int fd = open(a->sh->service->scratch, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct objects_target target = {fd, -1, a->manifest.m.facts.files_digest, "file list"};

    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot make a scratch file");
    }
    if (sharing_blob_key(a->sh, a->tenant, a->manifest.m.facts.files_digest, key, err) != 0 ||
        look_for(a, key, target.name, &target.size, err) != 0) {
        return -1;
    }
    if (target.size > a->sh->service->config->import_max) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the file list is larger than %lld bytes",
                         (long long)a->sh->service->config->import_max);
    }
    return fetch(a, key, &target, err) != 0 ? -1 : store_list(a, &target, to, err);
}

static int fill(void *ctx, const struct store_checkpoint_draft *draft, struct error *err)
{
    struct arrival *a = ctx;

    return fetch_archive(a, draft->archive_fd, err) != 0 ? -1 : fetch_list(a, draft->files_fd, err);
}

/* --- the whole --- */

static int fetch_manifest(struct arrival *a, const char *key, struct error *err)
{
    if (sharing_manifest_fetch(a->sh, key, &a->manifest, err) != 0) {
        return -1;
    }
    if (!a->manifest.head.exists) {
        return error_set(err, ERROR_CHECKPOINT_NOT_FOUND,
                         "there is no checkpoint %s in the shared store", a->id);
    }
    if (strcmp(a->manifest.digest, a->digest) != 0) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "manifest: its digest is %s, the reference says %s", a->manifest.digest,
                         a->digest);
    }
    if (sharing_manifest_decode(&a->manifest, err) != 0) {
        return -1;
    }
    if (strcmp(a->manifest.m.checkpoint_id, a->id) != 0) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "manifest: it is of the checkpoint %s, not of %s",
                         a->manifest.m.checkpoint_id, a->id);
    }
    if (a->manifest.m.facts.archive_bytes > a->sh->service->config->import_max) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the archive is larger than %lld bytes",
                         (long long)a->sh->service->config->import_max);
    }
    return 0;
}

static int take_in(struct arrival *a, const struct sharing_import *request, const char *uri,
                   bool *made, struct error *err)
{
    int64_t total = a->manifest.m.facts.archive_bytes + (int64_t)a->manifest.text.len;
    const struct store_checkpoint_shared shared = {
        .durability = "durable",
        .uri = uri,
        .digest = a->manifest.digest,
        .at = a->manifest.head.modified,
        .sent = total,
        .bytes = total,
    };
    const struct checkpoint_intake intake = {
        .tenant = request->who.tenant,
        .manifest = &a->manifest.m,
        .text = buf_str(&a->manifest.text),
        .claim = request->claim,
        .stored_max = request->who.quotas->stored_bytes,
        .shared = &shared,
        .fill = fill,
        .ctx = a,
    };
    return checkpoint_take_in(a->sh->service, &intake, made, err);
}

int sharing_import(struct service *s, const struct sharing_import *request, char id[ID_SIZE],
                   bool *made, struct error *err)
{
    char key[SHARED_KEY_SIZE];
    char named[ID_SIZE];
    struct arrival a = {.tenant = request->who.tenant, .id = named, .digest = request->digest};

    if (sharing_check(s, NULL, err) != 0) {
        return -1;
    }
    a.sh = s->sharing;
    if (sharing_uri_read(a.sh, request->who.tenant, request->uri, named, err) != 0 ||
        sharing_manifest_key(a.sh, request->who.tenant, named, key, err) != 0) {
        return -1;
    }
    if (admission_storing(s, request->who.tenant, request->who.quotas, 0, err) != 0) {
        return -1;
    }
    sharing_manifest_init(&a.manifest);
    int64_t begun = clock_mono_us();
    int result = fetch_manifest(&a, key, err);
    if (result == 0) {
        result = take_in(&a, request, request->uri, made, err);
    }
    metrics_transfer(s->metrics, METRICS_DOWNLOAD, result == 0, atomic_load(&a.fetched),
                     clock_mono_us() - begun);
    if (result == 0) {
        memcpy(id, named, ID_SIZE);
        log_info("shared checkpoint imported", "checkpoint", id, "tenant", request->who.tenant,
                 NULL);
    } else {
        service_name_the_stop(s, err);
        (void)error_in_phase(err, PHASE_IMPORT);
    }
    sharing_manifest_done(&a.manifest);
    return result;
}
