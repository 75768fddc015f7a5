/* A checkpoint in one file: what the writer makes the reader finds, and nothing else passes. */
#include "workspace/bundle.h"

#include "base/child.h"
#include "base/clock.h"
#include "workspace/manifest.h"
#include "workspace_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BLOCK = WORKSPACE_BUNDLE_BLOCK, TEXT_MAX = 1 << 20, AT_MS = 1764428400123 / 1000 };

static const char *const CONTENT[] = {"{\"version\":1}", "list", "an archive"};

static void put_part(struct buf *out, enum workspace_bundle_part part,
                     enum workspace_compression compression)
{
    int64_t size = (int64_t)strlen(CONTENT[part]);
    assert_int_equal(workspace_bundle_put_head(out, part, compression, size, AT_MS * 1000LL), 0);
    assert_int_equal(buf_add_str(out, CONTENT[part]), 0);
    assert_int_equal(workspace_bundle_put_tail(out, part, size), 0);
}

static void put_bundle(struct buf *out, enum workspace_compression compression)
{
    buf_init(out, TEXT_MAX);
    for (int part = 0; part < WORKSPACE_BUNDLE_PARTS; part++) {
        put_part(out, (enum workspace_bundle_part)part, compression);
    }
}

static int find(const struct buf *text, struct workspace_bundle *out, struct error *err)
{
    _cleanup_close_ int fd = fixture_temporary();
    assert_int_equal(write(fd, text->data, text->len), text->len);
    return workspace_bundle_find(fd, (int64_t)text->len, out, err);
}

static void round_trip(void **state)
{
    (void)state;
    for (int compression = WORKSPACE_COMPRESSION_NONE; compression <= WORKSPACE_COMPRESSION_ZSTD;
         compression++) {
        _cleanup_buf_ struct buf text;
        struct workspace_bundle found;
        struct error err = ERROR_INIT;
        put_bundle(&text, (enum workspace_compression)compression);
        if (find(&text, &found, &err) != 0) {
            fail_msg("%s", err.detail);
        }
        assert_int_equal(found.compression, compression);
        for (int part = 0; part < WORKSPACE_BUNDLE_PARTS; part++) {
            const struct workspace_bundle_member *m = &found.members[part];
            assert_int_equal(m->size, strlen(CONTENT[part]));
            assert_memory_equal(text.data + m->offset, CONTENT[part], (size_t)m->size);
        }
    }
}

/* tar itself must read what we send. */
static void other_readers(void **state)
{
    (void)state;
    char dir[64];
    char path[96];
    _cleanup_buf_ struct buf text;
    _cleanup_buf_ struct buf listed;
    _cleanup_buf_ struct buf diag;
    struct error err = ERROR_INIT;
    fixture_directory_make(dir);
    put_bundle(&text, WORKSPACE_COMPRESSION_ZSTD);
    fixture_file_put(dir, "export.tar", text.data, text.len);
    snprintf(path, sizeof(path), "%s/export.tar", dir);
    buf_init(&listed, TEXT_MAX);
    buf_init(&diag, TEXT_MAX);
    const char *const argv[] = {"tar", "--numeric-owner", "--utc", "-tvf", path, NULL};
    const char *const envp[] = {NULL};
    struct child_run run = {
        .spec = {.argv = argv, .envp = envp},
        .deadline_mono_ms = clock_mono_ms() + 30000,
        .out = &listed,
        .diag = &diag,
    };
    assert_int_equal(child_run(&run, &err), 0);
    assert_int_equal(run.status, 0);
    assert_string_equal(buf_str(&listed),
                        "-rw------- 0/0              13 2025-11-29 15:00 manifest.json\n"
                        "-rw------- 0/0               4 2025-11-29 15:00 files.jsonl.zst\n"
                        "-rw------- 0/0              10 2025-11-29 15:00 workspace.tar.zst\n");
    fixture_directory_remove(dir);
}

