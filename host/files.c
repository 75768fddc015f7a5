#include "host/files.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEX_SIZE = 2 * WORKSPACE_PATH_MAX + 1, PIECE = 64 * 1024, SWEEP_MS = 10000 };

#define FIELD_PATH "?path"

/* --- what goes wrong inside --- */

static int invalid(struct error *err, const char *text, const char *what)
{
    return error_set_field(err, ERROR_INVALID_REQUEST, FIELD_PATH, "%s: %s", text, what);
}

static int files_failed(int errnum, const char *text, struct error *err)
{
    const char *reason = error_errno_text(errnum);
    text = text[0] != '\0' ? text : "the workspace";
    switch (errnum) {
    case ENOENT:
        return error_set_field(err, ERROR_FILE_NOT_FOUND, FIELD_PATH, "%s does not exist", text);
    case EXDEV: return invalid(err, text, "leads outside of the workspace");
    case ELOOP: return invalid(err, text, "leads through too many links");
    case ENOTDIR: return invalid(err, text, "is not a directory");
    case EISDIR: return invalid(err, text, "is a directory");
    case EINVAL: return invalid(err, text, "is a special file");
    case ENOTEMPTY:
    case EEXIST: return invalid(err, text, "exists or is not empty");
    case EACCES:
    case EPERM: return invalid(err, text, "permission denied");
    case ENAMETOOLONG: return invalid(err, text, "the name is too long");
    case E2BIG: return invalid(err, text, "has too many entries to be listed");
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
        return error_set_field(err, ERROR_RESOURCE_LIMIT, FIELD_PATH, "%s does not fit: %s", text,
                               reason);
    case EAGAIN:
        return error_set_field(err, ERROR_OVERLOADED, FIELD_PATH,
                               "%s changes faster than it can be followed", text);
    default:
        return error_set(err, ERROR_RUNTIME, "the helper inside failed: %s: %s", text,
                         reason != NULL ? reason : "unknown error");
    }
}

/* --- calls --- */

struct words {
    const char *subcommand;
    const char *path;
    const char *more[3];
};

static int start(const struct host_files *files, const struct words *words, struct host_guest **out,
                 struct error *err)
{
    char hex[HEX_SIZE];
    const char *argv[6] = {words->subcommand, hex, words->more[0], words->more[1], words->more[2]};
    size_t len = strlen(words->path);
    if (len > WORKSPACE_PATH_MAX) {
        return error_set_field(err, ERROR_INVALID_REQUEST, FIELD_PATH,
                               "the path is longer than %d bytes", WORKSPACE_PATH_MAX);
    }
    for (size_t i = 0; i < len; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned)(unsigned char)words->path[i]);
    }
    hex[2 * len] = '\0';
    const struct host_guest_call call = {
        .id = files->id,
        .handle = files->handle,
        .argv = argv,
        .deadline_mono_ms = files->deadline_mono_ms,
        .cancel = files->cancel,
        .failed = files_failed,
    };
    return files->host->ops->guest(files->host, &call, out, err);
}

/* A helper that was killed leaves what it had prepared, which takes room until it is cleared away.
 */
static void sweep(const struct host_files *files)
{
    struct host_files again = *files;
    struct error ignored = ERROR_INIT;
    const struct words words = {.subcommand = "sweep", .path = ""};
    _cleanup_guest_ struct host_guest *g = NULL;
    again.deadline_mono_ms = clock_mono_ms() + SWEEP_MS;
    if (start(&again, &words, &g, &ignored) == 0) {
        (void)!host_guest_expect_done(g, &ignored);
    }
}

/* Ends a conversation that was to change something. */
static int end_change(const struct host_files *files, struct host_guest **g, int result)
{
    bool answered = host_guest_answered(*g);
    host_guest_free(TAKE_PTR(*g));
    if (result != 0 && !answered && !cancel_fired(files->cancel)) {
        sweep(files);
    }
    return result;
}

/* --- items --- */

static const uint8_t *take_text(const uint8_t *at, const uint8_t *end, char *text)
{
    if (at == NULL || end - at < 4) {
        return NULL;
    }
    uint32_t len = guest_get_u32(at);
    at += 4;
    if (len > WORKSPACE_PATH_MAX || len > (size_t)(end - at) || memchr(at, '\0', len) != NULL) {
        return NULL;
    }
    memcpy(text, at, len);
    text[len] = '\0';
    return at + len;
}

