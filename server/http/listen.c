#include "server/http/exchange.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { BACKLOG = 1024, HOST_MAX = 256, ADDRESS_MAX = 128 };

static const char FIELD[] = "listen";

void listener_done(struct listener *l)
{
    if (l->fd >= 0) {
        close(TAKE_FD(l->fd));
    }
    free(TAKE_PTR(l->address));
    free(TAKE_PTR(l->unix_path));
}

/* A socket file that nobody listens on is the remains of a service that was killed. */
static int remove_stale_socket(const struct sockaddr_un *address, struct error *err)
{
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct stat st;

    if (fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot make a socket");
    }
    if (lstat(address->sun_path, &st) != 0) {
        return 0;
    }
    if (!S_ISSOCK(st.st_mode)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, FIELD, "%s exists and is no socket",
                               address->sun_path);
    }
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, FIELD, "something already listens on %s",
                               address->sun_path);
    }
    if (errno == ECONNREFUSED && unlink(address->sun_path) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot remove %s", address->sun_path);
    }
    return 0;
}

static int open_unix(const char *path, unsigned mode, struct listener *out, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = -1;

    if (path[0] == '\0' || strlen(path) >= sizeof(address.sun_path)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, FIELD,
                               "the socket path must have 1 to %zu bytes",
                               sizeof(address.sun_path) - 1);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (remove_stale_socket(&address, err) != 0) {
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* On Linux the file takes its mode from the unbound socket: there is no moment with a wider
     * one. */
    if (fd < 0 || fchmod(fd, mode) != 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, BACKLOG) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot listen on %s", path);
    }
    out->unix_path = strdup(path);
    if (out->unix_path == NULL || asprintf(&out->address, "unix:%s", path) < 0) {
        out->address = NULL;
        listener_done(out);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    out->is_unix = true;
    out->fd = TAKE_FD(fd);
    return 0;
}

/* "HOST:PORT" with an IPv6 address in brackets. */
static int split_host(const char *listen, char host[HOST_MAX], const char **port)
{
    const char *colon = strrchr(listen, ':');
    size_t len = colon != NULL ? (size_t)(colon - listen) : 0;

    if (len == 0 || len >= HOST_MAX || colon[1] == '\0' ||
        colon[1 + strspn(colon + 1, "0123456789")] != '\0' || strlen(colon + 1) > 5 ||
        strtol(colon + 1, NULL, 10) > UINT16_MAX) {
        return -1;
    }
    *port = colon + 1;
    if (listen[0] == '[') {
        if (len < 3 || listen[len - 1] != ']') {
            return -1;
        }
        listen++;
        len -= 2;
    } else if (memchr(listen, ':', len) != NULL) {
        return -1;
    }
    memcpy(host, listen, len);
    host[len] = '\0';
    return 0;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;

        memcpy(&v6, address, sizeof(v6));
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    }
    return false;
}

static int describe(int fd, bool tls, struct listener *out)
{
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof(bound);
    char host[INET6_ADDRSTRLEN];
    char port[8];

    if (getsockname(fd, (struct sockaddr *)&bound, &size) != 0 ||
        getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return -1;
    }
    if (asprintf(&out->address, bound.ss_family == AF_INET6 ? "%s://[%s]:%s" : "%s://%s:%s",
                 tls ? "https" : "http", host, port) < 0) {
        out->address = NULL;
        return -1;
    }
    return 0;
}

static int bind_tcp(const struct addrinfo *a, const struct listener_config *config,
                    struct listener *out, struct error *err)
{
    _cleanup_close_ int fd =
        socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    int one = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0 ||
        describe(fd, config->tls, out) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot listen on %s", config->listen);
    }
    out->fd = TAKE_FD(fd);
    return 0;
}

static void free_addresses(struct addrinfo **list)
{
    if (*list != NULL) {
        freeaddrinfo(*list);
    }
}

/* IPv4 first: it is what a name like localhost is expected to mean. */
static const struct addrinfo *choose(const struct addrinfo *list)
{
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        if (a->ai_family == AF_INET) {
            return a;
        }
    }
    return list;
}

static int check_loopback(const struct sockaddr *address, const struct listener_config *config,
                          struct error *err)
{
    if (config->loopback_only && !is_loopback(address)) {
        return error_set_field(
            err, ERROR_INVALID_REQUEST, FIELD,
            "%s is not loopback, and without tokens the service listens on loopback or a "
            "unix socket only",
            config->listen);
    }
    return 0;
}

static int open_tcp(const struct listener_config *config, struct listener *out, struct error *err)
{
    const char *listen_text = config->listen;
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    _cleanup_(free_addresses) struct addrinfo *list = NULL;
    char host[HOST_MAX];
    const char *port;
    const struct addrinfo *chosen;
    int rc;

    if (split_host(listen_text, host, &port) != 0) {
        return error_set_field(
            err, ERROR_INVALID_REQUEST, FIELD,
            "\"%s\" is none of HOST:PORT (IPv6 in brackets), unix:PATH and fd:NUMBER", listen_text);
    }
    rc = getaddrinfo(host, port, &hints, &list);
    if (rc != 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, FIELD, "cannot resolve %s: %s", host,
                               gai_strerror(rc));
    }
    chosen = choose(list);
    if (check_loopback(chosen->ai_addr, config, err) != 0) {
        return -1;
    }
    return bind_tcp(chosen, config, out, err);
}

/* --- handed to the process --- */

static int flags_of(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
                   fcntl(fd, F_SETFD, FD_CLOEXEC) != 0
               ? -1
               : 0;
}

static bool listens(int fd)
{
    int yes = 0;
    int type = 0;
    socklen_t size = sizeof(yes);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes != 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

static int take_unix(const struct sockaddr_un *bound, struct listener *out)
{
    out->is_unix = true;
    if (asprintf(&out->address, "unix:%.*s", (int)sizeof(bound->sun_path), bound->sun_path) < 0) {
        out->address = NULL;
        return -1;
    }
    return 0;
}

/* What made it also removes its path. */
static int open_handed(const char *number, const struct listener_config *config,
                       struct listener *out, struct error *err)
{
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof(bound);
    char *end = NULL;
    long fd = strtol(number, &end, 10);

    if (*number < '0' || *number > '9' || *end != '\0' || fd < 3 || fd > INT_MAX ||
        !listens((int)fd) || flags_of((int)fd) != 0 ||
        getsockname((int)fd, (struct sockaddr *)&bound, &size) != 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, FIELD,
                               "%s is no listening stream socket", config->listen);
    }
    if (bound.ss_family == AF_UNIX) {
        if (take_unix((const struct sockaddr_un *)&bound, out) != 0) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
    } else if (check_loopback((const struct sockaddr *)&bound, config, err) != 0) {
        return -1;
    } else if (describe((int)fd, config->tls, out) != 0) {
        return error_set(err, ERROR_INTERNAL, "cannot tell the address of %s", config->listen);
    }
    out->fd = (int)fd;
    return 0;
}

int listener_open(const struct listener_config *config, struct listener *out, struct error *err)
{
    static const char unix_prefix[] = "unix:";
    static const char fd_prefix[] = "fd:";
    const char *text = config->listen;

    *out = (struct listener){.fd = -1};
    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0) {
        return open_unix(text + sizeof(unix_prefix) - 1, config->unix_mode, out, err);
    }
    if (strncmp(text, fd_prefix, sizeof(fd_prefix) - 1) == 0) {
        return open_handed(text + sizeof(fd_prefix) - 1, config, out, err);
    }
    return open_tcp(config, out, err);
}
