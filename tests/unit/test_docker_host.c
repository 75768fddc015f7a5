/* The Docker host on a real engine: made, read back, extended, ended; nothing left. */
#include "base/clock.h"
#include "base/digest.h"
#include "docker_fixture.h"
#include "host/docker/container.h"
#include "host/docker/engine.h"

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

static bool exists(const char *handle)
{
    struct container_handle h;
    char path[128];
    bool found = false;

    assert_int_equal(container_handle_parse(handle, &h), 0);
    for (int i = 0; i < 3; i++) {
        json_t *json;

        snprintf(path, sizeof(path), i == 0 ? "/containers/%s/json" : "/volumes/%s",
                 i == 0 ? h.id : h.volumes[i - 1]);
        json = fixture_get(path);
        found = found || json != NULL;
        json_decref(json);
    }
    return found;
}

static void test_life(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "life");
    struct host_identity id = host_provision_plan_identity(&plan);
    struct host_provisioned made;
    struct error err = ERROR_INIT;
    char out[512];

    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    assert_true(exists(made.handle));
    assert_non_null(strstr(made.image_digests, strrchr(f->image, '@') + 1));
    assert_int_equal(fixture_sh(f, &plan, made.handle,
                                "id -u; echo $HOME; echo x >f; cat f; touch /x 2>/dev/null; exit 3",
                                out, sizeof(out)),
                     3);
    assert_string_equal(out, "65532\n/workspace\nx\n");
    must(f->host->ops->terminate(f->host, &id, made.handle, &err), &err);
    assert_false(exists(made.handle));
    must(f->host->ops->terminate(f->host, &id, made.handle, &err), &err);
    must(f->host->ops->terminate(f->host, &id, NULL, &err), &err);
    assert_int_equal(fixture_count(&f->gone), 0);
    host_provisioned_done(&made);
    host_provision_plan_done(&plan);
}

static void test_name_taken(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "twice");
    struct host_identity id = host_provision_plan_identity(&plan);
    struct host_provisioned made;
    struct host_provisioned again;
    struct error err = ERROR_INIT;
    _cleanup_free_ char *name = container_name(f->instance, &id);
    char path[256];
    char *old;

    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    old = strdup(made.handle);
    host_provisioned_done(&made);
    /* The same identity: what a create whose answer was lost has left is taken away first. */
    must(f->host->ops->provision(f->host, &plan, &again, &err), &err);
    assert_string_not_equal(old, again.handle);
    assert_false(exists(old));
    free(old);
    host_provisioned_done(&again);
    must(f->host->ops->terminate(f->host, &id, NULL, &err), &err);
    /* Somebody else's thing of the name. */
    assert_non_null(name);
    snprintf(path, sizeof(path), "/containers/create?name=%s", name);
    assert_int_equal(fixture_call("POST", path,
                                  json_pack("{s:s,s:[s,s]}", "Image", strrchr(f->image, '@') + 1,
                                            "Cmd", "sleep", "60")),
                     201);
    assert_int_equal(f->host->ops->provision(f->host, &plan, &made, &err), -1);
    assert_int_equal(err.code, ERROR_RUNTIME);
    assert_non_null(strstr(err.detail, "not this execution's"));
    must(f->host->ops->terminate(f->host, &id, NULL, &err), &err);
    snprintf(path, sizeof(path), "/containers/%s", name);
    assert_int_equal(fixture_call("DELETE", path, NULL), 204);
    host_provision_plan_done(&plan);
}

static void test_deadline_inside(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "deadline");
    struct host_identity id = host_provision_plan_identity(&plan);
    struct host_provisioned made;
    struct error err = ERROR_INIT;
    char out[4096];
    int64_t start;
    int gone = fixture_count(&f->gone);

    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    for (int i = 0; i < 3; i++) {
        must(f->host->ops->extend(f->host, &id, made.handle, clock_wall_ms() + 30000, &err), &err);
    }
    /* Commands can't touch what sleeps, and extensions do not pile up. */
    assert_int_equal(
        fixture_sh(f, &plan, made.handle,
                   "for d in /proc/[0-9]*; do read -r p c s r <$d/stat; case $c in '(sleep)')"
                   " kill -CONT $p && echo mine; kill -KILL $p && echo mine; echo $s;;"
                   " esac; done 2>/dev/null; :",
                   out, sizeof(out)),
        0);
    assert_int_equal(strlen(out), 4); /* "T\nS\n" in some order: the first and the newest */
    assert_non_null(strchr(out, 'T'));
    assert_non_null(strchr(out, 'S'));
    start = clock_mono_ms();
    must(f->host->ops->extend(f->host, &id, made.handle, clock_wall_ms(), &err), &err);
    while (fixture_count(&f->gone) == gone && clock_mono_ms() < start + 10000) {
        usleep(20 * 1000);
    }
    assert_int_equal(fixture_count(&f->gone), gone + 1);
    assert_true(clock_mono_ms() - start >= 1500);
    assert_true(clock_mono_ms() - start < 4500);
    must(f->host->ops->terminate(f->host, &id, made.handle, &err), &err);
    assert_false(exists(made.handle));
    host_provisioned_done(&made);
    host_provision_plan_done(&plan);
}

