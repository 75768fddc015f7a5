/* Destroying, and the proof that nothing is left: no process, no group, no directory. What a
 * sandbox had mounted goes with its last process. */
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "host/native/native_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

enum { TERMINATE_MS = 20 * 1000, GONE_MS = 5 * 1000, KILL_MS = 10 * 1000 };
enum { LOOK_US = 200, LOOK_MOST_US = 10 * 1000 };

/* The link at hand, or a new one to a shim that nobody has spoken to yet; NULL: there is none. */
static struct link *any_link(struct native_host *h, const char *key)
{
    struct link *k = link_find(h->links, key);
    struct link_start start;
    struct error ignored = ERROR_INIT;
    if (k == NULL && link_connect(h->links, key, &start, &ignored) == 0 &&
        link_add(h->links, key, &start, NULL, &k, &ignored) != 0) {
        k = NULL;
    }
    return k;
}

/* The shim does it: 0 when it says that it has, and is gone. */
static int ask_shim(struct native_host *h, const char *key, pid_t *pid, struct error *err)
{
    _cleanup_link_ struct link *k = any_link(h, key);
    const struct link_call call = {.request = {.type = SHIM_TERMINATE}, .timeout_ms = TERMINATE_MS};
    struct shim_event reply;
    if (k == NULL) {
        return 0;
    }
    *pid = link_pid(k);
    link_withdraw(k);
    if (link_request(k, &call, &reply, err) != 0) {
        return -1;
    }
    if (reply.errnum != 0) {
        return error_set_errno(err, ERROR_RUNTIME, reply.errnum, "the sandbox can't be removed");
    }
    return link_wait_gone(k, GONE_MS, err);
}

static bool directory_exists(struct native_host *h, const char *key)
{
    struct stat st;
    return fstatat(h->run_fd, key, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static bool is_gone(struct native_host *h, const char *key)
{
    return !cgroup_exists(&h->parents, key) && !directory_exists(h, key);
}

/* --- without the shim --- */

static void kill_members(const struct cgroup_set *group, pid_t shim)
{
    if (shim > 0) {
        (void)kill(shim, SIGKILL); /* process 1 dies with it */
    }
    if (cgroup_kill(group) != 0) {
        int thawed = cgroup_freeze(group, false, 0);
        (void)thawed;
    }
}

static int remove_groups(struct native_host *h, const char *key, pid_t shim, struct error *err)
{
    int64_t until = clock_mono_ms() + KILL_MS;
    unsigned pause = LOOK_US;
    struct cgroup_set group;
    while (cgroup_exists(&h->parents, key)) {
        if (cgroup_below(&h->parents, key, false, &group) == 0) {
            kill_members(&group, shim);
            cgroup_set_close(&group);
        }
        if (cgroup_remove_tree(&h->parents, key) == 0) {
            break;
        }
        if (clock_mono_ms() >= until) {
            return error_set_errno(err, ERROR_RUNTIME, errno, "the cgroups can't be removed");
        }
        usleep(pause);
        pause = pause * 2 < LOOK_MOST_US ? pause * 2 : LOOK_MOST_US;
    }
    return 0;
}

static int remove_directory(struct native_host *h, const char *key, struct error *err)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/%s", h->run_path, key) >= (int)sizeof(path)) {
        return error_set(err, ERROR_INTERNAL, "the data directory's path is too long");
    }
    return dir_remove(path, err);
}

int native_remove(struct native_host *h, const char *key, struct error *err)
{
    struct error asked = ERROR_INIT;
    pid_t shim = 0;
    if (native_machine_prepare(h, err) != 0) {
        return error_in_phase(err, PHASE_CLEANUP);
    }
    int fault = fault_point("native.remove");
    if (fault != 0) {
        return error_set_errno(err, ERROR_RUNTIME, fault, "removing the sandbox");
    }
    int result = ask_shim(h, key, &shim, &asked);
    if (result == 0 && is_gone(h, key)) {
        return 0;
    }
    if (remove_groups(h, key, result == 0 ? 0 : shim, err) != 0 ||
        remove_directory(h, key, err) != 0) {
        if (asked.code != ERROR_NONE) {
            error_add_cause(err, &asked);
        }
        return error_in_phase(err, PHASE_CLEANUP);
    }
    return is_gone(h, key) ? 0 : error_set(err, ERROR_RUNTIME, "the sandbox is still there");
}
