/* Child processes: output, status, limits on time and size, what they inherit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

struct result {
    struct buf out;
    struct buf diag;
    int status;
    int rc;
    struct error err;
};

static void result_done(struct result *r)
{
    buf_done(&r->out);
    buf_done(&r->diag);
}

static void shell(struct result *r, const char *script, size_t max, int64_t timeout_ms,
                  struct cancel *cancel)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const char *const envp[] = {"ONLY=this", NULL};
    struct child_run run = {.spec = {.argv = argv, .envp = envp, .cwd = "/"},
                            .deadline_mono_ms = clock_mono_ms() + timeout_ms,
                            .cancel = cancel,
                            .out = &r->out,
                            .diag = &r->diag};

    buf_init(&r->out, max);
    buf_init(&r->diag, 64);
    r->err = (struct error)ERROR_INIT;
    r->rc = child_run(&run, &r->err);
    r->status = run.status;
}

static void output_and_status_come_back(void **state)
{
    struct result r;

    (void)state;
    shell(&r, "pwd; echo $ONLY; echo bad >&2; exit 7", 100, 10000, NULL);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.status, 7);
    assert_string_equal(buf_str(&r.out), "/\nthis\n");
    assert_string_equal(buf_str(&r.diag), "bad\n");
    result_done(&r);
}

static void a_signal_is_128_and_its_number(void **state)
{
    struct result r;

    (void)state;
    shell(&r, "kill -9 $$", 100, 10000, NULL);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.status, 128 + SIGKILL);
    result_done(&r);
}

static void large_output_is_whole(void **state)
{
    struct result r;

    (void)state;
    shell(&r, "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2", 3000000, 30000, NULL);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.status, 0);
    assert_int_equal(r.out.len, 3000000);
    assert_int_equal(r.diag.len, 64);
    result_done(&r);
}

static void output_over_the_cap_kills(void **state)
{
    struct result r;

    (void)state;
    shell(&r, "cat /dev/zero", 1000, 30000, NULL);
    assert_int_equal(r.rc, -1);
    assert_int_equal(r.err.code, ERROR_RUNTIME);
    assert_non_null(strstr(r.err.detail, "1000 bytes"));
    result_done(&r);
}

static void the_deadline_kills_also_a_writer_of_errors(void **state)
{
    struct result r;
    int64_t begun = clock_mono_ms();

    (void)state;
    shell(&r, "yes >&2", 1000, 200, NULL);
    assert_int_equal(r.rc, -1);
    assert_int_equal(r.err.code, ERROR_TIMEOUT);
    assert_true(clock_mono_ms() - begun < 10000);
    result_done(&r);
}

static void *fire_soon(void *arg)
{
    usleep(50000);
    cancel_fire(arg);
    return NULL;
}

static void a_cancel_flag_kills(void **state)
{
    struct result r;
    struct cancel *cancel;
    struct error err = ERROR_INIT;
    pthread_t thread;
    int64_t begun = clock_mono_ms();

    (void)state;
    assert_int_equal(cancel_new(&cancel, &err), 0);
    assert_int_equal(pthread_create(&thread, NULL, fire_soon, cancel), 0);
    shell(&r, "sleep 60", 1000, 60000, cancel);
    pthread_join(thread, NULL);
    assert_int_equal(r.rc, -1);
    assert_non_null(strstr(r.err.detail, "interrupted"));
    assert_true(clock_mono_ms() - begun < 10000);
    cancel_unref(cancel);
    result_done(&r);
}

static void who_inherits_the_pipes_is_not_waited_for(void **state)
{
    struct result r;
    int64_t begun = clock_mono_ms();

    (void)state;
    shell(&r, "sleep 60 & echo done", 1000, 60000, NULL);
    assert_int_equal(r.rc, 0);
    assert_string_equal(buf_str(&r.out), "done\n");
    assert_true(clock_mono_ms() - begun < 10000);
    result_done(&r);
}

static void nothing_else_is_inherited(void **state)
{
    struct result r;
    int leak = fcntl(STDOUT_FILENO, F_DUPFD, 200);

    (void)state;
    assert_int_equal(leak, 200);
    setenv("SHOULD_NOT_BE_SEEN", "1", 1);
    signal(SIGPIPE, SIG_IGN);
    shell(&r,
          "test -e /proc/self/fd/200 && echo fd; env | grep -c SEEN; "
          "readlink /proc/self/fd/0; grep -c 'SigIgn:.*0000000$' /proc/self/status",
          1000, 10000, NULL);
    signal(SIGPIPE, SIG_DFL);
    close(leak);
    assert_int_equal(r.rc, 0);
    assert_string_equal(buf_str(&r.out), "0\n/dev/null\n1\n");
    result_done(&r);
}

static void a_missing_program_is_an_error(void **state)
{
    const char *const argv[] = {"no-such-program-here", NULL};
    const char *const absolute[] = {"/no/such/program", NULL};
    const char *const envp[] = {NULL};
    struct child_spec spec = {.argv = argv, .envp = envp};
    struct error err = ERROR_INIT;
    struct child c;

    (void)state;
    assert_int_equal(child_start(&c, &spec, &err), -1);
    assert_int_equal(err.code, ERROR_RUNTIME);
    assert_non_null(strstr(err.detail, "no-such-program-here"));
    spec.argv = absolute;
    assert_int_equal(child_start(&c, &spec, &err), -1);
    assert_non_null(strstr(err.detail, "No such file"));
}

static void finish_is_idempotent(void **state)
{
    const char *const argv[] = {"sleep", "60", NULL};
    const char *const envp[] = {NULL};
    struct child_spec spec = {.argv = argv, .envp = envp};
    struct error err = ERROR_INIT;
    struct child c;
    int status;

    (void)state;
    assert_int_equal(child_start(&c, &spec, &err), 0);
    assert_true((fcntl(c.err_fd, F_GETFL) & O_NONBLOCK) != 0);
    status = child_finish(&c, true);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(child_finish(&c, true), -1);
    assert_int_equal(c.out_fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_status_come_back),
        cmocka_unit_test(a_signal_is_128_and_its_number),
        cmocka_unit_test(large_output_is_whole),
        cmocka_unit_test(output_over_the_cap_kills),
        cmocka_unit_test(the_deadline_kills_also_a_writer_of_errors),
        cmocka_unit_test(a_cancel_flag_kills),
        cmocka_unit_test(who_inherits_the_pipes_is_not_waited_for),
        cmocka_unit_test(nothing_else_is_inherited),
        cmocka_unit_test(a_missing_program_is_an_error),
        cmocka_unit_test(finish_is_idempotent),
    };

    return cmocka_run_group_tests_name("base child", tests, NULL, NULL);
}
