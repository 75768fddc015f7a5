/* How a link to a shim comes about that this process did not start, and when it must not. */
#include "base/clock.h"
#include "host/native/link_internal.h"
#include "host/native/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { GREETING_MS = 10 * 1000 };

static int wait_readable(int fd, int64_t until)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (;;) {
        int64_t left = until - clock_mono_ms();
        int got = poll(&ready, 1, left < 0 ? 0 : (int)left);
        if (got != 0 || left <= 0) {
            return got > 0 ? 0 : -1;
        }
    }
}

/* A path through /proc has room for any directory's name. */
static int connect_to(int run_fd, const char *key)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int dir = openat(run_fd, key, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (dir < 0 || fd < 0) {
        return -1;
    }
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SHIM_SOCKET, dir);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        return -1;
    }
    return TAKE_FD(fd);
}

void link_claim(struct links *l, struct link_claim *claim)
{
    pthread_mutex_lock(&l->lock);
    LIST_INSERT_HEAD(&l->claims, claim, entry);
    pthread_mutex_unlock(&l->lock);
}

void link_release(struct links *l, struct link_claim *claim)
{
    pthread_mutex_lock(&l->lock);
    LIST_REMOVE(claim, entry);
    pthread_mutex_unlock(&l->lock);
}

static bool is_claimed(struct links *l, const char *key)
{
    const struct link_claim *claim;
    pthread_mutex_lock(&l->lock);
    LIST_FOREACH(claim, &l->claims, entry)
    {
        if (strcmp(claim->key, key) == 0) {
            break;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return claim != NULL;
}

int link_connect(struct links *l, const char *key, struct link_start *out, struct error *err)
{
    if (is_claimed(l, key)) {
        return error_set(err, ERROR_RUNTIME, "the execution is being made");
    }
    _cleanup_close_ int fd = connect_to(l->run_fd, key);
    struct shim_event greeting;
    size_t none = 0;
    if (fd < 0) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "the execution has no shim");
    }
    if (wait_readable(fd, clock_mono_ms() + GREETING_MS) != 0 ||
        wire_receive(fd, &greeting, sizeof(greeting), NULL, &none, MSG_DONTWAIT) != 1 ||
        greeting.type != SHIM_READY || greeting.version != SHIM_VERSION) {
        return error_set(err, ERROR_RUNTIME, "the execution's shim does not answer");
    }
    *out = (struct link_start){.fd = TAKE_FD(fd), .greeting = greeting};
    return 0;
}
