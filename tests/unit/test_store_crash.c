/* A kill at each point of each write, and a disk that is really full: what was acknowledged is
 * there, what was not is whole or absent, and the store goes on. */
#include "store_fixture.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { DIED = 2, FULL = 3, WRONG = 4 };

/* The writes of a life. Stops at the first that fails; `done` counts those acknowledged. */
static int live(struct store *s, int *done, struct error *err)
{
    struct store_execution e = execution_row("e-1");
    struct store_checkpoint cp = checkpoint_row("cp-1");
    struct store_command c;

    *done = 0;
    if (store_execution_insert(s, &e, err) != 0) {
        return -1;
    }
    ++*done;
    c = command_row(e.row, "c-1");
    if (store_command_insert(s, &c, err) != 0) {
        return -1;
    }
    ++*done;
    c.state = STORE_COMMAND_EXITED;
    c.exit_code = 0;
    if (store_command_update(s, &c, err) != 0) {
        return -1;
    }
    ++*done;
    if (store_checkpoint_insert(s, &cp, err) != 0) {
        return -1;
    }
    ++*done;
    e.state = STORE_TERMINATED;
    e.labels = "{\"team\":\"red\"}";
    if (store_execution_update(s, &e, err) != 0) {
        return -1;
    }
    ++*done;
    if (store_checkpoint_delete(s, "default", "cp-1", err) != 0) {
        return -1;
    }
    ++*done;
    return 0;
}

/* How many of the writes of a life the store holds; -1 when it holds what no prefix of them
 * explains. */
static int writes_held(struct store *s)
{
    struct store_execution e = {0};
    struct store_command c = {0};
    struct store_checkpoint cp = {0};
    struct error err = ERROR_INIT;
    bool have_e = store_execution_get(s, "default", "e-1", 0, &e, &err) == 0;
    bool have_c = have_e && store_command_get(s, e.row, "c-1", &c, &err) == 0;
    bool have_cp = store_checkpoint_get(s, "default", "cp-1", &cp, &err) == 0;
    bool ended = have_e && e.state == STORE_TERMINATED && strstr(e.labels, "red") != NULL;
    bool exited = have_c && c.state == STORE_COMMAND_EXITED && c.exit_code == 0;
    int held = have_e + have_c + exited + (have_cp || ended) + ended + (ended && !have_cp);
    bool prefix = held == 0 || (have_e && (held < 2 || have_c) && (held < 3 || exited) &&
                                (held != 4 || (have_cp && !ended)));

    store_execution_done(&e);
    store_command_done(&c);
    store_checkpoint_done(&cp);
    return prefix ? held : -1;
}

/* In a process of its own. Writes the count of acknowledged writes to <directory>/done. */
static int live_and_leave(const char *directory)
{
    struct store *s = NULL;
    struct error err = ERROR_INIT;
    int done = 0;
    int before;

    if (store_open(directory, &s, &err) != 0) {
        return DIED;
    }
    if (live(s, &done, &err) == 0) {
        store_close(s);
        return 0;
    }
    if (err.code != ERROR_STORAGE_FULL || writes_held(s) != done) {
        return WRONG;
    }
    /* The same connection works once there is room, from where it stopped. */
    before = done;
    error_clear(&err);
    if (before == 0 && live(s, &done, &err) != 0) {
        return WRONG;
    }
    store_close(s);
    return FULL;
}

static void check_point(const struct fixture *f, const char *operation, const char *point,
                        int write)
{
    struct store *s = NULL;
    struct error err = ERROR_INIT;
    char directory[128];
    char fault[96];
    int committed = strcmp(point, "committed") == 0;
    /* What makes room has the reserve to go on in. */
    int frees = strcmp(operation, "checkpoint.delete") == 0;
    int status;

    snprintf(directory, sizeof(directory), "%s/%s-%s", f->directory, operation, point);
    snprintf(fault, sizeof(fault), "store.%s.%s:1:kill", operation, point);
    status = run_with_fault(fault, "live", directory, "");
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_ok(store_open(directory, &s, &err), err);
    assert_int_equal(writes_held(s), write - 1 + committed);
    store_close(s);
    if (committed) {
        return;
    }
    assert_ok(dir_remove(directory, &err), err);
    snprintf(fault, sizeof(fault), "store.%s.%s:1:ENOSPC", operation, point);
    status = run_with_fault(fault, "live", directory, "");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), frees ? 0 : FULL);
    assert_ok(store_open(directory, &s, &err), err);
    assert_int_equal(writes_held(s), write == 1 || frees ? 6 : write - 1);
    store_close(s);
}

