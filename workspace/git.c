#include "workspace/git.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "workspace/blocks.h"
#include "workspace/gitdir.h"
#include "workspace/path.h"
#include "workspace/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

enum { DIAG_MAX = 4096, PIECE = 128 * 1024, ENV_MAX = 24, APPARENT_FLOOR = 64 * 1024 * 1024 };

static const char PATH_FIELD[] = "/workspace/repositoryPath";
static const char REVISION_FIELD[] = "/workspace/revision";

int workspace_git_check(const char *path, const char *root, struct error *err)
{
    _cleanup_gitdir_ struct workspace_gitdir g = {0};
    return workspace_gitdir_find(&g, path, root, err);
}

/* All of git's environment. Replacement objects and lazy fetching would show something else than
 * what the revision names. */
static void fill_environment(const char *env[ENV_MAX], const char *git_dir)
{
    static const char *const fixed[] = {
        "PATH=/usr/bin:/bin",    "HOME=/nonexistent",           "LC_ALL=C",
        "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null",
        "GIT_ATTR_NOSYSTEM=1",   "GIT_OPTIONAL_LOCKS=0",        "GIT_NO_REPLACE_OBJECTS=1",
        "GIT_NO_LAZY_FETCH=1",   "GIT_ALLOW_PROTOCOL=none",     "GIT_PROTOCOL_FROM_USER=0",
        "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false",      "GIT_PAGER=cat",
    };
    size_t n = 0;
    for (; n < ARRAY_SIZE(fixed); n++) {
        env[n] = fixed[n];
    }
    env[n++] = git_dir;
    env[n] = NULL;
}

/* --- the commit --- */

static bool is_object_name(const char *text, size_t len)
{
    return (len == 40 || len == 64) && strspn(text, "0123456789abcdef") == len;
}

/* The first line of what git said, fit for a detail. */
static struct workspace_path_text first_line(struct buf *diag)
{
    char *text = (char *)buf_str(diag);
    char *end = strchr(text, '\n');
    if (end != NULL) {
        *end = '\0';
    }
    return workspace_path_show(text[0] != '\0' ? text : "no reason given");
}

static int find_commit(const struct workspace_git *git, const struct workspace_gitdir *g,
                       struct buf *commit, struct error *err)
{
    char git_dir[PATH_MAX + 16];
    snprintf(git_dir, sizeof(git_dir), "GIT_DIR=%s", g->git_dir);
    const char *env[ENV_MAX];
    fill_environment(env, git_dir);
    _cleanup_free_ char *name = NULL;
    if (asprintf(&name, "%s^{commit}", git->revision) < 0) {
        name = NULL;
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    const char *const argv[] = {"/usr/bin/git",     "rev-parse", "--verify",
                                "--end-of-options", name,        NULL};
    _cleanup_buf_ struct buf diag;
    buf_init(&diag, DIAG_MAX);
    struct child_run run = {
        .spec = {.argv = argv, .envp = env, .cwd = "/"},
        .deadline_mono_ms = git->deadline_mono_ms,
        .cancel = git->cancel,
        .out = commit,
        .diag = &diag,
    };
    if (child_run(&run, err) != 0) {
        return -1;
    }
    if (commit->len > 0 && commit->data[commit->len - 1] == '\n') {
        commit->data[--commit->len] = '\0';
    }
    if (run.status != 0 || !is_object_name(buf_str(commit), commit->len)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, REVISION_FIELD,
                               "the repository has no such commit: %s", first_line(&diag).text);
    }
    return 0;
}

/* --- the private GIT_DIR --- */

/* The files of the revision as they are: no attribute of the tree may change or drop any. */
static const char ATTRIBUTES[] = "* -export-ignore -export-subst -filter -ident -text -eol "
                                 "-working-tree-encoding\n";

static int put_file(const char *dir, const char *name, const char *text, size_t len,
                    struct error *err)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "making %s", path);
    }
    return file_write_all(fd, text, len, err);
}

