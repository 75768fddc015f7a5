#include "server/commands/commands.h"

#include "host/docker/docker.h"
#include "host/native/needs.h"

static void ignore_gone(void *ctx, const struct host_identity *id, const char *detail)
{
    (void)ctx;
    (void)id;
    (void)detail;
}

static void ignore_oom(void *ctx, const struct host_identity *id)
{
    (void)ctx;
    (void)id;
}

static void ignore_up(void *ctx, bool up)
{
    (void)ctx;
    (void)up;
}

int command_host_open(const struct config *config, struct host **out, struct error *err)
{
    const struct host_observer observer = {.gone = ignore_gone, .oom = ignore_oom, .up = ignore_up};
    const struct docker_host_config docker = {
        .socket_path = config->docker_socket,
        .instance_id = "command",
        .uid = (uint32_t)config->uid,
        .gid = (uint32_t)config->gid,
        .load_timeout_ms = config->provision_timeout_ms,
    };

    return docker_host_new(&docker, &observer, out, err);
}

const char *command_default_host(const struct config *config)
{
    const struct native_needs_config needs = {.images = config->native_images,
                                              .host_uid_first = (uint32_t)config->native_first_id,
                                              .host_uid_count = (uint32_t)config->native_id_count};
    struct error ignored = ERROR_INIT;

    if (config->default_host != NULL) {
        return config->default_host;
    }
    return native_needs_check(&needs, &ignored) == 0 ? "native" : "docker";
}

void command_host_close(struct host *host)
{
    host->ops->stop(host);
    host->ops->free(host);
}
