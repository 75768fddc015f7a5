#include "host/native/native.h"

#include "base/clock.h"
#include "base/file.h"
#include "host/native/native_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>

enum { EXTEND_MS = 15 * 1000 };
static const int64_t SHM_BYTES_MAX = INT64_C(16) << 20;

static const struct host_limit_ranges RANGES = {
    .nano_cpus = {10 * 1000 * 1000, 0},
    .memory_bytes = {(int64_t)4 << 20, (int64_t)512 << 30},
    .disk_bytes = {64 << 10, (int64_t)1 << 40},
    /* Process 1 and the command. */
    .pids = {2, 32768},
    .runtime_ms = {1, 86400000},
    .max_output_bytes = {1, 67108864},
};

static struct native_host *native_of(struct host *h)
{
    return (struct native_host *)h;
}

static void op_probe(struct host *host, struct host_status *out)
{
    struct native_host *h = native_of(host);
    struct error err = ERROR_INIT;
    *out = (struct host_status){.ranges = RANGES};
    int64_t cpus = h->cpu_count < 128 ? h->cpu_count : 128;
    out->ranges.nano_cpus.max = cpus * 1000000000;
    if (native_machine_prepare(h, &err) != 0) {
        snprintf(out->reason, sizeof(out->reason), "%.255s", err.detail);
        return;
    }
    out->available = true;
}

static int op_check_image(struct host *h, const char *image, struct cancel *cancel,
                          struct error *err)
{
    return native_images_check(native_of(h)->images, image, cancel, err);
}

static int op_provision(struct host *h, const struct host_provision_plan *plan,
                        struct host_provisioned *out, struct error *err)
{
    return native_provision(native_of(h), plan, NULL, out, err);
}

static int op_restore(struct host *h, const struct host_provision_plan *plan,
                      struct workspace_reader *archive, struct host_provisioned *out,
                      struct error *err)
{
    return native_provision(native_of(h), plan, archive, out, err);
}

static int op_exec(struct host *h, const struct host_exec_plan *plan,
                   const struct host_exec_events *events, struct error *err)
{
    return native_exec(native_of(h), plan, events, err);
}

static int op_exec_resume(struct host *h, const struct host_exec_resume *resume,
                          const struct host_exec_events *events, struct error *err)
{
    return native_exec_resume(native_of(h), resume, events, err);
}

static int op_exec_input(struct host *h, const struct host_exec_ref *command, const void *data,
                         size_t len, bool eof, struct error *err)
{
    return native_exec_input(native_of(h), command, data, len, eof, err);
}

static int op_exec_signal(struct host *h, const struct host_exec_ref *command, int signo,
                          struct error *err)
{
    return native_exec_signal(native_of(h), command, signo, err);
}

static int op_guest(struct host *h, const struct host_guest_call *call, struct host_guest **out,
                    struct error *err)
{
    return native_guest(native_of(h), call, false, out, err);
}

static int op_program(struct host *h, const struct host_program_plan *plan, int *leash,
                      struct error *err)
{
    return native_program(native_of(h), plan, leash, err);
}

static int op_checkpoint(struct host *h, const struct host_checkpoint_plan *plan,
                         struct workspace_sink *sink, struct error *err)
{
    return native_checkpoint(native_of(h), plan, sink, err);
}

static int op_terminate(struct host *h, const struct host_identity *id, const char *handle,
                        struct error *err)
{
    char key[NATIVE_KEY_SIZE];
    (void)handle; /* is made of the identity */
    native_key(id, key);
    return native_remove(native_of(h), key, err);
}

static int op_extend(struct host *h, const struct host_identity *id, const char *handle,
                     int64_t deadline_wall_ms, struct error *err)
{
    _cleanup_link_ struct link *k = NULL;
    int64_t left = deadline_wall_ms - clock_wall_ms();
    const struct link_call call = {.request = {.type = SHIM_EXTEND, .value = left > 0 ? left : 0},
                                   .timeout_ms = EXTEND_MS};
    (void)id;
    if (native_link(native_of(h), handle, &k, err) != 0) {
        return -1;
    }
    return link_request(k, &call, NULL, err);
}

static int op_list(struct host *h, struct host_found_list *out, struct error *err)
{
    return native_list(native_of(h), out, err);
}

static int op_adopt(struct host *h, const struct host_found *found, struct error *err)
{
    return native_adopt(native_of(h), found, err);
}

