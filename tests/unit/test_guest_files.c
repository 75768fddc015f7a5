/* The helper's work on files, through host/files.h, in a directory of this machine. */
#include "local_host.h"
#include "workspace_fixture.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char dir[64];
    char other[64]; /* outside of it */
    struct host_files files;
    struct error err;
};

static void in_dir(const struct fixture *f, const char *name, char path[8300])
{
    (void)snprintf(path, 8300, "%s/%s", f->dir, name);
}

static void put(const struct fixture *f, const char *name, const char *text)
{
    fixture_file_put(f->dir, name, text, strlen(text));
}

static void make_dir(const struct fixture *f, const char *name)
{
    char path[8300];
    in_dir(f, name, path);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void make_link(const struct fixture *f, const char *target, const char *name)
{
    char path[8300];
    in_dir(f, name, path);
    assert_int_equal(symlink(target, path), 0);
}

static bool exists(const struct fixture *f, const char *name)
{
    char path[8300];
    struct stat st;
    in_dir(f, name, path);
    return lstat(path, &st) == 0;
}

static void must(struct fixture *f, int result)
{
    if (result != 0) {
        fail_msg("%s: %s", error_code_name(f->err.code), f->err.detail);
    }
}

static void expect_error(struct fixture *f, int result, enum error_code code)
{
    assert_int_equal(result, -1);
    if (f->err.code != code) {
        fail_msg("expected %s, got %s: %s", error_code_name(code), error_code_name(f->err.code),
                 f->err.detail);
    }
    error_clear(&f->err);
}

/* --- calls in short --- */

static int add_name(void *ctx, const struct workspace_entry *item, struct error *err)
{
    struct buf *names = ctx;
    (void)err;
    return buf_addf(names, "%d %s%s%s\n", item->type, item->path, item->target != NULL ? ">" : "",
                    item->target != NULL ? item->target : "");
}

static int list(struct fixture *f, const char *path, struct buf *names)
{
    buf_init(names, 1 << 20);
    return host_files_list(&f->files, path, add_name, names, &f->err);
}

static void expect_list(struct fixture *f, const char *path, const char *expected)
{
    _cleanup_buf_ struct buf names;
    must(f, list(f, path, &names));
    assert_string_equal(buf_str(&names), expected);
}

static int choose(void *ctx, int64_t size, struct host_files_range *range, struct error *err)
{
    const struct host_files_range *wanted = ctx;
    (void)size;
    (void)err;
    if (wanted != NULL) {
        *range = *wanted;
    }
    return 0;
}

/* The bytes that were read, at their place; NUL-ended. */
static int read_range(struct fixture *f, const char *path, struct host_files_range *range,
                      char out[256])
{
    struct host_files_reader reader = {.choose = choose, .ctx = range, .fd = fixture_temporary()};
    int result = host_files_read(&f->files, path, &reader, &f->err);
    ssize_t n = pread(reader.fd, out, 255, range != NULL ? range->offset : 0);
    out[n > 0 ? n : 0] = '\0';
    close(reader.fd);
    return result;
}

static void expect_content(struct fixture *f, const char *path, const char *expected)
{
    char content[256];
    must(f, read_range(f, path, NULL, content));
    assert_string_equal(content, expected);
}

static int write_text(struct fixture *f, const char *path, const char *text)
{
    struct host_files_content content = {
        .fd = fixture_temporary(), .size = (int64_t)strlen(text), .mode = 0640};
    assert_int_equal(pwrite(content.fd, text, strlen(text), 0), strlen(text));
    int result = host_files_write(&f->files, path, &content, &f->err);
    close(content.fd);
    return result;
}

static int feed_tree(void *ctx, struct workspace_sink *sink, struct error *err)
{
    return fixture_feed_tree(ctx, sink, err);
}

static int unpack(struct fixture *f, const char *from, const char *path)
{
    char dir[64];
    (void)snprintf(dir, sizeof(dir), "%s", from);
    return host_files_unpack(&f->files, path, feed_tree, dir, &f->err);
}

static void expect_no_stage(struct fixture *f)
{
    _cleanup_free_ char *tree = fixture_describe_tree(f->dir);
    assert_null(strstr(tree, GUEST_STAGE_PREFIX));
}

/* --- list and read --- */

static void test_list(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/b", "");
    put(f, "d/\xff", "");
    put(f, "d/B", "");
    make_link(f, "no\xfewhere", "d/a");
    char path[8300];
    in_dir(f, "d/p", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    make_dir(f, ".exechost-stage-0123456789abcdef");
    make_dir(f, ".exechost-stage-short");
    expect_list(f, "d", "1 B\n2 a>no\xfewhere\n1 b\n4 p\n1 \xff\n");
    make_link(f, ".", "self");
    make_dir(f, "d/.exechost-stage-0123456789abcdef");
    expect_list(f, "", "0 .exechost-stage-short\n0 d\n2 self>.\n");
    expect_list(f, "self", "0 .exechost-stage-short\n0 d\n2 self>.\n");
    expect_list(f, "d",
                "0 .exechost-stage-0123456789abcdef\n1 B\n2 a>no\xfewhere\n1 b\n4 p\n1 \xff\n");
    _cleanup_buf_ struct buf names;
    expect_error(f, list(f, "none", &names), ERROR_FILE_NOT_FOUND);
    expect_error(f, list(f, "d/b", &names), ERROR_INVALID_REQUEST);
}

static void test_list_too_long(void **state)
{
    struct fixture *f = *state;
    char name[32];
    for (int i = 0; i <= GUEST_LIST_MAX; i++) {
        (void)snprintf(name, sizeof(name), "%d", i);
        put(f, name, "");
    }
    _cleanup_buf_ struct buf names;
    expect_error(f, list(f, "", &names), ERROR_INVALID_REQUEST);
}

static void test_read(void **state)
{
    struct fixture *f = *state;
    char content[256];
    put(f, "f", "0123456789");
    put(f, "empty", "");
    make_dir(f, "d");
    make_link(f, "d/../f", "l");
    expect_content(f, "f", "0123456789");
    expect_content(f, "l", "0123456789");
    expect_content(f, "empty", "");
    must(f, read_range(f, "f", &(struct host_files_range){3, 4}, content));
    assert_string_equal(content, "3456");
    must(f, read_range(f, "f", &(struct host_files_range){10, 0}, content));
    assert_string_equal(content, "");
    expect_error(f, read_range(f, "f", &(struct host_files_range){5, 6}, content), ERROR_RUNTIME);
    expect_error(f, read_range(f, "d", NULL, content), ERROR_INVALID_REQUEST);
    expect_error(f, read_range(f, "none", NULL, content), ERROR_FILE_NOT_FOUND);
}

static void test_outside(void **state)
{
    struct fixture *f = *state;
    char content[256];
    _cleanup_buf_ struct buf names;
    fixture_file_put(f->other, "secret", "secret", 6);
    make_link(f, f->other, "absolute");
    make_link(f, "../../../../../../..", "up");
    make_link(f, "up/etc", "through");
    make_link(f, "/proc/self/cwd", "magic");
    static const char *const places[] = {"absolute", "up", "through", "magic"};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s/secret", places[i]);
        expect_error(f, read_range(f, path, NULL, content), ERROR_INVALID_REQUEST);
        expect_error(f, write_text(f, path, "evil"), ERROR_INVALID_REQUEST);
        expect_error(f, write_text(f, places[i], "evil"), ERROR_INVALID_REQUEST);
        expect_error(f, host_files_remove(&f->files, path, true, &f->err), ERROR_INVALID_REQUEST);
        expect_error(f, list(f, places[i], &names), ERROR_INVALID_REQUEST);
        buf_done(&names);
        expect_error(f, unpack(f, f->other, places[i]), ERROR_INVALID_REQUEST);
    }
    buf_init(&names, 0);
    expect_no_stage(f);
}

/* --- write --- */

static void test_write(void **state)
{
    struct fixture *f = *state;
    must(f, write_text(f, "a/b/c", "one"));
    expect_content(f, "a/b/c", "one");
    must(f, write_text(f, "a/b/c", "two, and longer"));
    expect_content(f, "a/b/c", "two, and longer");
    make_link(f, "a/b/new", "dangling");
    make_link(f, "dangling", "twice");
    must(f, write_text(f, "twice", "through"));
    expect_content(f, "a/b/new", "through");
    expect_error(f, write_text(f, "a", "x"), ERROR_INVALID_REQUEST);
    expect_error(f, write_text(f, "a/b/c/d", "x"), ERROR_INVALID_REQUEST);
    expect_error(f, write_text(f, "", "x"), ERROR_INVALID_REQUEST);
    make_link(f, "loop", "loop");
    expect_error(f, write_text(f, "loop", "x"), ERROR_INVALID_REQUEST);
    expect_no_stage(f);
}

/* The service goes away in the middle: the content ends before its size. */
static void test_write_cut(void **state)
{
    struct fixture *f = *state;
    struct host_files_content content = {.fd = fixture_temporary(), .size = 100000, .mode = 0644};
    put(f, "f", "old");
    assert_int_equal(ftruncate(content.fd, 50000), 0);
    expect_error(f, host_files_write(&f->files, "f", &content, &f->err), ERROR_INTERNAL);
    expect_error(f, host_files_write(&f->files, "new/dir/f", &content, &f->err), ERROR_INTERNAL);
    close(content.fd);
    expect_content(f, "f", "old");
    assert_false(exists(f, "new"));
    expect_no_stage(f);
}

static void test_stale_stages(void **state)
{
    struct fixture *f = *state;
    char path[8300];
    make_dir(f, ".exechost-stage-0123456789abcdef");
    make_dir(f, ".exechost-stage-0123456789abcdef/tree");
    make_dir(f, ".exechost-stage-0123456789abcdef/tree/d");
    put(f, ".exechost-stage-0123456789abcdef/tree/d/f", "x");
    make_link(f, f->other, ".exechost-stage-0123456789abcdef/tree/l");
    fixture_file_put(f->other, "kept", "kept", 4);
    in_dir(f, ".exechost-stage-0123456789abcdef/tree/d", path);
    assert_int_equal(chmod(path, 0), 0);
    make_dir(f, ".exechost-stage-fedcba9876543210");
    put(f, ".exechost-stage-fedcba9876543210/file", "in use");
    in_dir(f, ".exechost-stage-fedcba9876543210", path);
    int used = open(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(used, LOCK_EX), 0);
    make_link(f, f->other, ".exechost-stage-aaaaaaaaaaaaaaaa");
    must(f, write_text(f, "f", "x"));
    assert_false(exists(f, ".exechost-stage-0123456789abcdef"));
    assert_true(exists(f, ".exechost-stage-fedcba9876543210/file"));
    assert_true(exists(f, ".exechost-stage-aaaaaaaaaaaaaaaa/kept"));
    close(used);
    must(f, write_text(f, "f", "x"));
    assert_false(exists(f, ".exechost-stage-fedcba9876543210"));
}

/* --- remove --- */

static void test_remove(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/f", "");
    put(f, "g", "");
    make_link(f, "d", "l");
    expect_error(f, host_files_remove(&f->files, "d", false, &f->err), ERROR_INVALID_REQUEST);
    must(f, host_files_remove(&f->files, "l", true, &f->err));
    must(f, host_files_remove(&f->files, "g", false, &f->err));
    assert_true(exists(f, "d/f"));
    must(f, host_files_remove(&f->files, "d", true, &f->err));
    expect_error(f, host_files_remove(&f->files, "d", true, &f->err), ERROR_FILE_NOT_FOUND);
    expect_list(f, "", "");
}

/* Deeper than any path is long. */
static void test_remove_deep(void **state)
{
    struct fixture *f = *state;
    int dir = open(f->dir, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(mkdirat(dir, "deep", 0700), 0);
        int next = openat(dir, "deep", O_RDONLY | O_DIRECTORY);
        close(dir);
        dir = next;
    }
    close(dir);
    must(f, host_files_remove(&f->files, "deep", true, &f->err));
    expect_list(f, "", "");
    expect_no_stage(f);
}

/* --- archives --- */

static void furnish(const char *dir)
{
    char path[256];
    fixture_file_put(dir, "a", "content", 7);
    (void)snprintf(path, sizeof(path), "%s/d", dir);
    assert_int_equal(mkdir(path, 0750), 0);
    fixture_file_put(dir, "d/x", "", 0);
    (void)snprintf(path, sizeof(path), "%s/d-before-slash", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(linkat(dir_fd, "a", dir_fd, "d/hard", 0), 0);
    assert_int_equal(symlinkat("d/x", dir_fd, "z"), 0);
    int sparse = openat(dir_fd, "sparse", O_WRONLY | O_CREAT, 0600);
    assert_int_equal(pwrite(sparse, "end", 3, 10 << 20), 3);
    assert_int_equal(ftruncate(sparse, 20 << 20), 0);
    close(sparse);
    close(dir_fd);
}

static void test_pack(void **state)
{
    struct fixture *f = *state;
    struct fixture_log log;
    furnish(f->dir);
    make_dir(f, ".exechost-stage-0123456789abcdef");
    fixture_log_init(&log);
    must(f, host_files_pack(&f->files, "", &log.sink, &f->err));
    assert_true(log.data_bytes < 100000);
    assert_non_null(strstr(buf_str(&log.text), "hard"));
    assert_null(strstr(buf_str(&log.text), "stage"));
    fixture_log_done(&log);

    struct fixture_apply apply;
    char copy[64];
    fixture_directory_make(copy);
    fixture_apply_init(&apply, copy);
    must(f, host_files_remove(&f->files, ".exechost-stage-0123456789abcdef", false, &f->err));
    must(f, host_files_pack(&f->files, "", &apply.sink, &f->err));
    fixture_apply_done(&apply);
    _cleanup_free_ char *before = fixture_describe_tree(f->dir);
    _cleanup_free_ char *after = fixture_describe_tree(copy);
    assert_string_equal(before, after);
    fixture_directory_remove(copy);
}

static void test_unpack(void **state)
{
    struct fixture *f = *state;
    furnish(f->other);
    must(f, unpack(f, f->other, "in/to"));
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/in/to", f->dir);
    _cleanup_free_ char *before = fixture_describe_tree(f->other);
    _cleanup_free_ char *after = fixture_describe_tree(path);
    assert_string_equal(before, after);
    put(f, "in/to/own", "stays");
    put(f, "in/to/a", "replaced");
    must(f, unpack(f, f->other, "in/to"));
    expect_content(f, "in/to/a", "content");
    expect_content(f, "in/to/own", "stays");
    expect_no_stage(f);
}

static void test_unpack_conflict(void **state)
{
    struct fixture *f = *state;
    furnish(f->other);
    put(f, "a", "old");
    put(f, "d", "a file where the archive has a directory");
    expect_error(f, unpack(f, f->other, ""), ERROR_INVALID_REQUEST);
    expect_list(f, "", "1 a\n1 d\n");
    expect_content(f, "a", "old");
    must(f, host_files_remove(&f->files, "d", false, &f->err));
    make_dir(f, "z");
    expect_error(f, unpack(f, f->other, ""), ERROR_INVALID_REQUEST);
    expect_list(f, "", "1 a\n0 z\n");
    expect_error(f, unpack(f, f->other, "a"), ERROR_INVALID_REQUEST);
    expect_no_stage(f);
}

static int feed_and_fail(void *ctx, struct workspace_sink *sink, struct error *err)
{
    return fixture_feed_tree(ctx, sink, err) != 0
               ? -1
               : error_set(err, ERROR_CHECKPOINT_INVALID, "the source is bad");
}

static void test_unpack_cut(void **state)
{
    struct fixture *f = *state;
    furnish(f->other);
    expect_error(f, host_files_unpack(&f->files, "new/dir", feed_and_fail, f->other, &f->err),
                 ERROR_CHECKPOINT_INVALID);
    expect_list(f, "", "");
    expect_no_stage(f);
}

/* --- races --- */

struct swapper {
    struct fixture *f;
    atomic_bool stop;
};

/* Exchanges a directory and a link that leads out, and a file and such a link, all the time. */
static void *swap_all(void *arg)
{
    struct swapper *s = arg;
    int dir = open(s->f->dir, O_RDONLY | O_DIRECTORY);
    for (unsigned i = 0; !atomic_load(&s->stop); i++) {
        (void)renameat2(dir, "place", dir, "out", RENAME_EXCHANGE);
        (void)renameat2(dir, "deep/a/b", dir, "b", 0);
        (void)renameat2(dir, "b", dir, "deep/a/b", 0);
        if (i % 16 == 0) {
            (void)renameat2(dir, "file", dir, "leak", RENAME_EXCHANGE);
        }
    }
    close(dir);
    return NULL;
}

static void provoke(struct fixture *f, const char *source)
{
    static const char *const places[] = {"place", "out", "deep/a/b", "b", "file", "leak"};
    char content[256];
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        char path[64];
        struct fixture_log log;
        (void)snprintf(path, sizeof(path), "%s/secret", places[i]);
        if (read_range(f, path, NULL, content) == 0) {
            assert_string_not_equal(content, "secret");
        }
        if (read_range(f, places[i], NULL, content) == 0) {
            assert_string_not_equal(content, "secret");
        }
        (void)!write_text(f, path, "written");
        (void)!write_text(f, places[i], "written");
        (void)!unpack(f, source, places[i]);
        fixture_log_init(&log);
        (void)!host_files_pack(&f->files, places[i], &log.sink, &f->err);
        assert_null(strstr(buf_str(&log.text), "outside"));
        fixture_log_done(&log);
        (void)!host_files_remove(&f->files, path, true, &f->err);
        error_clear(&f->err);
    }
}

static void test_race(void **state)
{
    struct fixture *f = *state;
    struct swapper s = {.f = f};
    char source[64];
    pthread_t thread;
    fixture_file_put(f->other, "secret", "secret", 6);
    fixture_file_put(f->other, "outside", "secret", 6);
    _cleanup_free_ char *before = fixture_describe_tree(f->other);
    fixture_directory_make(source);
    furnish(source);
    make_dir(f, "place");
    make_link(f, f->other, "out");
    make_dir(f, "deep");
    make_dir(f, "deep/a");
    make_dir(f, "deep/a/b");
    put(f, "file", "inside");
    char target[128];
    (void)snprintf(target, sizeof(target), "%s/secret", f->other);
    make_link(f, target, "leak");
    assert_int_equal(pthread_create(&thread, NULL, swap_all, &s), 0);
    int64_t until = clock_mono_ms() + 3000;
    while (clock_mono_ms() < until) {
        provoke(f, source);
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    _cleanup_free_ char *after = fixture_describe_tree(f->other);
    assert_string_equal(before, after);
    fixture_directory_remove(source);
    expect_no_stage(f);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    signal(SIGPIPE, SIG_IGN);
    fixture_directory_make(f->dir);
    fixture_directory_make(f->other);
    f->files = local_files(f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    fixture_directory_remove(f->dir);
    fixture_directory_remove(f->other);
    free(f);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_list),         TEST(test_list_too_long), TEST(test_read),
        TEST(test_outside),      TEST(test_write),         TEST(test_write_cut),
        TEST(test_stale_stages), TEST(test_remove),        TEST(test_remove_deep),
        TEST(test_pack),         TEST(test_unpack),        TEST(test_unpack_conflict),
        TEST(test_unpack_cut),   TEST(test_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
