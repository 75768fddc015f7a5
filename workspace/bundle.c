#include "workspace/bundle.h"

#include "workspace/manifest.h"
#include "workspace/path.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum {
    BLOCK = WORKSPACE_BUNDLE_BLOCK,
    PAX_BYTES_MAX = 4096,
    BEHIND_MAX = 1024 * 1024, /* zeros behind the last member: what blocking factors make */
};

static const int64_t OCTAL_MAX = 077777777777; /* 11 digits */

/* POSIX.1-2001, "ustar Interchange Format". */
struct ustar {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char user[32];
    char group[32];
    char device_major[8];
    char device_minor[8];
    char prefix[155];
    char unused[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a header is one block");

static const char *part_name(enum workspace_bundle_part part,
                             enum workspace_compression compression)
{
    bool zstd = compression == WORKSPACE_COMPRESSION_ZSTD;
    switch (part) {
    case WORKSPACE_BUNDLE_MANIFEST: return "manifest.json";
    case WORKSPACE_BUNDLE_FILES: return zstd ? "files.jsonl.zst" : "files.jsonl";
    default: return zstd ? "workspace.tar.zst" : "workspace.tar";
    }
}

static int64_t padding(int64_t size)
{
    return (BLOCK - size % BLOCK) % BLOCK;
}

static unsigned checksum(const struct ustar *h)
{
    const unsigned char *bytes = (const unsigned char *)h;
    size_t from = offsetof(struct ustar, checksum);
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        sum += i >= from && i < from + sizeof(h->checksum) ? ' ' : bytes[i];
    }
    return sum;
}

/* --- writing --- */

static void put_octal(char *field, size_t width, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%0*llo", (int)width - 1, (unsigned long long)value);
    memcpy(field, text, width - 1);
}

static int put_header(struct buf *out, const char *name, char type, int64_t size, int64_t mtime)
{
    struct ustar h;
    memset(&h, 0, sizeof(h));
    memcpy(h.name, name, strlen(name));
    put_octal(h.mode, sizeof(h.mode), 0600);
    put_octal(h.uid, sizeof(h.uid), 0);
    put_octal(h.gid, sizeof(h.gid), 0);
    put_octal(h.size, sizeof(h.size), size);
    put_octal(h.mtime, sizeof(h.mtime), mtime);
    put_octal(h.device_major, sizeof(h.device_major), 0);
    put_octal(h.device_minor, sizeof(h.device_minor), 0);
    h.type = type;
    memcpy(h.magic, "ustar", sizeof(h.magic));
    memcpy(h.version, "00", sizeof(h.version));
    put_octal(h.checksum, sizeof(h.checksum) - 1, checksum(&h));
    h.checksum[sizeof(h.checksum) - 1] = ' ';
    return buf_add(out, &h, sizeof(h));
}

static int put_zeros(struct buf *out, size_t len)
{
    static const char zeros[3 * BLOCK];
    return buf_add(out, zeros, len);
}

/* "LEN size=N\n", where LEN counts itself. */
static int put_pax_size(struct buf *out, int64_t size, int64_t mtime)
{
    char number[32];
    char record[64];
    int digits = snprintf(number, sizeof(number), "%lld", (long long)size);
    int len = digits + (int)strlen("XX size=\n");
    snprintf(record, sizeof(record), "%d size=%s\n", len, number);
    if (put_header(out, "PaxHeaders/member", 'x', len, mtime) != 0 ||
        buf_add(out, record, (size_t)len) != 0) {
        return -1;
    }
    return put_zeros(out, (size_t)padding(len));
}

int workspace_bundle_put_head(struct buf *out, enum workspace_bundle_part part,
                              enum workspace_compression compression, int64_t size,
                              int64_t created_at_ms)
{
    int64_t mtime = created_at_ms / 1000;
    if (mtime < 0 || mtime > OCTAL_MAX) {
        mtime = 0;
    }
    if (size > OCTAL_MAX && put_pax_size(out, size, mtime) != 0) {
        return -1;
    }
    return put_header(out, part_name(part, compression), '0', size > OCTAL_MAX ? 0 : size, mtime);
}

int workspace_bundle_put_tail(struct buf *out, enum workspace_bundle_part part, int64_t size)
{
    size_t end = part == WORKSPACE_BUNDLE_ARCHIVE ? 2 * (size_t)BLOCK : 0;
    return put_zeros(out, (size_t)padding(size) + end);
}

/* --- reading --- */

struct bundle_reader {
    int fd;
    int64_t size;
    int64_t at;
};

static int invalid(struct error *err, const char *what)
{
    return error_set(err, ERROR_CHECKPOINT_INVALID, "the export: %s", what);
}

/* Exactly `len` bytes at the reader's place, which moves behind them. */
static int take(struct bundle_reader *r, void *out, size_t len, struct error *err)
{
    char *to = out;
    if ((int64_t)len > r->size - r->at) {
        return invalid(err, "it is cut short");
    }
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(r->fd, to + done, len - done, r->at + (int64_t)done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set_errno(err, ERROR_INTERNAL, errno, "cannot read the export");
        }
        if (n == 0) {
            return invalid(err, "it is cut short");
        }
        done += (size_t)n;
    }
    r->at += (int64_t)len;
    return 0;
}

