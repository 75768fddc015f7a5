/* The image store: what goes in, what comes out, who may remove it. */
#include "native_fixture.h"
#include "workspace_fixture.h"

#include "base/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cmocka.h>

/* A store and a directory for what is imported. */
struct place {
    char dir[64];
    char store[96];
    char input[96];
    char file[128];
    struct native_images *images;
};

static void open_store(struct place *p, const struct native_images_limits *limits)
{
    const struct native_images_config config = {
        .directory = p->store,
        .limits = limits != NULL ? *limits : (struct native_images_limits){0}};
    struct error err = ERROR_INIT;

    if (native_images_open(&config, &p->images, &err) != 0) {
        fail_msg("%s", err.detail);
    }
}

static void place_init(struct place *p, const struct native_images_limits *limits)
{
    struct error err = ERROR_INIT;

    fixture_directory_make(p->dir);
    (void)snprintf(p->store, sizeof(p->store), "%s/store", p->dir);
    (void)snprintf(p->input, sizeof(p->input), "%s/input", p->dir);
    (void)snprintf(p->file, sizeof(p->file), "%s/file", p->input);
    assert_int_equal(dir_make(p->input, 0755, &err), 0);
    open_store(p, limits);
}

static void place_done(struct place *p)
{
    native_images_close(p->images);
    fixture_directory_remove(p->dir);
}

static int import(struct place *p, const char *name, struct host_image *out, struct error *err)
{
    return native_images_import(p->images, name, p->file, out, err);
}

/* Imports the tar and returns its reference, owned. */
static char *import_tar(struct place *p, const char *name, const struct buf *tar)
{
    struct host_image image = {0};
    struct error err = ERROR_INIT;

    fixture_put(p->input, "file", tar);
    if (import(p, name, &image, &err) != 0) {
        fail_msg("%s", err.detail);
    }
    free(image.digests);
    return image.reference;
}

static char *tree_of(struct place *p, const char *reference)
{
    struct native_image image;
    struct error err = ERROR_INIT;
    char *text;

    if (native_image_acquire(p->images, reference, NULL, &image, &err) != 0) {
        fail_msg("%s", err.detail);
    }
    text = fixture_tree_text(image.root_path);
    native_image_release(&image);
    return text;
}

static size_t count_new(const struct place *p)
{
    char path[128];
    char *text;
    size_t lines = 0;

    (void)snprintf(path, sizeof(path), "%s/new", p->store);
    text = fixture_tree_text(path);
    for (const char *c = text; *c != '\0'; c++) {
        lines += *c == '\n' ? 1 : 0;
    }
    free(text);
    return lines;
}

/* --- a bare root file system --- */

static void small_rootfs(struct buf *tar)
{
    buf_init(tar, FIXTURE_TAR_MAX);
    fixture_tar_put(tar, '5', "./", 0700, "");
    fixture_tar_put(tar, '5', "./bin/", 0755, "");
    fixture_tar_put(tar, '0', "./bin/sh", 04755, "shell");
    fixture_tar_put(tar, '1', "bin/ash", 0644, "./bin/sh");
    fixture_tar_put(tar, '2', "bin/bash", 0777, "/bin/sh");
    fixture_tar_put(tar, '3', "bin/device", 0666, "");
    fixture_tar_put(tar, '1', "bin/device2", 0666, "bin/device");
    fixture_tar_put(tar, '6', "bin/fifo", 0666, "");
    fixture_tar_put(tar, '0', "etc/deep/file", 0600, "x");
    fixture_tar_put(tar, '5', "tmp", 01777, "");
    fixture_tar_put(tar, '0', "etc/hosts", 0600, "");
    fixture_tar_put(tar, '2', "workspace", 0777, "/etc");
    fixture_tar_end(tar);
}

