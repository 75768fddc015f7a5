#include "host/docker/docker.h"

#include "base/clock.h"
#include "host/docker/docker_internal.h"

#include <string.h>

enum { POOL_THREADS = 4, POOL_QUEUE = 4096, EXTEND_SLACK_MS = 2000, STUCK_MS = 2000 };

static const struct host_limit_ranges RANGES = {
    .nano_cpus = {10 * 1000 * 1000, 0},
    .memory_bytes = {(int64_t)6 << 20, (int64_t)512 << 30},
    .disk_bytes = {64 << 10, (int64_t)1 << 40},
    /* Init, what sleeps, the command's runner, the command; and the engine's runtime starts with
     * several threads inside the limit before it becomes the runner. */
    .pids = {10, 32768},
    .runtime_ms = {1, 86400000},
    .max_output_bytes = {1, 67108864},
};

static struct docker_host *docker_of(struct host *h)
{
    return (struct docker_host *)h;
}

static void op_probe(struct host *host, struct host_status *out)
{
    struct docker_host *h = docker_of(host);
    struct error err = ERROR_INIT;
    struct engine_version version;

    *out = (struct host_status){.ranges = RANGES};
    out->ranges.nano_cpus.max = (int64_t)128 * 1000000000;
    if (engine_negotiate(h->engine, &version, &err) < 0) {
        snprintf(out->reason, sizeof(out->reason), "%.255s", err.detail);
        return;
    }
    snprintf(out->engine_version, sizeof(out->engine_version), "%s", version.engine);
    snprintf(out->engine_api, sizeof(out->engine_api), "%s", version.api);
    if (version.cpus > 0 && version.cpus < 128) {
        out->ranges.nano_cpus.max = version.cpus * 1000000000;
    }
    out->available = version.limits;
    if (!version.limits) {
        snprintf(out->reason, sizeof(out->reason),
                 "the engine's machine can't limit memory with swap, cpu or processes");
    }
}

static int op_check_image(struct host *h, const char *image, struct cancel *cancel,
                          struct error *err)
{
    struct image_facts facts;

    if (images_resolve(docker_of(h)->images, image, cancel, &facts, err) < 0) {
        return -1;
    }
    image_facts_done(&facts);
    return 0;
}

static int op_provision(struct host *h, const struct host_provision_plan *plan,
                        struct host_provisioned *out, struct error *err)
{
    return docker_provision(docker_of(h), plan, NULL, out, err);
}

static int op_restore(struct host *h, const struct host_provision_plan *plan,
                      struct workspace_reader *archive, struct host_provisioned *out,
                      struct error *err)
{
    return docker_provision(docker_of(h), plan, archive, out, err);
}

static int container_of(const char *handle, struct container_handle *out, struct error *err)
{
    if (handle == NULL || container_handle_parse(handle, out) < 0 || out->id[0] == '-') {
        return error_set(err, ERROR_RUNTIME, "the execution has no container");
    }
    return 0;
}

int docker_helper_ready(struct docker_host *h, const char *container, struct cancel *cancel,
                        struct error *err)
{
    struct docker_process_context context = docker_context(h, container);

    if (!observer_helper_ready(h->observer, container)) {
        _cleanup_stuck_wait_ struct stuck_wait *wait =
            stuck_wait_begin(h->stuck, container, STUCK_LIFE);

        if (docker_process_install_guest(&context, cancel, err) < 0) {
            return error_in_phase(err, PHASE_EXEC);
        }
        observer_set_helper_ready(h->observer, container);
    }
    return 0;
}

static int helper_context(struct docker_host *h, const char *handle_text, struct cancel *cancel,
                          struct container_handle *handle, struct docker_process_context *context,
                          struct error *err)
{
    if (container_of(handle_text, handle, err) < 0) {
        return -1;
    }
    *context = docker_context(h, handle->id);
    return docker_helper_ready(h, handle->id, cancel, err);
}

static int op_exec(struct host *host, const struct host_exec_plan *plan,
                   const struct host_exec_events *events, struct error *err)
{
    struct container_handle handle;
    struct docker_process_context context;

    if (helper_context(docker_of(host), plan->handle, NULL, &handle, &context, err) < 0) {
        return -1;
    }
    return docker_process_start(&context, plan, events, err);
}

static int op_exec_input(struct host *host, const struct host_exec_ref *command, const void *data,
                         size_t len, bool eof, struct error *err)
{
    struct docker_host *h = docker_of(host);
    struct container_handle handle;
    const struct docker_command_name name = {handle.id, command->command_id};
    const struct docker_input input = {data, len, eof};

    if (container_of(command->handle, &handle, err) < 0) {
        return -1;
    }
    return docker_process_input(h->running, &name, &input, err);
}

static int op_exec_signal(struct host *host, const struct host_exec_ref *command, int signo,
                          struct error *err)
{
    struct docker_host *h = docker_of(host);
    struct container_handle handle;
    const struct docker_command_name name = {handle.id, command->command_id};

    if (container_of(command->handle, &handle, err) < 0) {
        return -1;
    }
    return docker_process_signal(h->running, &name, signo, err);
}

static int op_guest(struct host *host, const struct host_guest_call *call, struct host_guest **out,
                    struct error *err)
{
    struct container_handle handle;
    struct docker_process_context context;

    if (helper_context(docker_of(host), call->handle, call->cancel, &handle, &context, err) < 0) {
        return -1;
    }
    return docker_process_guest(&context, call, out, err);
}

static int op_checkpoint(struct host *h, const struct host_checkpoint_plan *plan,
                         struct workspace_sink *sink, struct error *err)
{
    return docker_checkpoint(docker_of(h), plan, sink, err);
}

