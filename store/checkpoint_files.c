#include "store/checkpoints.h"

#include "base/buf.h"
#include "base/fault.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { MANIFEST_MAX = 16 * 1024 * 1024 };

static const char DRAFT_PREFIX[] = ".new-"; /* no id begins with a dot */
static const char MANIFEST_NAME[] = "manifest.json";

static const char *archive_name(bool compressed)
{
    return compressed ? "workspace.tar.zst" : "workspace.tar";
}

static const char *files_name(bool compressed)
{
    return compressed ? "files.jsonl.zst" : "files.jsonl";
}

/* Paths are put together from these, so neither may lead elsewhere. */
static int check_names(const char *tenant, const char *checkpoint_id, struct error *err)
{
    if (!id_is_valid(tenant) || !id_is_valid(checkpoint_id)) {
        return error_set(err, ERROR_INTERNAL, "a checkpoint's name is no identifier");
    }
    return 0;
}

static char *path_join(const char *directory, const char *name)
{
    char *path = NULL;

    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static int out_of_memory(struct error *err)
{
    return error_set(err, ERROR_INTERNAL, "out of memory");
}

static int make_target(const char *root, const char *tenant, const char *checkpoint_id, char **out,
                       struct error *err)
{
    char *path = NULL;

    if (check_names(tenant, checkpoint_id, err) != 0) {
        return -1;
    }
    if (asprintf(&path, "%s/%s/%s", root, tenant, checkpoint_id) < 0) {
        return out_of_memory(err);
    }
    *out = path;
    return 0;
}

/* The directory a path of this file lies in. */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return strndup(path, (size_t)(slash - path));
}

static int sync_parent(const char *path, struct error *err)
{
    _cleanup_free_ char *parent = parent_of(path);

    return parent == NULL ? out_of_memory(err) : dir_sync(parent, err);
}

/* --- a draft --- */

static int create_file(const char *directory, const char *name, int *out, struct error *err)
{
    _cleanup_free_ char *path = path_join(directory, name);
    int errnum = fault_point("checkpoint.file.create");
    int fd;

    if (path == NULL) {
        return out_of_memory(err);
    }
    fd = errnum != 0 ? -1 : open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum != 0 ? errnum : errno,
                               "cannot create %s", path);
    }
    *out = fd;
    return 0;
}

static int draft_directory(const char *root, const char *tenant, const char *checkpoint_id,
                           char **out, struct error *err)
{
    char random[ID_SIZE];
    _cleanup_free_ char *path = NULL;
    int errnum;

    id_generate("d", random);
    if (asprintf(&path, "%s/%s/%s%s-%s", root, tenant, DRAFT_PREFIX, checkpoint_id, random + 2) <
        0) {
        path = NULL;
        return out_of_memory(err);
    }
    errnum = fault_point("checkpoint.draft.mkdir");
    if (errnum == 0 && mkdir(path, 0700) != 0) {
        errnum = errno;
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot make directory %s", path);
    }
    *out = TAKE_PTR(path);
    return 0;
}

static int make_parent(const char *root, const char *tenant, struct error *err)
{
    _cleanup_free_ char *parent = path_join(root, tenant);

    return parent == NULL ? out_of_memory(err) : dir_make(parent, 0700, err);
}

static int open_draft(struct store_checkpoint_draft *draft, bool compressed, struct error *err)
{
    if (create_file(draft->directory, archive_name(compressed), &draft->archive_fd, err) != 0) {
        return -1;
    }
    return create_file(draft->directory, files_name(compressed), &draft->files_fd, err);
}

int store_checkpoint_draft_open(const char *root, const char *tenant, const char *checkpoint_id,
                                bool compressed, struct store_checkpoint_draft *out,
                                struct error *err)
{
    struct store_checkpoint_draft draft = {.archive_fd = -1, .files_fd = -1};

    if (make_target(root, tenant, checkpoint_id, &draft.target, err) != 0 ||
        make_parent(root, tenant, err) != 0 ||
        draft_directory(root, tenant, checkpoint_id, &draft.directory, err) != 0 ||
        open_draft(&draft, compressed, err) != 0) {
        store_checkpoint_draft_done(&draft);
        return -1;
    }
    *out = draft;
    return 0;
}

static int sync_fd(int fd, const char *fault, const char *what, struct error *err)
{
    int errnum = fault_point(fault);

    (void)fault;
    if (errnum == 0 && fsync(fd) != 0) {
        errnum = errno;
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot sync %s", what);
    }
    return 0;
}

