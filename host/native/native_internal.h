/* The native host's own parts, shared by its files; nobody else includes it. */
#ifndef EXECHOST_HOST_NATIVE_NATIVE_INTERNAL_H
#define EXECHOST_HOST_NATIVE_NATIVE_INTERNAL_H

#include "base/buf.h"
#include "host/native/images.h"
#include "host/native/link.h"
#include "host/native/native.h"
#include "sandbox/cgroup.h"

#include <pthread.h>
#include <stdatomic.h>

struct native_host {
    struct host base;
    char *instance;
    char *scratch;
    char *images_path;
    char *run_path; /* <directory>/run: a directory for each execution */
    int run_fd;
    uint32_t uid;
    uint32_t gid;
    uint32_t host_uid_first;
    uint32_t host_uid_count;
    atomic_uint next_uid;
    int64_t shm_bytes_max;
    int64_t load_timeout_ms;
    int64_t cpu_count;
    struct native_images *images;
    struct links *links;
    struct host_observer observer;

    pthread_mutex_t lock; /* guards the making of what follows, constant once `ready` */
    bool ready;
    struct cgroup_set parents; /* exechost-<instance> in each hierarchy */
    int filter_fd;
    int shim_fd; /* the programs, as sealed memory files */
    int guest_fd;
};

/* --- machine.c: what this machine must have, made once --- */

/* ERROR_HOST_UNAVAILABLE says what is missing. */
int native_machine_prepare(struct native_host *h, struct error *err) WARN_UNUSED;
void native_machine_done(struct native_host *h);

/* --- record.c: the directory of an execution --- */

/* "<tenant>,<execution>,<incarnation>": the directory's and the cgroups' name, and the handle. */
enum { NATIVE_KEY_SIZE = CGROUP_NAME_MAX };
void native_key(const struct host_identity *id, char out[NATIVE_KEY_SIZE]);
/* False when `key` is none. The strings are cut out of `key`, which must outlive them. */
bool link_key_parse(char *key, struct host_identity *out);

struct native_record {
    char *owner_id; /* owned; or NULL */
    int64_t fencing_token;
    char **environment; /* owned; NULL-ended: the image's, then the execution's */
};
void native_record_done(struct native_record *record);
/* Makes the directory with the record in it. A directory of that name: ERROR_RUNTIME. */
int native_record_write(struct native_host *h, const char *key, const struct native_record *record,
                        struct error *err) WARN_UNUSED;
int native_record_read(struct native_host *h, const char *key, struct native_record *out,
                       struct error *err) WARN_UNUSED;
/* The same of a directory anywhere, without the environment. */
int native_record_read_at(const char *directory, struct native_record *out,
                          struct error *err) WARN_UNUSED;
/* Image's, execution's and what is missing of HOME. Returns owned, NULL: out of memory. */
char **native_environment_merge(char *const *first, const char *const *second);
void native_environment_free(char **environment);

/* --- spawn.c: a shim is started --- */

struct native_spawn {
    const char *key;
    const struct native_image *image;
    const struct host_limits *limits;
    const char *host_name;
    int64_t lifetime_ms;
    int64_t deadline_mono_ms;
    struct cancel *cancel;
};
/* A process of ours that has nothing to do with an execution yet, and ends with its connection. */
struct native_shim {
    pid_t pid; /* 0: none */
    int fd;
};
#define NATIVE_SHIM_INIT                                                                           \
    {                                                                                              \
        .fd = -1                                                                                   \
    }
/* Begins to start it: it gets ready while the caller does other things. */
int native_shim_start(struct native_host *h, struct native_shim *out,
                      struct error *err) WARN_UNUSED;
/* Ends one that was given to nobody. */
void native_shim_done(struct native_shim *shim);
/* Gives it the execution and waits until process 1 is up. On success the connection, the greeting
 * and the pid of the child, taken from `shim`. On failure nothing of it runs. */
int native_spawn(struct native_host *h, const struct native_spawn *spawn, struct native_shim *shim,
                 struct link_start *out, struct error *err) WARN_UNUSED;

/* --- the operations, one file each --- */

int native_provision(struct native_host *h, const struct host_provision_plan *plan,
                     struct workspace_reader *archive, struct host_provisioned *out,
                     struct error *err) WARN_UNUSED;
int native_exec(struct native_host *h, const struct host_exec_plan *plan,
                const struct host_exec_events *events, struct error *err) WARN_UNUSED;
int native_exec_resume(struct native_host *h, const struct host_exec_resume *resume,
                       const struct host_exec_events *events, struct error *err) WARN_UNUSED;
int native_exec_input(struct native_host *h, const struct host_exec_ref *command, const void *data,
                      size_t len, bool eof, struct error *err) WARN_UNUSED;
int native_exec_signal(struct native_host *h, const struct host_exec_ref *command, int signo,
                       struct error *err) WARN_UNUSED;
int native_guest(struct native_host *h, const struct host_guest_call *call, bool outside,
                 struct host_guest **out, struct error *err) WARN_UNUSED;
int native_program(struct native_host *h, const struct host_program_plan *plan, int *leash,
                   struct error *err) WARN_UNUSED;
int native_checkpoint(struct native_host *h, const struct host_checkpoint_plan *plan,
                      struct workspace_sink *sink, struct error *err) WARN_UNUSED;
int native_load_workspace(struct native_host *h, const char *key,
                          const struct host_provision_plan *plan, struct workspace_reader *archive,
                          int64_t deadline_mono_ms, struct error *err) WARN_UNUSED;
/* Destroys by key, with the shim's help or without, and proves it. */
int native_remove(struct native_host *h, const char *key, struct error *err) WARN_UNUSED;
int native_list(struct native_host *h, struct host_found_list *out, struct error *err) WARN_UNUSED;
int native_adopt(struct native_host *h, const struct host_found *found,
                 struct error *err) WARN_UNUSED;

/* foreign.c: appends what other instances hold; the handle is "INSTANCE/KEY". */
int native_list_foreign(struct native_host *h, struct host_found_list *list,
                        struct error *err) WARN_UNUSED;
int native_destroy_foreign(const char *handle, struct error *err) WARN_UNUSED;

/* The link to a living execution, or ERROR_RUNTIME. Returns owned (link_unref). */
int native_link(struct native_host *h, const char *handle, struct link **out,
                struct error *err) WARN_UNUSED;

/* plan_file.c: a command for process 1, as a memory file. Returns an owned descriptor or -1. */
int native_plan_file(const char *const *argv, char *const *environment, const char *cwd,
                     struct error *err) WARN_UNUSED;
/* A memory file with these bytes. */
int native_memory_file(const char *name, const void *data, size_t len,
                       struct error *err) WARN_UNUSED;
/* binaries.c: the shim and the guest, as they were built with the service; static. */
const void *native_shim_binary(size_t *len);

#endif