int host_files_decode_item(const uint8_t *payload, size_t len, struct host_files_texts *texts,
                           struct workspace_entry *entry)
{
    const uint8_t *end = payload + len;
    const uint8_t *at = len < GUEST_ENTRY_FIXED ? NULL : payload + GUEST_ENTRY_FIXED;
    at = take_text(at, end, texts->path);
    at = take_text(at, end, texts->target);
    if (at != end || payload[0] > WORKSPACE_SPECIAL || guest_get_u32(payload + 1) > 07777 ||
        guest_get_i64(payload + 13) < 0) {
        return -1;
    }
    bool is_link = payload[0] == WORKSPACE_SYMLINK || payload[0] == WORKSPACE_HARDLINK;
    if (is_link != (texts->target[0] != '\0')) {
        return -1;
    }
    *entry = (struct workspace_entry){
        .type = (enum workspace_entry_type)payload[0],
        .mode = guest_get_u32(payload + 1),
        .mtime_ns = guest_get_i64(payload + 5),
        .size = guest_get_i64(payload + 13),
        .path = texts->path,
        .target = is_link ? texts->target : NULL,
    };
    return 0;
}

/* --- list --- */

int host_files_list(const struct host_files *files, const char *path, host_files_item_fn each,
                    void *ctx, struct error *err)
{
    _cleanup_guest_ struct host_guest *g = NULL;
    _cleanup_free_ struct host_files_texts *texts = malloc(sizeof(*texts));
    const struct words words = {.subcommand = "list", .path = path};
    if (texts == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (start(files, &words, &g, err) != 0) {
        return -1;
    }
    for (int count = 0;; count++) {
        struct host_guest_frame frame;
        struct workspace_entry entry;
        if (host_guest_receive(g, &frame, err) != 0) {
            return -1;
        }
        if (frame.type == GUEST_DONE) {
            return 0;
        }
        if (frame.type != GUEST_ITEM || count == GUEST_LIST_MAX ||
            host_files_decode_item(frame.payload, frame.len, texts, &entry) != 0) {
            return host_guest_out_of_place(err);
        }
        if (each(ctx, &entry, err) != 0) {
            return -1;
        }
    }
}

/* --- read --- */

static int write_at(int fd, const uint8_t *data, size_t len, int64_t offset, struct error *err)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, ERROR_INTERNAL, n < 0 ? errno : EIO,
                                   "keeping the content of a file");
        }
        data += n;
        len -= (size_t)n;
        offset += n;
    }
    return 0;
}

