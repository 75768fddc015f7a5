/* What is overdue: the oldest first, by age and by bytes, and never what is not over. */
#include "store_fixture.h"

#include "base/file.h"
#include "store/readers.h"
#include "store/retention.h"

#include <string.h>
#include <sys/stat.h>

enum { NEVER = 0 };
static const int64_t NO_BOUND = INT64_MAX;

static struct store_overdue_list overdue(struct fixture *f, enum store_kept kind, int64_t before,
                                         int64_t bytes)
{
    struct store_overdue_list list;
    struct error err = ERROR_INIT;

    assert_ok(store_retention_overdue(f->store, kind, before, bytes, &list, &err), err);
    return list;
}

static void assert_overdue(struct store_overdue_list list, const char *const *ids, size_t count)
{
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(list.items[i].id, ids[i]);
        assert_string_equal(list.items[i].tenant, "default");
    }
}
#define ASSERT_OVERDUE(list, ...)                                                                  \
    do {                                                                                           \
        const char *const ids_[] = {__VA_ARGS__};                                                  \
        assert_overdue(list, ids_, ARRAY_SIZE(ids_));                                              \
    } while (0)

/* --- checkpoints --- */

static void put_checkpoint(struct fixture *f, const char *id, int64_t at, int64_t bytes)
{
    struct store_checkpoint c = checkpoint_row(id);
    struct error err = ERROR_INIT;

    c.created_at = 1; /* made elsewhere, long ago: it counts from when it came */
    c.stored_at = at;
    c.stored_bytes = bytes;
    assert_ok(store_checkpoint_insert(f->store, &c, &err), err);
}

static void test_checkpoints(void **state)
{
    struct fixture *f = *state;

    put_checkpoint(f, "b", 2000, 100);
    put_checkpoint(f, "a", 1000, 100);
    put_checkpoint(f, "c", 3000, 100);
    assert_int_equal(overdue(f, STORE_KEPT_CHECKPOINTS, NEVER, NO_BOUND).count, 0);
    assert_int_equal(overdue(f, STORE_KEPT_CHECKPOINTS, 1000, 300).count, 0);
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_CHECKPOINTS, 2000, NO_BOUND), "a");
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_CHECKPOINTS, 2001, NO_BOUND), "a", "b");
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_CHECKPOINTS, NEVER, 299), "a");
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_CHECKPOINTS, NEVER, 200), "a");
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_CHECKPOINTS, NEVER, 199), "a", "b");
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_CHECKPOINTS, 1001, 150), "a", "b");
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_CHECKPOINTS, NEVER, 0), "a", "b", "c");
}

static void test_uploads_stay(void **state)
{
    struct fixture *f = *state;
    struct store_checkpoint c = checkpoint_row("up");
    struct error err = ERROR_INIT;

    c.durability = "uploading";
    c.stored_at = 1;
    assert_ok(store_checkpoint_insert(f->store, &c, &err), err);
    put_checkpoint(f, "other", 2000, 100);
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_CHECKPOINTS, NO_BOUND, NO_BOUND), "other");
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_CHECKPOINTS, NEVER, 100), "other");
}

static void test_many_at_once(void **state)
{
    struct fixture *f = *state;
    struct store_overdue_list list;

    for (int i = 0; i < STORE_OVERDUE_MAX + 5; i++) {
        char id[24];

        snprintf(id, sizeof(id), "k-%03d", i);
        put_checkpoint(f, id, 1000 + i, 10);
    }
    list = overdue(f, STORE_KEPT_CHECKPOINTS, NO_BOUND, NO_BOUND);
    assert_int_equal(list.count, STORE_OVERDUE_MAX);
    assert_string_equal(list.items[0].id, "k-000");
}

/* --- transcripts --- */

static int64_t put_execution(struct fixture *f, const char *id, enum store_execution_state end,
                             int64_t at)
{
    struct store_execution e = execution_row(id);
    struct error err = ERROR_INIT;

    assert_ok(store_execution_insert(f->store, &e, &err), err);
    e.state = end;
    e.terminated_at = at;
    assert_ok(store_execution_update(f->store, &e, &err), err);
    return e.row;
}

