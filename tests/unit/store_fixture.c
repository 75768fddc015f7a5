#include "store_fixture.h"

#include "base/file.h"

#include <string.h>
#include <sys/wait.h>

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct error err = ERROR_INIT;

    assert_non_null(f);
    strncpy(f->directory, "/tmp/exechost-store-XXXXXX", sizeof(f->directory) - 1);
    assert_non_null(mkdtemp(f->directory));
    assert_ok(store_open(f->directory, &f->store, &err), err);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;

    store_close(f->store);
    assert_ok(dir_remove(f->directory, &err), err);
    free(f);
    return 0;
}

void fixture_reopen(struct fixture *f)
{
    struct error err = ERROR_INIT;

    store_close(f->store);
    f->store = NULL;
    assert_ok(store_open(f->directory, &f->store, &err), err);
}

struct store_execution execution_row(const char *id)
{
    return (struct store_execution){
        .tenant = "default",
        .execution_id = (char *)id,
        .state = STORE_PROVISIONING,
        .host = "docker",
        .image = "image@sha256:0",
        .nano_cpus = 1500000000,
        .memory_bytes = 64 << 20,
        .disk_bytes = 32 << 20,
        .pids = 32,
        .runtime_ms = 60000,
        .max_output_bytes = 1 << 20,
        .workspace = "{}",
        .environment = "{\"A\":\"b\"}",
        .metadata = "{\"deep\":[1,2]}",
        .labels = "{\"team\":\"blue\",\"run\":\"7\"}",
        .warnings = "[]",
        .owner_id = "owner-1",
        .fencing_token = 7,
        .restored_from = "c-1",
        .requested_at = 1000,
        .usage_cpu_ms = -1,
        .usage_memory_peak_bytes = -1,
        .usage_pids_peak = -1,
        .usage_workspace_bytes = -1,
    };
}

struct store_command command_row(int64_t execution_row, const char *id)
{
    return (struct store_command){
        .execution_row = execution_row,
        .tenant = "default",
        .command_id = (char *)id,
        .state = STORE_COMMAND_QUEUED,
        .command = "sh",
        .args = "[\"-c\",\"true\"]",
        .cwd = "src",
        .environment = "{}",
        .timeout_ms = -1,
        .queued_at = 2000,
        .exit_code = -1,
        .usage_cpu_ms = -1,
        .usage_memory_peak_bytes = -1,
        .usage_wall_ms = -1,
    };
}

struct store_checkpoint checkpoint_row(const char *id)
{
    return (struct store_checkpoint){
        .tenant = "default",
        .checkpoint_id = (char *)id,
        .source_execution_id = "e-1",
        .source_incarnation = 2,
        .created_at = 3000,
        .manifest = "{\"version\":1}",
        .content_bytes = 4096,
        .archive_bytes = 512,
        .entries = 3,
        .skipped = 1,
        .archive_digest = "sha256:0",
        .durability = "local",
        .stored_at = 3100,
        .stored_bytes = 700,
    };
}

int run_with_fault(const char *fault, const char *role, const char *where, const char *what)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("EXECHOST_FAULT", fault, 1);
        execl("/proc/self/exe", "test", role, where, what, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

void assert_text(const char *a, const char *b)
{
    if (b == NULL) {
        assert_null(a);
    } else {
        assert_non_null(a);
        assert_string_equal(a, b);
    }
}
