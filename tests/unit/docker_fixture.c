#include "docker_fixture.h"

#include "base/id.h"
#include "host/docker/engine.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

static const char *engine_socket(void)
{
    const char *path = getenv("EXECHOST_TEST_SOCKET");

    return path != NULL ? path : "/var/run/docker.sock";
}

static void on_gone(void *ctx, const struct host_identity *id, const char *detail)
{
    struct fixture *f = ctx;

    (void)id;
    (void)detail;
    __atomic_add_fetch(&f->gone, 1, __ATOMIC_SEQ_CST);
}

static void on_up(void *ctx, bool up)
{
    (void)ctx;
    (void)up;
}

static void on_oom(void *ctx, const struct host_identity *id)
{
    struct fixture *f = ctx;

    (void)id;
    __atomic_add_fetch(&f->oom, 1, __ATOMIC_SEQ_CST);
}

int fixture_count(const int *counter)
{
    return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static void add_entry(struct archive *a, const char *path, mode_t mode, const char *link,
                      const void *data, size_t len)
{
    struct archive_entry *entry = archive_entry_new();

    archive_entry_set_pathname(entry, path);
    archive_entry_set_mode(entry, mode);
    archive_entry_set_size(entry, (la_int64_t)len);
    if (link != NULL) {
        archive_entry_set_symlink(entry, link);
    }
    archive_write_header(a, entry);
    if (len > 0) {
        archive_write_data(a, data, len);
    }
    archive_entry_free(entry);
}

static void *read_busybox(size_t *len)
{
    int fd = open("/bin/busybox", O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *data;

    if (fd < 0 || fstat(fd, &st) < 0) {
        fprintf(stderr, "these tests need a static /bin/busybox\n");
        abort();
    }
    data = malloc((size_t)st.st_size);
    *len = (size_t)read(fd, data, (size_t)st.st_size);
    close(fd);
    return data;
}

static void write_rootfs(const char *file, const char *const *programs, const char *sh)
{
    struct archive *a = archive_write_new();
    size_t len;
    void *busybox = read_busybox(&len);

    archive_write_set_format_ustar(a);
    archive_write_open_filename(a, file);
    add_entry(a, "bin", S_IFDIR | 0755, NULL, NULL, 0);
    add_entry(a, "bin/busybox", S_IFREG | 0755, NULL, busybox, len);
    for (; *programs != NULL; programs++) {
        char path[64];

        snprintf(path, sizeof(path), "bin/%s", *programs);
        add_entry(a, path, S_IFLNK | 0777, "busybox", NULL, 0);
    }
    if (sh != NULL) {
        add_entry(a, "bin/sh", S_IFREG | 0755, NULL, sh, strlen(sh));
    }
    archive_write_close(a);
    archive_write_free(a);
    free(busybox);
}

char *fixture_image(struct fixture *f, const char *name, const char *const *programs,
                    const char *sh)
{
    char file[] = "/tmp/exechost-unit-XXXXXX";
    struct error err = ERROR_INIT;
    struct host_image image;
    int fd = mkstemp(file);

    close(fd);
    write_rootfs(file, programs, sh);
    if (f->host->ops->image_import(f->host, name, file, &image, &err) < 0) {
        fprintf(stderr, "import: %s\n", err.detail);
        abort();
    }
    unlink(file);
    free(image.digests);
    return image.reference;
}

int fixture_setup(void **state)
{
    static const char *const PROGRAMS[] = {"sh", "sleep", "cat", "mkdir", "ln", "mkfifo",
                                           "ls", "kill",  "id",  "dd",    "ps", NULL};
    struct fixture *f = calloc(1, sizeof(*f));
    struct host_observer observer = {.gone = on_gone, .oom = on_oom, .up = on_up, .ctx = f};
    struct docker_host_config config = {
        .socket_path = engine_socket(),
        .instance_id = f->instance,
        .uid = 65532,
        .gid = 65532,
        .load_timeout_ms = 30000,
    };
    struct error err = ERROR_INIT;
    char id[ID_SIZE];

    id_generate("unit", id);
    snprintf(f->instance, sizeof(f->instance), "%.20s", id);
    if (docker_host_new(&config, &observer, &f->host, &err) < 0) {
        fprintf(stderr, "host: %s\n", err.detail);
        return -1;
    }
    f->image = fixture_image(f, "exechost-unit", PROGRAMS, NULL);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct host_found_list list;

    if (f->host->ops->list(f->host, &list, &err) == 0) {
        for (size_t i = 0; i < list.count; i++) {
            if (list.items[i].ours && f->host->ops->destroy(f->host, &list.items[i], &err) < 0) {
                fprintf(stderr, "leftover: %s\n", err.detail);
            }
        }
        host_found_list_done(&list);
    }
    if (f->host->ops->image_remove(f->host, f->image, &err) < 0) {
        fprintf(stderr, "image: %s\n", err.detail);
    }
    f->host->ops->free(f->host);
    free(f->image);
    free(f);
    return 0;
}

struct host_provision_plan fixture_plan(struct fixture *f, const char *execution)
{
    return (struct host_provision_plan){
        .tenant = strdup("default"),
        .execution_id = strdup(execution),
        .incarnation = 1,
        .image = strdup(f->image),
        .limits = {.nano_cpus = 500000000,
                   .memory_bytes = 64 << 20,
                   .disk_bytes = 1 << 20,
                   .pids = 32,
                   .runtime_ms = 60000,
                   .max_output_bytes = 1 << 20},
        .load_timeout_ms = 30000,
    };
}

static json_t *ask(const struct engine_request *request, long *status)
{
    struct error err = ERROR_INIT;
    struct engine *e;
    struct engine_answer answer;
    json_t *json = NULL;

    if (engine_new(engine_socket(), &e, &err) < 0 || engine_call(e, request, &answer, &err) < 0) {
        fprintf(stderr, "engine: %s\n", err.detail);
        abort();
    }
    if (answer.status == 200) {
        json = json_incref(answer.json);
    }
    *status = answer.status;
    engine_answer_done(&answer);
    engine_free(e);
    return json;
}

json_t *fixture_get(const char *path)
{
    struct engine_request request = {.method = "GET", .path = path};
    long status;

    return ask(&request, &status);
}

long fixture_call(const char *method, const char *path, json_t *body)
{
    struct engine_request request = {.method = method, .path = path, .body = body};
    long status;

    json_decref(ask(&request, &status));
    json_decref(body);
    return status;
}

struct shell {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    int code;
    char *out;
    size_t size;
    size_t len;
};

static bool on_output(void *ctx, enum host_stream stream, const void *data, size_t len)
{
    struct shell *s = ctx;

    (void)stream;
    pthread_mutex_lock(&s->lock);
    if (s->len + len < s->size) {
        memcpy(s->out + s->len, data, len);
        s->len += len;
        s->out[s->len] = '\0';
    }
    pthread_mutex_unlock(&s->lock);
    return true;
}

static void on_finished(void *ctx, const struct host_exec_result *result)
{
    struct shell *s = ctx;

    pthread_mutex_lock(&s->lock);
    s->done = true;
    s->code = result->lost ? -1 : result->exit_code;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

int fixture_sh(struct fixture *f, const struct host_provision_plan *plan, const char *handle,
               const char *script, char *out, size_t size)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct shell s = {.lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER,
                      .out = out,
                      .size = size};
    struct host_exec_plan exec = {
        .id = host_provision_plan_identity(plan),
        .handle = handle,
        .argv = argv,
        .cwd = "",
        .limits = plan->limits,
    };
    struct host_exec_events events = {.output = on_output, .finished = on_finished, .ctx = &s};
    struct error err = ERROR_INIT;

    out[0] = '\0';
    if (f->host->ops->exec(f->host, &exec, &events, &err) < 0) {
        snprintf(out, size, "%s", err.detail);
        return -2;
    }
    pthread_mutex_lock(&s.lock);
    while (!s.done) {
        pthread_cond_wait(&s.changed, &s.lock);
    }
    pthread_mutex_unlock(&s.lock);
    return s.code;
}
