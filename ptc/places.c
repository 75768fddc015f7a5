#include "ptc/places.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static json_t *refuse(struct error *err, const char *field, const char *why)
{
    (void)error_set_field(err, ERROR_PTC_INVALID_REQUEST, field, "%s", why);
    return NULL;
}

/* `path` is `top` or below it; both are absolute and without links. */
static bool is_within(const char *path, const char *top)
{
    size_t len = strlen(top);
    while (len > 0 && top[len - 1] == '/') {
        len--;
    }
    if (strlen(path) < len || memcmp(path, top, len) != 0) {
        return false;
    }
    return path[len] == '/' || path[len] == '\0';
}

static bool is_allowed(const char *path, const char *const *roots)
{
    for (size_t i = 0; roots != NULL && roots[i] != NULL; i++) {
        _cleanup_free_ char *root = realpath(roots[i], NULL);
        if (root != NULL && is_within(path, root)) {
            return true;
        }
    }
    return false;
}

static bool is_plain_path(json_t *wanted)
{
    const char *text = json_string_value(wanted);
    return text != NULL && strlen(text) == json_string_length(wanted) && text[0] == '/' &&
           strlen(text) < PATH_MAX;
}

json_t *ptc_places_root(json_t *wanted, const char *const *roots, struct error *err)
{
    static const char field[] = "/sandboxPolicy/workspaceRoot";
    struct stat st;
    if (!is_plain_path(wanted)) {
        return refuse(err, field, "must be an absolute path");
    }
    _cleanup_free_ char *path = realpath(json_string_value(wanted), NULL);
    /* One text for what is not there and what is not allowed: nobody learns which. */
    if (path == NULL || stat(path, &st) != 0 || !S_ISDIR(st.st_mode) || !is_allowed(path, roots)) {
        return refuse(err, field, "is no directory below a configured workspace root");
    }
    return json_string(path);
}

/* Without "." and "..", links not looked at: what they lead to is another file system's matter. */
static int normalize(const char *path, char out[PATH_MAX])
{
    size_t len = 0;
    while (*path != '\0') {
        path += strspn(path, "/");
        size_t part = strcspn(path, "/");
        if (part == 2 && path[0] == '.' && path[1] == '.') {
            while (len > 0 && out[--len] != '/') {
            }
        } else if (part > 0 && !(part == 1 && path[0] == '.')) {
            if (len + 1 + part >= PATH_MAX) {
                return -1;
            }
            out[len++] = '/';
            memcpy(out + len, path, part);
            len += part;
        }
        path += part;
    }
    if (len == 0) {
        out[len++] = '/';
    }
    out[len] = '\0';
    return 0;
}

static json_t *judge_named(const char *path, const struct ptc_spec *spec, struct error *err)
{
    _cleanup_free_ char *real = realpath(path, NULL);
    struct stat st;
    if (real == NULL || stat(real, &st) != 0 || !S_ISDIR(st.st_mode) ||
        !is_within(real, spec->workspace_root)) {
        return refuse(err, "/cwd", "is no directory of the workspace");
    }
    return json_string(real);
}

static bool shows(const char *path, const struct ptc_spec *spec)
{
    struct stat st;
    if (strcmp(path, "/") == 0) {
        return true;
    }
    if (spec->mode == PTC_WORKSPACE_WRITE && strcmp(path, "/tmp") == 0) {
        return true;
    }
    return is_within(path, "/usr") && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

json_t *ptc_places_cwd(json_t *wanted, const struct ptc_spec *spec, struct error *err)
{
    const char *workspace =
        spec->workspace_root != NULL ? spec->workspace_root : PTC_PRIVATE_WORKSPACE;
    char path[PATH_MAX] = "";
    if (wanted == NULL) {
        return json_string(workspace);
    }
    if (!is_plain_path(wanted) || normalize(json_string_value(wanted), path) != 0) {
        return refuse(err, "/cwd", "must be an absolute path");
    }
    if (spec->execution_id != NULL) {
        /* What its image has beside that is not known here. */
        return strcmp(path, "/") == 0 || strcmp(path, "/tmp") == 0 || is_within(path, workspace)
                   ? json_string(path)
                   : refuse(err, "/cwd", "must be /, /tmp, or the workspace or below it");
    }
    if (spec->mode == PTC_DANGER || strcmp(path, workspace) == 0 || shows(path, spec)) {
        return json_string(path);
    }
    /* A private workspace is empty when the program begins. */
    if (spec->workspace_root == NULL || !is_within(path, workspace)) {
        return refuse(err, "/cwd", "is not visible inside of the sandbox");
    }
    return judge_named(path, spec, err);
}
