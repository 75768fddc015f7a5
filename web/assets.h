/* The dashboard as it stands in the binary: one page and the assets it names. Static; any thread;
 * nothing blocks. */
#ifndef EXECHOST_WEB_ASSETS_H
#define EXECHOST_WEB_ASSETS_H

#include <stdbool.h>
#include <stddef.h>

enum { WEB_ETAG_SIZE = 32 };

struct web_asset {
    const char *type;
    char etag[WEB_ETAG_SIZE]; /* quoted; another one for each form */
    const char *data;
    size_t len;
    bool is_packed; /* by gzip */
};

/* `name` is what stands behind /assets/, "" the page. Packed where `gzip` is set and such a form is
 * there. False when there is none of that name. */
bool web_asset_find(const char *name, bool gzip, struct web_asset *out);

/* Whether an Accept-Encoding (NULL: none) takes gzip. */
bool web_accepts_gzip(const char *accept_encoding);

#endif
