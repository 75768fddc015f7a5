/* What other instances of the service hold on this machine: for explicit reclaim. Their records are
 * in directories that are not known here, but the control groups tell who lives, and the shim's
 * working directory is the execution's. */
#include "base/clock.h"
#include "base/file.h"
#include "host/native/native_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

enum { GONE_MS = 10 * 1000, LOOK_MS = 5, FILE_MAX = 64 * 1024 };

static const char GROUP_PREFIX[] = "exechost-";
static const char SHIM_NAME[] = "exechost-shim";

/* --- the shim of a group --- */

static int read_proc(pid_t pid, const char *name, struct buf *out)
{
    char path[64];
    struct error ignored = ERROR_INIT;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    buf_reset(out);
    return file_read(path, out, &ignored);
}

/* Process 1 of the sandbox is the shim's child, whatever else is in the group. */
static pid_t parent_shim(pid_t pid)
{
    _cleanup_buf_ struct buf text;
    buf_init(&text, FILE_MAX);
    const char *line =
        read_proc(pid, "status", &text) == 0 ? strstr(buf_str(&text), "\nPPid:") : NULL;
    pid_t parent = line == NULL ? 0 : (pid_t)strtol(line + strlen("\nPPid:"), NULL, 10);
    bool is_shim = parent > 1 && read_proc(parent, "comm", &text) == 0 &&
                   strncmp(buf_str(&text), SHIM_NAME, strlen(SHIM_NAME)) == 0;
    return is_shim ? parent : 0;
}

