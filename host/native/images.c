#include "host/native/images.h"

#include "base/digest.h"
#include "host/native/images_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

enum { REMEMBERED_MAX = 256, NAME_LEN_MAX = 255 };

/* One pinned reference that was found fit. What a digest names can't change; that it has gone shows
 * when it is to be held. */
struct remembered {
    struct remembered *next;
    char *reference;
    char id[DIGEST_TEXT_SIZE];
    char *digests;
    char **environment;
};

struct native_images {
    struct native_image_store store;
    struct native_images_limits limits;
    bool fetch_missing;
    bool allow_unpinned;
    pthread_mutex_t lock; /* list */
    struct remembered *list;
};

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_INTERNAL, "out of memory");
}

int native_images_open(const struct native_images_config *config, struct native_images **out,
                       struct error *err)
{
    struct native_images *i = calloc(1, sizeof(*i));

    if (i == NULL) {
        return no_memory(err);
    }
    if (native_image_store_open(config->directory, &i->store, err) < 0) {
        free(i);
        return -1;
    }
    i->limits.bytes = config->limits.bytes > 0 ? config->limits.bytes : NATIVE_IMAGES_BYTES;
    i->limits.entries = config->limits.entries > 0 ? config->limits.entries : NATIVE_IMAGES_ENTRIES;
    i->fetch_missing = config->fetch_missing;
    i->allow_unpinned = config->allow_unpinned;
    pthread_mutex_init(&i->lock, NULL);
    if (native_image_store_sweep(&i->store, err) < 0) {
        native_images_close(i);
        return -1;
    }
    *out = i;
    return 0;
}

/* --- what was found before --- */

static void remembered_free(struct remembered *r)
{
    free(r->reference);
    free(r->digests);
    native_image_environment_free(r->environment);
    free(r);
}

/* With the lock held: drops the one of that name, and everything behind the `keep` newest. */
static void drop(struct native_images *i, const char *reference, unsigned keep)
{
    struct remembered **link = &i->list;

    for (unsigned n = 0; *link != NULL;) {
        struct remembered *r = *link;

        if (n >= keep || (reference != NULL && strcmp(r->reference, reference) == 0)) {
            *link = r->next;
            remembered_free(r);
        } else {
            link = &r->next;
            n++;
        }
    }
}

static void forget(struct native_images *i, const char *reference)
{
    pthread_mutex_lock(&i->lock);
    drop(i, reference, REMEMBERED_MAX);
    pthread_mutex_unlock(&i->lock);
}

void native_images_close(struct native_images *i)
{
    if (i == NULL) {
        return;
    }
    drop(i, NULL, 0);
    pthread_mutex_destroy(&i->lock);
    native_image_store_done(&i->store);
    free(i);
}

static char **copy_environment(char *const *environment)
{
    size_t count = 0;
    char **copy;

    while (environment[count] != NULL) {
        count++;
    }
    copy = calloc(count + 1, sizeof(*copy));
    for (size_t k = 0; copy != NULL && k < count; k++) {
        copy[k] = strdup(environment[k]);
        if (copy[k] == NULL) {
            native_image_environment_free(copy);
            return NULL;
        }
    }
    return copy;
}

/* 1 and the id; what it says goes into `out`. 0: not known. */
static int recall(struct native_images *i, const char *reference, char id[DIGEST_TEXT_SIZE],
                  struct native_image *out, struct error *err)
{
    int result = 0;

    pthread_mutex_lock(&i->lock);
    for (const struct remembered *r = i->list; r != NULL && result == 0; r = r->next) {
        if (strcmp(r->reference, reference) != 0) {
            continue;
        }
        memcpy(id, r->id, DIGEST_TEXT_SIZE);
        out->digests = strdup(r->digests);
        out->environment = copy_environment(r->environment);
        result = out->digests != NULL && out->environment != NULL ? 1 : no_memory(err);
    }
    pthread_mutex_unlock(&i->lock);
    return result;
}

