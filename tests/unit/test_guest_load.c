/* `guest load` from outside: the real binary into a directory of this machine. */
#include "guest_process.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { DIRECTORY, REGULAR, SYMLINK, HARDLINK, SPECIAL };
enum { STREAM_MAX = 64 * 1024 * 1024 };

#define MTIME 1700000000123456789LL

struct fixture {
    char dir[64];
    struct buf stream;
};

static void frame(struct fixture *f, uint8_t type, const void *payload, size_t len)
{
    uint8_t head[GUEST_FRAME_HEADER] = {type};
    guest_put_u32(head + 1, (uint32_t)len);
    assert_int_equal(buf_add(&f->stream, head, sizeof(head)), 0);
    assert_int_equal(buf_add(&f->stream, payload, len), 0);
}

struct row {
    uint8_t type;
    const char *path;
    const char *target;
    uint32_t mode;
    int64_t size;
    int64_t mtime_ns; /* 0: MTIME */
};

static void entry(struct fixture *f, struct row row)
{
    uint8_t p[16384];
    const char *target = row.target != NULL ? row.target : "";
    size_t path_len = strlen(row.path);
    size_t target_len = strlen(target);
    p[0] = row.type;
    guest_put_u32(p + 1, row.mode);
    guest_put_i64(p + 5, row.mtime_ns != 0 ? row.mtime_ns : MTIME);
    guest_put_i64(p + 13, row.size);
    guest_put_u32(p + 21, (uint32_t)path_len);
    memcpy(p + 25, row.path, path_len);
    guest_put_u32(p + 25 + path_len, (uint32_t)target_len);
    memcpy(p + 29 + path_len, target, target_len);
    frame(f, GUEST_LOAD_ENTRY, p, 29 + path_len + target_len);
}

static void data(struct fixture *f, int64_t offset, const void *bytes, size_t len)
{
    _cleanup_free_ uint8_t *p = malloc(8 + len);
    assert_non_null(p);
    guest_put_i64(p, offset);
    memcpy(p + 8, bytes, len);
    frame(f, GUEST_LOAD_DATA, p, 8 + len);
}

static void end(struct fixture *f)
{
    frame(f, GUEST_LOAD_END, "", 0);
}

static void load(struct fixture *f, struct guest_run *run)
{
    const char *argv[] = {"load", f->dir, NULL};
    *run = (struct guest_run){.argv = argv, .in = f->stream.data, .in_len = f->stream.len};
    guest_process_run(run);
    guest_process_done(run);
    buf_reset(&f->stream);
}

static void expect_done(struct fixture *f)
{
    struct guest_run run;
    end(f);
    load(f, &run);
    if (run.last == GUEST_FAILED) {
        fail_msg("%s: %s", run.failed_text, strerror(run.failed_errno));
    }
    assert_int_equal(run.last, GUEST_DONE);
    assert_int_equal(run.status, 0);
}

static void expect_failed(struct fixture *f, int errnum)
{
    struct guest_run run;
    load(f, &run);
    assert_int_equal(run.last, GUEST_FAILED);
    assert_int_equal(run.failed_errno, errnum);
    assert_true(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 1);
}

static struct stat look(struct fixture *f, const char *name)
{
    char path[8192];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    if (lstat(path, &st) != 0) {
        fail_msg("%s: %s", path, strerror(errno));
    }
    return st;
}

static void expect_mtime(struct stat st, int64_t ns)
{
    assert_true(st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec == ns);
}

static void expect_content(struct fixture *f, const char *name, const void *bytes, size_t len)
{
    char path[8192];
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf content;
    buf_init(&content, STREAM_MAX);
    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    assert_int_equal(file_read(path, &content, &err), 0);
    assert_int_equal(content.len, len);
    assert_memory_equal(content.data, bytes, len);
}

static void test_tree(void **state)
{
    struct fixture *f = *state;
    entry(f, (struct row){DIRECTORY, "a", NULL, 0750, 0, 0});
    entry(f, (struct row){DIRECTORY, "a/deep", NULL, 0500, 0, MTIME + 1});
    entry(f, (struct row){REGULAR, "a/deep/file", NULL, 04755, 5, MTIME + 2});
    data(f, 0, "hello", 5);
    entry(f, (struct row){REGULAR, "a/empty", NULL, 0, 0, -1});
    entry(f, (struct row){DIRECTORY, "locked", NULL, 0, 0, MTIME + 3});
    entry(f, (struct row){REGULAR, "locked/inside", NULL, 0600, 1, 0});
    data(f, 0, "x", 1);
    entry(f, (struct row){HARDLINK, "other", "locked/inside", 0600, 0, 0});
    entry(f, (struct row){SYMLINK, "up", "../../etc/passwd", 0777, 0, MTIME + 4});
    entry(f, (struct row){REGULAR, "\xff\xfe name", NULL, 0644, 0, 0});
    expect_done(f);

    expect_content(f, "a/deep/file", "hello", 5);
    struct stat file = look(f, "a/deep/file");
    assert_int_equal(file.st_mode, S_IFREG | 0755); /* never setuid */
    expect_mtime(file, MTIME + 2);
    assert_int_equal(look(f, "a").st_mode, S_IFDIR | 0750);
    expect_mtime(look(f, "a"), MTIME);
    assert_int_equal(look(f, "a/deep").st_mode, S_IFDIR | 0500);
    expect_mtime(look(f, "a/deep"), MTIME + 1);
    expect_mtime(look(f, "a/empty"), -1);
    assert_int_equal(look(f, "locked").st_mode, S_IFDIR);
    expect_mtime(look(f, "locked"), MTIME + 3);
    assert_int_equal(look(f, "other").st_ino, look(f, "locked/inside").st_ino);
    struct stat link = look(f, "up");
    assert_true(S_ISLNK(link.st_mode));
    expect_mtime(link, MTIME + 4);
    assert_int_equal(look(f, "\xff\xfe name").st_size, 0);
}

