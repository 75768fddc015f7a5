/* `guest run` from outside: the real binary, its frames, this machine's own programs. */
#include "guest_process.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define RUN(...)                                                                                   \
    (const char *const[])                                                                          \
    {                                                                                              \
        "run", __VA_ARGS__, NULL                                                                   \
    }
#define SHELL(script) RUN("--", "sh", "-c", script)

static char scratch[] = "/tmp/exechost-guest-XXXXXX";

static void expect_code(struct guest_run *run, unsigned status)
{
    guest_process_run(run);
    assert_true(run->started);
    assert_int_equal(run->last, GUEST_EXIT);
    assert_int_equal(run->exit.flags, 0);
    assert_int_equal(run->exit.status, status);
    assert_int_equal(run->status, 0);
}

static void expect_out(struct guest_run *run, const char *text)
{
    expect_code(run, 0);
    assert_string_equal(buf_str(&run->out), text);
    assert_int_equal(run->err.len, 0);
    guest_process_done(run);
}

static void expect_not_started(struct guest_run *run, unsigned status, int errnum, unsigned more)
{
    guest_process_run(run);
    assert_false(run->started);
    assert_int_equal(run->last, GUEST_EXIT);
    assert_int_equal(run->exit.flags, GUEST_EXIT_NOT_STARTED | more);
    assert_int_equal(run->exit.status, status);
    assert_int_equal(run->exit.errnum, errnum);
    assert_int_equal(run->out.len, 0);
    guest_process_done(run);
}

static void write_scratch(const char *name, const char *text, mode_t mode)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", scratch, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_exit_codes(void **state)
{
    (void)state;
    expect_out(&(struct guest_run){.argv = SHELL("exit 0")}, "");
    struct guest_run three = {.argv = SHELL("exit 3")};
    expect_code(&three, 3);
    guest_process_done(&three);
    struct guest_run most = {.argv = SHELL("exit 255")};
    expect_code(&most, 255);
    assert_true(most.exit.cpu_ms >= 0 && most.exit.max_rss_bytes > 0);
    guest_process_done(&most);
}

static void test_signals(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        unsigned signal;
    } rows[] = {{"kill -SEGV $$", SIGSEGV},
                {"kill -KILL $$", SIGKILL},
                {"kill -TERM $$", SIGTERM},
                {"kill -HUP $$", SIGHUP}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct guest_run run = {.argv = SHELL(rows[i].script)};
        guest_process_run(&run);
        assert_int_equal(run.exit.flags, GUEST_EXIT_SIGNALED);
        assert_int_equal(run.exit.status, rows[i].signal);
        guest_process_done(&run);
    }
    /* What looks alike elsewhere is told apart here. */
    struct guest_run alike = {.argv = SHELL("exit 137")};
    expect_code(&alike, 137);
    guest_process_done(&alike);
}

static void test_streams_stay_apart(void **state)
{
    (void)state;
    struct guest_run run = {.argv = SHELL("printf out; printf err >&2; printf '\\377\\000z'")};
    expect_code(&run, 0);
    assert_int_equal(run.out.len, 6);
    assert_memory_equal(run.out.data, "out\377\0z", 6);
    assert_string_equal(buf_str(&run.err), "err");
    guest_process_done(&run);
}

static char *random_bytes(size_t len)
{
    char *data = malloc(len);
    assert_non_null(data);
    uint32_t x = 2463534242U;
    for (size_t i = 0; i < len; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        data[i] = (char)x;
    }
    return data;
}

static void test_large_input_and_output(void **state)
{
    (void)state;
    size_t len = 5 * 1024 * 1024 + 17;
    _cleanup_free_ char *data = random_bytes(len);
    struct guest_run run = {.argv = RUN("--stdin", "--", "cat"),
                            .has_stdin = true,
                            .stdin_data = data,
                            .stdin_len = len};
    expect_code(&run, 0);
    assert_int_equal(run.out.len, len);
    assert_memory_equal(run.out.data, data, len);
    guest_process_done(&run);
}