/* Members of 8 GiB and more say their size in a pax header. */
static void large_member(void **state)
{
    (void)state;
    static const int64_t size = 9LL << 30;
    _cleanup_buf_ struct buf head;
    _cleanup_buf_ struct buf tail;
    _cleanup_close_ int fd = fixture_temporary();
    struct workspace_bundle found;
    struct error err = ERROR_INIT;
    put_bundle(&head, WORKSPACE_COMPRESSION_NONE);
    head.len = 4 * (size_t)BLOCK; /* keeps the first two members */
    buf_init(&tail, TEXT_MAX);
    assert_int_equal(workspace_bundle_put_head(&head, WORKSPACE_BUNDLE_ARCHIVE,
                                               WORKSPACE_COMPRESSION_NONE, size, 0),
                     0);
    assert_int_equal(workspace_bundle_put_tail(&tail, WORKSPACE_BUNDLE_ARCHIVE, size), 0);
    int64_t total = (int64_t)head.len + size + (int64_t)tail.len;
    assert_int_equal(write(fd, head.data, head.len), head.len);
    assert_int_equal(ftruncate(fd, total), 0);
    if (workspace_bundle_find(fd, total, &found, &err) != 0) {
        fail_msg("%s", err.detail);
    }
    assert_int_equal(found.members[WORKSPACE_BUNDLE_ARCHIVE].size, size);
    assert_int_equal(found.members[WORKSPACE_BUNDLE_ARCHIVE].offset, head.len);
    assert_int_equal(workspace_bundle_find(fd, total - BLOCK, &found, &err), -1);
}

/* --- what is refused --- */

static void refused(const struct buf *text, const char *detail)
{
    struct workspace_bundle found;
    struct error err = ERROR_INIT;
    assert_int_equal(find(text, &found, &err), -1);
    assert_int_equal(err.code, ERROR_CHECKPOINT_INVALID);
    if (strstr(err.detail, detail) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.detail, detail);
    }
}

/* Makes a header's checksum right again. */
static void sum_again(char *header)
{
    char text[16];
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++) {
        sum += (unsigned char)header[i];
    }
    snprintf(text, sizeof(text), "%06o", sum);
    memcpy(header + 148, text, 7);
}

static void wrong_headers(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        const char *bytes;
        size_t len;
        const char *detail;
    } CASES[] = {
        {0, "other.json", 11, "other.json where manifest.json must be"},
        {0, "../manifest.json", 17, "where manifest.json must be"},
        {345, "dir", 3, "where manifest.json must be"},
        {156, "1", 1, "no regular file"},
        {156, "2", 1, "no regular file"},
        {156, "5", 1, "no regular file"},
        {156, "S", 1, "no regular file"}, /* GNU sparse */
        {156, "L", 1, "no regular file"}, /* GNU long name */
        {156, "g", 1, "no regular file"}, /* global pax header */
        {124, "\x80\0\0\0\0\0\0\0\0\0\0\x0d", 12, "no octal number"},
        {124, "-0000000001\0", 12, "no octal number"},
        {124, "77777777777\0", 12, "too large"},
        {124, "00177777777\0", 12, "too large"},
        {124, "00000077777\0", 12, "cut short"},
        {257, "x", 1, "not ustar"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_buf_ struct buf text;
        put_bundle(&text, WORKSPACE_COMPRESSION_ZSTD);
        memcpy(text.data + CASES[i].at, CASES[i].bytes, CASES[i].len);
        sum_again(text.data);
        refused(&text, CASES[i].detail);
    }
    _cleanup_buf_ struct buf text;
    put_bundle(&text, WORKSPACE_COMPRESSION_ZSTD);
    text.data[100] ^= 1;
    refused(&text, "checksum");
}

