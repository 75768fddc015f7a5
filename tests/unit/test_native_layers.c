/* Images of several layers, from layouts and archives: what lies over what, and what each digest is
 * held to. */
#include "native_fixture.h"
#include "workspace_fixture.h"

#include "base/file.h"
#include "host/native/images_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char RUN[] = "{\"Env\":[\"PATH=/bin\",\"A=b=c\",\"NOVALUE\"],\"User\":\"1000\","
                          "\"WorkingDir\":\"/x\",\"Entrypoint\":[\"/bin/false\"]}";

struct place {
    char dir[64];
    char store[96];
    char input[96];
    struct native_images *images;
};

static void place_init(struct place *p)
{
    struct error err = ERROR_INIT;

    fixture_directory_make(p->dir);
    (void)snprintf(p->store, sizeof(p->store), "%s/store", p->dir);
    (void)snprintf(p->input, sizeof(p->input), "%s/input", p->dir);
    assert_int_equal(dir_make(p->input, 0755, &err), 0);
    assert_int_equal(
        native_images_open(&(struct native_images_config){.directory = p->store}, &p->images, &err),
        0);
}

static void place_done(struct place *p)
{
    native_images_close(p->images);
    fixture_directory_remove(p->dir);
}

static char *import(struct place *p, const char *file)
{
    struct host_image image = {0};
    struct error err = ERROR_INIT;

    if (native_images_import(p->images, "layered", file, &image, &err) != 0) {
        fail_msg("%s", err.detail);
    }
    free(image.digests);
    return image.reference;
}

static void import_refused(struct place *p, const char *file, const char *detail)
{
    struct host_image image;
    struct error err = ERROR_INIT;
    struct host_image_list list;

    assert_int_equal(native_images_import(p->images, "layered", file, &image, &err), -1);
    if (err.code != ERROR_INVALID_REQUEST || strstr(err.detail, detail) == NULL) {
        fail_msg("%s: \"%s\" should say \"%s\"", error_code_name(err.code), err.detail, detail);
    }
    assert_int_equal(native_images_list(p->images, &list, &err), 0);
    assert_int_equal(list.count, 0);
    host_image_list_done(&list);
}

static void acquire(struct place *p, const char *reference, struct native_image *image)
{
    struct error err = ERROR_INIT;

    if (native_image_acquire(p->images, reference, NULL, image, &err) != 0) {
        fail_msg("%s", err.detail);
    }
}

static void lower(struct buf *tar)
{
    buf_init(tar, FIXTURE_TAR_MAX);
    fixture_tar_put(tar, '5', "a/", 0755, "");
    fixture_tar_put(tar, '0', "a/gone", 0644, "1");
    fixture_tar_put(tar, '0', "a/kept", 0644, "1");
    fixture_tar_put(tar, '0', "a/changed", 0644, "1");
    fixture_tar_put(tar, '1', "a/hard", 0644, "a/changed");
    fixture_tar_put(tar, '0', "opaque/sub/lower", 0644, "1");
    fixture_tar_put(tar, '0', "opaque/both", 0644, "1");
    fixture_tar_put(tar, '0', "late/lower", 0644, "1");
    fixture_tar_put(tar, '0', "late/sub/lower", 0644, "1");
    fixture_tar_put(tar, '0', "directory/file", 0644, "1");
    fixture_tar_put(tar, '0', "file", 0644, "1");
    fixture_tar_put(tar, '2', "link", 0777, "a");
    fixture_tar_put(tar, '5', "mode/", 0755, "");
    fixture_tar_put(tar, '0', "mode/stays", 0644, "1");
    fixture_tar_put(tar, '0', "tree/x/y/z", 0644, "1");
    fixture_tar_end(tar);
}

