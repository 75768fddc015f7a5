/* The head of one HTTP/1.1 response, read strictly: for connections that are taken over, where
 * libcurl stops after connecting. Pure; any thread. */
#ifndef EXECHOST_HOST_DOCKER_ENGINE_HEAD_H
#define EXECHOST_HOST_DOCKER_ENGINE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { ENGINE_HEAD_MAX = 16 * 1024 };

struct engine_head {
    int status;             /* 100..599 */
    int64_t content_length; /* -1: not said */
    bool chunked;
};

/* > 0: bytes of the head, its empty line included; 0: more is needed; -1: no HTTP response head, or
 * longer than ENGINE_HEAD_MAX. Lines end in CR LF; a folded line, a second Content-Length or one
 * beside Transfer-Encoding is refused. */
ssize_t engine_head_parse(const char *data, size_t len, struct engine_head *out);

#endif
