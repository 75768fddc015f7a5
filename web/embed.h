/* Inside of the module: what the build writes and assets.c reads. Static; any thread. */
#ifndef EXECHOST_WEB_EMBED_H
#define EXECHOST_WEB_EMBED_H

#include "base/embed.h"

#include <stddef.h>

struct web_embedded {
    const char *name; /* below /assets/; "" is the page */
    const char *type;
    const char *digest;
    const char *plain;
    const char *plain_end;
    const char *gzip; /* NULL: not packed */
    const char *gzip_end;
};

extern const struct web_embedded web_table[];
extern const size_t web_table_count;

#endif