/* Octal digits up to a NUL, a space or the field's end. GNU's other base is refused. */
static int read_octal(const char *field, size_t width, int64_t *out)
{
    int64_t value = 0;
    size_t i = 0;
    while (i < width && field[i] >= '0' && field[i] <= '7') {
        value = value * 8 + (field[i] - '0');
        i++;
    }
    if (i == 0 || (i < width && field[i] != '\0' && field[i] != ' ')) {
        return -1;
    }
    *out = value;
    return 0;
}

static int check_header(const struct ustar *h, struct error *err)
{
    int64_t sum;
    if (read_octal(h->checksum, sizeof(h->checksum), &sum) != 0 || sum != checksum(h)) {
        return invalid(err, "a header whose checksum is wrong");
    }
    if (memcmp(h->magic, "ustar", 5) != 0) {
        return invalid(err, "a header that is not ustar");
    }
    return 0;
}

static bool is_time(const char *key, size_t len)
{
    static const char *const names[] = {"mtime", "atime", "ctime"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (len == strlen(names[i]) && memcmp(key, names[i], len) == 0) {
            return true;
        }
    }
    return false;
}

static int read_decimal(const char *text, size_t len, int64_t *out)
{
    int64_t value = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || value > (INT64_MAX - 9) / 10) {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    *out = value;
    return len > 0 ? 0 : -1;
}

/* Takes one record "LEN KEY=VALUE\n" off the front. Only a size may be said, and times, which say
 * nothing here: every other key could give the member another name or shape. */
static int take_record(const char **text, size_t *left, int64_t *size, struct error *err)
{
    const char *space = memchr(*text, ' ', *left);
    int64_t len = 0;
    if (space == NULL || read_decimal(*text, (size_t)(space - *text), &len) != 0 ||
        len > (int64_t)*left || len <= space - *text + 1 || (*text)[len - 1] != '\n') {
        return invalid(err, "a pax header that is malformed");
    }
    const char *key = space + 1;
    size_t room = (size_t)(*text + len - 1 - key);
    const char *equals = memchr(key, '=', room);
    size_t key_len = equals != NULL ? (size_t)(equals - key) : 0;
    if (key_len == 4 && memcmp(key, "size", 4) == 0 && *size < 0) {
        if (read_decimal(equals + 1, room - key_len - 1, size) != 0) {
            return invalid(err, "a pax header that is malformed");
        }
    } else if (key_len == 0 || !is_time(key, key_len)) {
        return invalid(err, "a pax header that says more than a size");
    }
    *text += len;
    *left -= (size_t)len;
    return 0;
}

