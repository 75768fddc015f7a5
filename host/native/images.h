/* The native host's images: a store below one directory, addressed by digest.
 *
 *   lock            held for a moment by whoever changes which images and names there are
 *   new/NAME/       what is being unpacked or removed; its own lock says that somebody is at it
 *   HEX/            one image; HEX is its id: the digest of its configuration, which for a bare
 *                   root file system is made up of nothing but the digest of the tar
 *   HEX/root/       the unpacked root file system, everything owned by root; /dev, /proc, /tmp and
 *                   /workspace are directories in every one, and /etc/hosts knows localhost
 *   HEX/config.json the configuration as it came
 *   HEX/image.json  names, all digests, size
 *
 * All locks are flock(2), so that any number of processes may work on one store: `exechost image
 * import` beside a running service. Nothing that an archive says is ever followed as a path: every
 * access is relative to a directory descriptor and stays beneath it.
 *
 * Any thread; all block but native_image_release(). */
#ifndef EXECHOST_HOST_NATIVE_IMAGES_H
#define EXECHOST_HOST_NATIVE_IMAGES_H

#include "base/cancel.h"
#include "base/error.h"
#include "host/host.h"

#include <stdbool.h>
#include <stdint.h>

struct native_images;

/* What unpacking may cost; 0 stands for the default. */
struct native_images_limits {
    int64_t bytes;   /* of one image, unpacked and apparent, and of a compressed file's content */
    int64_t entries; /* of all layers together */
};

enum { NATIVE_IMAGES_ENTRIES = 2000000 };
#define NATIVE_IMAGES_BYTES (INT64_C(32) << 30)

struct native_images_config {
    const char *directory; /* "<data>/native/images"; made where it is missing */
    bool fetch_missing;    /* check and acquire fetch what is absent (skopeo) */
    bool allow_unpinned;
    struct native_images_limits limits;
};

/* Strings are copied. Removes what a crash left half-made. */
int native_images_open(const struct native_images_config *config, struct native_images **out,
                       struct error *err) WARN_UNUSED;
void native_images_close(struct native_images *images); /* NULL is fine */

/* --- for executions --- */

/* What an execution needs of its image. The image can't be removed as long as any copy of `lock_fd`
 * is open in any process (an inherited one too: a shim keeps it through a restart of the service).
 */
struct native_image {
    int lock_fd;        /* the image's directory; owned, close-on-exec */
    int root_fd;        /* its root file system, a directory; owned, close-on-exec */
    char *root_path;    /* the same by absolute path; owned */
    char *digests;      /* JSON array of every digest that names it, its id first; owned */
    char **environment; /* NULL-ended "NAME=VALUE"; owned */
};

#define NATIVE_IMAGE_INIT                                                                          \
    {                                                                                              \
        .lock_fd = -1, .root_fd = -1                                                               \
    }

/* Refuses what has no place in an execution: ERROR_IMAGE_NOT_FOUND, volumes or another machine's
 * (ERROR_INVALID_REQUEST, field /image), secret-like environment (ERROR_CREDENTIAL). */
int native_images_check(struct native_images *images, const char *reference, struct cancel *cancel,
                        struct error *err) WARN_UNUSED;
/* The same, and holds the image. */
int native_image_acquire(struct native_images *images, const char *reference, struct cancel *cancel,
                         struct native_image *out, struct error *err) WARN_UNUSED;
/* Closes and frees; idempotent. */
void native_image_release(struct native_image *image);

/* --- what a person asks for: as in host.h --- */

int native_images_list(struct native_images *images, struct host_image_list *out,
                       struct error *err) WARN_UNUSED;
/* Fetches with skopeo unless it is there. ERROR_IMAGE_NOT_FOUND where that is not installed. */
int native_images_pull(struct native_images *images, const char *reference, struct host_image *out,
                       struct error *err) WARN_UNUSED;
/* ERROR_ID_IN_USE while an execution holds it. */
int native_images_remove(struct native_images *images, const char *reference,
                         struct error *err) WARN_UNUSED;
/* `file`: a root file system as tar, a `docker save` archive, an OCI layout as tar (each also
 * compressed: gzip, zstd, xz, bzip2) or as directory. ERROR_INVALID_REQUEST says what is wrong with
 * it. The reference is NAME@<image id>. The same file always gives the same one. */
int native_images_import(struct native_images *images, const char *name, const char *file,
                         struct host_image *out, struct error *err) WARN_UNUSED;

#endif
