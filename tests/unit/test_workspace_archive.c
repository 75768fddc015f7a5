#include "workspace/archive.h"

#include "workspace/content.h"
#include "workspace_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static const int64_t NO_BOUND = INT64_C(1) << 50;

struct stored {
    int archive_fd;
    int files_fd;
    struct workspace_archive_facts facts;
};

static int try_store(const char *dir, enum workspace_compression compression, int64_t max,
                     struct stored *out, struct error *err)
{
    out->archive_fd = fixture_temporary();
    out->files_fd = fixture_temporary();
    struct workspace_writer_spec spec = {out->archive_fd, out->files_fd, compression, 1, max};
    struct workspace_writer *w;
    assert_int_equal(workspace_writer_new(&spec, &w, err), 0);
    int r = fixture_feed_tree(dir, workspace_writer_sink(w), err);
    if (r == 0) {
        r = workspace_writer_finish(w, &out->facts, err);
    }
    workspace_writer_free(w);
    return r;
}

static struct stored store(const char *dir, enum workspace_compression compression)
{
    struct stored s;
    struct error err = ERROR_INIT;
    if (try_store(dir, compression, NO_BOUND, &s, &err) != 0) {
        fail_msg("%s", err.detail);
    }
    return s;
}

static void stored_close(struct stored *s)
{
    close(s->archive_fd);
    close(s->files_fd);
}

/* Verifies, then loads into `dir`. */
static void load(const struct stored *s, const char *dir)
{
    struct workspace_reader *r;
    struct fixture_apply apply;
    struct error err = ERROR_INIT;
    assert_int_equal(workspace_reader_new(s->archive_fd, s->files_fd, &s->facts, &r, &err), 0);
    fixture_apply_init(&apply, dir);
    if (workspace_reader_run(r, NULL, NULL, &err) != 0 ||
        workspace_reader_run(r, &apply.sink, NULL, &err) != 0) {
        fail_msg("%s", err.detail);
    }
    fixture_apply_done(&apply);
    workspace_reader_free(r);
}

static void in(char *out, size_t size, const char *dir, const char *name)
{
    assert_true(snprintf(out, size, "%s/%s", dir, name) < (int)size);
}

static void put_sparse(const char *dir, const char *name, int64_t size, const int64_t *offsets,
                       size_t count)
{
    char path[4096];
    in(path, sizeof(path), dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    assert_int_equal(ftruncate(fd, size), 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pwrite(fd, "data", 4, offsets[i]), 4);
    }
    close(fd);
}

static void put_random(const char *dir, const char *name, size_t len)
{
    char *data = malloc(len);
    uint32_t x = 12345;
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = (char)(x >> 24);
    }
    fixture_file_put(dir, name, data, len);
    free(data);
}

/* One of everything that a program can leave in its workspace. */
static void make_tree(const char *dir)
{
    char path[8192];
    char name[300];
    const struct timespec times[2] = {{1, 0}, {1600000000, 123456789}};
    static const int64_t two[] = {5000, 3000000};
    fixture_file_put(dir, "empty", "", 0);
    fixture_file_put(dir, "one", "1", 1);
    put_random(dir, "block", WORKSPACE_BLOCK);
    put_random(dir, "memory", CONTENT_MEMORY);
    put_random(dir, "spool", 3 * CONTENT_MEMORY + 17);
    put_sparse(dir, "all-hole", 10 * 1024 * 1024, NULL, 0);
    put_sparse(dir, "holes", 8 * 1024 * 1024 + 1, two, 2);
    in(path, sizeof(path), dir, "one");
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(chmod(path, 0751), 0);
    in(path, sizeof(path), dir, "dir");
    assert_int_equal(mkdir(path, 0700), 0);
    fixture_file_put(dir, "dir/inside", "inside", 6);
    fixture_file_put(dir, "dir.txt", "after", 5);
    fixture_file_put(dir, "bad\xff\xfe\nname", "x", 1);
    fixture_file_put(dir, "caf\xc3\xa9", "x", 1);
    memset(name, 'n', 255);
    name[255] = '\0';
    fixture_file_put(dir, name, "long", 4);
    char other[4096];
    in(path, sizeof(path), dir, "zz-link");
    in(other, sizeof(other), dir, "memory");
    assert_int_equal(link(other, path), 0);
    in(path, sizeof(path), dir, "symlink");
    assert_int_equal(symlink("/etc/passwd\xff", path), 0);
    memset(name, 't', 200);
    name[200] = '\0';
    in(path, sizeof(path), dir, "symlink-long");
    assert_int_equal(symlink(name, path), 0);
}

/* A name of nearly 4095 bytes, made step by step as a program would. */
static void make_deep(const char *dir)
{
    char name[201];
    memset(name, 'd', 200);
    name[200] = '\0';
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mkdirat(fd, name, 0755), 0);
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    int file = openat(fd, "leaf", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(file, "leaf", 4), 4);
    close(file);
    close(fd);
}

