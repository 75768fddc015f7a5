/* A transcript as it may stand on disk after anything. The first byte says how the input is meant:
 * as the file itself, or as appends followed by damage, which reaches what lies behind the
 * checksums. Reading ends; what reopens has the same records as before, and takes one more. */
#include "tests/fuzz/fuzz.h"

#include "store/transcript_format.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 128, DAMAGES_MAX = 8 };

static char directory[64];

static void remove_directory(void)
{
    struct error err = ERROR_INIT;

    fuzz_require(dir_remove(directory, &err) == 0);
}

static const struct store_transcript_name *name_of(void)
{
    static struct store_transcript_name name = {directory, "t", 1, "c", NULL};

    if (directory[0] == '\0') {
        snprintf(directory, sizeof(directory), "/dev/shm/exechost-fuzz-XXXXXX");
        fuzz_require(mkdtemp(directory) != NULL);
        fuzz_require(atexit(remove_directory) == 0);
    }
    return &name;
}

static void path_of(char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/transcripts/t/1/c.log", directory);
}

/* The number of whole records, or -1 for a damaged file. */
static int64_t read_all(void)
{
    struct error err = ERROR_INIT;
    struct store_transcript_reader *r = NULL;
    struct store_record record;
    volatile char touch = 0;
    int64_t streams[2] = {0};
    int64_t count = 0;
    int got;

    fuzz_require(store_transcript_open(name_of(), &r, &err) == 0);
    while ((got = store_transcript_next(r, &record, &err)) > 0) {
        fuzz_require(record.seq == count++);
        for (size_t i = 0; i < record.len; i++) {
            touch ^= record.data[i];
        }
        if (record.kind == STORE_RECORD_STDOUT || record.kind == STORE_RECORD_STDERR) {
            int64_t *stream = &streams[record.kind == STORE_RECORD_STDERR];

            fuzz_require(record.offset == *stream);
            *stream += (int64_t)record.len;
        }
    }
    (void)touch;
    store_transcript_reader_free(r);
    fuzz_require(got == 0 || err.code == ERROR_INTERNAL);
    return got < 0 ? -1 : count;
}

/* Totals of every byte must agree with what reading record by record saw. */
static void check_totals(int64_t records, struct store_transcript_totals *totals)
{
    struct error err = ERROR_INIT;
    struct buf none;
    int rc;

    buf_init(&none, 0);
    rc = store_transcript_read_output(name_of(), &none, &none, totals, &err);
    fuzz_require((rc == 0) == (records >= 0));
    fuzz_require(rc != 0 || totals->records == records);
}

/* What is beyond the caps is passed over by its heads alone, so damage there may go unnoticed. */
static void check_output(int64_t records)
{
    struct error err = ERROR_INIT;
    struct store_transcript_totals whole;
    struct store_transcript_totals shown;
    struct buf out;
    struct buf errout;
    int rc;

    check_totals(records, &whole);
    buf_init(&out, 100);
    buf_init(&errout, 100000);
    rc = store_transcript_read_output(name_of(), &out, &errout, &shown, &err);
    fuzz_require(rc != 0 || (out.len <= 100 && shown.stdout_bytes >= (int64_t)out.len));
    buf_done(&out);
    buf_done(&errout);
}

static void reopen_and_check(int64_t records)
{
    struct error err = ERROR_INIT;
    struct store_transcript *t = NULL;
    bool repaired;
    int rc = store_transcript_reopen(name_of(), &t, &repaired, &err);

    fuzz_require((rc == 0) == (records >= 0));
    if (rc != 0) {
        return;
    }
    fuzz_require(store_transcript_append(t, STORE_RECORD_EXIT, "{}", 2, &err) == 0);
    store_transcript_close(t);
    fuzz_require(read_all() == records + 1);
}

static void put_file(const uint8_t *data, size_t size)
{
    char path[PATH_SIZE];
    FILE *file;

    path_of(path);
    file = fopen(path, "we");
    fuzz_require(file != NULL);
    fuzz_require(fwrite(data, 1, size, file) == size);
    fuzz_require(fclose(file) == 0);
}

/* Each two bytes are one append: kind and whether to sync, and a length. Returns how many were
 * used. */
static size_t append_some(struct store_transcript *t, const uint8_t *data, size_t size)
{
    static const char BYTES[255 * 300];
    size_t appends = size > 0 ? data[0] % 16 : 0;
    size_t at = 1;

    for (size_t i = 0; i < appends && at + 2 <= size; i++, at += 2) {
        struct error err = ERROR_INIT;
        enum store_record_kind kind = data[at] % 4;
        size_t len = kind == STORE_RECORD_STARTED ? 0 : data[at + 1];

        len *= data[at] & 64 ? 300 : 1;
        fuzz_require(store_transcript_append(t, kind, BYTES, len, &err) == 0);
        fuzz_require((data[at] & 128) == 0 || store_transcript_sync(t, &err) == 0);
    }
    return at < size ? at : size;
}

/* Each four bytes: where (16 bits, from the end when odd), what to xor, and whether to cut there.
 */
static void damage(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    struct buf file;
    char path[PATH_SIZE];

    path_of(path);
    buf_init(&file, 2 * 1024 * 1024);
    fuzz_require(file_read(path, &file, &err) == 0);
    for (size_t at = 0; at + 4 <= size && at / 4 < DAMAGES_MAX && file.len > 0; at += 4) {
        size_t where = (data[at] | (size_t)data[at + 1] << 8) % file.len;

        where = data[at + 3] & 1 ? file.len - 1 - where : where;
        file.data[where] = (char)(file.data[where] ^ data[at + 2]);
        file.len = data[at + 3] & 2 ? where : file.len;
    }
    put_file((const uint8_t *)buf_str(&file), file.len);
    buf_done(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    struct store_transcript *t = NULL;
    const struct store_transcript_name *name = name_of();
    char path[PATH_SIZE];
    int64_t records;

    if (size == 0) {
        return 0;
    }
    path_of(path);
    unlink(path);
    fuzz_require(store_transcript_create(name, &t, &err) == 0);
    if (data[0] % 2 == 0) {
        put_file(data + 1, size - 1);
    } else {
        size_t used = 1 + append_some(t, data + 1, size - 1);

        damage(data + used, size - used);
    }
    store_transcript_close(t);
    records = read_all();
    check_output(records);
    reopen_and_check(records);
    return 0;
}
