/* Images from a registry, by skopeo, where that is installed. It gets no environment but what is
 * written here, and no credentials. */
#include "host/native/images_internal.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { INSPECT_TIMEOUT_MS = 2 * 60 * 1000, COPY_TIMEOUT_MS = 30 * 60 * 1000, DIAG_MAX = 8192 };

static int not_fetched(struct error *err, const char *why)
{
    return error_set_field(err, ERROR_IMAGE_NOT_FOUND, "/image",
                           "the image could not be fetched: %.300s", why);
}

/* What it says is "time=… level=fatal msg=\"…\"". */
static const char *reason_of(struct buf *diag)
{
    const char *text = buf_str(diag);
    const char *message = strstr(text, "level=fatal msg=");

    return message != NULL ? message + strlen("level=fatal msg=") : text;
}

static int run_skopeo(const struct native_image_job *job, const char *const *argv,
                      int64_t timeout_ms, struct buf *out, struct error *err)
{
    char home[PATH_MAX];
    const char *const envp[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", home, NULL};
    _cleanup_buf_ struct buf diag;
    struct child_run run = {.spec = {.argv = argv, .envp = envp},
                            .deadline_mono_ms = clock_mono_ms() + timeout_ms,
                            .cancel = job->cancel,
                            .out = out,
                            .diag = &diag};

    buf_init(&diag, DIAG_MAX);
    (void)snprintf(home, sizeof(home), "HOME=%s/new", job->store->directory);
    if (child_run(&run, err) < 0) {
        char why[ERROR_DETAIL_MAX];

        (void)snprintf(why, sizeof(why), "%s", err->detail);
        return not_fetched(err, why);
    }
    return run.status == 0 ? 0 : not_fetched(err, reason_of(&diag));
}

/* Engines take a registry on the own machine without TLS, too. */
static const char *tls_of(const char *reference, const char *yes, const char *no)
{
    static const char *const LOCAL[] = {"127.", "localhost:", "localhost/", "[::1]"};

    for (size_t i = 0; i < ARRAY_SIZE(LOCAL); i++) {
        if (strncmp(reference, LOCAL[i], strlen(LOCAL[i])) == 0) {
            return no;
        }
    }
    return yes;
}

/* Its manifest or index, as the registry has it. */
static int inspect(const struct native_image_job *job, const char *url, struct buf *out,
                   struct error *err)
{
    const char *reference = url + strlen("docker://");
    const char *const argv[] = {
        "skopeo",     "--insecure-policy",
        "inspect",    "--raw",
        "--no-creds", tls_of(reference, "--tls-verify=true", "--tls-verify=false"),
        url,          NULL};

    return run_skopeo(job, argv, INSPECT_TIMEOUT_MS, out, err);
}

/* As layout: skopeo leaves the bytes of a manifest as they are, whichever kind it is. */
static int copy(const struct native_image_job *job, const char *url, const char *to,
                struct error *err)
{
    const char *reference = url + strlen("docker://");
    const char *const argv[] = {
        "skopeo",
        "--insecure-policy",
        "copy",
        "--quiet",
        "--preserve-digests",
        "--src-no-creds",
        tls_of(reference, "--src-tls-verify=true", "--src-tls-verify=false"),
        url,
        to,
        NULL};
    _cleanup_buf_ struct buf out;

    buf_init(&out, DIAG_MAX);
    return run_skopeo(job, argv, COPY_TIMEOUT_MS, &out, err);
}

/* --- what to copy --- */

static int url_of(struct buf *url, const char *name, const char *digest, struct error *err)
{
    buf_reset(url);
    if (buf_addf(url, "docker://%s%s%s", name, digest != NULL ? "@" : "",
                 digest != NULL ? digest : "") < 0) {
        return error_set(err, ERROR_INVALID_REQUEST, "the reference is too long");
    }
    return 0;
}

static int check_sizes(const struct native_image_job *job, const struct buf *text,
                       struct error *err)
{
    struct native_image_manifest manifest;
    int64_t left = job->limits.bytes;

    if (native_image_manifest_decode(buf_str(text), text->len, &manifest, err) < 0) {
        return -1;
    }
    for (size_t i = 0; i < manifest.layer_count && left >= 0; i++) {
        left = manifest.layers[i].size <= left ? left - manifest.layers[i].size : -1;
    }
    native_image_manifest_done(&manifest);
    return left >= 0 ? 0
                     : error_set(err, ERROR_INVALID_REQUEST,
                                 "the image is larger than what may be unpacked");
}

/* Follows indexes to this machine's manifest. `top` gets the digest of what the reference names. */
static int find_manifest(const struct native_image_job *job, const char *name, const char *pinned,
                         struct native_image_blob *manifest, char top[DIGEST_TEXT_SIZE],
                         struct error *err)
{
    enum { NESTED_MAX = 4 };
    struct native_image_blob next = {.digest = ""};
    _cleanup_buf_ struct buf text;
    _cleanup_buf_ struct buf url;

    buf_init(&text, NATIVE_IMAGE_DOCUMENT_MAX);
    buf_init(&url, PATH_MAX);
    for (int depth = 0; depth < NESTED_MAX; depth++) {
        const char *wanted = depth > 0 ? next.digest : pinned;
        int r;

        buf_reset(&text);
        if (url_of(&url, name, wanted, err) < 0 || inspect(job, buf_str(&url), &text, err) < 0) {
            return -1;
        }
        native_image_digest(&text, manifest->digest);
        if (wanted != NULL && strcmp(wanted, manifest->digest) != 0) {
            return not_fetched(err, "the registry's answer is not what its digest says");
        }
        if (depth == 0) {
            memcpy(top, manifest->digest, DIGEST_TEXT_SIZE);
        }
        r = native_image_index_choose(buf_str(&text), text.len, &next, err);
        if (r <= 0) {
            return r < 0 ? -1 : check_sizes(job, &text, err);
        }
    }
    return not_fetched(err, "its indexes are nested too deep");
}

static int copy_and_import(const struct native_image_job *job, const char *name, const char *digest,
                           struct native_image_record *out, struct error *err)
{
    struct native_image_draft draft;
    _cleanup_buf_ struct buf url;
    _cleanup_buf_ struct buf to;
    int result = -1;

    buf_init(&url, PATH_MAX);
    buf_init(&to, PATH_MAX);
    if (native_image_draft_new(job->store, &draft, err) < 0) {
        return -1;
    }
    if (buf_addf(&to, "dir:%s/new/%s/root", job->store->directory, draft.name) < 0) {
        error_set(err, ERROR_INTERNAL, "path too long");
    } else if (url_of(&url, name, digest, err) == 0 &&
               copy(job, buf_str(&url), buf_str(&to), err) == 0) {
        result = native_image_import(job, buf_str(&to) + strlen("dir:"), out, err);
    }
    native_image_draft_drop(job->store, &draft);
    return result;
}

int native_image_fetch(const struct native_image_job *job, const char *reference,
                       struct native_image_record *out, struct error *err)
{
    const char *at = strrchr(reference, '@');
    _cleanup_free_ char *name =
        at != NULL ? strndup(reference, (size_t)(at - reference)) : strdup(reference);
    struct native_image_job named = *job;
    struct native_image_blob manifest = {.digest = ""};
    char top[DIGEST_TEXT_SIZE];

    if (name == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (find_manifest(job, name, at != NULL ? at + 1 : NULL, &manifest, top, err) < 0) {
        return -1;
    }
    named.name = name;
    named.digest = top;
    return copy_and_import(&named, name, manifest.digest, out, err);
}
