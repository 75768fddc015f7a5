/* The native host on this machine: needs root, cgroups, /bin/busybox. */
#include "sandbox_fixture.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* One execution for one test. */
struct box {
    struct fixture *f;
    struct host_provision_plan plan;
    char *handle;
};

static void box_open(struct box *b, struct fixture *f, const char *name)
{
    *b = (struct box){.f = f, .plan = fixture_plan(f, name)};
    b->handle = fixture_provision(f, &b->plan);
}

static bool exists(const struct box *b)
{
    char path[256];
    struct stat st;
    snprintf(path, sizeof(path), "%s/native/run/%s", b->f->directory, b->handle);
    return stat(path, &st) == 0;
}

static void box_close(struct box *b)
{
    fixture_terminate(b->f, &b->plan, b->handle);
    assert_int_equal(fixture_groups(b->f, b->handle), 0);
    assert_false(exists(b));
    free(b->handle);
    host_provision_plan_done(&b->plan);
}

static void test_lives(void **state)
{
    struct box b;
    struct run r;
    box_open(&b, *state, "lives");
    run_init(&r, b.f, &b.plan, b.handle);
    assert_int_equal(run_sh(&r, "id -u; id -g; pwd; cat /etc/marker; echo no >&2; exit 3"), 3);
    assert_string_equal(buf_str(&r.out), "65532\n65532\n/workspace\nimage\n");
    assert_string_equal(buf_str(&r.err), "no\n");
    assert_true(r.result.started);
    assert_true(r.result.usage.pids_peak >= 2);
    assert_true(r.result.usage.memory_peak_bytes > 0);
    run_done(&r);
    box_close(&b);
}

/* What is printed is right when it is empty. */
static void expect_silence(struct box *b, const char *script)
{
    struct run r;
    run_init(&r, b->f, &b->plan, b->handle);
    int code = run_sh(&r, script);
    if (code != 0 || r.out.len != 0 || r.err.len != 0) {
        fail_msg("%d %s%s", code, buf_str(&r.out), buf_str(&r.err));
    }
    run_done(&r);
}

static void test_is_confined(void **state)
{
    struct box b;
    box_open(&b, *state, "confined");
    expect_silence(&b, "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/self/status | "
                       "grep -v 0000000000000000; true");
    expect_silence(&b, "grep -q '^NoNewPrivs:.1' /proc/self/status || echo privileges");
    expect_silence(&b, "grep -q '^Seccomp:.2' /proc/self/status || echo seccomp");
    expect_silence(&b, "touch /etc/x 2>/dev/null && echo written; true");
    expect_silence(&b, "mount -t tmpfs x /tmp 2>/dev/null && echo mounted; true");
    expect_silence(&b, "mknod x c 1 3 2>/dev/null && echo node; true");
    expect_silence(&b, "(echo b > /proc/sysrq-trigger) 2>/dev/null && echo sysrq; true");
    expect_silence(&b, "[ -s /proc/kcore ] && echo kcore; true");
    expect_silence(&b, "unshare -U true 2>/dev/null && echo unshared; true");
    expect_silence(&b, "kill -9 1 2>/dev/null && echo killed; ls /proc/1/fd 2>/dev/null; true");
    expect_silence(&b, "ip -o link | grep -v ' lo:'; true");
    expect_silence(
        &b, "cp /bin/busybox /tmp/busybox && /tmp/busybox true 2>/dev/null && echo ran; true");
    expect_silence(&b, "cp /bin/busybox . && ./busybox true || echo not run");
    expect_silence(&b, "ls /proc/self/fd | grep -vx '[0123]'; true");
    box_close(&b);
}

static void test_bounds(void **state)
{
    struct box b;
    struct run r;
    box_open(&b, *state, "bounds");
    run_init(&r, b.f, &b.plan, b.handle);
    assert_int_equal(run_sh(&r, "dd if=/dev/zero of=big bs=1M count=20 2>/dev/null; "
                                "stat -c %s big; rm big"),
                     0);
    assert_string_equal(buf_str(&r.out), "16777216\n");
    run_done(&r);
    run_init(&r, b.f, &b.plan, b.handle);
    (void)run_sh(&r, "b() { b | b & }; b 2>/dev/null; sleep 0.3; exit 0");
    run_done(&r);
    box_close(&b);
}

static void test_memory(void **state)
{
    struct box b;
    struct run r;
    box_open(&b, *state, "memory");
    run_init(&r, b.f, &b.plan, b.handle);
    (void)run_sh(&r, "x=x; while :; do x=$x$x; done");
    assert_true(r.result.oom);
    run_done(&r);
    box_close(&b);
}

static void test_not_started(void **state)
{
    struct box b;
    struct run r;
    const char *const absent[] = {"absent", NULL};
    const char *const directory[] = {"/etc", NULL};
    box_open(&b, *state, "not-started");
    run_init(&r, b.f, &b.plan, b.handle);
    run_start(&r, absent);
    run_wait(&r);
    assert_false(r.result.started);
    assert_int_equal(r.result.exit_code, 127);
    assert_string_equal(r.result.detail, "absent: No such file or directory");
    run_done(&r);
    run_init(&r, b.f, &b.plan, b.handle);
    run_start(&r, directory);
    run_wait(&r);
    assert_int_equal(r.result.exit_code, 126);
    run_done(&r);
    run_init(&r, b.f, &b.plan, b.handle);
    assert_int_equal(run_sh(&r, "kill -9 $$"), -1);
    assert_int_equal(r.result.signal, SIGKILL);
    run_done(&r);
    box_close(&b);
}

