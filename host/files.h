/* Files of an execution's workspace, on any host: what the helper inside does with them
 * (guest/protocol.h "files"), in the terms of the service. Each call is one conversation and
 * blocks; any thread. Paths are relative, normalised, any bytes, "" is the workspace.
 *
 * Errors carry the field "?path": ERROR_FILE_NOT_FOUND; ERROR_INVALID_REQUEST where the path leads
 * outside, is of the wrong kind or not permitted; ERROR_RESOURCE_LIMIT for content that does not
 * fit; ERROR_OVERLOADED where programs change it faster than it can be followed; ERROR_TIMEOUT. */
#ifndef EXECHOST_HOST_FILES_H
#define EXECHOST_HOST_FILES_H

#include "host/guest_load.h"
#include "host/host.h"
#include "workspace/entry.h"

/* Whose files; everything borrowed. */
struct host_files {
    struct host *host;
    struct host_identity id;
    const char *handle;
    int64_t memory_bytes; /* the execution's limit; 0: unknown */
    int64_t deadline_mono_ms;
    struct cancel *cancel;
};

/* Strings and entry are borrowed for the call; -1 ends the whole with its `err`. */
typedef int (*host_files_item_fn)(void *ctx, const struct workspace_entry *item, struct error *err);
/* The entries of a directory, sorted bytewise, their paths relative to it, types but hard link. At
 * most GUEST_LIST_MAX: more are ERROR_INVALID_REQUEST. */
int host_files_list(const struct host_files *files, const char *path, host_files_item_fn each,
                    void *ctx, struct error *err) WARN_UNUSED;

struct host_files_range {
    int64_t offset;
    int64_t len;
};
/* Chooses what is read of a file of `size` bytes; what it gets is all of it. */
typedef int (*host_files_choose_fn)(void *ctx, int64_t size, struct host_files_range *range,
                                    struct error *err);
struct host_files_reader {
    host_files_choose_fn choose;
    void *ctx;
    int fd; /* where the range is written to, at its own offsets */
};
/* All of one version of the file, unless a program writes into it in place. ERROR_STORAGE_FULL is
 * about the reader's descriptor. */
int host_files_read(const struct host_files *files, const char *path,
                    const struct host_files_reader *reader, struct error *err) WARN_UNUSED;

/* The `size` bytes of `fd` from its beginning become the file, whole or not at all; parents are
 * made. `mode` 0..0777. */
struct host_files_content {
    int fd;
    int64_t size;
    unsigned mode;
};
int host_files_write(const struct host_files *files, const char *path,
                     const struct host_files_content *content, struct error *err) WARN_UNUSED;

/* A file, link or empty directory; `recursive`: with all that is in it. A link is not followed. */
int host_files_remove(const struct host_files *files, const char *path, bool recursive,
                      struct error *err) WARN_UNUSED;

/* Feeds everything below a directory into `sink` in archive order. */
int host_files_pack(const struct host_files *files, const char *path, struct workspace_sink *sink,
                    struct error *err) WARN_UNUSED;
/* Brings the entries that `feed` drives into a directory, all or none. */
int host_files_unpack(const struct host_files *files, const char *path, host_guest_feed_fn feed,
                      void *ctx, struct error *err) WARN_UNUSED;

/* Takes apart the payload of GUEST_ITEM; strings go to `texts` (borrowed by `entry`). -1: it is
 * none. */
enum { HOST_FILES_TEXT_SIZE = WORKSPACE_PATH_MAX + 1 };
struct host_files_texts {
    char path[HOST_FILES_TEXT_SIZE];
    char target[HOST_FILES_TEXT_SIZE];
};
int host_files_decode_item(const uint8_t *payload, size_t len, struct host_files_texts *texts,
                           struct workspace_entry *entry) WARN_UNUSED;

#endif