static void rootfs(void **state)
{
    (void)state;
    struct place p;
    _cleanup_buf_ struct buf tar;
    _cleanup_buf_ struct buf gzip;
    _cleanup_buf_ struct buf zstd;

    place_init(&p, NULL);
    small_rootfs(&tar);
    buf_init(&gzip, FIXTURE_TAR_MAX);
    buf_init(&zstd, FIXTURE_TAR_MAX);
    fixture_pack(&tar, false, &gzip);
    fixture_pack(&tar, true, &zstd);
    _cleanup_free_ char *plain = import_tar(&p, "base", &tar);
    _cleanup_free_ char *second = import_tar(&p, "base", &gzip);
    _cleanup_free_ char *third = import_tar(&p, "base", &zstd);
    assert_string_equal(plain, second);
    assert_string_equal(plain, third);
    _cleanup_free_ char *text = tree_of(&p, plain);
    assert_string_equal(text, "d 0755 bin\n"
                              "f 4755 bin/ash = shell\n"
                              "l 0777 bin/bash > /bin/sh\n"
                              "f 4755 bin/sh = shell\n"
                              "d 0755 dev\n"
                              "d 0755 etc\n"
                              "d 0755 etc/deep\n"
                              "f 0600 etc/deep/file = x\n"
                              "f 0644 etc/hosts = 127.0.0.1\tlocalhost\n::1\tlocalhost\n\n"
                              "d 0755 proc\n"
                              "d 1777 tmp\n"
                              "d 0755 workspace\n");
    assert_int_equal(count_new(&p), 0);
    place_done(&p);
}

static void holding(void **state)
{
    (void)state;
    struct place p;
    struct native_image image;
    struct native_image second;
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf tar;
    struct stat st;

    place_init(&p, NULL);
    small_rootfs(&tar);
    _cleanup_free_ char *reference = import_tar(&p, "base", &tar);
    assert_int_equal(native_image_acquire(p.images, reference, NULL, &image, &err), 0);
    assert_int_equal(native_image_acquire(p.images, reference, NULL, &second, &err), 0);
    assert_null(image.environment[0]);
    assert_non_null(strstr(image.digests, strchr(reference, '@') + 1));
    assert_int_equal(fstatat(image.root_fd, "bin/sh", &st, 0), 0);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(st.st_mtime, 1700000000);

    /* A copy of the descriptor holds it as well as the first one. */
    int copy = dup(second.lock_fd);
    native_image_release(&image);
    native_image_release(&second);
    assert_int_equal(native_images_remove(p.images, reference, &err), -1);
    assert_int_equal(err.code, ERROR_ID_IN_USE);
    /* Another process' store sees that too. */
    struct place other = p;
    open_store(&other, NULL);
    assert_int_equal(native_images_remove(other.images, reference, &err), -1);
    assert_int_equal(err.code, ERROR_ID_IN_USE);
    close(copy);
    assert_int_equal(native_images_remove(other.images, reference, &err), 0);
    native_images_close(other.images);

    /* What was remembered is no longer so. */
    assert_int_equal(native_images_check(p.images, reference, NULL, &err), -1);
    assert_int_equal(err.code, ERROR_IMAGE_NOT_FOUND);
    assert_int_equal(native_images_remove(p.images, reference, &err), -1);
    assert_int_equal(err.code, ERROR_IMAGE_NOT_FOUND);
    free(import_tar(&p, "base", &tar));
    assert_int_equal(native_images_check(p.images, reference, NULL, &err), 0);
    place_done(&p);
}

