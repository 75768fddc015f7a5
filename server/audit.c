#include "server/audit.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

struct audit {
    char *path;
    pthread_mutex_t lock;
    int fd;       /* [lock] -1: nothing is recorded */
    bool failing; /* [lock] said already */
};

static int open_file(const char *path, int *out, struct error *err)
{
    *out = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return *out >= 0 ? 0
                     : error_set_errno(err, ERROR_INTERNAL, errno, "cannot open auditLog %s", path);
}

int audit_new(const char *path, struct audit **out, struct error *err)
{
    struct audit *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    a->fd = -1;
    pthread_mutex_init(&a->lock, NULL);
    a->path = path != NULL ? strdup(path) : NULL;
    if (path != NULL && a->path == NULL) {
        audit_free(a);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (path != NULL && open_file(path, &a->fd, err) != 0) {
        audit_free(a);
        return -1;
    }
    *out = a;
    return 0;
}

void audit_free(struct audit *a)
{
    if (a == NULL) {
        return;
    }
    if (a->fd >= 0) {
        close(a->fd);
    }
    free(a->path);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

int audit_reopen(struct audit *a, struct error *err)
{
    int fd = -1;

    if (a->path == NULL) {
        return 0;
    }
    if (open_file(a->path, &fd, err) != 0) {
        return -1;
    }
    pthread_mutex_lock(&a->lock);
    close(a->fd);
    a->fd = fd;
    pthread_mutex_unlock(&a->lock);
    return 0;
}

static bool is_mutation(const char *method)
{
    /* Without a method the head was never whole. */
    return method[0] != '\0' && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 &&
           strcmp(method, "OPTIONS") != 0;
}

static const char *outcome_of(unsigned status)
{
    if (status == 0) {
        return "unanswered"; /* the peer had gone: what was asked may have been done */
    }
    return status < 400 ? "done" : status < 500 ? "refused" : "failed";
}

void audit_request(struct audit *a, const struct http_exchange *x)
{
    const struct http_route *route = http_route(x);
    struct http_outcome o;
    char status[16];
    bool failed;

    if (a->path == NULL || !is_mutation(http_method(x))) {
        return;
    }
    http_outcome(x, &o);
    snprintf(status, sizeof(status), "%u", o.status);
    pthread_mutex_lock(&a->lock);
    failed = log_write_to(a->fd, "mutation", "outcome", outcome_of(o.status), "status", status,
                          "code", error_code_name(o.code), "method", http_method(x), "path", o.path,
                          "route", route != NULL ? route->path : "", "made", o.location, "tenant",
                          http_tenant(x), "token", o.token_id, "requestId", http_request_id(x),
                          "traceId", o.trace_id, NULL) != 0;
    if (failed && !a->failing) {
        log_error("the record of mutations cannot be written", "path", a->path, NULL);
    }
    a->failing = failed;
    pthread_mutex_unlock(&a->lock);
}
