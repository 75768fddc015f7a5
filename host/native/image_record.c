/* What the store remembers of an image beside its configuration: image.json. */
#include "host/native/images_internal.h"

#include "base/clock.h"

#include <string.h>

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_INTERNAL, "out of memory");
}

void native_image_record_done(struct native_image_record *record)
{
    json_decref(record->digests);
    json_decref(record->references);
    *record = (struct native_image_record){0};
}

int native_image_record_init(struct native_image_record *record, const char *id, struct error *err)
{
    *record = (struct native_image_record){.digests = json_array(), .references = json_array()};
    if (record->digests == NULL || record->references == NULL ||
        native_image_record_add_digest(record, id, err) < 0) {
        native_image_record_done(record);
        return no_memory(err);
    }
    return 0;
}

const char *native_image_record_id(const struct native_image_record *record)
{
    return json_string_value(json_array_get(record->digests, 0));
}

/* --- text --- */

static bool is_reference(const json_t *item)
{
    const char *text = json_string_value(json_object_get(item, "reference"));
    const char *at = text != NULL ? strrchr(text, '@') : NULL;

    return at != NULL && digest_is_valid(at + 1) &&
           json_is_integer(json_object_get(item, "namedAtMs"));
}

static bool is_whole(const struct native_image_record *record, const json_t *size)
{
    size_t i;
    const json_t *item;

    if (json_array_size(record->digests) == 0 || !json_is_array(record->references) ||
        !json_is_integer(size)) {
        return false;
    }
    json_array_foreach(record->digests, i, item)
    {
        if (!json_is_string(item) || !digest_is_valid(json_string_value(item))) {
            return false;
        }
    }
    json_array_foreach(record->references, i, item)
    {
        if (!is_reference(item)) {
            return false;
        }
    }
    return true;
}

int native_image_record_decode(const char *text, size_t len, struct native_image_record *out,
                               struct error *err)
{
    _cleanup_native_json_ json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *size = json_object_get(root, "sizeBytes");
    const struct native_image_record record = {
        .digests = json_object_get(root, "digests"),
        .references = json_object_get(root, "references"),
        .size_bytes = json_integer_value(size),
    };

    if (!is_whole(&record, size)) {
        return error_set(err, ERROR_INTERNAL, "an image's record in the store is damaged");
    }
    *out = record;
    json_incref(out->digests);
    json_incref(out->references);
    return 0;
}

int native_image_record_encode(const struct native_image_record *record, struct buf *out,
                               struct error *err)
{
    _cleanup_native_json_ json_t *root =
        json_pack("{s:O, s:O, s:I}", "digests", record->digests, "references", record->references,
                  "sizeBytes", (json_int_t)record->size_bytes);
    _cleanup_free_ char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;

    if (text == NULL || buf_add_str(out, text) < 0 || buf_add_char(out, '\n') < 0) {
        return no_memory(err);
    }
    return 0;
}

/* --- names --- */

static bool has_digest(const struct native_image_record *record, const char *digest)
{
    size_t i;
    const json_t *item;

    json_array_foreach(record->digests, i, item)
    {
        if (strcmp(json_string_value(item), digest) == 0) {
            return true;
        }
    }
    return false;
}

int native_image_record_add_digest(struct native_image_record *record, const char *digest,
                                   struct error *err)
{
    if (has_digest(record, digest) ||
        json_array_append_new(record->digests, json_string(digest)) == 0) {
        return 0;
    }
    return no_memory(err);
}

static json_t *find_reference(const struct native_image_record *record, const char *reference)
{
    size_t i;
    json_t *item;

    json_array_foreach(record->references, i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "reference")), reference) == 0) {
            return item;
        }
    }
    return NULL;
}

static int add_reference(struct native_image_record *record, const char *reference,
                         int64_t named_at_ms, struct error *err)
{
    json_t *item = find_reference(record, reference);
    int failed;

    if (item != NULL) {
        failed = json_object_set_new(item, "namedAtMs", json_integer(named_at_ms));
    } else {
        failed = json_array_append_new(
            record->references,
            json_pack("{s:s, s:I}", "reference", reference, "namedAtMs", (json_int_t)named_at_ms));
    }
    return failed == 0 ? 0 : no_memory(err);
}

int native_image_record_add_reference(struct native_image_record *record, const char *name,
                                      const char *digest, struct error *err)
{
    _cleanup_buf_ struct buf reference;

    buf_init(&reference, NATIVE_IMAGE_DOCUMENT_MAX);
    if (buf_addf(&reference, "%s@%s", name, digest) < 0) {
        return no_memory(err);
    }
    return add_reference(record, buf_str(&reference), clock_wall_ms(), err);
}

/* "name" means "name:latest", as everywhere. */
static bool is_called(const char *reference, const char *tag)
{
    size_t len = (size_t)(strrchr(reference, '@') - reference);
    const char *slash = strrchr(tag, '/');
    bool tagged = strchr(slash != NULL ? slash : tag, ':') != NULL;
    size_t tag_len = strlen(tag);

    if (strncmp(reference, tag, len) == 0 &&
        (tag_len == len || strcmp(tag + len, ":latest") == 0)) {
        return true;
    }
    return !tagged && len == tag_len + strlen(":latest") && strncmp(reference, tag, tag_len) == 0 &&
           strncmp(reference + tag_len, ":latest", strlen(":latest")) == 0;
}

int64_t native_image_record_match(const struct native_image_record *record, const char *reference)
{
    const char *at = strrchr(reference, '@');
    int64_t newest = -1;
    size_t i;
    const json_t *item;

    if (at != NULL) {
        return has_digest(record, at + 1) ? INT64_MAX : -1;
    }
    json_array_foreach(record->references, i, item)
    {
        int64_t named = json_integer_value(json_object_get(item, "namedAtMs"));

        if (named > newest &&
            is_called(json_string_value(json_object_get(item, "reference")), reference)) {
            newest = named;
        }
    }
    return newest;
}

int native_image_record_merge(struct native_image_record *to,
                              const struct native_image_record *from, struct error *err)
{
    size_t i;
    const json_t *item;

    json_array_foreach(from->digests, i, item)
    {
        if (native_image_record_add_digest(to, json_string_value(item), err) < 0) {
            return -1;
        }
    }
    json_array_foreach(from->references, i, item)
    {
        if (add_reference(to, json_string_value(json_object_get(item, "reference")),
                          json_integer_value(json_object_get(item, "namedAtMs")), err) < 0) {
            return -1;
        }
    }
    return 0;
}

int native_image_record_describe(const struct native_image_record *record, struct host_image *out,
                                 struct error *err)
{
    const char *reference =
        json_string_value(json_object_get(json_array_get(record->references, 0), "reference"));
    struct host_image image = {.size_bytes = record->size_bytes};

    image.reference = strdup(reference != NULL ? reference : native_image_record_id(record));
    image.digests = json_dumps(record->digests, JSON_COMPACT);
    if (image.reference == NULL || image.digests == NULL) {
        free(image.reference);
        free(image.digests);
        return no_memory(err);
    }
    *out = image;
    return 0;
}
