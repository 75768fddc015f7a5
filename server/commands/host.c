#include "server/commands/commands.h"

#include "host/docker/docker.h"

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

void command_host_close(struct host *host)
{
    host->ops->stop(host);
    host->ops->free(host);
}
