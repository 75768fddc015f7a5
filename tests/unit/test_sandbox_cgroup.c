/* Control groups of this machine, whichever version it has: needs root. */
#include "sandbox/cgroup.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { FREEZE_MS = 5000 };

struct groups {
    struct cgroup_set roots;
    struct cgroup_set parents;
    struct cgroup_set group;
    char name[64];
};

static int setup(void **state)
{
    static struct groups g;
    struct sandbox_fault fault;
    snprintf(g.name, sizeof(g.name), "exechost-unit-%d", (int)getpid());
    assert_int_equal(cgroup_find(&g.roots, &fault), 0);
    assert_int_equal(cgroup_delegate(&g.roots), 0);
    assert_int_equal(cgroup_below(&g.roots, g.name, true, &g.parents), 0);
    assert_int_equal(cgroup_delegate(&g.parents), 0);
    assert_int_equal(cgroup_below(&g.parents, "one", true, &g.group), 0);
    *state = &g;
    return 0;
}

static int teardown(void **state)
{
    struct groups *g = *state;
    cgroup_set_close(&g->group);
    assert_int_equal(cgroup_remove(&g->parents, "one"), 0);
    assert_false(cgroup_exists(&g->parents, "one"));
    cgroup_set_close(&g->parents);
    assert_int_equal(cgroup_remove(&g->roots, g->name), 0);
    cgroup_set_close(&g->roots);
    return 0;
}

static pid_t sleeper(const struct groups *g)
{
    int pidfd = -1;
    int ready[2];
    int entries[CGROUP_TREES_MAX];
    size_t count;
    char byte;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(cgroup_open_entries(&g->group, entries, &count), 0);
    pid_t pid = sandbox_clone(cgroup_birth_fd(&g->group), &pidfd);
    if (pid == 0) {
        for (size_t i = 0; i < count; i++) {
            if (write(entries[i], "0", 1) != 1) {
                _exit(1);
            }
        }
        (void)!write(ready[1], "r", 1);
        for (;;) {
            pause();
        }
    }
    assert_true(pid > 0);
    close(pidfd);
    close(ready[1]);
    for (size_t i = 0; i < count; i++) {
        close(entries[i]);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void test_limits(void **state)
{
    struct groups *g = *state;
    const struct cgroup_limits asked = {
        .nano_cpus = 333000000, .memory_bytes = (16 << 20) + 1234, .pids = 7};
    const struct cgroup_limits other = {
        .nano_cpus = 333000000, .memory_bytes = 32 << 20, .pids = 7};
    struct cgroup_limits applied;
    struct sandbox_fault fault;
    assert_int_equal(cgroup_limit(&g->group, &asked, &fault), 0);
    assert_int_equal(cgroup_read_limits(&g->group, &applied), 0);
    assert_true(cgroup_limits_match(&asked, &applied));
    assert_false(cgroup_limits_match(&other, &applied));
}

static void test_freeze_and_kill(void **state)
{
    struct groups *g = *state;
    struct cgroup_counters counters;
    pid_t pid = sleeper(g);
    int status;
    assert_true(cgroup_populated(&g->group));
    assert_int_equal(cgroup_freeze(&g->group, true, FREEZE_MS), 0);
    assert_true(cgroup_is_frozen(&g->group));
    int killed = cgroup_kill(&g->group);
    assert_true(killed == 0 || errno == ENOTSUP);
    if (killed != 0) {
        assert_int_equal(kill(pid, SIGKILL), 0);
    }
    assert_int_equal(cgroup_freeze(&g->group, false, FREEZE_MS), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_false(cgroup_is_frozen(&g->group));
    assert_false(cgroup_populated(&g->group));
    cgroup_read_counters(&g->group, &counters);
    assert_true(counters.pids_peak != 0);
    assert_int_equal(counters.oom_kills, 0);
    assert_int_equal(cgroup_oom_kills(&g->group), 0);
}

static void test_absent(void **state)
{
    struct groups *g = *state;
    struct cgroup_set none;
    assert_int_equal(cgroup_below(&g->parents, "absent", false, &none), 0);
    assert_int_equal(none.count, 0);
    assert_int_equal(cgroup_remove(&g->parents, "absent"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_freeze_and_kill),
        cmocka_unit_test(test_absent),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
