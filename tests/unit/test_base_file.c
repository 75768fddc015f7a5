/* Files and directories in a directory of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/exechost-file-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_root(void **state)
{
    struct error err = ERROR_INIT;

    (void)state;
    return dir_remove(root, &err);
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count - 2;
}

static void write_then_read(void **state)
{
    _cleanup_buf_ struct buf b;
    struct error err = ERROR_INIT;
    struct stat st;

    (void)state;
    buf_init(&b, 100);
    assert_int_equal(file_write_atomic(path_of("f"), "one", 3, 0600, &err), 0);
    assert_int_equal(file_write_atomic(path_of("f"), "a\0b", 3, 0640, &err), 0);
    assert_int_equal(stat(path_of("f"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(file_read(path_of("f"), &b, &err), 0);
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.data, "a\0b", 3);
    assert_int_equal(count_entries(root), 1);
}

static void a_failed_write_leaves_nothing_beside(void **state)
{
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(mkdir(path_of("d"), 0700), 0);
    assert_int_equal(file_write_atomic(path_of("d"), "x", 1, 0600, &err), -1);
    assert_int_equal(err.code, ERROR_INTERNAL);
    assert_int_equal(count_entries(root), 1);
    assert_int_equal(file_write_atomic(path_of("missing/f"), "x", 1, 0600, &err), -1);
    assert_non_null(strstr(err.detail, "No such file"));
}

static void reading_stops_at_the_cap(void **state)
{
    _cleanup_buf_ struct buf exact;
    _cleanup_buf_ struct buf small;
    struct error err = ERROR_INIT;

    (void)state;
    buf_init(&exact, 10);
    buf_init(&small, 9);
    assert_int_equal(file_write_atomic(path_of("f"), "0123456789", 10, 0600, &err), 0);
    assert_int_equal(file_read(path_of("f"), &exact, &err), 0);
    assert_int_equal(exact.len, 10);
    assert_int_equal(file_read(path_of("f"), &small, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "larger than"));
    assert_int_equal(file_read(path_of("none"), &small, &err), -1);
    assert_int_equal(err.code, ERROR_INTERNAL);
}

static void directories_are_made_with_their_parents(void **state)
{
    struct error err = ERROR_INIT;
    struct stat st;

    (void)state;
    assert_int_equal(dir_make(path_of("a/b//c"), 0700, &err), 0);
    assert_int_equal(dir_make(path_of("a/b/c/"), 0700, &err), 0);
    assert_int_equal(stat(path_of("a/b/c"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(dir_sync(path_of("a/b"), &err), 0);
    assert_int_equal(file_write_atomic(path_of("a/f"), "", 0, 0600, &err), 0);
    assert_int_equal(dir_make(path_of("a/f/x"), 0700, &err), -1);
    assert_int_equal(dir_make("", 0700, &err), -1);
}

static void removal_follows_no_link(void **state)
{
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(dir_make(path_of("keep"), 0700, &err), 0);
    assert_int_equal(file_write_atomic(path_of("keep/f"), "x", 1, 0600, &err), 0);
    assert_int_equal(dir_make(path_of("gone/deep/er"), 0700, &err), 0);
    assert_int_equal(file_write_atomic(path_of("gone/deep/f"), "x", 1, 0600, &err), 0);
    assert_int_equal(symlink("../keep", path_of("gone/link")), 0);
    assert_int_equal(dir_remove(path_of("gone"), &err), 0);
    assert_int_equal(access(path_of("gone"), F_OK), -1);
    assert_int_equal(access(path_of("keep/f"), F_OK), 0);
    assert_int_equal(dir_remove(path_of("gone"), &err), 0);
    assert_int_equal(symlink("keep", path_of("top")), 0);
    assert_int_equal(dir_remove(path_of("top"), &err), 0);
    assert_int_equal(access(path_of("keep/f"), F_OK), 0);
}

static void emptying_keeps_the_directory(void **state)
{
    struct error err = ERROR_INIT;
    struct stat before;
    struct stat after;

    (void)state;
    assert_int_equal(dir_empty(path_of("e/new"), 0700, &err), 0);
    assert_int_equal(stat(path_of("e/new"), &before), 0);
    assert_int_equal(before.st_mode & 07777, 0700);
    assert_int_equal(dir_make(path_of("e/new/sub/sub"), 0700, &err), 0);
    assert_int_equal(file_write_atomic(path_of("e/new/f"), "x", 1, 0600, &err), 0);
    assert_int_equal(dir_empty(path_of("e/new"), 0700, &err), 0);
    assert_int_equal(access(path_of("e/new/sub"), F_OK), -1);
    assert_int_equal(access(path_of("e/new/f"), F_OK), -1);
    assert_int_equal(stat(path_of("e/new"), &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_int_equal(symlink("new", path_of("e/link")), 0);
    assert_int_equal(dir_empty(path_of("e/link"), 0700, &err), -1);
}

static void ranges_are_copied(void **state)
{
    struct error err = ERROR_INIT;
    char got[16] = "";
    int from;
    int to;

    (void)state;
    assert_int_equal(file_write_atomic(path_of("from"), "0123456789", 10, 0600, &err), 0);
    from = open(path_of("from"), O_RDONLY | O_CLOEXEC);
    to = open(path_of("to"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(from >= 0 && to >= 0);
    assert_int_equal(file_copy_range(from, 3, 4, to, &err), 0);
    assert_int_equal(file_copy_range(from, 0, 0, to, &err), 0);
    assert_int_equal(file_copy_range(from, 9, 1, to, &err), 0);
    assert_int_equal(pread(to, got, sizeof(got) - 1, 0), 5);
    assert_string_equal(got, "34569");
    assert_int_equal(file_copy_range(from, 5, 6, to, &err), -1);
    close(from);
    /* Between two kinds of file the kernel does not copy by itself. */
    from = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    assert_true(from >= 0);
    error_clear(&err);
    assert_int_equal(file_copy_range(from, 0, 5, to, &err), 0);
    close(from);
    close(to);
}

