#include "web/assets.h"

#include "web/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void fill(const struct web_embedded *e, bool gzip, struct web_asset *out)
{
    const char *first = gzip ? e->gzip : e->plain;
    const char *end = gzip ? e->gzip_end : e->plain_end;

    *out = (struct web_asset){
        .type = e->type,
        .data = first,
        .len = (size_t)(end - first),
        .is_packed = gzip,
    };
    snprintf(out->etag, sizeof(out->etag), "\"%s%s\"", e->digest, gzip ? "-gzip" : "");
}

bool web_asset_find(const char *name, bool gzip, struct web_asset *out)
{
    for (size_t i = 0; i < web_table_count; i++) {
        const struct web_embedded *e = &web_table[i];

        if (strcmp(e->name, name) == 0) {
            fill(e, gzip && e->gzip != NULL, out);
            return true;
        }
    }
    return false;
}

/* Whether the parameters of a coding (";q=0.5") leave it any weight. */
static bool has_weight(const char *parameters, size_t len)
{
    char text[32];
    const char *weight;

    if (len >= sizeof(text)) {
        return false;
    }
    memcpy(text, parameters, len);
    text[len] = '\0';
    weight = strcasestr(text, "q=");
    return weight == NULL || strtod(weight + 2, NULL) > 0;
}

bool web_accepts_gzip(const char *accept_encoding)
{
    const char *at = accept_encoding;

    while (at != NULL && *at != '\0') {
        size_t name;
        size_t len;

        at += strspn(at, ", \t");
        len = strcspn(at, ",");
        name = strcspn(at, ",; \t");
        if (name == strlen("gzip") && strncasecmp(at, "gzip", name) == 0) {
            return has_weight(at + name, len - name);
        }
        at += len;
    }
    return false;
}