static void test_order_is_free(void **state)
{
    struct fixture *f = *state;
    /* Sorted by whole name, "a-b" comes between "a" and "a/c". */
    entry(f, (struct row){DIRECTORY, "a", NULL, 0700, 0, 0});
    entry(f, (struct row){DIRECTORY, "a/b", NULL, 0755, 0, MTIME + 5});
    entry(f, (struct row){REGULAR, "a-b", NULL, 0644, 0, 0});
    entry(f, (struct row){REGULAR, "a/b/c", NULL, 0644, 0, 0});
    entry(f, (struct row){REGULAR, "a/d", NULL, 0644, 0, 0});
    expect_done(f);
    expect_mtime(look(f, "a"), MTIME);
    expect_mtime(look(f, "a/b"), MTIME + 5);
    assert_int_equal(look(f, "a/b").st_mode, S_IFDIR | 0755);
    assert_int_equal(look(f, "a/b/c").st_size, 0);
}

static void test_sparse(void **state)
{
    struct fixture *f = *state;
    int64_t size = 20LL << 30;
    entry(f, (struct row){REGULAR, "big", NULL, 0644, size, 0});
    data(f, 4096, "middle", 6);
    data(f, size - 3, "end", 3);
    entry(f, (struct row){REGULAR, "hole", NULL, 0644, 1 << 20, 0});
    expect_done(f);
    struct stat st = look(f, "big");
    assert_true(st.st_size == size);
    assert_true(st.st_blocks * 512 <= 64 * 1024);
    assert_int_equal(look(f, "hole").st_size, 1 << 20);
    assert_int_equal(look(f, "hole").st_blocks, 0);
}

static void test_large(void **state)
{
    struct fixture *f = *state;
    size_t len = 3 * 1024 * 1024 + 5;
    size_t step = GUEST_FRAME_MAX - 8;
    _cleanup_free_ char *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (char)(i * 7 + i / 251);
    }
    entry(f, (struct row){REGULAR, "large", NULL, 0644, (int64_t)len, 0});
    for (size_t at = 0; at < len; at += step) {
        data(f, (int64_t)at, bytes + at, len - at < step ? len - at : step);
    }
    expect_done(f);
    expect_content(f, "large", bytes, len);
}

static void test_long_and_deep_names(void **state)
{
    struct fixture *f = *state;
    char path[4096] = "d";
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    size_t len = 1;
    entry(f, (struct row){DIRECTORY, path, NULL, 0755, 0, 0});
    while (len + 2 <= 4000) {
        memcpy(path + len, "/d", 3);
        len += 2;
        entry(f, (struct row){DIRECTORY, path, NULL, 0755, 0, 0});
    }
    entry(f, (struct row){REGULAR, name, NULL, 0644, 0, 0});
    expect_done(f);
    assert_int_equal(look(f, name).st_size, 0);
    expect_mtime(look(f, path), MTIME);
    expect_mtime(look(f, "d"), MTIME);
}

static void test_what_the_kernel_refuses_is_told(void **state)
{
    struct fixture *f = *state;
    char name[300];
    memset(name, 'n', 256);
    name[256] = '\0';
    entry(f, (struct row){REGULAR, name, NULL, 0644, 0, 0});
    expect_failed(f, ENAMETOOLONG);
    entry(f, (struct row){REGULAR, "endless", NULL, 0644, INT64_MAX, 0});
    end(f);
    expect_failed(f, EFBIG);
}