static void test_input(void **state)
{
    (void)state;
    _cleanup_free_ char *data = random_bytes(1024 * 1024);
    /* Not read, read in part, closed early: the program ends as it likes. */
    expect_out(&(struct guest_run){.argv = RUN("--stdin", "--", "true"),
                                   .has_stdin = true,
                                   .stdin_data = data,
                                   .stdin_len = 1024 * 1024},
               "");
    struct guest_run part = {.argv = RUN("--stdin", "--", "head", "-c", "5"),
                             .has_stdin = true,
                             .stdin_data = data,
                             .stdin_len = 1024 * 1024};
    expect_code(&part, 0);
    assert_int_equal(part.out.len, 5);
    guest_process_done(&part);
    struct guest_run closed = {.argv =
                                   RUN("--stdin", "--", "sh", "-c", "exec <&-; sleep 0.5; echo on"),
                               .has_stdin = true,
                               .stdin_data = data,
                               .stdin_len = 1024 * 1024};
    expect_code(&closed, 0);
    assert_true(closed.taken > 1024 * 1024 - GUEST_STDIN_WINDOW);
    guest_process_done(&closed);
    expect_out(&(struct guest_run){.argv = RUN("--stdin", "--", "cat"), .has_stdin = true}, "");
    expect_out(&(struct guest_run){.argv = RUN("--", "readlink", "/proc/self/fd/0")},
               "/dev/null\n");
}

#define ACTS(...)                                                                                  \
    .acts = (const struct guest_act[]){__VA_ARGS__},                                               \
    .act_count = ARRAY_SIZE(((const struct guest_act[]){__VA_ARGS__}))

static void test_late_input(void **state)
{
    (void)state;
    expect_out(&(struct guest_run){.argv = RUN("--stdin", "--", "sh", "-c",
                                               "while read -r x; do echo got $x; done; echo end"),
                                   ACTS({NULL, GUEST_STDIN, "a\nb", 3, 0, 0},
                                        {"got a", GUEST_STDIN, "c\n", 2, 0, 0},
                                        {"got bc", GUEST_STDIN_EOF, NULL, 0, 0, 0})},
               "got a\ngot bc\nend\n");
    /* A service that goes away is not the end of the input. */
    expect_out(
        &(struct guest_run){.argv = RUN("--stdin", "--", "sh", "-c",
                                        "read -r x; timeout 0.4 cat && echo cut || echo on"),
                            ACTS({NULL, GUEST_STDIN, "a\n", 2, 0, 0}, {NULL, 0, NULL, 0, 0, 0})},
        "on\n");
}

static void test_signals_from_the_service(void **state)
{
    static const char TRAPS[] = "trap 'echo usr1' USR1; trap 'exit 4' TERM; echo ready;"
                                "while :; do sleep 0.02; done";
    static const char GROUP[] = "trap 'echo leader' USR1;"
                                "sh -c 'trap \"echo member\" USR1; sleep 0.3; sleep 0.3' &"
                                "setsid sh -c 'trap \"echo stranger\" USR1; sleep 0.3; sleep 0.3' &"
                                "sleep 0.1; echo ready; wait; wait; wait; true";

    (void)state;
    struct guest_run killed = {.argv = SHELL("echo ready; exec sleep 60"),
                               ACTS({"ready", GUEST_SIGNAL, NULL, 0, SIGINT, 0})};
    guest_process_run(&killed);
    assert_int_equal(killed.exit.flags, GUEST_EXIT_SIGNALED);
    assert_int_equal(killed.exit.status, SIGINT);
    guest_process_done(&killed);
    struct guest_run trapped = {.argv = SHELL(TRAPS),
                                ACTS({"ready", GUEST_SIGNAL, NULL, 0, SIGUSR1, 0},
                                     {"usr1", GUEST_SIGNAL, NULL, 0, SIGTERM, 0})};
    expect_code(&trapped, 4);
    assert_string_equal(buf_str(&trapped.out), "ready\nusr1\n");
    guest_process_done(&trapped);
    /* The whole process group, and nobody outside of it. */
    struct guest_run group = {.argv = SHELL(GROUP),
                              ACTS({"ready", GUEST_SIGNAL, NULL, 0, SIGUSR1, 0})};
    expect_code(&group, 0);
    assert_non_null(strstr(buf_str(&group.out), "leader\n"));
    assert_non_null(strstr(buf_str(&group.out), "member\n"));
    assert_null(strstr(buf_str(&group.out), "stranger"));
    guest_process_done(&group);
}

