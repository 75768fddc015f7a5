#include "store/transcript_format.h"

#include "base/id.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

static const char MAGIC[8] = "exectrn1";

enum { CRC_FROM = 8, HEADER_CRC_AT = 12, SCAN_STEP = 64 * 1024 };

static void put32(unsigned char *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
}

static void put64(unsigned char *to, int64_t value)
{
    uint64_t raw = htole64((uint64_t)value);

    memcpy(to, &raw, sizeof(raw));
}

static uint32_t get32(const unsigned char *from)
{
    uint32_t value;

    memcpy(&value, from, sizeof(value));
    return le32toh(value);
}

static int64_t get64(const unsigned char *from)
{
    uint64_t value;

    memcpy(&value, from, sizeof(value));
    return (int64_t)le64toh(value);
}

void transcript_header_write(uint32_t marker, unsigned char out[TRANSCRIPT_HEADER_SIZE])
{
    memcpy(out, MAGIC, sizeof(MAGIC));
    put32(out + sizeof(MAGIC), marker);
    put32(out + HEADER_CRC_AT, (uint32_t)crc32(0, out, HEADER_CRC_AT));
}

int transcript_header_read(const unsigned char in[TRANSCRIPT_HEADER_SIZE], uint32_t *marker)
{
    static const unsigned char ZERO[TRANSCRIPT_HEADER_SIZE];

    if (memcmp(in, ZERO, sizeof(ZERO)) == 0) {
        return 0;
    }
    if (memcmp(in, MAGIC, sizeof(MAGIC)) != 0 ||
        get32(in + HEADER_CRC_AT) != (uint32_t)crc32(0, in, HEADER_CRC_AT)) {
        return -1;
    }
    *marker = get32(in + sizeof(MAGIC));
    return 1;
}

static void encode(const struct transcript_record *record, unsigned char *out)
{
    put32(out + 8, record->len);
    put32(out + 12, record->kind);
    put64(out + 16, record->at);
    put64(out + 24, record->durable);
}

static uint32_t crc_of(const unsigned char head[TRANSCRIPT_RECORD_SIZE], const void *payload,
                       uint32_t len)
{
    uLong crc = crc32(0, head + CRC_FROM, TRANSCRIPT_RECORD_SIZE - CRC_FROM);

    /* zlib takes a NULL as the wish for a start value. */
    return (uint32_t)(len == 0 ? crc : crc32(crc, payload, len));
}

void transcript_record_write(uint32_t marker, struct transcript_record *record, const void *payload,
                             unsigned char out[TRANSCRIPT_RECORD_SIZE])
{
    encode(record, out);
    record->crc = crc_of(out, payload, record->len);
    put32(out, marker);
    put32(out + 4, record->crc);
}

bool transcript_record_read(uint32_t marker, const unsigned char in[TRANSCRIPT_RECORD_SIZE],
                            struct transcript_record *record)
{
    uint32_t max;

    if (get32(in) != marker) {
        return false;
    }
    *record = (struct transcript_record){
        .crc = get32(in + 4),
        .len = get32(in + 8),
        .kind = get32(in + 12),
        .at = get64(in + 16),
        .durable = get64(in + 24),
    };
    max = record->kind == STORE_RECORD_EXIT ? TRANSCRIPT_EXIT_MAX : TRANSCRIPT_CHUNK_MAX;
    return record->kind <= STORE_RECORD_EXIT && record->len <= max;
}

bool transcript_record_check(const struct transcript_record *record, const void *payload)
{
    unsigned char head[TRANSCRIPT_RECORD_SIZE];

    encode(record, head);
    return crc_of(head, payload, record->len) == record->crc;
}

ssize_t transcript_pread(int fd, void *out, size_t len, int64_t offset)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, (char *)out + got, len - got, offset + (int64_t)got);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static int read_failed(int64_t offset, struct error *err)
{
    return error_set_errno(err, ERROR_INTERNAL, errno, "cannot read a transcript at %" PRId64,
                           offset);
}

struct scan {
    int fd;
    uint32_t marker;
    int64_t offset; /* of what is in doubt */
    bool found;
};

/* Whether a whole record stands at `at` and says that the offset was durable. */
static int check_candidate(struct scan *scan, int64_t at, struct error *err)
{
    unsigned char head[TRANSCRIPT_RECORD_SIZE];
    struct transcript_record record;
    _cleanup_free_ char *payload = NULL;
    ssize_t n = transcript_pread(scan->fd, head, sizeof(head), at);

    if (n < 0) {
        return read_failed(at, err);
    }
    if ((size_t)n < sizeof(head) || !transcript_record_read(scan->marker, head, &record) ||
        record.durable <= scan->offset) {
        return 0;
    }
    payload = malloc((size_t)record.len + 1);
    if (payload == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    n = transcript_pread(scan->fd, payload, record.len, at + TRANSCRIPT_RECORD_SIZE);
    if (n < 0) {
        return read_failed(at, err);
    }
    scan->found = (size_t)n == record.len && transcript_record_check(&record, payload);
    return 0;
}

/* Looks at each marker in data, which stands at `base` in the file. */
static int scan_chunk(struct scan *scan, const unsigned char *data, size_t len, int64_t base,
                      struct error *err)
{
    unsigned char marker[sizeof(uint32_t)];
    const unsigned char *at = data;

    put32(marker, scan->marker);
    while (!scan->found) {
        at = memmem(at, len - (size_t)(at - data), marker, sizeof(marker));
        if (at == NULL) {
            return 0;
        }
        if (check_candidate(scan, base + (at - data), err) != 0) {
            return -1;
        }
        at++;
    }
    return 0;
}

int transcript_find_durable(int fd, uint32_t marker, int64_t offset, int64_t size, bool *found,
                            struct error *err)
{
    _cleanup_free_ unsigned char *data = malloc(SCAN_STEP);
    struct scan scan = {.fd = fd, .marker = marker, .offset = offset};
    int64_t base = offset + 1;

    if (data == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    while (!scan.found && base + TRANSCRIPT_RECORD_SIZE <= size) {
        ssize_t n = transcript_pread(fd, data, SCAN_STEP, base);

        if (n < 0) {
            return read_failed(base, err);
        }
        if (n < TRANSCRIPT_RECORD_SIZE) {
            break;
        }
        if (scan_chunk(&scan, data, (size_t)n, base, err) != 0) {
            return -1;
        }
        /* A marker may lie across the border of two chunks. */
        base += n - (ssize_t)sizeof(marker) + 1;
    }
    *found = scan.found;
    return 0;
}

char *transcript_path(const struct store_transcript_name *name, struct error *err)
{
    char *path = NULL;

    if (!id_is_valid(name->tenant) || !id_is_valid(name->command_id)) {
        error_set(err, ERROR_INTERNAL, "a transcript's name is no identifier");
        return NULL;
    }
    if (asprintf(&path, "%s/transcripts/%s/%" PRId64 "/%s.log", name->directory, name->tenant,
                 name->execution_row, name->command_id) < 0) {
        error_set(err, ERROR_INTERNAL, "out of memory");
        return NULL;
    }
    return path;
}
