/* What the workspace tests share: trees on disk as entry streams and back, and a sink that writes
 * down what it was given. One thread. */
#ifndef EXECHOST_TESTS_WORKSPACE_FIXTURE_H
#define EXECHOST_TESTS_WORKSPACE_FIXTURE_H

#include "base/buf.h"
#include "workspace/archive.h"
#include "workspace/entry.h"
#include "workspace/tar.h"

#include <stdbool.h>

/* Feeds the tree below `dir` in archive order, hard links as such, every byte of every file. */
int fixture_feed_tree(const char *dir, struct workspace_sink *sink, struct error *err);

/* Applies entries below a directory. */
struct fixture_apply {
    struct workspace_sink sink;
    int dir_fd;
    int file_fd;
    struct workspace_entry entry;
    struct {
        char *path;
        int64_t mtime_ns;
    } directories[256];
    size_t directory_count;
    char path[WORKSPACE_PATH_MAX + 1];
};
void fixture_apply_init(struct fixture_apply *a, const char *dir);
void fixture_apply_done(struct fixture_apply *a); /* sets the directories' times */

/* One line an entry: type path mode size mtime digest target; sorted. Returns owned. */
char *fixture_describe_tree(const char *dir);
/* Bytes on disk of one file. */
int64_t fixture_disk_bytes(const char *dir, const char *name);

/* Writes down "type path mode size mtime > target" and "+offset,length" a line. */
struct fixture_log {
    struct workspace_sink sink;
    struct buf text;
    int64_t data_bytes;
};
void fixture_log_init(struct fixture_log *l);
void fixture_log_done(struct fixture_log *l);

/* A directory for one test, removed with all it holds. */
void fixture_directory_make(char out[64]);
void fixture_directory_remove(const char *dir);
void fixture_file_put(const char *dir, const char *name, const void *data, size_t len);
/* A nameless file open for reading and writing. */
int fixture_temporary(void);

/* A tar stream in memory, handed out in pieces of `piece` bytes. */
struct fixture_bytes {
    const char *data;
    size_t len;
    size_t at;
    size_t piece;
};
ssize_t fixture_bytes_read(void *ctx, const void **data, struct error *err);

#endif
