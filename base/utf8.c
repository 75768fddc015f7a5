#include "base/utf8.h"

#include <stdint.h>

/* Length of the sequence at `p`, 0 when there is none within `len` bytes. */
static size_t sequence_length(const unsigned char *p, size_t len)
{
    unsigned char lead = p[0];
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    size_t need;

    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
        need = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        need = 3;
        low = lead == 0xE0 ? 0xA0 : 0x80;
        high = lead == 0xED ? 0x9F : 0xBF;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        need = 4;
        low = lead == 0xF0 ? 0x90 : 0x80;
        high = lead == 0xF4 ? 0x8F : 0xBF;
    } else {
        return 0;
    }
    if (need > len || p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < need; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return need;
}

size_t utf8_valid_prefix(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t at = 0;

    while (at < len) {
        size_t step = sequence_length(p + at, len - at);

        if (step == 0) {
            break;
        }
        at += step;
    }
    return at;
}

bool utf8_is_valid(const char *data, size_t len)
{
    return utf8_valid_prefix(data, len) == len;
}

size_t utf8_cut(const char *data, size_t len, size_t max)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t start;

    if (len <= max) {
        return len;
    }
    start = max;
    while (start > 0 && max - start < 3 && (p[start] & 0xC0) == 0x80) {
        start--;
    }
    if (start < max && start + sequence_length(p + start, len - start) > max) {
        return start;
    }
    return max;
}

void utf8_repair(char *data, size_t len)
{
    size_t at = utf8_valid_prefix(data, len);

    while (at < len) {
        data[at++] = '?';
        at += utf8_valid_prefix(data + at, len - at);
    }
}