static void test_links_are_not_followed(void **state)
{
    struct fixture *f = *state;
    char outside[] = "/tmp/exechost-outside-XXXXXX";
    char stolen[128];
    assert_non_null(mkdtemp(outside));
    entry(f, (struct row){SYMLINK, "out", outside, 0777, 0, 0});
    entry(f, (struct row){REGULAR, "out/stolen", NULL, 0644, 0, 0});
    expect_failed(f, ENOTDIR);
    snprintf(stolen, sizeof(stolen), "%s/stolen", outside);
    assert_int_equal(access(stolen, F_OK), -1);

    entry(f, (struct row){DIRECTORY, "out", NULL, 0755, 0, 0});
    expect_failed(f, ENOTDIR);
    entry(f, (struct row){REGULAR, "out", NULL, 0644, 0, 0});
    expect_failed(f, EEXIST);
    entry(f, (struct row){HARDLINK, "hard", "out/stolen", 0644, 0, 0});
    expect_failed(f, ENOTDIR);
    assert_int_equal(rmdir(outside), 0);
}

static void test_hostile_entries(void **state)
{
    struct fixture *f = *state;
    static const struct row rows[] = {
        {REGULAR, "../x", NULL, 0644, 0, 0},        {REGULAR, "a/../x", NULL, 0644, 0, 0},
        {REGULAR, "/x", NULL, 0644, 0, 0},          {REGULAR, "", NULL, 0644, 0, 0},
        {REGULAR, ".", NULL, 0644, 0, 0},           {REGULAR, "a/./b", NULL, 0644, 0, 0},
        {REGULAR, "a//b", NULL, 0644, 0, 0},        {REGULAR, "a/", NULL, 0644, 0, 0},
        {REGULAR, "a", "target", 0644, 0, 0},       {REGULAR, "a", NULL, 010644, 0, 0},
        {REGULAR, "a", NULL, 0644, -1, 0},          {DIRECTORY, "a", NULL, 0755, 4096, 0},
        {SYMLINK, "a", NULL, 0777, 0, 0},           {HARDLINK, "a", "../x", 0644, 0, 0},
        {HARDLINK, "a", "/etc/passwd", 0644, 0, 0}, {HARDLINK, "a", NULL, 0644, 0, 0},
        {SPECIAL, "a", NULL, 0644, 0, 0},           {77, "a", NULL, 0644, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        entry(f, rows[i]);
        expect_failed(f, EPROTO);
    }
    char path[4097];
    memset(path, 'p', 4096);
    path[4096] = '\0';
    entry(f, (struct row){REGULAR, path, NULL, 0644, 0, 0});
    expect_failed(f, EPROTO);
    entry(f, (struct row){REGULAR, "no/parent", NULL, 0644, 0, 0});
    expect_failed(f, ENOENT);
}

static void test_hostile_frames(void **state)
{
    struct fixture *f = *state;
    data(f, 0, "x", 1); /* no file */
    expect_failed(f, EPROTO);
    entry(f, (struct row){DIRECTORY, "dir", NULL, 0755, 0, 0});
    data(f, 0, "x", 1);
    expect_failed(f, EPROTO);
    entry(f, (struct row){REGULAR, "f1", NULL, 0644, 4, 0});
    data(f, 2, "xyz", 3); /* beyond its size */
    expect_failed(f, EPROTO);
    entry(f, (struct row){REGULAR, "f2", NULL, 0644, 4, 0});
    data(f, 2, "x", 1);
    data(f, 0, "x", 1); /* backwards */
    expect_failed(f, EPROTO);
    entry(f, (struct row){REGULAR, "f3", NULL, 0644, 4, 0});
    data(f, -1, "x", 1);
    expect_failed(f, EPROTO);
    entry(f, (struct row){REGULAR, "f4", NULL, 0644, 4, 0});
    data(f, 0, "", 0);
    expect_failed(f, EPROTO);
    frame(f, 99, "", 0);
    expect_failed(f, EPROTO);
    frame(f, GUEST_LOAD_END, "x", 1);
    expect_failed(f, EPROTO);
    frame(f, GUEST_LOAD_ENTRY, "short", 5);
    expect_failed(f, EPROTO);
    expect_failed(f, EPROTO); /* nothing at all */
    assert_int_equal(buf_add(&f->stream, "\x10\xff\xff\xff\xff", 5), 0);
    expect_failed(f, EPROTO);
    assert_int_equal(buf_add(&f->stream, "\x12\0\0", 3), 0); /* cut */
    expect_failed(f, EPROTO);
    static const uint8_t nul[] = {1, 0, 0, 1, 0xa4, 0, 0, 0, 0, 0,   0, 0,   0, 0, 0, 0,
                                  0, 0, 0, 0, 0,    0, 0, 0, 3, 'a', 0, 'b', 0, 0, 0, 0};
    frame(f, GUEST_LOAD_ENTRY, nul, sizeof(nul));
    expect_failed(f, EPROTO);
}

static int setup(void **state)
{
    static struct fixture f;
    memcpy(f.dir, "/tmp/exechost-load-XXXXXX", 26);
    buf_init(&f.stream, STREAM_MAX);
    *state = &f;
    return mkdtemp(f.dir) == NULL ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    buf_done(&f->stream);
    return nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tree, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_is_free, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sparse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_and_deep_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_the_kernel_refuses_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_frames, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
