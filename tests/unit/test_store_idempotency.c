/* Idempotency keys: claimed once, bound with what they made, answered byte for byte, expired. */
#include "store_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum { NOW = 1000000, LATER = 2000000 };

static struct store_idempotency_request request_of(const char *tenant, const char *key,
                                                   const char *digest)
{
    return (struct store_idempotency_request){
        .tenant = tenant, .key = key, .digest = digest, .now = NOW, .expires_at = LATER};
}

static int64_t claim(struct store *s, const char *key)
{
    struct store_idempotency_request request = request_of("default", key, "sha256:1");
    struct store_idempotency got;
    struct error err = ERROR_INIT;
    bool fresh = false;
    int64_t row;

    assert_ok(store_idempotency_claim(s, &request, &got, &fresh, &err), err);
    assert_true(fresh);
    row = got.row;
    store_idempotency_done(&got);
    return row;
}

static struct store_idempotency get(struct store *s, const char *key)
{
    struct store_idempotency_request request = request_of("default", key, NULL);
    struct store_idempotency got;
    struct error err = ERROR_INIT;

    assert_ok(store_idempotency_get(s, &request, &got, &err), err);
    return got;
}

static void test_claimed_once(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_idempotency_request request = request_of("default", "k", "sha256:1");
    struct store_idempotency got;
    bool fresh;
    int64_t row = claim(f->store, "k");

    request.digest = "sha256:2";
    assert_ok(store_idempotency_claim(f->store, &request, &got, &fresh, &err), err);
    assert_false(fresh);
    assert_int_equal(got.row, row);
    assert_string_equal(got.digest, "sha256:1");
    assert_int_equal(got.resource.kind, STORE_RESOURCE_NONE);
    assert_false(got.answered);
    store_idempotency_done(&got);
    request.tenant = "other";
    assert_ok(store_idempotency_claim(f->store, &request, &got, &fresh, &err), err);
    assert_true(fresh);
    assert_int_not_equal(got.row, row);
    store_idempotency_done(&got);
    fixture_reopen(f);
    got = get(f->store, "k");
    assert_int_equal(got.row, row);
    store_idempotency_done(&got);
    assert_ok(store_idempotency_release(f->store, row, &err), err);
    request = request_of("default", "k", NULL);
    assert_code(store_idempotency_get(f->store, &request, &got, &err), err, ERROR_NOT_FOUND);
    assert_int_not_equal(claim(f->store, "k"), row);
}

static void check_resource(struct store *s, const char *key, enum store_resource_kind kind,
                           const char *id, int64_t number)
{
    struct store_idempotency got = get(s, key);

    assert_int_equal(got.resource.kind, kind);
    assert_string_equal(got.resource.id, id);
    assert_int_equal(got.resource.number, number);
    store_idempotency_done(&got);
}

static void test_bound_with_the_insert(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("e-1");
    struct store_execution taken = execution_row("e-1");
    struct store_command c;
    struct store_checkpoint cp = checkpoint_row("cp-1");

    e.claim = claim(f->store, "e");
    assert_ok(store_execution_insert(f->store, &e, &err), err);
    check_resource(f->store, "e", STORE_RESOURCE_EXECUTION, "e-1", 1);
    taken.claim = claim(f->store, "taken");
    assert_code(store_execution_insert(f->store, &taken, &err), err, ERROR_ALREADY_EXISTS);
    check_resource(f->store, "taken", STORE_RESOURCE_NONE, "", 0);
    c = command_row(e.row, "c-1");
    c.claim = claim(f->store, "c");
    error_clear(&err);
    assert_ok(store_command_insert(f->store, &c, &err), err);
    check_resource(f->store, "c", STORE_RESOURCE_COMMAND, "c-1", e.row);
    cp.claim = claim(f->store, "cp");
    assert_ok(store_checkpoint_insert(f->store, &cp, &err), err);
    check_resource(f->store, "cp", STORE_RESOURCE_CHECKPOINT, "cp-1", 0);
}

static void test_released_key_binds_nothing(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("e-1");

    e.claim = claim(f->store, "k");
    assert_ok(store_idempotency_release(f->store, e.claim, &err), err);
    claim(f->store, "k");
    assert_ok(store_execution_insert(f->store, &e, &err), err);
    check_resource(f->store, "k", STORE_RESOURCE_NONE, "", 0);
}

static void check_answer(struct store *s, const struct store_answer *answer)
{
    struct store_idempotency got;
    struct error err = ERROR_INIT;
    char key[32];
    int64_t row;

    snprintf(key, sizeof(key), "k-%zu", answer->body_len);
    row = claim(s, key);
    assert_ok(store_idempotency_answer(s, row, answer, LATER, &err), err);
    got = get(s, key);
    assert_true(got.answered);
    assert_int_equal(got.answer.status, answer->status);
    assert_text(got.answer.type, answer->type);
    assert_text(got.answer.headers, answer->headers);
    assert_int_equal(got.answer.body_len, answer->body_len);
    if (answer->body_len > 0) {
        assert_memory_equal(got.answer.body, answer->body, answer->body_len);
    }
    store_idempotency_done(&got);
}

static void test_answers_byte_for_byte(void **state)
{
    static char noise[300000];
    static char text[300001];
    struct fixture *f = *state;
    struct store_answer answer = {
        .status = 201, .type = "application/json", .headers = "Location: /v1/x\nETag: \"a\"\n"};
    struct store_answer empty = {.status = 204};
    uint32_t seed = 1;

    for (size_t i = 0; i < sizeof(noise); i++) {
        seed = seed * 1664525 + 1013904223;
        noise[i] = (char)(seed >> 24);
    }
    memset(text, 'x', sizeof(text));
    check_answer(f->store, &empty);
    for (size_t len = 1; len <= sizeof(noise); len = len * 7 + 3) {
        answer.body = noise;
        answer.body_len = len;
        check_answer(f->store, &answer);
    }
    answer.body = text;
    answer.body_len = sizeof(text);
    check_answer(f->store, &answer);
}

