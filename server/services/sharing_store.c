/* What lies in the shared store: listed, removed, looked after. */
#include "api/checkpoint.h"
#include "api/json.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/services/sharing_private.h"

#include <string.h>

enum { PAGE = 1000 };

/* --- all objects of a prefix --- */

/* -1 ends the walk. */
typedef int (*visit_fn)(void *ctx, const struct objects_item *item, struct error *err);

static int walk(struct sharing *sh, const char *prefix, visit_fn visit, void *ctx,
                struct error *err)
{
    const struct objects_watch watch = sharing_watch(sh);
    _cleanup_free_ char *after = NULL;
    bool more = true;
    int result = 0;

    while (result == 0 && more) {
        struct objects_list list = {0};
        const struct objects_page page = {prefix, after, PAGE};
        if (objects_list(sh->objects, &page, &watch, &list, err) != 0) {
            return -1;
        }
        for (size_t i = 0; result == 0 && i < list.count; i++) {
            result = visit(ctx, &list.items[i], err);
        }
        more = list.more && list.count > 0;
        free(TAKE_PTR(after));
        if (result == 0 && more && (after = strdup(list.items[list.count - 1].key)) == NULL) {
            result = error_set(err, ERROR_INTERNAL, "out of memory");
        }
        objects_list_done(&list);
    }
    return result;
}

/* --- what manifests refer to --- */

/* The digests that the manifests of a tenant name, as a set. */
struct references {
    struct sharing *sh;
    const char *prefix;
    json_t *digests;
};