/* The shim, or 0. */
static pid_t find_shim(const struct cgroup_set *group)
{
    char path[64];
    _cleanup_buf_ struct buf text;
    struct error ignored = ERROR_INIT;
    pid_t shim = 0;
    buf_init(&text, FILE_MAX);
    if (group->count == 0) {
        return 0;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d/cgroup.procs", group->trees[0].fd);
    if (file_read(path, &text, &ignored) != 0) {
        return 0;
    }
    char *rest = text.data;
    while (shim == 0 && rest != NULL && *rest != '\0') {
        shim = parent_shim((pid_t)strtol(rest, &rest, 10));
        rest += *rest == '\n';
    }
    return shim;
}

/* The execution's directory: where the shim works. Nothing else may be taken for it. */
static int directory_of(pid_t shim, const char *key, char out[PATH_MAX])
{
    char link[64];
    struct stat st;
    snprintf(link, sizeof(link), "/proc/%d/cwd", (int)shim);
    ssize_t len = shim > 0 ? readlink(link, out, PATH_MAX - 1) : -1;
    size_t key_len = strlen(key);
    if (len <= (ssize_t)key_len || out[len - (ssize_t)key_len - 1] != '/') {
        return -1;
    }
    out[len] = '\0';
    bool fits = strcmp(out + len - key_len, key) == 0 && lstat(out, &st) == 0 &&
                S_ISDIR(st.st_mode) && st.st_uid == geteuid();
    return fits ? 0 : -1;
}

/* --- listing --- */

static int add_group(const char *instance, const char *key, const struct cgroup_set *group,
                     struct host_found_list *list, struct error *err)
{
    char parts[NATIVE_KEY_SIZE];
    char directory[PATH_MAX];
    struct host_identity id;
    struct native_record record = {0};
    struct error ignored = ERROR_INIT;
    pid_t shim = find_shim(group);
    snprintf(parts, sizeof(parts), "%s", key);
    if (!link_key_parse(parts, &id)) {
        return 0;
    }
    if (directory_of(shim, key, directory) != 0 ||
        native_record_read_at(directory, &record, &ignored) != 0) {
        record = (struct native_record){0};
    }
    struct host_found found = {.tenant = strdup(id.tenant),
                               .execution_id = strdup(id.execution_id),
                               .incarnation = id.incarnation,
                               .fencing_token = record.fencing_token,
                               .running = shim > 0,
                               .frozen = cgroup_is_frozen(group)};
    found.owner_id = TAKE_PTR(record.owner_id);
    native_record_done(&record);
    if (asprintf(&found.handle, "%s/%s", instance, key) < 0) {
        found.handle = NULL;
    }
    if (found.tenant == NULL || found.execution_id == NULL || found.handle == NULL) {
        host_found_done(&found);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return host_found_list_add(list, &found, err);
}

static void close_directory(DIR **dir)
{
    if (*dir != NULL) {
        (void)closedir(*dir);
    }
}

static DIR *open_tree_of(const struct cgroup_set *set)
{
    int fd =
        set->count == 0 ? -1 : openat(set->trees[0].fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL && fd >= 0) {
        close(fd);
    }
    return dir;
}

static int add_instance(const struct cgroup_set *parents, const char *instance,
                        struct host_found_list *list, struct error *err)
{
    _cleanup_(close_directory) DIR *dir = open_tree_of(parents);
    const struct dirent *entry;
    int result = 0;
    while (dir != NULL && result == 0 && (entry = readdir(dir)) != NULL) {
        struct cgroup_set group = CGROUP_SET_INIT;
        if (strchr(entry->d_name, ',') == NULL ||
            cgroup_below(parents, entry->d_name, false, &group) != 0) {
            continue; /* a file, or gone meanwhile */
        }
        result = add_group(instance, entry->d_name, &group, list, err);
        cgroup_set_close(&group);
    }
    return result;
}

int native_list_foreign(struct native_host *h, struct host_found_list *list, struct error *err)
{
    struct cgroup_set roots = CGROUP_SET_INIT;
    struct sandbox_fault fault;
    const struct dirent *entry;
    int result = 0;
    if (cgroup_find(&roots, &fault) != 0) {
        return 0; /* then there are none */
    }
    _cleanup_(close_directory) DIR *dir = open_tree_of(&roots);
    while (dir != NULL && result == 0 && (entry = readdir(dir)) != NULL) {
        const char *instance = entry->d_name + strlen(GROUP_PREFIX);
        struct cgroup_set parents = CGROUP_SET_INIT;
        if (strncmp(entry->d_name, GROUP_PREFIX, strlen(GROUP_PREFIX)) != 0 ||
            strcmp(instance, h->instance) == 0 ||
            cgroup_below(&roots, entry->d_name, false, &parents) != 0) {
            continue;
        }
        result = add_instance(&parents, instance, list, err);
        cgroup_set_close(&parents);
    }
    cgroup_set_close(&roots);
    return result;
}

/* --- destroying --- */

static int kill_group(const struct cgroup_set *parents, const char *key, pid_t shim,
                      struct error *err)
{
    int64_t until = clock_mono_ms() + GONE_MS;
    struct cgroup_set group = CGROUP_SET_INIT;
    if (shim > 0) {
        (void)kill(shim, SIGKILL); /* process 1 dies with it */
    }
    while (cgroup_exists(parents, key)) {
        if (cgroup_below(parents, key, false, &group) == 0) {
            if (cgroup_kill(&group) != 0) {
                int thawed = cgroup_freeze(&group, false, 0);
                (void)thawed;
            }
            cgroup_set_close(&group);
        }
        if (cgroup_remove_tree(parents, key) == 0) {
            break;
        }
        if (clock_mono_ms() >= until) {
            return error_set_errno(err, ERROR_RUNTIME, errno, "the cgroups can't be removed");
        }
        usleep(LOOK_MS * 1000);
    }
    return 0;
}

static int destroy_in(const struct cgroup_set *parents, const char *key, struct error *err)
{
    char directory[PATH_MAX];
    struct cgroup_set group = CGROUP_SET_INIT;
    pid_t shim = 0;
    if (cgroup_below(parents, key, false, &group) == 0) {
        shim = find_shim(&group);
        cgroup_set_close(&group);
    }
    bool known = directory_of(shim, key, directory) == 0;
    if (kill_group(parents, key, shim, err) != 0) {
        return -1;
    }
    return known ? dir_remove(directory, err) : 0;
}

int native_destroy_foreign(const char *handle, struct error *err)
{
    const char *slash = strchr(handle, '/');
    char name[CGROUP_NAME_MAX];
    struct cgroup_set roots = CGROUP_SET_INIT;
    struct cgroup_set parents = CGROUP_SET_INIT;
    struct sandbox_fault fault;
    int result = 0;
    snprintf(name, sizeof(name), "%s%.*s", GROUP_PREFIX, (int)(slash - handle), handle);
    if (cgroup_find(&roots, &fault) != 0) {
        return 0;
    }
    if (cgroup_below(&roots, name, false, &parents) == 0) {
        result = destroy_in(&parents, slash + 1, err);
        cgroup_set_close(&parents);
    }
    cgroup_set_close(&roots);
    return result;
}
