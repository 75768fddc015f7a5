/* Entries into the workspace beside running programs: staged, then merged. */
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* What can be told before anything is taken in. */
static int look(int root, const char *path)
{
    int fd = beneath_open(root, path, O_PATH | O_DIRECTORY, 0);
    if (fd < 0) {
        return errno == ENOENT ? 0 : -1;
    }
    close(fd);
    return 0;
}

static int unpack(const struct stage *stage, const char *path, struct room *room, const char **at)
{
    *at = path;
    if (look(stage->root, path) != 0 || mkdirat(stage->fd, "tree", S_IRWXU) != 0) {
        return -1;
    }
    int tree = openat(stage->fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0 || load_into(tree, room, at) != 0) {
        return -1;
    }
    if (frame_service_gone()) {
        errno = EPROTO;
        return -1;
    }
    return merge_tree(stage, tree, path, at);
}

int unpack_main(const char *path, const char *memory)
{
    struct room room = {.limit = room_limit(memory)};
    static struct frame_out out;
    struct stage stage;
    const char *at = path;
    umask(0);
    oom_go_first();
    if (stage_open(&stage) != 0) {
        return frame_failed(&out, errno, "");
    }
    int result = unpack(&stage, path, &room, &at);
    stage_close(&stage);
    if (result != 0) {
        return frame_failed(&out, errno, at);
    }
    frame_out_seal(&out, GUEST_DONE, 0);
    return frame_out_drain(&out) == 0 ? 0 : 1;
}