/* Without a handle, or with one that is none, the labels tell what is its. */
static int op_terminate(struct host *h, const struct host_identity *id, const char *handle,
                        struct error *err)
{
    struct container_handle parsed;

    if (handle != NULL && container_handle_parse(handle, &parsed) == 0) {
        return docker_remove(docker_of(h), &parsed, err);
    }
    return docker_remove_identity(docker_of(h), id, err);
}

static int op_extend(struct host *h, const struct host_identity *id, const char *handle,
                     int64_t deadline_wall_ms, struct error *err)
{
    struct container_handle parsed;
    int64_t left = deadline_wall_ms - clock_wall_ms();

    (void)id;
    if (container_of(handle, &parsed, err) < 0) {
        return -1;
    }
    return docker_guard_arm(docker_of(h), parsed.id,
                            ((left > 0 ? left : 0) + EXTEND_SLACK_MS + 999) / 1000, err);
}

static int op_list(struct host *h, struct host_found_list *out, struct error *err)
{
    return docker_list(docker_of(h), out, err);
}

static int op_adopt(struct host *h, const struct host_found *found, struct error *err)
{
    return docker_adopt(docker_of(h), found, err);
}

static int op_destroy(struct host *h, const struct host_found *found, struct error *err)
{
    struct container_handle handle;

    if (container_handle_parse(found->handle, &handle) < 0) {
        return error_set(err, ERROR_RUNTIME, "the handle is none of this host's");
    }
    return docker_remove(docker_of(h), &handle, err);
}

static int op_image_list(struct host *h, struct host_image_list *out, struct error *err)
{
    return images_list(docker_of(h)->images, out, err);
}

static int op_image_pull(struct host *h, const char *reference, struct host_image *out,
                         struct error *err)
{
    return images_pull(docker_of(h)->images, reference, out, err);
}

static int op_image_remove(struct host *h, const char *reference, struct error *err)
{
    return images_remove(docker_of(h)->images, reference, err);
}

static int op_image_import(struct host *h, const char *name, const char *file,
                           struct host_image *out, struct error *err)
{
    return images_import(docker_of(h)->images, name, file, out, err);
}

/* The loop first: it is what calls into the others. */
static void op_stop(struct host *host)
{
    struct docker_host *h = docker_of(host);

    engine_loop_stop(h->loop);
    pool_free(h->pool);
    h->pool = NULL;
    observer_stop(h->observer);
}

static void op_free(struct host *host)
{
    struct docker_host *h = docker_of(host);

    engine_loop_free(h->loop);
    docker_running_free(h->running);
    pool_free(h->pool);
    observer_free(h->observer);
    stuck_free(h->stuck);
    images_free(h->images);
    engine_free(h->engine);
    free(h->instance);
    free(h->scratch);
    free(h);
}

static const struct host_ops DOCKER_OPS = {
    .name = "docker",
    .probe = op_probe,
    .check_image = op_check_image,
    .provision = op_provision,
    .restore = op_restore,
    .exec = op_exec,
    .exec_input = op_exec_input,
    .exec_signal = op_exec_signal,
    .guest = op_guest,
    .checkpoint = op_checkpoint,
    .terminate = op_terminate,
    .extend = op_extend,
    .list = op_list,
    .adopt = op_adopt,
    .destroy = op_destroy,
    .image_list = op_image_list,
    .image_pull = op_image_pull,
    .image_remove = op_image_remove,
    .image_import = op_image_import,
    .stop = op_stop,
    .free = op_free,
};

static int start(struct docker_host *h, const struct docker_host_config *config,
                 const struct host_observer *observer, struct error *err)
{
    struct images_config images = {
        .pull_missing = config->pull_missing,
        .allow_unpinned = config->allow_unpinned,
    };

    if (engine_new(config->socket_path, &h->engine, err) < 0) {
        return -1;
    }
    images.engine = h->engine;
    if (images_new(&images, &h->images, err) < 0 ||
        stuck_new(h->grace_ms > 0 && h->grace_ms < STUCK_MS ? h->grace_ms : STUCK_MS, &h->stuck,
                  err) < 0 ||
        pool_new(POOL_THREADS, POOL_QUEUE, &h->pool, err) < 0 ||
        engine_loop_new(h->engine, &h->loop, err) < 0 ||
        docker_running_new(h->loop, &h->running, err) < 0) {
        return -1;
    }
    return observer_new(h->engine, h->loop, h->instance, observer, &h->observer, err);
}

int docker_host_new(const struct docker_host_config *config, const struct host_observer *observer,
                    struct host **out, struct error *err)
{
    struct docker_host *h;

    if (config->uid < 1 || config->gid < 1 || config->uid >= UINT32_MAX - 1) {
        return error_set(err, ERROR_INVALID_REQUEST, "user and group of commands must be ≥ 1");
    }
    h = calloc(1, sizeof(*h));
    if (h == NULL || (h->instance = strdup(config->instance_id)) == NULL ||
        (h->scratch = strdup(config->scratch != NULL ? config->scratch : "/tmp")) == NULL) {
        if (h != NULL) {
            free(h->instance);
        }
        free(h);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    h->base.ops = &DOCKER_OPS;
    h->uid = config->uid;
    h->gid = config->gid;
    h->shm_bytes_max = config->shm_bytes_max > 0 ? config->shm_bytes_max : CONTAINER_SHM_MAX;
    h->load_timeout_ms = config->load_timeout_ms;
    h->grace_ms = config->grace_ms;
    snprintf(h->user, sizeof(h->user), "%u:%u", h->uid, h->gid);
    snprintf(h->idle_user, sizeof(h->idle_user), "%u:%u", h->uid + 1, h->gid);
    if (start(h, config, observer, err) < 0) {
        op_free(&h->base);
        return -1;
    }
    *out = &h->base;
    return 0;
}