static void round_trip_with(enum workspace_compression compression)
{
    char from[64];
    char to[64];
    fixture_directory_make(from);
    fixture_directory_make(to);
    make_tree(from);
    make_deep(from);
    struct stored s = store(from, compression);
    load(&s, to);
    _cleanup_free_ char *before = fixture_describe_tree(from);
    _cleanup_free_ char *after = fixture_describe_tree(to);
    assert_string_equal(before, after);
    assert_true(fixture_disk_bytes(to, "all-hole") <= 2 * WORKSPACE_BLOCK);
    assert_true(fixture_disk_bytes(to, "holes") <= 8 * WORKSPACE_BLOCK);
    struct stored again = store(to, compression);
    assert_string_equal(s.facts.archive_digest, again.facts.archive_digest);
    assert_string_equal(s.facts.files_digest, again.facts.files_digest);
    /* block 1, memory 256, spool 769, holes 2, and one each of one, inside, dir.txt, bad, café, the
     * long name and leaf */
    assert_int_equal(s.facts.content_bytes, (1 + 256 + 769 + 2 + 7) * WORKSPACE_BLOCK);
    assert_int_equal(s.facts.skipped, 0);
    stored_close(&again);
    stored_close(&s);
    fixture_directory_remove(from);
    fixture_directory_remove(to);
}

static void round_trip_zstd(void **state)
{
    (void)state;
    round_trip_with(WORKSPACE_COMPRESSION_ZSTD);
}

static void round_trip_plain(void **state)
{
    (void)state;
    round_trip_with(WORKSPACE_COMPRESSION_NONE);
}

static void empty_tree(void **state)
{
    (void)state;
    char from[64];
    char to[64];
    fixture_directory_make(from);
    fixture_directory_make(to);
    struct stored s = store(from, WORKSPACE_COMPRESSION_ZSTD);
    assert_int_equal(s.facts.entries, 0);
    load(&s, to);
    stored_close(&s);
    s = store(from, WORKSPACE_COMPRESSION_NONE);
    assert_int_equal(s.facts.archive_bytes, 1024);
    load(&s, to);
    stored_close(&s);
    fixture_directory_remove(from);
    fixture_directory_remove(to);
}

