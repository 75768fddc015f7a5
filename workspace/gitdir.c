#include "workspace/gitdir.h"

#include "base/buf.h"
#include "workspace/path.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

enum { ALTERNATES_DEPTH = 5, SMALL_FILE_MAX = 64 * 1024 };

static const char FIELD[] = "/workspace/repositoryPath";

static int refuse(struct error *err, const char *path, const char *what)
{
    return error_set_field(err, ERROR_INVALID_REQUEST, FIELD, "%s: %s",
                           workspace_path_show(path).text, what);
}

static bool is_beneath(const char *root, const char *path)
{
    size_t n = strlen(root);
    if (n == 1) {
        return true;
    }
    return strncmp(root, path, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* `name` as seen from `base` unless it is absolute. -1: too long. */
static int join(char out[PATH_MAX], const char *base, const char *name)
{
    int n = name[0] == '/' ? snprintf(out, PATH_MAX, "%s", name)
                           : snprintf(out, PATH_MAX, "%s/%s", base, name);
    return n < 0 || n >= PATH_MAX ? -1 : 0;
}

/* Returns owned the real path of `name`, which must exist and lie below the root. */
static int resolve(const struct workspace_gitdir *g, const char *base, const char *name, char **out,
                   struct error *err)
{
    char path[PATH_MAX];
    if (join(path, base, name) != 0) {
        return refuse(err, name, "path too long");
    }
    _cleanup_free_ char *real = realpath(path, NULL);
    if (real == NULL) {
        return refuse(err, path, strerror(errno));
    }
    if (!is_beneath(g->root, real)) {
        return refuse(err, path, "leads outside of the configured root");
    }
    *out = TAKE_PTR(real);
    return 0;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool exists_in(const char *base, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    return join(path, base, name) == 0 && lstat(path, &st) == 0;
}

/* A small regular file, given by its real path, as text without NUL. */
static int read_text(const char *path, struct buf *out, struct error *err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        return refuse(err, path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return refuse(err, path, "not a regular file");
    }
    for (;;) {
        char *to = buf_reserve(out, 4096);
        if (to == NULL) {
            return refuse(err, path, "too large");
        }
        ssize_t n = read(fd, to, 4096);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return refuse(err, path, strerror(errno));
        }
        if (n == 0) {
            break;
        }
        out->len += (size_t)n;
        out->data[out->len] = '\0';
    }
    return strlen(buf_str(out)) == out->len ? 0 : refuse(err, path, "a NUL byte inside");
}

static void cut_line_end(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) {
        text[--n] = '\0';
    }
}

/* Follows a file that holds one path behind `prefix`. */
static int follow_file(const struct workspace_gitdir *g, const char *file, const char *prefix,
                       const char *base, char **out, struct error *err)
{
    _cleanup_buf_ struct buf text;
    buf_init(&text, SMALL_FILE_MAX);
    if (read_text(file, &text, err) != 0) {
        return -1;
    }
    size_t skip = strlen(prefix);
    if (text.len <= skip || strncmp(text.data, prefix, skip) != 0) {
        return refuse(err, file, "not the link to a repository");
    }
    cut_line_end(text.data);
    return resolve(g, base, text.data + skip, out, err);
}

static int find_git_dir(struct workspace_gitdir *g, const char *top, struct error *err)
{
    if (!exists_in(top, ".git")) {
        g->git_dir = strdup(top);
        return g->git_dir != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
    }
    _cleanup_free_ char *dot_git = NULL;
    if (resolve(g, top, ".git", &dot_git, err) != 0) {
        return -1;
    }
    if (is_directory(dot_git)) {
        g->git_dir = TAKE_PTR(dot_git);
        return 0;
    }
    return follow_file(g, dot_git, "gitdir: ", top, &g->git_dir, err);
}

static int find_common_dir(const struct workspace_gitdir *g, char **out, struct error *err)
{
    if (!exists_in(g->git_dir, "commondir")) {
        return resolve(g, g->git_dir, ".", out, err);
    }
    _cleanup_free_ char *file = NULL;
    if (resolve(g, g->git_dir, "commondir", &file, err) != 0) {
        return -1;
    }
    return follow_file(g, file, "", g->git_dir, out, err);
}

/* Every symbolic link directly in `dir` stays below the root. */
static int check_links(const struct workspace_gitdir *g, const char *dir, struct error *err)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        return errno == ENOENT ? 0 : refuse(err, dir, strerror(errno));
    }
    int r = 0;
    struct dirent *e;
    while (r == 0 && (e = readdir(d)) != NULL) {
        struct stat st;
        if (e->d_type == DT_LNK ||
            (e->d_type == DT_UNKNOWN &&
             fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))) {
            _cleanup_free_ char *real = NULL;
            r = resolve(g, dir, e->d_name, &real, err);
        }
    }
    closedir(d);
    return r;
}

