#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static uint8_t type_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR: return ITEM_DIRECTORY;
    case S_IFREG: return ITEM_FILE;
    case S_IFLNK: return ITEM_SYMLINK;
    default: return ITEM_SPECIAL;
    }
}

struct item item_of(const struct stat *st, const char *path)
{
    struct item item = {
        .type = type_of(st->st_mode),
        .mode = st->st_mode & 07777,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
        .path = path,
        .target = "",
    };
    if (item.type == ITEM_FILE) {
        item.size = st->st_size;
    }
    return item;
}

int item_look(int dir_fd, const char *name, struct stat *st, char *target)
{
    target[0] = '\0';
    if (fstatat(dir_fd, name, st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? 0 : -1;
    }
    if (!S_ISLNK(st->st_mode)) {
        return 1;
    }
    ssize_t len = readlinkat(dir_fd, name, target, GUEST_PATH_MAX);
    if (len < 0) {
        /* Replaced meanwhile: as good as vanished. */
        return errno == ENOENT || errno == EINVAL ? 0 : -1;
    }
    target[len] = '\0';
    return 1;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
    size_t len = strlen(text);
    guest_put_u32(at, (uint32_t)len);
    memcpy(at + 4, text, len);
    return at + 4 + len;
}

int item_send(struct frame_out *out, const struct item *item)
{
    uint8_t *start = frame_out_payload(out);
    start[0] = item->type;
    guest_put_u32(start + 1, item->mode);
    guest_put_i64(start + 5, item->mtime_ns);
    guest_put_i64(start + 13, item->size);
    uint8_t *at = put_text(start + GUEST_ENTRY_FIXED, item->path);
    at = put_text(at, item->target);
    frame_out_seal(out, (enum guest_frame_type)GUEST_ITEM, (size_t)(at - start));
    return frame_out_drain_watching(out);
}

/* The next run with content from *at on; false when there is none before `end`. */
static bool next_run(int fd, int64_t *at, int64_t end, int64_t *run_end)
{
    off_t data = lseek(fd, *at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
        return false;
    }
    if (data < 0) {
        *run_end = end; /* a file system that knows no holes */
        return true;
    }
    off_t hole = lseek(fd, data, SEEK_HOLE);
    *at = data;
    *run_end = hole < 0 || hole > end ? end : hole;
    return data < end;
}

int item_send_data(struct frame_out *out, int fd, struct item_range range, int64_t *sent)
{
    int64_t at = range.offset;
    int64_t run_end = range.sparse ? at : range.end;
    while (at < range.end) {
        if (at >= run_end && !next_run(fd, &at, range.end, &run_end)) {
            at = range.end;
            break;
        }
        int64_t left = run_end - at;
        size_t want = left < GUEST_FRAME_MAX - 8 ? (size_t)left : GUEST_FRAME_MAX - 8;
        ssize_t n = pread(fd, frame_out_payload(out) + 8, want, at);
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        guest_put_i64(frame_out_payload(out), at);
        frame_out_seal(out, (enum guest_frame_type)GUEST_DATA, 8 + (size_t)n);
        if (frame_out_drain_watching(out) != 0) {
            return 1;
        }
        at += n;
    }
    *sent = at;
    return 0;
}

/* --- in --- */

static int refuse(void)
{
    errno = EPROTO;
    return -1;
}

static bool is_path(const char *path)
{
    for (;;) {
        size_t len = strcspn(path, "/");
        if (len == 0 || (len == 1 && path[0] == '.') || (len == 2 && memcmp(path, "..", 2) == 0)) {
            return false;
        }
        if (path[len] == '\0') {
            return true;
        }
        path += len + 1;
    }
}

struct reader {
    const uint8_t *at;
    size_t left;
};

static const uint8_t *take(struct reader *r, size_t len)
{
    if (r->left < len) {
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += len;
    r->left -= len;
    return at;
}

static int take_text(struct reader *r, char text[GUEST_PATH_MAX + 1])
{
    const uint8_t *head = take(r, 4);
    uint32_t len = head != NULL ? guest_get_u32(head) : 0;
    const uint8_t *bytes = head != NULL && len <= GUEST_PATH_MAX ? take(r, len) : NULL;
    if (bytes == NULL || memchr(bytes, '\0', len) != NULL) {
        return refuse();
    }
    memcpy(text, bytes, len);
    text[len] = '\0';
    return 0;
}

static bool is_sound(const struct item *entry)
{
    bool has_target = entry->target[0] != '\0';
    if (!is_path(entry->path) || (entry->mode & ~07777U) != 0 || entry->size < 0 ||
        (entry->type != ITEM_FILE && entry->size != 0)) {
        return false;
    }
    switch (entry->type) {
    case ITEM_DIRECTORY:
    case ITEM_FILE: return !has_target;
    case ITEM_SYMLINK: return has_target;
    case ITEM_HARDLINK: return is_path(entry->target);
    default: return false;
    }
}

int item_parse(const uint8_t *payload, size_t len, struct item_texts *texts, struct item *entry)
{
    struct reader r = {payload, len};
    const uint8_t *fixed = take(&r, GUEST_ENTRY_FIXED);
    if (fixed == NULL || take_text(&r, texts->path) != 0 || take_text(&r, texts->target) != 0 ||
        r.left != 0) {
        return refuse();
    }
    *entry = (struct item){.type = fixed[0],
                           .mode = guest_get_u32(fixed + 1),
                           .mtime_ns = guest_get_i64(fixed + 5),
                           .size = guest_get_i64(fixed + 13),
                           .path = texts->path,
                           .target = texts->target};
    return is_sound(entry) ? 0 : refuse();
}