static void specials_are_counted(void **state)
{
    (void)state;
    char dir[64];
    char path[128];
    fixture_directory_make(dir);
    in(path, sizeof(path), dir, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    fixture_file_put(dir, "setuid", "x", 1);
    in(path, sizeof(path), dir, "setuid");
    assert_int_equal(chmod(path, 06755), 0);
    struct stored s = store(dir, WORKSPACE_COMPRESSION_ZSTD);
    assert_int_equal(s.facts.entries, 1);
    assert_int_equal(s.facts.skipped, 1);
    char to[64];
    fixture_directory_make(to);
    load(&s, to);
    struct stat st;
    in(path, sizeof(path), to, "setuid");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    in(path, sizeof(path), to, "pipe");
    assert_int_not_equal(lstat(path, &st), 0);
    stored_close(&s);
    fixture_directory_remove(dir);
    fixture_directory_remove(to);
}

static void apparent_bound(void **state)
{
    (void)state;
    char dir[64];
    fixture_directory_make(dir);
    put_sparse(dir, "hole", 100000, NULL, 0);
    struct stored s;
    struct error err = ERROR_INIT;
    assert_int_equal(try_store(dir, WORKSPACE_COMPRESSION_ZSTD, 99999, &s, &err), -1);
    assert_int_equal(err.code, ERROR_RESOURCE_LIMIT);
    stored_close(&s);
    error_clear(&err);
    assert_int_equal(try_store(dir, WORKSPACE_COMPRESSION_ZSTD, 100000, &s, &err), 0);
    struct workspace_reader *r;
    s.facts.apparent_bytes_max = 99999;
    assert_int_equal(workspace_reader_new(s.archive_fd, s.files_fd, &s.facts, &r, &err), 0);
    assert_int_equal(workspace_reader_run(r, NULL, NULL, &err), -1);
    assert_int_equal(err.code, ERROR_CHECKPOINT_INVALID);
    workspace_reader_free(r);
    stored_close(&s);
    fixture_directory_remove(dir);
}

/* More runs than a map may have: the smallest holes become content, nothing else changes. */
static void many_holes(void **state)
{
    (void)state;
    char from[64];
    char to[64];
    fixture_directory_make(from);
    fixture_directory_make(to);
    size_t count = CONTENT_EXTENTS_MAX + 100;
    int64_t *offsets = calloc(count, sizeof(*offsets));
    for (size_t i = 0; i < count; i++) {
        offsets[i] = (int64_t)i * 2 * WORKSPACE_BLOCK;
    }
    put_sparse(from, "comb", (int64_t)count * 2 * WORKSPACE_BLOCK, offsets, count);
    free(offsets);
    struct stored s = store(from, WORKSPACE_COMPRESSION_ZSTD);
    assert_int_equal(s.facts.content_bytes, (int64_t)count * WORKSPACE_BLOCK);
    load(&s, to);
    _cleanup_free_ char *before = fixture_describe_tree(from);
    _cleanup_free_ char *after = fixture_describe_tree(to);
    assert_string_equal(before, after);
    /* A file system counts its own map of the extents too. */
    assert_true(fixture_disk_bytes(to, "comb") <= (int64_t)(count + count / 50) * WORKSPACE_BLOCK);
    stored_close(&s);
    fixture_directory_remove(from);
    fixture_directory_remove(to);
}

static void order_is_held(void **state)
{
    (void)state;
    int archive = fixture_temporary();
    int files = fixture_temporary();
    struct workspace_writer_spec spec = {archive, files, WORKSPACE_COMPRESSION_NONE, 1, NO_BOUND};
    struct workspace_writer *w;
    struct error err = ERROR_INIT;
    assert_int_equal(workspace_writer_new(&spec, &w, &err), 0);
    struct workspace_sink *sink = workspace_writer_sink(w);
    struct workspace_entry e = {.type = WORKSPACE_DIRECTORY, .path = "b", .mode = 0755};
    assert_int_equal(sink->ops->begin(sink, &e, &err), 0);
    assert_int_equal(sink->ops->end(sink, &err), 0);
    e.path = "a";
    assert_int_equal(sink->ops->begin(sink, &e, &err), -1);
    assert_int_equal(err.code, ERROR_INTERNAL);
    workspace_writer_free(w);
    close(archive);
    close(files);
}

static void run(const char *command, const char *dir, const char *archive)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-ec", command, "sh", dir, archive, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The archive is no private format: GNU tar unpacks it to the same tree, holes included. */
static void gnu_tar_reads_it(void **state)
{
    (void)state;
    char from[64];
    char to[64];
    char path[64];
    fixture_directory_make(from);
    fixture_directory_make(to);
    make_tree(from);
    struct stored s = store(from, WORKSPACE_COMPRESSION_NONE);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), s.archive_fd);
    run("tar -C \"$1\" --no-same-owner -p -xf \"$2\" 2>/dev/null", to, path);
    _cleanup_free_ char *before = fixture_describe_tree(from);
    _cleanup_free_ char *after = fixture_describe_tree(to);
    assert_string_equal(before, after);
    assert_true(fixture_disk_bytes(to, "all-hole") <= 2 * WORKSPACE_BLOCK);
    run("test \"$(tar --numeric-owner -tvf \"$2\" 2>/dev/null | grep -vc ' 65532/65532 ')\" = 0",
        to, path);
    stored_close(&s);
    fixture_directory_remove(from);
    fixture_directory_remove(to);
}

static void interrupted(void **state)
{
    (void)state;
    char dir[64];
    fixture_directory_make(dir);
    fixture_file_put(dir, "a", "x", 1);
    struct stored s = store(dir, WORKSPACE_COMPRESSION_ZSTD);
    struct cancel *cancel;
    struct workspace_reader *r;
    struct error err = ERROR_INIT;
    assert_int_equal(cancel_new(&cancel, &err), 0);
    assert_int_equal(workspace_reader_new(s.archive_fd, s.files_fd, &s.facts, &r, &err), 0);
    cancel_fire(cancel);
    assert_int_equal(workspace_reader_run(r, NULL, cancel, &err), -1);
    assert_int_equal(err.code, ERROR_RUNTIME);
    workspace_reader_free(r);
    cancel_unref(cancel);
    stored_close(&s);
    fixture_directory_remove(dir);
}

/* A device without room. */
static void full_disk(void **state)
{
    (void)state;
    char dir[64];
    fixture_directory_make(dir);
    put_random(dir, "a", 600 * 1024);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    int files = fixture_temporary();
    struct workspace_writer_spec spec = {full, files, WORKSPACE_COMPRESSION_NONE, 1, NO_BOUND};
    struct workspace_writer *w;
    struct error err = ERROR_INIT;
    assert_int_equal(workspace_writer_new(&spec, &w, &err), 0);
    assert_int_equal(fixture_feed_tree(dir, workspace_writer_sink(w), &err), -1);
    assert_int_equal(err.code, ERROR_STORAGE_FULL);
    workspace_writer_free(w);
    close(full);
    close(files);
    fixture_directory_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_zstd), cmocka_unit_test(round_trip_plain),
        cmocka_unit_test(empty_tree),      cmocka_unit_test(specials_are_counted),
        cmocka_unit_test(apparent_bound),  cmocka_unit_test(many_holes),
        cmocka_unit_test(order_is_held),   cmocka_unit_test(gnu_tar_reads_it),
        cmocka_unit_test(interrupted),     cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
