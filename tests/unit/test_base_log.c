/* Log lines, read back from a standard error that is a pipe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"

#include <fcntl.h>
#include <string.h>

static char line[65536];
static int saved_stderr;
static int pipe_read;

static void capture_begin(void)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    saved_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    pipe_read = ends[0];
}

static const char *capture_end(void)
{
    ssize_t n = read(pipe_read, line, sizeof(line) - 1);

    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(pipe_read);
    line[n > 0 ? n : 0] = '\0';
    return line;
}

static void a_line_is_one_object(void **state)
{
    const char *text;

    (void)state;
    capture_begin();
    log_info("provisioned", "execution", "job-1", "tenant", "default", NULL);
    text = capture_end();
    assert_memory_equal(text, "{\"time\":\"20", 11);
    assert_non_null(strstr(text, "\",\"level\":\"info\",\"message\":\"provisioned\","
                                 "\"execution\":\"job-1\",\"tenant\":\"default\"}\n"));
    assert_int_equal(strchr(text, '\n') - text + 1, strlen(text));
}

static void values_are_escaped(void **state)
{
    const char *text;

    (void)state;
    capture_begin();
    log_warn("a\"b\\c\n\x01", "k", "\xFF\xC3\xA4", NULL);
    text = capture_end();
    assert_non_null(strstr(text, "\"message\":\"a\\\"b\\\\c\\n\\u0001\""));
    assert_non_null(strstr(text, "\"k\":\"\\ufffd\xC3\xA4\""));
}

static void levels_are_kept_out(void **state)
{
    (void)state;
    capture_begin();
    log_debug("quiet", NULL);
    assert_string_equal(capture_end(), "");
    log_set_level(LOG_LEVEL_DEBUG);
    capture_begin();
    log_debug("loud", NULL);
    assert_non_null(strstr(capture_end(), "loud"));
    log_set_level(LOG_LEVEL_INFO);
}

static void values_are_cut(void **state)
{
    static char value[5000];
    const char *text;

    (void)state;
    memset(value, 'x', sizeof(value) - 1);
    capture_begin();
    log_info("m", "k", value, "next", "here", NULL);
    text = capture_end();
    assert_int_equal(strspn(strstr(text, "xx"), "x"), 1024);
    assert_non_null(strstr(text, "\"next\":\"here\"}\n"));
}

static void a_line_that_would_be_too_long_loses_whole_fields(void **state)
{
    static char value[1025];
    const char *text;

    (void)state;
    memset(value, 1, sizeof(value) - 1);
    capture_begin();
    log_info("m", "a", value, "b", value, "c", value, "d", value, "e", value, "f", value, NULL);
    text = capture_end();
    assert_true(strlen(text) <= 32 * 1024);
    assert_non_null(strstr(text, "\"e\":\""));
    assert_null(strstr(text, "\"f\":\""));
    assert_string_equal(text + strlen(text) - 3, "\"}\n");
}

static void failures_show_code_and_causes(void **state)
{
    struct error err = ERROR_INIT;
    struct error cause = ERROR_INIT;
    const char *text;

    (void)state;
    error_set(&cause, ERROR_TIMEOUT, "engine silent");
    error_set_field(&err, ERROR_RUNTIME, "/image", "not removed");
    error_in_phase(&err, PHASE_CLEANUP);
    error_add_cause(&err, &cause);
    capture_begin();
    log_failure(LOG_LEVEL_ERROR, &err, "terminate", "execution", "e", NULL);
    text = capture_end();
    assert_non_null(strstr(text,
                           "\"level\":\"error\",\"message\":\"terminate\",\"execution\":\"e\","
                           "\"code\":\"EXECUTION_RUNTIME_ERROR\",\"detail\":\"not removed\","
                           "\"phase\":\"cleanup\",\"field\":\"/image\","
                           "\"cause1Code\":\"EXECUTION_TIMEOUT\","
                           "\"cause1Detail\":\"engine silent\"}\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_one_object),
        cmocka_unit_test(values_are_escaped),
        cmocka_unit_test(levels_are_kept_out),
        cmocka_unit_test(values_are_cut),
        cmocka_unit_test(a_line_that_would_be_too_long_loses_whole_fields),
        cmocka_unit_test(failures_show_code_and_causes),
    };

    return cmocka_run_group_tests_name("base log", tests, NULL, NULL);
}
