#include "native_fixture.h"

#include "base/file.h"
#include "host/native/images_internal.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { BLOCK = 512, NAME_SIZE = 100 };

static void put_header(struct buf *tar, char type, const char *name, unsigned mode,
                       const char *link, long long size)
{
    char header[BLOCK] = {0};
    unsigned sum = 0;

    assert_true(strlen(name) <= NAME_SIZE && strlen(link) <= NAME_SIZE);
    memcpy(header, name, strlen(name));
    (void)snprintf(header + 100, 8, "%07o", mode);
    (void)snprintf(header + 108, 8, "%07o", 1000U);
    (void)snprintf(header + 116, 8, "%07o", 1000U);
    (void)snprintf(header + 124, 12, "%011llo", size);
    (void)snprintf(header + 136, 12, "%011o", 1700000000U);
    memset(header + 148, ' ', 8);
    header[156] = type;
    memcpy(header + 157, link, strlen(link));
    memcpy(header + 257, "ustar", 6);
    memcpy(header + 263, "00", 2);
    for (int i = 0; i < BLOCK; i++) {
        sum += (unsigned char)header[i];
    }
    (void)snprintf(header + 148, 8, "%06o", sum);
    assert_int_equal(buf_add(tar, header, BLOCK), 0);
}

void fixture_tar_put(struct buf *tar, char type, const char *name, unsigned mode, const char *text)
{
    static const char ZEROS[BLOCK] = {0};
    bool file = type == '0';
    size_t len = file ? strlen(text) : 0;

    put_header(tar, type, name, mode, file ? "" : text, (long long)len);
    assert_int_equal(buf_add(tar, text, len), 0);
    assert_int_equal(buf_add(tar, ZEROS, (BLOCK - len % BLOCK) % BLOCK), 0);
}

void fixture_tar_claim(struct buf *tar, const char *name, long long size)
{
    put_header(tar, '0', name, 0644, "", size);
}

void fixture_tar_end(struct buf *tar)
{
    static const char ZEROS[2 * BLOCK] = {0};

    assert_int_equal(buf_add(tar, ZEROS, sizeof(ZEROS)), 0);
}

void fixture_digest(const struct buf *data, char out[DIGEST_TEXT_SIZE])
{
    native_image_digest(data, out);
}

void fixture_put(const char *dir, const char *name, const struct buf *data)
{
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf path;

    buf_init(&path, 4096);
    assert_int_equal(buf_addf(&path, "%s/%s", dir, name), 0);
    if (file_write_atomic(buf_str(&path), buf_str(data), data->len, 0644, &err) != 0) {
        fail_msg("%s", err.detail);
    }
}

static la_ssize_t write_packed(struct archive *a, void *ctx, const void *data, size_t len)
{
    (void)a;
    return buf_add(ctx, data, len) == 0 ? (la_ssize_t)len : -1;
}

void fixture_pack(const struct buf *data, bool zstd, struct buf *out)
{
    struct archive *a = archive_write_new();
    struct archive_entry *entry = archive_entry_new();

    archive_write_set_format_raw(a);
    if (zstd) {
        archive_write_add_filter_zstd(a);
    } else {
        archive_write_add_filter_gzip(a);
    }
    archive_write_set_bytes_per_block(a, 0);
    archive_entry_set_filetype(entry, AE_IFREG);
    assert_int_equal(archive_write_open(a, out, NULL, write_packed, NULL), ARCHIVE_OK);
    assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
    assert_int_equal(archive_write_data(a, data->data, data->len), data->len);
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
    archive_entry_free(entry);
}

/* --- images --- */

static void make_config(struct fixture_image *image, struct buf *config)
{
    const char *architecture =
        image->architecture != NULL ? image->architecture : native_image_machine();

    assert_int_equal(buf_addf(config,
                              "{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":%s,"
                              "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[",
                              architecture, image->run),
                     0);
    for (size_t i = 0; i < image->layer_count; i++) {
        char digest[DIGEST_TEXT_SIZE];

        fixture_digest(image->layers[i], digest);
        assert_int_equal(buf_addf(config, "%s\"%s\"", i > 0 ? "," : "", digest), 0);
    }
    assert_int_equal(buf_add_str(config, "]}}"), 0);
    fixture_digest(config, image->id);
}

static void put_blob(const char *dir, const char *digest, const struct buf *data)
{
    char name[128];

    (void)snprintf(name, sizeof(name), "blobs/sha256/%s", strchr(digest, ':') + 1);
    fixture_put(dir, name, data);
}

static void make_directories(const char *dir)
{
    struct error err = ERROR_INIT;
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/blobs/sha256", dir);
    assert_int_equal(dir_make(path, 0755, &err), 0);
}

