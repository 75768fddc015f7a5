#include "workspace/tar.h"

#include "workspace_fixture.h"

#include <archive.h>
#include <archive_entry.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { TAR_MAX = 8 * 1024 * 1024 };

/* A stream under construction: headers made by hand, so that anything can be in them. */
struct made {
    struct buf bytes;
};

static void put_block(struct made *t, const void *data, size_t len)
{
    static const char zeros[512];
    assert_int_equal(buf_add(&t->bytes, data, len), 0);
    if (len % 512 != 0) {
        assert_int_equal(buf_add(&t->bytes, zeros, 512 - len % 512), 0);
    }
}

static void put_raw(struct made *t, char type, const char *name, const char *link, const void *data,
                    size_t size)
{
    char h[512] = "";
    memcpy(h, name, strnlen(name, 100));
    snprintf(h + 100, 8, "%07o", 0644);
    snprintf(h + 108, 8, "%07o", 0);
    snprintf(h + 116, 8, "%07o", 0);
    snprintf(h + 124, 12, "%011zo", size);
    snprintf(h + 136, 12, "%011o", 7);
    h[156] = type;
    if (link != NULL) {
        memcpy(h + 157, link, strnlen(link, 100));
    }
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    memset(h + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof(h); i++) {
        sum += (unsigned char)h[i];
    }
    snprintf(h + 148, 7, "%06o", sum);
    put_block(t, h, sizeof(h));
    if (data != NULL) {
        put_block(t, data, size);
    }
}

static void put_end(struct made *t)
{
    static const char zeros[1024];
    put_block(t, zeros, sizeof(zeros));
}

static int feed(struct made *t, const char *strip, struct fixture_log *log, struct error *err)
{
    struct fixture_bytes bytes = {t->bytes.data, t->bytes.len, 0, 777};
    struct workspace_tar_source source = {
        .read = fixture_bytes_read, .ctx = &bytes, .strip = strip, .apparent_bytes_max = -1};
    int r = workspace_tar_feed(&source, &log->sink, err);
    if (r == 0) {
        assert_int_equal(bytes.at, bytes.len);
    }
    return r;
}

static void expect_refused(struct made *t, const char *detail)
{
    struct fixture_log log;
    struct error err = ERROR_INIT;
    fixture_log_init(&log);
    put_end(t);
    assert_int_equal(feed(t, NULL, &log, &err), -1);
    assert_int_equal(err.code, ERROR_RUNTIME);
    if (strstr(err.detail, detail) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", detail, err.detail);
    }
    fixture_log_done(&log);
    buf_done(&t->bytes);
}

static struct made start(void)
{
    struct made t;
    buf_init(&t.bytes, TAR_MAX);
    return t;
}

static void hostile_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *detail;
    } rows[] = {
        {"/etc/passwd", "absolute"}, {"../x", "\"..\""},
        {"a/../../x", "\"..\""},     {"..", "\"..\""},
        {"a//b", "component"},       {"//x", "absolute"},
        {"missing/x", "directory"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct made t = start();
        put_raw(&t, '5', "a/", NULL, NULL, 0);
        put_raw(&t, '0', rows[i].name, NULL, "x", 1);
        expect_refused(&t, rows[i].detail);
    }
}

static void names_through_links(void **state)
{
    (void)state;
    struct made t = start();
    put_raw(&t, '2', "l", "/etc", NULL, 0);
    put_raw(&t, '0', "l/passwd", NULL, "x", 1);
    expect_refused(&t, "not in a directory");
    t = start();
    put_raw(&t, '2', "l", "/etc", NULL, 0);
    put_raw(&t, '5', "l/", NULL, NULL, 0);
    put_raw(&t, '0', "l/passwd", NULL, "x", 1);
    expect_refused(&t, "comes twice");
    t = start();
    put_raw(&t, '0', "f", NULL, "x", 1);
    put_raw(&t, '0', "f", NULL, "y", 1);
    expect_refused(&t, "comes twice");
}

