/* Provision: directory, shim, sandbox, limits read back, workspace filled; whatever fails, it goes
 * again. */
#include "base/clock.h"
#include "base/fault.h"
#include "host/native/native_internal.h"

#include <string.h>

enum { EXTEND_MS = 5000 };

/* One provision on its way. */
struct attempt {
    struct native_host *h;
    const struct host_provision_plan *plan;
    struct workspace_reader *archive;
    char key[NATIVE_KEY_SIZE];
    struct native_image image;
    int64_t load_timeout_ms;
    int64_t deadline_mono_ms;
    bool made; /* the directory is ours */
    struct link *link;
};

static bool has_load(const struct attempt *a)
{
    return a->archive != NULL || a->plan->workspace == HOST_WORKSPACE_GIT;
}

static int check_progress(const struct attempt *a, struct error *err)
{
    if (cancel_fired(a->plan->cancel)) {
        return error_set(err, ERROR_RUNTIME, "interrupted");
    }
    if (clock_mono_ms() > a->deadline_mono_ms) {
        return error_set(err, ERROR_TIMEOUT, "provisioning took longer than %lld ms",
                         (long long)a->load_timeout_ms);
    }
    return 0;
}

/* What every command gets: the image's, the execution's, and what neither has but programs expect.
 */
static char **environment_of(const struct attempt *a)
{
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    static char home[] = "HOME=/workspace";
    char *const first[] = {path, home, NULL};
    char **image = native_environment_merge(first, (const char *const *)a->image.environment);
    char **all = image == NULL
                     ? NULL
                     : native_environment_merge(image, (const char *const *)a->plan->environment);
    native_environment_free(image);
    return all;
}

static int write_record(struct attempt *a, struct native_record *record, struct error *err)
{
    record->owner_id = a->plan->owner_id; /* lent */
    record->fencing_token = a->plan->fencing_token;
    record->environment = environment_of(a);
    if (record->environment == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (native_record_write(a->h, a->key, record, err) != 0) {
        return error_in_phase(err, PHASE_CREATE);
    }
    return 0;
}

static int read_back(const struct attempt *a, const struct shim_event *greeting, struct error *err)
{
    const struct host_limits *limits = &a->plan->limits;
    const struct cgroup_limits asked = {
        .nano_cpus = limits->nano_cpus, .memory_bytes = limits->memory_bytes, .pids = limits->pids};
    const struct cgroup_limits applied = {.nano_cpus = greeting->nano_cpus,
                                          .memory_bytes = greeting->memory_bytes,
                                          .pids = greeting->pids};
    int64_t page = sysconf(_SC_PAGESIZE);
    int64_t disk = (limits->disk_bytes + page - 1) / page * page;
    if (!cgroup_limits_match(&asked, &applied) || greeting->workspace_bytes != disk) {
        return error_set(err, ERROR_RESOURCE_LIMIT,
                         "the limits in force (%lld·10⁻⁹ cpus, %lld bytes of memory, %lld "
                         "processes, %lld bytes of disk) are not those that were asked for",
                         (long long)applied.nano_cpus, (long long)applied.memory_bytes,
                         (long long)applied.pids, (long long)greeting->workspace_bytes);
    }
    return 0;
}

static int start(struct attempt *a, struct error *err)
{
    const struct native_spawn spawn = {
        .key = a->key,
        .image = &a->image,
        .limits = &a->plan->limits,
        .host_name = a->plan->execution_id,
        .lifetime_ms = a->plan->limits.runtime_ms + (has_load(a) ? a->load_timeout_ms : 0),
        .deadline_mono_ms = a->deadline_mono_ms,
        .cancel = a->plan->cancel,
    };
    struct native_record record = {0};
    struct link_start started = {.fd = -1};
    _cleanup_(native_shim_done) struct native_shim shim = NATIVE_SHIM_INIT;
    if (native_shim_start(a->h, &shim, err) != 0) {
        return error_in_phase(err, PHASE_START);
    }
    int result = write_record(a, &record, err);
    a->made = result == 0 || err->code != ERROR_RUNTIME;
    if (result == 0 && native_spawn(a->h, &spawn, &shim, &started, err) != 0) {
        result = error_in_phase(err, PHASE_START);
    }
    if (result == 0) {
        result =
            link_add(a->h->links, a->key, &started, TAKE_PTR(record.environment), &a->link, err);
    }
    record.owner_id = NULL;
    native_record_done(&record);
    return result != 0 ? -1 : read_back(a, &started.greeting, err);
}

/* The clock starts when the workspace is there. */
static int rearm(const struct attempt *a, struct error *err)
{
    const struct link_call call = {
        .request = {.type = SHIM_EXTEND, .value = a->plan->limits.runtime_ms},
        .timeout_ms = EXTEND_MS,
    };
    return link_request(a->link, &call, NULL, err);
}

static int fill(struct attempt *a, struct error *err)
{
    if (!has_load(a)) {
        return 0;
    }
    if (native_load_workspace(a->h, a->key, a->plan, a->archive, a->deadline_mono_ms, err) != 0) {
        return error_in_phase(err, a->archive != NULL ? PHASE_LOAD : PHASE_IMPORT);
    }
    return rearm(a, err);
}

static int run(struct attempt *a, struct error *err)
{
    if (native_machine_prepare(a->h, err) != 0 ||
        native_image_acquire(a->h->images, a->plan->image, a->plan->cancel, &a->image, err) != 0 ||
        check_progress(a, err) != 0 || start(a, err) != 0 || check_progress(a, err) != 0 ||
        fill(a, err) != 0 || check_progress(a, err) != 0) {
        return -1;
    }
    int fault = fault_point("native.publish");
    if (fault != 0) {
        return error_set_errno(err, ERROR_RUNTIME, fault, "publishing the sandbox");
    }
    if (!link_publish(a->link)) {
        error_set(err, ERROR_RUNTIME, "the sandbox ended while it was being prepared");
        return error_in_phase(err, PHASE_START);
    }
    return 0;
}

/* Nothing may stay; what can't be removed is the caller's to try again. */
static void undo(struct attempt *a, struct error *err)
{
    struct error cleanup = ERROR_INIT;
    struct error first = *err;
    if (!a->made || native_remove(a->h, a->key, &cleanup) == 0) {
        return;
    }
    error_set(err, ERROR_RUNTIME, "the execution was not made, and not all of it could be removed");
    error_in_phase(err, PHASE_CLEANUP);
    error_add_cause(err, &first);
    error_add_cause(err, &cleanup);
}

int native_provision(struct native_host *h, const struct host_provision_plan *plan,
                     struct workspace_reader *archive, struct host_provisioned *out,
                     struct error *err)
{
    struct attempt a = {
        .h = h,
        .plan = plan,
        .archive = archive,
        .image = NATIVE_IMAGE_INIT,
        .load_timeout_ms = plan->load_timeout_ms > 0 ? plan->load_timeout_ms : h->load_timeout_ms,
    };
    const struct host_identity id = host_provision_plan_identity(plan);
    a.deadline_mono_ms = clock_mono_ms() + a.load_timeout_ms;
    native_key(&id, a.key);
    struct link_claim claim = {.key = a.key};
    link_claim(h->links, &claim);
    int result = run(&a, err);
    char *handle = result == 0 ? strdup(a.key) : NULL;
    if (result == 0 && handle == NULL) {
        result = error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (result != 0) {
        undo(&a, err);
    } else {
        out->handle = handle;
        out->image_digests = TAKE_PTR(a.image.digests);
    }
    link_release(h->links, &claim);
    link_unref(a.link);
    native_image_release(&a.image);
    return result;
}
