/* What the tests of the Docker host on a real engine share: a small image of busybox, a host,
 * plans. */
#ifndef EXECHOST_TESTS_DOCKER_FIXTURE_H
#define EXECHOST_TESTS_DOCKER_FIXTURE_H

#include "host/docker/docker.h"

#include <jansson.h>

struct fixture {
    struct host *host;
    char instance[64];
    char *image; /* pinned reference */
    int gone;    /* what the observer has told; read with fixture_count */
    int oom;
};

/* For cmocka's group setup; *state becomes the fixture. */
int fixture_setup(void **state);
int fixture_teardown(void **state);
int fixture_count(const int *counter);

/* Makes an image with these programs of busybox in /bin, and with `sh` (or NULL) as the text of
 * /bin/sh, and imports it. Returns owned. */
char *fixture_image(struct fixture *f, const char *name, const char *const *programs,
                    const char *sh);

/* A plan with moderate limits; free by host_provision_plan_done. */
struct host_provision_plan fixture_plan(struct fixture *f, const char *execution);

/* A call of the engine by a client of its own; takes `body` (or NULL). Returns its status. */
long fixture_call(const char *method, const char *path, json_t *body);
/* The engine's answer to GET `path`, by a client of its own; NULL when it is not 200. Returns
 * owned. */
json_t *fixture_get(const char *path);
/* Runs a shell command inside; output of both streams into `out`. Returns the exit code, -1 when
 * lost. */
int fixture_sh(struct fixture *f, const struct host_provision_plan *plan, const char *handle,
               const char *script, char *out, size_t size);

#endif
