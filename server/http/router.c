#include "server/http/router.h"

#include <string.h>

/* `pattern` is at the start of a segment; `len` its length. */
static bool segment_fits(const char *pattern, size_t len, const char *segment, const char **param)
{
    *param = NULL;
    if (pattern[0] == '{') {
        *param = segment;
        return segment[0] != '\0';
    }
    return strlen(segment) == len && memcmp(pattern, segment, len) == 0;
}

static bool path_fits(const char *pattern, const struct uri *uri,
                      const char *params[HTTP_PARAMS_MAX])
{
    unsigned param_count = 0;

    for (unsigned i = 0; i < uri->segment_count; i++) {
        size_t len;
        const char *param;

        if (*pattern != '/') {
            return false;
        }
        pattern++;
        len = strcspn(pattern, "/");
        if (!segment_fits(pattern, len, uri->segments[i], &param)) {
            return false;
        }
        if (param != NULL && param_count < HTTP_PARAMS_MAX) {
            params[param_count++] = param;
        }
        pattern += len;
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

        if (!path_fits(routes[i].path, uri, params)) {
            continue;
        }
        allow_add(out->allow, routes[i].method);
        if (strcmp(routes[i].method, "GET") == 0) {
            allow_add(out->allow, "HEAD");
        }
        if (out->route == NULL && strcmp(routes[i].method, wanted) == 0) {
            out->route = &routes[i];
            memcpy(out->params, params, sizeof(params));
        }
    }
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
