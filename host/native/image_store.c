/* The directory of images: who may change it when, and how a change becomes whole. */
#include "host/native/images_internal.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { ID_PREFIX = 7, HEX_LEN = 64 }; /* "sha256:" */

static const char RECORD_FILE[] = "image.json";
static const char CONFIG_FILE[] = "config.json";
static const char ROOT_DIR[] = "root";
static const char LOCK_FILE[] = "lock";
static const char NEW_DIR[] = "new";

static const char *name_of(const char *id)
{
    return id + ID_PREFIX;
}

static bool is_image_name(const char *name)
{
    return strlen(name) == HEX_LEN && strspn(name, "0123456789abcdef") == HEX_LEN;
}

static int trouble(struct error *err, const char *what)
{
    return error_set_errno(err, ERROR_INTERNAL, errno, "the image store: %s", what);
}

/* With what a fault point says: as if the call had failed with it. */
static bool fails(int errnum)
{
    errno = errnum != 0 ? errnum : errno;
    return errnum != 0;
}

/* Waits for it; closing lets go. */
static int lock_store(const struct native_image_store *store, struct error *err)
{
    _cleanup_close_ int fd = openat(store->dir_fd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int r;

    if (fd < 0) {
        return trouble(err, "its lock");
    }
    do {
        r = flock(fd, LOCK_EX);
    } while (r < 0 && errno == EINTR);
    return r == 0 ? TAKE_FD(fd) : trouble(err, "its lock");
}

/* The directory of that name in `parent_fd`, locked without waiting. -1 and errno. */
static int open_locked(int parent_fd, const char *name, int how)
{
    _cleanup_close_ int fd =
        openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0 && flock(fd, how | LOCK_NB) == 0 ? TAKE_FD(fd) : -1;
}

static int remove_new(const struct native_image_store *store, const char *name, struct error *err)
{
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/%s/%s", store->directory, NEW_DIR, name) >=
        sizeof(path)) {
        return error_set(err, ERROR_INTERNAL, "path too long");
    }
    return dir_remove(path, err);
}

/* --- opening --- */

int native_image_store_open(const char *directory, struct native_image_store *out,
                            struct error *err)
{
    struct native_image_store store = {.dir_fd = -1, .new_fd = -1};

    if (dir_make(directory, 0700, err) < 0) {
        return -1;
    }
    store.directory = strdup(directory);
    store.dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store.directory != NULL && store.dir_fd >= 0 &&
        (mkdirat(store.dir_fd, NEW_DIR, 0700) == 0 || errno == EEXIST)) {
        store.new_fd = openat(store.dir_fd, NEW_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (store.new_fd < 0) {
        trouble(err, directory);
        native_image_store_done(&store);
        return -1;
    }
    *out = store;
    return 0;
}

void native_image_store_done(struct native_image_store *store)
{
    free(store->directory);
    cleanup_close(&store->dir_fd);
    cleanup_close(&store->new_fd);
    *store = (struct native_image_store){.dir_fd = -1, .new_fd = -1};
}

/* --- records --- */

static int read_file_at(int dir_fd, const char *name, struct buf *out, struct error *err)
{
    char path[64];

    /* file_read() takes a path, and this is the directory's own whatever it is called now. */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);
    return file_read(path, out, err);
}

/* 1: read, 0: there is none. */
static int load_record(const struct native_image_store *store, const char *name,
                       struct native_image_record *out, struct error *err)
{
    _cleanup_close_ int fd =
        openat(store->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_buf_ struct buf text;

    buf_init(&text, NATIVE_IMAGE_DOCUMENT_MAX);
    if (fd < 0 || faccessat(fd, RECORD_FILE, F_OK, 0) < 0) {
        return errno == ENOENT ? 0 : trouble(err, name);
    }
    if (read_file_at(fd, RECORD_FILE, &text, err) < 0 ||
        native_image_record_decode(buf_str(&text), text.len, out, err) < 0) {
        return -1;
    }
    return 1;
}

static int save_record(const struct native_image_store *store,
                       const struct native_image_record *record, struct error *err)
{
    char path[PATH_MAX];
    _cleanup_buf_ struct buf text;

    buf_init(&text, NATIVE_IMAGE_DOCUMENT_MAX);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s/%s", store->directory,
                         name_of(native_image_record_id(record)), RECORD_FILE) >= sizeof(path)) {
        return error_set(err, ERROR_INTERNAL, "path too long");
    }
    if (native_image_record_encode(record, &text, err) < 0) {
        return -1;
    }
    return file_write_atomic(path, buf_str(&text), text.len, 0600, err);
}

int native_image_store_config(int image_fd, struct buf *out, struct error *err)
{
    return read_file_at(image_fd, CONFIG_FILE, out, err);
}