static int64_t put_command(struct fixture *f, int64_t execution, const char *id, int64_t at,
                           int64_t bytes)
{
    struct store_command c = command_row(execution, id);
    struct error err = ERROR_INIT;

    assert_ok(store_command_insert(f->store, &c, &err), err);
    c.state = at == 0 ? STORE_COMMAND_RUNNING : STORE_COMMAND_EXITED;
    c.started_at = 500;
    c.completed_at = at;
    c.transcript_bytes = bytes;
    assert_ok(store_command_update(f->store, &c, &err), err);
    return c.row;
}

static void test_transcripts(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    int64_t e = put_execution(f, "e", STORE_PROVISIONED, 0);
    struct store_overdue_list list;
    struct store_command got;

    put_command(f, e, "late", 3000, 50);
    put_command(f, e, "early", 1000, 50);
    put_command(f, e, "running", 0, 0);
    put_command(f, e, "none", 900, 0);
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_TRANSCRIPTS, 2000, NO_BOUND), "early");
    list = overdue(f, STORE_KEPT_TRANSCRIPTS, NEVER, 99);
    ASSERT_OVERDUE(list, "early");
    assert_int_equal(list.items[0].execution_row, e);
    assert_ok(store_retention_transcripts_gone(f->store, &list, &err), err);
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_TRANSCRIPTS, NO_BOUND, NO_BOUND), "late");
    assert_ok(store_command_get(f->store, e, "early", &got, &err), err);
    assert_int_equal(got.transcript_bytes, 0);
    assert_int_equal(got.completed_at, 1000);
    store_command_done(&got);
}

static void test_transcript_files(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_transcript_name name = {f->directory, "default", 7, "c", NULL};
    struct store_transcript *t = NULL;
    char directory[128];
    struct stat st;

    snprintf(directory, sizeof(directory), "%s/transcripts/default/7", f->directory);
    assert_ok(store_transcript_create(&name, &t, &err), err);
    assert_int_equal(store_transcript_size(t), 16);
    assert_ok(store_transcript_append(t, STORE_RECORD_STDOUT, "x", 1, &err), err);
    assert_int_equal(store_transcript_size(t), 16 + 32 + 1);
    store_transcript_close(t);
    assert_ok(store_transcript_remove(&name, &err), err);
    assert_ok(store_transcript_remove(&name, &err), err);
    assert_int_equal(stat(directory, &st), 0);
    assert_ok(store_transcript_create(&name, &t, &err), err);
    store_transcript_close(t);
    assert_ok(store_transcript_remove_all(&name, &err), err);
    assert_int_equal(stat(directory, &st), -1);
    assert_ok(store_transcript_remove_all(&name, &err), err);
}

static void test_readers_and_removers(void **state)
{
    struct fixture *f = *state;
    struct store_readers *r = store_readers(f->store);
    struct store_reader one;
    struct store_reader two;
    struct store_reader other = {0};

    assert_true(store_reader_begin(r, &one, 7));
    assert_true(store_reader_begin(r, &two, 7));
    assert_false(store_removal_begin(r, &other, 7));
    assert_true(store_removal_begin(r, &other, 7 + 256)); /* of the same bucket */
    store_reader_end(&other);
    store_reader_end(&one);
    assert_false(store_removal_begin(r, &other, 7));
    store_reader_end(&two);
    store_reader_end(&two);
    assert_true(store_removal_begin(r, &other, 7));
    assert_true(store_removal_begin(r, &two, 7));
    assert_false(store_reader_begin(r, &one, 7));
    store_reader_end(&one); /* it never began */
    store_reader_end(&other);
    assert_false(store_reader_begin(r, &one, 7));
    store_reader_end(&two);
    assert_true(store_reader_begin(r, &one, 7));
    store_reader_end(&one);
    assert_true(store_reader_begin(NULL, &one, 7));
    store_reader_end(&one);
}

/* --- records --- */

