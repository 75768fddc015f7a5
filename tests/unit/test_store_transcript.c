/* Transcripts: what was appended is what is read, tails are cut exactly, damage is told. */
#include "store_fixture.h"

#include "store/transcript_format.h"

#include "base/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct store_transcript_name name_of(const struct fixture *f, const char *id)
{
    return (struct store_transcript_name){f->directory, "default", 7, id, NULL};
}

static void path_of(const struct fixture *f, const char *id, char out[160])
{
    snprintf(out, 160, "%s/transcripts/default/7/%s.log", f->directory, id);
}

static int64_t size_of(const struct fixture *f, const char *id)
{
    char path[160];
    struct stat st;

    path_of(f, id, path);
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void append(struct store_transcript *t, enum store_record_kind kind, const char *text)
{
    struct error err = ERROR_INIT;

    assert_ok(store_transcript_append(t, kind, text, strlen(text), &err), err);
}

static struct store_transcript *create(const struct fixture *f, const char *id)
{
    struct store_transcript_name name = name_of(f, id);
    struct store_transcript *t = NULL;
    struct error err = ERROR_INIT;

    assert_ok(store_transcript_create(&name, &t, &err), err);
    return t;
}

static void assert_next(struct store_transcript_reader *r, int64_t seq, enum store_record_kind kind,
                        int64_t offset, const char *text)
{
    struct store_record record;
    struct error err = ERROR_INIT;

    assert_int_equal(store_transcript_next(r, &record, &err), 1);
    assert_int_equal(record.seq, seq);
    assert_int_equal(record.kind, kind);
    assert_int_equal(record.offset, offset);
    assert_true(record.at > INT64_C(1600000000000));
    assert_int_equal(record.len, strlen(text));
    assert_memory_equal(record.data, text, record.len);
}

static void assert_end(struct store_transcript_reader *r)
{
    struct store_record record;
    struct error err = ERROR_INIT;

    assert_int_equal(store_transcript_next(r, &record, &err), 0);
}

static void test_records(void **state)
{
    struct fixture *f = *state;
    struct store_transcript_name name = name_of(f, "c-1");
    struct store_transcript *t = create(f, "c-1");
    struct store_transcript_reader *r = NULL;
    struct error err = ERROR_INIT;
    char path[160];
    struct stat st;

    path_of(f, "c-1", path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(store_transcript_open(&name, &r, &err), err);
    assert_end(r);
    append(t, STORE_RECORD_STARTED, "");
    append(t, STORE_RECORD_STDOUT, "hello ");
    assert_next(r, 0, STORE_RECORD_STARTED, 0, "");
    assert_next(r, 1, STORE_RECORD_STDOUT, 0, "hello ");
    assert_end(r);
    append(t, STORE_RECORD_STDERR, "oh");
    append(t, STORE_RECORD_STDOUT, "world");
    assert_ok(store_transcript_sync(t, &err), err);
    append(t, STORE_RECORD_EXIT, "{\"exitCode\":0}");
    assert_ok(store_transcript_sync(t, &err), err);
    store_transcript_close(t);
    store_transcript_close(NULL);
    assert_next(r, 2, STORE_RECORD_STDERR, 0, "oh");
    assert_next(r, 3, STORE_RECORD_STDOUT, 6, "world");
    assert_next(r, 4, STORE_RECORD_EXIT, 0, "{\"exitCode\":0}");
    assert_end(r);
    assert_end(r);
    store_transcript_reader_free(r);
    store_transcript_reader_free(NULL);
}

static bool is_seq(void *ctx, const struct store_record *head)
{
    assert_null(head->data);
    return head->seq == *(const int64_t *)ctx;
}

/* From every place to every other, closed between: the same records as without a stop. */
static void test_positions(void **state)
{
    static const char *const texts[] = {"one", "", "three", "4", "a longer one than the others"};
    struct fixture *f = *state;
    struct store_transcript_name name = name_of(f, "c-1");
    struct store_transcript *t = create(f, "c-1");
    struct store_transcript_position position = {0};
    struct store_transcript_reader *r = NULL;
    struct error err = ERROR_INIT;
    int64_t never = 100;

    assert_ok(store_transcript_open_at(&name, &position, &r, &err), err);
    assert_int_equal(store_transcript_skip(r, is_seq, &never, &err), 0);
    store_transcript_reader_free(r);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        append(t, STORE_RECORD_STDOUT, texts[i]);
    }
    for (int64_t from = 0; from <= 5; from++) {
        for (int64_t to = from; to <= 5; to++) {
            struct store_transcript_position there;
            int64_t offset = 0;

            assert_ok(store_transcript_open_at(&name, &position, &r, &err), err);
            assert_int_equal(store_transcript_skip(r, is_seq, &to, &err), to < 5);
            store_transcript_tell(r, &there);
            assert_int_equal(there.seq, to);
            for (int64_t i = 0; i < to; i++) {
                offset += (int64_t)strlen(texts[i]);
            }
            for (int64_t i = to; i < 5; i++) {
                assert_next(r, i, STORE_RECORD_STDOUT, offset, texts[i]);
                offset += (int64_t)strlen(texts[i]);
            }
            assert_end(r);
            store_transcript_reader_free(r);
        }
        assert_ok(store_transcript_open_at(&name, &position, &r, &err), err);
        if (from < 5) {
            struct store_record record;

            assert_int_equal(store_transcript_next(r, &record, &err), 1);
        }
        store_transcript_tell(r, &position);
        store_transcript_reader_free(r);
    }
    store_transcript_close(t);
}

/* Heads alone do not lead past a record that is not all there, nor past damage. */
static void test_skip_stops(void **state)
{
    struct fixture *f = *state;
    struct store_transcript_name name = name_of(f, "c-1");
    struct store_transcript *t = create(f, "c-1");
    struct store_transcript_reader *r = NULL;
    struct error err = ERROR_INIT;
    struct store_transcript_position position;
    int64_t never = 100;
    char path[160];
    int fd;

    append(t, STORE_RECORD_STDOUT, "whole");
    append(t, STORE_RECORD_STDOUT, "torn");
    path_of(f, "c-1", path);
    assert_int_equal(truncate(path, size_of(f, "c-1") - 1), 0);
    assert_ok(store_transcript_open(&name, &r, &err), err);
    assert_int_equal(store_transcript_skip(r, is_seq, &never, &err), 0);
    store_transcript_tell(r, &position);
    assert_int_equal(position.seq, 1);
    assert_int_equal(position.stream_bytes[0], 5);
    store_transcript_reader_free(r);
    store_transcript_close(t);

    t = create(f, "c-2");
    name = name_of(f, "c-2");
    append(t, STORE_RECORD_STDOUT, "first");
    assert_ok(store_transcript_sync(t, &err), err);
    append(t, STORE_RECORD_STDOUT, "second");
    store_transcript_close(t);
    path_of(f, "c-2", path);
    fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "?", 1, TRANSCRIPT_HEADER_SIZE), 1);
    close(fd);
    assert_ok(store_transcript_open(&name, &r, &err), err);
    assert_code(store_transcript_skip(r, is_seq, &never, &err), err, ERROR_INTERNAL);
    store_transcript_reader_free(r);
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;
    struct store_transcript_name name = name_of(f, "c-1");
    struct store_transcript_name other = name_of(f, "c-2");
    struct store_transcript_name bad = name_of(f, "../c");
    struct store_transcript *t = create(f, "c-1");
    struct store_transcript *again = NULL;
    struct store_transcript_reader *r = NULL;
    struct error err = ERROR_INIT;
    bool repaired;

    assert_code(store_transcript_create(&name, &again, &err), err, ERROR_INTERNAL);
    assert_code(store_transcript_create(&bad, &again, &err), err, ERROR_INTERNAL);
    assert_code(store_transcript_open(&bad, &r, &err), err, ERROR_INTERNAL);
    assert_code(store_transcript_open(&other, &r, &err), err, ERROR_NOT_FOUND);
    assert_code(store_transcript_reopen(&other, &again, &repaired, &err), err, ERROR_NOT_FOUND);
    assert_code(store_transcript_append(t, STORE_RECORD_STARTED, "x", 1, &err), err,
                ERROR_INTERNAL);
    store_transcript_close(t);
}