/* With the lock held. */
static int extend(const struct native_image_store *store, struct native_image_record *record,
                  struct error *err)
{
    struct native_image_record known;
    int found = load_record(store, name_of(native_image_record_id(record)), &known, err);

    if (found <= 0) {
        return found;
    }
    if (native_image_record_merge(&known, record, err) < 0 || save_record(store, &known, err) < 0) {
        native_image_record_done(&known);
        return -1;
    }
    native_image_record_done(record);
    *record = known;
    return 1;
}

int native_image_store_extend(const struct native_image_store *store,
                              struct native_image_record *record, struct error *err)
{
    _cleanup_close_ int lock = lock_store(store, err);

    return lock < 0 ? -1 : extend(store, record, err);
}

/* --- drafts --- */

int native_image_draft_new(const struct native_image_store *store, struct native_image_draft *out,
                           struct error *err)
{
    /* Under the lock, so that a sweep never sees it before it is locked itself. */
    _cleanup_close_ int lock = lock_store(store, err);
    struct native_image_draft draft = {.fd = -1, .root_fd = -1};

    if (lock < 0) {
        return -1;
    }
    id_generate("image", draft.name);
    if (fails(fault_point("image.draft")) || mkdirat(store->new_fd, draft.name, 0700) < 0) {
        return trouble(err, "no new image can be made");
    }
    draft.fd = open_locked(store->new_fd, draft.name, LOCK_EX);
    if (draft.fd >= 0 && mkdirat(draft.fd, ROOT_DIR, 0755) == 0 &&
        fchmodat(draft.fd, ROOT_DIR, 0755, 0) == 0) {
        draft.root_fd = openat(draft.fd, ROOT_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (draft.root_fd < 0) {
        trouble(err, "no new image can be made");
        native_image_draft_drop(store, &draft);
        return -1;
    }
    *out = draft;
    return 0;
}

void native_image_draft_drop(const struct native_image_store *store,
                             struct native_image_draft *draft)
{
    struct error err = ERROR_INIT;

    if (draft->name[0] != '\0' && remove_new(store, draft->name, &err) < 0) {
        log_failure(LOG_LEVEL_WARN, &err, "a half-made image stays until the next start", NULL);
    }
    cleanup_close(&draft->root_fd);
    cleanup_close(&draft->fd);
    *draft = (struct native_image_draft){.fd = -1, .root_fd = -1};
}

static int put_file(int dir_fd, const char *name, const struct buf *text, struct error *err)
{
    _cleanup_close_ int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd < 0 ? trouble(err, name) : file_write_all(fd, buf_str(text), text->len, err);
}

static int complete(const struct native_image_draft *draft,
                    const struct native_image_record *record, const struct buf *config,
                    struct error *err)
{
    _cleanup_buf_ struct buf text;

    buf_init(&text, NATIVE_IMAGE_DOCUMENT_MAX);
    if (native_image_record_encode(record, &text, err) < 0 ||
        put_file(draft->fd, RECORD_FILE, &text, err) < 0 ||
        put_file(draft->fd, CONFIG_FILE, config, err) < 0) {
        return -1;
    }
    /* All of the files at once: there may be very many. */
    return fails(fault_point("image.sync")) || syncfs(draft->fd) < 0
               ? trouble(err, "it can't be synced")
               : 0;
}

int native_image_draft_publish(const struct native_image_store *store,
                               struct native_image_draft *draft, struct native_image_record *record,
                               const struct buf *config, struct error *err)
{
    const char *name = name_of(native_image_record_id(record));
    _cleanup_close_ int lock = -1;
    int known;

    if (complete(draft, record, config, err) < 0) {
        return -1;
    }
    lock = lock_store(store, err);
    known = lock < 0 ? -1 : extend(store, record, err);
    if (known != 0) {
        return known < 0 ? -1 : 0; /* the draft is dropped */
    }
    /* From here on it is an image, which others may hold. No sweep comes in between. */
    if (fails(fault_point("image.publish")) || flock(draft->fd, LOCK_UN) < 0 ||
        renameat(store->new_fd, draft->name, store->dir_fd, name) < 0) {
        return trouble(err, "the image can't be put in its place");
    }
    draft->name[0] = '\0';
    return fsync(store->dir_fd) < 0 ? trouble(err, "it can't be synced") : 0;
}

/* --- looking --- */

int native_image_store_scan(const struct native_image_store *store,
                            int (*each)(void *ctx, struct native_image_record *record,
                                        struct error *err),
                            void *ctx, struct error *err)
{
    int fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    int result = 0;

    if (dir == NULL) {
        cleanup_close(&fd);
        return trouble(err, store->directory);
    }
    while (result == 0 && (entry = readdir(dir)) != NULL) {
        struct native_image_record record;
        int found =
            is_image_name(entry->d_name) ? load_record(store, entry->d_name, &record, err) : 0;

        if (found < 0) {
            log_failure(LOG_LEVEL_WARN, err, "an image can't be used", "image", entry->d_name,
                        NULL);
            error_clear(err);
        } else if (found > 0) {
            result = each(ctx, &record, err);
            native_image_record_done(&record);
        }
    }
    closedir(dir);
    return result;
}

struct search {
    const char *reference;
    int64_t named_at_ms;
    struct native_image_record best;
};

static int look_at(void *ctx, struct native_image_record *record, struct error *err)
{
    struct search *search = ctx;
    int64_t named_at_ms = native_image_record_match(record, search->reference);

    (void)err;
    if (named_at_ms > search->named_at_ms) {
        native_image_record_done(&search->best);
        search->best = *record;
        *record = (struct native_image_record){0};
        search->named_at_ms = named_at_ms;
    }
    return 0;
}

int native_image_store_find(const struct native_image_store *store, const char *reference,
                            struct native_image_record *out, struct error *err)
{
    struct search search = {.reference = reference, .named_at_ms = -1};

    if (native_image_store_scan(store, look_at, &search, err) < 0) {
        native_image_record_done(&search.best);
        return -1;
    }
    if (search.named_at_ms < 0) {
        return 0;
    }
    *out = search.best;
    return 1;
}

/* --- holding and removing --- */

static bool is_at(const struct native_image_store *store, int fd, const char *name)
{
    struct stat held;
    struct stat there;

    return fstat(fd, &held) == 0 &&
           fstatat(store->dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

int native_image_store_hold(const struct native_image_store *store, const char *id, int *fd,
                            struct error *err)
{
    _cleanup_close_ int held = open_locked(store->dir_fd, name_of(id), LOCK_SH);

    /* Who has it alone is removing it. */
    if (held < 0 && errno != ENOENT && errno != EWOULDBLOCK) {
        return trouble(err, id);
    }
    if (held < 0 || !is_at(store, held, name_of(id))) {
        return 0;
    }
    *fd = TAKE_FD(held);
    return 1;
}

/* 1: it is new/`name` now, and `*fd` keeps a sweep away from it. */
static int take_away(const struct native_image_store *store, const char *id, char name[ID_SIZE],
                     int *fd, struct error *err)
{
    _cleanup_close_ int lock = lock_store(store, err);
    _cleanup_close_ int held = lock < 0 ? -1 : open_locked(store->dir_fd, name_of(id), LOCK_EX);

    if (lock < 0) {
        return -1;
    }
    if (held < 0 && errno == ENOENT) {
        return 0;
    }
    if (held < 0) {
        return errno == EWOULDBLOCK ? error_set(err, ERROR_ID_IN_USE, "an execution uses the image")
                                    : trouble(err, id);
    }
    id_generate("image", name);
    if (fails(fault_point("image.remove")) ||
        renameat(store->dir_fd, name_of(id), store->new_fd, name) < 0) {
        return trouble(err, "the image can't be removed");
    }
    *fd = TAKE_FD(held);
    return 1;
}

int native_image_store_remove(const struct native_image_store *store, const char *id,
                              struct error *err)
{
    char name[ID_SIZE];
    _cleanup_close_ int held = -1;
    int taken = take_away(store, id, name, &held, err);

    if (taken <= 0) {
        return taken;
    }
    return remove_new(store, name, err) < 0 ? -1 : 1;
}

/* --- sweeping --- */

/* A record that was being written beside the old one. */
static void sweep_image(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    if (dir == NULL) {
        cleanup_close(&fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, RECORD_FILE, strlen(RECORD_FILE)) == 0 &&
            entry->d_name[strlen(RECORD_FILE)] == '.') {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
    closedir(dir);
}

static int sweep_new(const struct native_image_store *store, const char *name, struct error *err)
{
    _cleanup_close_ int fd = open_locked(store->new_fd, name, LOCK_EX);

    if (fd < 0 && (errno == EWOULDBLOCK || errno == ENOENT)) {
        return 0; /* somebody is at it */
    }
    return remove_new(store, name, err);
}

int native_image_store_sweep(const struct native_image_store *store, struct error *err)
{
    _cleanup_close_ int lock = lock_store(store, err);
    static const char *const PARTS[] = {".", NEW_DIR};
    int result = lock < 0 ? -1 : 0;

    for (size_t i = 0; i < ARRAY_SIZE(PARTS) && result == 0; i++) {
        int fd = openat(store->dir_fd, PARTS[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        const struct dirent *entry;

        if (dir == NULL) {
            cleanup_close(&fd);
            return trouble(err, "it can't be swept");
        }
        while (result == 0 && (entry = readdir(dir)) != NULL) {
            if (i == 0 && is_image_name(entry->d_name)) {
                sweep_image(fd, entry->d_name);
            } else if (i == 1 && entry->d_name[0] != '.') {
                result = sweep_new(store, entry->d_name, err);
            }
        }
        closedir(dir);
    }
    return result;
}
