#include "workspace/manifest.h"

#include "base/clock.h"
#include "workspace/json_text.h"
#include "workspace/path.h"

#include <stdbool.h>
#include <string.h>

void workspace_manifest_init(struct workspace_manifest *m)
{
    memset(m, 0, sizeof(*m));
}

void workspace_manifest_done(struct workspace_manifest *m)
{
    free(m->image);
    json_decref(m->image_digests);
    json_decref(m->network);
    json_decref(m->environment);
    json_decref(m->metadata);
    workspace_manifest_init(m);
}

enum { CPUS_MAX = 128 };

/* --- decoding --- */

static int invalid(struct error *err, const char *key, const char *what)
{
    return error_set(err, ERROR_CHECKPOINT_INVALID, "manifest: %s: %s",
                     workspace_path_show(key).text, what);
}

/* Reads one member into the manifest; `key` is for details. */
typedef int (*member_fn)(struct workspace_manifest *m, const json_t *value, const char *key,
                         struct error *err);

struct member {
    const char *key;
    member_fn read;
};

static const struct member *find_member(const struct member *table, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].key, key) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* Exactly the members of the table, each once. */
static int read_object(struct workspace_manifest *m, const json_t *object,
                       const struct member *table, size_t count, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (find_member(table, count, key) == NULL) {
            return invalid(err, key, "unknown key");
        }
    }
    for (size_t i = 0; i < count; i++) {
        value = json_object_get(object, table[i].key);
        if (value == NULL) {
            return invalid(err, table[i].key, "missing");
        }
        if (table[i].read(m, value, table[i].key, err) != 0) {
            return -1;
        }
    }
    return 0;
}

struct range {
    int64_t min;
    int64_t max;
};

static int read_integer(const json_t *value, struct range range, int64_t *out, const char *key,
                        struct error *err)
{
    if (!json_is_integer(value)) {
        return invalid(err, key, "not an integer");
    }
    if (json_integer_value(value) < range.min) {
        return invalid(err, key, "too small");
    }
    if (json_integer_value(value) > range.max) {
        return invalid(err, key, "too large");
    }
    *out = json_integer_value(value);
    return 0;
}