static void test_large_appends_are_split(void **state)
{
    struct fixture *f = *state;
    struct store_transcript_name name = name_of(f, "c-1");
    struct store_transcript *t = create(f, "c-1");
    struct store_transcript_totals totals;
    struct error err = ERROR_INIT;
    size_t size = 3 * 64 * 1024 + 5;
    char *data = malloc(size);
    struct buf out;
    struct buf errout;

    assert_non_null(data);
    for (size_t i = 0; i < size; i++) {
        data[i] = (char)(i * 7 + i / 256);
    }
    assert_ok(store_transcript_append(t, STORE_RECORD_STDOUT, data, size, &err), err);
    assert_ok(store_transcript_append(t, STORE_RECORD_STDERR, data, 64 * 1024, &err), err);
    buf_init(&out, size + 10);
    buf_init(&errout, 100);
    assert_ok(store_transcript_read_output(&name, &out, &errout, &totals, &err), err);
    assert_int_equal(totals.records, 5);
    assert_int_equal(totals.stdout_bytes, size);
    assert_int_equal(totals.stderr_bytes, 64 * 1024);
    assert_false(totals.ended);
    assert_int_equal(out.len, size);
    assert_memory_equal(out.data, data, size);
    assert_int_equal(errout.len, 100);
    assert_memory_equal(errout.data, data, 100);
    assert_ok(store_transcript_append(t, STORE_RECORD_EXIT, data, size, &err), err);
    buf_reset(&out);
    buf_reset(&errout);
    assert_ok(store_transcript_read_output(&name, &out, &errout, &totals, &err), err);
    assert_int_equal(totals.records, 6);
    assert_true(totals.ended);
    buf_done(&out);
    buf_done(&errout);
    store_transcript_close(t);
    free(data);
}

