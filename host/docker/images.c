#include "host/docker/images.h"

#include "base/digest.h"
#include "host/docker/container.h"

#include <pthread.h>
#include <string.h>

enum { REMEMBERED_MAX = 256, LACKS_MAX = 192 };

/* One reference that was resolved. */
struct remembered {
    struct remembered *next;
    char *reference;
    struct image_facts facts;
    char lacks[LACKS_MAX]; /* why containers of it do not start, "" when they do */
};

struct images {
    struct images_config config;
    pthread_mutex_t lock; /* list, arch */
    struct remembered *list;
    char arch[32];
};

void image_facts_done(struct image_facts *f)
{
    free(f->digests);
    free(f->search_path);
    *f = (struct image_facts){0};
}

static int facts_copy(struct image_facts *to, const struct image_facts *from, struct error *err)
{
    struct image_facts copy = *from;

    copy.digests = strdup(from->digests);
    copy.search_path = strdup(from->search_path);
    if (copy.digests == NULL || copy.search_path == NULL) {
        image_facts_done(&copy);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *to = copy;
    return 0;
}

int images_new(const struct images_config *config, struct images **out, struct error *err)
{
    struct images *i = calloc(1, sizeof(*i));

    if (i == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    i->config = *config;
    pthread_mutex_init(&i->lock, NULL);
    *out = i;
    return 0;
}

static void remembered_free(struct remembered *r)
{
    image_facts_done(&r->facts);
    free(r->reference);
    free(r);
}

/* With the lock held: drops all that `matches` says, or everything behind the `keep` newest. */
static void drop(struct images *i, bool (*matches)(const struct remembered *r, const char *key),
                 const char *key, unsigned keep)
{
    struct remembered **link = &i->list;

    for (unsigned n = 0; *link != NULL; n++) {
        struct remembered *r = *link;

        if (n >= keep || (matches != NULL && matches(r, key))) {
            *link = r->next;
            remembered_free(r);
        } else {
            link = &r->next;
        }
    }
}

void images_free(struct images *i)
{
    if (i == NULL) {
        return;
    }
    drop(i, NULL, NULL, 0);
    pthread_mutex_destroy(&i->lock);
    free(i);
}

static bool same_reference(const struct remembered *r, const char *reference)
{
    return strcmp(r->reference, reference) == 0;
}

static bool same_id(const struct remembered *r, const char *id)
{
    return strcmp(r->facts.id, id) == 0;
}

void images_forget(struct images *i, const char *reference)
{
    pthread_mutex_lock(&i->lock);
    drop(i, same_reference, reference, REMEMBERED_MAX);
    pthread_mutex_unlock(&i->lock);
}

static void forget_id(struct images *i, const char *id)
{
    pthread_mutex_lock(&i->lock);
    drop(i, same_id, id, REMEMBERED_MAX);
    pthread_mutex_unlock(&i->lock);
}

void images_prove(struct images *i, const char *id, const char *lacks)
{
    pthread_mutex_lock(&i->lock);
    for (struct remembered *r = i->list; r != NULL; r = r->next) {
        if (strcmp(r->facts.id, id) == 0) {
            r->facts.proven = lacks == NULL;
            snprintf(r->lacks, sizeof(r->lacks), "%s", lacks != NULL ? lacks : "");
        }
    }
    pthread_mutex_unlock(&i->lock);
}

/* 1: known, 0: not known, -1: known to be of no use. */
static int recall(struct images *i, const char *reference, struct image_facts *out,
                  struct error *err)
{
    int result = 0;

    pthread_mutex_lock(&i->lock);
    for (const struct remembered *r = i->list; r != NULL && result == 0; r = r->next) {
        if (!same_reference(r, reference)) {
            continue;
        }
        if (r->lacks[0] != '\0') {
            error_set_field(err, ERROR_INVALID_REQUEST, "/image", "%s", r->lacks);
            result = error_in_phase(err, PHASE_VALIDATE);
        } else {
            result = facts_copy(out, &r->facts, err) == 0 ? 1 : -1;
        }
    }
    pthread_mutex_unlock(&i->lock);
    return result;
}

static int remember(struct images *i, const char *reference, const struct image_facts *facts,
                    struct error *err)
{
    struct remembered *r = calloc(1, sizeof(*r));

    if (r == NULL || (r->reference = strdup(reference)) == NULL ||
        facts_copy(&r->facts, facts, err) < 0) {
        if (r != NULL) {
            remembered_free(r);
        }
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_lock(&i->lock);
    drop(i, same_reference, reference, REMEMBERED_MAX - 1);
    r->next = i->list;
    i->list = r;
    pthread_mutex_unlock(&i->lock);
    return 0;
}

/* --- asking the engine --- */

static int engine_arch(struct images *i, char out[32], struct error *err)
{
    struct engine_version version;

    pthread_mutex_lock(&i->lock);
    memcpy(out, i->arch, 32);
    pthread_mutex_unlock(&i->lock);
    if (out[0] != '\0') {
        return 0;
    }
    if (engine_negotiate(i->config.engine, &version, err) < 0) {
        return -1;
    }
    pthread_mutex_lock(&i->lock);
    memcpy(i->arch, version.arch, 32);
    pthread_mutex_unlock(&i->lock);
    memcpy(out, version.arch, 32);
    return 0;
}

/* The list's item, fetched first when it is missing and that is allowed. Returns owned. */
static json_t *find_or_fetch(struct images *i, const char *reference, struct cancel *cancel,
                             struct error *err)
{
    json_t *item;

    if (image_find(i->config.engine, reference, cancel, &item, err) < 0) {
        return NULL;
    }
    if (item == NULL && i->config.pull_missing) {
        if (image_fetch(i->config.engine, reference, cancel, err) < 0 ||
            image_find(i->config.engine, reference, cancel, &item, err) < 0) {
            return NULL;
        }
    }
    if (item == NULL) {
        error_set_field(err, ERROR_IMAGE_NOT_FOUND, "/image", "the engine has no image %.300s",
                        reference);
        error_in_phase(err, PHASE_VALIDATE);
    }
    return item;
}

static int inspect(struct images *i, const char *id, struct cancel *cancel,
                   struct engine_answer *out, struct error *err)
{
    char path[IMAGE_ID_SIZE + 32];
    char scratch[32];
    struct engine_request request = {
        .verb = "image_inspect", .method = "GET", .path = path, .cancel = cancel};

    snprintf(path, sizeof(path), "/images/%s/json", id);
    if (engine_call(i->config.engine, &request, out, err) < 0) {
        return -1;
    }
    if (out->status != 200) {
        error_set_field(err, out->status == 404 ? ERROR_IMAGE_NOT_FOUND : ERROR_RUNTIME, "/image",
                        "the engine does not show the image: %s",
                        engine_answer_message(out, scratch, sizeof(scratch)));
        engine_answer_done(out);
        return -1;
    }
    return 0;
}

static int learn(struct images *i, const json_t *item, struct cancel *cancel,
                 struct image_facts *out, struct error *err)
{
    const char *id = json_string_value(json_object_get(item, "Id"));
    struct image_facts facts = {0};
    struct engine_answer answer;
    char arch[32];
    int result;

    if (id == NULL || !digest_is_valid(id)) {
        return error_set(err, ERROR_RUNTIME, "the engine lists an image without an id");
    }
    if (engine_arch(i, arch, err) < 0 || inspect(i, id, cancel, &answer, err) < 0) {
        return -1;
    }
    result = image_check(answer.json, arch, err);
    if (result == 0) {
        memcpy(facts.id, id, sizeof(facts.id));
        facts.digests = image_digests(item);
        facts.search_path = container_search_path(image_variable(answer.json, "PATH"));
        facts.has_home = image_variable(answer.json, "HOME") != NULL;
        if (facts.digests == NULL || facts.search_path == NULL) {
            image_facts_done(&facts);
            result = error_set(err, ERROR_INTERNAL, "out of memory");
        }
    }
    engine_answer_done(&answer);
    if (result == 0) {
        *out = facts;
    }
    return result;
}

int images_resolve(struct images *i, const char *reference, struct cancel *cancel,
                   struct image_facts *out, struct error *err)
{
    const char *at = strrchr(reference, '@');
    bool pinned = at != NULL && digest_is_valid(at + 1);
    struct image_facts facts;
    json_t *item;
    int known;
    int result;

    if (!pinned && !i->config.allow_unpinned) {
        error_set_field(err, ERROR_INVALID_REQUEST, "/image", "the image is not pinned by digest");
        return error_in_phase(err, PHASE_VALIDATE);
    }
    /* What a tag means may change at any time. */
    known = pinned ? recall(i, reference, out, err) : 0;
    if (known != 0) {
        return known < 0 ? -1 : 0;
    }
    item = find_or_fetch(i, reference, cancel, err);
    if (item == NULL) {
        return -1;
    }
    result = learn(i, item, cancel, &facts, err);
    json_decref(item);
    if (result < 0) {
        return -1;
    }
    if (pinned && remember(i, reference, &facts, err) < 0) {
        image_facts_done(&facts);
        return -1;
    }
    *out = facts;
    return 0;
}

/* --- what a person asks for --- */

int images_list(struct images *i, struct host_image_list *out, struct error *err)
{
    return image_list_all(i->config.engine, out, err);
}

int images_pull(struct images *i, const char *reference, struct host_image *out, struct error *err)
{
    json_t *item;
    bool named;

    if (image_find(i->config.engine, reference, NULL, &item, err) < 0) {
        return -1;
    }
    if (item == NULL) {
        if (image_fetch(i->config.engine, reference, NULL, err) < 0 ||
            image_find(i->config.engine, reference, NULL, &item, err) < 0) {
            return -1;
        }
        if (item == NULL) {
            return error_set(err, ERROR_IMAGE_NOT_FOUND, "the engine has no image %.300s",
                             reference);
        }
    }
    named = image_describe(item, out);
    json_decref(item);
    return named ? 0 : error_set(err, ERROR_RUNTIME, "the image has no name to pin it by");
}

int images_remove(struct images *i, const char *reference, struct error *err)
{
    struct engine_answer answer;
    char path[IMAGE_ID_SIZE + 32];
    char scratch[32];
    struct engine_request request = {.verb = "image_remove", .method = "DELETE", .path = path};
    json_t *item;
    int result = 0;

    if (image_find(i->config.engine, reference, NULL, &item, err) < 0) {
        return -1;
    }
    if (item == NULL) {
        return error_set(err, ERROR_IMAGE_NOT_FOUND, "the engine has no image %.300s", reference);
    }
    /* Forced, because several names may be tied to it; the engine still refuses one that is in use.
     */
    snprintf(path, sizeof(path), "/images/%s?force=1",
             json_string_value(json_object_get(item, "Id")));
    forget_id(i, json_string_value(json_object_get(item, "Id")));
    json_decref(item);
    if (engine_call(i->config.engine, &request, &answer, err) < 0) {
        return -1;
    }
    if (answer.status != 200 && answer.status != 404) {
        result = error_set(err, answer.status == 409 ? ERROR_ID_IN_USE : ERROR_RUNTIME,
                           "the image was not removed: %s",
                           engine_answer_message(&answer, scratch, sizeof(scratch)));
    }
    engine_answer_done(&answer);
    return result;
}

int images_import(struct images *i, const char *name, const char *file, struct host_image *out,
                  struct error *err)
{
    return image_import_file(i->config.engine, name, file, out, err);
}