/* The string, without a NUL inside; NULL when it is none. */
static const char *plain_string(const json_t *value)
{
    const char *text = json_string_value(value);
    return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

static int read_id(const json_t *value, char out[ID_SIZE], const char *key, struct error *err)
{
    const char *text = plain_string(value);
    if (text == NULL || !id_is_valid(text)) {
        return invalid(err, key, "not an identifier");
    }
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

static int read_digest(const json_t *value, char out[DIGEST_TEXT_SIZE], const char *key,
                       struct error *err)
{
    const char *text = plain_string(value);
    if (text == NULL || !digest_is_valid(text)) {
        return invalid(err, key, "not a sha256 digest");
    }
    memcpy(out, text, DIGEST_TEXT_SIZE);
    return 0;
}

static int read_version(struct workspace_manifest *m, const json_t *value, const char *key,
                        struct error *err)
{
    (void)m;
    if (!json_is_integer(value) || json_integer_value(value) != WORKSPACE_MANIFEST_VERSION) {
        return invalid(err, key, "not 1, the only version there is");
    }
    return 0;
}

static int read_checkpoint_id(struct workspace_manifest *m, const json_t *value, const char *key,
                              struct error *err)
{
    return read_id(value, m->checkpoint_id, key, err);
}

static int read_source_execution_id(struct workspace_manifest *m, const json_t *value,
                                    const char *key, struct error *err)
{
    return read_id(value, m->source_execution_id, key, err);
}

static int read_source_incarnation(struct workspace_manifest *m, const json_t *value,
                                   const char *key, struct error *err)
{
    return read_integer(value, (struct range){1, UINT32_MAX}, &m->source_incarnation, key, err);
}

static int read_created_at(struct workspace_manifest *m, const json_t *value, const char *key,
                           struct error *err)
{
    const char *text = plain_string(value);
    char canonical[CLOCK_TEXT_SIZE] = "";
    if (text != NULL && clock_parse(text, &m->created_at) == 0) {
        clock_format(m->created_at, canonical);
    }
    if (text == NULL || strcmp(text, canonical) != 0) {
        return invalid(err, key, "not a time in UTC with milliseconds");
    }
    return 0;
}

static int read_image(struct workspace_manifest *m, const json_t *value, const char *key,
                      struct error *err)
{
    const char *text = plain_string(value);
    if (text == NULL || text[0] == '\0') {
        return invalid(err, key, "not an image reference");
    }
    m->image = strdup(text);
    return m->image != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

/* "sha256:…" or "name@sha256:…". */
static int read_image_digests(struct workspace_manifest *m, const json_t *value, const char *key,
                              struct error *err)
{
    if (!json_is_array(value)) {
        return invalid(err, key, "not an array");
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *text = plain_string(json_array_get(value, i));
        const char *at = text != NULL ? strrchr(text, '@') : NULL;
        if (text == NULL || !digest_is_valid(at != NULL ? at + 1 : text)) {
            return invalid(err, key, "not a sha256 digest");
        }
    }
    m->image_digests = json_incref((json_t *)value);
    return 0;
}

static int read_cpus(struct workspace_manifest *m, const json_t *value, const char *key,
                     struct error *err)
{
    if (!json_is_number(value) || !(json_number_value(value) > 0) ||
        json_number_value(value) > CPUS_MAX) {
        return invalid(err, key, "not a number above 0 and up to 128");
    }
    m->resources.cpus = json_number_value(value);
    return 0;
}

/* The largest that a request may ask for: more was never made by a service. */
#define INTEGER_READER(name, field, min, max)                                                      \
    static int name(struct workspace_manifest *m, const json_t *value, const char *key,            \
                    struct error *err)                                                             \
    {                                                                                              \
        return read_integer(value, (struct range){min, max}, &m->field, key, err);                 \
    }
INTEGER_READER(read_memory, resources.memory_bytes, 1, 512LL << 30)
INTEGER_READER(read_disk, resources.disk_bytes, 1, 1LL << 40)
INTEGER_READER(read_pids, resources.pids, 1, 32768)
INTEGER_READER(read_runtime, resources.runtime_ms, 1, 86400000)
INTEGER_READER(read_output, resources.max_output_bytes, 1, 67108864)
INTEGER_READER(read_content_bytes, facts.content_bytes, 0, INT64_MAX)
INTEGER_READER(read_entries, facts.entries, 0, INT64_MAX)
INTEGER_READER(read_skipped, facts.skipped, 0, INT64_MAX)
INTEGER_READER(read_archive_bytes, facts.archive_bytes, 0, INT64_MAX)

static int read_resources(struct workspace_manifest *m, const json_t *value, const char *key,
                          struct error *err)
{
    static const struct member table[] = {
        {"cpus", read_cpus}, {"memoryBytes", read_memory}, {"diskBytes", read_disk},
        {"pids", read_pids}, {"runtimeMs", read_runtime},  {"maxOutputBytes", read_output},
    };
    if (!json_is_object(value)) {
        return invalid(err, key, "not an object");
    }
    return read_object(m, value, table, ARRAY_SIZE(table), err);
}

/* What is decoded must be possible to encode. */
static bool is_too_deep(const json_t *value, int depth)
{
    const char *key;
    json_t *member;
    if (depth > WORKSPACE_JSON_DEPTH_MAX) {
        return true;
    }
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (is_too_deep(json_array_get(value, i), depth + 1)) {
                return true;
            }
        }
    } else if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, member)
        {
            if (is_too_deep(member, depth + 1)) {
                return true;
            }
        }
    }
    return false;
}