/* --- tails --- */

struct sample {
    char *data;
    size_t size;
    int64_t ends[8]; /* where each record ends; ends[0]: the header */
    int records;
};

static struct sample make_sample(const struct fixture *f, bool synced)
{
    struct store_transcript *t = create(f, "sample");
    struct sample s = {.ends = {size_of(f, "sample")}};
    struct error err = ERROR_INIT;
    struct buf content;
    char path[160];

    for (int i = 0; i < 5; i++) {
        append(t, i % 2 == 0 ? STORE_RECORD_STDOUT : STORE_RECORD_STDERR,
               i == 3 ? "" : "some output of a program");
        if (synced) {
            assert_ok(store_transcript_sync(t, &err), err);
        }
        s.ends[++s.records] = size_of(f, "sample");
    }
    store_transcript_close(t);
    path_of(f, "sample", path);
    buf_init(&content, 1 << 20);
    assert_ok(file_read(path, &content, &err), err);
    s.data = buf_take(&content, &s.size);
    return s;
}

static void put_file(const struct fixture *f, const char *data, size_t size)
{
    struct error err = ERROR_INIT;
    char path[160];

    path_of(f, "cut", path);
    assert_ok(file_write_atomic(path, data, size, 0600, &err), err);
}

/* Reopens what put_file made, expects `records` whole ones, appends one and reads it all. */
static void assert_reopens(const struct fixture *f, int records, bool expect_repair)
{
    struct store_transcript_name name = name_of(f, "cut");
    struct store_transcript *t = NULL;
    struct store_transcript_totals totals;
    struct error err = ERROR_INIT;
    struct buf out;
    struct buf errout;
    bool repaired = !expect_repair;

    buf_init(&out, 1000);
    buf_init(&errout, 1000);
    assert_ok(store_transcript_read_output(&name, &out, &errout, &totals, &err), err);
    assert_int_equal(totals.records, records);
    assert_ok(store_transcript_reopen(&name, &t, &repaired, &err), err);
    assert_int_equal(repaired, expect_repair);
    append(t, STORE_RECORD_EXIT, "{}");
    store_transcript_close(t);
    assert_ok(store_transcript_read_output(&name, &out, &errout, &totals, &err), err);
    assert_int_equal(totals.records, records + 1);
    assert_true(totals.ended);
    buf_done(&out);
    buf_done(&errout);
}

static void test_cut_at_every_byte(void **state)
{
    struct fixture *f = *state;

    for (int synced = 0; synced < 2; synced++) {
        struct sample s = make_sample(f, synced != 0);
        char path[160];
        int whole = 0;

        for (size_t len = 0; len <= s.size; len++) {
            while (whole < s.records && s.ends[whole + 1] <= (int64_t)len) {
                whole++;
            }
            put_file(f, s.data, len);
            assert_reopens(f, whole, s.ends[whole] != (int64_t)len || len == 0);
        }
        assert_int_equal(whole, s.records);
        free(s.data);
        path_of(f, "sample", path);
        assert_int_equal(unlink(path), 0);
    }
}

/* Power loss: the file has its length but pages of it never arrived. */
static void test_tail_of_zeros(void **state)
{
    struct fixture *f = *state;
    struct sample s = make_sample(f, false);

    for (int i = 0; i < s.records; i++) {
        char *copy = malloc(s.size);

        assert_non_null(copy);
        memcpy(copy, s.data, s.size);
        memset(copy + s.ends[i], 0, s.size - (size_t)s.ends[i]);
        put_file(f, copy, s.size);
        assert_reopens(f, i, true);
        /* Nothing was synced, so a whole record behind the hole does not make it damage. */
        memcpy(copy, s.data, s.size);
        memset(copy + s.ends[i], 0, (size_t)(s.ends[i + 1] - s.ends[i]));
        put_file(f, copy, s.size);
        assert_reopens(f, i, true);
        free(copy);
    }
    memset(s.data, 0, s.size);
    put_file(f, s.data, s.size);
    assert_reopens(f, 0, true);
    free(s.data);
}

