/* An import and a removal that die, or fail, at each point they pass: afterwards the image is whole
 * or not there, and nothing of it is left over. */
#include "native_fixture.h"
#include "workspace_fixture.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

/* --- the life that is ended: this program again, with fault points of its own --- */

static int child_import(const char *store, const char *file)
{
    struct native_images *images;
    struct host_image image;
    struct error err = ERROR_INIT;
    int result;

    if (native_images_open(&(struct native_images_config){.directory = store}, &images, &err) !=
        0) {
        return 1;
    }
    result = native_images_import(images, "base", file, &image, &err);
    if (result == 0) {
        free(image.reference);
        free(image.digests);
    }
    native_images_close(images);
    return result == 0 ? 0 : 1;
}

static int child_remove(const char *store, const char *reference)
{
    struct native_images *images;
    struct error err = ERROR_INIT;
    int result;

    if (native_images_open(&(struct native_images_config){.directory = store}, &images, &err) !=
        0) {
        return 1;
    }
    result = native_images_remove(images, reference, &err);
    native_images_close(images);
    return result == 0 ? 0 : 1;
}

static int run_child(const char *variable, const char *verb, const char *store,
                     const char *argument)
{
    char *const argv[] = {(char *)"test", (char *)verb, (char *)store, (char *)argument, NULL};
    char *const envp[] = {(char *)variable, (char *)"ASAN_OPTIONS=detect_leaks=0", NULL};
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        execve("/proc/self/exe", argv, envp);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* --- the places --- */

static struct {
    char dir[64];
    char store[96];
    char file[96];
    char list[96];
    char *reference;
} place;

static int set_up(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf tar;

    fixture_directory_make(place.dir);
    (void)snprintf(place.store, sizeof(place.store), "%s/store", place.dir);
    (void)snprintf(place.file, sizeof(place.file), "%s/file", place.dir);
    (void)snprintf(place.list, sizeof(place.list), "%s/list", place.dir);
    buf_init(&tar, FIXTURE_TAR_MAX);
    fixture_tar_put(&tar, '5', "etc/", 0755, "");
    fixture_tar_put(&tar, '0', "etc/deep/file", 0644, "content");
    fixture_tar_end(&tar);
    fixture_put(place.dir, "file", &tar);
    error_clear(&err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(TAKE_PTR(place.reference));
    fixture_directory_remove(place.dir);
    return 0;
}

/* Whether the image is there; it is whole then. Nothing else is in the store once it was opened. */
static bool check_store(void)
{
    struct native_images *images;
    struct native_image image;
    struct host_image_list list;
    struct error err = ERROR_INIT;
    char path[128];
    bool there;

    assert_int_equal(
        native_images_open(&(struct native_images_config){.directory = place.store}, &images, &err),
        0);
    (void)snprintf(path, sizeof(path), "%s/new", place.store);
    _cleanup_free_ char *left = fixture_tree_text(path);
    assert_string_equal(left, "");
    assert_int_equal(native_images_list(images, &list, &err), 0);
    there = list.count > 0;
    if (there) {
        assert_int_equal(list.count, 1);
        free(place.reference);
        place.reference = strdup(list.items[0].reference);
        assert_int_equal(native_image_acquire(images, place.reference, NULL, &image, &err), 0);
        _cleanup_free_ char *text = fixture_tree_text(image.root_path);
        assert_non_null(strstr(text, "f 0644 etc/deep/file = content\n"));
        (void)snprintf(path, sizeof(path), "%s", image.root_path);
        *strrchr(path, '/') = '\0';
        _cleanup_free_ char *all = fixture_tree_text(path);
        assert_null(strstr(all, "image.json."));
        native_image_release(&image);
    }
    host_image_list_done(&list);
    native_images_close(images);
    return there;
}

/* Every point that `verb` passes, one line each; owned. */
static char *list_points(const char *verb, const char *argument)
{
    char variable[160];
    struct buf text;
    struct error err = ERROR_INIT;

    (void)unlink(place.list);
    (void)snprintf(variable, sizeof(variable), "EXECHOST_FAULT_LIST=%s", place.list);
    assert_int_equal(run_child(variable, verb, place.store, argument), 0);
    buf_init(&text, 64 * 1024);
    assert_int_equal(file_read(place.list, &text, &err), 0);
    return buf_take(&text, NULL);
}

static void fail_at(const char *point, const char *action, const char *verb, const char *argument)
{
    char variable[160];
    int status;

    (void)snprintf(variable, sizeof(variable), "EXECHOST_FAULT=%s:1:%s", point, action);
    status = run_child(variable, verb, place.store, argument);
    if (strcmp(action, "kill") == 0) {
        assert_true(WIFSIGNALED(status));
    } else {
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    }
}

static void each_point(const char *points, void (*try)(const char *point, const char *action))
{
    static const char *const ACTIONS[] = {"kill", "EIO", "ENOSPC"};
    _cleanup_free_ char *copy = strdup(points);
    char *rest = copy;
    int count = 0;

    for (char *point; (point = strsep(&rest, "\n")) != NULL;) {
        for (size_t i = 0; point[0] != '\0' && i < ARRAY_SIZE(ACTIONS); i++) {
            try(point, ACTIONS[i]);
            count++;
        }
    }
    assert_true(count > 5);
}

static void try_import(const char *point, const char *action)
{
    fail_at(point, action, "import", place.file);
    if (check_store()) {
        assert_int_equal(run_child("A=", "remove", place.store, place.reference), 0);
    }
    assert_int_equal(run_child("A=", "import", place.store, place.file), 0);
    assert_true(check_store());
    assert_int_equal(run_child("A=", "remove", place.store, place.reference), 0);
}

static void imports(void **state)
{
    (void)state;
    _cleanup_free_ char *points = list_points("import", place.file);

    assert_non_null(strstr(points, "image.publish"));
    assert_true(check_store());
    assert_int_equal(run_child("A=", "remove", place.store, place.reference), 0);
    each_point(points, try_import);
}

static void try_again(const char *point, const char *action)
{
    fail_at(point, action, "import", place.file);
    assert_true(check_store());
}

/* An image that is there stays whole whatever befalls who imports it again. */
static void imports_again(void **state)
{
    (void)state;
    assert_int_equal(run_child("A=", "import", place.store, place.file), 0);
    _cleanup_free_ char *points = list_points("import", place.file);
    each_point(points, try_again);
}

static void try_remove(const char *point, const char *action)
{
    assert_int_equal(run_child("A=", "import", place.store, place.file), 0);
    assert_true(check_store());
    fail_at(point, action, "remove", place.reference);
    (void)check_store();
}

static void removals(void **state)
{
    (void)state;
    assert_int_equal(run_child("A=", "import", place.store, place.file), 0);
    assert_true(check_store());
    _cleanup_free_ char *reference = strdup(place.reference);
    _cleanup_free_ char *points = list_points("remove", reference);

    assert_non_null(strstr(points, "image.remove"));
    each_point(points, try_remove);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(imports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(imports_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removals, set_up, tear_down),
    };

    if (argc == 4) {
        return strcmp(argv[1], "import") == 0 ? child_import(argv[2], argv[3])
                                              : child_remove(argv[2], argv[3]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