/* The records behind a pax header; *size stays -1 where they name none. */
static int take_pax(struct bundle_reader *r, const struct ustar *h, int64_t *size,
                    struct error *err)
{
    char records[PAX_BYTES_MAX];
    int64_t len;
    if (read_octal(h->size, sizeof(h->size), &len) != 0 || len > PAX_BYTES_MAX) {
        return invalid(err, "a pax header that is too large");
    }
    if (take(r, records, (size_t)len, err) != 0) {
        return -1;
    }
    r->at += padding(len);
    const char *text = records;
    for (size_t left = (size_t)len; left > 0;) {
        if (take_record(&text, &left, size, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static bool is_named(const struct ustar *h, enum workspace_bundle_part part,
                     enum workspace_compression compression)
{
    const char *name = part_name(part, compression);
    return h->prefix[0] == '\0' && strncmp(h->name, name, sizeof(h->name)) == 0;
}

/* The first name that may be either decides for both. */
static int check_name(struct workspace_bundle *b, const struct ustar *h,
                      enum workspace_bundle_part part, struct error *err)
{
    if (part == WORKSPACE_BUNDLE_FILES) {
        b->compression = is_named(h, part, WORKSPACE_COMPRESSION_NONE) ? WORKSPACE_COMPRESSION_NONE
                                                                       : WORKSPACE_COMPRESSION_ZSTD;
    }
    if (!is_named(h, part, b->compression)) {
        char name[sizeof(h->name) + 1] = "";
        memcpy(name, h->name, sizeof(h->name));
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the export: %s where %s must be",
                         workspace_path_show(name).text, part_name(part, b->compression));
    }
    if (h->type != '0' && h->type != '\0') {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the export: %s is no regular file",
                         part_name(part, b->compression));
    }
    return 0;
}

static int find_member(struct bundle_reader *r, struct workspace_bundle *b,
                       enum workspace_bundle_part part, struct error *err)
{
    struct ustar h;
    int64_t size = -1;
    if (take(r, &h, sizeof(h), err) != 0 || check_header(&h, err) != 0) {
        return -1;
    }
    if (h.type == 'x' && (take_pax(r, &h, &size, err) != 0 || take(r, &h, sizeof(h), err) != 0 ||
                          check_header(&h, err) != 0)) {
        return -1;
    }
    if (check_name(b, &h, part, err) != 0) {
        return -1;
    }
    if (size < 0 && read_octal(h.size, sizeof(h.size), &size) != 0) {
        return invalid(err, "a size that is no octal number");
    }
    if (part == WORKSPACE_BUNDLE_MANIFEST && size > WORKSPACE_MANIFEST_MAX) {
        return invalid(err, "the manifest is too large");
    }
    if (size > r->size - r->at || padding(size) > r->size - r->at - size) {
        return invalid(err, "it is cut short");
    }
    b->members[part] = (struct workspace_bundle_member){r->at, size};
    r->at += size + padding(size);
    return 0;
}

/* Two blocks of zeros, and nothing but zeros behind them. */
static int check_end(struct bundle_reader *r, struct error *err)
{
    static const char zeros[BLOCK];
    int64_t blocks = (r->size - r->at) / BLOCK;
    if (r->size % BLOCK != 0 || blocks < 2) {
        return invalid(err, "it is cut short");
    }
    if (r->size - r->at > BEHIND_MAX) {
        return invalid(err, "there is more behind its last member");
    }
    for (int64_t i = 0; i < blocks; i++) {
        char block[BLOCK];
        if (take(r, block, sizeof(block), err) != 0) {
            return -1;
        }
        if (memcmp(block, zeros, sizeof(block)) != 0) {
            return invalid(err, "there is more behind its last member");
        }
    }
    return 0;
}

int workspace_bundle_find(int fd, int64_t size, struct workspace_bundle *out, struct error *err)
{
    struct bundle_reader r = {fd, size, 0};
    struct workspace_bundle found = {.compression = WORKSPACE_COMPRESSION_NONE};
    for (int part = 0; part < WORKSPACE_BUNDLE_PARTS; part++) {
        if (find_member(&r, &found, (enum workspace_bundle_part)part, err) != 0) {
            return -1;
        }
    }
    if (check_end(&r, err) != 0) {
        return -1;
    }
    *out = found;
    return 0;
}
