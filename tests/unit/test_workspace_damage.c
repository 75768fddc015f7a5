/* Whatever happens to a stored archive or its list, verification says so. */
#include "workspace/archive.h"

#include "workspace_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

struct stored {
    int archive_fd;
    int files_fd;
    struct workspace_archive_facts facts;
};

static int verify(const struct stored *s, struct workspace_sink *sink, struct error *err)
{
    struct workspace_reader *r;
    error_clear(err);
    if (workspace_reader_new(s->archive_fd, s->files_fd, &s->facts, &r, err) != 0) {
        return -1;
    }
    int result = workspace_reader_run(r, sink, NULL, err);
    workspace_reader_free(r);
    return result;
}

static void expect_invalid(const struct stored *s, const char *detail)
{
    struct error err = ERROR_INIT;
    assert_int_equal(verify(s, NULL, &err), -1);
    assert_int_equal(err.code, ERROR_CHECKPOINT_INVALID);
    if (detail != NULL && strstr(err.detail, detail) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", detail, err.detail);
    }
}

static struct stored make(enum workspace_compression compression)
{
    char dir[64];
    char path[128];
    char noise[3000];
    struct stored s;
    struct error err = ERROR_INIT;
    fixture_directory_make(dir);
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (char)(i * i * 31 >> 3);
    }
    fixture_file_put(dir, "a", noise, sizeof(noise));
    snprintf(path, sizeof(path), "%s/d", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    fixture_file_put(dir, "d/hole", "x", 1);
    snprintf(path, sizeof(path), "%s/d/hole", dir);
    assert_int_equal(truncate(path, 50000), 0);
    snprintf(path, sizeof(path), "%s/l", dir);
    assert_int_equal(symlink("target", path), 0);
    s.archive_fd = fixture_temporary();
    s.files_fd = fixture_temporary();
    struct workspace_writer_spec spec = {s.archive_fd, s.files_fd, compression, 3, 1 << 30};
    struct workspace_writer *w;
    assert_int_equal(workspace_writer_new(&spec, &w, &err), 0);
    assert_int_equal(fixture_feed_tree(dir, workspace_writer_sink(w), &err), 0);
    assert_int_equal(workspace_writer_finish(w, &s.facts, &err), 0);
    workspace_writer_free(w);
    fixture_directory_remove(dir);
    assert_int_equal(verify(&s, NULL, &err), 0);
    return s;
}

static void stored_close(struct stored *s)
{
    close(s->archive_fd);
    close(s->files_fd);
}

static int64_t size_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_size;
}

static int copy_of(int fd, int64_t len)
{
    int out = fixture_temporary();
    char *data = malloc((size_t)len + 1);
    assert_int_equal(pread(fd, data, (size_t)len, 0), len);
    assert_int_equal(write(out, data, (size_t)len), len);
    free(data);
    return out;
}

static bool passes(const struct stored *s)
{
    struct error err = ERROR_INIT;
    if (verify(s, NULL, &err) == 0) {
        return true;
    }
    assert_int_equal(err.code, ERROR_CHECKPOINT_INVALID);
    return false;
}

/* Every byte of the file that `which` points to, altered and put back; then every length. At most
 * `harmless` alterations may pass. */
static void damage_everywhere(struct stored *s, int *which, int64_t *recorded, int64_t harmless)
{
    int64_t size = size_of(*which);
    int whole = *which;
    for (int64_t at = 0; at < size; at++) {
        unsigned char c;
        assert_int_equal(pread(whole, &c, 1, at), 1);
        unsigned char other = c ^ (unsigned char)(1U << (at % 8));
        assert_int_equal(pwrite(whole, &other, 1, at), 1);
        harmless -= passes(s) ? 1 : 0;
        assert_true(harmless >= 0);
        assert_int_equal(pwrite(whole, &c, 1, at), 1);
    }
    int64_t kept = *recorded;
    for (int64_t len = 0; len < size; len += 1 + len / 50) {
        *which = copy_of(whole, len);
        expect_invalid(s, NULL);
        *recorded = len;
        expect_invalid(s, NULL);
        *recorded = kept;
        close(*which);
    }
    *which = whole;
    struct error err = ERROR_INIT;
    assert_int_equal(verify(s, NULL, &err), 0);
}

static void altered(enum workspace_compression compression)
{
    int64_t unused = 0;
    struct stored s = make(compression);
    damage_everywhere(&s, &s.archive_fd, &s.facts.archive_bytes, 0);
    /* The list's digest is of its text, and a few alterations make zstd yield the same text:
     * another window, another copy of what repeats. */
    damage_everywhere(&s, &s.files_fd, &unused, compression == WORKSPACE_COMPRESSION_ZSTD ? 8 : 0);
    stored_close(&s);
}