static int write_manifest(const char *directory, const char *manifest, struct error *err)
{
    _cleanup_close_ int fd = -1;
    int errnum;

    if (create_file(directory, MANIFEST_NAME, &fd, err) != 0) {
        return -1;
    }
    errnum = fault_point("checkpoint.manifest.write");
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot write the manifest");
    }
    if (file_write_all(fd, manifest, strlen(manifest), err) != 0) {
        return -1;
    }
    return sync_fd(fd, "checkpoint.manifest.fsync", "the manifest", err);
}

static int rename_draft(const struct store_checkpoint_draft *draft, struct error *err)
{
    int errnum = fault_point("checkpoint.rename");

    /* A directory is never renamed over one that holds anything. */
    if (errnum == 0 && rename(draft->directory, draft->target) != 0) {
        errnum = errno;
    }
    if (errnum == EEXIST || errnum == ENOTEMPTY) {
        return error_set(err, ERROR_ID_IN_USE, "there is a checkpoint of this id");
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot rename %s to %s",
                               draft->directory, draft->target);
    }
    return 0;
}

/* The tenant's directory may be new as well. */
static int sync_above(const char *target, struct error *err)
{
    _cleanup_free_ char *parent = parent_of(target);
    int errnum = fault_point("checkpoint.directory.fsync");

    if (parent == NULL) {
        return out_of_memory(err);
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot sync directory %s", parent);
    }
    return dir_sync(parent, err) != 0 || sync_parent(parent, err) != 0 ? -1 : 0;
}

static int measure(struct store_checkpoint_draft *draft, const char *manifest, struct error *err)
{
    struct stat archive;
    struct stat files;

    if (fstat(draft->archive_fd, &archive) != 0 || fstat(draft->files_fd, &files) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot look at the checkpoint's files");
    }
    draft->stored_bytes = archive.st_size + files.st_size + (int64_t)strlen(manifest);
    return 0;
}

int store_checkpoint_draft_publish(struct store_checkpoint_draft *draft, const char *manifest,
                                   struct error *err)
{
    struct error undo = ERROR_INIT;

    if (write_manifest(draft->directory, manifest, err) != 0 ||
        sync_fd(draft->archive_fd, "checkpoint.archive.fsync", "the archive", err) != 0 ||
        sync_fd(draft->files_fd, "checkpoint.files.fsync", "the list of files", err) != 0 ||
        measure(draft, manifest, err) != 0 || dir_sync(draft->directory, err) != 0 ||
        rename_draft(draft, err) != 0) {
        return -1;
    }
    free(TAKE_PTR(draft->directory));
    if (sync_above(draft->target, err) == 0) {
        return 0;
    }
    /* It has no row yet, so nobody reads it. */
    if (dir_remove(draft->target, &undo) != 0) {
        error_add_cause(err, &undo);
    }
    return -1;
}

void store_checkpoint_draft_done(struct store_checkpoint_draft *draft)
{
    struct error ignored = ERROR_INIT; /* what stays is swept at the next start */

    if (draft->directory != NULL) {
        (void)!dir_remove(draft->directory, &ignored);
    }
    /* A zeroed struct was never opened: 0 is not ours to close. */
    if (draft->target != NULL) {
        cleanup_close(&draft->archive_fd);
        cleanup_close(&draft->files_fd);
    }
    free(draft->directory);
    free(draft->target);
    *draft = (struct store_checkpoint_draft){.archive_fd = -1, .files_fd = -1};
}

/* --- published --- */

static bool is_regular(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int open_file(const char *directory, const char *name, int *out, struct error *err)
{
    _cleanup_free_ char *path = path_join(directory, name);
    int fd;

    if (path == NULL) {
        return out_of_memory(err);
    }
    /* Nonblocking, because what stands there may be a FIFO by now. */
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !is_regular(fd)) {
        close(fd);
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the checkpoint's %s is no regular file",
                         name);
    }
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the checkpoint's file %s is missing",
                         name);
    }
    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot open %s", path);
    }
    *out = fd;
    return 0;
}

static int read_manifest(const char *directory, int *out_fd, char **out, struct error *err)
{
    _cleanup_close_ int fd = -1;
    _cleanup_buf_ struct buf content;
    char path[64];
    char *text;

    buf_init(&content, MANIFEST_MAX);
    if (open_file(directory, MANIFEST_NAME, &fd, err) != 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (file_read(path, &content, err) != 0) {
        if (err->code == ERROR_INVALID_REQUEST) {
            error_clear(err);
            error_set(err, ERROR_CHECKPOINT_INVALID, "the checkpoint's manifest is too large");
        }
        return -1;
    }
    if (memchr(buf_str(&content), '\0', content.len) != NULL) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "the checkpoint's manifest has a NUL");
    }
    text = buf_take(&content, NULL);
    if (text == NULL) {
        return out_of_memory(err);
    }
    *out_fd = TAKE_FD(fd);
    *out = text;
    return 0;
}

