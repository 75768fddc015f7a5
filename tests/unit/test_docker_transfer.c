/* Workspaces out of and into executions on a real engine, and what happens when somebody
 * interferes. */
#include "base/child.h"
#include "base/clock.h"
#include "docker_fixture.h"
#include "host/docker/engine.h"
#include "workspace/archive.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void must(int result, const struct error *err)
{
    if (result < 0) {
        fail_msg("%s: %s", error_code_name(err->code), err->detail);
    }
}

/* A checkpoint in two nameless files. */
struct saved {
    int archive_fd;
    int files_fd;
    struct workspace_archive_facts facts;
};

static int save(struct fixture *f, const struct host_provision_plan *plan, const char *handle,
                struct cancel *cancel, struct saved *saved, struct error *err)
{
    struct workspace_writer_spec spec = {
        .compression = WORKSPACE_COMPRESSION_ZSTD,
        .level = 3,
        .apparent_bytes_max = 64 << 20,
    };
    struct host_checkpoint_plan checkpoint = {
        .id = host_provision_plan_identity(plan),
        .handle = handle,
        .limits = plan->limits,
        .apparent_bytes_max = 64 << 20,
        .deadline_mono_ms = clock_mono_ms() + 60000,
        .cancel = cancel,
    };
    struct workspace_writer *writer;
    int result;

    spec.archive_fd = saved->archive_fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    spec.files_fd = saved->files_fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    must(workspace_writer_new(&spec, &writer, err), err);
    result = f->host->ops->checkpoint(f->host, &checkpoint, workspace_writer_sink(writer), err);
    if (result == 0) {
        must(workspace_writer_finish(writer, &saved->facts, err), err);
    }
    workspace_writer_free(writer);
    return result;
}

static void saved_done(struct saved *saved)
{
    close(saved->archive_fd);
    close(saved->files_fd);
}

static bool is_paused(const char *handle)
{
    char path[128];
    json_t *json;
    bool paused;

    snprintf(path, sizeof(path), "/containers/%.64s/json", handle);
    json = fixture_get(path);
    assert_non_null(json);
    paused = json_is_true(json_object_get(json_object_get(json, "State"), "Paused"));
    json_decref(json);
    return paused;
}

static void post(const char *handle, const char *action)
{
    const char *socket = getenv("EXECHOST_TEST_SOCKET");
    struct error err = ERROR_INIT;
    struct engine *e;
    struct engine_answer answer;
    char path[128];
    struct engine_request request = {.method = "POST", .path = path};

    snprintf(path, sizeof(path), "/containers/%.64s/%s", handle, action);
    must(engine_new(socket != NULL ? socket : "/var/run/docker.sock", &e, &err), &err);
    must(engine_call(e, &request, &answer, &err), &err);
    assert_int_equal(answer.status, 204);
    engine_answer_done(&answer);
    engine_free(e);
}

static void end(struct fixture *f, struct host_provision_plan *plan, struct host_provisioned *made)
{
    struct host_identity id = host_provision_plan_identity(plan);
    struct error err = ERROR_INIT;

    must(f->host->ops->terminate(f->host, &id, made->handle, &err), &err);
    host_provisioned_done(made);
    host_provision_plan_done(plan);
}

static void test_out_and_in(void **state)
{
    static const char FILL[] =
        "mkdir d; echo one >d/a; ln d/a d/b; ln -s ../x d/link; mkfifo d/pipe; "
        "echo x | dd of=sparse bs=1 count=1 seek=5000000 2>/dev/null; "
        "dd if=/dev/urandom of=full bs=4096 2>/dev/null; cat d/a";
    static const char LOOK[] = "cat d/a d/b; ls -l d/link d/pipe 2>&1 | cat; ls -l sparse; "
                               "ls -i d/a d/b; echo y >>full || echo full";
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "out");
    struct host_provision_plan again = fixture_plan(f, "in");
    struct host_provisioned made;
    struct host_provisioned restored;
    struct workspace_reader *reader;
    struct saved saved;
    struct error err = ERROR_INIT;
    char out[2048];

    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    assert_int_equal(fixture_sh(f, &plan, made.handle, FILL, out, sizeof(out)), 0);
    assert_string_equal(out, "one\n");
    must(save(f, &plan, made.handle, NULL, &saved, &err), &err);
    assert_false(is_paused(made.handle));
    assert_int_equal(saved.facts.skipped, 1);
    assert_true(saved.facts.content_bytes >= plan.limits.disk_bytes - 64 * 1024);
    must(workspace_reader_new(saved.archive_fd, saved.files_fd, &saved.facts, &reader, &err), &err);
    must(f->host->ops->restore(f->host, &again, reader, &restored, &err), &err);
    workspace_reader_free(reader);
    (void)fixture_sh(f, &again, restored.handle, LOOK, out, sizeof(out));
    assert_memory_equal(out, "one\none\n", 8);
    assert_non_null(strstr(out, "d/link -> ../x"));
    assert_non_null(strstr(out, "d/pipe: No such file"));
    assert_non_null(strstr(out, "5000001"));
    assert_non_null(strstr(out, "full\n"));
    saved_done(&saved);
    end(f, &plan, &made);
    end(f, &again, &restored);
}

