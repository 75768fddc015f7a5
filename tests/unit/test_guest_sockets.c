/* `guest sockets` from outside: the real binary on trees of this machine. */
#include "guest_process.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char scratch[] = "/tmp/exechost-sockets-XXXXXX";

static void make_socket(const char *name)
{
    assert_int_equal(mknod(name, S_IFSOCK | 0600, 0), 0);
}

static int64_t count(const char *hex)
{
    struct guest_run run = {.argv = (const char *const[]){"sockets", hex, NULL}};
    guest_process_run(&run);
    assert_int_equal(run.last, GUEST_DONE);
    int64_t found = run.count;
    guest_process_done(&run);
    return found;
}

static void test_kinds(void **state)
{
    (void)state;
    assert_int_equal(count(""), 0);
    assert_int_equal(mkdir("a", 0755), 0);
    assert_int_equal(mkdir("a/b", 0755), 0);
    assert_int_equal(mkfifo("a/pipe", 0600), 0);
    assert_int_equal(symlink("..", "a/b/up"), 0);
    assert_int_equal(symlink("one", "two"), 0);
    make_socket("one");
    make_socket("a/two");
    make_socket("a/b/three");
    assert_int_equal(count(""), 3);
    assert_int_equal(count("61"), 2);     /* "a" */
    assert_int_equal(count("74776f"), 0); /* "two", a link */
    assert_int_equal(count("6e6f"), 0);   /* nothing */
}

static void test_many(void **state)
{
    (void)state;
    char name[32];
    assert_int_equal(mkdir("many", 0755), 0);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof(name), "many/%s%d", i % 2 ? "socket" : "file", i);
        if (i % 2) {
            make_socket(name);
        } else {
            assert_int_equal(mkdir(name, 0755), 0);
        }
    }
    assert_int_equal(count("6d616e79"), 1500);
}

/* Deeper than a process has descriptors at first, with a socket at the bottom. */
static void test_deep(void **state)
{
    (void)state;
    enum { DEPTH = 1500 };
    int fds[2] = {open(".", O_RDONLY | O_DIRECTORY), -1};
    assert_int_equal(mkdir("deep", 0755), 0);
    for (int i = 0; i < DEPTH; i++) {
        const char *name = i == 0 ? "deep" : "d";
        assert_true(i == 0 || mkdirat(fds[0], name, 0755) == 0);
        fds[1] = openat(fds[0], name, O_RDONLY | O_DIRECTORY);
        assert_true(fds[1] >= 0);
        close(fds[0]);
        fds[0] = fds[1];
    }
    assert_int_equal(mknodat(fds[0], "s", S_IFSOCK | 0600, 0), 0);
    close(fds[0]);
    assert_int_equal(count("64656570"), 1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(scratch) == NULL || chdir(scratch) != 0 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") != 0 ? -1 : nftw(scratch, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