int store_checkpoint_files_open(const char *root, const char *tenant, const char *checkpoint_id,
                                bool compressed, struct store_checkpoint_files *out,
                                struct error *err)
{
    struct store_checkpoint_files files = {.archive_fd = -1, .files_fd = -1, .manifest_fd = -1};
    _cleanup_free_ char *directory = NULL;

    if (make_target(root, tenant, checkpoint_id, &directory, err) != 0) {
        return -1;
    }
    if (read_manifest(directory, &files.manifest_fd, &files.manifest, err) != 0 ||
        open_file(directory, archive_name(compressed), &files.archive_fd, err) != 0 ||
        open_file(directory, files_name(compressed), &files.files_fd, err) != 0) {
        store_checkpoint_files_done(&files);
        return -1;
    }
    *out = files;
    return 0;
}

void store_checkpoint_files_done(struct store_checkpoint_files *files)
{
    /* Without a manifest nothing else was opened, as in a zeroed struct. */
    if (files->manifest != NULL) {
        cleanup_close(&files->archive_fd);
        cleanup_close(&files->files_fd);
        cleanup_close(&files->manifest_fd);
    }
    free(files->manifest);
    *files = (struct store_checkpoint_files){.archive_fd = -1, .files_fd = -1, .manifest_fd = -1};
}

int store_checkpoint_files_remove(const char *root, const char *tenant, const char *checkpoint_id,
                                  struct error *err)
{
    _cleanup_free_ char *directory = NULL;
    int errnum = fault_point("checkpoint.remove");
    struct stat st;

    if (make_target(root, tenant, checkpoint_id, &directory, err) != 0) {
        return -1;
    }
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot remove %s", directory);
    }
    if (lstat(directory, &st) != 0 && errno == ENOENT) {
        return 0;
    }
    return dir_remove(directory, err) != 0 ? -1 : sync_parent(directory, err);
}

/* --- the sweep --- */

struct sweep {
    bool (*has_row)(void *ctx, const char *tenant, const char *id);
    void *ctx;
    int removed;
};

static bool is_draft(const char *name)
{
    return strncmp(name, DRAFT_PREFIX, sizeof(DRAFT_PREFIX) - 1) == 0;
}

static void cleanup_closedir(DIR **dir)
{
    if (*dir != NULL) {
        closedir(*dir);
    }
}

static int sweep_tenant(const char *path, const char *tenant, struct sweep *sweep,
                        struct error *err)
{
    _cleanup_(cleanup_closedir) DIR *dir = opendir(path);
    const struct dirent *entry;

    if (dir == NULL) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot read directory %s", path);
    }
    /* What is neither ours by its name nor a checkpoint is left alone. */
    while ((entry = readdir(dir)) != NULL) {
        _cleanup_free_ char *child = NULL;
        bool gone =
            is_draft(entry->d_name) || (id_is_valid(entry->d_name) && entry->d_type != DT_REG &&
                                        !sweep->has_row(sweep->ctx, tenant, entry->d_name));

        if (!gone) {
            continue;
        }
        child = path_join(path, entry->d_name);
        if (child == NULL) {
            return out_of_memory(err);
        }
        if (dir_remove(child, err) != 0) {
            return -1;
        }
        sweep->removed++;
    }
    return 0;
}

static int sweep_root(DIR *dir, const char *root, struct sweep *sweep, struct error *err)
{
    const struct dirent *entry;

    while ((entry = readdir(dir)) != NULL) {
        _cleanup_free_ char *path = NULL;
        struct stat st;

        if (!id_is_valid(entry->d_name)) {
            continue;
        }
        path = path_join(root, entry->d_name);
        if (path == NULL) {
            return out_of_memory(err);
        }
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
            sweep_tenant(path, entry->d_name, sweep, err) != 0) {
            return -1;
        }
    }
    return 0;
}

int store_checkpoint_files_sweep(const char *root,
                                 bool (*has_row)(void *ctx, const char *tenant, const char *id),
                                 void *ctx, int *removed, struct error *err)
{
    _cleanup_(cleanup_closedir) DIR *dir = opendir(root);
    struct sweep sweep = {has_row, ctx, 0};

    if (dir == NULL && errno == ENOENT) {
        *removed = 0;
        return 0;
    }
    if (dir == NULL) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot read directory %s", root);
    }
    if (sweep_root(dir, root, &sweep, err) != 0) {
        return -1;
    }
    *removed = sweep.removed;
    return 0;
}
