/* The XML of a store, and a file of credentials: the first byte chooses. */
#include "tests/fuzz/fuzz.h"

#include "store/objects/answer.h"

#include <string.h>

static void check_answer(const char *text, size_t len)
{
    struct objects_answer a;

    if (objects_answer_parse(text, len, &a) != 0) {
        return;
    }
    fuzz_require(strlen(a.code) < sizeof(a.code) && strlen(a.upload_id) < sizeof(a.upload_id));
    for (size_t i = 0; i < a.list.count; i++) {
        fuzz_require(a.list.items[i].key != NULL);
        fuzz_require(a.list.items[i].size >= -1);
    }
    objects_answer_done(&a);
}

static void check_credentials(const char *text, size_t len)
{
    struct objects_credentials c;
    struct error err = ERROR_INIT;

    if (objects_credentials_parse(text, len, &c, &err) != 0) {
        fuzz_require(err.code == ERROR_INVALID_REQUEST);
        return;
    }
    fuzz_require(strpbrk(c.secret_key, " \r\n") == NULL && c.access_key[0] != '\0');
    objects_credentials_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0) {
        return 0;
    }
    text = fuzz_copy(data + 1, size - 1);
    if (data[0] % 2 == 0) {
        check_answer(text, size - 1);
    } else {
        check_credentials(text, size - 1);
    }
    free(text);
    return 0;
}