static void upper(struct buf *tar)
{
    buf_init(tar, FIXTURE_TAR_MAX);
    fixture_tar_put(tar, '0', "a/.wh.gone", 0, "");
    fixture_tar_put(tar, '0', "a/.wh.never-was", 0, "");
    fixture_tar_put(tar, '0', "never/.wh.was", 0, "");
    fixture_tar_put(tar, '0', "a/changed", 0755, "2");
    /* The mark of an opaque directory before what is in it, and behind. */
    fixture_tar_put(tar, '0', "opaque/.wh..wh..opq", 0, "");
    fixture_tar_put(tar, '0', "opaque/both", 0644, "2");
    fixture_tar_put(tar, '0', "late/sub/upper", 0644, "2");
    fixture_tar_put(tar, '0', "late/.wh..wh..opq", 0, "");
    /* One kind in the place of another. */
    fixture_tar_put(tar, '0', "directory", 0644, "2");
    fixture_tar_put(tar, '5', "file/", 0700, "");
    fixture_tar_put(tar, '5', "link/", 0755, "");
    fixture_tar_put(tar, '0', "link/inside", 0644, "2");
    fixture_tar_put(tar, '5', "mode/", 01777, "");
    fixture_tar_put(tar, '0', ".wh.tree", 0, "");
    fixture_tar_put(tar, '0', ".wh..wh.aufs", 0, "");
    fixture_tar_end(tar);
}

static const char MERGED[] = "d 0755 a\n"
                             "f 0755 a/changed = 2\n"
                             "f 0644 a/hard = 1\n"
                             "f 0644 a/kept = 1\n"
                             "d 0755 dev\n"
                             "f 0644 directory = 2\n"
                             "d 0755 etc\n"
                             "f 0644 etc/hosts = 127.0.0.1\tlocalhost\n::1\tlocalhost\n\n"
                             "d 0700 file\n"
                             "d 0755 late\n"
                             "d 0755 late/sub\n"
                             "f 0644 late/sub/upper = 2\n"
                             "d 0755 link\n"
                             "f 0644 link/inside = 2\n"
                             "d 1777 mode\n"
                             "f 0644 mode/stays = 1\n"
                             "d 0755 opaque\n"
                             "f 0644 opaque/both = 2\n"
                             "d 0755 proc\n"
                             "d 0755 tmp\n"
                             "d 0755 workspace\n";

static void check_merged(struct place *p, const char *reference)
{
    struct native_image image;

    acquire(p, reference, &image);
    _cleanup_free_ char *text = fixture_tree_text(image.root_path);
    assert_string_equal(text, MERGED);
    assert_string_equal(image.environment[0], "PATH=/bin");
    assert_string_equal(image.environment[1], "A=b=c");
    assert_null(image.environment[2]);
    native_image_release(&image);
}

static void layout(void **state)
{
    (void)state;
    struct place p;
    struct buf layers[2];
    char text[DIGEST_TEXT_SIZE + 16];
    struct fixture_image made = {.layers = {&layers[0], &layers[1]}, .layer_count = 2, .run = RUN};

    place_init(&p);
    lower(&layers[0]);
    upper(&layers[1]);
    fixture_layout_make(p.input, &made);
    _cleanup_free_ char *reference = import(&p, p.input);
    assert_string_equal(strchr(reference, '@') + 1, made.id);
    check_merged(&p, reference);
    /* The manifest's digest names it as well. */
    (void)snprintf(text, sizeof(text), "layered@%s", made.manifest);
    check_merged(&p, text);

    /* The same image as an archive has the same id, and is known already. */
    struct buf tar;
    buf_init(&tar, FIXTURE_TAR_MAX);
    fixture_saved_make(&tar, &made);
    fixture_put(p.dir, "saved.tar", &tar);
    char file[128];
    (void)snprintf(file, sizeof(file), "%s/saved.tar", p.dir);
    _cleanup_free_ char *second = import(&p, file);
    assert_string_equal(reference, second);
    place_done(&p);
    place_init(&p);
    fixture_put(p.dir, "saved.tar", &tar);
    (void)snprintf(file, sizeof(file), "%s/saved.tar", p.dir);
    _cleanup_free_ char *third = import(&p, file);
    assert_string_equal(reference, third);
    check_merged(&p, reference);
    place_done(&p);
    buf_done(&tar);
    buf_done(&layers[0]);
    buf_done(&layers[1]);
}

/* --- what a digest is held to --- */

static void layout_refused(void (*damage)(struct place *p, struct fixture_image *made),
                           const char *detail)
{
    struct place p;
    struct buf layer;
    struct fixture_image made = {.layers = {&layer}, .layer_count = 1, .run = RUN};

    place_init(&p);
    lower(&layer);
    fixture_layout_make(p.input, &made);
    damage(&p, &made);
    import_refused(&p, p.input, detail);
    place_done(&p);
    buf_done(&layer);
}

static void put_over(struct place *p, const char *digest, const struct buf *data)
{
    char name[128];

    (void)snprintf(name, sizeof(name), "blobs/sha256/%s", strchr(digest, ':') + 1);
    fixture_put(p->input, name, data);
}

