/* A checkpoint's manifest. What is accepted encodes, and its encoding decodes to the same bytes. */
#include "tests/fuzz/fuzz.h"

#include "workspace/manifest.h"

#include <string.h>

static void check_again(const struct workspace_manifest *manifest)
{
    struct workspace_manifest second;
    struct error err = ERROR_INIT;
    struct buf first_text;
    struct buf second_text;

    buf_init(&first_text, WORKSPACE_MANIFEST_MAX);
    buf_init(&second_text, WORKSPACE_MANIFEST_MAX);
    workspace_manifest_init(&second);
    fuzz_require(workspace_manifest_encode(manifest, &first_text, &err) == 0);
    fuzz_require(workspace_manifest_decode(&second, first_text.data, first_text.len, &err) == 0);
    fuzz_require(workspace_manifest_encode(&second, &second_text, &err) == 0);
    fuzz_require(first_text.len == second_text.len &&
                 memcmp(first_text.data, second_text.data, first_text.len) == 0);
    workspace_manifest_done(&second);
    buf_done(&first_text);
    buf_done(&second_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct workspace_manifest manifest;
    struct error err = ERROR_INIT;
    char *text = fuzz_copy(data, size);

    workspace_manifest_init(&manifest);
    if (workspace_manifest_decode(&manifest, text, size, &err) == 0) {
        check_again(&manifest);
    } else {
        fuzz_require(err.code == ERROR_CHECKPOINT_INVALID);
    }
    workspace_manifest_done(&manifest);
    free(text);
    return 0;
}
