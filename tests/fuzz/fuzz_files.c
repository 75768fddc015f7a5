/* What a helper inside may answer to calls for files, alone and within the engine's multiplexing.
 * First byte of the input: bits 0 and 1 the call (list, read, pack, remove), bit 2 multiplexed, bit
 * 3 a range is read instead of all, bit 4
 * a change instead: bit 0 a file is written, else an archive unpacked. What reaches the service is
 * clean, and an error has a code. */
#include "tests/fuzz/fuzz.h"

#include "host/docker/process_mux.h"
#include "host/files.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LIST,
    READ,
    PACK,
    REMOVE,
    CALLS,
    MULTIPLEXED = 4,
    RANGE = 8,
    CHANGE = 16,
    SIZE_MAX_READ = 1 << 20
};

struct helper {
    struct host host;
    const uint8_t *data;
    size_t size;
    bool multiplexed;
    bool range;
    struct process_mux mux;
    size_t given; /* bytes that it has said */
    bool waits;   /* says nothing behind its first frame before it is asked for a range */
    int in;
    int out;
};

static ssize_t unwrap(void *ctx, uint8_t *data, size_t len)
{
    struct helper *h = ctx;
    ssize_t kept = process_mux_unwrap(&h->mux, data, len);
    fuzz_require(kept <= (ssize_t)len);
    fuzz_require(strlen(h->mux.text) == h->mux.text_len);
    return kept;
}

static int over(void *ctx, struct error *err)
{
    (void)ctx;
    return error_set(err, ERROR_RUNTIME, "over");
}

static void close_ends(void *ctx)
{
    struct helper *h = ctx;
    close(h->in);
    close(h->out);
}

static size_t first_frame(const struct helper *h)
{
    size_t len = h->size < GUEST_FRAME_HEADER ? 0 : guest_get_u32(h->data + 1);
    return len > h->size || len + GUEST_FRAME_HEADER > h->size ? h->size : len + GUEST_FRAME_HEADER;
}

static void give(struct helper *h, size_t until)
{
    size_t len = until - h->given;
    fuzz_require(pwrite(h->out, h->data + h->given, len, (off_t)h->given) == (ssize_t)len);
    h->given = until;
}

static int op_guest(struct host *host, const struct host_guest_call *call, struct host_guest **out,
                    struct error *err)
{
    struct helper *h = (struct helper *)host;
    h->in = open("/dev/null", O_WRONLY | O_CLOEXEC);
    h->out = memfd_create("helper", MFD_CLOEXEC);
    fuzz_require(h->in >= 0 && h->out >= 0);
    give(h, h->waits ? first_frame(h) : h->size);
    const struct host_guest_ends ends = {
        .in = h->in,
        .out = h->out,
        .unwrap = h->multiplexed ? unwrap : NULL,
        .over = over,
        .close = close_ends,
        .ctx = h,
    };
    return host_guest_new(call, &ends, out, err);
}

static void check_entry(const struct workspace_entry *e)
{
    bool link = e->type == WORKSPACE_SYMLINK || e->type == WORKSPACE_HARDLINK;
    fuzz_require(e->type <= WORKSPACE_SPECIAL && e->mode <= 07777 && e->size >= 0);
    fuzz_require(strlen(e->path) <= WORKSPACE_PATH_MAX && link == (e->target != NULL));
}

static int each(void *ctx, const struct workspace_entry *item, struct error *err)
{
    (void)ctx;
    (void)err;
    check_entry(item);
    return 0;
}

/* --- a sink that checks the order of calls --- */

struct checking {
    struct workspace_sink sink;
    bool open;
    bool file;
    int64_t size;
    int64_t next;
};

static int begin(struct workspace_sink *sink, const struct workspace_entry *entry,
                 struct error *err)
{
    struct checking *c = (struct checking *)sink;
    (void)err;
    check_entry(entry);
    fuzz_require(!c->open && entry->path[0] != '\0');
    *c = (struct checking){
        .sink = c->sink, .open = true, .file = entry->type == WORKSPACE_FILE, .size = entry->size};
    return 0;
}