static void test_signal_passes_unread_input(void **state)
{
    (void)state;
    _cleanup_free_ char *data = random_bytes(GUEST_STDIN_WINDOW);
    struct guest_run run = {
        .argv = RUN("--stdin", "--", "sh", "-c",
                    "trap 'echo through; exit 9' USR1; echo ready; while :; do sleep 0.02; done"),
        /* A pipe takes 64 KiB, so this is more than can wait anywhere but in the window. */
        ACTS({NULL, GUEST_STDIN, data, GUEST_STDIN_WINDOW, 0, 0},
             {.taken = GUEST_STDIN_WINDOW / 2,
              .type = GUEST_STDIN,
              .text = data,
              .len = GUEST_STDIN_WINDOW / 2},
             {"ready", GUEST_SIGNAL, NULL, 0, SIGUSR1, 0})};
    expect_code(&run, 9);
    assert_string_equal(buf_str(&run.out), "ready\nthrough\n");
    guest_process_done(&run);
}

static void test_service_out_of_step(void **state)
{
    (void)state;
    _cleanup_free_ char *data = random_bytes(GUEST_STDIN_WINDOW + 1);
    const struct guest_act rows[][2] = {
        {{"ready", 99, "", 0, 0, 0}},
        {{"ready", GUEST_STDIN, data, GUEST_STDIN_WINDOW + 1, 0, 0}},
        {{"ready", GUEST_STDIN_EOF, "x", 1, 0, 0}},
        {{"ready", GUEST_STDIN_EOF, NULL, 0, 0, 0}, {NULL, GUEST_STDIN, "x", 1, 0, 0}},
        {{"ready", GUEST_SIGNAL, NULL, 0, 0, 0}},
        {{"ready", GUEST_SIGNAL, NULL, 0, 65, 0}},
        {{"ready", GUEST_SIGNAL, "abc", 3, 0, 0}},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct guest_run run = {.argv = RUN("--stdin", "--", "sh", "-c", "echo ready; sleep 9"),
                                .acts = rows[i],
                                .act_count = rows[i][1].type != 0 ? 2 : 1};
        guest_process_run(&run);
        assert_int_equal(run.last, GUEST_FAILED);
        assert_int_equal(run.failed_errno, EPROTO);
        assert_true(run.elapsed_ms < 5000);
        guest_process_done(&run);
    }
    struct guest_run none = {.argv = SHELL("echo ready; sleep 9"),
                             ACTS({"ready", GUEST_STDIN, "x", 1, 0, 0})};
    guest_process_run(&none);
    assert_int_equal(none.last, GUEST_FAILED);
    guest_process_done(&none);
}

static void test_background_process_is_not_waited_for(void **state)
{
    (void)state;
    struct guest_run run = {.argv = SHELL("sleep 5 & echo hi")};
    expect_code(&run, 0);
    assert_string_equal(buf_str(&run.out), "hi\n");
    assert_in_range(run.elapsed_ms, 190, 2000);
    guest_process_done(&run);
    /* Neither is one that never stops writing. */
    struct guest_run loud = {
        .argv =
            SHELL("(sleep 0.1; for i in $(seq 300); do echo y; sleep 0.01; done) & echo first")};
    expect_code(&loud, 0);
    assert_in_range(loud.elapsed_ms, 190, 2000);
    assert_memory_equal(loud.out.data, "first\ny\n", 8);
    guest_process_done(&loud);
    /* Nor is one that reads away what the pipe holds. */
    struct guest_run thief = {
        .argv =
            SHELL("timeout 3 cat </proc/self/fd/1 >/dev/null & sleep 3 & sleep 0.1; echo lost")};
    guest_process_run(&thief);
    assert_int_equal(thief.last, GUEST_EXIT);
    assert_in_range(thief.elapsed_ms, 190, 2000);
    guest_process_done(&thief);
}

