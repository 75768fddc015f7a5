/* The dashboard: one page and its assets, the same for everybody. They hold no data of any tenant,
 * so they need no token; the page asks for one. */
#include "server/http/range.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"
#include "web/assets.h"

/* Nothing but its own assets, no inline script or style, no request to anywhere else, in no frame.
 * blob: is for pictures of a workspace, which are fetched with the token. */
static const char POLICY[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

static void add_headers(struct http_exchange *x, const struct web_asset *a, const char *caching)
{
    http_add_header(x, "ETag", a->etag);
    http_add_header(x, "Cache-Control", caching);
    http_add_header(x, "Vary", "Accept-Encoding");
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    http_add_header(x, "Referrer-Policy", "no-referrer");
    http_add_header(x, "Cross-Origin-Resource-Policy", "same-origin");
    http_add_header(x, "Cross-Origin-Opener-Policy", "same-origin");
    http_add_header(x, "Content-Security-Policy", POLICY);
    if (a->is_packed) {
        http_add_header(x, "Content-Encoding", "gzip");
    }
}

static void reply_asset(struct http_exchange *x, const char *name, const char *caching)
{
    const char *known = http_header(x, "If-None-Match");
    struct web_asset asset;
    unsigned status = 200;

    if (!web_asset_find(name, web_accepts_gzip(http_header(x, "Accept-Encoding")), &asset)) {
        struct error err = ERROR_INIT;

        (void)error_set(&err, ERROR_ROUTE_NOT_FOUND, "there is nothing at this path");
        route_fail(x, &err);
        return;
    }
    if (known != NULL && range_etag_listed(known, asset.etag)) {
        status = 304;
    }
    add_headers(x, &asset, caching);
    http_reply_bytes(x, status, asset.type, asset.data, asset.len, false);
}

void route_dashboard(struct http_exchange *x)
{
    reply_asset(x, "", "no-cache");
}

/* Their names carry their digest. */
void route_asset(struct http_exchange *x)
{
    const char *name = http_param(x, 0);

    reply_asset(x, name[0] != '\0' ? name : "/", "public, max-age=31536000, immutable");
}
