/* Client of the Engine API over a unix socket, by libcurl; starts no process. Connections are kept
 * and shared; any thread may call; every call blocks up to its timeout, or until `cancel` fires.
 *
 * Errors: ERROR_HOST_UNAVAILABLE when the engine can't be reached, is not Docker or too old, or the
 * connection is lost; ERROR_TIMEOUT when it does not answer in time; ERROR_RUNTIME when what it
 * answers is no HTTP or no JSON, and with the detail "interrupted" when `cancel` fired. An HTTP
 * error status is not an error here: the caller looks at `status`. */
#ifndef EXECHOST_HOST_DOCKER_ENGINE_H
#define EXECHOST_HOST_DOCKER_ENGINE_H

#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct engine;

/* `socket_path` absolute. Does not connect. */
int engine_new(const char *socket_path, struct engine **out, struct error *err) WARN_UNUSED;
void engine_free(struct engine *e);

/* Pings, negotiates the version (≥ 1.41), refuses engines that are not Docker. */
struct engine_version {
    char engine[64]; /* "20.10.24" */
    char api[16];    /* "1.41", the negotiated one */
    char arch[32];   /* as images name it: "amd64" */
    int64_t cpus;
    bool limits; /* the machine can enforce memory without swap, cpu quota and pids */
};
int engine_negotiate(struct engine *e, struct engine_version *out, struct error *err) WARN_UNUSED;

struct engine_request {
    const char *verb; /* what it is for, in messages and as fault point "engine.<verb>"; or NULL */
    const char *method;
    const char *path;   /* without version prefix, query included, already encoded */
    const json_t *body; /* borrowed, or NULL */
    const void *raw;    /* a body that is no JSON (tar), or NULL */
    const int *raw_fd;  /* or a file that holds it, read from its offset; borrowed, or NULL */
    size_t raw_len;
    bool *sent;            /* told, also on failure, whether anything of it went out; or NULL */
    int64_t timeout_ms;    /* 0: the engine's default of 60 s */
    struct cancel *cancel; /* borrowed, may be NULL */
};

struct engine_answer {
    long status;
    json_t *json; /* owned; NULL when the body is empty or no JSON */
};

int engine_call(struct engine *e, const struct engine_request *request, struct engine_answer *out,
                struct error *err) WARN_UNUSED;
void engine_answer_done(struct engine_answer *a);
/* The engine's own words: json.message, or "HTTP <status>". Borrowed from `a`. */
const char *engine_answer_message(const struct engine_answer *a, char *scratch, size_t size);

/* The member's text, "" when it is absent or none; borrowed from `object`. */
const char *engine_text(const json_t *object, const char *key);

/* Percent-encodes into `out`. */
int engine_escape(struct buf *out, const char *text) WARN_UNUSED;

/* --- a response body that is pulled (archive GET) --- */

struct engine_download;
int engine_download_open(struct engine *e, const struct engine_request *request,
                         struct engine_download **out, long *status, struct error *err) WARN_UNUSED;
/* Has the shape of workspace_tar_read_fn (ctx is the download). For an error status: the body too.
 */
ssize_t engine_download_read(void *download, const void **data, struct error *err);
void engine_download_free(struct engine_download *d);

/* --- a connection taken over (exec start) --- */

/* Sends the request, reads the response head and hands out the connected nonblocking socket. A
 * status other than 101 or 200 is an ERROR_RUNTIME with the engine's words. `early` gets bytes that
 * came behind the head. */
int engine_hijack(struct engine *e, const struct engine_request *request, int *fd,
                  struct buf *early, struct error *err) WARN_UNUSED;

/* --- the loop: one thread that drives every stream by one curl multi handle --- */

struct engine_loop;
int engine_loop_new(struct engine *e, struct engine_loop **out, struct error *err) WARN_UNUSED;
/* Joins the thread and drops the streams still open (`dropped`); adding one is refused from now on.
 */
void engine_loop_stop(struct engine_loop *loop);
void engine_loop_free(struct engine_loop *loop); /* stops if need be; NULL is fine */

/* Socket streams. Callbacks run on the loop thread. */
struct engine_stream;
struct engine_stream_events {
    /* poll(2) events that are ready (POLLHUP and POLLERR unasked); returns the events wanted next,
     * 0 to be taken out of the loop: then nothing of `ctx` is touched any more and the descriptor
     * is the callback's to close. May run before engine_loop_add has returned. */
    short (*ready)(void *ctx, int fd, short revents);
    /* Called instead, once, when the loop is freed with the stream still in it. May be NULL. */
    void (*dropped)(void *ctx, int fd);
    void *ctx;
    struct engine_stream **stream; /* set before anything is called; or NULL */
};
/* Any thread. `fd` stays the caller's to close from within `ready`. */
int engine_loop_add(struct engine_loop *loop, int fd, short events,
                    const struct engine_stream_events *handler, struct error *err) WARN_UNUSED;

/* Any thread, as long as `ready` has not returned 0 and `dropped` was not called: the stream wants
 * to send, so `ready` is called with POLLOUT once it can. */
void engine_loop_rouse(struct engine_loop *loop, struct engine_stream *stream);

/* The engine's event stream, filtered by label; reconnects with backoff until the loop is freed.
 * `line` gets one decoded event; `connected` tells true after each (re)connect, false on loss. */
struct engine_watch_events {
    void (*line)(void *ctx, const json_t *event);
    void (*connected)(void *ctx, bool up);
    void *ctx;
};
int engine_loop_watch(struct engine_loop *loop, const char *label,
                      const struct engine_watch_events *handler, struct error *err) WARN_UNUSED;

#endif
