#include "workspace/pax.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

struct header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char linkname[100];
    char magic[6];
    char version[2];
    char uname[32];
    char gname[32];
    char devmajor[8];
    char devminor[8];
    char prefix[155];
    char padding[12];
};
_Static_assert(sizeof(struct header) == PAX_BLOCK, "a tar header is one block");

static const int64_t OCTAL_11_MAX = 077777777777;

struct plan {
    const struct workspace_entry *entry;
    const struct workspace_pax_file *file;
    bool sparse;
    int64_t stored; /* bytes of content */
    int64_t size;   /* what the header says: with the map */
    int64_t seconds;
    int64_t nanoseconds;
};

static bool is_ascii(const char *s)
{
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s >= 0x80) {
            return false;
        }
    }
    return true;
}

static int digits(size_t n)
{
    int count = 1;
    for (; n >= 10; n /= 10) {
        count++;
    }
    return count;
}

/* A record is "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
static int add_record(struct buf *out, const char *key, const char *value)
{
    size_t rest = 1 + strlen(key) + 1 + strlen(value) + 1;
    size_t length = rest + (size_t)digits(rest);
    length = rest + (size_t)digits(length);
    return buf_addf(out, "%zu %s=%s\n", length, key, value);
}

static int add_number(struct buf *out, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    return add_record(out, key, text);
}

static int add_names(struct buf *out, const struct plan *p)
{
    const struct workspace_entry *e = p->entry;
    const char *target = e->target != NULL ? e->target : "";
    bool utf8 = utf8_is_valid(e->path, strlen(e->path)) && utf8_is_valid(target, strlen(target));
    if (!utf8 && add_record(out, "hdrcharset", "BINARY") != 0) {
        return -1;
    }
    if (p->sparse) {
        if (add_record(out, "GNU.sparse.major", "1") != 0 ||
            add_record(out, "GNU.sparse.minor", "0") != 0 ||
            add_record(out, "GNU.sparse.name", e->path) != 0 ||
            add_number(out, "GNU.sparse.realsize", e->size) != 0) {
            return -1;
        }
    } else {
        size_t slash = e->type == WORKSPACE_DIRECTORY ? 1 : 0;
        bool fits = strlen(e->path) + slash <= sizeof(((struct header *)NULL)->name);
        if ((!fits || !is_ascii(e->path)) && add_record(out, "path", e->path) != 0) {
            return -1;
        }
    }
    bool fits = strlen(target) <= sizeof(((struct header *)NULL)->linkname);
    return !fits || !is_ascii(target) ? add_record(out, "linkpath", target) : 0;
}

static int add_records(struct buf *out, const struct plan *p)
{
    if (add_names(out, p) != 0) {
        return -1;
    }
    if (p->size > OCTAL_11_MAX && add_number(out, "size", p->size) != 0) {
        return -1;
    }
    if (p->nanoseconds != 0) {
        char text[40];
        snprintf(text, sizeof(text), "%lld.%09lld", (long long)p->seconds,
                 (long long)p->nanoseconds);
        return add_record(out, "mtime", text);
    }
    if (p->seconds < 0 || p->seconds > OCTAL_11_MAX) {
        return add_number(out, "mtime", p->seconds);
    }
    return 0;
}

/* `size` bytes with a NUL at the end; 0 for what does not fit (a record has it then). */
static void put_octal(char *field, size_t size, int64_t value)
{
    uint64_t rest = value < 0 || (size == 12 && value > OCTAL_11_MAX) ? 0 : (uint64_t)value;
    for (size_t i = size - 1; i-- > 0;) {
        field[i] = (char)('0' + (rest & 7));
        rest >>= 3;
    }
}

static void put_text(char *field, size_t size, const char *text)
{
    memcpy(field, text, strnlen(text, size));
}

static void put_name(struct header *h, const struct plan *p)
{
    const char *path = p->entry->path;
    char name[sizeof(h->name) + 1] = "";
    if (p->sparse) {
        const char *slash = strrchr(path, '/');
        snprintf(name, sizeof(name), "GNUSparseFile.0/%s", slash != NULL ? slash + 1 : path);
    } else {
        snprintf(name, sizeof(name), "%s%s", path,
                 p->entry->type == WORKSPACE_DIRECTORY ? "/" : "");
    }
    put_text(h->name, sizeof(h->name), name);
}

