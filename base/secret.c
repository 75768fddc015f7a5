#include "base/secret.h"

#include "base/macros.h"

#include <string.h>

static const char *const WORDS[] = {
    "TOKEN",  "SECRET",    "PASSWORD",   "PASSWD",     "APIKEY",
    "KEYAPI", "ACCESSKEY", "PRIVATEKEY", "CREDENTIAL",
};

/* The next character that counts, uppercased, with *at moved behind it; 0 at the end. Not by ctype:
 * the rule is about ASCII whatever the locale. */
static char next_char(const char *name, size_t len, size_t *at)
{
    while (*at < len) {
        char c = name[(*at)++];

        if (c >= 'a' && c <= 'z') {
            return (char)(c - 'a' + 'A');
        }
        if ((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
            return c;
        }
    }
    return 0;
}

static bool word_at(const char *word, const char *name, size_t len, size_t at)
{
    for (; *word != '\0'; word++) {
        if (next_char(name, len, &at) != *word) {
            return false;
        }
    }
    return true;
}

bool secret_name_like(const char *name, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++) {
            if (word_at(WORDS[i], name, len, at)) {
                return true;
            }
        }
    }
    return false;
}
