/* What every driver shares. */
#ifndef EXECHOST_TESTS_FUZZ_H
#define EXECHOST_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise of the decoder; breaking it is a finding. */
static inline void fuzz_require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* A private copy of exactly `size` bytes, so that reading one more is seen. Returns owned. */
static inline void *fuzz_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    fuzz_require(copy != NULL);
    for (size_t i = 0; i < size; i++) {
        copy[i] = data[i];
    }
    return copy;
}

/* What follows the first byte, which chooses the case, as a text. `size` > 0. Returns owned. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size);

    fuzz_require(text != NULL);
    for (size_t i = 0; i + 1 < size; i++) {
        text[i] = (char)data[i + 1];
    }
    text[size - 1] = '\0';
    return text;
}

#endif
