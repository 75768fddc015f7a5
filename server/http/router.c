#include "server/http/router.h"

#include <string.h>

/* `pattern` is at the start of a segment. Returns its end, or NULL when the segment does not fit;
 * `param` is what stands for a name in braces, else NULL. */
static const char *segment_fits(const char *pattern, const char *segment, const char **param)
{
    *param = NULL;
    if (pattern[0] == '{') {
        *param = segment;
        return segment[0] == '\0' ? NULL : pattern + strcspn(pattern, "/");
    }
    /* A segment may hold a slash that came percent-encoded. */
    while (*segment != '\0' && *pattern == *segment && *pattern != '/') {
        pattern++;
        segment++;
    }
    return *segment == '\0' && (*pattern == '\0' || *pattern == '/') ? pattern : NULL;
}

static bool path_fits(const char *pattern, const struct uri *uri,
                      const char *params[HTTP_PARAMS_MAX])
{
    unsigned param_count = 0;

    for (unsigned i = 0; i < uri->segment_count; i++) {
        const char *param;

        if (*pattern != '/') {
            return false;
        }
        pattern = segment_fits(pattern + 1, uri->segments[i], &param);
        if (pattern == NULL) {
            return false;
        }
        if (param != NULL && param_count < HTTP_PARAMS_MAX) {
            params[param_count++] = param;
        }
    }
    return *pattern == '\0';
}

static void allow_add(char allow[ROUTER_ALLOW_SIZE], const char *method)
{
    size_t used = strlen(allow);

    if (strstr(allow, method) == NULL) {
        snprintf(allow + used, ROUTER_ALLOW_SIZE - used, "%s%s", used == 0 ? "" : ", ", method);
    }
}

static void find_allowed(const struct http_route *routes, size_t count, const struct uri *uri,
                         struct router_match *out)
{
    for (size_t i = 0; i < count; i++) {
        const char *params[HTTP_PARAMS_MAX];

        if (path_fits(routes[i].path, uri, params)) {
            allow_add(out->allow, routes[i].method);
            if (strcmp(routes[i].method, "GET") == 0) {
                allow_add(out->allow, "HEAD");
            }
        }
    }
}

void router_find(const struct http_route *routes, size_t count, const struct uri *uri,
                 const char *method, struct router_match *out)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;

    *out = (struct router_match){0};
    if (!uri->path_valid) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const char *params[HTTP_PARAMS_MAX] = {NULL};

        if (strcmp(routes[i].method, wanted) == 0 && path_fits(routes[i].path, uri, params)) {
            out->route = &routes[i];
            memcpy(out->params, params, sizeof(params));
            return;
        }
    }
    find_allowed(routes, count, uri, out);
}

static bool name_is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (*list != '\0') {
        size_t word = strcspn(list, " ");

        if (word == len && len > 0 && memcmp(list, name, len) == 0) {
            return true;
        }
        list += word;
        list += strspn(list, " ");
    }
    return false;
}

int router_check_query(const struct http_route *route, const struct uri *uri, struct error *err)
{
    for (unsigned i = 0; i < uri->query_count; i++) {
        if (!name_is_listed(route->query, uri->query[i].name)) {
            return uri_query_fault(err, uri->query[i].name,
                                   "is not a query parameter of this call");
        }
    }
    if (uri->query_error != NULL) {
        *err = *uri->query_error;
        return -1;
    }
    return 0;
}