static void hard_links(void **state)
{
    (void)state;
    struct made t = start();
    put_raw(&t, '1', "h", "/etc/passwd", NULL, 0);
    expect_refused(&t, "absolute");
    t = start();
    put_raw(&t, '1', "h", "nothing", NULL, 0);
    expect_refused(&t, "no earlier file");
    t = start();
    put_raw(&t, '5', "d/", NULL, NULL, 0);
    put_raw(&t, '1', "h", "d", NULL, 0);
    expect_refused(&t, "no earlier file");
    t = start();
    put_raw(&t, '1', "h", "../x", NULL, 0);
    expect_refused(&t, "\"..\"");
    t = start();
    put_raw(&t, '2', "s", "", NULL, 0);
    expect_refused(&t, "without a target");
}

static void broken_streams(void **state)
{
    (void)state;
    struct fixture_log log;
    struct error err = ERROR_INIT;
    fixture_log_init(&log);
    struct made t = start();
    assert_int_equal(feed(&t, NULL, &log, &err), -1);
    put_raw(&t, '0', "f", NULL, "hello", 5);
    error_clear(&err);
    assert_int_equal(feed(&t, NULL, &log, &err), -1);
    assert_non_null(strstr(err.detail, "end mark"));
    for (size_t cut = 1; cut < 1024; cut += 37) {
        struct made part = {t.bytes};
        part.bytes.len = cut;
        error_clear(&err);
        assert_int_equal(feed(&part, NULL, &log, &err), -1);
    }
    put_end(&t);
    error_clear(&err);
    assert_int_equal(feed(&t, NULL, &log, &err), 0);
    t.bytes.data[0] ^= 1;
    assert_int_equal(feed(&t, NULL, &log, &err), -1);
    buf_done(&t.bytes);
    fixture_log_done(&log);
}

/* A pax record that claims to be larger than any header of ours. */
static void endless_header(void **state)
{
    (void)state;
    struct made t = start();
    size_t size = 7 * 1024 * 1024;
    char *map = calloc(1, size);
    memset(map, '1', size);
    for (size_t i = 1; i < size; i += 2) {
        map[i] = '\n';
    }
    memcpy(map, "9999999\n", 8);
    static const char records[] =
        "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n20 GNU.sparse.name=a\n"
        "26 GNU.sparse.realsize=99\n";
    put_raw(&t, 'x', "x", NULL, records, strlen(records));
    put_raw(&t, '0', "g", NULL, map, size);
    free(map);
    struct fixture_log log;
    struct error err = ERROR_INIT;
    fixture_log_init(&log);
    assert_int_equal(feed(&t, NULL, &log, &err), -1);
    buf_done(&t.bytes);
    fixture_log_done(&log);
}

static void engine_stream(void **state)
{
    (void)state;
    struct made t = start();
    static char content[3 * WORKSPACE_BLOCK + 5];
    content[0] = 1;
    content[2 * WORKSPACE_BLOCK + 7] = 2;
    content[3 * WORKSPACE_BLOCK] = 3;
    put_raw(&t, '5', "workspace/", NULL, NULL, 0);
    put_raw(&t, '0', "workspace/a", NULL, content, sizeof(content));
    put_raw(&t, '1', "workspace/b", "workspace/a", NULL, 0);
    put_raw(&t, '5', "workspace/d/", NULL, NULL, 0);
    put_raw(&t, '2', "workspace/d/l", "workspace/x", NULL, 0);
    put_raw(&t, '6', "workspace/d/pipe", NULL, NULL, 0);
    put_raw(&t, '1', "workspace/d/pipe2", "workspace/d/pipe", NULL, 0);
    put_raw(&t, '1', "workspace/d/z", "workspace/d/l", NULL, 0);
    put_end(&t);
    struct fixture_log log;
    struct error err = ERROR_INIT;
    fixture_log_init(&log);
    assert_int_equal(feed(&t, "workspace", &log, &err), 0);
    assert_string_equal(buf_str(&log.text), "file a 644 12293\n+0,4096\n+8192,4096\n+12288,5\n"
                                            "hardlink b 644 0 > a\ndir d 644 0\n"
                                            "symlink d/l 644 0 > workspace/x\n"
                                            "special d/pipe 644 0\nspecial d/pipe2 644 0\n"
                                            "hardlink d/z 644 0 > d/l\n");
    buf_reset(&log.text);
    assert_int_equal(feed(&t, "work", &log, &err), -1);
    assert_non_null(strstr(err.detail, "outside"));
    buf_done(&t.bytes);
    fixture_log_done(&log);
}