static void damage_layer(struct place *p, struct fixture_image *made)
{
    struct buf layer;
    struct buf packed;

    upper(&layer);
    buf_init(&packed, FIXTURE_TAR_MAX);
    fixture_pack(&layer, false, &packed);
    put_over(p, made->layer_digest[0], &packed);
    buf_done(&layer);
    buf_done(&packed);
}

static void damage_config(struct place *p, struct fixture_image *made)
{
    struct buf text;

    buf_init(&text, 1024);
    assert_int_equal(buf_add_str(&text, "{\"rootfs\":{\"diff_ids\":[]}}"), 0);
    put_over(p, made->id, &text);
    buf_done(&text);
}

static void lose_layer(struct place *p, struct fixture_image *made)
{
    char name[256];

    (void)snprintf(name, sizeof(name), "%s/blobs/sha256/%s", p->input,
                   strchr(made->layer_digest[0], ':') + 1);
    assert_int_equal(unlink(name), 0);
}

/* What lies in the layout's place of a blob is no way out of the layout. */
static void lead_out(struct place *p, struct fixture_image *made)
{
    char name[256];

    lose_layer(p, made);
    (void)snprintf(name, sizeof(name), "%s/blobs/sha256/%s", p->input,
                   strchr(made->layer_digest[0], ':') + 1);
    assert_int_equal(symlink("/etc/passwd", name), 0);
}

static void digests(void **state)
{
    (void)state;
    layout_refused(damage_layer, "a layer is not what its digest says");
    layout_refused(damage_config, "not what its digest says");
    layout_refused(lose_layer, "lacks blobs/sha256/");
    layout_refused(lead_out, "blobs/sha256/");
}

/* A layer whose own digest is right, but not that of its content. */
static void content_digest(void **state)
{
    (void)state;
    struct place p;
    struct buf layer;
    struct buf other;
    struct fixture_image made = {.layers = {&layer}, .layer_count = 1, .run = RUN};
    struct fixture_image right = {.layers = {&other}, .layer_count = 1, .run = RUN};
    _cleanup_buf_ struct buf tar;
    char file[128];
    char *at;

    place_init(&p);
    lower(&layer);
    upper(&other);
    buf_init(&tar, FIXTURE_TAR_MAX);
    fixture_saved_make(&tar, &made);
    /* The first content has the letter 1, and its tar another digest then. */
    at = memmem(tar.data, tar.len, "a/gone", 6);
    assert_non_null(at);
    at[512] = '3';
    fixture_put(p.dir, "saved.tar", &tar);
    (void)snprintf(file, sizeof(file), "%s/saved.tar", p.dir);
    import_refused(&p, file, "a layer's content is not what its digest says");
    fixture_layout_make(p.input, &right);
    free(import(&p, p.input));
    place_done(&p);
    buf_done(&layer);
    buf_done(&other);
}

/* --- fitness --- */

static void fitness(void **state)
{
    (void)state;
    static const struct {
        const char *run;
        const char *architecture;
        enum error_code code;
        const char *detail;
    } rows[] = {
        {"{\"Env\":[\"API_TOKEN=x\"]}", NULL, ERROR_CREDENTIAL, "API_TOKEN"},
        {"{\"Env\":[\"DB_PASSWD\"]}", NULL, ERROR_CREDENTIAL, "DB_PASSWD"},
        {"{\"Volumes\":{\"/data\":{}}}", NULL, ERROR_INVALID_REQUEST, "volume"},
        {"{}", "mips", ERROR_INVALID_REQUEST, "another kind of machine"},
        {"{\"Volumes\":{},\"Env\":null}", NULL, ERROR_NONE, ""},
        {"null", NULL, ERROR_NONE, ""},
    };
    struct buf layer;

    lower(&layer);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct place p;
        struct error err = ERROR_INIT;
        struct fixture_image made = {.layers = {&layer},
                                     .layer_count = 1,
                                     .run = rows[i].run,
                                     .architecture = rows[i].architecture};

        place_init(&p);
        fixture_layout_make(p.input, &made);
        _cleanup_free_ char *reference = import(&p, p.input);
        assert_int_equal(native_images_check(p.images, reference, NULL, &err),
                         rows[i].code == ERROR_NONE ? 0 : -1);
        assert_int_equal(err.code, rows[i].code);
        assert_non_null(strstr(err.detail, rows[i].detail));
        if (rows[i].code != ERROR_NONE) {
            assert_string_equal(err.field, "/image");
            assert_int_equal(err.phase, PHASE_VALIDATE);
        }
        place_done(&p);
    }
    buf_done(&layer);
}

