/* Images on the wire. Pure; any thread. */
#ifndef EXECHOST_API_IMAGE_H
#define EXECHOST_API_IMAGE_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* POST /v1/images. Whether the reference is one is policy_image_reference()'s to say. */
struct api_image_fetch {
    json_t *root; /* owned */
    const char *reference;
    const char *host; /* NULL: the default one */
};

int api_image_fetch_decode(const char *body, size_t len, struct api_image_fetch *out,
                           struct error *err) WARN_UNUSED;
void api_image_fetch_done(struct api_image_fetch *request);

/* A view; borrows everything. */
struct api_image {
    const char *reference;
    const char *host;
    json_t *digests; /* array */
    int64_t size_bytes;
};

/* Returns owned; NULL when memory is out. */
json_t *api_image_encode(const struct api_image *view);

#endif