static void test_too_large_to_load(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "large");
    struct host_provision_plan small = fixture_plan(f, "small");
    struct host_provisioned made;
    struct host_provisioned restored;
    struct workspace_reader *reader;
    struct host_found_list list;
    struct saved saved;
    struct error err = ERROR_INIT;
    char out[256];

    small.limits.disk_bytes = 256 * 1024;
    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    (void)fixture_sh(f, &plan, made.handle, "dd if=/dev/urandom of=f bs=65536", out, sizeof(out));
    must(save(f, &plan, made.handle, NULL, &saved, &err), &err);
    end(f, &plan, &made);
    must(workspace_reader_new(saved.archive_fd, saved.files_fd, &saved.facts, &reader, &err), &err);
    assert_int_equal(f->host->ops->restore(f->host, &small, reader, &restored, &err), -1);
    if (err.code != ERROR_RESOURCE_LIMIT) {
        fail_msg("%s: %s", error_code_name(err.code), err.detail);
    }
    workspace_reader_free(reader);
    must(f->host->ops->list(f->host, &list, &err), &err);
    for (size_t i = 0; i < list.count; i++) {
        assert_false(list.items[i].ours);
    }
    host_found_list_done(&list);
    saved_done(&saved);
    host_provision_plan_done(&small);
}

static void test_cancelled_checkpoint_thaws(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "cancel");
    struct host_provisioned made;
    struct cancel *cancel;
    struct saved saved;
    struct error err = ERROR_INIT;

    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    must(cancel_new(&cancel, &err), &err);
    cancel_fire(cancel);
    assert_int_equal(save(f, &plan, made.handle, cancel, &saved, &err), -1);
    assert_string_equal(err.detail, "interrupted");
    assert_false(is_paused(made.handle));
    saved_done(&saved);
    /* One that a dead service has left frozen works too, and goes on afterwards. */
    post(made.handle, "pause");
    must(save(f, &plan, made.handle, NULL, &saved, &err), &err);
    assert_false(is_paused(made.handle));
    saved_done(&saved);
    cancel_unref(cancel);
    end(f, &plan, &made);
}

static void test_frozen_can_be_ended(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "frozen");
    struct host_provisioned made;
    struct error err = ERROR_INIT;
    struct host_found_list list;

    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    post(made.handle, "pause");
    must(f->host->ops->list(f->host, &list, &err), &err);
    for (size_t i = 0; i < list.count; i++) {
        if (list.items[i].ours) {
            assert_true(list.items[i].frozen);
            must(f->host->ops->adopt(f->host, &list.items[i], &err), &err);
        }
    }
    host_found_list_done(&list);
    assert_false(is_paused(made.handle));
    post(made.handle, "pause");
    end(f, &plan, &made);
}

struct running {
    struct fixture *f;
    struct host_provision_plan *plan;
    const char *handle;
    const char *script;
    int code;
};

static void *run_command(void *arg)
{
    struct running *r = arg;
    char out[256];

    r->code = fixture_sh(r->f, r->plan, r->handle, r->script, out, sizeof(out));
    return NULL;
}

