/* Opening: what is made, what is refused, what stays. */
#include "store_fixture.h"

#include "store/schema.h"
#include "store/transaction.h"

#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void path_of(const struct fixture *f, const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", f->directory, name);
}

/* With the store closed. */
static void run_sql(const struct fixture *f, const char *text)
{
    char path[128];
    sqlite3 *db = NULL;

    path_of(f, "exechost.db", path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_makes_private_files(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct stat st;

    path_of(f, "exechost.db", path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    path_of(f, "exechost.db-wal", path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_makes_missing_directories(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store *s = NULL;
    char path[128];

    path_of(f, "a/b", path);
    assert_ok(store_open(path, &s, &err), err);
    assert_string_not_equal(store_instance_id(s), store_instance_id(f->store));
    store_close(s);
    store_close(NULL);
}

static void test_instance_id_stays(void **state)
{
    struct fixture *f = *state;
    char before[32];

    assert_int_equal(strlen(store_instance_id(f->store)), 16);
    assert_int_equal(strspn(store_instance_id(f->store), "0123456789abcdefghijklmnopqrstuv"), 16);
    snprintf(before, sizeof(before), "%s", store_instance_id(f->store));
    fixture_reopen(f);
    assert_string_equal(store_instance_id(f->store), before);
}

static void test_second_open_is_refused(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store *s = NULL;

    assert_code(store_open(f->directory, &s, &err), err, ERROR_INTERNAL);
    assert_non_null(strstr(err.detail, "in use by another service"));
    assert_null(s);
    fixture_reopen(f);
}

/* As the child of a killed service has it, before its exec. */
static void test_lock_let_go_soon_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    char path[128];
    int locked[2];
    char byte;

    store_close(f->store);
    f->store = NULL;
    path_of(f, "exechost.lock", path);
    assert_int_equal(pipe(locked), 0);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_RDWR);
        _exit(fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 || write(locked[1], "", 1) != 1 ||
              usleep(100000) != 0);
    }
    close(locked[1]);
    assert_int_equal(read(locked[0], &byte, 1), 1);
    close(locked[0]);
    assert_int_equal(store_open(f->directory, &f->store, &err), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_newer_version_is_refused(void **state)
{
    struct fixture *f = *state;
    char text[48];
    struct error err = ERROR_INIT;
    struct store *s = NULL;

    store_close(f->store);
    f->store = NULL;
    run_sql(f, "PRAGMA user_version = 77");
    assert_code(store_open(f->directory, &s, &err), err, ERROR_INTERNAL);
    assert_non_null(strstr(err.detail, "version 77"));
    snprintf(text, sizeof(text), "versions up to %d", schema_version());
    assert_non_null(strstr(err.detail, text));
    snprintf(text, sizeof(text), "PRAGMA user_version = %d", schema_version());
    run_sql(f, text);
    fixture_reopen(f);
}

static void test_foreign_file_is_refused(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store *s = NULL;
    char path[128];

    path_of(f, "other", path);
    assert_ok(dir_make(path, 0700, &err), err);
    path_of(f, "other/exechost.db", path);
    assert_ok(
        file_write_atomic(path, "this is no database, whatever its name says", 43, 0600, &err),
        err);
    path_of(f, "other", path);
    assert_code(store_open(path, &s, &err), err, ERROR_INTERNAL);
}

static int open_and_leave(const char *directory)
{
    struct error err = ERROR_INIT;
    struct store *s = NULL;

    if (store_open(directory, &s, &err) != 0) {
        return err.code == ERROR_STORAGE_FULL ? 3 : 2;
    }
    return 0;
}

/* Version 0 to today's, stopped at every point: the next start finishes. */
static void test_migration_survives_a_kill(void **state)
{
    static const char *const POINTS[] = {
        "store.file.create",    "store.file.sync",         "store.migrate.begin",
        "store.migrate.commit", "store.migrate.committed", "store.instance.begin",
        "store.instance.step",  "store.instance.commit",   "store.instance.committed",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(POINTS); i++) {
        struct error err = ERROR_INIT;
        struct store *s = NULL;
        char directory[96];
        char fault[64];
        int status;

        snprintf(directory, sizeof(directory), "%s/m%zu", f->directory, i);
        snprintf(fault, sizeof(fault), "%s:1:kill", POINTS[i]);
        status = run_with_fault(fault, "open", directory, "");
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (strstr(POINTS[i], "committed") == NULL) {
            snprintf(fault, sizeof(fault), "%s:1:ENOSPC", POINTS[i]);
            status = run_with_fault(fault, "open", directory, "");
            assert_int_equal(WEXITSTATUS(status), 3);
        }
        assert_ok(store_open(directory, &s, &err), err);
        assert_int_equal(strlen(store_instance_id(s)), 16);
        store_close(s);
    }
}

/* --- the wrapper --- */

struct attempts {
    int busy; /* how many come to nothing */
    int made;
};

static int write_when_free(struct sql *s, void *ctx, struct error *err)
{
    struct attempts *attempts = ctx;

    if (sql_script(s, "INSERT INTO service VALUES ('attempt', 'x')", err) != 0) {
        return -1;
    }
    return ++attempts->made > attempts->busy ? 0 : sql_fail(s, SQLITE_BUSY, "go on", err);
}

/* Each attempt starts from nothing, else the second would find the key taken. */
static void test_busy_is_tried_again(void **state)
{
    static const struct sql_points POINTS = SQL_POINTS("test.busy");
    struct fixture *f = *state;
    struct attempts attempts = {.busy = 5};
    struct error err = ERROR_INIT;

    assert_ok(store_write(f->store, &POINTS, write_when_free, &attempts, &err), err);
    assert_int_equal(attempts.made, 6);
    assert_code(store_write(f->store, &POINTS, write_when_free, &attempts, &err), err,
                ERROR_INTERNAL);
    assert_int_equal(attempts.made, 6);
}

static void test_busy_for_good_is_an_error(void **state)
{
    static const struct sql_points POINTS = SQL_POINTS("test.busy");
    struct fixture *f = *state;
    struct attempts attempts = {.busy = 1000000};
    struct error err = ERROR_INIT;

    assert_code(store_write(f->store, &POINTS, write_when_free, &attempts, &err), err,
                ERROR_INTERNAL);
    assert_true(attempts.made > 10);
    fixture_reopen(f);
}

static int read_when_free(struct sql *s, void *ctx, struct error *err)
{
    struct attempts *attempts = ctx;

    return ++attempts->made > attempts->busy ? 0 : sql_fail(s, SQLITE_BUSY, "go on", err);
}

static void test_reads_are_tried_again(void **state)
{
    struct fixture *f = *state;
    struct attempts attempts = {.busy = 3};
    struct error err = ERROR_INIT;

    assert_ok(store_read(f->store, read_when_free, &attempts, &err), err);
    assert_int_equal(attempts.made, 4);
    assert_int_equal(err.code, ERROR_NONE);
}

static int write_by_reader(struct sql *s, void *ctx, struct error *err)
{
    (void)ctx;
    return sql_script(s, "DELETE FROM service", err);
}

static void test_readers_cannot_write(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;

    assert_code(store_read(f->store, write_by_reader, NULL, &err), err, ERROR_INTERNAL);
}

/* More texts than the cache has room for. */
static int prepare_many(struct sql *s, void *ctx, struct error *err)
{
    (void)ctx;
    for (int i = 0; i < SQL_CACHE_MAX * 3; i++) {
        _cleanup_statement_ sqlite3_stmt *stmt = NULL;
        char text[32];

        snprintf(text, sizeof(text), "SELECT %d", i);
        if (sql_prepare_built(s, text, &stmt, err) != 0 || sql_step(s, stmt, err) != 1) {
            return -1;
        }
        if (sqlite3_column_int(stmt, 0) != i || s->cached > SQL_CACHE_MAX) {
            return error_set(err, ERROR_INTERNAL, "the wrong statement for %d", i);
        }
    }
    return 0;
}

static void test_statement_cache_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;

    assert_ok(store_read(f->store, prepare_many, NULL, &err), err);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_makes_private_files, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_makes_missing_directories, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_instance_id_stays, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lock_let_go_soon_is_waited_for, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_second_open_is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_newer_version_is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_foreign_file_is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_busy_is_tried_again, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_busy_for_good_is_an_error, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reads_are_tried_again, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_readers_cannot_write, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_statement_cache_is_bounded, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_migration_survives_a_kill, fixture_setup,
                                        fixture_teardown),
    };

    if (argc == 4) {
        return open_and_leave(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