void fixture_layout_make(const char *dir, struct fixture_image *image)
{
    _cleanup_buf_ struct buf config;
    _cleanup_buf_ struct buf manifest;
    _cleanup_buf_ struct buf text;

    buf_init(&config, FIXTURE_TAR_MAX);
    buf_init(&manifest, FIXTURE_TAR_MAX);
    buf_init(&text, FIXTURE_TAR_MAX);
    make_directories(dir);
    make_config(image, &config);
    put_blob(dir, image->id, &config);
    assert_int_equal(buf_addf(&manifest,
                              "{\"schemaVersion\":2,\"config\":{\"digest\":\"%s\",\"size\":%zu},"
                              "\"layers\":[",
                              image->id, config.len),
                     0);
    for (size_t i = 0; i < image->layer_count; i++) {
        _cleanup_buf_ struct buf packed;

        buf_init(&packed, FIXTURE_TAR_MAX);
        fixture_pack(image->layers[i], i % 2 == 1, &packed);
        fixture_digest(&packed, image->layer_digest[i]);
        put_blob(dir, image->layer_digest[i], &packed);
        assert_int_equal(buf_addf(&manifest, "%s{\"digest\":\"%s\",\"size\":%zu}", i > 0 ? "," : "",
                                  image->layer_digest[i], packed.len),
                         0);
    }
    assert_int_equal(buf_add_str(&manifest, "]}"), 0);
    fixture_digest(&manifest, image->manifest);
    put_blob(dir, image->manifest, &manifest);
    assert_int_equal(buf_addf(&text,
                              "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"%s\",\"size\":"
                              "%zu}]}",
                              image->manifest, manifest.len),
                     0);
    fixture_put(dir, "index.json", &text);
    buf_reset(&text);
    assert_int_equal(buf_add_str(&text, "{\"imageLayoutVersion\":\"1.0.0\"}"), 0);
    fixture_put(dir, "oci-layout", &text);
}

static void put_member(struct buf *tar, const char *name, const struct buf *data)
{
    static const char ZEROS[BLOCK] = {0};

    put_header(tar, '0', name, 0644, "", (long long)data->len);
    assert_int_equal(buf_add(tar, data->data, data->len), 0);
    assert_int_equal(buf_add(tar, ZEROS, (BLOCK - data->len % BLOCK) % BLOCK), 0);
}

void fixture_saved_make(struct buf *tar, struct fixture_image *image)
{
    _cleanup_buf_ struct buf config;
    _cleanup_buf_ struct buf manifest;
    char name[NAME_SIZE];

    buf_init(&config, FIXTURE_TAR_MAX);
    buf_init(&manifest, FIXTURE_TAR_MAX);
    make_config(image, &config);
    (void)snprintf(name, sizeof(name), "%s.json", strchr(image->id, ':') + 1);
    put_member(tar, name, &config);
    assert_int_equal(
        buf_addf(&manifest, "[{\"Config\":\"%s\",\"RepoTags\":[\"x:y\"],\"Layers\":[", name), 0);
    for (size_t i = 0; i < image->layer_count; i++) {
        (void)snprintf(name, sizeof(name), "%zu/layer.tar", i);
        put_member(tar, name, image->layers[i]);
        /* What is there already comes as a link. */
        (void)snprintf(name, sizeof(name), "%zu-link/layer.tar", i);
        {
            char target[NAME_SIZE];

            (void)snprintf(target, sizeof(target), "../%zu/layer.tar", i);
            fixture_tar_put(tar, '2', name, 0777, target);
        }
        assert_int_equal(buf_addf(&manifest, "%s\"%s\"", i > 0 ? "," : "", name), 0);
    }
    assert_int_equal(buf_add_str(&manifest, "]}]"), 0);
    put_member(tar, "manifest.json", &manifest);
    fixture_tar_end(tar);
}

/* --- trees --- */

enum { LINES_MAX = 256 };

static struct {
    char *lines[LINES_MAX];
    size_t count;
    size_t skip;
} walk;

static int describe(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    char *line = NULL;
    char target[256] = "";
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf text;

    (void)flag;
    (void)ftw;
    buf_init(&text, 4096);
    if (path[walk.skip] == '\0') {
        return 0;
    }
    if (S_ISLNK(st->st_mode)) {
        assert_true(readlink(path, target, sizeof(target) - 1) > 0);
    } else if (S_ISREG(st->st_mode)) {
        assert_int_equal(file_read(path, &text, &err), 0);
    }
    assert_true(asprintf(&line, "%c %04o %s%s%s%s%s\n",
                         S_ISLNK(st->st_mode)   ? 'l'
                         : S_ISDIR(st->st_mode) ? 'd'
                         : S_ISREG(st->st_mode) ? 'f'
                                                : '?',
                         (unsigned)st->st_mode & 07777, path + walk.skip + 1,
                         target[0] != '\0' ? " > " : "", target, text.len > 0 ? " = " : "",
                         buf_str(&text)) > 0);
    assert_true(walk.count < LINES_MAX);
    walk.lines[walk.count++] = line;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a + 7, *(char *const *)b + 7);
}

char *fixture_tree_text(const char *dir)
{
    struct buf text;

    buf_init(&text, 1024 * 1024);
    walk.count = 0;
    walk.skip = strlen(dir);
    assert_int_equal(nftw(dir, describe, 16, FTW_PHYS), 0);
    qsort(walk.lines, walk.count, sizeof(walk.lines[0]), by_name);
    for (size_t i = 0; i < walk.count; i++) {
        assert_int_equal(buf_add_str(&text, walk.lines[i]), 0);
        free(walk.lines[i]);
    }
    return buf_take(&text, NULL);
}