static void test_terminate_ends_commands(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "busy");
    struct host_provisioned made;
    struct error err = ERROR_INIT;
    struct running running = {.f = f, .plan = &plan, .script = "sleep 30"};
    int64_t start = clock_mono_ms();
    pthread_t thread;
    char *handle;

    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    running.handle = handle = strdup(made.handle);
    pthread_create(&thread, NULL, run_command, &running);
    usleep(400 * 1000);
    {
        struct host_identity id = host_provision_plan_identity(&plan);

        must(f->host->ops->terminate(f->host, &id, made.handle, &err), &err);
    }
    pthread_join(thread, NULL);
    assert_int_equal(running.code, -1);
    assert_true(clock_mono_ms() - start < 10000);
    free(handle);
    host_provisioned_done(&made);
    host_provision_plan_done(&plan);
}

static void test_oom_is_told(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "oom");
    struct host_provisioned made;
    struct error err = ERROR_INIT;
    int before = fixture_count(&f->oom);
    int64_t start = clock_mono_ms();
    char out[256];

    plan.limits.memory_bytes = 16 << 20;
    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    (void)fixture_sh(f, &plan, made.handle, "dd if=/dev/zero of=/dev/null bs=64M count=1", out,
                     sizeof(out));
    while (fixture_count(&f->oom) == before && clock_mono_ms() < start + 5000) {
        usleep(10 * 1000);
    }
    assert_true(fixture_count(&f->oom) > before);
    end(f, &plan, &made);
}

/* --- git --- */

static void git(const char *dir, const char *const *args)
{
    static const char *const ENV[] = {"HOME=/nonexistent",
                                      "GIT_AUTHOR_NAME=a",
                                      "GIT_AUTHOR_EMAIL=a@example.org",
                                      "GIT_COMMITTER_NAME=a",
                                      "GIT_COMMITTER_EMAIL=a@example.org",
                                      "PATH=/usr/bin:/bin",
                                      NULL};
    struct buf out;
    struct buf diag;
    struct child_run run = {
        .spec = {.argv = args, .envp = ENV, .cwd = dir},
        .deadline_mono_ms = clock_mono_ms() + 10000,
        .out = &out,
        .diag = &diag,
    };
    struct error err = ERROR_INIT;

    buf_init(&out, 65536);
    buf_init(&diag, 65536);
    must(child_run(&run, &err), &err);
    if (run.status != 0) {
        fail_msg("git: %s", buf_str(&diag));
    }
    buf_done(&out);
    buf_done(&diag);
}

static void test_git(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "git");
    struct host_provisioned made;
    struct error err = ERROR_INIT;
    char dir[] = "/tmp/exechost-unit-git-XXXXXX";
    char out[256];

    assert_non_null(mkdtemp(dir));
    git(dir, (const char *const[]){"git", "init", "-q", "-b", "main", NULL});
    git(dir, (const char *const[]){"git", "commit", "-q", "--allow-empty", "-m", "x", NULL});
    snprintf(out, sizeof(out), "%s/hello", dir);
    {
        int fd = open(out, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

        assert_int_equal(write(fd, "hi\n", 3), 3);
        close(fd);
    }
    git(dir, (const char *const[]){"git", "add", "hello", NULL});
    git(dir, (const char *const[]){"git", "commit", "-q", "-m", "y", NULL});
    plan.workspace = HOST_WORKSPACE_GIT;
    plan.repository_path = strdup(dir);
    plan.repository_root = strdup("/tmp");
    plan.revision = strdup("main");
    /* Shorter than what a load may take: the inside deadline is set anew after it. */
    plan.limits.runtime_ms = 5000;
    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    assert_int_equal(fixture_sh(f, &plan, made.handle, "cat hello; ls -a", out, sizeof(out)), 0);
    assert_string_equal(out, "hi\n.\n..\nhello\n");
    end(f, &plan, &made);
    plan = fixture_plan(f, "git2");
    plan.workspace = HOST_WORKSPACE_GIT;
    plan.repository_path = strdup(dir);
    plan.repository_root = strdup("/tmp");
    plan.revision = strdup("nonexistent");
    assert_int_equal(f->host->ops->provision(f->host, &plan, &made, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_string_equal(err.field, "/workspace/revision");
    host_provision_plan_done(&plan);
    git("/tmp", (const char *const[]){"rm", "-rf", dir, NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_and_in),
        cmocka_unit_test(test_too_large_to_load),
        cmocka_unit_test(test_cancelled_checkpoint_thaws),
        cmocka_unit_test(test_frozen_can_be_ended),
        cmocka_unit_test(test_terminate_ends_commands),
        cmocka_unit_test(test_oom_is_told),
        cmocka_unit_test(test_git),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
