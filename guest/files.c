/* Single files and directories of the workspace: list, read, write, remove. */
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, COMMIT_TRIES = 8, FILE_MODE_MAX = 0777 };

static struct frame_out out;

static int failed(const char *path)
{
    return frame_failed(&out, errno, path);
}

static int done(void)
{
    frame_out_seal(&out, GUEST_DONE, 0);
    return frame_out_drain(&out) == 0 ? 0 : 1;
}

/* --- list --- */

static int send_names(int dir, const struct names *names)
{
    char target[GUEST_PATH_MAX + 1];
    const char *at = names->text;
    for (size_t i = 0; i < names->count; i++, at += strlen(at) + 1) {
        struct stat st;
        int there = item_look(dir, at, &st, target);
        if (there < 0) {
            return failed(at);
        }
        if (there == 0) {
            continue;
        }
        struct item item = item_of(&st, at);
        item.target = target;
        if (item_send(&out, &item) != 0) {
            return 1;
        }
    }
    return done();
}

int list_main(const char *path)
{
    struct names names;
    int root = beneath_root();
    int dir = root < 0 ? -1 : beneath_open(root, path, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0 || names_read(dir, stage_is_root(root, dir), &names) != 0) {
        return failed(path);
    }
    if (names.count > GUEST_LIST_MAX) {
        errno = E2BIG;
        return failed(path);
    }
    return send_names(dir, &names);
}

/* --- read --- */

/* Never opens what may block or act on being opened. */
static int open_regular(int root, const char *path, struct stat *st)
{
    int look = beneath_open(root, path, O_PATH, 0);
    if (look < 0 || fstat(look, st) != 0) {
        return -1;
    }
    close(look);
    int fd =
        S_ISREG(st->st_mode) ? beneath_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0) : -1;
    if (fd >= 0 && fstat(fd, st) != 0) {
        return -1;
    }
    if (!S_ISREG(st->st_mode)) {
        guest_close(&fd);
        errno = S_ISDIR(st->st_mode) ? EISDIR : EINVAL;
    }
    return fd;
}

static int send_range(int fd, const char *path, struct item_range range)
{
    int64_t sent;
    int result = item_send_data(&out, fd, range, &sent);
    if (result > 0) {
        return 1;
    }
    if (result == 0 && sent < range.end) {
        errno = EAGAIN;
        result = -1;
    }
    return result != 0 ? failed(path) : done();
}

int read_main(const char *path)
{
    static uint8_t payload[GUEST_FRAME_MAX];
    struct stat st;
    uint8_t type;
    size_t len;
    int root = beneath_root();
    int fd = root < 0 ? -1 : open_regular(root, path, &st);
    if (fd < 0) {
        return failed(path);
    }
    struct item item = item_of(&st, "");
    if (item_send(&out, &item) != 0) {
        return 1;
    }
    int got = frame_read(&type, payload, &len);
    if (got == 0) {
        return 1;
    }
    int64_t offset = got > 0 && len == 16 ? guest_get_i64(payload) : -1;
    int64_t length = got > 0 && len == 16 ? guest_get_i64(payload + 8) : -1;
    if (type != GUEST_READ || offset < 0 || length < 0 || offset > item.size ||
        length > item.size - offset) {
        errno = EPROTO;
        return failed(path);
    }
    return send_range(fd, path, (struct item_range){.offset = offset, .end = offset + length});
}

/* --- write --- */

/* `text` in `base`, up to `max`; -1 when it is none. */
static int64_t parse(const char *text, int base, int64_t max)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, base);
    return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0' && value <= max ? value : -1;
}

static int write_all(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* Takes `size` bytes from standard input: 0, -1 with errno, EPROTO: they end before. */
static int take_content(int fd, int64_t size, int64_t limit)
{
    static uint8_t piece[PIECE];
    struct room room = {.limit = limit};
    while (size > 0) {
        ssize_t n = read(STDIN_FILENO, piece, size < PIECE ? (size_t)size : PIECE);
        if (n == 0) {
            errno = EPROTO;
        }
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return -1;
        }
        if (n > 0 && (room_take(&room, n) != 0 || write_all(fd, piece, (size_t)n) != 0)) {
            return -1;
        }
        size -= n > 0 ? n : 0;
    }
    return 0;
}

