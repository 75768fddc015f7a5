/* Every request body of the interface: the first byte picks the decoder, the rest is the body. A
 * refusal names a code; what was accepted can be written and reads back as the same. */
#include "tests/fuzz/fuzz.h"

#include "api/checkpoint.h"
#include "api/command.h"
#include "api/execution.h"
#include "api/image.h"
#include "api/json.h"
#include "api/signal.h"

#include <string.h>

enum { TEXT_MAX = 1 << 24, IMPORT = 'i' };

static void check_round_trip(const json_t *value)
{
    struct error err = ERROR_INIT;
    char *text = api_json_text(value, TEXT_MAX);
    json_t *again = NULL;

    fuzz_require(text != NULL);
    fuzz_require(api_json_load_stored(text, &again, &err) == 0);
    json_decref(again);
    free(text);
}

static int decode_execution(const char *body, size_t len, struct error *err)
{
    struct api_execution_create request;

    if (api_execution_create_decode(body, len, &request, err) != 0) {
        return -1;
    }
    check_round_trip(request.root);
    api_execution_create_done(&request);
    return 0;
}

static int decode_patch(const char *body, size_t len, struct error *err)
{
    struct api_execution_patch request;

    if (api_execution_patch_decode(body, len, &request, err) != 0) {
        return -1;
    }
    api_execution_patch_done(&request);
    return 0;
}

static int decode_owner(const char *body, size_t len, struct error *err)
{
    struct api_owner owner;

    return api_owner_decode(body, len, &owner, err);
}

static int decode_command(const char *body, size_t len, struct error *err)
{
    struct api_command_create request;

    if (api_command_create_decode(body, len, &request, err) != 0) {
        return -1;
    }
    fuzz_require(request.command[0] != '\0');
    fuzz_require(request.arg_count <= API_ARGS_COUNT_MAX);
    fuzz_require(request.timeout_ms >= -1 && request.timeout_ms <= API_TIMEOUT_MS_MAX);
    check_round_trip(request.root);
    api_command_create_done(&request);
    return 0;
}

static int decode_checkpoint(const char *body, size_t len, struct error *err)
{
    struct api_checkpoint_create request;

    if (api_checkpoint_create_decode(body, len, &request, err) != 0) {
        return -1;
    }
    api_checkpoint_create_done(&request);
    return 0;
}

static int decode_restore(const char *body, size_t len, struct error *err)
{
    struct api_checkpoint_restore request;

    if (api_checkpoint_restore_decode(body, len, &request, err) != 0) {
        return -1;
    }
    api_checkpoint_restore_done(&request);
    return 0;
}

static int decode_import(const char *body, size_t len, struct error *err)
{
    struct api_checkpoint_import request;

    if (api_checkpoint_import_decode(body, len, &request, err) != 0) {
        return -1;
    }
    fuzz_require(request.uri != NULL && strncmp(request.digest, "sha256:", 7) == 0);
    api_checkpoint_import_done(&request);
    return 0;
}

static int decode_image(const char *body, size_t len, struct error *err)
{
    struct api_image_fetch request;

    if (api_image_fetch_decode(body, len, &request, err) != 0) {
        return -1;
    }
    fuzz_require(request.reference != NULL);
    api_image_fetch_done(&request);
    return 0;
}

static int decode_signal(const char *body, size_t len, struct error *err)
{
    char name[API_SIGNAL_SIZE];
    int number;

    if (api_signal_decode(body, len, &number, err) != 0) {
        return -1;
    }
    api_signal_name(number, name);
    fuzz_require(number >= 1 && number <= 64 && api_signal_number(name) == number);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const DECODERS[])(const char *body, size_t len, struct error *err) = {
        decode_execution,  decode_patch,   decode_owner, decode_command,
        decode_checkpoint, decode_restore, decode_image, decode_signal,
    };
    struct error err = ERROR_INIT;
    char *body;
    int result;

    if (size == 0) {
        return 0;
    }
    body = fuzz_copy(data + 1, size - 1);
    result =
        data[0] == IMPORT
            ? decode_import(body, size - 1, &err)
            : DECODERS[data[0] % (sizeof(DECODERS) / sizeof(DECODERS[0]))](body, size - 1, &err);
    if (result != 0) {
        fuzz_require(err.code != ERROR_NONE && err.code != ERROR_INTERNAL);
    }
    free(body);
    return 0;
}
