#include "openapi/document.h"

/* The assembler takes the file in as it is; the compiler would need an array literal of 100 KiB. */
#define EMBED(symbol, path)                                                                        \
    __asm__(".pushsection .rodata,\"a\",%progbits\n"                                               \
            ".globl " #symbol "\n"                                                                 \
            ".globl " #symbol "_end\n" #symbol ":\n"                                               \
            ".incbin \"" path "\"\n" #symbol "_end:\n"                                             \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char symbol[] __attribute__((visibility("hidden")));                              \
    extern const char symbol##_end[] __attribute__((visibility("hidden")))

EMBED(openapi_json, OPENAPI_JSON);
EMBED(openapi_yaml, OPENAPI_YAML);

const char *openapi_document_json(size_t *len)
{
    *len = (size_t)(openapi_json_end - openapi_json);
    return openapi_json;
}

const char *openapi_document_yaml(size_t *len)
{
    *len = (size_t)(openapi_yaml_end - openapi_yaml);
    return openapi_yaml;
}