/* Brings the staged file to its name. What had to be made for it goes again when that fails. */
static int commit(const struct stage *stage, const char *path)
{
    char target[GUEST_PATH_MAX + 1];
    const char *name;
    unsigned made;
    size_t len = strlen(path);
    if (len == 0 || len > GUEST_PATH_MAX) {
        errno = len == 0 ? EISDIR : ENAMETOOLONG;
        return -1;
    }
    const char *slash = strrchr(path, '/');
    size_t parent_len = slash == NULL ? 0 : (size_t)(slash - path);
    memcpy(target, path, len + 1);
    int result = beneath_make(stage->root, path, parent_len, &made);
    int parent = result == 0 ? beneath_target(stage->root, target, &name) : -1;
    if (parent >= 0) {
        result = renameat(stage->fd, "file", parent, name);
        int errnum = errno;
        close(parent);
        errno = errnum;
    }
    if (parent < 0 || result != 0) {
        beneath_unmake(stage->root, path, parent_len, made);
        return -1;
    }
    return 0;
}

struct content {
    int64_t limit;
    int64_t mode;
    int64_t size;
};

static int write_staged(const struct stage *stage, const char *path, const struct content *content)
{
    struct room room = {.limit = content->limit};
    if (room_take(&room, content->size) != 0) {
        return -1;
    }
    int fd = openat(stage->fd, "file", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -1;
    }
    int result = take_content(fd, content->size, content->limit) == 0 &&
                         fchmod(fd, (mode_t)content->mode) == 0
                     ? 0
                     : -1;
    int errnum = errno;
    close(fd);
    errno = errnum;
    if (result == 0 && frame_service_gone()) {
        errno = EPROTO;
        result = -1;
    }
    /* A parent that is taken away between its making and its use is made again. */
    for (int try = 0; result == 0; try++) {
        result = commit(stage, path);
        if (result == 0 || errno != ENOENT || try == COMMIT_TRIES) {
            return result;
        }
        result = 0;
    }
    return result;
}

int write_main(const char *path, const struct write_words *words)
{
    struct stage stage;
    const struct content content = {.limit = room_limit(words->memory),
                                    .mode = parse(words->mode, 8, FILE_MODE_MAX),
                                    .size = parse(words->size, 10, INT64_MAX)};
    umask(0);
    oom_go_first();
    if (content.mode < 0 || content.size < 0) {
        errno = EPROTO;
        return failed(path);
    }
    if (stage_open(&stage) != 0) {
        return failed("");
    }
    int result = write_staged(&stage, path, &content);
    stage_close(&stage);
    return result == 0 ? done() : failed(path);
}

/* --- remove --- */

/* Out of sight at once, then away. */
static int remove_tree(const char *path)
{
    struct stage stage;
    const char *name;
    if (stage_open(&stage) != 0) {
        return -1;
    }
    int parent = beneath_parent(stage.root, path, &name);
    int result = parent < 0 ? -1 : stage_take(&stage, parent, name);
    guest_close(&parent);
    if (result == 0) {
        result = stage_remove_tree(&stage);
    }
    stage_close(&stage);
    return result;
}

int remove_main(const char *path, bool recursive)
{
    const char *name;
    int root = beneath_root();
    int parent = root < 0 ? -1 : beneath_parent(root, path, &name);
    int result = parent < 0 ? -1 : unlinkat(parent, name, 0);
    if (result != 0 && parent >= 0 && (errno == EISDIR || errno == EPERM)) {
        result = unlinkat(parent, name, AT_REMOVEDIR);
        if (result != 0 && recursive && (errno == ENOTEMPTY || errno == EEXIST)) {
            result = remove_tree(path);
        }
    }
    return result == 0 ? done() : failed(path);
}

int sweep_main(const char *path)
{
    int root = beneath_root();
    if (root < 0) {
        return failed(path);
    }
    stage_clear_stale(root);
    guest_close(&root);
    return done();
}