static void test_slow_reader_loses_nothing(void **state)
{
    (void)state;
    /* Frame, two pipes of 64 KiB each: the leader ends long before the reader begins. */
    struct guest_run run = {.argv = SHELL("head -c 120000 /dev/zero; sleep 3 & exit 7"),
                            .read_delay_ms = 700};
    expect_code(&run, 7);
    assert_int_equal(run.out.len, 120000);
    assert_in_range(run.elapsed_ms, 700, 2500);
    guest_process_done(&run);
}

static void test_long_argument(void **state)
{
    (void)state;
    size_t len = 64 * 1024;
    _cleanup_free_ char *text = malloc(len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    expect_out(&(struct guest_run){.argv = RUN("--", "printf", "%s", text)}, text);
    static const char raw[] = "\xff\xfe";
    expect_out(&(struct guest_run){.argv = RUN("--", "printf", "%s", raw)}, raw);
}

static void test_not_started(void **state)
{
    (void)state;
    char path[256];
    char variable[300];
    write_scratch("plain", "no program\n", 0644);
    write_scratch("noshebang", "exit 0\n", 0755);
    write_scratch("badshebang", "#!/nonexistent/interpreter\n", 0755);
    expect_not_started(&(struct guest_run){.argv = RUN("--", "no-such-program")}, 127, ENOENT, 0);
    expect_not_started(&(struct guest_run){.argv = RUN("--", "/no/such")}, 127, ENOENT, 0);
    expect_not_started(&(struct guest_run){.argv = RUN("--", "")}, 127, ENOENT, 0);
    expect_not_started(&(struct guest_run){.argv = RUN("--", "/etc")}, 126, EACCES, 0);
    expect_not_started(&(struct guest_run){.argv = RUN("--", "/etc/passwd/x")}, 126, ENOTDIR, 0);
    snprintf(path, sizeof(path), "%s/plain", scratch);
    expect_not_started(&(struct guest_run){.argv = RUN("--", path)}, 126, EACCES, 0);
    snprintf(path, sizeof(path), "%s/noshebang", scratch);
    expect_not_started(&(struct guest_run){.argv = RUN("--", path)}, 126, ENOEXEC, 0);
    snprintf(path, sizeof(path), "%s/badshebang", scratch);
    expect_not_started(&(struct guest_run){.argv = RUN("--", path)}, 127, ENOENT, 0);
    snprintf(variable, sizeof(variable), "PATH=/no:/etc/passwd:%s", scratch);
    const char *const environment[] = {variable, NULL};
    expect_not_started(&(struct guest_run){.argv = RUN("--", "plain"), .environment = environment},
                       126, EACCES, 0);
    expect_not_started(&(struct guest_run){.argv = RUN("--cwd", "no/such", "--", "true")}, 127,
                       ENOENT, GUEST_EXIT_CWD);
    expect_not_started(&(struct guest_run){.argv = RUN("--cwd", "/etc/passwd", "--", "true")}, 126,
                       ENOTDIR, GUEST_EXIT_CWD);
}

static void test_path_search(void **state)
{
    (void)state;
    char variable[300];
    write_scratch("tool", "#!/bin/sh\necho \"$0 $1\"\n", 0755);
    snprintf(variable, sizeof(variable), "PATH=/no:%s:/bin", scratch);
    const char *const environment[] = {variable, "A=b", NULL};
    char expected[300];
    snprintf(expected, sizeof(expected), "%s/tool x\n", scratch);
    expect_out(&(struct guest_run){.argv = RUN("--", "tool", "x"), .environment = environment},
               expected);
    /* Without PATH the usual places; the environment arrives as it is. */
    const char *const bare[] = {"A=b", "EMPTY=", NULL};
    expect_out(&(struct guest_run){.argv = RUN("--", "env"), .environment = bare}, "A=b\nEMPTY=\n");
}

static void test_working_directory(void **state)
{
    (void)state;
    char expected[64];
    snprintf(expected, sizeof(expected), "%s\n", scratch);
    expect_out(&(struct guest_run){.argv = RUN("--cwd", scratch, "--", "/bin/pwd")}, expected);
}

static void test_program_gets_a_clean_process(void **state)
{
    static const char SHOW_OPEN[] = "for fd in 0 2 3 4 5 6 7 8 9 57; do"
                                    " [ -e /proc/$$/fd/$fd ] && echo $fd; done; true";

    (void)state;
    expect_out(&(struct guest_run){.argv = SHELL(SHOW_OPEN)}, "0\n2\n");
    expect_out(
        &(struct guest_run){.argv = RUN("--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")},
        "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    expect_out(&(struct guest_run){.argv = RUN("--", "cat", "/proc/self/oom_score_adj")}, "1000\n");
    expect_out(&(struct guest_run){.argv = SHELL(
                                       "set -- $(cat /proc/$$/stat); [ $1 = $5 ] && [ $1 = $6 ]")},
               "");
}

static void test_runner_can_only_be_killed(void **state)
{
    static const char KILL_SOFTLY[] = "for s in HUP INT QUIT PIPE ALRM TERM USR1 CHLD; "
                                      "do kill -$s $PPID; done; echo on";

    (void)state;
    expect_out(&(struct guest_run){.argv = SHELL(KILL_SOFTLY)}, "on\n");
    struct guest_run run = {.argv = SHELL("kill -KILL $PPID; sleep 5; echo never")};
    guest_process_run(&run);
    assert_true(WIFSIGNALED(run.status));
    assert_int_equal(run.last, 0);
    assert_int_equal(run.out.len, 0);
    /* The program went with it, else its pipe would have held the stream. */
    assert_true(run.elapsed_ms < 2000);
    guest_process_done(&run);
}

static void test_usage(void **state)
{
    (void)state;
    const char *const *const rows[] = {(const char *const[]){NULL},
                                       RUN("--"),
                                       RUN("sh"),
                                       RUN("--cwd"),
                                       RUN("--other", "--", "sh"),
                                       (const char *const[]){"load", NULL},
                                       (const char *const[]){"load", "a", "b", NULL}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct guest_run run = {.argv = rows[i]};
        guest_process_run(&run);
        assert_true(WIFEXITED(run.status));
        assert_int_equal(WEXITSTATUS(run.status), 2);
        assert_int_equal(run.last, 0);
        guest_process_done(&run);
    }
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(scratch) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "noshebang", "badshebang", "tool"};
    char path[256];
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", scratch, names[i]);
        (void)unlink(path);
    }
    return rmdir(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_streams_stay_apart),
        cmocka_unit_test(test_large_input_and_output),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_late_input),
        cmocka_unit_test(test_signals_from_the_service),
        cmocka_unit_test(test_signal_passes_unread_input),
        cmocka_unit_test(test_service_out_of_step),
        cmocka_unit_test(test_background_process_is_not_waited_for),
        cmocka_unit_test(test_slow_reader_loses_nothing),
        cmocka_unit_test(test_long_argument),
        cmocka_unit_test(test_not_started),
        cmocka_unit_test(test_path_search),
        cmocka_unit_test(test_working_directory),
        cmocka_unit_test(test_program_gets_a_clean_process),
        cmocka_unit_test(test_runner_can_only_be_killed),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