/* Each bit of durable content: found out, and never cut away but at the tail. */
static void test_every_flipped_bit(void **state)
{
    struct fixture *f = *state;
    struct store_transcript_name name = name_of(f, "cut");
    struct sample s = make_sample(f, true);
    int64_t last = s.ends[s.records - 1];

    for (size_t bit = 0; bit < s.size * 8; bit++) {
        struct store_transcript *t = NULL;
        struct error err = ERROR_INIT;
        bool repaired = false;

        s.data[bit / 8] = (char)(s.data[bit / 8] ^ (1 << bit % 8));
        put_file(f, s.data, s.size);
        s.data[bit / 8] = (char)(s.data[bit / 8] ^ (1 << bit % 8));
        if ((int64_t)(bit / 8) < last) {
            assert_code(store_transcript_reopen(&name, &t, &repaired, &err), err, ERROR_INTERNAL);
            assert_non_null(strstr(err.detail, "damaged at offset"));
            assert_int_equal(size_of(f, "cut"), s.size);
        } else {
            assert_ok(store_transcript_reopen(&name, &t, &repaired, &err), err);
            assert_true(repaired);
            assert_int_equal(size_of(f, "cut"), last);
            store_transcript_close(t);
        }
    }
    free(s.data);
}

/* --- failures --- */

static int write_on_full_disk(const char *directory)
{
    struct store_transcript_name name = {directory, "default", 7, "c-1", NULL};
    struct store_transcript *t = NULL;
    struct error err = ERROR_INIT;

    if (store_transcript_create(&name, &t, &err) != 0 ||
        store_transcript_append(t, STORE_RECORD_STDOUT, "first", 5, &err) != 0) {
        return 2;
    }
    if (store_transcript_append(t, STORE_RECORD_STDOUT, "second", 6, &err) == 0 ||
        err.code != ERROR_STORAGE_FULL) {
        return 3;
    }
    error_clear(&err);
    if (store_transcript_append(t, STORE_RECORD_STDOUT, "third", 5, &err) != 0) {
        return 4;
    }
    store_transcript_close(t);
    return 0;
}

static void test_full_disk_loses_nothing_before(void **state)
{
    struct fixture *f = *state;
    struct store_transcript_name name = name_of(f, "c-1");
    struct store_transcript_reader *r = NULL;
    struct error err = ERROR_INIT;
    /* The header's write is the first. */
    int status = run_with_fault("transcript.write:3:ENOSPC", "write", f->directory, "");

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_ok(store_transcript_open(&name, &r, &err), err);
    assert_next(r, 0, STORE_RECORD_STDOUT, 0, "first");
    assert_next(r, 1, STORE_RECORD_STDOUT, 5, "third");
    assert_end(r);
    store_transcript_reader_free(r);
}

struct follow {
    struct store_transcript_name name;
    int64_t bytes;
};

static void *follow(void *arg)
{
    struct follow *follow = arg;
    struct store_transcript_reader *r = NULL;
    struct store_record record;
    struct error err = ERROR_INIT;
    int got = 0;

    if (store_transcript_open(&follow->name, &r, &err) != 0) {
        return NULL;
    }
    do {
        got = store_transcript_next(r, &record, &err);
        if (got > 0 && record.kind == STORE_RECORD_STDOUT) {
            if (record.offset != follow->bytes) {
                got = -1;
            }
            follow->bytes += (int64_t)record.len;
        }
    } while (got == 0 || (got > 0 && record.kind != STORE_RECORD_EXIT));
    if (got < 0) {
        follow->bytes = -1;
    }
    store_transcript_reader_free(r);
    return NULL;
}

static void test_reader_follows_a_writer(void **state)
{
    struct fixture *f = *state;
    struct follow followed = {name_of(f, "c-1"), 0};
    struct store_transcript *t = create(f, "c-1");
    struct error err = ERROR_INIT;
    char *data = calloc(1, 64 * 1024);
    int64_t sum = 0;
    pthread_t thread;

    assert_non_null(data);
    assert_int_equal(pthread_create(&thread, NULL, follow, &followed), 0);
    for (size_t i = 0; i < 2000; i++) {
        size_t len = i * 7919 % (64 * 1024);

        assert_ok(store_transcript_append(t, STORE_RECORD_STDOUT, data, len, &err), err);
        sum += (int64_t)len;
        if (i % 200 == 0) {
            assert_ok(store_transcript_sync(t, &err), err);
        }
    }
    append(t, STORE_RECORD_EXIT, "{}");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(followed.bytes, sum);
    store_transcript_close(t);
    free(data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_records, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_positions, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_skip_stops, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refusals, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_large_appends_are_split, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_cut_at_every_byte, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_tail_of_zeros, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_every_flipped_bit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_full_disk_loses_nothing_before, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reader_follows_a_writer, fixture_setup,
                                        fixture_teardown),
    };

    if (argc == 4) {
        return write_on_full_disk(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