static bool has_record(struct fixture *f, const char *id, unsigned incarnation)
{
    struct store_execution e = {0};
    struct error err = ERROR_INIT;
    int found = store_execution_get(f->store, "default", id, incarnation, &e, &err);

    store_execution_done(&e);
    return found == 0;
}

static void delete_record(struct fixture *f, int64_t row)
{
    struct error err = ERROR_INIT;
    bool gone = false;

    while (!gone) {
        assert_ok(store_retention_record_delete(f->store, row, &gone, &err), err);
    }
}

static void test_records(void **state)
{
    struct fixture *f = *state;
    struct store_execution left = execution_row("left");
    struct error err = ERROR_INIT;
    int64_t first = put_execution(f, "twice", STORE_TERMINATED, 1000);
    int64_t second;

    put_execution(f, "failed", STORE_FAILED, 2000);
    second = put_execution(f, "twice", STORE_TERMINATED, 3000);
    put_execution(f, "alive", STORE_PROVISIONED, 0);
    assert_ok(store_execution_insert(f->store, &left, &err), err);
    left.state = STORE_FAILED;
    left.terminated_at = 10;
    left.leftover = true;
    assert_ok(store_execution_update(f->store, &left, &err), err);
    put_command(f, put_execution(f, "unsettled", STORE_TERMINATED, 20), "u", 0, 0);

    ASSERT_OVERDUE(overdue(f, STORE_KEPT_RECORDS, NO_BOUND, NO_BOUND), "twice", "failed", "twice");
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_RECORDS, 2001, NO_BOUND), "twice", "failed");
    delete_record(f, first);
    assert_false(has_record(f, "twice", 1));
    assert_true(has_record(f, "twice", 2));
    delete_record(f, second);
    assert_false(has_record(f, "twice", 0));
    assert_true(has_record(f, "alive", 0) && has_record(f, "left", 0));
}

/* Its commands go with it, however many, and their ids are free again. */
static void test_commands_go_along(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    int64_t e = put_execution(f, "e", STORE_PROVISIONED, 0);
    struct store_execution row = {0};
    int64_t calls = 0;
    bool gone = false;

    for (int i = 0; i < 200; i++) {
        char id[24];

        snprintf(id, sizeof(id), "c-%d", i);
        put_command(f, e, id, 1000, 0);
    }
    assert_ok(store_execution_get(f->store, "default", "e", 0, &row, &err), err);
    row.state = STORE_TERMINATED;
    row.terminated_at = 2000;
    assert_ok(store_execution_update(f->store, &row, &err), err);
    store_execution_done(&row);
    for (; !gone; calls++) {
        assert_ok(store_retention_record_delete(f->store, e, &gone, &err), err);
    }
    assert_true(calls > 2);
    assert_false(has_record(f, "e", 0));
    put_command(f, put_execution(f, "next", STORE_PROVISIONED, 0), "c-0", 1000, 0);
}

/* Bytes follow what is in the rows. */
static void test_record_bytes(void **state)
{
    struct fixture *f = *state;
    struct store_execution e = execution_row("large");
    struct error err = ERROR_INIT;
    char *text = calloc(1, 100001);

    assert_non_null(text);
    memset(text, 'x', 100000);
    put_execution(f, "small", STORE_TERMINATED, 1000);
    assert_ok(store_execution_insert(f->store, &e, &err), err);
    e.state = STORE_TERMINATED;
    e.terminated_at = 2000;
    e.environment = text;
    assert_ok(store_execution_update(f->store, &e, &err), err);
    free(text);
    assert_int_equal(overdue(f, STORE_KEPT_RECORDS, NEVER, 110000).count, 0);
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_RECORDS, NEVER, 102000), "small");
    ASSERT_OVERDUE(overdue(f, STORE_KEPT_RECORDS, NEVER, 100000), "small", "large");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_checkpoints),          TEST(test_uploads_stay),      TEST(test_many_at_once),
        TEST(test_transcripts),          TEST(test_transcript_files),  TEST(test_records),
        TEST(test_readers_and_removers), TEST(test_commands_go_along), TEST(test_record_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
