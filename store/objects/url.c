#include "store/objects/url.h"

#include "store/objects/objects.h"

#include <string.h>
#include <strings.h>

static bool is_plain(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '~';
}

int objects_url_escape(struct buf *out, const char *text, bool keep_slash)
{
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        bool plain = is_plain(*c) || (*c == '/' && keep_slash);

        if (plain ? buf_add_char(out, (char)*c) != 0 : buf_addf(out, "%%%02X", *c) != 0) {
            return -1;
        }
    }
    return 0;
}

int objects_url_query(struct buf *out, const char *name, const char *value)
{
    if (out->len > 0 && buf_add_char(out, '&') != 0) {
        return -1;
    }
    return buf_addf(out, "%s=", name) != 0 ? -1 : objects_url_escape(out, value, false);
}

int objects_url(struct buf *out, const struct objects_place *place, const char *key,
                const char *query)
{
    const char *host = strstr(place->endpoint, "://") + 3;
    int scheme = (int)(host - place->endpoint);
    int result;

    if (place->path_style) {
        result = buf_addf(out, "%s/%s/", place->endpoint, place->bucket);
    } else {
        result = buf_addf(out, "%.*s%s.%s/", scheme, place->endpoint, place->bucket, host);
    }
    if (result != 0 || objects_url_escape(out, key, true) != 0) {
        return -1;
    }
    return query == NULL || *query == '\0' ? 0 : buf_addf(out, "?%s", query);
}

bool objects_endpoint_is_valid(const char *endpoint)
{
    const char *host = NULL;

    if (strncasecmp(endpoint, "http://", 7) == 0) {
        host = endpoint + 7;
    } else if (strncasecmp(endpoint, "https://", 8) == 0) {
        host = endpoint + 8;
    }
    return host != NULL && *host != '\0' && *host != ':' &&
           host[strspn(host,
                       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:[]")] ==
               '\0';
}
