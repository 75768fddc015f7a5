#include "server/http/exchange.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* True for "" and ":" followed by digits. */
static bool is_port_or_nothing(const char *s)
{
    if (*s == '\0') {
        return true;
    }
    return *s == ':' && s[1] != '\0' && s[1 + strspn(s + 1, "0123456789")] == '\0';
}

bool origin_host_is_loopback(const char *host)
{
    char name[INET6_ADDRSTRLEN + 2];
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    struct in_addr v4;
    struct in6_addr v6;

    if (len >= sizeof(name) || len > strlen(host) || !is_port_or_nothing(host + len)) {
        return false;
    }
    memcpy(name, host, len);
    name[len] = '\0';
    if (name[0] == '[') {
        name[len - 1] = '\0';
        return inet_pton(AF_INET6, name + 1, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    }
    if (strcasecmp(name, "localhost") == 0) {
        return true;
    }
    return inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool origin_is_loopback(const char *origin)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
        size_t len = strlen(schemes[i]);

        if (strncasecmp(origin, schemes[i], len) == 0) {
            return origin_host_is_loopback(origin + len);
        }
    }
    return false;
}