static void opening_stays_beneath(void **state)
{
    struct error err = ERROR_INIT;
    int dir;
    int fd;

    (void)state;
    assert_int_equal(dir_make(path_of("in/sub"), 0700, &err), 0);
    assert_int_equal(file_write_atomic(path_of("out"), "x", 1, 0600, &err), 0);
    assert_int_equal(symlink("../out", path_of("in/escape")), 0);
    assert_int_equal(symlink("sub", path_of("in/inside")), 0);
    dir = open(path_of("in"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    assert_int_equal(file_open_beneath(dir, "../out", O_RDONLY, 0), -1);
    assert_int_equal(errno, EXDEV);
    assert_int_equal(file_open_beneath(dir, "escape", O_RDONLY, 0), -1);
    assert_int_equal(errno, EXDEV);
    assert_int_equal(file_open_beneath(dir, "/etc/passwd", O_RDONLY, 0), -1);
    assert_int_equal(errno, EXDEV);
    fd = file_open_beneath(dir, "inside/new", O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    close(fd);
    fd = file_open_beneath(dir, "sub", O_RDONLY | O_DIRECTORY, 0600);
    assert_true(fd >= 0);
    close(fd);
    close(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_then_read, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_failed_write_leaves_nothing_beside, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(reading_stops_at_the_cap, make_root, remove_root),
        cmocka_unit_test_setup_teardown(directories_are_made_with_their_parents, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(removal_follows_no_link, make_root, remove_root),
        cmocka_unit_test_setup_teardown(emptying_keeps_the_directory, make_root, remove_root),
        cmocka_unit_test_setup_teardown(ranges_are_copied, make_root, remove_root),
        cmocka_unit_test_setup_teardown(opening_stays_beneath, make_root, remove_root),
    };

    return cmocka_run_group_tests_name("base files", tests, NULL, NULL);
}
