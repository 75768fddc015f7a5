#include "policy/policy.h"
#include "policy/rules.h"

#include "api/field.h"

#include <string.h>

enum { PATH_BYTES_MAX = 4096, REVISION_MAX = 256 };

/* --- cwd --- */

/* Takes the last component off; false when there is none. */
static bool drop_last(char *path)
{
    char *slash = strrchr(path, '/');

    if (*path == '\0') {
        return false;
    }
    *(slash != NULL ? slash : path) = '\0';
    return true;
}

static bool append_component(char *path, const char *component, size_t len)
{
    size_t have = strlen(path);

    if (len == 0 || (len == 1 && component[0] == '.')) {
        return true;
    }
    if (len == 2 && component[0] == '.' && component[1] == '.') {
        return drop_last(path);
    }
    if (have > 0) {
        path[have++] = '/';
    }
    memcpy(path + have, component, len);
    path[have + len] = '\0';
    return true;
}

int policy_cwd(const char *cwd, char **out, struct error *err)
{
    _cleanup_free_ char *path = NULL;
    const char *from = cwd == NULL ? "" : cwd;

    if (from[0] == '/') {
        return policy_refuse(err, "/cwd", "must be relative to the workspace");
    }
    if (strlen(from) > PATH_BYTES_MAX) {
        return policy_refuse(err, "/cwd", "must have at most 4096 bytes");
    }
    path = calloc(1, strlen(from) + 1);
    if (path == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    while (*from != '\0') {
        size_t len = strcspn(from, "/");

        if (!append_component(path, from, len)) {
            return policy_refuse(err, "/cwd", "must not lead outside the workspace");
        }
        from += len;
        from += strspn(from, "/");
    }
    *out = TAKE_PTR(path);
    return 0;
}

/* --- git roots --- */

/* Absolute and without "." and ".." components; doubled and trailing slashes are harmless. */
static bool path_is_clean(const char *path)
{
    if (path[0] != '/' || strlen(path) > PATH_BYTES_MAX) {
        return false;
    }
    while (*path != '\0') {
        size_t len;

        path += strspn(path, "/");
        len = strcspn(path, "/");
        if ((len == 1 && path[0] == '.') || (len == 2 && path[0] == '.' && path[1] == '.')) {
            return false;
        }
        path += len;
    }
    return true;
}

/* Compares component by component. */
static bool path_is_below(const char *path, const char *root)
{
    for (;;) {
        size_t root_len;
        size_t path_len;

        path += strspn(path, "/");
        root += strspn(root, "/");
        if (*root == '\0') {
            return true;
        }
        root_len = strcspn(root, "/");
        path_len = strcspn(path, "/");
        if (root_len != path_len || memcmp(root, path, root_len) != 0) {
            return false;
        }
        root += root_len;
        path += path_len;
    }
}

const char *policy_git_root(const char *path, const char *const *roots)
{
    if (!path_is_clean(path)) {
        return NULL;
    }
    for (size_t i = 0; roots != NULL && roots[i] != NULL; i++) {
        if (path_is_below(path, roots[i])) {
            return roots[i];
        }
    }
    return NULL;
}

/* --- workspace --- */

struct git_fields {
    const char *kind;
    const char *repository_path;
    const char *revision;
};

static const struct api_field KIND_FIELDS[] = {
    {"kind", API_STRING, true, offsetof(struct git_fields, kind)},
};

static const struct api_field_table KIND_TABLE = {KIND_FIELDS, ARRAY_SIZE(KIND_FIELDS),
                                                  ERROR_INVALID_REQUEST};

static const struct api_field GIT_FIELDS[] = {
    {"kind", API_STRING, true, offsetof(struct git_fields, kind)},
    {"repositoryPath", API_STRING, true, offsetof(struct git_fields, repository_path)},
    {"revision", API_STRING, true, offsetof(struct git_fields, revision)},
};

static const struct api_field_table GIT_TABLE = {GIT_FIELDS, ARRAY_SIZE(GIT_FIELDS),
                                                 ERROR_INVALID_REQUEST};

static bool revision_is_valid(const char *revision)
{
    static const char REST[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/@{}^~:+-";
    size_t len = strnlen(revision, REVISION_MAX + 1);

    return len >= 1 && len <= REVISION_MAX && strchr("._/@{}^~:+-", revision[0]) == NULL &&
           strspn(revision, REST) == len;
}

static int read_git(json_t *workspace, const char *const *git_roots,
                    struct host_provision_plan *plan, struct error *err)
{
    struct git_fields fields = {0};
    const char *root;

    if (api_fields_decode(workspace, "/workspace", &GIT_TABLE, &fields, err) != 0) {
        return error_in_phase(err, PHASE_VALIDATE);
    }
    root = policy_git_root(fields.repository_path, git_roots);
    if (root == NULL) {
        return policy_refuse(err, "/workspace/repositoryPath",
                             "must be an absolute path below a root that is configured for git");
    }
    if (!revision_is_valid(fields.revision)) {
        return policy_refuse(err, "/workspace/revision",
                             "must match [A-Za-z0-9][A-Za-z0-9._/@{}^~:+-]{0,255}");
    }
    plan->repository_path = strdup(fields.repository_path);
    plan->repository_root = strdup(root);
    plan->revision = strdup(fields.revision);
    if (plan->repository_path == NULL || plan->repository_root == NULL || plan->revision == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    plan->workspace = HOST_WORKSPACE_GIT;
    return 0;
}

int policy_workspace(json_t *workspace, const char *const *git_roots,
                     struct host_provision_plan *plan, struct error *err)
{
    struct git_fields fields = {0};
    const json_t *kind = json_object_get(workspace, "kind");
    const char *text = json_is_string(kind) ? json_string_value(kind) : "";

    if (workspace == NULL) {
        return policy_refuse(err, "/workspace", "is missing");
    }
    if (json_is_object(workspace) && json_is_string(kind) && strcmp(text, "empty") != 0 &&
        strcmp(text, "archive") != 0 && strcmp(text, "git-worktree") != 0) {
        return policy_refuse(err, "/workspace/kind", "must be empty, archive or git-worktree");
    }
    if (strcmp(text, "git-worktree") == 0) {
        return read_git(workspace, git_roots, plan, err);
    }
    api_drop_nulls(workspace);
    if (api_fields_decode(workspace, "/workspace", &KIND_TABLE, &fields, err) != 0) {
        return error_in_phase(err, PHASE_VALIDATE);
    }
    plan->workspace =
        strcmp(fields.kind, "archive") == 0 ? HOST_WORKSPACE_ARCHIVE : HOST_WORKSPACE_EMPTY;
    return 0;
}
