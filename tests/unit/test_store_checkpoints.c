/* Rows and files of checkpoints: all or nothing on disk, whatever stops it. */
#include "store_fixture.h"

#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void test_rows(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_checkpoint c = checkpoint_row("cp-1");
    struct store_checkpoint again = checkpoint_row("cp-1");
    struct store_checkpoint got;

    assert_ok(store_checkpoint_insert(f->store, &c, &err), err);
    assert_code(store_checkpoint_insert(f->store, &again, &err), err, ERROR_ID_IN_USE);
    error_clear(&err);
    fixture_reopen(f);
    assert_ok(store_checkpoint_get(f->store, "default", "cp-1", &got, &err), err);
    assert_int_equal(got.row, c.row);
    assert_string_equal(got.source_execution_id, "e-1");
    assert_int_equal(got.source_incarnation, 2);
    assert_int_equal(got.created_at, 3000);
    assert_string_equal(got.manifest, c.manifest);
    assert_int_equal(got.content_bytes, 4096);
    assert_int_equal(got.archive_bytes, 512);
    assert_int_equal(got.entries, 3);
    assert_int_equal(got.skipped, 1);
    assert_string_equal(got.archive_digest, "sha256:0");
    assert_string_equal(got.durability, "local");
    assert_int_equal(got.stored_at, 3100);
    assert_int_equal(got.stored_bytes, 700);
    store_checkpoint_done(&got);
    assert_code(store_checkpoint_get(f->store, "other", "cp-1", &got, &err), err,
                ERROR_CHECKPOINT_NOT_FOUND);
    assert_code(store_checkpoint_delete(f->store, "other", "cp-1", &err), err,
                ERROR_CHECKPOINT_NOT_FOUND);
    error_clear(&err);
    assert_ok(store_checkpoint_delete(f->store, "default", "cp-1", &err), err);
    assert_code(store_checkpoint_get(f->store, "default", "cp-1", &got, &err), err,
                ERROR_CHECKPOINT_NOT_FOUND);
    again.durability = "elsewhere";
    assert_code(store_checkpoint_insert(f->store, &again, &err), err, ERROR_INTERNAL);
}

static void test_sharing(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_checkpoint c = checkpoint_row("cp-1");
    struct store_checkpoint got = {0};
    const struct store_checkpoint_shared durable = {"durable", "s3://b/k", "sha256:1", 5000,
                                                    7,         7,          NULL};
    const struct store_checkpoint_shared failed = {"failed", "s3://b/k", "sha256:1", 0, 3, 7, "{}"};

    assert_ok(store_checkpoint_insert(f->store, &c, &err), err);
    assert_code(store_checkpoint_set_shared(f->store, "other", "cp-1", &durable, &err), err,
                ERROR_CHECKPOINT_NOT_FOUND);
    error_clear(&err);
    assert_ok(store_checkpoint_set_shared(f->store, "default", "cp-1", &durable, &err), err);
    fixture_reopen(f);
    assert_ok(store_checkpoint_get(f->store, "default", "cp-1", &got, &err), err);
    assert_string_equal(got.durability, "durable");
    assert_string_equal(got.shared_uri, "s3://b/k");
    assert_string_equal(got.shared_digest, "sha256:1");
    assert_int_equal(got.shared_at, 5000);
    assert_int_equal(got.shared_sent, 7);
    assert_null(got.shared_error);
    store_checkpoint_done(&got);
    assert_ok(store_checkpoint_set_shared(f->store, "default", "cp-1", &failed, &err), err);
    assert_ok(store_checkpoint_get(f->store, "default", "cp-1", &got, &err), err);
    assert_int_equal(got.shared_at, 0);
    assert_int_equal(got.shared_bytes, 7);
    assert_string_equal(got.shared_error, "{}");
    store_checkpoint_done(&got);
}

static size_t count_list(struct store *s, const struct store_checkpoint_filter *filter,
                         int64_t before)
{
    struct error err = ERROR_INIT;
    struct store_page page = {before, 4};
    struct store_checkpoint_list list;
    size_t count;

    assert_ok(store_checkpoint_list(s, filter, &page, &list, &err), err);
    count = list.count;
    for (size_t i = 1; i < count; i++) {
        assert_true(list.items[i].row < list.items[i - 1].row);
    }
    store_checkpoint_list_done(&list);
    return count;
}