static int keep_object(const json_t *value, json_t **out, const char *key, struct error *err)
{
    if (!json_is_object(value)) {
        return invalid(err, key, "not an object");
    }
    if (is_too_deep(value, 0)) {
        return invalid(err, key, "nested too deep");
    }
    *out = json_incref((json_t *)value);
    return 0;
}

static int read_network(struct workspace_manifest *m, const json_t *value, const char *key,
                        struct error *err)
{
    return keep_object(value, &m->network, key, err);
}

static int read_environment(struct workspace_manifest *m, const json_t *value, const char *key,
                            struct error *err)
{
    const char *name;
    json_t *text;
    json_object_foreach((json_t *)value, name, text)
    {
        if (plain_string(text) == NULL) {
            return invalid(err, key, "a value that is no string, or has a NUL inside");
        }
    }
    return keep_object(value, &m->environment, key, err);
}

static int read_metadata(struct workspace_manifest *m, const json_t *value, const char *key,
                         struct error *err)
{
    return keep_object(value, &m->metadata, key, err);
}

static int read_archive_digest(struct workspace_manifest *m, const json_t *value, const char *key,
                               struct error *err)
{
    return read_digest(value, m->facts.archive_digest, key, err);
}

static int read_files(struct workspace_manifest *m, const json_t *value, const char *key,
                      struct error *err)
{
    return read_digest(value, m->facts.files_digest, key, err);
}

static int read_compression(struct workspace_manifest *m, const json_t *value, const char *key,
                            struct error *err)
{
    const char *text = plain_string(value);
    if (text != NULL && strcmp(text, "zstd") == 0) {
        m->facts.compression = WORKSPACE_COMPRESSION_ZSTD;
    } else if (text != NULL && strcmp(text, "none") == 0) {
        m->facts.compression = WORKSPACE_COMPRESSION_NONE;
    } else {
        return invalid(err, key, "neither zstd nor none");
    }
    return 0;
}

static int read_format(struct workspace_manifest *m, const json_t *value, const char *key,
                       struct error *err)
{
    (void)m;
    const char *text = plain_string(value);
    if (text == NULL || strcmp(text, "pax") != 0) {
        return invalid(err, key, "not pax");
    }
    return 0;
}

static int read_archive(struct workspace_manifest *m, const json_t *value, const char *key,
                        struct error *err)
{
    static const struct member table[] = {
        {"digest", read_archive_digest},
        {"bytes", read_archive_bytes},
        {"compression", read_compression},
        {"format", read_format},
    };
    if (!json_is_object(value)) {
        return invalid(err, key, "not an object");
    }
    return read_object(m, value, table, ARRAY_SIZE(table), err);
}

static int read_manifest(struct workspace_manifest *m, const json_t *root, struct error *err)
{
    /* The version first: of another one no key can be judged. */
    static const struct member table[] = {
        {"version", read_version},
        {"checkpointId", read_checkpoint_id},
        {"sourceExecutionId", read_source_execution_id},
        {"sourceIncarnation", read_source_incarnation},
        {"createdAt", read_created_at},
        {"image", read_image},
        {"imageDigests", read_image_digests},
        {"resources", read_resources},
        {"network", read_network},
        {"environment", read_environment},
        {"metadata", read_metadata},
        {"contentBytes", read_content_bytes},
        {"entries", read_entries},
        {"skipped", read_skipped},
        {"archive", read_archive},
        {"files", read_files},
    };
    const json_t *version = json_object_get(root, "version");
    if (version != NULL && read_version(m, version, "version", err) != 0) {
        return -1;
    }
    return read_object(m, root, table, ARRAY_SIZE(table), err);
}

int workspace_manifest_decode(struct workspace_manifest *m, const char *text, size_t len,
                              struct error *err)
{
    if (len > WORKSPACE_MANIFEST_MAX) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "manifest: larger than %d bytes",
                         WORKSPACE_MANIFEST_MAX);
    }
    json_error_t why;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (root == NULL) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "manifest: not JSON: %s",
                         workspace_path_show(why.text).text);
    }
    int r = json_is_object(root)
                ? read_manifest(m, root, err)
                : error_set(err, ERROR_CHECKPOINT_INVALID, "manifest: not an object");
    json_decref(root);
    if (r != 0) {
        workspace_manifest_done(m);
    }
    return r;
}

