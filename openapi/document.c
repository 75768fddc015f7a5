#include "openapi/document.h"

#include "base/embed.h"

EMBED(openapi_json, OPENAPI_JSON);
EMBED(openapi_yaml, OPENAPI_YAML);

const char *openapi_document_json(size_t *len)
{
    *len = (size_t)(openapi_json_end - openapi_json_start);
    return openapi_json_start;
}

const char *openapi_document_yaml(size_t *len)
{
    *len = (size_t)(openapi_yaml_end - openapi_yaml_start);
    return openapi_yaml_start;
}
