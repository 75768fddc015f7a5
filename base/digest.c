#include "base/digest.h"

#include <openssl/evp.h>
#include <string.h>

enum { SHA256_BYTES = 32 };

static const char PREFIX[] = "sha256:";

struct digest {
    EVP_MD_CTX *ctx;
};

struct digest *digest_new(void)
{
    struct digest *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        abort();
    }
    d->ctx = EVP_MD_CTX_new();
    if (d->ctx == NULL || EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) != 1) {
        abort();
    }
    return d;
}

void digest_free(struct digest *d)
{
    if (d != NULL) {
        EVP_MD_CTX_free(d->ctx);
        free(d);
    }
}

void digest_update(struct digest *d, const void *data, size_t len)
{
    if (EVP_DigestUpdate(d->ctx, data, len) != 1) {
        abort();
    }
}

void digest_final(struct digest *d, char out[DIGEST_TEXT_SIZE])
{
    static const char HEX[] = "0123456789abcdef";
    unsigned char raw[EVP_MAX_MD_SIZE];
    char *to = out;

    if (EVP_DigestFinal_ex(d->ctx, raw, NULL) != 1) {
        abort();
    }

    memcpy(to, PREFIX, sizeof(PREFIX) - 1);
    to += sizeof(PREFIX) - 1;
    for (int i = 0; i < SHA256_BYTES; i++) {
        *to++ = HEX[raw[i] >> 4];
        *to++ = HEX[raw[i] & 15];
    }
    *to = '\0';
}

bool digest_is_valid(const char *text)
{
    if (strncmp(text, PREFIX, sizeof(PREFIX) - 1) != 0) {
        return false;
    }
    text += sizeof(PREFIX) - 1;
    return strspn(text, "0123456789abcdef") == 64 && text[64] == '\0';
}
