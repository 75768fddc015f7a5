#include "api/base64.h"

#include <stdint.h>
#include <string.h>

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t len, size_t *text_len)
{
    const unsigned char *from = data;
    size_t size = len / 3 * 4 + (len % 3 != 0 ? 4 : 0);
    char *text = malloc(size + 1);
    char *to = text;

    if (text == NULL) {
        return NULL;
    }
    for (; len >= 3; len -= 3, from += 3) {
        *to++ = ALPHABET[from[0] >> 2];
        *to++ = ALPHABET[(from[0] & 3) << 4 | from[1] >> 4];
        *to++ = ALPHABET[(from[1] & 15) << 2 | from[2] >> 6];
        *to++ = ALPHABET[from[2] & 63];
    }
    if (len > 0) {
        unsigned char second = len == 2 ? from[1] : 0;

        *to++ = ALPHABET[from[0] >> 2];
        *to++ = ALPHABET[(from[0] & 3) << 4 | second >> 4];
        *to++ = '=';
        *to++ = '=';
        if (len == 2) {
            to[-2] = ALPHABET[(second & 15) << 2];
        }
    }
    *to = '\0';
    if (text_len != NULL) {
        *text_len = size;
    }
    return text;
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Reads `count` characters (2..4) into count - 1 bytes; the bits that are left over must be zero.
 */
static int decode_group(const char *text, size_t count, char *out)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < 4; i++) {
        int value = i < count ? value_of(text[i]) : 0;

        if (value < 0) {
            return -1;
        }
        bits = bits << 6 | (uint32_t)value;
    }
    for (size_t i = 0; i + 1 < count; i++) {
        out[i] = (char)(bits >> (16 - 8 * i) & 0xFF);
    }
    if ((count == 2 && (bits & 0xFFFF) != 0) || (count == 3 && (bits & 0xFF) != 0)) {
        return -1;
    }
    return 0;
}

int base64_decode(const char *text, size_t text_len, char **out, size_t *len)
{
    _cleanup_free_ char *data = malloc(text_len / 4 * 3 + 1);
    size_t used = 0;

    if (text_len % 4 != 0 || data == NULL) {
        return -1;
    }
    for (size_t at = 0; at < text_len; at += 4) {
        size_t count = 4;

        if (at + 4 == text_len && text[at + 3] == '=') {
            count = text[at + 2] == '=' ? 2 : 3;
        }
        if (decode_group(text + at, count, data + used) != 0) {
            return -1;
        }
        used += count - 1;
    }
    data[used] = '\0';
    *out = TAKE_PTR(data);
    *len = used;
    return 0;
}
