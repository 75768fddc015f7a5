/* Which of the engine's images a reference names. */
#include "base/digest.h"
#include "host/docker/images.h"

#include <string.h>

/* The digest of "NAME@sha256:…", NULL when there is none. */
static const char *digest_of(const char *reference)
{
    const char *at = strrchr(reference, '@');

    return at != NULL && digest_is_valid(at + 1) ? at + 1 : NULL;
}

static bool has_digest(const json_t *item, const char *digest)
{
    const char *id = json_string_value(json_object_get(item, "Id"));
    size_t i;
    const json_t *name;

    if (id != NULL && strcmp(id, digest) == 0) {
        return true;
    }
    json_array_foreach(json_object_get(item, "RepoDigests"), i, name)
    {
        const char *other = digest_of(json_string_value(name));

        if (other != NULL && strcmp(other, digest) == 0) {
            return true;
        }
    }
    return false;
}

/* "name" means "name:latest", as everywhere. */
static bool has_tag(const json_t *item, const char *reference)
{
    const char *slash = strrchr(reference, '/');
    bool tagged = strchr(slash != NULL ? slash : reference, ':') != NULL;
    size_t len = strlen(reference);
    size_t i;
    const json_t *name;

    json_array_foreach(json_object_get(item, "RepoTags"), i, name)
    {
        const char *text = json_string_value(name);

        if (text != NULL && strncmp(text, reference, len) == 0 &&
            strcmp(text + len, tagged ? "" : ":latest") == 0) {
            return true;
        }
    }
    return false;
}

static int list_all(struct engine *e, struct cancel *cancel, struct engine_answer *out,
                    struct error *err)
{
    struct engine_request request = {
        .verb = "image_list", .method = "GET", .path = "/images/json?digests=1", .cancel = cancel};
    char scratch[32];

    if (engine_call(e, &request, out, err) < 0) {
        return -1;
    }
    if (out->status != 200) {
        error_set(err, ERROR_RUNTIME, "the engine does not list its images: %s",
                  engine_answer_message(out, scratch, sizeof(scratch)));
        engine_answer_done(out);
        return -1;
    }
    return 0;
}

int image_find(struct engine *e, const char *reference, struct cancel *cancel, json_t **out,
               struct error *err)
{
    const char *digest = digest_of(reference);
    struct engine_answer answer;
    size_t i;
    json_t *item;

    if (list_all(e, cancel, &answer, err) < 0) {
        return -1;
    }
    *out = NULL;
    json_array_foreach(answer.json, i, item)
    {
        if (digest != NULL ? has_digest(item, digest) : has_tag(item, reference)) {
            *out = json_incref(item);
            break;
        }
    }
    engine_answer_done(&answer);
    return 0;
}

char *image_digests(const json_t *item)
{
    json_t *list = json_array();
    size_t i;
    const json_t *name;
    char *text;

    (void)json_array_append(list, json_object_get(item, "Id"));
    json_array_foreach(json_object_get(item, "RepoDigests"), i, name)
    {
        const char *digest = digest_of(json_string_value(name));
        bool known = digest == NULL;

        for (size_t k = 0; k < json_array_size(list) && !known; k++) {
            known = strcmp(json_string_value(json_array_get(list, k)), digest) == 0;
        }
        if (!known) {
            (void)json_array_append_new(list, json_string(digest));
        }
    }
    text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

/* NAME of "NAME:tag", with the image's id: what an image that saw no registry is pinned by. */
static char *pinned_by_id(const json_t *item, const char *tag)
{
    const char *id = json_string_value(json_object_get(item, "Id"));
    const char *colon = strrchr(tag, ':');
    _cleanup_buf_ struct buf text;

    buf_init(&text, 4096);
    if (id == NULL || colon == NULL || buf_add(&text, tag, (size_t)(colon - tag)) < 0 ||
        buf_addf(&text, "@%s", id) < 0) {
        return NULL;
    }
    return buf_take(&text, NULL);
}

bool image_describe(const json_t *item, struct host_image *out)
{
    const char *digest = json_string_value(json_array_get(json_object_get(item, "RepoDigests"), 0));
    const char *tag = json_string_value(json_array_get(json_object_get(item, "RepoTags"), 0));
    struct host_image image = {.size_bytes = json_integer_value(json_object_get(item, "Size"))};

    if (digest != NULL && strncmp(digest, "<none>", 6) != 0) {
        image.reference = strdup(digest);
    } else if (tag != NULL && strncmp(tag, "<none>", 6) != 0) {
        image.reference = pinned_by_id(item, tag);
    }
    if (image.reference == NULL || (image.digests = image_digests(item)) == NULL) {
        free(image.reference);
        return false;
    }
    *out = image;
    return true;
}

int image_list_all(struct engine *e, struct host_image_list *out, struct error *err)
{
    struct host_image_list list = {0};
    struct engine_answer answer;
    size_t i;
    const json_t *item;

    if (list_all(e, NULL, &answer, err) < 0) {
        return -1;
    }
    list.items = calloc(json_array_size(answer.json) + 1, sizeof(*list.items));
    if (list.items == NULL) {
        engine_answer_done(&answer);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    json_array_foreach(answer.json, i, item)
    {
        if (image_describe(item, &list.items[list.count])) {
            list.count++;
        }
    }
    engine_answer_done(&answer);
    *out = list;
    return 0;
}