static int receive_size(struct host_guest *g, int64_t *size, struct error *err)
{
    struct host_guest_frame frame;
    _cleanup_free_ struct host_files_texts *texts = malloc(sizeof(*texts));
    struct workspace_entry entry;
    if (texts == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (host_guest_receive(g, &frame, err) != 0) {
        return -1;
    }
    if (frame.type != GUEST_ITEM ||
        host_files_decode_item(frame.payload, frame.len, texts, &entry) != 0 ||
        entry.type != WORKSPACE_FILE) {
        return host_guest_out_of_place(err);
    }
    *size = entry.size;
    return 0;
}

static int receive_range(struct host_guest *g, struct host_files_range range, int fd,
                         struct error *err)
{
    int64_t at = range.offset;
    int64_t end = range.offset + range.len;
    for (;;) {
        struct host_guest_frame frame;
        if (host_guest_receive(g, &frame, err) != 0) {
            return -1;
        }
        if (frame.type == GUEST_DONE) {
            return at == end ? 0 : host_guest_out_of_place(err);
        }
        if (frame.type != GUEST_DATA || frame.len <= 8 || guest_get_i64(frame.payload) != at ||
            (int64_t)frame.len - 8 > end - at) {
            return host_guest_out_of_place(err);
        }
        if (write_at(fd, frame.payload + 8, frame.len - 8, at, err) != 0) {
            return -1;
        }
        at += (int64_t)frame.len - 8;
    }
}

int host_files_read(const struct host_files *files, const char *path,
                    const struct host_files_reader *reader, struct error *err)
{
    _cleanup_guest_ struct host_guest *g = NULL;
    const struct words words = {.subcommand = "read", .path = path};
    uint8_t request[GUEST_FRAME_HEADER + 16] = {GUEST_READ};
    int64_t found = 0;
    if (start(files, &words, &g, err) != 0 || receive_size(g, &found, err) != 0) {
        return -1;
    }
    struct host_files_range range = {.len = found};
    if (reader->choose(reader->ctx, found, &range, err) != 0) {
        return -1;
    }
    guest_put_u32(request + 1, 16);
    guest_put_i64(request + GUEST_FRAME_HEADER, range.offset);
    guest_put_i64(request + GUEST_FRAME_HEADER + 8, range.len);
    return host_guest_send(g, request, sizeof(request), err) != 0
               ? -1
               : receive_range(g, range, reader->fd, err);
}

/* --- write, remove --- */

static int send_content(struct host_guest *g, int fd, int64_t size, struct error *err)
{
    _cleanup_free_ uint8_t *piece = malloc(PIECE);
    if (piece == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    for (int64_t at = 0; at < size;) {
        int64_t left = size - at;
        ssize_t n = pread(fd, piece, left < PIECE ? (size_t)left : PIECE, at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, ERROR_INTERNAL, n < 0 ? errno : EIO,
                                   "reading the content of a file");
        }
        if (host_guest_send(g, piece, (size_t)n, err) != 0) {
            return -1;
        }
        at += n;
    }
    return 0;
}

int host_files_write(const struct host_files *files, const char *path,
                     const struct host_files_content *content, struct error *err)
{
    _cleanup_guest_ struct host_guest *g = NULL;
    char memory[24];
    char mode[16];
    char size[24];
    (void)snprintf(memory, sizeof(memory), "%lld", (long long)files->memory_bytes);
    (void)snprintf(mode, sizeof(mode), "%o", content->mode & 0777);
    (void)snprintf(size, sizeof(size), "%lld", (long long)content->size);
    const struct words words = {.subcommand = "write", .path = path, .more = {memory, mode, size}};
    if (start(files, &words, &g, err) != 0) {
        return -1;
    }
    int result = send_content(g, content->fd, content->size, err);
    if (result == 0) {
        result = host_guest_expect_done(g, err);
    }
    return end_change(files, &g, result);
}

int host_files_remove(const struct host_files *files, const char *path, bool recursive,
                      struct error *err)
{
    _cleanup_guest_ struct host_guest *g = NULL;
    const struct words words = {.subcommand = recursive ? "remove-tree" : "remove", .path = path};
    if (start(files, &words, &g, err) != 0) {
        return -1;
    }
    return end_change(files, &g, host_guest_expect_done(g, err));
}

/* --- archives --- */

struct packing {
    struct workspace_sink *sink;
    struct host_files_texts texts;
    bool open; /* an entry has begun and is not ended */
    bool is_file;
    int64_t size;
    int64_t next; /* where content may go on */
};

static int end_entry(struct packing *p, struct error *err)
{
    if (!p->open) {
        return 0;
    }
    p->open = false;
    return p->sink->ops->end(p->sink, err);
}

static int pack_item(struct packing *p, const struct host_guest_frame *frame, struct error *err)
{
    struct workspace_entry entry;
    if (end_entry(p, err) != 0) {
        return -1;
    }
    if (host_files_decode_item(frame->payload, frame->len, &p->texts, &entry) != 0 ||
        entry.path[0] == '\0') {
        return host_guest_out_of_place(err);
    }
    p->open = true;
    p->is_file = entry.type == WORKSPACE_FILE;
    p->size = entry.size;
    p->next = 0;
    return p->sink->ops->begin(p->sink, &entry, err);
}

static int pack_data(struct packing *p, const struct host_guest_frame *frame, struct error *err)
{
    if (frame->len <= 8 || !p->open || !p->is_file) {
        return host_guest_out_of_place(err);
    }
    int64_t offset = guest_get_i64(frame->payload);
    int64_t len = (int64_t)frame->len - 8;
    if (offset < p->next || offset > p->size || len > p->size - offset) {
        return host_guest_out_of_place(err);
    }
    p->next = offset + len;
    return p->sink->ops->data(p->sink, offset, frame->payload + 8, (size_t)len, err);
}

static int pack_all(struct packing *p, struct host_guest *g, struct error *err)
{
    for (;;) {
        struct host_guest_frame frame;
        if (host_guest_receive(g, &frame, err) != 0) {
            return -1;
        }
        int result;
        switch (frame.type) {
        case GUEST_ITEM: result = pack_item(p, &frame, err); break;
        case GUEST_DATA: result = pack_data(p, &frame, err); break;
        case GUEST_DONE: return end_entry(p, err);
        default: return host_guest_out_of_place(err);
        }
        if (result != 0) {
            return -1;
        }
    }
}

int host_files_pack(const struct host_files *files, const char *path, struct workspace_sink *sink,
                    struct error *err)
{
    _cleanup_guest_ struct host_guest *g = NULL;
    _cleanup_free_ struct packing *p = calloc(1, sizeof(*p));
    const struct words words = {.subcommand = "pack", .path = path};
    if (p == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    p->sink = sink;
    return start(files, &words, &g, err) != 0 ? -1 : pack_all(p, g, err);
}

int host_files_unpack(const struct host_files *files, const char *path, host_guest_feed_fn feed,
                      void *ctx, struct error *err)
{
    _cleanup_guest_ struct host_guest *g = NULL;
    char memory[24];
    (void)snprintf(memory, sizeof(memory), "%lld", (long long)files->memory_bytes);
    const struct words words = {.subcommand = "unpack", .path = path, .more = {memory}};
    if (start(files, &words, &g, err) != 0) {
        return -1;
    }
    return end_change(files, &g, host_guest_load(g, feed, ctx, err));
}
