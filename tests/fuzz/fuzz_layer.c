/* Layers of an image, one behind the other with a byte that says how long each is, unpacked and
 * laid over each other in a directory. Nothing outside of that changes, and nothing is in it that
 * has no place there. */
#include "tests/fuzz/fuzz.h"

#include "base/file.h"
#include "host/native/images_internal.h"

#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>

enum { BYTES_MAX = 1024 * 1024, ENTRIES_MAX = 200, LAYERS_MAX = 3, PIECE = 1000 };

struct bytes {
    const uint8_t *data;
    size_t left;
    bool fails; /* at its end */
};

static ssize_t read_bytes(void *ctx, const void **data, struct error *err)
{
    struct bytes *b = ctx;
    size_t n = b->left < PIECE ? b->left : PIECE;

    if (n == 0 && b->fails) {
        return error_set(err, ERROR_INVALID_REQUEST, "the source failed");
    }
    *data = b->data;
    b->data += n;
    b->left -= n;
    return (ssize_t)n;
}

static int apply(struct native_image_tree *tree, struct bytes *bytes, struct error *err)
{
    struct native_image_stream *stream;
    struct native_image_stream_facts facts;
    struct native_image_source_bytes source = {.read = read_bytes, .ctx = bytes};
    int result;

    bool packed = native_image_is_packed(bytes->data, bytes->left);
    if (native_image_stream_open(source, BYTES_MAX, &stream, err) < 0) {
        native_image_stream_free(NULL);
        return -1;
    }
    native_image_tree_next_layer(tree);
    source = (struct native_image_source_bytes){.read = native_image_stream_read, .ctx = stream};
    result = native_image_layer_feed(source, &tree->sink, err);
    result = result == 0 ? native_image_stream_finish(stream, &facts, err) : result;
    native_image_stream_free(stream);
    if (result == 0) {
        fuzz_require(digest_is_valid(facts.digest) && digest_is_valid(facts.raw_digest));
        fuzz_require(packed == (strcmp(facts.digest, facts.raw_digest) != 0));
    }
    return result;
}

static int check_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)path;
    (void)flag;
    (void)ftw;
    fuzz_require(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode));
    fuzz_require(st->st_uid == geteuid());
    fuzz_require(st->st_size <= 2 * BYTES_MAX);
    return 0;
}

static void check_outside(const char *dir)
{
    char path[128];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/guard", dir);
    fuzz_require(stat(path, &st) == 0 && st.st_size == 0 && st.st_nlink == 1);
    fuzz_require(stat(dir, &st) == 0 && st.st_nlink == 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct native_images_limits LIMITS = {.bytes = BYTES_MAX, .entries = ENTRIES_MAX};
    char dir[] = "/dev/shm/fuzz-layer-XXXXXX";
    char root[64];
    char guard[64];
    struct native_image_tree tree;
    struct error err = ERROR_INIT;
    int root_fd;
    int result = 0;

    fuzz_require(mkdtemp(dir) != NULL);
    (void)snprintf(root, sizeof(root), "%s/root", dir);
    (void)snprintf(guard, sizeof(guard), "%s/guard", dir);
    fuzz_require(mkdir(root, 0700) == 0);
    fuzz_require(file_write_atomic(guard, "", 0, 0600, &err) == 0);
    root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    native_image_tree_init(&tree, root_fd, &LIMITS);
    for (int i = 0; i < LAYERS_MAX && size > 0 && result == 0; i++) {
        /* In half kilobytes; 255 is all the rest, 254 too, and a failure behind it. */
        size_t want = data[0] >= 254 ? size - 1 : (size_t)data[0] * 512;
        size_t len = want < size - 1 ? want : size - 1;
        char *copy = fuzz_copy(data + 1, len);
        struct bytes bytes = {.data = (const uint8_t *)copy, .left = len, .fails = data[0] == 254};

        result = apply(&tree, &bytes, &err);
        free(copy);
        data += len + 1;
        size -= len + 1;
    }
    fuzz_require(result == 0 || err.code == ERROR_INVALID_REQUEST);
    fuzz_require(native_image_tree_finish(&tree, &err) == 0);
    fuzz_require(faccessat(root_fd, "workspace", X_OK, AT_SYMLINK_NOFOLLOW) == 0);
    native_image_tree_done(&tree);
    close(root_fd);
    check_outside(dir);
    fuzz_require(nftw(root, check_entry, 16, FTW_PHYS) == 0);
    fuzz_require(dir_remove(dir, &err) == 0);
    return 0;
}
