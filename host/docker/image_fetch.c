/* Calls whose answer is a stream of progress: the status is 200 before the outcome is known, so the
 * errors are in the stream. */
#include "host/docker/engine_lines.h"
#include "host/docker/images.h"

#include <string.h>

static void on_line(void *ctx, const json_t *line)
{
    struct image_progress *p = ctx;
    const char *error = json_string_value(json_object_get(line, "error"));
    const char *status = json_string_value(json_object_get(line, "status"));
    const char *stream = json_string_value(json_object_get(line, "stream"));
    const char *message = json_string_value(json_object_get(line, "message"));

    if (error != NULL || message != NULL) {
        snprintf(p->failure, sizeof(p->failure), "%s", error != NULL ? error : message);
    }
    if (status != NULL || stream != NULL) {
        snprintf(p->last, sizeof(p->last), "%s", status != NULL ? status : stream);
    }
}

static int read_lines(struct engine_download *download, struct engine_lines *lines,
                      struct error *err)
{
    for (;;) {
        const void *data;
        ssize_t got = engine_download_read(download, &data, err);

        if (got < 0) {
            return -1;
        }
        if ((got == 0 ? engine_lines_end(lines) : engine_lines_feed(lines, data, (size_t)got)) <
            0) {
            return error_set(err, ERROR_RUNTIME, "the engine's progress is not understood");
        }
        if (got == 0) {
            return 0;
        }
    }
}

int image_follow(struct engine *e, const struct engine_request *request,
                 struct image_progress *progress, long *status, struct error *err)
{
    struct engine_download *download;
    struct engine_lines lines;
    int result;

    *progress = (struct image_progress){0};
    if (engine_download_open(e, request, &download, status, err) < 0) {
        return -1;
    }
    engine_lines_init(&lines, on_line, progress);
    result = read_lines(download, &lines, err);
    engine_lines_done(&lines);
    engine_download_free(download);
    return result;
}

/* "NAME@sha256:…" → fromImage NAME, tag the digest; "NAME[:tag]" as it stands. */
static int pull_path(const char *reference, struct buf *path)
{
    const char *at = strrchr(reference, '@');
    _cleanup_free_ char *name = at != NULL ? strndup(reference, (size_t)(at - reference)) : NULL;

    if (buf_add_str(path, "/images/create?fromImage=") < 0 ||
        engine_escape(path, name != NULL ? name : reference) < 0) {
        return -1;
    }
    if (at != NULL) {
        return buf_add_str(path, "&tag=") < 0 ? -1 : engine_escape(path, at + 1);
    }
    /* Without a tag the engine would fetch all of them. */
    at = strrchr(reference, '/');
    return strchr(at != NULL ? at : reference, ':') == NULL ? buf_add_str(path, "&tag=latest") : 0;
}

int image_fetch(struct engine *e, const char *reference, struct cancel *cancel, struct error *err)
{
    _cleanup_buf_ struct buf path;
    struct engine_request request = {.verb = "image_pull", .method = "POST", .cancel = cancel};
    struct image_progress progress;
    long status;

    buf_init(&path, 8192);
    if (pull_path(reference, &path) < 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/image", "the reference is too long");
    }
    request.path = buf_str(&path);
    if (image_follow(e, &request, &progress, &status, err) < 0) {
        return -1;
    }
    if (status != 200 || progress.failure[0] != '\0') {
        return error_set_field(err, ERROR_IMAGE_NOT_FOUND, "/image",
                               "the image could not be fetched: %s",
                               progress.failure[0] != '\0' ? progress.failure : "refused");
    }
    return 0;
}