static void init_header(struct header *h, char type, unsigned mode, int64_t size)
{
    memset(h, 0, sizeof(*h));
    h->type = type;
    put_octal(h->mode, sizeof(h->mode), mode);
    put_octal(h->uid, sizeof(h->uid), PAX_OWNER);
    put_octal(h->gid, sizeof(h->gid), PAX_OWNER);
    put_octal(h->size, sizeof(h->size), size);
    put_octal(h->mtime, sizeof(h->mtime), 0);
    put_octal(h->devmajor, sizeof(h->devmajor), 0);
    put_octal(h->devminor, sizeof(h->devminor), 0);
    memcpy(h->magic, "ustar", sizeof(h->magic));
    memcpy(h->version, "00", sizeof(h->version));
}

static int add_header(struct buf *out, struct header *h)
{
    memset(h->checksum, ' ', sizeof(h->checksum));
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof(*h); i++) {
        sum += ((const unsigned char *)h)[i];
    }
    put_octal(h->checksum, sizeof(h->checksum) - 1, sum);
    h->checksum[sizeof(h->checksum) - 2] = '\0';
    return buf_add(out, h, sizeof(*h));
}

static int add_padding(struct buf *out, size_t len)
{
    static const char zeros[PAX_BLOCK];
    size_t over = len % PAX_BLOCK;
    return over == 0 ? 0 : buf_add(out, zeros, PAX_BLOCK - over);
}

static int add_extension(struct buf *out, const struct plan *p)
{
    _cleanup_buf_ struct buf records;
    buf_init(&records, PAX_HEADERS_MAX);
    if (add_records(&records, p) != 0) {
        return -1;
    }
    if (records.len == 0) {
        return 0;
    }
    struct header h;
    init_header(&h, 'x', 0644, (int64_t)records.len);
    put_text(h.name, sizeof(h.name), "PaxHeaders/entry");
    if (add_header(out, &h) != 0 || buf_add(out, records.data, records.len) != 0) {
        return -1;
    }
    return add_padding(out, records.len);
}

static int64_t extents_total(const struct workspace_pax_file *file)
{
    int64_t total = 0;
    for (size_t i = 0; i < file->count; i++) {
        total += file->extents[i].len;
    }
    return total;
}

/* The map in decimal lines: how many runs, then offset and length of each. A hole at the end is an
 * empty run at the file's size, as GNU tar has it. */
static int make_map(struct buf *map, const struct plan *p)
{
    const struct workspace_pax_file *f = p->file;
    int64_t end = f->count > 0 ? f->extents[f->count - 1].offset + f->extents[f->count - 1].len : 0;
    bool hole_at_end = end < p->entry->size;
    if (buf_addf(map, "%zu\n", f->count + (hole_at_end ? 1 : 0)) != 0) {
        return -1;
    }
    for (size_t i = 0; i < f->count; i++) {
        if (buf_addf(map, "%lld\n%lld\n", (long long)f->extents[i].offset,
                     (long long)f->extents[i].len) != 0) {
            return -1;
        }
    }
    if (hole_at_end && buf_addf(map, "%lld\n0\n", (long long)p->entry->size) != 0) {
        return -1;
    }
    return add_padding(map, map->len);
}

static char type_flag(enum workspace_entry_type type)
{
    switch (type) {
    case WORKSPACE_DIRECTORY: return '5';
    case WORKSPACE_SYMLINK: return '2';
    case WORKSPACE_HARDLINK: return '1';
    default: return '0';
    }
}

static void plan_time(struct plan *p)
{
    static const int64_t second = 1000000000;
    int64_t ns = p->entry->mtime_ns;
    p->seconds = ns / second;
    p->nanoseconds = ns % second;
    if (p->nanoseconds < 0) {
        p->seconds--;
        p->nanoseconds = 0;
    } else if (p->seconds < 0) {
        p->nanoseconds = 0;
    }
}

int workspace_pax_header(struct buf *out, const struct workspace_entry *entry,
                         const struct workspace_pax_file *file, int64_t *stored)
{
    _cleanup_buf_ struct buf map;
    buf_init(&map, PAX_HEADERS_MAX);
    struct plan p = {.entry = entry, .file = file};
    if (file != NULL) {
        p.stored = extents_total(file);
        p.sparse = p.stored != entry->size;
        if (p.sparse && make_map(&map, &p) != 0) {
            return -1;
        }
    }
    p.size = p.stored + (int64_t)map.len;
    plan_time(&p);
    if (add_extension(out, &p) != 0) {
        return -1;
    }
    struct header h;
    init_header(&h, type_flag(entry->type), entry->mode & 01777, p.size);
    put_name(&h, &p);
    put_octal(h.mtime, sizeof(h.mtime), p.seconds);
    if (entry->target != NULL) {
        put_text(h.linkname, sizeof(h.linkname), entry->target);
    }
    if (add_header(out, &h) != 0 || (map.len > 0 && buf_add(out, map.data, map.len) != 0)) {
        return -1;
    }
    *stored = p.stored;
    return 0;
}