static void test_lists(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_checkpoint_filter filter = {0};

    for (int i = 0; i < 6; i++) {
        char id[24];
        struct store_checkpoint c;

        snprintf(id, sizeof(id), "cp-%d", i);
        c = checkpoint_row(id);
        c.source_execution_id = i < 2 ? "e-1" : "e-2";
        c.durability = i % 2 == 0 ? "local" : "durable";
        c.tenant = i == 5 ? "other" : "default";
        assert_ok(store_checkpoint_insert(f->store, &c, &err), err);
        assert_int_equal(c.row, i + 1);
    }
    assert_int_equal(count_list(f->store, &filter, 0), 4);
    assert_int_equal(count_list(f->store, &filter, 3), 2);
    filter.tenant = "default";
    assert_int_equal(count_list(f->store, &filter, 5), 4);
    filter.durability = "durable";
    assert_int_equal(count_list(f->store, &filter, 0), 2);
    filter.source_execution_id = "e-1";
    assert_int_equal(count_list(f->store, &filter, 0), 1);
    filter.durability = NULL;
    assert_int_equal(count_list(f->store, &filter, 0), 2);
    filter.tenant = NULL;
    filter.source_execution_id = "e-2";
    filter.durability = "durable";
    assert_int_equal(count_list(f->store, &filter, 0), 2);
}

/* --- files --- */

struct place {
    char root[128];
    const char *id;
};

static int publish(const struct place *at, bool compressed, const char *manifest, struct error *err)
{
    struct store_checkpoint_draft draft;
    int result;

    if (store_checkpoint_draft_open(at->root, "default", at->id, compressed, &draft, err) != 0) {
        return -1;
    }
    result = file_write_all(draft.archive_fd, "archive", 7, err) != 0 ||
                     file_write_all(draft.files_fd, "files", 5, err) != 0
                 ? -1
                 : store_checkpoint_draft_publish(&draft, manifest, err);
    store_checkpoint_draft_done(&draft);
    return result;
}

static struct place place_of(const struct fixture *f, const char *id)
{
    struct place at = {.id = id};

    snprintf(at.root, sizeof(at.root), "%s/checkpoints", f->directory);
    return at;
}

static mode_t mode_of(const struct place *at, const char *name)
{
    char path[256];
    struct stat st;

    snprintf(path, sizeof(path), "%s/default/%s%s", at->root, at->id, name);
    return stat(path, &st) == 0 ? st.st_mode & 0777 : 0;
}

static void assert_content(int fd, const char *expected)
{
    char text[32] = {0};

    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    assert_string_equal(text, expected);
}

static void check_published(const struct place *at, bool compressed)
{
    struct store_checkpoint_files files;
    struct error err = ERROR_INIT;

    assert_ok(store_checkpoint_files_open(at->root, "default", at->id, compressed, &files, &err),
              err);
    assert_string_equal(files.manifest, "{\"version\":1}");
    assert_content(files.archive_fd, "archive");
    assert_content(files.files_fd, "files");
    store_checkpoint_files_done(&files);
    store_checkpoint_files_done(&files);
}

static void test_publish_and_read(void **state)
{
    struct fixture *f = *state;
    struct place at = place_of(f, "cp-1");
    struct place plain = place_of(f, "cp-2");
    struct store_checkpoint_files files;
    struct error err = ERROR_INIT;

    assert_ok(publish(&at, true, "{\"version\":1}", &err), err);
    assert_ok(publish(&plain, false, "{\"version\":1}", &err), err);
    assert_int_equal(mode_of(&at, ""), 0700);
    assert_int_equal(mode_of(&at, "/manifest.json"), 0600);
    assert_int_equal(mode_of(&at, "/workspace.tar.zst"), 0600);
    assert_int_equal(mode_of(&at, "/files.jsonl.zst"), 0600);
    assert_int_equal(mode_of(&plain, "/workspace.tar"), 0600);
    assert_int_equal(mode_of(&plain, "/files.jsonl"), 0600);
    check_published(&at, true);
    check_published(&plain, false);
    assert_code(publish(&at, true, "{}", &err), err, ERROR_ID_IN_USE);
    check_published(&at, true);
    assert_code(store_checkpoint_files_open(at.root, "default", "cp-1", false, &files, &err), err,
                ERROR_CHECKPOINT_INVALID);
    assert_non_null(strstr(err.detail, "workspace.tar"));
    assert_code(store_checkpoint_files_open(at.root, "default", "cp-9", true, &files, &err), err,
                ERROR_CHECKPOINT_INVALID);
    assert_non_null(strstr(err.detail, "manifest.json"));
    error_clear(&err);
    assert_ok(store_checkpoint_files_remove(at.root, "default", "cp-1", &err), err);
    assert_int_equal(mode_of(&at, ""), 0);
    assert_ok(store_checkpoint_files_remove(at.root, "default", "cp-1", &err), err);
}

static void test_names_lead_nowhere_else(void **state)
{
    struct fixture *f = *state;
    struct place at = place_of(f, "../../x");
    struct error err = ERROR_INIT;

    assert_code(publish(&at, true, "{}", &err), err, ERROR_INTERNAL);
    assert_code(store_checkpoint_files_remove(at.root, "..", "x", &err), err, ERROR_INTERNAL);
}