static void test_stopped_at_each_point(void **state)
{
    static const char *const OPERATIONS[] = {"execution.insert", "command.insert",
                                             "command.update",   "checkpoint.insert",
                                             "execution.update", "checkpoint.delete"};
    static const char *const POINTS[] = {"begin", "step", "commit", "committed"};

    for (size_t i = 0; i < ARRAY_SIZE(OPERATIONS); i++) {
        for (size_t k = 0; k < ARRAY_SIZE(POINTS); k++) {
            check_point(*state, OPERATIONS[i], POINTS[k], (int)i + 1);
        }
    }
}

/* --- killed at any time --- */

/* Inserts for ever and says after each insert which it was. */
static int insert_for_ever(const char *directory, const char *pipe_fd)
{
    int fd = (int)strtol(pipe_fd, NULL, 10);
    struct store *s = NULL;
    struct error err = ERROR_INIT;

    if (store_open(directory, &s, &err) != 0) {
        return DIED;
    }
    for (int i = 0;; i++) {
        char id[24];
        struct store_execution e;

        snprintf(id, sizeof(id), "e-%d", i);
        e = execution_row(id);
        if (store_execution_insert(s, &e, &err) != 0 || write(fd, &i, sizeof(i)) != sizeof(i)) {
            return WRONG;
        }
    }
}