static void expect_unfit(struct fixture *f, const char *name, const char *sh, const char *words)
{
    static const char *const SLEEP[] = {"sleep", NULL};
    struct host_provision_plan plan = fixture_plan(f, "missing");
    struct host_identity id = host_provision_plan_identity(&plan);
    struct host_provisioned made;
    struct error err = ERROR_INIT;

    free(plan.image);
    plan.image = fixture_image(f, name, sh != NULL ? SLEEP + 1 : SLEEP, sh);
    must(f->host->ops->check_image(f->host, plan.image, NULL, &err), &err);
    assert_int_equal(f->host->ops->provision(f->host, &plan, &made, &err), -1);
    if (err.code != ERROR_INVALID_REQUEST || strstr(err.detail, words) == NULL) {
        fail_msg("%s: %s", error_code_name(err.code), err.detail);
    }
    assert_string_equal(err.field, "/image");
    assert_int_equal(f->host->ops->check_image(f->host, plan.image, NULL, &err), -1);
    assert_non_null(strstr(err.detail, words));
    must(f->host->ops->terminate(f->host, &id, NULL, &err), &err);
    must(f->host->ops->image_remove(f->host, plan.image, &err), &err);
    host_provision_plan_done(&plan);
}

static void test_programs_missing(void **state)
{
    expect_unfit(*state, "exechost-unit-nosh", NULL, "no /bin/sh");
    /* Stands for a shell that does not find sleep: busybox's own has it built in. */
    expect_unfit(*state, "exechost-unit-nosleep", "#!/bin/busybox false\n", "no sleep");
}

static void test_images(void **state)
{
    struct fixture *f = *state;
    struct host_image_list list;
    struct error err = ERROR_INIT;
    char wrong[DIGEST_TEXT_SIZE + 32];
    bool found = false;

    must(f->host->ops->check_image(f->host, f->image, NULL, &err), &err);
    assert_int_equal(f->host->ops->check_image(f->host, "exechost-unit:latest", NULL, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    snprintf(wrong, sizeof(wrong), "exechost-unit@sha256:%064d", 7);
    assert_int_equal(f->host->ops->check_image(f->host, wrong, NULL, &err), -1);
    assert_int_equal(err.code, ERROR_IMAGE_NOT_FOUND);
    must(f->host->ops->image_list(f->host, &list, &err), &err);
    for (size_t i = 0; i < list.count; i++) {
        found = found || strcmp(list.items[i].reference, f->image) == 0;
    }
    host_image_list_done(&list);
    assert_true(found);
}

static void *fire_soon(void *arg)
{
    usleep(60 * 1000);
    cancel_fire(arg);
    return NULL;
}

static void test_cancelled_provision_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "cancelled");
    struct host_provisioned made;
    struct host_found_list list;
    struct error err = ERROR_INIT;
    pthread_t thread;

    must(cancel_new(&plan.cancel, &err), &err);
    pthread_create(&thread, NULL, fire_soon, plan.cancel);
    assert_int_equal(f->host->ops->provision(f->host, &plan, &made, &err), -1);
    assert_int_equal(err.code, ERROR_RUNTIME);
    assert_string_equal(err.detail, "interrupted");
    pthread_join(thread, NULL);
    must(f->host->ops->list(f->host, &list, &err), &err);
    for (size_t i = 0; i < list.count; i++) {
        assert_false(list.items[i].ours);
    }
    host_found_list_done(&list);
    cancel_unref(plan.cancel);
    host_provision_plan_done(&plan);
}

static void test_recovery(void **state)
{
    struct fixture *f = *state;
    struct host_provision_plan plan = fixture_plan(f, "found");
    struct host_identity id = host_provision_plan_identity(&plan);
    struct host_provisioned made;
    struct host_found_list list;
    struct host_status status;
    struct error err = ERROR_INIT;
    const struct host_found *found = NULL;

    f->host->ops->probe(f->host, &status);
    assert_true(status.available);
    plan.owner_id = strdup("worker-a");
    plan.fencing_token = 12;
    must(f->host->ops->provision(f->host, &plan, &made, &err), &err);
    must(f->host->ops->list(f->host, &list, &err), &err);
    for (size_t i = 0; i < list.count; i++) {
        found = list.items[i].ours ? &list.items[i] : found;
    }
    if (found == NULL) {
        fail_msg("the execution is not listed");
        return;
    }
    assert_string_equal(found->execution_id, "found");
    assert_string_equal(found->owner_id, "worker-a");
    assert_int_equal(found->fencing_token, 12);
    assert_string_equal(found->handle, made.handle);
    assert_true(found->running);
    assert_false(found->frozen);
    must(f->host->ops->adopt(f->host, found, &err), &err);
    must(f->host->ops->destroy(f->host, found, &err), &err);
    assert_false(exists(made.handle));
    assert_int_equal(f->host->ops->adopt(f->host, found, &err), -1);
    must(f->host->ops->terminate(f->host, &id, NULL, &err), &err);
    host_found_list_done(&list);
    host_provisioned_done(&made);
    host_provision_plan_done(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_name_taken),
        cmocka_unit_test(test_deadline_inside),
        cmocka_unit_test(test_programs_missing),
        cmocka_unit_test(test_cancelled_provision_leaves_nothing),
        cmocka_unit_test(test_recovery),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