static void apparent_bound(void **state)
{
    (void)state;
    struct made t = start();
    put_raw(&t, '0', "a", NULL, "hello", 5);
    put_raw(&t, '0', "b", NULL, "hello", 5);
    put_end(&t);
    for (int64_t max = 0; max <= 11; max++) {
        struct fixture_log log;
        struct error err = ERROR_INIT;
        fixture_log_init(&log);
        struct fixture_bytes bytes = {t.bytes.data, t.bytes.len, 0, 100000};
        struct workspace_tar_source source = {
            .read = fixture_bytes_read, .ctx = &bytes, .apparent_bytes_max = max};
        int r = workspace_tar_feed(&source, &log.sink, &err);
        assert_int_equal(r, max >= 10 ? 0 : -1);
        assert_int_equal(err.code, max >= 10 ? ERROR_NONE : ERROR_RESOURCE_LIMIT);
        fixture_log_done(&log);
    }
    buf_done(&t.bytes);
}

static la_ssize_t collect(struct archive *a, void *ctx, const void *data, size_t len)
{
    (void)a;
    return buf_add(ctx, data, len) == 0 ? (la_ssize_t)len : -1;
}

/* What another program writes: long, foreign and undecodable names, holes, fractions of a second.
 */
static void library_stream(void **state)
{
    (void)state;
    static const char *const formats[] = {"pax", "gnutar"};
    char longest[256];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    const char *names[] = {"caf\xc3\xa9", "bad\xff\xfe", longest};
    for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
        struct made t = start();
        struct archive *a = archive_write_new();
        assert_int_equal(archive_write_set_format_by_name(a, formats[f]), 0);
        archive_write_set_options(a, "hdrcharset=BINARY");
        assert_int_equal(archive_write_open(a, &t.bytes, NULL, collect, NULL), 0);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
            struct archive_entry *e = archive_entry_new();
            archive_entry_set_pathname(e, names[i]);
            archive_entry_set_filetype(e, AE_IFLNK);
            archive_entry_set_perm(e, 0777);
            archive_entry_set_symlink(e, names[i]);
            assert_int_equal(archive_write_header(a, e), 0);
            archive_entry_free(e);
        }
        archive_write_free(a);
        struct fixture_log log;
        struct error err = ERROR_INIT;
        fixture_log_init(&log);
        assert_int_equal(feed(&t, NULL, &log, &err), 0);
        char want[2000];
        snprintf(want, sizeof(want),
                 "symlink %s 777 0 > %s\nsymlink %s 777 0 > %s\nsymlink %s 777 0 > %s\n", names[0],
                 names[0], names[1], names[1], names[2], names[2]);
        assert_string_equal(buf_str(&log.text), want);
        fixture_log_done(&log);
        buf_done(&t.bytes);
    }
}

/* As Go's writer has it: raw bytes in a pax record without a word about their encoding. */
static void undeclared_bytes(void **state)
{
    (void)state;
    struct made t = start();
    put_raw(&t, 'x', "x", NULL, "12 path=\xff\xfe\x80\n", 12);
    put_raw(&t, '0', "plain", NULL, "x", 1);
    put_raw(&t, 'x', "x", NULL, "11 path=\xc3\xa9\n", 11);
    put_raw(&t, '0', "plain", NULL, "x", 1);
    put_end(&t);
    struct fixture_log log;
    struct error err = ERROR_INIT;
    fixture_log_init(&log);
    assert_int_equal(feed(&t, NULL, &log, &err), 0);
    assert_string_equal(buf_str(&log.text),
                        "file \xff\xfe\x80 644 1\n+0,1\nfile \xc3\xa9 644 1\n+0,1\n");
    fixture_log_done(&log);
    buf_done(&t.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_names),    cmocka_unit_test(names_through_links),
        cmocka_unit_test(hard_links),       cmocka_unit_test(broken_streams),
        cmocka_unit_test(endless_header),   cmocka_unit_test(engine_stream),
        cmocka_unit_test(apparent_bound),   cmocka_unit_test(library_stream),
        cmocka_unit_test(undeclared_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
