/* The engine's images: found by any of their digests, checked for use, fetched, imported, removed.
 * What was found is remembered by digest, which can't change its meaning; an image that has gone
 * meanwhile is noticed when a container is to be made of it. Any thread; all block. */
#ifndef EXECHOST_HOST_DOCKER_IMAGES_H
#define EXECHOST_HOST_DOCKER_IMAGES_H

#include "host/docker/engine.h"
#include "host/host.h"

struct images;

struct images_config {
    struct engine *engine; /* borrowed */
    bool pull_missing;
    bool allow_unpinned;
};

enum { IMAGE_ID_SIZE = 7 + 64 + 1 };

/* What a container needs to know of its image. Owned strings. */
struct image_facts {
    char id[IMAGE_ID_SIZE];
    char *digests;     /* JSON array of every digest that names it, its id first */
    char *search_path; /* container_search_path() of the image's PATH */
    bool has_home;     /* its environment sets HOME */
    bool proven;       /* a container of it has been started before: sh and sleep are there */
};

void image_facts_done(struct image_facts *f);

int images_new(const struct images_config *config, struct images **out,
               struct error *err) WARN_UNUSED;
void images_free(struct images *i);

/* Finds the image, or fetches it where that is allowed, and refuses what is not fit: volumes
 * (ERROR_INVALID_REQUEST, field /image), secret-like environment (ERROR_CREDENTIAL), another
 * machine's (ERROR_INVALID_REQUEST), one known to lack sh or sleep (ERROR_INVALID_REQUEST). */
int images_resolve(struct images *i, const char *reference, struct cancel *cancel,
                   struct image_facts *out, struct error *err) WARN_UNUSED;
/* The next resolve asks the engine again. */
void images_forget(struct images *i, const char *reference);
/* A container of this image has started, or could not for the reason in `lacks`. */
void images_prove(struct images *i, const char *id, const char *lacks);

int images_list(struct images *i, struct host_image_list *out, struct error *err) WARN_UNUSED;
int images_pull(struct images *i, const char *reference, struct host_image *out,
                struct error *err) WARN_UNUSED;
int images_remove(struct images *i, const char *reference, struct error *err) WARN_UNUSED;
int images_import(struct images *i, const char *name, const char *file, struct host_image *out,
                  struct error *err) WARN_UNUSED;

/* --- between the files of this part --- */

/* image_find.c: what the engine has. `*out` is owned, NULL when there is none. */
int image_find(struct engine *e, const char *reference, struct cancel *cancel, json_t **out,
               struct error *err) WARN_UNUSED;
int image_list_all(struct engine *e, struct host_image_list *out, struct error *err) WARN_UNUSED;
/* The pinned reference, digests and size of an item of the engine's list; false: it has no name. */
bool image_describe(const json_t *item, struct host_image *out);
/* JSON array of all digests; owned text. */
char *image_digests(const json_t *item);
/* image_fetch.c: pulls; the engine's progress stream carries the errors. */
int image_fetch(struct engine *e, const char *reference, struct cancel *cancel,
                struct error *err) WARN_UNUSED;
/* Reads such a stream to its end; the last value of "status" or "stream" is left in `last`. */
struct image_progress {
    char last[512];
    char failure[512];
};
int image_follow(struct engine *e, const struct engine_request *request,
                 struct image_progress *progress, long *status, struct error *err) WARN_UNUSED;
/* image_import.c: */
int image_import_file(struct engine *e, const char *name, const char *file, struct host_image *out,
                      struct error *err) WARN_UNUSED;
/* image_fit.c: refuses an image that is not fit, by its inspection. Pure. */
int image_check(const json_t *inspection, const char *arch, struct error *err) WARN_UNUSED;
/* A variable's value in an image's environment, NULL when it has none; borrowed from it. */
const char *image_variable(const json_t *inspection, const char *name);

#endif