static void test_killed_while_writing(void **state)
{
    struct fixture *f = *state;
    int pipe_fd[2];
    char directory[128];
    char number[16];
    int last = -1;
    int status;
    pid_t pid;
    struct store *s = NULL;
    struct error err = ERROR_INIT;
    struct store_execution e;

    snprintf(directory, sizeof(directory), "%s/killed", f->directory);
    assert_int_equal(pipe(pipe_fd), 0);
    snprintf(number, sizeof(number), "%d", pipe_fd[1]);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "test", "insert", directory, number, (char *)NULL);
        _exit(127);
    }
    close(pipe_fd[1]);
    while (last < 100) {
        assert_int_equal(read(pipe_fd[0], &last, sizeof(last)), sizeof(last));
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (read(pipe_fd[0], &last, sizeof(last)) == sizeof(last)) {
    }
    close(pipe_fd[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_ok(store_open(directory, &s, &err), err);
    for (int i = 0; i <= last; i++) {
        char id[24];

        snprintf(id, sizeof(id), "e-%d", i);
        assert_ok(store_execution_get(s, "default", id, 0, &e, &err), err);
        store_execution_done(&e);
    }
    store_close(s);
}

/* --- really full --- */

static int fill(const char *directory, const char *name)
{
    char path[160];
    char block[4096] = {1};
    int fd;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (fd >= 0 && write(fd, block, sizeof(block)) > 0) {
    }
    close(fd);
    return errno == ENOSPC ? 0 : -1;
}

/* A file of 256 KiB that a test can give up later. */
static int set_aside(const char *directory, const char *name)
{
    static const char BLOCK[256 * 1024];
    struct error err = ERROR_INIT;
    char path[160];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return file_write_atomic(path, BLOCK, sizeof(BLOCK), 0600, &err);
}

static int unfill(const char *directory, const char *name)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return unlink(path);
}

/* Inserts until the disk is full; how many were acknowledged, or -1. */
static int insert_until_full(struct store *s)
{
    for (int i = 0; i < 10000; i++) {
        struct error err = ERROR_INIT;
        char id[24];
        struct store_execution e;

        snprintf(id, sizeof(id), "e-%d", i);
        e = execution_row(id);
        if (store_execution_insert(s, &e, &err) != 0) {
            return err.code == ERROR_STORAGE_FULL ? i : -1;
        }
    }
    return -1;
}

static int all_readable(struct store *s, int count)
{
    for (int i = 0; i < count; i++) {
        struct error err = ERROR_INIT;
        struct store_execution e;
        char id[24];

        snprintf(id, sizeof(id), "e-%d", i);
        if (store_execution_get(s, "default", id, 0, &e, &err) != 0) {
            return -1;
        }
        store_execution_done(&e);
    }
    return 0;
}

static int transcripts_when_full(const char *directory)
{
    struct store_transcript_name name = {directory, "default", 1, "c-1", NULL};
    struct store_transcript *t = NULL;
    struct error err = ERROR_INIT;
    struct store_transcript_totals totals;
    struct buf out;
    struct buf errout;
    char data[10000] = {1};
    int64_t written = 0;
    int result;

    if (store_transcript_create(&name, &t, &err) != 0) {
        return -1;
    }
    while (store_transcript_append(t, STORE_RECORD_STDOUT, data, sizeof(data), &err) == 0) {
        written += (int64_t)sizeof(data);
    }
    buf_init(&out, 1);
    buf_init(&errout, 1);
    result = err.code == ERROR_STORAGE_FULL && unfill(directory, "spare2") == 0 ? 0 : -1;
    error_clear(&err);
    if (result == 0 && (store_transcript_append(t, STORE_RECORD_EXIT, "{}", 2, &err) != 0 ||
                        store_transcript_read_output(&name, &out, &errout, &totals, &err) != 0 ||
                        totals.stdout_bytes != written || !totals.ended)) {
        result = -1;
    }
    buf_done(&out);
    buf_done(&errout);
    store_transcript_close(t);
    return result;
}

/* On a file system of its own of 4 MiB, in a mount namespace of its own. */
static int work_on_full_disk(const char *directory)
{
    struct store *s = NULL;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("last");
    int count;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", directory, "tmpfs", 0, "size=4m") != 0) {
        return 10;
    }
    if (set_aside(directory, "spare1") != 0 || set_aside(directory, "spare2") != 0 ||
        store_open(directory, &s, &err) != 0) {
        return 11;
    }
    count = insert_until_full(s);
    if (count < 10 || fill(directory, "ballast") != 0 || all_readable(s, count) != 0) {
        return 12;
    }
    store_close(s);
    s = NULL;
    /* Closing may have given room back. */
    if (fill(directory, "ballast2") != 0 || store_open(directory, &s, &err) != 0) {
        fprintf(stderr, "%s\n", err.detail);
        return 13;
    }
    if (all_readable(s, count) != 0 || store_execution_insert(s, &e, &err) == 0 ||
        err.code != ERROR_STORAGE_FULL) {
        fprintf(stderr, "%s\n", err.detail);
        return 14;
    }
    error_clear(&err);
    if (unfill(directory, "spare1") != 0 || store_execution_insert(s, &e, &err) != 0 ||
        all_readable(s, count) != 0) {
        fprintf(stderr, "%s\n", err.detail);
        return 15;
    }
    store_close(s);
    return transcripts_when_full(directory) == 0 ? 0 : 16;
}

static void test_really_full_disk(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    char directory[128];
    int status;

    snprintf(directory, sizeof(directory), "%s/full", f->directory);
    assert_ok(dir_make(directory, 0700, &err), err);
    status = run_with_fault("", "full", directory, "");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int run_role(char **argv)
{
    if (strcmp(argv[1], "live") == 0) {
        return live_and_leave(argv[2]);
    }
    if (strcmp(argv[1], "insert") == 0) {
        return insert_for_ever(argv[2], argv[3]);
    }
    return work_on_full_disk(argv[2]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stopped_at_each_point, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_killed_while_writing, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_really_full_disk, fixture_setup, fixture_teardown),
    };

    if (argc == 4) {
        return run_role(argv);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
