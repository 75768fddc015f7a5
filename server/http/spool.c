#include "server/http/exchange.h"

#include "base/fault.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>

int spool_open(struct http_exchange *x, struct error *err)
{
    const char *scratch = x->server->scratch;

    if (scratch == NULL) {
        return error_set(err, ERROR_INTERNAL, "there is no directory for bodies");
    }
    errno = fault_point("http.spool.create");
    if (errno != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot make a file for the body");
    }
    x->body_fd = open(scratch, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (x->body_fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot make a file for the body");
    }
    return 0;
}

int spool_add(struct http_exchange *x, const char *data, size_t len, struct error *err)
{
    if (file_write_all(x->body_fd, data, len, err) != 0) {
        return error_set(err, err->code, "the body could not be kept: %s", err->detail);
    }
    return 0;
}

int http_body_file(const struct http_exchange *x, int64_t *size)
{
    if (x->body_fd < 0 || lseek(x->body_fd, 0, SEEK_SET) < 0) {
        return -1;
    }
    *size = x->body_size;
    return x->body_fd;
}