static void altered_zstd(void **state)
{
    (void)state;
    altered(WORKSPACE_COMPRESSION_ZSTD);
}

static void altered_plain(void **state)
{
    (void)state;
    altered(WORKSPACE_COMPRESSION_NONE);
}

static void bytes_behind_the_end(void **state)
{
    (void)state;
    static const enum workspace_compression kinds[] = {WORKSPACE_COMPRESSION_NONE,
                                                       WORKSPACE_COMPRESSION_ZSTD};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct stored s = make(kinds[i]);
        int64_t size = size_of(s.archive_fd);
        assert_int_equal(pwrite(s.archive_fd, "x", 1, size), 1);
        expect_invalid(&s, "bytes");
        s.facts.archive_bytes++;
        expect_invalid(&s, NULL);
        s.facts.archive_bytes--;
        assert_int_equal(ftruncate(s.archive_fd, size), 0);
        size = size_of(s.files_fd);
        assert_int_equal(pwrite(s.files_fd, "\n", 1, size), 1);
        expect_invalid(&s, "file list");
        stored_close(&s);
    }
}

static void other_facts(void **state)
{
    (void)state;
    struct stored s = make(WORKSPACE_COMPRESSION_ZSTD);
    const struct workspace_archive_facts good = s.facts;
    s.facts.entries--;
    expect_invalid(&s, "entries");
    s.facts.entries += 2;
    expect_invalid(&s, "entries");
    s.facts = good;
    s.facts.content_bytes -= WORKSPACE_BLOCK;
    expect_invalid(&s, "content");
    s.facts.content_bytes += 2 * WORKSPACE_BLOCK;
    expect_invalid(&s, "content");
    s.facts = good;
    s.facts.archive_digest[20] ^= 1;
    expect_invalid(&s, "archive digest");
    s.facts = good;
    s.facts.files_digest[20] ^= 1;
    expect_invalid(&s, "file list digest");
    s.facts = good;
    s.facts.compression = WORKSPACE_COMPRESSION_NONE;
    expect_invalid(&s, NULL);
    stored_close(&s);
}

/* The list of another tree with the digest to match: the entry is named. */
static void list_of_another(void **state)
{
    (void)state;
    struct stored s = make(WORKSPACE_COMPRESSION_NONE);
    char *list = malloc((size_t)size_of(s.files_fd) + 1);
    ssize_t n = pread(s.files_fd, list, (size_t)size_of(s.files_fd), 0);
    assert_true(n > 0);
    list[n] = '\0';
    char *target = strstr(list, "target\":\"t");
    assert_non_null(target);
    target[9] = 'x';
    assert_int_equal(pwrite(s.files_fd, list, (size_t)n, 0), n);
    struct digest *d = digest_new();
    digest_update(d, list, (size_t)n);
    digest_final(d, s.facts.files_digest);
    digest_free(d);
    expect_invalid(&s, "l: differs from the file list");
    free(list);
    stored_close(&s);
}

struct meddling {
    struct fixture_log log;
    int fd;
    bool done;
};

static int meddle(struct workspace_sink *sink, struct error *err)
{
    struct meddling *m = (struct meddling *)sink;
    (void)err;
    if (!m->done) {
        m->done = true;
        assert_int_equal(pwrite(m->fd, "\xff", 1, size_of(m->fd) - 1), 1);
    }
    return 0;
}

/* Verified, then changed before or while it is fed: the second pass fails too. */
static void changed_between_passes(void **state)
{
    (void)state;
    struct stored s = make(WORKSPACE_COMPRESSION_NONE);
    struct workspace_reader *r;
    struct error err = ERROR_INIT;
    assert_int_equal(workspace_reader_new(s.archive_fd, s.files_fd, &s.facts, &r, &err), 0);
    assert_int_equal(workspace_reader_run(r, NULL, NULL, &err), 0);
    struct meddling m = {.fd = s.archive_fd};
    fixture_log_init(&m.log);
    struct workspace_sink_ops ops = *m.log.sink.ops;
    ops.end = meddle;
    m.log.sink.ops = &ops;
    char last;
    assert_int_equal(pread(s.archive_fd, &last, 1, size_of(s.archive_fd) - 1), 1);
    assert_int_equal(pwrite(s.archive_fd, "y", 1, size_of(s.archive_fd) - 1), 1);
    assert_int_equal(workspace_reader_run(r, &m.log.sink, NULL, &err), -1);
    assert_int_equal(err.code, ERROR_CHECKPOINT_INVALID);
    assert_true(m.done);
    workspace_reader_free(r);
    fixture_log_done(&m.log);
    stored_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(altered_zstd),         cmocka_unit_test(altered_plain),
        cmocka_unit_test(bytes_behind_the_end), cmocka_unit_test(other_facts),
        cmocka_unit_test(list_of_another),      cmocka_unit_test(changed_between_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
