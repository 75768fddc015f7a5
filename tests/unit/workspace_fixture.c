#include "workspace_fixture.h"

#include "base/digest.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { INODES_MAX = 4096 };

struct walk {
    struct workspace_sink *sink;
    int root_fd;
    struct {
        ino_t inode;
        char *path;
    } seen[INODES_MAX];
    size_t seen_count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of a directory, sorted; returns how many, ended by NULL. */
static char **list_names(int root_fd, const char *path)
{
    int fd = openat(root_fd, path[0] != '\0' ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    DIR *d = fdopendir(fd);
    size_t count = 0;
    size_t size = 64;
    char **names = calloc(size, sizeof(*names));
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (count + 1 == size) {
            size *= 2;
            names = realloc(names, size * sizeof(*names));
        }
        names[count++] = strdup(e->d_name);
    }
    closedir(d);
    names[count] = NULL;
    qsort(names, count, sizeof(*names), by_name);
    return names;
}

static const char *hardlink_target(struct walk *w, const struct stat *st, const char *path)
{
    if (S_ISDIR(st->st_mode) || st->st_nlink < 2) {
        return NULL;
    }
    for (size_t i = 0; i < w->seen_count; i++) {
        if (w->seen[i].inode == st->st_ino) {
            return w->seen[i].path;
        }
    }
    assert_true(w->seen_count < INODES_MAX);
    w->seen[w->seen_count].inode = st->st_ino;
    w->seen[w->seen_count++].path = strdup(path);
    return NULL;
}

static int feed_content(struct walk *w, const char *path, struct error *err)
{
    static char piece[100 * 1000]; /* on purpose no multiple of a block */
    int fd = openat(w->root_fd, path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    int64_t at = 0;
    ssize_t n;
    int r = 0;
    while (r == 0 && (n = read(fd, piece, sizeof(piece))) > 0) {
        r = w->sink->ops->data(w->sink, at, piece, (size_t)n, err);
        at += n;
    }
    close(fd);
    return r;
}

static int feed_path(struct walk *w, const char *path, struct error *err)
{
    struct stat st;
    assert_int_equal(fstatat(w->root_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    char target[WORKSPACE_PATH_MAX + 1];
    struct workspace_entry e = {
        .type = S_ISDIR(st.st_mode)   ? WORKSPACE_DIRECTORY
                : S_ISREG(st.st_mode) ? WORKSPACE_FILE
                : S_ISLNK(st.st_mode) ? WORKSPACE_SYMLINK
                                      : WORKSPACE_SPECIAL,
        .path = path,
        .mode = st.st_mode & 07777,
        .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
    };
    if (e.type == WORKSPACE_SYMLINK) {
        ssize_t n = readlinkat(w->root_fd, path, target, WORKSPACE_PATH_MAX);
        assert_true(n > 0);
        target[n] = '\0';
        e.target = target;
    }
    const char *first = hardlink_target(w, &st, path);
    if (first != NULL) {
        e.type = WORKSPACE_HARDLINK;
        e.target = first;
    }
    e.size = e.type == WORKSPACE_FILE ? st.st_size : 0;
    if (w->sink->ops->begin(w->sink, &e, err) != 0 ||
        (e.type == WORKSPACE_FILE && feed_content(w, path, err) != 0)) {
        return -1;
    }
    return w->sink->ops->end(w->sink, err);
}

static int feed_directory(struct walk *w, const char *path, struct error *err)
{
    char **names = list_names(w->root_fd, path);
    int r = 0;
    for (char **n = names; *n != NULL; n++) {
        char *child = NULL;
        assert_true(asprintf(&child, "%s%s%s", path, path[0] != '\0' ? "/" : "", *n) > 0);
        struct stat st;
        if (r == 0) {
            r = feed_path(w, child, err);
        }
        if (r == 0 && fstatat(w->root_fd, child, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(st.st_mode)) {
            r = feed_directory(w, child, err);
        }
        free(child);
        free(*n);
    }
    free(names);
    return r;
}

int fixture_feed_tree(const char *dir, struct workspace_sink *sink, struct error *err)
{
    struct walk *w = calloc(1, sizeof(*w));
    w->sink = sink;
    w->root_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(w->root_fd >= 0);
    int r = feed_directory(w, "", err);
    close(w->root_fd);
    for (size_t i = 0; i < w->seen_count; i++) {
        free(w->seen[i].path);
    }
    free(w);
    return r;
}

/* --- applying --- */

static void set_times(int dir_fd, const char *path, int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    if (t.tv_nsec < 0) {
        t.tv_sec--;
        t.tv_nsec += 1000000000;
    }
    struct timespec times[2] = {t, t};
    assert_int_equal(utimensat(dir_fd, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static int apply_begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                       struct error *err)
{
    struct fixture_apply *a = (struct fixture_apply *)sink;
    (void)err;
    a->entry = *entry;
    snprintf(a->path, sizeof(a->path), "%s", entry->path);
    switch (entry->type) {
    case WORKSPACE_DIRECTORY:
        assert_int_equal(mkdirat(a->dir_fd, entry->path, 0700), 0);
        assert_int_equal(fchmodat(a->dir_fd, entry->path, entry->mode, 0), 0);
        break;
    case WORKSPACE_FILE:
        a->file_fd = openat(a->dir_fd, entry->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(a->file_fd >= 0);
        assert_int_equal(ftruncate(a->file_fd, entry->size), 0);
        assert_int_equal(fchmod(a->file_fd, entry->mode), 0);
        break;
    case WORKSPACE_SYMLINK:
        assert_int_equal(symlinkat(entry->target, a->dir_fd, entry->path), 0);
        break;
    case WORKSPACE_HARDLINK:
        assert_int_equal(linkat(a->dir_fd, entry->target, a->dir_fd, entry->path, 0), 0);
        break;
    default: fail_msg("special entry");
    }
    return 0;
}

static int apply_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                      struct error *err)
{
    struct fixture_apply *a = (struct fixture_apply *)sink;
    (void)err;
    assert_int_equal(pwrite(a->file_fd, data, len, offset), (ssize_t)len);
    return 0;
}

static int apply_end(struct workspace_sink *sink, struct error *err)
{
    struct fixture_apply *a = (struct fixture_apply *)sink;
    (void)err;
    if (a->file_fd >= 0) {
        close(a->file_fd);
        a->file_fd = -1;
    }
    if (a->entry.type == WORKSPACE_FILE || a->entry.type == WORKSPACE_SYMLINK) {
        set_times(a->dir_fd, a->path, a->entry.mtime_ns);
    }
    if (a->entry.type == WORKSPACE_DIRECTORY) {
        assert_true(a->directory_count < ARRAY_SIZE(a->directories));
        a->directories[a->directory_count].path = strdup(a->path);
        a->directories[a->directory_count++].mtime_ns = a->entry.mtime_ns;
    }
    return 0;
}

static const struct workspace_sink_ops apply_ops = {.begin = apply_begin,
                                                    .data = apply_data,
                                                    .end = apply_end};

void fixture_apply_init(struct fixture_apply *a, const char *dir)
{
    memset(a, 0, sizeof(*a));
    a->sink.ops = &apply_ops;
    a->file_fd = -1;
    a->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(a->dir_fd >= 0);
}

void fixture_apply_done(struct fixture_apply *a)
{
    while (a->directory_count > 0) {
        a->directory_count--;
        set_times(a->dir_fd, a->directories[a->directory_count].path,
                  a->directories[a->directory_count].mtime_ns);
        free(a->directories[a->directory_count].path);
    }
    close(a->dir_fd);
    if (a->file_fd >= 0) {
        close(a->file_fd);
    }
}

/* --- describing --- */

struct describe {
    struct workspace_sink sink;
    struct buf text;
    struct digest *digest;
    enum workspace_entry_type type;
};

static int describe_begin(struct workspace_sink *sink, const struct workspace_entry *e,
                          struct error *err)
{
    struct describe *d = (struct describe *)sink;
    (void)err;
    d->type = e->type;
    d->digest = digest_new();
    return buf_addf(&d->text, "%d %s %o %lld %lld %s ", e->type, e->path, e->mode & 01777,
                    (long long)e->size, (long long)e->mtime_ns, e->target != NULL ? e->target : "");
}

static int describe_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                         struct error *err)
{
    struct describe *d = (struct describe *)sink;
    (void)offset;
    (void)err;
    digest_update(d->digest, data, len);
    return 0;
}

static int describe_end(struct workspace_sink *sink, struct error *err)
{
    struct describe *d = (struct describe *)sink;
    char digest[DIGEST_TEXT_SIZE];
    (void)err;
    digest_final(d->digest, digest);
    digest_free(d->digest);
    d->digest = NULL;
    return buf_addf(&d->text, "%s\n", digest);
}

char *fixture_describe_tree(const char *dir)
{
    static const struct workspace_sink_ops ops = {
        .begin = describe_begin, .data = describe_data, .end = describe_end};
    struct describe d = {.sink = {&ops}};
    struct error err = ERROR_INIT;
    buf_init(&d.text, 64 * 1024 * 1024);
    assert_int_equal(fixture_feed_tree(dir, &d.sink, &err), 0);
    return buf_take(&d.text, NULL);
}

int64_t fixture_disk_bytes(const char *dir, const char *name)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return (int64_t)st.st_blocks * 512;
}

/* --- logging --- */

static int log_begin(struct workspace_sink *sink, const struct workspace_entry *e,
                     struct error *err)
{
    static const char *const names[] = {"dir", "file", "symlink", "hardlink", "special"};
    struct fixture_log *l = (struct fixture_log *)sink;
    (void)err;
    return buf_addf(&l->text, "%s %s %o %lld%s%s\n", names[e->type], e->path, e->mode,
                    (long long)e->size, e->target != NULL ? " > " : "",
                    e->target != NULL ? e->target : "");
}

static int log_data(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                    struct error *err)
{
    struct fixture_log *l = (struct fixture_log *)sink;
    (void)err;
    (void)data;
    l->data_bytes += (int64_t)len;
    return buf_addf(&l->text, "+%lld,%zu\n", (long long)offset, len);
}

static int log_end(struct workspace_sink *sink, struct error *err)
{
    (void)sink;
    (void)err;
    return 0;
}

static const struct workspace_sink_ops log_ops = {.begin = log_begin,
                                                  .data = log_data,
                                                  .end = log_end};

void fixture_log_init(struct fixture_log *l)
{
    l->sink.ops = &log_ops;
    l->data_bytes = 0;
    buf_init(&l->text, 64 * 1024 * 1024);
}

void fixture_log_done(struct fixture_log *l)
{
    buf_done(&l->text);
}

/* --- files --- */

void fixture_directory_make(char out[64])
{
    snprintf(out, 64, "/tmp/exechost-test-XXXXXX");
    assert_non_null(mkdtemp(out));
}

void fixture_directory_remove(const char *dir)
{
    struct error err = ERROR_INIT;
    assert_int_equal(dir_remove(dir, &err), 0);
}

void fixture_file_put(const char *dir, const char *name, const void *data, size_t len)
{
    char path[8192];
    struct error err = ERROR_INIT;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, data, len, &err), 0);
    close(fd);
}

int fixture_temporary(void)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        char path[] = "/tmp/exechost-test-XXXXXX";
        fd = mkstemp(path);
        unlink(path);
    }
    assert_true(fd >= 0);
    return fd;
}

ssize_t fixture_bytes_read(void *ctx, const void **data, struct error *err)
{
    struct fixture_bytes *b = ctx;
    (void)err;
    size_t n = b->len - b->at < b->piece ? b->len - b->at : b->piece;
    *data = b->data + b->at;
    b->at += n;
    return (ssize_t)n;
}
