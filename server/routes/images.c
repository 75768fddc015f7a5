#include "api/image.h"
#include "api/json.h"
#include "policy/policy.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"

static json_t *encode_image(const struct service_host *h, const struct host_image *image)
{
    struct error err = ERROR_INIT;
    _cleanup_json_ json_t *digests = NULL;
    if (api_json_load_stored(image->digests, &digests, &err) != 0) {
        return NULL;
    }
    const struct api_image view = {
        .reference = image->reference,
        .host = h->name,
        .digests = digests,
        .size_bytes = image->size_bytes,
    };
    return api_image_encode(&view);
}

/* A host that can't be reached contributes nothing. */
static int append_images(struct service_host *h, json_t *items, struct error *err)
{
    struct host_image_list list = {0};
    if (h->host->ops->image_list(h->host, &list, err) != 0) {
        bool unreachable = err->code == ERROR_HOST_UNAVAILABLE;
        if (unreachable) {
            error_clear(err);
        }
        return unreachable ? 0 : -1;
    }
    for (size_t i = 0; i < list.count; i++) {
        json_array_append_new(items, encode_image(h, &list.items[i]));
    }
    host_image_list_done(&list);
    return 0;
}

void route_image_list(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    json_t *items = json_array();
    for (unsigned i = 0; i < s->host_count; i++) {
        if (append_images(&s->hosts[i], items, &err) != 0) {
            json_decref(items);
            route_fail(x, &err);
            return;
        }
    }
    http_reply_json(x, 200, json_pack("{s:o}", "items", items));
}

void route_image_fetch(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    size_t len;
    const char *body = http_body(x, &len);
    struct api_image_fetch request = {0};
    struct service_host *h = NULL;
    struct host_image image = {0};
    if (service_accepts_work(s, &err) != 0 ||
        api_image_fetch_decode(body, len, &request, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    int result = service_host_find(s, request.host, &h, &err);
    if (result == 0) {
        result = policy_image_reference(request.reference, s->config->allow_unpinned_images,
                                        "/reference", &err);
    }
    if (result == 0) {
        result = h->host->ops->image_pull(h->host, request.reference, &image, &err);
    }
    api_image_fetch_done(&request);
    if (result != 0) {
        route_fail(x, &err);
        return;
    }
    json_t *answer = encode_image(h, &image);
    free(image.reference);
    free(image.digests);
    http_reply_json(x, 201, answer);
}

static int remove_from(struct service_host *h, const char *reference, bool *removed,
                       struct error *err)
{
    if (h->host->ops->image_remove(h->host, reference, err) == 0) {
        *removed = true;
        return 0;
    }
    if (err->code == ERROR_IMAGE_NOT_FOUND) {
        error_clear(err);
        return 0;
    }
    return -1;
}

/* The one host that ?host names; without it `*out` stays NULL, for all. */
static int host_of_query(const struct http_exchange *x, struct service_host **out,
                         struct error *err)
{
    const char *name = http_query(x, "host");
    if (name != NULL && service_host_find(http_service(x), name, out, err) != 0) {
        return error_set_field(err, err->code, "?host", "%s", err->detail);
    }
    return 0;
}

void route_image_remove(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    const char *reference = http_query(x, "reference");
    struct service_host *only = NULL;
    bool removed = false;
    int result = 0;
    if (reference == NULL) {
        result = error_set_field(&err, ERROR_INVALID_REQUEST, "?reference", "it is missing");
    }
    if (result == 0) {
        result = policy_image_reference(reference, false, "?reference", &err);
    }
    if (result == 0) {
        result = host_of_query(x, &only, &err);
    }
    for (unsigned i = 0; result == 0 && i < s->host_count; i++) {
        if (only == NULL || only == &s->hosts[i]) {
            result = remove_from(&s->hosts[i], reference, &removed, &err);
        }
    }
    if (result == 0 && !removed) {
        result = error_set(&err, ERROR_IMAGE_NOT_FOUND, "no host has %.256s", reference);
    }
    if (result != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_empty(x, 204);
}
