#include "host/docker/process.h"

#include "guest/protocol.h"
#include "host/guest_binary.h"

#include <string.h>

enum { TAR_BLOCK = 512, TAR_END = 2 * TAR_BLOCK, GUEST_MODE = 0711, STATUS_OK = 200 };

/* The fields of a ustar header (POSIX.1-1988) that are not zero. */
enum {
    TAR_NAME = 0,
    TAR_MODE = 100,
    TAR_UID = 108,
    TAR_GID = 116,
    TAR_SIZE = 124,
    TAR_MTIME = 136,
    TAR_CHECKSUM = 148,
    TAR_TYPE = 156,
    TAR_MAGIC = 257,
};

static void tar_header(char block[TAR_BLOCK], const char *name, size_t size)
{
    memset(block, 0, TAR_BLOCK);
    memcpy(block + TAR_NAME, name, strlen(name));
    (void)snprintf(block + TAR_MODE, 8, "%07o", GUEST_MODE);
    (void)snprintf(block + TAR_UID, 8, "%07o", 0);
    (void)snprintf(block + TAR_GID, 8, "%07o", 0);
    (void)snprintf(block + TAR_SIZE, 12, "%011zo", size);
    (void)snprintf(block + TAR_MTIME, 12, "%011o", 0);
    memset(block + TAR_CHECKSUM, ' ', 8);
    block[TAR_TYPE] = '0';
    memcpy(block + TAR_MAGIC,
           "ustar\0"
           "00",
           8);
    unsigned sum = 0;
    for (int i = 0; i < TAR_BLOCK; i++) {
        sum += (unsigned char)block[i];
    }
    (void)snprintf(block + TAR_CHECKSUM, 8, "%06o", sum);
}

/* Returns owned; NULL without memory. */
static char *tar_new(size_t *len)
{
    size_t size;
    const void *binary = guest_binary(&size);
    size_t padded = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    char *tar = calloc(1, TAR_BLOCK + padded + TAR_END);
    if (tar == NULL) {
        return NULL;
    }
    tar_header(tar, strrchr(GUEST_PATH, '/') + 1, size);
    memcpy(tar + TAR_BLOCK, binary, size);
    *len = TAR_BLOCK + padded + TAR_END;
    return tar;
}

static int put(const struct docker_process_context *context, const char *path, const char *tar,
               size_t len, struct cancel *cancel, struct error *err)
{
    struct engine_request request = {
        .method = "PUT", .path = path, .raw = tar, .raw_len = len, .cancel = cancel};
    struct engine_answer answer = {0};
    if (engine_call(context->engine, &request, &answer, err) != 0) {
        return -1;
    }
    int result = 0;
    if (answer.status != STATUS_OK) {
        char scratch[64];
        result = error_set(err, ERROR_RUNTIME, "the helper could not be put into the container: %s",
                           engine_answer_message(&answer, scratch, sizeof(scratch)));
    }
    engine_answer_done(&answer);
    return result;
}

int docker_process_install_guest(const struct docker_process_context *context,
                                 struct cancel *cancel, struct error *err)
{
    size_t len;
    _cleanup_free_ char *tar = tar_new(&len);
    _cleanup_buf_ struct buf path;
    buf_init(&path, 1024);
    if (tar == NULL || buf_addf(&path, "/containers/%s/archive?path=", context->container) != 0 ||
        engine_escape(&path, GUEST_DIRECTORY) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return put(context, buf_str(&path), tar, len, cancel, err);
}
