/* What a restart needs: every execution's directory, and the shim that listens in it. */
#include "host/native/native_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { THAW_MS = 15 * 1000 };

int native_link(struct native_host *h, const char *handle, struct link **out, struct error *err)
{
    struct link *k = handle == NULL ? NULL : link_find(h->links, handle);
    if (k == NULL) {
        return error_set(err, ERROR_RUNTIME, "the execution has no sandbox");
    }
    *out = k;
    return 0;
}

/* The link of a living shim, made if need be; NULL: there is none. A record that can't be read is
 * as good as none. */
static struct link *reach(struct native_host *h, const char *key, struct native_record *record)
{
    struct link *k = link_find(h->links, key);
    struct link_start start;
    struct error ignored = ERROR_INIT;
    if (k != NULL || record->environment == NULL ||
        link_connect(h->links, key, &start, &ignored) != 0) {
        return k;
    }
    if (link_add(h->links, key, &start, TAKE_PTR(record->environment), &k, &ignored) != 0) {
        return NULL;
    }
    return k;
}

static int look_at(struct native_host *h, const char *key, struct host_found_list *list,
                   struct error *err)
{
    char parts[NATIVE_KEY_SIZE];
    struct host_identity id;
    struct native_record record = {0};
    struct error ignored = ERROR_INIT;
    snprintf(parts, sizeof(parts), "%s", key);
    if (!link_key_parse(parts, &id)) {
        return 0;
    }
    if (native_record_read(h, key, &record, &ignored) != 0) {
        record = (struct native_record){0};
    }
    _cleanup_link_ struct link *k = reach(h, key, &record);
    struct host_found found = {
        .tenant = strdup(id.tenant),
        .execution_id = strdup(id.execution_id),
        .incarnation = id.incarnation,
        .handle = strdup(key),
        .fencing_token = record.fencing_token,
        .ours = true,
        .running = k != NULL && link_alive(k),
        .frozen = k != NULL && link_frozen(k),
    };
    found.owner_id = TAKE_PTR(record.owner_id);
    native_record_done(&record);
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

int native_list(struct native_host *h, struct host_found_list *out, struct error *err)
{
    struct host_found_list list = {0};
    int fd = openat(h->run_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(close_directory) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    if (dir == NULL) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "listing executions");
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && look_at(h, entry->d_name, &list, err) != 0) {
            host_found_list_done(&list);
            return -1;
        }
    }
    if (native_list_foreign(h, &list, err) != 0) {
        host_found_list_done(&list);
        return -1;
    }
    *out = list;
    return 0;
}

int native_adopt(struct native_host *h, const struct host_found *found, struct error *err)
{
    _cleanup_link_ struct link *k = NULL;
    const struct link_call thaw = {.request = {.type = SHIM_THAW}, .timeout_ms = THAW_MS};
    struct shim_event reply;
    if (native_link(h, found->handle, &k, err) != 0) {
        return -1;
    }
    if (link_frozen(k)) {
        if (link_request(k, &thaw, &reply, err) != 0) {
            return -1;
        }
        if (reply.errnum != 0) {
            return error_set_errno(err, ERROR_RUNTIME, reply.errnum, "thawing the execution");
        }
    }
    return link_publish(k) ? 0 : error_set(err, ERROR_RUNTIME, "the sandbox does not run");
}
