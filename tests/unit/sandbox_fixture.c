#include "sandbox_fixture.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { OUTPUT_MAX = 80 * 1024 * 1024, COMMAND_MS = 60 * 1000 };

static void note_gone(void *ctx, const struct host_identity *id, const char *detail)
{
    struct fixture *f = ctx;
    (void)id;
    (void)detail;
    pthread_mutex_lock(&f->lock);
    f->gone++;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void note_oom(void *ctx, const struct host_identity *id)
{
    (void)ctx;
    (void)id;
}

static void note_up(void *ctx, bool up)
{
    (void)ctx;
    (void)up;
}

static void shell(const char *script, const char *argument)
{
    const char *const argv[] = {"/bin/sh", "-ec", script, "sh", argument, NULL};
    const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};
    _cleanup_buf_ struct buf out;
    _cleanup_buf_ struct buf diag;
    struct error err = ERROR_INIT;
    struct child_run run = {.spec = {.argv = argv, .envp = envp},
                            .deadline_mono_ms = clock_mono_ms() + 60000,
                            .out = &out,
                            .diag = &diag};
    buf_init(&out, 65536);
    buf_init(&diag, 65536);
    assert_int_equal(child_run(&run, &err), 0);
    if (run.status != 0) {
        fail_msg("%s", buf_str(&diag));
    }
}

static void open_host(struct fixture *f)
{
    char path[96];
    struct error err = ERROR_INIT;
    snprintf(path, sizeof(path), "%s/native", f->directory);
    const struct native_host_config config = {
        .directory = path,
        .instance_id = f->instance,
        .uid = 65532,
        .gid = 65532,
        .host_uid_first = 300000,
        .host_uid_count = 1000,
        .load_timeout_ms = 60000,
    };
    const struct host_observer observer = {
        .gone = note_gone, .oom = note_oom, .up = note_up, .ctx = f};
    if (native_host_new(&config, &observer, &f->host, &err) != 0) {
        fail_msg("%s", err.detail);
    }
}

static void import_image(struct fixture *f)
{
    char path[96];
    struct host_image image = {0};
    struct error err = ERROR_INIT;
    shell("mkdir -p $1/root/bin $1/root/etc; cp /bin/busybox $1/root/bin; cd $1/root/bin; "
          "for name in $(./busybox --list); do [ $name = busybox ] || ln -s busybox $name; done; "
          "cp busybox root-owned; chmod 4755 root-owned; "
          "echo image > ../etc/marker; tar -C $1/root -cf $1/image.tar .",
          f->directory);
    snprintf(path, sizeof(path), "%s/image.tar", f->directory);
    if (f->host->ops->image_import(f->host, "test/busybox", path, &image, &err) != 0) {
        fail_msg("%s", err.detail);
    }
    f->image = image.reference;
    free(image.digests);
}

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    char id[ID_SIZE];
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    id_generate("unit", id);
    snprintf(f->instance, sizeof(f->instance), "%s", id);
    snprintf(f->directory, sizeof(f->directory), "/tmp/sandbox-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    open_host(f);
    import_image(f);
    *state = f;
    return 0;
}

static void close_host(struct fixture *f)
{
    f->host->ops->stop(f->host);
    f->host->ops->free(f->host);
    f->host = NULL;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    close_host(f);
    assert_int_equal(dir_remove(f->directory, &err), 0);
    free(f->image);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return 0;
}

void fixture_reopen(struct fixture *f)
{
    close_host(f);
    open_host(f);
}

struct host_provision_plan fixture_plan(struct fixture *f, const char *execution)
{
    return (struct host_provision_plan){
        .tenant = strdup("default"),
        .execution_id = strdup(execution),
        .incarnation = 1,
        .image = strdup(f->image),
        .limits = {.nano_cpus = 1000000000,
                   .memory_bytes = 64 << 20,
                   .disk_bytes = 16 << 20,
                   .pids = 64,
                   .runtime_ms = 600000,
                   .max_output_bytes = 1 << 20},
        .load_timeout_ms = 60000,
    };
}