static int add_references(struct references *r, const struct workspace_archive_facts *facts,
                          struct error *err)
{
    if (json_object_set_new(r->digests, facts->archive_digest, json_true()) != 0 ||
        json_object_set_new(r->digests, facts->files_digest, json_true()) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

/* A manifest that can't be read may refer to anything: then nothing is let go. */
static int visit_manifest(void *ctx, const struct objects_item *item, struct error *err)
{
    struct references *r = ctx;
    struct sharing_manifest found;
    char id[ID_SIZE];
    int result = 0;

    if (!sharing_id_of_key(r->prefix, item->key, id)) {
        return 0;
    }
    sharing_manifest_init(&found);
    result = sharing_manifest_fetch(r->sh, item->key, &found, err);
    if (result == 0 && found.head.exists) {
        result = sharing_manifest_decode(&found, err);
        if (result == 0) {
            result = add_references(r, &found.m.facts, err);
        }
    }
    sharing_manifest_done(&found);
    return result;
}

/* Returns owned. */
static int collect_references(struct sharing *sh, const char *tenant, json_t **out,
                              struct error *err)
{
    char prefix[SHARED_KEY_SIZE];
    struct references r = {sh, prefix, json_object()};

    if (sharing_checkpoints_key(sh, tenant, prefix, err) != 0 ||
        walk(sh, prefix, visit_manifest, &r, err) != 0) {
        json_decref(r.digests);
        return -1;
    }
    *out = r.digests;
    return 0;
}

/* --- removing --- */

/* Its age is asked at the last moment: who shares it meanwhile has sent it anew. */
static int let_go(struct sharing *sh, const char *key, int64_t kept_ms, struct error *err)
{
    struct objects_head head;
    const struct objects_watch watch = sharing_watch(sh);

    if (objects_head(sh->objects, key, &watch, &head, err) != 0) {
        return -1;
    }
    return head.exists && head.age_ms >= kept_ms ? objects_delete(sh->objects, key, &watch, err)
                                                 : 0;
}

static int let_blobs_go(struct sharing *sh, const char *tenant,
                        const struct workspace_archive_facts *facts, struct error *err)
{
    const char *const digests[] = {facts->archive_digest, facts->files_digest};
    _cleanup_json_ json_t *referred = NULL;

    if (collect_references(sh, tenant, &referred, err) != 0) {
        return -1;
    }
    for (size_t i = 0; i < ARRAY_SIZE(digests); i++) {
        char key[SHARED_KEY_SIZE];
        if (json_object_get(referred, digests[i]) == NULL &&
            (sharing_blob_key(sh, tenant, digests[i], key, err) != 0 ||
             let_go(sh, key, BLOB_KEPT_MS, err) != 0)) {
            return -1;
        }
    }
    return 0;
}

int sharing_remove(struct service *s, const char *tenant, const char *id, struct error *err)
{
    struct sharing *sh = s->sharing;
    char key[SHARED_KEY_SIZE];
    struct sharing_manifest found;
    struct error ignored = ERROR_INIT;

    if (sharing_check(s, "?shared", err) != 0 ||
        sharing_manifest_key(sh, tenant, id, key, err) != 0) {
        return -1;
    }
    const struct objects_watch watch = sharing_watch(sh);
    sharing_manifest_init(&found);
    int result = sharing_manifest_fetch(sh, key, &found, err);
    if (result == 0 && found.head.exists) {
        result = objects_delete(sh->objects, key, &watch, err);
        /* What can't be let go now is let go by the next look at the store. */
        if (result == 0 && (sharing_manifest_decode(&found, &ignored) != 0 ||
                            let_blobs_go(sh, tenant, &found.m.facts, &ignored) != 0)) {
            log_failure(LOG_LEVEL_WARN, &ignored, "blobs of a removed checkpoint stay for now",
                        "checkpoint", id, "tenant", tenant, NULL);
        }
    }
    sharing_manifest_done(&found);
    return result;
}

/* --- listing --- */

static json_t *encode_item(struct sharing *sh, const char *id, const struct objects_item *item,
                           struct sharing_manifest *found)
{
    struct error bad = ERROR_INIT;
    bool readable = sharing_manifest_decode(found, &bad) == 0;
    const struct workspace_manifest *m = &found->m;
    _cleanup_free_ char *uri = sharing_uri(sh, item->key);
    const struct api_shared_item view = {
        .checkpoint_id = id,
        .uri = uri,
        .digest = found->digest,
        .uploaded_at = found->head.modified != 0 ? found->head.modified : item->modified,
        .created_at = readable ? m->created_at : -1,
        .source_execution_id = readable ? m->source_execution_id : NULL,
        .size_bytes = readable ? m->facts.content_bytes : -1,
        .archive_bytes = readable ? m->facts.archive_bytes : -1,
        .image = readable ? m->image : NULL,
        .metadata = readable ? m->metadata : NULL,
        .problem = readable ? NULL : bad.detail,
    };
    return uri == NULL ? NULL : api_shared_item_encode(&view);
}

struct listing {
    struct sharing *sh;
    const struct sharing_page *page;
    char prefix[SHARED_KEY_SIZE]; /* of all checkpoints of the tenant */
    json_t *items;
    char last[ID_SIZE];
    bool full;
};

/* One that goes while the list is made is not in it. */
static int visit_item(void *ctx, const struct objects_item *item, struct error *err)
{
    struct listing *l = ctx;
    struct sharing_manifest found;
    char id[ID_SIZE];
    int result;

    if (!sharing_id_of_key(l->prefix, item->key, id)) {
        return 0;
    }
    if (json_array_size(l->items) == (size_t)l->page->limit) {
        l->full = true;
        return error_set(err, ERROR_NONE, "enough");
    }
    sharing_manifest_init(&found);
    result = sharing_manifest_fetch(l->sh, item->key, &found, err);
    if (result == 0 && found.head.exists) {
        memcpy(l->last, id, ID_SIZE);
        if (json_array_append_new(l->items, encode_item(l->sh, id, item, &found)) != 0) {
            result = error_set(err, ERROR_INTERNAL, "out of memory");
        }
    }
    sharing_manifest_done(&found);
    return result;
}

/* As walk(), but from a place on and no further than the page. */
static int walk_page(struct listing *l, struct error *err)
{
    const struct objects_watch watch = sharing_watch(l->sh);
    char prefix[SHARED_KEY_SIZE + ID_SIZE];
    char after[SHARED_KEY_SIZE + 2 * ID_SIZE] = "";
    bool more = true;

    snprintf(prefix, sizeof(prefix), "%s%s", l->prefix, l->page->prefix);
    if (l->page->after[0] != '\0') {
        snprintf(after, sizeof(after), "%s%s/manifest.json", l->prefix, l->page->after);
    }
    while (more) {
        struct objects_list list = {0};
        const struct objects_page page = {prefix, after[0] != '\0' ? after : NULL,
                                          l->page->limit + 1};
        int result = objects_list(l->sh->objects, &page, &watch, &list, err);
        for (size_t i = 0; result == 0 && i < list.count; i++) {
            result = visit_item(l, &list.items[i], err);
            snprintf(after, sizeof(after), "%s", list.items[i].key);
        }
        more = list.more && list.count > 0;
        objects_list_done(&list);
        if (result != 0) {
            return l->full ? 0 : -1;
        }
    }
    return 0;
}

int sharing_list(struct service *s, const struct sharing_page *page, json_t **out,
                 struct error *err)
{
    struct listing l = {.page = page};

    if (sharing_check(s, NULL, err) != 0) {
        return -1;
    }
    l.sh = s->sharing;
    if (sharing_checkpoints_key(l.sh, page->tenant, l.prefix, err) != 0) {
        return -1;
    }
    l.items = json_array();
    if (l.items == NULL || walk_page(&l, err) != 0) {
        json_decref(l.items);
        return l.items == NULL ? error_set(err, ERROR_INTERNAL, "out of memory") : -1;
    }
    *out = json_pack("{s:o, s:s?}", "items", l.items, "nextCursor", l.full ? l.last : NULL);
    return *out != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

/* --- looking after it --- */

/* An upload of a day ago is nobody's any more: its worker is gone, or begins it again. */
static int end_old_uploads(struct sharing *sh, struct error *err)
{
    const struct objects_watch watch = sharing_watch(sh);
    struct objects_list uploads;
    int64_t before = clock_wall_ms() - UPLOAD_KEPT_MS;
    int result = 0;

    if (objects_list_uploads(sh->objects, sh->prefix, &watch, &uploads, err) != 0) {
        return -1;
    }
    for (size_t i = 0; result == 0 && i < uploads.count; i++) {
        const struct objects_item *u = &uploads.items[i];
        if (u->upload_id != NULL && u->modified != 0 && u->modified < before) {
            result = objects_abort(sh->objects, u->key, u->upload_id, &watch, err);
        }
    }
    objects_list_done(&uploads);
    return result;
}

/* All objects in the order of their keys: the blobs of tenants, with the references of one at a
 * time, and probes. */
struct look {
    struct sharing *sh;
    char tenant[ID_SIZE]; /* whose references these are */
    json_t *referred;     /* NULL: they can't be told, nothing of the tenant is let go */
    int removed;
};

static bool read_blob_key(const struct look *b, const char *key, char tenant[ID_SIZE],
                          char digest[DIGEST_TEXT_SIZE])
{
    static const char middle[] = "/blobs/sha256/";
    const char *rest = key + strlen(b->sh->prefix);
    const char *slash = strchr(rest, '/');

    if (slash == NULL || slash - rest > ID_MAX || strncmp(slash, middle, strlen(middle)) != 0 ||
        strlen(slash + strlen(middle)) != 64) {
        return false;
    }
    snprintf(tenant, ID_SIZE, "%.*s", (int)(slash - rest), rest);
    snprintf(digest, DIGEST_TEXT_SIZE, "sha256:%s", slash + strlen(middle));
    return id_is_valid(tenant) && digest_is_valid(digest);
}

static void turn_to_tenant(struct look *b, const char *tenant)
{
    struct error err = ERROR_INIT;

    json_decref(TAKE_PTR(b->referred));
    snprintf(b->tenant, sizeof(b->tenant), "%s", tenant);
    if (collect_references(b->sh, tenant, &b->referred, &err) != 0) {
        b->referred = NULL;
        log_failure(LOG_LEVEL_WARN, &err, "shared blobs stay: what refers to them can't be told",
                    "tenant", tenant, NULL);
    }
}

/* Roughly, to ask about few of them; let_go() asks the store. */
static bool is_older(const struct objects_item *item, int64_t kept_ms)
{
    return item->modified != 0 && clock_wall_ms() - item->modified >= kept_ms;
}

static int visit_object(void *ctx, const struct objects_item *item, struct error *err)
{
    struct look *b = ctx;
    char tenant[ID_SIZE];
    char digest[DIGEST_TEXT_SIZE];
    size_t len = strlen(b->sh->prefix);

    if (strncmp(item->key, b->sh->prefix, len) != 0) {
        return 0; /* not what was asked for */
    }
    if (strncmp(item->key + len, SHARED_PROBES, strlen(SHARED_PROBES)) == 0) {
        return is_older(item, PROBE_KEPT_MS) ? let_go(b->sh, item->key, PROBE_KEPT_MS, err) : 0;
    }
    if (!is_older(item, BLOB_KEPT_MS) || !read_blob_key(b, item->key, tenant, digest)) {
        return 0;
    }
    if (strcmp(b->tenant, tenant) != 0) {
        turn_to_tenant(b, tenant);
    }
    if (b->referred == NULL || json_object_get(b->referred, digest) != NULL) {
        return 0;
    }
    b->removed++;
    return let_go(b->sh, item->key, BLOB_KEPT_MS, err);
}

void sharing_sweep(void *arg)
{
    struct sharing *sh = arg;
    struct look b = {.sh = sh};
    struct error err = ERROR_INIT;

    if (end_old_uploads(sh, &err) != 0 || walk(sh, sh->prefix, visit_object, &b, &err) != 0) {
        if (!cancel_fired(sh->service->stop)) {
            log_failure(LOG_LEVEL_WARN, &err, "the shared store could not be looked after", NULL);
        }
    } else if (b.removed > 0) {
        log_info("shared blobs that nothing refers to let go", NULL);
    }
    json_decref(b.referred);
}
