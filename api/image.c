#include "api/image.h"

#include "api/field.h"
#include "api/json.h"

static const struct api_field FETCH_FIELDS[] = {
    {"reference", API_STRING, true, offsetof(struct api_image_fetch, reference)},
    {"host", API_STRING, false, offsetof(struct api_image_fetch, host)},
};

static const struct api_field_table FETCH_TABLE = {FETCH_FIELDS, ARRAY_SIZE(FETCH_FIELDS),
                                                   ERROR_INVALID_REQUEST};

int api_image_fetch_decode(const char *body, size_t len, struct api_image_fetch *out,
                           struct error *err)
{
    struct api_image_fetch request = {0};

    if (api_json_parse_object(body, len, false, &request.root, err) != 0) {
        return -1;
    }
    if (api_fields_decode(request.root, "", &FETCH_TABLE, &request, err) != 0) {
        api_image_fetch_done(&request);
        return -1;
    }
    *out = request;
    return 0;
}

void api_image_fetch_done(struct api_image_fetch *request)
{
    json_decref(request->root);
    *request = (struct api_image_fetch){0};
}

json_t *api_image_encode(const struct api_image *view)
{
    return json_pack("{s:s, s:s, s:O, s:I}", "reference", view->reference, "host", view->host,
                     "digests", view->digests, "sizeBytes", (json_int_t)view->size_bytes);
}
