/* Fault points, each case in a process of its own because they are armed once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* Runs `body` in a child with the faults armed and returns its wait status. */
static int with_faults(const char *spec, const char *list, int (*body)(void))
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        setenv("EXECHOST_FAULT", spec, 1);
        if (list != NULL) {
            setenv("EXECHOST_FAULT_LIST", list, 1);
        }
        _exit(body());
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int hit_three_times(void)
{
    return fault_point("t.a") == 0 && fault_point("t.a") == EIO && fault_point("t.a") == 0 &&
                   fault_point("t.b") == ENOSPC && fault_point("t.b") == ENOSPC &&
                   fault_point("t.c") == 0
               ? 0
               : 1;
}

static int hit_once(void)
{
    return fault_point("t.a");
}

static int write_file(void)
{
    struct error err = ERROR_INIT;
    char dir[] = "/tmp/exechost-fault-XXXXXX";
    char path[64];
    int result = 0;

    if (mkdtemp(dir) == NULL) {
        return 9;
    }
    snprintf(path, sizeof(path), "%s/f", dir);
    if (file_write_atomic(path, "x", 1, 0600, &err) != 0) {
        result = err.code == ERROR_STORAGE_FULL ? 1 : 2;
    }
    if (access(path, F_OK) == 0) {
        result += 4;
    }
    /* Only an empty directory can go: nothing was left beside. */
    unlink(path);
    return rmdir(dir) == 0 ? result : 8;
}

static void points_fail_as_armed(void **state)
{
    (void)state;
    assert_int_equal(with_faults("t.a:2:EIO,t.b:*:ENOSPC", NULL, hit_three_times), 0);
    assert_int_equal(with_faults("", NULL, hit_once), 0);
}

static void kill_dies_at_once(void **state)
{
    int status = with_faults("t.a:1:kill", NULL, hit_once);

    (void)state;
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void a_misspelt_fault_is_no_test(void **state)
{
    static const char *const BAD[] = {"t.a",       "t.a:1",          "t.a:0:EIO",
                                      "t.a:x:EIO", "t.a:1:ENOTHING", "t.a::EIO"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        int status = with_faults(BAD[i], NULL, hit_once);

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
    }
}

static void an_atomic_write_is_whole_or_not_at_all(void **state)
{
    (void)state;
    assert_int_equal(with_faults("", NULL, write_file), 4 << 8);
    assert_int_equal(with_faults("file.create:1:ENOSPC", NULL, write_file), 1 << 8);
    assert_int_equal(with_faults("file.write:1:ENOSPC", NULL, write_file), 1 << 8);
    assert_int_equal(with_faults("file.write:1:EINTR", NULL, write_file), 4 << 8);
    assert_int_equal(with_faults("file.fsync:1:EIO", NULL, write_file), 2 << 8);
    assert_int_equal(with_faults("file.rename:1:EIO", NULL, write_file), 2 << 8);
}

static void visits_are_listed(void **state)
{
    _cleanup_buf_ struct buf text;
    struct error err = ERROR_INIT;
    char list[] = "/tmp/exechost-list-XXXXXX";
    int fd = mkstemp(list);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    buf_init(&text, 1000);
    assert_int_equal(with_faults("t.a:2:EIO,t.b:*:ENOSPC", list, hit_three_times), 0);
    assert_int_equal(file_read(list, &text, &err), 0);
    unlink(list);
    assert_string_equal(buf_str(&text), "t.a\nt.a\nt.a\nt.b\nt.b\nt.c\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_fail_as_armed),
        cmocka_unit_test(kill_dies_at_once),
        cmocka_unit_test(a_misspelt_fault_is_no_test),
        cmocka_unit_test(an_atomic_write_is_whole_or_not_at_all),
        cmocka_unit_test(visits_are_listed),
    };

    return cmocka_run_group_tests_name("base fault", tests, NULL, NULL);
}