static void test_large_manifest_is_invalid(void **state)
{
    struct fixture *f = *state;
    struct place at = place_of(f, "cp-1");
    struct store_checkpoint_files files;
    struct error err = ERROR_INIT;
    size_t size = 16 * 1024 * 1024;
    char *manifest = calloc(1, size + 2);

    assert_non_null(manifest);
    memset(manifest, ' ', size + 1);
    assert_ok(publish(&at, true, manifest, &err), err);
    assert_code(store_checkpoint_files_open(at.root, "default", "cp-1", true, &files, &err), err,
                ERROR_CHECKPOINT_INVALID);
    error_clear(&err);
    manifest[size] = '\0';
    at.id = "cp-2";
    assert_ok(publish(&at, true, manifest, &err), err);
    assert_ok(store_checkpoint_files_open(at.root, "default", "cp-2", true, &files, &err), err);
    assert_int_equal(strlen(files.manifest), size);
    store_checkpoint_files_done(&files);
    free(manifest);
}

/* --- the sweep --- */

static bool only_kept(void *ctx, const char *tenant, const char *id)
{
    (void)ctx;
    return strcmp(tenant, "default") == 0 && strncmp(id, "kept", 4) == 0;
}

static void test_sweep(void **state)
{
    struct fixture *f = *state;
    struct place kept = place_of(f, "kept-1");
    struct place lost = place_of(f, "lost-1");
    struct store_checkpoint_draft draft;
    struct error err = ERROR_INIT;
    int removed = -1;

    assert_ok(store_checkpoint_files_sweep(kept.root, only_kept, NULL, &removed, &err), err);
    assert_int_equal(removed, 0);
    assert_ok(publish(&kept, true, "{\"version\":1}", &err), err);
    assert_ok(publish(&lost, true, "{\"version\":1}", &err), err);
    assert_ok(store_checkpoint_draft_open(kept.root, "default", "kept-2", true, &draft, &err), err);
    assert_ok(store_checkpoint_files_sweep(kept.root, only_kept, NULL, &removed, &err), err);
    assert_int_equal(removed, 2);
    store_checkpoint_draft_done(&draft);
    store_checkpoint_draft_done(&draft);
    check_published(&kept, true);
    assert_int_equal(mode_of(&lost, ""), 0);
    assert_ok(store_checkpoint_files_sweep(kept.root, only_kept, NULL, &removed, &err), err);
    assert_int_equal(removed, 0);
}

/* --- stopped at each point --- */

static int publish_and_leave(const char *root, const char *id)
{
    struct place at = {.id = id};
    struct error err = ERROR_INIT;

    snprintf(at.root, sizeof(at.root), "%s", root);
    if (publish(&at, true, "{\"version\":1}", &err) != 0) {
        return err.code == ERROR_STORAGE_FULL ? 3 : 2;
    }
    return 0;
}

static void check_stopped_at(const struct fixture *f, const char *point, int number)
{
    struct error err = ERROR_INIT;
    struct place at = place_of(f, "x");
    char id[32];
    char fault[64];
    int removed = -1;
    int status;

    at.id = id;
    snprintf(id, sizeof(id), "full-%d", number);
    snprintf(fault, sizeof(fault), "%s:1:ENOSPC", point);
    status = run_with_fault(fault, "publish", at.root, id);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_int_equal(mode_of(&at, ""), 0);
    assert_ok(store_checkpoint_files_sweep(at.root, only_kept, NULL, &removed, &err), err);
    assert_int_equal(removed, 0);
    snprintf(id, sizeof(id), "kept-%d", number);
    snprintf(fault, sizeof(fault), "%s:1:kill", point);
    status = run_with_fault(fault, "publish", at.root, id);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_ok(store_checkpoint_files_sweep(at.root, only_kept, NULL, &removed, &err), err);
    if (mode_of(&at, "") != 0) {
        check_published(&at, true);
        assert_int_equal(removed, 0);
        assert_ok(store_checkpoint_files_remove(at.root, "default", id, &err), err);
    }
    assert_ok(publish(&at, true, "{\"version\":1}", &err), err);
    check_published(&at, true);
}

static void test_all_or_nothing(void **state)
{
    static const char *const POINTS[] = {
        "checkpoint.draft.mkdir",    "checkpoint.file.create",     "checkpoint.manifest.write",
        "checkpoint.manifest.fsync", "checkpoint.archive.fsync",   "checkpoint.files.fsync",
        "checkpoint.rename",         "checkpoint.directory.fsync",
    };
    struct place at = place_of(*state, "kept-first");
    struct error err = ERROR_INIT;

    assert_ok(publish(&at, true, "{\"version\":1}", &err), err);
    for (size_t i = 0; i < ARRAY_SIZE(POINTS); i++) {
        check_stopped_at(*state, POINTS[i], (int)i);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_sharing, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lists, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_publish_and_read, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_names_lead_nowhere_else, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_large_manifest_is_invalid, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_sweep, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_all_or_nothing, fixture_setup, fixture_teardown),
    };

    if (argc == 4) {
        return publish_and_leave(argv[2], argv[3]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