static int put_directories(const char *dir, struct error *err)
{
    static const char *const names[] = {"objects/info", "refs", "info"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char path[PATH_MAX + 32];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        if (dir_make(path, 0700, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int put_alternates(const char *dir, const struct workspace_gitdir *g, struct error *err)
{
    _cleanup_buf_ struct buf text;
    buf_init(&text, (size_t)WORKSPACE_GITDIR_OBJECTS_MAX * PATH_MAX);
    for (size_t i = 0; i < g->object_count; i++) {
        if (buf_addf(&text, "%s\n", g->objects[i]) != 0) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
    }
    return put_file(dir, "objects/info/alternates", text.data, text.len, err);
}

static int fill_private_dir(const char *dir, const struct workspace_gitdir *g, bool sha256,
                            struct error *err)
{
    char config[256];
    snprintf(config, sizeof(config),
             "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tbigFileThreshold = 16m\n"
             "[tar]\n\tumask = 0022\n%s",
             sha256 ? "[extensions]\n\tobjectformat = sha256\n" : "");
    static const char head[] = "ref: refs/heads/none\n";
    if (put_directories(dir, err) != 0 || put_file(dir, "HEAD", head, strlen(head), err) != 0 ||
        put_file(dir, "config", config, strlen(config), err) != 0 ||
        put_file(dir, "info/attributes", ATTRIBUTES, strlen(ATTRIBUTES), err) != 0) {
        return -1;
    }
    return put_alternates(dir, g, err);
}

/* What stays behind holds names only and is no reason to fail. */
static void remove_private_dir(const char *dir)
{
    struct error ignored = ERROR_INIT;
    (void)!dir_remove(dir, &ignored);
}

/* --- the stream --- */

struct archive_child {
    const struct workspace_git *git;
    struct child child;
    bool ended;
    struct buf diag;
    char piece[PIECE];
};

static int64_t time_left(const struct workspace_git *git)
{
    int64_t left = git->deadline_mono_ms - clock_mono_ms();
    return left > INT_MAX ? INT_MAX : left;
}

/* Keeps the beginning of what git says and drops the rest, so that it never blocks on it. */
static void collect_diag(struct archive_child *a, struct pollfd *fd)
{
    char text[1024];
    ssize_t n = read(a->child.err_fd, text, sizeof(text));
    if (n > 0) {
        size_t room = a->diag.max - a->diag.len;
        (void)!buf_add(&a->diag, text, (size_t)n < room ? (size_t)n : room);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        fd->fd = -1;
    }
}

static int wait_for_output(struct archive_child *a, struct error *err)
{
    struct pollfd fds[] = {
        {.fd = a->child.out_fd, .events = POLLIN},
        {.fd = a->child.err_fd, .events = POLLIN},
        {.fd = cancel_fd(a->git->cancel), .events = POLLIN},
    };
    for (;;) {
        int64_t left = time_left(a->git);
        if (left <= 0) {
            return error_set(err, ERROR_TIMEOUT, "reading the repository took too long");
        }
        if (poll(fds, ARRAY_SIZE(fds), (int)left) < 0 && errno != EINTR) {
            return error_set_errno(err, ERROR_INTERNAL, errno, "waiting for git");
        }
        if (cancel_fired(a->git->cancel)) {
            return error_set(err, ERROR_RUNTIME, "reading the repository was interrupted");
        }
        if (fds[1].fd >= 0 && fds[1].revents != 0) {
            collect_diag(a, &fds[1]);
        }
        if (fds[0].revents != 0) {
            return 0;
        }
    }
}

/* A stream counts as complete only when git says so. */
static ssize_t end_of_output(struct archive_child *a, struct error *err)
{
    struct pollfd fd = {.fd = a->child.err_fd, .events = POLLIN};
    while (fd.fd >= 0 && poll(&fd, 1, 0) > 0) {
        collect_diag(a, &fd);
    }
    a->ended = true;
    int status = child_finish(&a->child, false);
    if (status == 0) {
        return 0;
    }
    return error_set_field(err, ERROR_INVALID_REQUEST, PATH_FIELD,
                           "git can't read all of the revision: %s", first_line(&a->diag).text);
}

static ssize_t read_child(void *ctx, const void **data, struct error *err)
{
    struct archive_child *a = ctx;
    if (a->ended) {
        return 0;
    }
    for (;;) {
        if (wait_for_output(a, err) != 0) {
            return -1;
        }
        ssize_t n = read(a->child.out_fd, a->piece, sizeof(a->piece));
        if (n > 0) {
            *data = a->piece;
            return n;
        }
        if (n == 0) {
            return end_of_output(a, err);
        }
        if (errno != EINTR && errno != EAGAIN) {
            return error_set_errno(err, ERROR_RUNTIME, errno, "reading from git");
        }
    }
}

/* Stands before the caller's sink and refuses what can't fit. */
struct bounded_sink {
    struct workspace_sink sink;
    struct workspace_sink *next;
    int64_t blocks_left;
    int64_t max;
};

static int bounded_begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                         struct error *err)
{
    struct bounded_sink *b = (struct bounded_sink *)sink;
    return b->next->ops->begin(b->next, entry, err);
}

static int bounded_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                        struct error *err)
{
    struct bounded_sink *b = (struct bounded_sink *)sink;
    b->blocks_left -= workspace_blocks_count(len);
    if (b->blocks_left < 0) {
        return error_set(err, ERROR_RESOURCE_LIMIT,
                         "the revision's content is more than diskBytes, %lld", (long long)b->max);
    }
    return b->next->ops->data(b->next, offset, data, len, err);
}

static int bounded_end(struct workspace_sink *sink, struct error *err)
{
    struct bounded_sink *b = (struct bounded_sink *)sink;
    return b->next->ops->end(b->next, err);
}

static const struct workspace_sink_ops bounded_ops = {.begin = bounded_begin,
                                                      .data = bounded_data,
                                                      .end = bounded_end};

static int start_archive(struct archive_child *a, const char *dir, const char *commit,
                         struct error *err)
{
    char git_dir[PATH_MAX + 16];
    snprintf(git_dir, sizeof(git_dir), "GIT_DIR=%s", dir);
    const char *env[ENV_MAX];
    fill_environment(env, git_dir);
    const char *const argv[] = {"/usr/bin/git", "archive", "--format=tar", commit, NULL};
    struct child_spec spec = {.argv = argv, .envp = env, .cwd = dir};
    return child_start(&a->child, &spec, err);
}

/* Zeros take no disk, but time. */
static int64_t apparent_max(int64_t content_max)
{
    if (content_max > INT64_MAX / 4) {
        return INT64_MAX;
    }
    return content_max * 4 > APPARENT_FLOOR ? content_max * 4 : APPARENT_FLOOR;
}

static int feed_archive(struct archive_child *a, struct workspace_sink *sink, struct error *err)
{
    int64_t max = a->git->content_bytes_max;
    struct bounded_sink bounded = {
        .sink = {&bounded_ops},
        .next = sink,
        .blocks_left = max / WORKSPACE_BLOCK + (max % WORKSPACE_BLOCK != 0),
        .max = max,
    };
    struct workspace_tar_source source = {
        .read = read_child,
        .ctx = a,
        .apparent_bytes_max = apparent_max(max),
        .fault = ERROR_INVALID_REQUEST,
    };
    return workspace_tar_feed(&source, &bounded.sink, err);
}

static int run_archive(const struct workspace_git *git, const char *dir, const char *commit,
                       struct workspace_sink *sink, struct error *err)
{
    struct archive_child *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    a->git = git;
    buf_init(&a->diag, DIAG_MAX);
    int r = start_archive(a, dir, commit, err);
    if (r == 0) {
        r = feed_archive(a, sink, err);
        child_finish(&a->child, true);
    }
    buf_done(&a->diag);
    free(a);
    return r;
}

int workspace_git_feed(const struct workspace_git *git, struct workspace_sink *sink,
                       struct error *err)
{
    _cleanup_gitdir_ struct workspace_gitdir g = {0};
    _cleanup_buf_ struct buf commit;
    buf_init(&commit, 128);
    if (workspace_gitdir_find(&g, git->path, git->root, err) != 0 ||
        find_commit(git, &g, &commit, err) != 0) {
        return -1;
    }
    char dir[PATH_MAX];
    int len = snprintf(dir, sizeof(dir), "%s/exechost-git-XXXXXX",
                       git->scratch != NULL ? git->scratch : "/tmp");
    if (len >= (int)sizeof(dir) || mkdtemp(dir) == NULL) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "making a directory for git");
    }
    int r = fill_private_dir(dir, &g, commit.len == 64, err);
    if (r == 0) {
        r = run_archive(git, dir, commit.data, sink, err);
    }
    remove_private_dir(dir);
    return r;
}
