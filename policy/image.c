#include "policy/policy.h"
#include "policy/rules.h"

#include "base/digest.h"

#include <string.h>

enum { REFERENCE_MAX = 1024 };

int policy_image_reference(const char *reference, bool allow_unpinned, const char *field,
                           struct error *err)
{
    static const char REST[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/:@-";
    size_t len = strnlen(reference, REFERENCE_MAX + 1);
    const char *at = strrchr(reference, '@');

    if (len == 0 || len > REFERENCE_MAX || strchr("._/:@-", reference[0]) != NULL ||
        strspn(reference, REST) != len) {
        return policy_refuse(
            err, field, "must match [A-Za-z0-9][A-Za-z0-9._/:@-]* and have at most 1024 bytes");
    }
    if (at == NULL && allow_unpinned) {
        return 0;
    }
    if (at == NULL || !digest_is_valid(at + 1)) {
        return policy_refuse(err, field, "must end with @sha256: and 64 lowercase hex digits");
    }
    return 0;
}