static void names(void **state)
{
    (void)state;
    struct place p;
    struct host_image_list list;
    struct host_image image;
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf tar;

    place_init(&p, NULL);
    small_rootfs(&tar);
    _cleanup_free_ char *first = import_tar(&p, "base", &tar);
    _cleanup_free_ char *second = import_tar(&p, "local/other:v1", &tar);
    assert_string_equal(strchr(first, '@'), strchr(second, '@'));
    assert_int_equal(native_images_list(p.images, &list, &err), 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].reference, first);
    assert_int_equal(list.items[0].size_bytes, 6);
    host_image_list_done(&list);
    assert_int_equal(native_images_pull(p.images, second, &image, &err), 0);
    assert_string_equal(image.reference, second);
    free(image.reference);
    free(image.digests);
    /* A name is needed, not a path or a reference. */
    static const char *const BAD[] = {"", "a b", "/x", "x@y", "../x"};
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        assert_int_equal(import(&p, BAD[i], &image, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    }
    assert_int_equal(native_images_check(p.images, "base", NULL, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    place_done(&p);
}

/* --- hostile archives --- */

static void refuse(const struct buf *tar, const struct native_images_limits *limits,
                   const char *detail)
{
    struct place p;
    struct host_image image;
    struct error err = ERROR_INIT;

    place_init(&p, limits);
    fixture_put(p.input, "file", tar);
    if (import(&p, "bad", &image, &err) == 0) {
        fail_msg("%s was imported, though it should say \"%s\"", image.reference, detail);
    }
    if (err.code != ERROR_INVALID_REQUEST || strstr(err.detail, detail) == NULL) {
        fail_msg("%s: \"%s\" should say \"%s\"", error_code_name(err.code), err.detail, detail);
    }
    assert_int_equal(count_new(&p), 0);
    place_done(&p);
}

static void hostile_names(void **state)
{
    (void)state;
    static const struct {
        char type;
        const char *name;
        const char *text;
        const char *detail;
    } rows[] = {
        {'0', "/etc/absolute", "x", "absolute"},
        {'0', ".//etc/absolute", "x", "absolute"},
        {'0', "../out", "x", "\"..\""},
        {'0', "etc/../../out", "x", "\"..\""},
        {'5', "etc/..", "", "\"..\""},
        {'0', "link/file", "x", "symbolic link"},
        {'5', "link/dir/", "", "symbolic link"},
        {'2', "link/other", "x", "symbolic link"},
        {'0', "out/file", "x", "symbolic link"},
        {'0', "link/.wh.file", "", "symbolic link"},
        {'0', "link/.wh..wh..opq", "", "symbolic link"},
        {'0', "etc/file/below", "x", "no directory"},
        {'0', "etc/.wh...", "", "nothing that could be removed"},
        {'0', "etc/.wh..", "", "nothing that could be removed"},
        {'0', ".wh.", "", "nothing that could be removed"},
        {'1', "etc/hard", "/etc/passwd", "absolute"},
        {'1', "etc/hard", "../passwd", "\"..\""},
        {'1', "etc/hard", "link/file", "symbolic link"},
        {'1', "etc/hard", "etc/missing", "hard link to no file"},
        {'1', "etc/hard", "etc/hard", "hard link to no file"},
        {'1', "etc/hard", "etc", "hard link to no file"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        _cleanup_buf_ struct buf tar;

        buf_init(&tar, FIXTURE_TAR_MAX);
        fixture_tar_put(&tar, '5', "etc/", 0755, "");
        fixture_tar_put(&tar, '0', "etc/file", 0644, "x");
        fixture_tar_put(&tar, '2', "link", 0777, "etc");
        fixture_tar_put(&tar, '2', "out", 0777, "../../../../..");
        fixture_tar_put(&tar, rows[i].type, rows[i].name, 0755, rows[i].text);
        fixture_tar_end(&tar);
        refuse(&tar, NULL, rows[i].detail);
    }
}

static void bombs(void **state)
{
    (void)state;
    static const struct native_images_limits limits = {.bytes = 64 * 1024, .entries = 16};
    _cleanup_buf_ struct buf large;
    _cleanup_buf_ struct buf packed;
    _cleanup_buf_ struct buf many;
    _cleanup_buf_ struct buf zeros;
    _cleanup_buf_ struct buf deep;
    char name[32];
    static char text[64 * 1024 + 2];

    buf_init(&large, FIXTURE_TAR_MAX);
    fixture_tar_put(&large, '5', "etc/", 0755, "");
    fixture_tar_claim(&large, "etc/file", 1LL << 32);
    refuse(&large, &limits, "Truncated");

    buf_reset(&large);
    memset(text, 'x', sizeof(text) - 1);
    fixture_tar_put(&large, '5', "etc/", 0755, "");
    fixture_tar_put(&large, '0', "etc/file", 0644, text);
    fixture_tar_end(&large);
    refuse(&large, &limits, "larger");

    buf_init(&many, FIXTURE_TAR_MAX);
    for (int i = 0; i < 17; i++) {
        (void)snprintf(name, sizeof(name), "etc/%d", i);
        fixture_tar_put(&many, '0', name, 0644, "");
    }
    fixture_tar_end(&many);
    refuse(&many, &limits, "more entries");

    /* A file that unpacks to a thousand times its size. */
    buf_init(&zeros, FIXTURE_TAR_MAX);
    buf_init(&packed, FIXTURE_TAR_MAX);
    memset(buf_reserve(&zeros, 4 << 20), 0, 4 << 20);
    zeros.len = 4 << 20;
    fixture_pack(&zeros, false, &packed);
    refuse(&packed, &limits, "larger");

    buf_init(&deep, FIXTURE_TAR_MAX);
    {
        struct buf path;

        buf_init(&path, 4096);
        for (int i = 0; i < 49; i++) {
            assert_int_equal(buf_add_str(&path, "a/"), 0);
        }
        fixture_tar_put(&deep, '5', buf_str(&path), 0755, "");
        buf_done(&path);
    }
    fixture_tar_put(&deep, '5', "etc/", 0755, "");
    fixture_tar_end(&deep);
    struct place p;
    place_init(&p, NULL);
    free(import_tar(&p, "deep", &deep));
    place_done(&p);
}

static void no_archives(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf text;
    struct place p;
    struct host_image image;
    struct error err = ERROR_INIT;

    buf_init(&text, FIXTURE_TAR_MAX);
    assert_int_equal(buf_add_str(&text, "this is no archive, whatever else it may be\n"), 0);
    refuse(&text, NULL, "no tar archive");
    buf_reset(&text);
    refuse(&text, NULL, "no tar archive");
    assert_int_equal(buf_add(&text, "\x1f\x8bgarbage", 9), 0);
    refuse(&text, NULL, "the compressed data is broken");
    place_init(&p, NULL);
    assert_int_equal(native_images_import(p.images, "x", "/nonexistent/file", &image, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_int_equal(native_images_import(p.images, "x", "/dev/null", &image, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_int_equal(native_images_import(p.images, "x", p.input, &image, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    place_done(&p);
}

/* --- starts, crashes, threads --- */

static void sweeping(void **state)
{
    (void)state;
    struct place p;
    struct error err = ERROR_INIT;
    char path[160];

    place_init(&p, NULL);
    (void)snprintf(path, sizeof(path), "%s/new/left/root/etc", p.store);
    assert_int_equal(dir_make(path, 0700, &err), 0);
    (void)snprintf(path, sizeof(path), "%s/new/busy/root", p.store);
    assert_int_equal(dir_make(path, 0700, &err), 0);
    (void)snprintf(path, sizeof(path), "%s/new/busy", p.store);
    int busy = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(busy, LOCK_EX), 0);
    native_images_close(p.images);
    open_store(&p, NULL);
    assert_int_equal(count_new(&p), 2);
    close(busy);
    native_images_close(p.images);
    open_store(&p, NULL);
    assert_int_equal(count_new(&p), 0);
    place_done(&p);
}

enum { ROUNDS = 30 };

static void *import_again(void *arg)
{
    struct place *p = arg;

    for (int i = 0; i < ROUNDS; i++) {
        struct host_image image;
        struct error err = ERROR_INIT;

        if (import(p, "base", &image, &err) != 0) {
            return strdup(err.detail);
        }
        free(image.reference);
        free(image.digests);
    }
    return NULL;
}

struct use {
    struct place *p;
    const char *reference;
    bool remove;
};

/* What can be held is whole, whoever imports and removes beside. */
static void *use_again(void *arg)
{
    const struct use *use = arg;

    for (int i = 0; i < 4 * ROUNDS; i++) {
        struct native_image image;
        struct error err = ERROR_INIT;
        struct stat st;

        if (use->remove) {
            if (native_images_remove(use->p->images, use->reference, &err) != 0 &&
                err.code != ERROR_ID_IN_USE && err.code != ERROR_IMAGE_NOT_FOUND) {
                return strdup(err.detail);
            }
            continue;
        }
        if (native_image_acquire(use->p->images, use->reference, NULL, &image, &err) != 0) {
            if (err.code != ERROR_IMAGE_NOT_FOUND) {
                return strdup(err.detail);
            }
            continue;
        }
        if (fstatat(image.root_fd, "etc/deep/file", &st, 0) != 0 || st.st_size != 1) {
            return strdup("the image is torn");
        }
        native_image_release(&image);
    }
    return NULL;
}

static void beside_each_other(void **state)
{
    (void)state;
    struct place p;
    struct place other;
    pthread_t threads[5];
    _cleanup_buf_ struct buf tar;

    place_init(&p, NULL);
    small_rootfs(&tar);
    _cleanup_free_ char *reference = import_tar(&p, "base", &tar);
    other = p;
    open_store(&other, NULL);
    struct use uses[] = {{&p, reference, false}, {&other, reference, false}, {&p, reference, true}};
    assert_int_equal(pthread_create(&threads[0], NULL, import_again, &p), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, import_again, &other), 0);
    for (size_t i = 0; i < ARRAY_SIZE(uses); i++) {
        assert_int_equal(pthread_create(&threads[2 + i], NULL, use_again, &uses[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        void *fault = NULL;

        pthread_join(threads[i], &fault);
        if (fault != NULL) {
            fail_msg("%s", (char *)fault);
        }
    }
    assert_int_equal(count_new(&p), 0);
    native_images_close(other.images);
    place_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rootfs),   cmocka_unit_test(holding),
        cmocka_unit_test(names),    cmocka_unit_test(hostile_names),
        cmocka_unit_test(bombs),    cmocka_unit_test(no_archives),
        cmocka_unit_test(sweeping), cmocka_unit_test(beside_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