/* --- documents --- */

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define BLOB "{\"digest\":\"sha256:" HEX "\",\"size\":7}"

static void manifests(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *detail;
    } rows[] = {
        {"[]", "schemaVersion"},
        {"{\"schemaVersion\":1}", "schemaVersion"},
        {"{\"schemaVersion\":2,\"config\":{}}", "digest"},
        {"{\"schemaVersion\":2,\"config\":{\"digest\":\"sha512:" HEX "\",\"size\":1}}", "digest"},
        {"{\"schemaVersion\":2,\"config\":{\"digest\":\"sha256:" HEX "\"}}", "size"},
        {"{\"schemaVersion\":2,\"config\":{\"digest\":\"sha256:" HEX "\",\"size\":-1}}", "size"},
        {"{\"schemaVersion\":2,\"config\":" BLOB ",\"layers\":[]}", "layers"},
        {"{\"schemaVersion\":2,\"config\":" BLOB ",\"layers\":[{}]}", "digest"},
        {"{\"schemaVersion\":2,\"schemaVersion\":2}", "duplicate"},
        {"", "expected"},
    };
    struct native_image_manifest m;
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(native_image_manifest_decode(rows[i].text, strlen(rows[i].text), &m, &err),
                         -1);
        assert_int_equal(err.code, ERROR_INVALID_REQUEST);
        if (strstr(err.detail, rows[i].detail) == NULL) {
            fail_msg("\"%s\" should say \"%s\"", err.detail, rows[i].detail);
        }
    }
    static const char GOOD[] =
        "{\"schemaVersion\":2,\"extra\":1,\"config\":" BLOB ",\"layers\":[" BLOB "]}";
    assert_int_equal(native_image_manifest_decode(GOOD, strlen(GOOD), &m, &err), 0);
    assert_int_equal(m.layer_count, 1);
    assert_string_equal(m.layers[0].digest, "sha256:" HEX);
    assert_int_equal(m.layers[0].size, 7);
    native_image_manifest_done(&m);
    static const char TWO[] = "[{\"Config\":\"a\",\"Layers\":[\"b\"]},{}]";
    assert_int_equal(native_image_manifest_decode_saved(TWO, strlen(TWO), &m, &err), -1);
}

#define FOR(os, digit)                                                                             \
    "{\"digest\":\"sha256:" digit                                                                  \
    "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"size\":1,"                \
    "\"platform\":{\"os\":\"" os "\",\"architecture\":\"HERE\"}}"

/* Each "HERE" in the text stands for `arch`. */
static int choose(const char *text, const char *arch, struct native_image_blob *out)
{
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf filled;
    const char *mark;

    buf_init(&filled, 4096);
    while ((mark = strstr(text, "HERE")) != NULL) {
        assert_int_equal(buf_add(&filled, text, (size_t)(mark - text)), 0);
        assert_int_equal(buf_add_str(&filled, arch), 0);
        text = mark + 4;
    }
    assert_int_equal(buf_add_str(&filled, text), 0);
    return native_image_index_choose(buf_str(&filled), filled.len, out, &err);
}

static void indexes(void **state)
{
    (void)state;
    struct native_image_blob blob = {0};
    const char *here = native_image_machine();

    assert_int_equal(choose("{\"manifests\":[" FOR("windows", "1") "," FOR("linux", "2") "," FOR(
                                "unknown", "3") "]}",
                            here, &blob),
                     1);
    assert_int_equal(blob.digest[7], '2');
    assert_int_equal(
        choose("{\"manifests\":[" FOR("linux", "1") "," FOR("linux", "2") "]}", here, &blob), -1);
    assert_int_equal(choose("{\"manifests\":[" FOR("linux", "1") "]}", "mips", &blob), -1);
    assert_int_equal(choose("{\"manifests\":[]}", here, &blob), -1);
    assert_int_equal(choose("{\"layers\":[]}", here, &blob), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),  cmocka_unit_test(digests),   cmocka_unit_test(content_digest),
        cmocka_unit_test(fitness), cmocka_unit_test(manifests), cmocka_unit_test(indexes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