static void test_input_and_signal(void **state)
{
    struct box b;
    struct run r;
    struct error err = ERROR_INIT;
    const char *const argv[] = {"sh", "-c",
                                "trap 'echo term; exit 7' TERM; cat; echo end; "
                                "while :; do sleep 0.05; done",
                                NULL};
    box_open(&b, *state, "input");
    run_init(&r, b.f, &b.plan, b.handle);
    struct host_exec_events events = run_events(&r);
    const struct host_exec_plan plan = {
        .id = host_provision_plan_identity(&b.plan),
        .handle = b.handle,
        .command_id = r.id,
        .argv = argv,
        .cwd = "",
        .has_stdin = true,
        .stdin_data = "one ",
        .stdin_len = 4,
        .stdin_open = true,
        .timeout_ms = -1,
        .limits = b.plan.limits,
    };
    const struct host_exec_ref ref = {plan.id, b.handle, r.id};
    const struct host_ops *ops = b.f->host->ops;
    assert_int_equal(ops->exec(b.f->host, &plan, &events, &err), 0);
    assert_true(run_wait_output(&r, 4, 5000));
    assert_int_equal(ops->exec_input(b.f->host, &ref, "two\n", 4, true, &err), 0);
    assert_true(run_wait_output(&r, 12, 5000));
    assert_int_equal(ops->exec_input(b.f->host, &ref, "three", 5, false, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_int_equal(ops->exec_signal(b.f->host, &ref, SIGTERM, &err), 0);
    run_wait(&r);
    assert_int_equal(r.result.exit_code, 7);
    assert_string_equal(buf_str(&r.out), "one two\nend\nterm\n");
    assert_int_equal(ops->exec_signal(b.f->host, &ref, SIGTERM, &err), -1);
    assert_int_equal(err.code, ERROR_COMMAND_NOT_FOUND);
    run_done(&r);
    box_close(&b);
}

/* A command goes on while no service is there, and is taken up where the output was known. */
static void test_survives(void **state)
{
    struct box b;
    struct run r;
    struct error err = ERROR_INIT;
    struct host_found_list found = {0};
    const char *const argv[] = {"sh", "-c",
                                "for i in $(seq 40); do echo $i; sleep 0.02; done; exit 5", NULL};
    box_open(&b, *state, "survives");
    run_init(&r, b.f, &b.plan, b.handle);
    run_start(&r, argv);
    assert_true(run_wait_output(&r, 4, 5000));
    fixture_reopen(b.f);
    assert_true(r.finished);
    assert_true(r.result.detached);
    size_t known = r.out.len;
    r.finished = false;
    assert_int_equal(b.f->host->ops->list(b.f->host, &found, &err), 0);
    /* Behind what is its own may be what other instances hold on this machine. */
    assert_true(found.count >= 1 && found.items[0].ours && found.items[0].running);
    assert_true(found.count == 1 || !found.items[1].ours);
    assert_int_equal(b.f->host->ops->adopt(b.f->host, &found.items[0], &err), 0);
    host_found_list_done(&found);
    const struct host_exec_resume resume = {
        .command = {host_provision_plan_identity(&b.plan), b.handle, r.id},
        .name = "sh",
        .cwd = "",
        .stdout_bytes = (int64_t)known,
    };
    struct host_exec_events events = run_events(&r);
    assert_int_equal(b.f->host->ops->exec_resume(b.f->host, &resume, &events, &err), 0);
    run_wait(&r);
    assert_int_equal(r.result.exit_code, 5);
    char expected[256] = "";
    for (int i = 1; i <= 40; i++) {
        snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%d\n", i);
    }
    assert_string_equal(buf_str(&r.out), expected);
    run_done(&r);
    box_close(&b);
}

static void test_large_output(void **state)
{
    struct box b;
    struct run r;
    b = (struct box){.f = *state, .plan = fixture_plan(*state, "large")};
    b.plan.limits.max_output_bytes = 64 << 20;
    b.handle = fixture_provision(b.f, &b.plan);
    run_init(&r, b.f, &b.plan, b.handle);
    int64_t began = clock_mono_ms();
    assert_int_equal(run_sh(&r, "dd if=/dev/zero bs=1M count=64 2>/dev/null"), 0);
    assert_int_equal(r.out.len, 64 << 20);
    print_message("64 MiB: %lld ms\n", (long long)(clock_mono_ms() - began));
    run_done(&r);
    box_close(&b);
}

static void test_tree_dies(void **state)
{
    struct box b;
    struct run r;
    const char *const argv[] = {"sh", "-c",
                                "for i in $(seq 40); do (trap '' TERM HUP INT; setsid sleep 1000 "
                                "&) & done; echo up; sleep 1000",
                                NULL};
    b = (struct box){.f = *state, .plan = fixture_plan(*state, "tree")};
    b.plan.limits.pids = 256;
    b.handle = fixture_provision(b.f, &b.plan);
    run_init(&r, b.f, &b.plan, b.handle);
    run_start(&r, argv);
    assert_true(run_wait_output(&r, 3, 5000));
    int64_t began = clock_mono_us();
    box_close(&b);
    print_message("terminate: %lld us\n", (long long)(clock_mono_us() - began));
    run_wait(&r);
    assert_true(r.result.lost);
    run_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lives),       cmocka_unit_test(test_is_confined),
        cmocka_unit_test(test_bounds),      cmocka_unit_test(test_memory),
        cmocka_unit_test(test_not_started), cmocka_unit_test(test_input_and_signal),
        cmocka_unit_test(test_survives),    cmocka_unit_test(test_large_output),
        cmocka_unit_test(test_tree_dies),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
