/* What the tests of the image store share: tars made byte by byte, so that hostile ones can be made
 * too, and images of several layers. One thread. */
#ifndef EXECHOST_TESTS_NATIVE_FIXTURE_H
#define EXECHOST_TESTS_NATIVE_FIXTURE_H

#include "base/buf.h"
#include "base/digest.h"
#include "host/native/images.h"

enum { FIXTURE_TAR_MAX = 8 * 1024 * 1024 };

/* Appends an entry: `type` as in a tar header ('0' file, '1' hard link, '2' symbolic link,
 * '3' device, '5' directory, '6' FIFO). */
void fixture_tar_put(struct buf *tar, char type, const char *name, unsigned mode, const char *text);
/* The same for something that claims to have `size` bytes and brings none. */
void fixture_tar_claim(struct buf *tar, const char *name, long long size);
void fixture_tar_end(struct buf *tar);

void fixture_digest(const struct buf *data, char out[DIGEST_TEXT_SIZE]);
void fixture_put(const char *dir, const char *name, const struct buf *data);
/* The same bytes in gzip or zstd. */
void fixture_pack(const struct buf *data, bool zstd, struct buf *out);

enum { FIXTURE_LAYERS_MAX = 4 };
/* An image as layout in `dir`: layers gzipped, `run` the JSON of its run configuration. */
struct fixture_image {
    const struct buf *layers[FIXTURE_LAYERS_MAX];
    size_t layer_count;
    const char *run;
    const char *architecture; /* NULL: this machine's */
    /* results */
    char id[DIGEST_TEXT_SIZE];
    char manifest[DIGEST_TEXT_SIZE];
    char layer_digest[FIXTURE_LAYERS_MAX][DIGEST_TEXT_SIZE];
};
void fixture_layout_make(const char *dir, struct fixture_image *image);
/* The same as `docker save` archive in a tar. */
void fixture_saved_make(struct buf *tar, struct fixture_image *image);

/* One line an entry of the tree: type mode name [> target] [= text]; sorted. Returns owned. */
char *fixture_tree_text(const char *dir);

#endif
