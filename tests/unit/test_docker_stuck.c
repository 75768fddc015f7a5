/* What the kernel's texts say of a process: whose container it is in, whether it is held there. */
#include "host/docker/stuck.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdee"

static void test_names(void **state)
{
    (void)state;
    assert_true(stuck_cgroup_names("0::/docker/" ID "\n", ID));
    assert_true(stuck_cgroup_names("0::/docker/" ID, ID));
    assert_true(stuck_cgroup_names("0::/system.slice/docker-" ID ".scope\n", ID));
    assert_true(stuck_cgroup_names("0::/../../docker/" ID "/below\n", ID));
    assert_true(stuck_cgroup_names("12:pids:/\n4:name=systemd:/docker/" ID "\n0::/\n", ID));
    assert_true(stuck_cgroup_names("3:cpu,cpuacct:/x/docker-" ID ".scope/init\n0::/\n", ID));
}

static void test_names_others(void **state)
{
    (void)state;
    assert_false(stuck_cgroup_names("", ID));
    assert_false(stuck_cgroup_names("\n\n", ID));
    assert_false(stuck_cgroup_names("0::/\n", ID));
    assert_false(stuck_cgroup_names("0::/docker/" OTHER "\n", ID));
    assert_false(stuck_cgroup_names("0::/docker/a" ID "\n", ID));
    assert_false(stuck_cgroup_names("0::/docker/" ID "a\n", ID));
    assert_false(stuck_cgroup_names("0::/docker/docker-" ID "\n", ID));
    assert_false(stuck_cgroup_names("0::/docker/" ID ".scope\n", ID));
    assert_false(stuck_cgroup_names("0::/docker/dockera" ID ".scope\n", ID));
    assert_false(stuck_cgroup_names("0::/docker-" ID ".scope.d\n", ID));
    assert_false(stuck_cgroup_names("0:name=/docker/" ID "\n", ID));
    assert_false(stuck_cgroup_names("/docker/" ID "\n", ID));
}

static void test_freezer(void **state)
{
    char path[128];

    (void)state;
    assert_int_equal(
        stuck_cgroup_freezer("9:pids:/a\n6:freezer:/docker/x\n0::/\n", path, sizeof(path)), 0);
    assert_string_equal(path, "/docker/x");
    assert_int_equal(stuck_cgroup_freezer("6:freezer:/", path, sizeof(path)), 0);
    assert_string_equal(path, "/");
    assert_int_equal(stuck_cgroup_freezer("0::/docker/x\n", path, sizeof(path)), -1);
    assert_int_equal(stuck_cgroup_freezer("0::/a:freezer:/b\n", path, sizeof(path)), -1);
    assert_int_equal(stuck_cgroup_freezer("6:freezer:/docker/x\n", path, 9), -1);
    assert_int_equal(stuck_cgroup_freezer("", path, sizeof(path)), -1);
}

static void test_held(void **state)
{
    (void)state;
    assert_true(stuck_stat_is_held("71 (runc:[2:INIT]) T 1 71 71 0 -1"));
    assert_true(stuck_stat_is_held("71 (runc:[2:INIT]) t 1 71 71 0 -1"));
    assert_false(stuck_stat_is_held("71 (runc:[2:INIT]) S 1 71 71 0 -1"));
    assert_false(stuck_stat_is_held("71 (runc:[2:INIT]) R 1 T 71 0 -1"));
    assert_false(stuck_stat_is_held("71 (sh) T 1 71 71 0 -1"));
    assert_false(stuck_stat_is_held("71 (a (runc:[) T 1 71 71 0 -1"));
    assert_false(stuck_stat_is_held("71 (runc:[) T) S 1 71 71 0 -1"));
    assert_false(stuck_stat_is_held("71 (runc:[2"));
    assert_false(stuck_stat_is_held("71 (runc:[2:INIT])"));
    assert_false(stuck_stat_is_held(""));
}

/* Waits that nothing can be done for, and those of others, end without help. */
static void test_waits(void **state)
{
    struct error err = ERROR_INIT;
    struct stuck *s;
    struct stuck_wait *first;
    struct stuck_wait *second;

    (void)state;
    assert_int_equal(stuck_new(1, &s, &err), 0);
    first = stuck_wait_begin(s, ID, STUCK_END);
    second = stuck_wait_begin(s, OTHER, STUCK_LIFE);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(stuck_wait_begin(s, "a-name", STUCK_END));
    assert_null(stuck_wait_begin(NULL, ID, STUCK_END));
    usleep(20 * 1000);
    assert_false(stuck_wait_end(&first));
    assert_null(first);
    assert_false(stuck_wait_end(&first));
    assert_false(stuck_wait_end(&second));
    stuck_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_names_others),
        cmocka_unit_test(test_freezer), cmocka_unit_test(test_held),
        cmocka_unit_test(test_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