static bool holds_objects(const char *name)
{
    bool fanout =
        isxdigit((unsigned char)name[0]) && isxdigit((unsigned char)name[1]) && name[2] == '\0';
    return fanout || strcmp(name, "pack") == 0 || strcmp(name, "info") == 0;
}

static int check_object_links(const struct workspace_gitdir *g, const char *objects,
                              struct error *err)
{
    if (check_links(g, objects, err) != 0) {
        return -1;
    }
    DIR *d = opendir(objects);
    if (d == NULL) {
        return refuse(err, objects, strerror(errno));
    }
    int r = 0;
    struct dirent *e;
    while (r == 0 && (e = readdir(d)) != NULL) {
        char path[PATH_MAX];
        if (e->d_name[0] != '.' && holds_objects(e->d_name) &&
            join(path, objects, e->d_name) == 0 && is_directory(path)) {
            r = check_links(g, path, err);
        }
    }
    closedir(d);
    return r;
}

static bool is_known(const struct workspace_gitdir *g, const char *objects)
{
    for (size_t i = 0; i < g->object_count; i++) {
        if (strcmp(g->objects[i], objects) == 0) {
            return true;
        }
    }
    return false;
}

static int add_objects(struct workspace_gitdir *g, const char *base, const char *name, int depth,
                       struct error *err);

static int add_alternates(struct workspace_gitdir *g, const char *objects, int depth,
                          struct error *err)
{
    if (!exists_in(objects, "info") || !exists_in(objects, "info/alternates")) {
        return 0;
    }
    _cleanup_free_ char *file = NULL;
    _cleanup_buf_ struct buf text;
    buf_init(&text, SMALL_FILE_MAX);
    if (resolve(g, objects, "info/alternates", &file, err) != 0 ||
        read_text(file, &text, err) != 0) {
        return -1;
    }
    char *rest = text.data;
    char *line;
    while (rest != NULL && (line = strsep(&rest, "\n")) != NULL) {
        if (line[0] == '\0' || line[0] == '#') {
            continue;
        }
        if (line[0] == '"') {
            return refuse(err, file, "quoted names are not supported");
        }
        if (add_objects(g, objects, line, depth + 1, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int add_objects(struct workspace_gitdir *g, const char *base, const char *name, int depth,
                       struct error *err)
{
    _cleanup_free_ char *real = NULL;
    if (resolve(g, base, name, &real, err) != 0) {
        return -1;
    }
    if (is_known(g, real)) {
        return 0;
    }
    if (!is_directory(real) || strchr(real, '\n') != NULL) {
        return refuse(err, real, "not a directory of objects");
    }
    if (depth > ALTERNATES_DEPTH || g->object_count == WORKSPACE_GITDIR_OBJECTS_MAX) {
        return refuse(err, real, "too many alternates");
    }
    if (check_object_links(g, real, err) != 0) {
        return -1;
    }
    const char *objects = g->objects[g->object_count++] = TAKE_PTR(real);
    return add_alternates(g, objects, depth, err);
}

int workspace_gitdir_find(struct workspace_gitdir *g, const char *path, const char *root,
                          struct error *err)
{
    if (path[0] != '/') {
        return refuse(err, path, "not an absolute path");
    }
    g->root = realpath(root, NULL);
    if (g->root == NULL) {
        return refuse(err, path, "the root configured for it can't be read");
    }
    _cleanup_free_ char *top = NULL;
    _cleanup_free_ char *common = NULL;
    if (resolve(g, "/", path, &top, err) != 0 || find_git_dir(g, top, err) != 0) {
        return -1;
    }
    if (!exists_in(g->git_dir, "HEAD")) {
        return refuse(err, path, "not a git repository");
    }
    if (find_common_dir(g, &common, err) != 0) {
        return -1;
    }
    if (!exists_in(common, "objects") || !exists_in(common, "refs")) {
        return refuse(err, path, "not a git repository");
    }
    return add_objects(g, common, "objects", 0, err);
}

void workspace_gitdir_done(struct workspace_gitdir *g)
{
    free(g->root);
    free(g->git_dir);
    for (size_t i = 0; i < g->object_count; i++) {
        free(g->objects[i]);
    }
    *g = (struct workspace_gitdir){0};
}
