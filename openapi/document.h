/* The published document of the HTTP interface, as it stands in the binary. Static; any thread. */
#ifndef EXECHOST_OPENAPI_DOCUMENT_H
#define EXECHOST_OPENAPI_DOCUMENT_H

#include <stddef.h>

const char *openapi_document_json(size_t *len);
const char *openapi_document_yaml(size_t *len);

#endif