static int remember(struct native_images *i, const char *reference, const char *id,
                    const struct native_image *image, struct error *err)
{
    struct remembered *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        return no_memory(err);
    }
    memcpy(r->id, id, DIGEST_TEXT_SIZE);
    r->reference = strdup(reference);
    r->digests = strdup(image->digests);
    r->environment = copy_environment(image->environment);
    if (r->reference == NULL || r->digests == NULL || r->environment == NULL) {
        remembered_free(r);
        return no_memory(err);
    }
    pthread_mutex_lock(&i->lock);
    drop(i, reference, REMEMBERED_MAX - 1);
    r->next = i->list;
    i->list = r;
    pthread_mutex_unlock(&i->lock);
    return 0;
}

/* --- finding --- */

static int missing(struct error *err, const char *reference)
{
    error_set_field(err, ERROR_IMAGE_NOT_FOUND, "/image", "the image store has no image %.300s",
                    reference);
    return error_in_phase(err, PHASE_VALIDATE);
}

static struct native_image_job job_of(struct native_images *i, struct cancel *cancel)
{
    return (struct native_image_job){
        .store = &i->store, .limits = i->limits, .name = "", .cancel = cancel};
}

static int find(struct native_images *i, const char *reference, bool fetch, struct cancel *cancel,
                struct native_image_record *out, struct error *err)
{
    const struct native_image_job job = job_of(i, cancel);
    int found = native_image_store_find(&i->store, reference, out, err);

    if (found != 0) {
        return found < 0 ? -1 : 0;
    }
    return fetch ? native_image_fetch(&job, reference, out, err) : missing(err, reference);
}

/* What the configuration of a held image says. */
static int learn(int image_fd, struct native_image *out, struct error *err)
{
    struct native_image_config config;
    _cleanup_buf_ struct buf text;
    int result;

    buf_init(&text, NATIVE_IMAGE_DOCUMENT_MAX);
    if (native_image_store_config(image_fd, &text, err) < 0 ||
        native_image_config_decode(buf_str(&text), text.len, &config, err) < 0) {
        return -1;
    }
    result = native_image_config_fit(&config, err);
    if (result == 0) {
        out->environment = native_image_config_environment(&config);
        result = out->environment != NULL ? 0 : no_memory(err);
    }
    native_image_config_done(&config);
    return result;
}

static int hold(struct native_images *i, const char *id, const char *reference,
                struct native_image *out, struct error *err)
{
    int held = native_image_store_hold(&i->store, id, &out->lock_fd, err);

    if (held <= 0) {
        return held < 0 ? -1 : missing(err, reference);
    }
    out->root_fd = openat(out->lock_fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out->root_fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "the image's root file system");
    }
    if (asprintf(&out->root_path, "%s/%s/root", i->store.directory, strchr(id, ':') + 1) < 0) {
        out->root_path = NULL;
        return no_memory(err);
    }
    return 0;
}

static int acquire_found(struct native_images *i, const char *reference, struct cancel *cancel,
                         struct native_image *out, struct error *err)
{
    struct native_image_record record = {0};
    const char *id;
    int result = find(i, reference, i->fetch_missing, cancel, &record, err);

    if (result < 0) {
        return -1;
    }
    id = native_image_record_id(&record);
    out->digests = json_dumps(record.digests, JSON_COMPACT);
    if (out->digests == NULL) {
        result = no_memory(err);
    } else {
        result = hold(i, id, reference, out, err);
    }
    result = result == 0 ? learn(out->lock_fd, out, err) : result;
    if (result == 0 && strchr(reference, '@') != NULL) {
        result = remember(i, reference, id, out, err);
    }
    native_image_record_done(&record);
    return result;
}

static int acquire(struct native_images *i, const char *reference, struct cancel *cancel,
                   struct native_image *out, struct error *err)
{
    char id[DIGEST_TEXT_SIZE];
    int known = recall(i, reference, id, out, err);

    if (known < 0) {
        return -1;
    }
    if (known > 0) {
        if (hold(i, id, reference, out, err) == 0) {
            return 0;
        }
        if (err->code != ERROR_IMAGE_NOT_FOUND) {
            return -1;
        }
        /* Removed, and perhaps imported again. */
        native_image_release(out);
        error_clear(err);
        forget(i, reference);
    }
    return acquire_found(i, reference, cancel, out, err);
}

int native_image_acquire(struct native_images *images, const char *reference, struct cancel *cancel,
                         struct native_image *out, struct error *err)
{
    const char *at = strrchr(reference, '@');
    struct native_image image = NATIVE_IMAGE_INIT;