static void other_members(void **state)
{
    (void)state;
    static const struct {
        int parts[5];
        int count;
        const char *detail;
    } CASES[] = {
        {{1, 0, 2}, 3, "where manifest.json must be"},
        {{0, 2, 1}, 3, "where files.jsonl"},
        {{0, 0, 1, 2}, 4, "where files.jsonl"},
        {{0, 1, 1, 2}, 4, "where workspace.tar"},
        {{0, 1, 2, 2}, 4, "more behind"},
        {{0, 1}, 2, "cut short"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_buf_ struct buf text;
        buf_init(&text, TEXT_MAX);
        for (int k = 0; k < CASES[i].count; k++) {
            put_part(&text, (enum workspace_bundle_part)CASES[i].parts[k],
                     WORKSPACE_COMPRESSION_ZSTD);
        }
        refused(&text, CASES[i].detail);
    }
    _cleanup_buf_ struct buf mixed;
    buf_init(&mixed, TEXT_MAX);
    put_part(&mixed, WORKSPACE_BUNDLE_MANIFEST, WORKSPACE_COMPRESSION_ZSTD);
    put_part(&mixed, WORKSPACE_BUNDLE_FILES, WORKSPACE_COMPRESSION_NONE);
    put_part(&mixed, WORKSPACE_BUNDLE_ARCHIVE, WORKSPACE_COMPRESSION_ZSTD);
    refused(&mixed, "workspace.tar.zst where workspace.tar must be");
}

static void every_cut(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf text;
    put_bundle(&text, WORKSPACE_COMPRESSION_ZSTD);
    size_t whole = text.len;
    for (text.len = 0; text.len < whole; text.len++) {
        refused(&text, "cut short");
    }
}

static void behind_the_end(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf text;
    struct workspace_bundle found;
    struct error err = ERROR_INIT;
    char block[BLOCK] = "";
    put_bundle(&text, WORKSPACE_COMPRESSION_ZSTD);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(buf_add(&text, block, sizeof(block)), 0);
    }
    assert_int_equal(find(&text, &found, &err), 0); /* a blocking factor's zeros */
    text.data[text.len - 1] = 'x';
    refused(&text, "more behind");
}

/* A pax header in front of the manifest. */
static void put_pax(struct buf *out, const char *records, size_t len)
{
    char header[BLOCK];
    char block[BLOCK] = "";
    _cleanup_buf_ struct buf rest;
    buf_init(out, TEXT_MAX);
    put_bundle(&rest, WORKSPACE_COMPRESSION_ZSTD);
    memcpy(header, rest.data, sizeof(header));
    header[156] = 'x';
    snprintf(header + 124, 12, "%011zo", len);
    sum_again(header);
    assert_true(len <= sizeof(block));
    memcpy(block, records, len);
    assert_int_equal(buf_add(out, header, sizeof(header)), 0);
    assert_int_equal(buf_add(out, block, len == 0 ? 0 : sizeof(block)), 0);
    assert_int_equal(buf_add(out, rest.data, rest.len), 0);
}

static void pax_headers(void **state)
{
    (void)state;
    static const char *const GOOD[] = {"11 size=13\n", "20 mtime=1764428400\n11 size=13\n", ""};
    static const char *const BAD[] = {
        "14 path=a/b/c\n",
        "19 GNU.sparse.major=1\n",
        "11 size=13",
        "11 size=1x\n",
        "8 size=\n",
        "99 size=13\n",
        "3 \n",
        "x size=13\n",
        "12 size=13\n",
        " size=13\n",
        "11 size=13\n11 size=14\n",
        "0 \n",
        "7 =abcd\n",
        "9 linkp=\n",
        "31 size=99999999999999999999999\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++) {
        _cleanup_buf_ struct buf text;
        struct workspace_bundle found;
        struct error err = ERROR_INIT;
        put_pax(&text, GOOD[i], strlen(GOOD[i]));
        if (find(&text, &found, &err) != 0) {
            fail_msg("%s: %s", GOOD[i], err.detail);
        }
        assert_int_equal(found.members[0].size, 13);
    }
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        _cleanup_buf_ struct buf text;
        put_pax(&text, BAD[i], strlen(BAD[i]));
        refused(&text, "pax header");
    }
    _cleanup_buf_ struct buf huge;
    put_pax(&huge, "28 size=9223372036854775000\n", 28);
    refused(&huge, "too large");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),     cmocka_unit_test(other_readers),
        cmocka_unit_test(large_member),   cmocka_unit_test(wrong_headers),
        cmocka_unit_test(other_members),  cmocka_unit_test(every_cut),
        cmocka_unit_test(behind_the_end), cmocka_unit_test(pax_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