char *fixture_provision(struct fixture *f, const struct host_provision_plan *plan)
{
    struct host_provisioned out = {0};
    struct error err = ERROR_INIT;
    if (f->host->ops->provision(f->host, plan, &out, &err) != 0) {
        fail_msg("%s", err.detail);
    }
    free(out.image_digests);
    return out.handle;
}

void fixture_terminate(struct fixture *f, const struct host_provision_plan *plan,
                       const char *handle)
{
    struct host_identity id = host_provision_plan_identity(plan);
    struct error err = ERROR_INIT;
    if (f->host->ops->terminate(f->host, &id, handle, &err) != 0) {
        fail_msg("%s", err.detail);
    }
}

int fixture_groups(struct fixture *f, const char *handle)
{
    static const char *const trees[] = {"", "/cpu", "/memory", "/pids", "/unified"};
    int count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
        char path[400];
        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/exechost-%s/%s", trees[i], f->instance,
                 handle);
        count += access(path, F_OK) == 0;
    }
    return count;
}

/* --- commands --- */

static bool on_output(void *ctx, enum host_stream stream, const void *data, size_t len)
{
    struct run *r = ctx;
    pthread_mutex_lock(&r->f->lock);
    int result = buf_add(stream == HOST_STDOUT ? &r->out : &r->err, data, len);
    pthread_cond_broadcast(&r->f->changed);
    pthread_mutex_unlock(&r->f->lock);
    return result == 0;
}

static void on_finished(void *ctx, const struct host_exec_result *result)
{
    struct run *r = ctx;
    pthread_mutex_lock(&r->f->lock);
    r->result = *result;
    r->finished = true;
    pthread_cond_broadcast(&r->f->changed);
    pthread_mutex_unlock(&r->f->lock);
}

struct host_exec_events run_events(struct run *r)
{
    return (struct host_exec_events){.output = on_output, .finished = on_finished, .ctx = r};
}

void run_init(struct run *r, struct fixture *f, const struct host_provision_plan *plan,
              const char *handle)
{
    static int number;
    *r = (struct run){.f = f, .plan = plan, .handle = handle};
    snprintf(r->id, sizeof(r->id), "command-%d", number++);
    buf_init(&r->out, OUTPUT_MAX);
    buf_init(&r->err, OUTPUT_MAX);
}

void run_done(struct run *r)
{
    buf_done(&r->out);
    buf_done(&r->err);
}

void run_start(struct run *r, const char *const *argv)
{
    struct host_exec_events events = run_events(r);
    struct error err = ERROR_INIT;
    const struct host_exec_plan plan = {
        .id = host_provision_plan_identity(r->plan),
        .handle = r->handle,
        .command_id = r->id,
        .argv = argv,
        .cwd = "",
        .timeout_ms = -1,
        .limits = r->plan->limits,
    };
    if (r->f->host->ops->exec(r->f->host, &plan, &events, &err) != 0) {
        fail_msg("%s", err.detail);
    }
}

static struct timespec in_ms(int ms)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000L;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000L;
    }
    return at;
}

void run_wait(struct run *r)
{
    struct timespec until = in_ms(COMMAND_MS);
    pthread_mutex_lock(&r->f->lock);
    int waited = 0;
    while (!r->finished && waited == 0) {
        waited = pthread_cond_timedwait(&r->f->changed, &r->f->lock, &until);
    }
    pthread_mutex_unlock(&r->f->lock);
    assert_true(r->finished);
}

bool run_wait_output(struct run *r, size_t len, int timeout_ms)
{
    struct timespec until = in_ms(timeout_ms);
    int waited = 0;
    pthread_mutex_lock(&r->f->lock);
    while (r->out.len < len && waited == 0) {
        waited = pthread_cond_timedwait(&r->f->changed, &r->f->lock, &until);
    }
    bool enough = r->out.len >= len;
    pthread_mutex_unlock(&r->f->lock);
    return enough;
}

int run_sh(struct run *r, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    run_start(r, argv);
    run_wait(r);
    if (r->result.lost || !r->result.started) {
        print_message("%s\n", r->result.detail);
    }
    return r->result.exit_code;
}
