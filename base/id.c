#include "base/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum { RANDOM_CHARS = 26, PREFIX_MAX = 16 };

static void fill_random(unsigned char *out, size_t len)
{
    size_t have = 0;

    while (have < len) {
        ssize_t n = getrandom(out + have, len - have, 0);

        if (n < 0 && errno != EINTR) {
            abort();
        }
        have += n > 0 ? (size_t)n : 0;
    }
}

void id_generate(const char *prefix, char out[ID_SIZE])
{
    static const char DIGITS[] = "0123456789abcdefghijklmnopqrstuv";
    unsigned char random[RANDOM_CHARS];
    size_t len = strnlen(prefix, PREFIX_MAX);

    fill_random(random, sizeof(random));
    memcpy(out, prefix, len);
    out[len++] = '-';
    for (size_t i = 0; i < RANDOM_CHARS; i++) {
        out[len++] = DIGITS[random[i] & 31];
    }
    out[len] = '\0';
}

bool id_is_valid(const char *id)
{
    static const char FIRST[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    static const char REST[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t len = strnlen(id, ID_MAX + 1);

    return len >= 1 && len <= ID_MAX && strchr(FIRST, id[0]) != NULL && strspn(id, REST) == len;
}