/* --- encoding --- */

static int put_text(struct buf *out, const char *key, const char *value)
{
    if (value == NULL || buf_addf(out, "\"%s\":", key) != 0) {
        return -1;
    }
    return workspace_json_put_string(out, value, strlen(value)) == 0 ? buf_add_char(out, ',') : -1;
}

static int put_number(struct buf *out, const char *key, int64_t value)
{
    return buf_addf(out, "\"%s\":%lld,", key, (long long)value);
}

static int put_json(struct buf *out, const char *key, const json_t *value)
{
    if (buf_addf(out, "\"%s\":", key) != 0 || workspace_json_put(out, value) != 0) {
        return -1;
    }
    return buf_add_char(out, ',');
}

static int put_resources(struct buf *out, const struct workspace_manifest_resources *r)
{
    if (buf_add_str(out, "\"resources\":{\"cpus\":") != 0) {
        return -1;
    }
    int whole = r->cpus >= 1 && r->cpus <= 1e6 && r->cpus == (double)(int64_t)r->cpus;
    if (whole ? buf_addf(out, "%lld", (long long)r->cpus) != 0
              : workspace_json_put_real(out, r->cpus) != 0) {
        return -1;
    }
    return buf_addf(out,
                    ",\"memoryBytes\":%lld,\"diskBytes\":%lld,\"pids\":%lld,\"runtimeMs\":%lld,"
                    "\"maxOutputBytes\":%lld},",
                    (long long)r->memory_bytes, (long long)r->disk_bytes, (long long)r->pids,
                    (long long)r->runtime_ms, (long long)r->max_output_bytes);
}

static int put_facts(struct buf *out, const struct workspace_archive_facts *f)
{
    const char *compression = f->compression == WORKSPACE_COMPRESSION_ZSTD ? "zstd" : "none";
    if (put_number(out, "contentBytes", f->content_bytes) != 0 ||
        put_number(out, "entries", f->entries) != 0 ||
        put_number(out, "skipped", f->skipped) != 0) {
        return -1;
    }
    return buf_addf(out,
                    "\"archive\":{\"digest\":\"%s\",\"bytes\":%lld,\"compression\":\"%s\","
                    "\"format\":\"pax\"},\"files\":\"%s\"}",
                    f->archive_digest, (long long)f->archive_bytes, compression, f->files_digest);
}

static int put_manifest(struct buf *out, const struct workspace_manifest *m)
{
    char created[CLOCK_TEXT_SIZE];
    clock_format(m->created_at, created);
    if (buf_addf(out, "{\"version\":%d,", WORKSPACE_MANIFEST_VERSION) != 0 ||
        put_text(out, "checkpointId", m->checkpoint_id) != 0 ||
        put_text(out, "sourceExecutionId", m->source_execution_id) != 0 ||
        put_number(out, "sourceIncarnation", m->source_incarnation) != 0 ||
        put_text(out, "createdAt", created) != 0 || put_text(out, "image", m->image) != 0 ||
        put_json(out, "imageDigests", m->image_digests) != 0 ||
        put_resources(out, &m->resources) != 0 || put_json(out, "network", m->network) != 0 ||
        put_json(out, "environment", m->environment) != 0 ||
        put_json(out, "metadata", m->metadata) != 0) {
        return -1;
    }
    return put_facts(out, &m->facts);
}

int workspace_manifest_encode(const struct workspace_manifest *m, struct buf *out,
                              struct error *err)
{
    size_t before = out->len;
    if (put_manifest(out, m) == 0) {
        return 0;
    }
    if (out->data != NULL) {
        out->len = before;
        out->data[before] = '\0';
    }
    return error_set(err, ERROR_INTERNAL, "the manifest is incomplete or too large");
}