static int data(struct workspace_sink *sink, int64_t offset, const void *bytes, size_t len,
                struct error *err)
{
    struct checking *c = (struct checking *)sink;
    (void)bytes;
    (void)err;
    fuzz_require(c->open && c->file && len > 0 && offset >= c->next);
    fuzz_require(offset <= c->size && (int64_t)len <= c->size - offset);
    c->next = offset + (int64_t)len;
    return 0;
}

static int end(struct workspace_sink *sink, struct error *err)
{
    struct checking *c = (struct checking *)sink;
    (void)err;
    fuzz_require(c->open);
    c->open = false;
    return 0;
}

static const struct workspace_sink_ops checking_ops = {.begin = begin, .data = data, .end = end};

/* --- the calls --- */

static int choose(void *ctx, int64_t size, struct host_files_range *range, struct error *err)
{
    struct helper *h = ctx;
    give(h, h->size);
    if (size > SIZE_MAX_READ) {
        return error_set(err, ERROR_RESOURCE_LIMIT, "large");
    }
    if (h->range) {
        range->offset = size / 3;
        range->len = size / 2;
    }
    return 0;
}

static int read_file(struct helper *h, const struct host_files *files, struct error *err)
{
    struct host_files_reader reader = {
        .choose = choose, .ctx = h, .fd = memfd_create("content", MFD_CLOEXEC)};
    h->waits = !h->multiplexed;
    int result = host_files_read(files, "f", &reader, err);
    fuzz_require(reader.fd >= 0);
    close(reader.fd);
    return result;
}

static int pack(const struct host_files *files, struct error *err)
{
    struct checking c = {.sink = {.ops = &checking_ops}};
    int result = host_files_pack(files, "", &c.sink, err);
    fuzz_require(result != 0 || !c.open);
    return result;
}

static int write_file(const struct host_files *files, struct error *err)
{
    struct host_files_content content = {
        .fd = memfd_create("content", MFD_CLOEXEC), .size = 3, .mode = 0644};
    fuzz_require(content.fd >= 0 && pwrite(content.fd, "abc", 3, 0) == 3);
    int result = host_files_write(files, "f", &content, err);
    close(content.fd);
    return result;
}

static int feed(void *ctx, struct workspace_sink *sink, struct error *err)
{
    const struct workspace_entry entry = {
        .path = "d/f", .type = WORKSPACE_FILE, .mode = 0644, .size = 3};
    (void)ctx;
    return sink->ops->begin(sink, &entry, err) != 0 || sink->ops->data(sink, 0, "abc", 3, err) != 0
               ? -1
               : sink->ops->end(sink, err);
}

static int call(struct helper *h, unsigned which, struct error *err)
{
    const struct host_files files = {.host = &h->host, .deadline_mono_ms = INT64_MAX};
    if ((which & CHANGE) != 0) {
        return (which & 1) != 0 ? write_file(&files, err)
                                : host_files_unpack(&files, "d", feed, NULL, err);
    }
    switch (which % CALLS) {
    case LIST: return host_files_list(&files, "", each, NULL, err);
    case READ: return read_file(h, &files, err);
    case PACK: return pack(&files, err);
    default: return host_files_remove(&files, "f", true, err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const struct host_ops ops = {.name = "helper", .guest = op_guest};
    struct error err = ERROR_INIT;
    if (size == 0) {
        return 0;
    }
    struct helper h = {.host = {.ops = &ops},
                       .data = input + 1,
                       .size = size - 1,
                       .multiplexed = (input[0] & MULTIPLEXED) != 0,
                       .range = (input[0] & RANGE) != 0};
    int result = call(&h, input[0], &err);
    fuzz_require((result != 0) == (err.code != ERROR_NONE));
    return 0;
}