    if (at != NULL ? !digest_is_valid(at + 1) : !images->allow_unpinned) {
        error_set_field(err, ERROR_INVALID_REQUEST, "/image", "the image is not pinned by digest");
        return error_in_phase(err, PHASE_VALIDATE);
    }
    if (acquire(images, reference, cancel, &image, err) < 0) {
        native_image_release(&image);
        return -1;
    }
    *out = image;
    return 0;
}

void native_image_release(struct native_image *image)
{
    cleanup_close(&image->root_fd);
    cleanup_close(&image->lock_fd);
    free(image->root_path);
    free(image->digests);
    native_image_environment_free(image->environment);
    *image = (struct native_image)NATIVE_IMAGE_INIT;
}

int native_images_check(struct native_images *images, const char *reference, struct cancel *cancel,
                        struct error *err)
{
    struct native_image image;

    if (native_image_acquire(images, reference, cancel, &image, err) < 0) {
        return -1;
    }
    native_image_release(&image);
    return 0;
}

/* --- what a person asks for --- */

static int append(void *ctx, struct native_image_record *record, struct error *err)
{
    struct host_image_list *list = ctx;
    struct host_image *items = realloc(list->items, (list->count + 1) * sizeof(*items));

    if (items == NULL) {
        return no_memory(err);
    }
    list->items = items;
    if (native_image_record_describe(record, &items[list->count], err) < 0) {
        return -1;
    }
    list->count++;
    return 0;
}

static int by_reference(const void *a, const void *b)
{
    return strcmp(((const struct host_image *)a)->reference,
                  ((const struct host_image *)b)->reference);
}

int native_images_list(struct native_images *images, struct host_image_list *out, struct error *err)
{
    struct host_image_list list = {.items = malloc(sizeof(*list.items))};

    if (list.items == NULL) {
        return no_memory(err);
    }
    if (native_image_store_scan(&images->store, append, &list, err) < 0) {
        host_image_list_done(&list);
        return -1;
    }
    qsort(list.items, list.count, sizeof(*list.items), by_reference);
    *out = list;
    return 0;
}

int native_images_pull(struct native_images *images, const char *reference, struct host_image *out,
                       struct error *err)
{
    struct native_image_record record = {0};
    int result = find(images, reference, true, NULL, &record, err);

    if (result == 0) {
        result = native_image_record_describe(&record, out, err);
    }
    native_image_record_done(&record);
    /* Whatever else it is called, what was asked for names it. */
    if (result == 0 && strchr(reference, '@') != NULL) {
        free(out->reference);
        out->reference = strdup(reference);
        if (out->reference == NULL) {
            free(out->digests);
            return no_memory(err);
        }
    }
    return result;
}

int native_images_remove(struct native_images *images, const char *reference, struct error *err)
{
    struct native_image_record record = {0};
    int result;

    if (find(images, reference, false, NULL, &record, err) < 0) {
        return -1;
    }
    result = native_image_store_remove(&images->store, native_image_record_id(&record), err);
    native_image_record_done(&record);
    if (result == 0) {
        return missing(err, reference);
    }
    return result < 0 ? -1 : 0;
}

static int check_name(const char *name, struct error *err)
{
    static const char FIRST[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    static const char REST[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "._/:-";
    size_t len = strnlen(name, NAME_LEN_MAX + 1);

    if (len == 0 || len > NAME_LEN_MAX || strchr(FIRST, name[0]) == NULL ||
        strspn(name, REST) != len) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "the name must match [A-Za-z0-9][A-Za-z0-9._/:-]* and have at most 255 "
                         "bytes");
    }
    return 0;
}

int native_images_import(struct native_images *images, const char *name, const char *file,
                         struct host_image *out, struct error *err)
{
    struct native_image_job job = job_of(images, NULL);
    struct native_image_record record = {0};
    int result;

    job.name = name;
    if (check_name(name, err) < 0 || native_image_import(&job, file, &record, err) < 0) {
        return -1;
    }
    result = native_image_record_describe(&record, out, err);
    if (result == 0) {
        /* Of the names it may have, the one that was given now. */
        free(out->reference);
        if (asprintf(&out->reference, "%s@%s", name, native_image_record_id(&record)) < 0) {
            out->reference = NULL;
            free(out->digests);
            result = no_memory(err);
        }
    }
    native_image_record_done(&record);
    return result;
}
