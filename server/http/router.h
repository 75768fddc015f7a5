/* Which route a request means. Pure; any thread. */
#ifndef EXECHOST_SERVER_HTTP_ROUTER_H
#define EXECHOST_SERVER_HTTP_ROUTER_H

#include "server/http/http.h"
#include "server/http/uri.h"

enum { ROUTER_ALLOW_SIZE = 64 };

struct router_match {
    const struct http_route *route;      /* NULL when nothing has this path and method */
    const char *params[HTTP_PARAMS_MAX]; /* borrowed from the uri */
    /* Without a route: the methods of the path, "GET, HEAD, POST"; "" when it is unknown. */
    char allow[ROUTER_ALLOW_SIZE];
};

/* HEAD means the GET route. Of two routes that fit the first is taken. */
void router_find(const struct http_route *routes, size_t count, const struct uri *uri,
                 const char *method, struct router_match *out);
/* ERROR_INVALID_REQUEST with "?name" in `field` for a malformed query or a name the route does not
 * take. */
int router_check_query(const struct http_route *route, const struct uri *uri,
                       struct error *err) WARN_UNUSED;

#endif
