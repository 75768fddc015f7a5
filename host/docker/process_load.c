#include "host/docker/process.h"

int docker_process_load(const struct docker_process_context *context,
                        const struct docker_load *load, struct error *err)
{
    static const char *const argv[] = {"load", ".", NULL};
    const struct host_guest_call call = {
        .argv = argv,
        .deadline_mono_ms = load->deadline_mono_ms,
        .cancel = load->cancel,
        .alone = true,
        .failed = host_guest_load_failed,
    };
    _cleanup_guest_ struct host_guest *g = NULL;
    if (docker_process_guest(context, &call, &g, err) != 0) {
        return -1;
    }
    return host_guest_load(g, load->feed, load->ctx, err);
}