static int op_destroy(struct host *h, const struct host_found *found, struct error *err)
{
    return found->ours ? native_remove(native_of(h), found->handle, err)
                       : native_destroy_foreign(found->handle, err);
}

static int op_image_list(struct host *h, struct host_image_list *out, struct error *err)
{
    return native_images_list(native_of(h)->images, out, err);
}

static int op_image_pull(struct host *h, const char *reference, struct host_image *out,
                         struct error *err)
{
    return native_images_pull(native_of(h)->images, reference, out, err);
}

static int op_image_remove(struct host *h, const char *reference, struct error *err)
{
    return native_images_remove(native_of(h)->images, reference, err);
}

static int op_image_import(struct host *h, const char *name, const char *file,
                           struct host_image *out, struct error *err)
{
    return native_images_import(native_of(h)->images, name, file, out, err);
}

static void op_stop(struct host *h)
{
    links_stop(native_of(h)->links);
}

static void op_free(struct host *host)
{
    struct native_host *h = native_of(host);
    links_free(h->links);
    native_machine_done(h);
    native_images_close(h->images);
    if (h->run_fd >= 0) {
        close(h->run_fd);
    }
    pthread_mutex_destroy(&h->lock);
    free(h->instance);
    free(h->scratch);
    free(h->images_path);
    free(h->run_path);
    free(h);
}

static const struct host_ops NATIVE_OPS = {
    .name = "native",
    .commands_survive = true,
    .exec_is_quick = true,
    .probe = op_probe,
    .check_image = op_check_image,
    .provision = op_provision,
    .restore = op_restore,
    .exec = op_exec,
    .exec_resume = op_exec_resume,
    .exec_input = op_exec_input,
    .exec_signal = op_exec_signal,
    .guest = op_guest,
    .program = op_program,
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

static char *path_below(const char *directory, const char *name)
{
    _cleanup_buf_ struct buf path;
    buf_init(&path, 4096);
    return buf_addf(&path, "%s/%s", directory, name) != 0 ? NULL : buf_take(&path, NULL);
}

static int open_parts(struct native_host *h, const struct native_host_config *config,
                      struct error *err)
{
    h->images_path =
        config->images != NULL ? strdup(config->images) : path_below(config->directory, "images");
    const struct native_images_config images = {.directory = h->images_path,
                                                .fetch_missing = config->fetch_missing,
                                                .allow_unpinned = config->allow_unpinned};
    h->run_path = path_below(config->directory, "run");
    h->instance = strdup(config->instance_id);
    h->scratch = strdup(config->scratch != NULL ? config->scratch : "/tmp");
    if (h->images_path == NULL || h->run_path == NULL || h->instance == NULL ||
        h->scratch == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (dir_make(h->run_path, 0700, err) != 0) {
        return -1;
    }
    h->run_fd = open(h->run_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (h->run_fd < 0) {
        return error_set(err, ERROR_INTERNAL, "the directory %s can't be opened", h->run_path);
    }
    return native_images_open(&images, &h->images, err);
}

int native_host_new(const struct native_host_config *config, const struct host_observer *observer,
                    struct host **out, struct error *err)
{
    if (config->uid < 1 || config->gid < 1 || config->host_uid_first < 1 ||
        config->host_uid_count < 2) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "user and group of commands must be ≥ 1, and two ids be there outside");
    }
    struct native_host *h = calloc(1, sizeof(*h));
    if (h == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    h->base.ops = &NATIVE_OPS;
    pthread_mutex_init(&h->lock, NULL);
    h->run_fd = -1;
    h->filter_fd = -1;
    h->shim_fd = -1;
    h->guest_fd = -1;
    h->uid = config->uid;
    h->gid = config->gid;
    h->host_uid_first = config->host_uid_first;
    h->host_uid_count = config->host_uid_count;
    h->shm_bytes_max = config->shm_bytes_max > 0 ? config->shm_bytes_max : SHM_BYTES_MAX;
    h->load_timeout_ms = config->load_timeout_ms;
    h->cpu_count = sysconf(_SC_NPROCESSORS_ONLN);
    h->observer = *observer;
    if (open_parts(h, config, err) != 0 || links_new(h->run_fd, observer, &h->links, err) != 0) {
        op_free(&h->base);
        return -1;
    }
    *out = &h->base;
    return 0;
}