static void test_expired(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct store_idempotency_request request = request_of("default", "k", "sha256:2");
    struct store_idempotency got;
    struct store_answer answer = {.status = 204};
    int64_t row = claim(f->store, "k");
    bool fresh;
    int removed;

    assert_ok(store_idempotency_answer(f->store, row, &answer, LATER + 10, &err), err);
    request.now = LATER + 9;
    assert_ok(store_idempotency_get(f->store, &request, &got, &err), err);
    store_idempotency_done(&got);
    request.now = LATER + 10;
    request.expires_at = LATER + 20;
    assert_code(store_idempotency_get(f->store, &request, &got, &err), err, ERROR_NOT_FOUND);
    error_clear(&err);
    assert_ok(store_idempotency_claim(f->store, &request, &got, &fresh, &err), err);
    assert_true(fresh);
    assert_int_not_equal(got.row, row);
    assert_false(got.answered);
    store_idempotency_done(&got);
    assert_ok(store_idempotency_sweep(f->store, LATER + 19, &removed, &err), err);
    assert_int_equal(removed, 0);
    assert_ok(store_idempotency_sweep(f->store, LATER + 20, &removed, &err), err);
    assert_int_equal(removed, 1);
}

static void test_sweep_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    int removed;

    for (int i = 0; i < STORE_IDEMPOTENCY_SWEEP + 7; i++) {
        char key[32];

        snprintf(key, sizeof(key), "k-%d", i);
        claim(f->store, key);
    }
    assert_ok(store_idempotency_sweep(f->store, LATER, &removed, &err), err);
    assert_int_equal(removed, STORE_IDEMPOTENCY_SWEEP);
    assert_ok(store_idempotency_sweep(f->store, LATER, &removed, &err), err);
    assert_int_equal(removed, 7);
}

/* --- many at once, and a kill --- */

enum { CLAIMERS = 8 };

struct claimer {
    struct store *store;
    int fresh;
};

static void *claim_all(void *arg)
{
    struct claimer *c = arg;

    for (int i = 0; i < 40; i++) {
        char key[32];
        struct store_idempotency_request request;
        struct store_idempotency got;
        struct error err = ERROR_INIT;
        bool fresh = false;

        snprintf(key, sizeof(key), "k-%d", i);
        request = request_of("default", key, "sha256:1");
        assert_ok(store_idempotency_claim(c->store, &request, &got, &fresh, &err), err);
        store_idempotency_done(&got);
        c->fresh += fresh;
    }
    return NULL;
}

static void test_one_of_many_claims(void **state)
{
    struct fixture *f = *state;
    struct claimer claimers[CLAIMERS];
    pthread_t threads[CLAIMERS];
    int fresh = 0;

    for (int i = 0; i < CLAIMERS; i++) {
        claimers[i] = (struct claimer){f->store, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, claim_all, &claimers[i]), 0);
    }
    for (int i = 0; i < CLAIMERS; i++) {
        pthread_join(threads[i], NULL);
        fresh += claimers[i].fresh;
    }
    assert_int_equal(fresh, 40);
}

/* In a process of its own: claims and makes an execution. */
static int make_under_key(const char *directory)
{
    struct store *s = NULL;
    struct error err = ERROR_INIT;
    struct store_execution e = execution_row("e-1");

    if (store_open(directory, &s, &err) != 0) {
        return 2;
    }
    e.claim = claim(s, "k");
    if (store_execution_insert(s, &e, &err) != 0) {
        return 3;
    }
    store_close(s);
    return 0;
}

/* The key has its resource exactly when the resource's row is there. */
static void test_bound_or_not_made_after_a_kill(void **state)
{
    static const char *const POINTS[] = {"begin", "step", "commit", "committed"};
    struct fixture *f = *state;

    for (int nth = 1; nth <= 4; nth++) {
        for (size_t i = 0; i < ARRAY_SIZE(POINTS); i++) {
            char directory[128];
            char fault[64];
            struct store *s = NULL;
            struct store_idempotency got;
            struct store_execution e = {0};
            struct error err = ERROR_INIT;
            bool made;
            int status;

            if (nth > 1 && strcmp(POINTS[i], "step") != 0) {
                continue;
            }
            snprintf(directory, sizeof(directory), "%s/%s-%d", f->directory, POINTS[i], nth);
            snprintf(fault, sizeof(fault), "store.execution.insert.%s:%d:kill", POINTS[i], nth);
            status = run_with_fault(fault, "make", directory, "");
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            assert_ok(store_open(directory, &s, &err), err);
            got = get(s, "k");
            made = store_execution_get(s, "default", "e-1", 0, &e, &err) == 0;
            assert_int_equal(made, strcmp(POINTS[i], "committed") == 0);
            assert_int_equal(got.resource.kind,
                             made ? STORE_RESOURCE_EXECUTION : STORE_RESOURCE_NONE);
            store_idempotency_done(&got);
            store_execution_done(&e);
            store_close(s);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_claimed_once, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bound_with_the_insert, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_released_key_binds_nothing, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_answers_byte_for_byte, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_expired, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_sweep_is_bounded, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_one_of_many_claims, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bound_or_not_made_after_a_kill, fixture_setup,
                                        fixture_teardown),
    };

    if (argc == 4) {
        return make_under_key(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
