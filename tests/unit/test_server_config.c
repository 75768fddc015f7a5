#include "server/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TOKEN(tenant, scopes)                                                                      \
    "{\"sha256\":\"" DIGEST "\",\"tenant\":\"" tenant "\",\"scopes\":" scopes "}"

static void expect_fault(const char *text, const char *field)
{
    struct config c;
    struct error err = ERROR_INIT;

    if (config_parse(text, strlen(text), &c, &err) != -1) {
        fail_msg("taken: %s", text);
    }
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_string_equal(err.field, field);
    assert_string_not_equal(err.detail, "");
}

static struct config parse(const char *text)
{
    struct config c;
    struct error err = ERROR_INIT;

    if (config_parse(text, strlen(text), &c, &err) != 0) {
        fail_msg("%s: %s", text, err.detail);
    }
    return c;
}

static void test_defaults(void **state)
{
    struct config c = parse("{}");

    (void)state;
#define X(member, key, def, min, max, what)                                                        \
    assert_int_equal(c.member, def);                                                               \
    assert_true((def) >= (min) && (def) <= (max));
    CONFIG_NUMBERS(X)
#undef X
    assert_string_equal(c.listen, "127.0.0.1:8470");
    assert_int_equal(c.data_dir[0], '/');
    assert_string_equal(strrchr(c.data_dir, '/'), "/data");
    assert_memory_equal(c.checkpoint_dir, c.data_dir, strlen(c.data_dir));
    assert_string_equal(c.checkpoint_dir + strlen(c.data_dir), "/checkpoints");
    assert_string_equal(c.docker_socket, "/var/run/docker.sock");
    assert_true(c.docker_pull);
    assert_true(c.compress_checkpoints);
    assert_false(c.allow_unpinned_images);
    assert_false(c.require_fencing);
    assert_non_null(c.cors_origins);
    assert_null(c.cors_origins[0]);
    assert_null(config_git_roots_of(&c, "default"));
    assert_int_equal(c.log_level, LOG_LEVEL_INFO);
    config_done(&c);
}

static void test_everything_set(void **state)
{
    struct config c =
        parse("{\"listen\":\"unix:/run/x\",\"dataDirectory\":\"/d\",\"checkpointDirectory\":\"/c\","
              "\"docker\":{\"socket\":\"/s\",\"pull\":\"never\"},"
              "\"native\":{\"images\":\"/i\",\"fetch\":\"never\",\"firstId\":70000,\"idCount\":9},"
              "\"retention\":{\"checkpointMaxAgeMs\":1000,\"recordMaxBytes\":0,"
              "\"sweepIntervalMs\":100},\"maxImportBytes\":17592186044416,"
              "\"defaultHost\":\"docker\",\"allowUnpinnedImages\":true,"
              "\"requireFencing\":true,\"checkpointCompression\":\"none\",\"user\":\"1000:2000\","
              "\"corsOrigins\":[\"https://a.example:8443\",\"http://b\"],\"logLevel\":\"warn\","
              "\"gitRoots\":{\"default\":[\"/srv/a\",\"/srv/b\"],\"t\":[]},\"graceMs\":100}");

    (void)state;
    assert_string_equal(c.listen, "unix:/run/x");
    assert_string_equal(c.data_dir, "/d");
    assert_string_equal(c.checkpoint_dir, "/c");
    assert_string_equal(c.docker_socket, "/s");
    assert_false(c.docker_pull);
    assert_string_equal(c.native_images, "/i");
    assert_false(c.native_fetch);
    assert_int_equal(c.native_first_id, 70000);
    assert_int_equal(c.native_id_count, 9);
    assert_int_equal(c.checkpoint_age_max, 1000);
    assert_int_equal(c.record_bytes_max, 0);
    assert_int_equal(c.sweep_interval_ms, 100);
    assert_int_equal(c.record_age_max, 30LL * 24 * 3600 * 1000);
    assert_int_equal(c.import_max, 1LL << 44);
    assert_string_equal(c.default_host, "docker");
    assert_true(c.allow_unpinned_images);
    assert_true(c.require_fencing);
    assert_false(c.compress_checkpoints);
    assert_int_equal(c.uid, 1000);
    assert_int_equal(c.gid, 2000);
    assert_string_equal(c.cors_origins[1], "http://b");
    assert_null(c.cors_origins[2]);
    assert_string_equal(config_git_roots_of(&c, "default")[1], "/srv/b");
    assert_null(config_git_roots_of(&c, "default")[2]);
    assert_null(config_git_roots_of(&c, "t")[0]);
    assert_null(config_git_roots_of(&c, "other"));
    assert_int_equal(c.log_level, LOG_LEVEL_WARN);
    assert_int_equal(c.grace_ms, 100);
    config_done(&c);
}

static void test_tokens(void **state)
{
    struct config c = parse("{\"tokens\":[" TOKEN("acme", "[\"ptc:untimed\",\"read\"]") "]}");

    (void)state;
    assert_int_equal(c.token_count, 1);
    assert_string_equal(c.tokens[0].sha256, DIGEST);
    assert_string_equal(c.tokens[0].tenant, "acme");
    assert_int_equal(c.tokens[0].scopes, SCOPE_READ | SCOPE_PTC_UNTIMED);
    config_done(&c);
}

/* What a token does not name is what "quotas" says, wherever that stands. */
static void test_quotas(void **state)
{
    struct config c = parse("{\"tokens\":[" TOKEN(
        "a", "[\"read\"],\"quotas\":{\"runs\":0,\"cpus\":3}") "],\"quotas\":{\"runs\":2,"
                                                              "\"executions\":5}}");

    (void)state;
    assert_int_equal(c.quotas.runs, 2);
    assert_int_equal(c.tokens[0].quotas.runs, 0);
    assert_int_equal(c.tokens[0].quotas.cpus, 3);
    assert_int_equal(c.tokens[0].quotas.executions, 5);
    assert_int_equal(c.tokens[0].quotas.commands, 0);
    config_done(&c);
}

static void test_shared_store(void **state)
{
    struct config c = parse("{}");

    (void)state;
    assert_null(c.shared_endpoint);
    assert_true(c.shared_path_style);
    assert_int_equal(c.shared_parallel, 4);
    config_done(&c);
    c = parse(
        "{\"sharedStore\":{\"endpoint\":\"http://h:1\",\"bucket\":\"bucket\",\"prefix\":\"a/b.c\","
        "\"pathStyle\":false,\"credentialsFile\":\"/c\",\"caFile\":\"/ca\",\"maxAttempts\":2}}");
    assert_string_equal(c.shared_endpoint, "http://h:1");
    assert_string_equal(c.shared_region, "us-east-1");
    assert_string_equal(c.shared_prefix, "a/b.c");
    assert_false(c.shared_path_style);
    assert_string_equal(c.shared_credentials, "/c");
    assert_int_equal(c.shared_attempts, 2);
    config_done(&c);
}

static void test_shared_store_faults(void **state)
{
    static const struct {
        const char *text;
        const char *field;
    } rows[] = {
        {"{\"sharedStore\":{\"bucket\":\"bucket\"}}", "sharedStore"},
        {"{\"sharedStore\":{\"endpoint\":\"http://h\"}}", "sharedStore"},
        {"{\"sharedStore\":{\"secretKey\":\"s\"}}", "sharedStore.secretKey"},
        {"{\"sharedStore\":{\"partBytes\":5242879}}", "sharedStore.partBytes"},
        {"{\"sharedStore\":{\"region\":\"a:b\"}}", "sharedStore.region"},
        {"{\"sharedStore\":{\"endpoint\":\"http://h\",\"bucket\":\"B/\"}}", "sharedStore.bucket"},
        {"{\"sharedStore\":{\"prefix\":\"/a\"}}", "sharedStore.prefix"},
        {"{\"sharedStore\":{\"prefix\":\"a/\"}}", "sharedStore.prefix"},
        {"{\"sharedStore\":{\"prefix\":\"a/../b\"}}", "sharedStore.prefix"},
        {"{\"sharedStore\":{\"prefix\":\"a//b\"}}", "sharedStore.prefix"},
        {"{\"sharedStore\":{\"prefix\":\"a b\"}}", "sharedStore.prefix"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        expect_fault(rows[i].text, rows[i].field);
    }
}

static const struct {
    const char *text;
    const char *field;
} FAULTS[] = {
    {"{\"nonsense\":1}", "nonsense"},
    {"{\"docker\":{\"nonsense\":1}}", "docker.nonsense"},
    {"{\"docker\":1}", "docker"},
    {"{\"socket\":\"/s\"}", "socket"},
    {"{\"docker\":{\"socket\":\"s\"}}", "docker.socket"},
    {"{\"uid\":5}", "uid"},
    {"{\"gid\":5}", "gid"},
    {"{\"user\":\"0:1\"}", "user"},
    {"{\"user\":\"1:0\"}", "user"},
    {"{\"user\":\"1\"}", "user"},
    {"{\"user\":\"nobody:nogroup\"}", "user"},
    {"{\"user\":\"1:1:1\"}", "user"},
    {"{\"user\":\"-1:1\"}", "user"},
    {"{\"user\":\"2147483647:1\"}", "user"},
    {"{\"user\":\"99999999999999999999:1\"}", "user"},
    {"{\"user\":1000}", "user"},
    {"{\"listen\":\"\"}", "listen"},
    {"{\"listen\":8470}", "listen"},
    {"{\"listen\":null}", "listen"},
    {"{\"graceMs\":99}", "graceMs"},
    {"{\"graceMs\":60001}", "graceMs"},
    {"{\"graceMs\":1.5e3}", "graceMs"},
    {"{\"graceMs\":\"3000\"}", "graceMs"},
    {"{\"requireFencing\":\"true\"}", "requireFencing"},
    {"{\"checkpointCompression\":\"gzip\"}", "checkpointCompression"},
    {"{\"docker\":{\"pull\":\"always\"}}", "docker.pull"},
    {"{\"native\":{\"fetch\":\"always\"}}", "native.fetch"},
    {"{\"retention\":[]}", "retention"},
    {"{\"retention\":{\"recordMaxAge\":1}}", "retention.recordMaxAge"},
    {"{\"retention\":{\"recordMaxAgeMs\":999}}", "retention.recordMaxAgeMs"},
    {"{\"retention\":{\"transcriptMaxBytes\":-1}}", "retention.transcriptMaxBytes"},
    {"{\"maxImportBytes\":1048575}", "maxImportBytes"},
    {"{\"native\":{\"firstId\":0}}", "native.firstId"},
    {"{\"native\":{\"firstId\":4294901759,\"idCount\":65537}}", "native.idCount"},
    {"{\"defaultHost\":\"moon\"}", "defaultHost"},
    {"{\"logLevel\":\"loud\"}", "logLevel"},
    {"{\"corsOrigins\":\"*\"}", "corsOrigins"},
    {"{\"corsOrigins\":[\"*\"]}", "corsOrigins"},
    {"{\"corsOrigins\":[\"https://a/\"]}", "corsOrigins"},
    {"{\"corsOrigins\":[1]}", "corsOrigins"},
    {"{\"gitRoots\":[]}", "gitRoots"},
    {"{\"gitRoots\":{\"default\":\"/srv\"}}", "gitRoots"},
    {"{\"gitRoots\":{\"default\":[\"srv\"]}}", "gitRoots"},
    {"{\"gitRoots\":{\"\":[\"/srv\"]}}", "gitRoots"},
    {"{\"tokens\":[]}", "tokens"},
    {"{\"tokens\":{}}", "tokens"},
    {"{\"tokens\":null}", "tokens"},
    {"{\"tokens\":[1]}", "tokens[0]"},
    {"{\"tokens\":[{}]}", "tokens[0].sha256"},
    {"{\"tokens\":[" TOKEN("t", "[\"read\"]") ",{\"sha256\":\"AB\"}]}", "tokens[1].sha256"},
    {"{\"tokens\":[" TOKEN("t", "[\"read\"]") "," TOKEN("u", "[\"read\"]") "]}",
     "tokens[1].sha256"},
    {"{\"tokens\":[" TOKEN("", "[\"read\"]") "]}", "tokens[0].tenant"},
    {"{\"tokens\":[" TOKEN("a/b", "[\"read\"]") "]}", "tokens[0].tenant"},
    {"{\"tokens\":[" TOKEN("t", "[]") "]}", "tokens[0].scopes"},
    {"{\"tokens\":[" TOKEN("t", "\"read\"") "]}", "tokens[0].scopes"},
    {"{\"tokens\":[" TOKEN("t", "[\"fly\"]") "]}", "tokens[0].scopes"},
    {"{\"tokens\":[" TOKEN("t", "[1]") "]}", "tokens[0].scopes"},
    {"{\"tokens\":[" TOKEN("t", "[\"read\",\"read\"]") "]}", "tokens[0].scopes"},
    {"{\"tokens\":[" TOKEN("t", "[\"read\"],\"colour\":1") "]}", "tokens[0].colour"},
    {"{\"tokens\":[" TOKEN("t", "[\"read\"],\"quotas\":1") "]}", "tokens[0].quotas"},
    {"{\"tokens\":[" TOKEN("t", "[\"read\"],\"quotas\":{\"gold\":1}") "]}",
     "tokens[0].quotas.gold"},
    {"{\"tokens\":[" TOKEN("t", "[\"read\"],\"quotas\":{\"cpus\":-1}") "]}",
     "tokens[0].quotas.cpus"},
    {"{\"tokens\":[" TOKEN("t", "[\"read\"],\"quotas\":{\"cpus\":1.5}") "]}",
     "tokens[0].quotas.cpus"},
    {"{\"tls\":{\"key\":\"k\"}}", "tls.certificate"},
    {"{\"tls\":{\"certificate\":\"c\"}}", "tls.key"},
    {"{\"socketMode\":\"0880\"}", "socketMode"},
    {"{\"socketMode\":\"1777\"}", "socketMode"},
    {"{\"socketMode\":\"44\"}", "socketMode"},
    {"{\"socketMode\":\"0444\"}", "socketMode"},
    {"{\"quotas\":{\"runs\":1048577}}", "quotas.runs"},
    {"{\"capacity\":{\"cpuFactor\":-1}}", "capacity.cpuFactor"},
    {"{\"graceMs\":3000,\"graceMs\":3000}", ""},
    {"[]", ""},
    {"", ""},
    {"{} x", ""},
};

static void test_faults_name_the_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(FAULTS); i++) {
        expect_fault(FAULTS[i].text, FAULTS[i].field);
    }
}

struct range {
    const char *key;
    size_t offset; /* of the int64_t in struct config */
    int64_t min;
    int64_t max;
};

static const struct range RANGES[] = {
#define X(member, key, def, min, max, what) {key, offsetof(struct config, member), min, max},
    CONFIG_NUMBERS(X)
#undef X
};

static void set_to(char text[128], const char *key, int64_t value)
{
    snprintf(text, 128, "{\"%s\":%lld}", key, (long long)value);
}

static void expect_taken(const struct range *r, int64_t value)
{
    char text[128];
    struct config c;
    int64_t taken;

    set_to(text, r->key, value);
    c = parse(text);
    memcpy(&taken, (const char *)&c + r->offset, sizeof(taken));
    assert_int_equal(taken, value);
    config_done(&c);
}

static void expect_refused(const struct range *r, int64_t value)
{
    char text[128];

    set_to(text, r->key, value);
    expect_fault(text, r->key);
}

static void test_range_ends_are_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(RANGES); i++) {
        const struct range *r = &RANGES[i];

        if (strcmp(r->key, "uid") == 0 || strcmp(r->key, "gid") == 0) {
            continue;
        }
        expect_taken(r, r->min);
        expect_taken(r, r->max);
        expect_refused(r, r->min - 1);
        expect_refused(r, r->max + 1);
    }
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fputs(text, f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
}

static void test_precedence(void **state)
{
    char path[] = "/tmp/exechost-config-XXXXXX";
    int fd = mkstemp(path);
    struct config_flags flags = {0};
    struct error err = ERROR_INIT;
    struct config c;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(
        path,
        "{\"listen\":\"127.0.0.1:1\",\"dataDirectory\":\"/file\",\"graceMs\":111,\"drainMs\":222}");
    setenv("EXECHOST_CONFIG", path, 1);
    setenv("EXECHOST_LISTEN", "127.0.0.1:2", 1);
    setenv("EXECHOST_DATA", "/environment", 1);
    setenv("EXECHOST_GRACE_MS", "333", 1);
    setenv("EXECHOST_DOCKER_SOCKET", "/engine", 1);
    setenv("EXECHOST_DOCKER_PULL", "never", 1);
    setenv("EXECHOST_REQUIRE_FENCING", "true", 1);
    setenv("EXECHOST_USER", "5:6", 1);
    assert_int_equal(config_load(&flags, &c, &err), 0);
    assert_string_equal(c.listen, "127.0.0.1:2");
    assert_string_equal(c.data_dir, "/environment");
    assert_int_equal(c.grace_ms, 333);
    assert_int_equal(c.drain_ms, 222);
    assert_string_equal(c.docker_socket, "/engine");
    assert_false(c.docker_pull);
    assert_true(c.require_fencing);
    assert_int_equal(c.uid, 5);
    assert_int_equal(c.gid, 6);
    config_done(&c);
    flags = (struct config_flags){.listen = "127.0.0.1:3", .data = "/flag"};
    assert_int_equal(config_load(&flags, &c, &err), 0);
    assert_string_equal(c.listen, "127.0.0.1:3");
    assert_string_equal(c.data_dir, "/flag");
    assert_string_equal(c.checkpoint_dir, "/flag/checkpoints");
    config_done(&c);
    setenv("EXECHOST_GRACE_MS", "3 s", 1);
    assert_int_equal(config_load(&flags, &c, &err), -1);
    assert_string_equal(err.field, "graceMs");
    clearenv();
    assert_int_equal(unlink(path), 0);
}

static void test_file_faults(void **state)
{
    char path[] = "/tmp/exechost-config-XXXXXX";
    int fd = mkstemp(path);
    struct config_flags flags = {.file = path};
    struct error err = ERROR_INIT;
    struct config c;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "{\"graceSeconds\":3}");
    assert_int_equal(config_load(&flags, &c, &err), -1);
    assert_string_equal(err.field, "graceSeconds");
    assert_non_null(strstr(err.detail, path));
    assert_non_null(strstr(err.detail, "graceSeconds"));
    assert_int_equal(unlink(path), 0);
    err = (struct error)ERROR_INIT;
    assert_int_equal(config_load(&flags, &c, &err), -1);
    assert_non_null(strstr(err.detail, path));
}

static void test_relative_directories(void **state)
{
    struct config_flags flags = {.data = "./a/b"};
    struct error err = ERROR_INIT;
    char directory[] = "/tmp/exechost-config-XXXXXX";
    char expected[64];
    struct config c;

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(config_load(&flags, &c, &err), 0);
    snprintf(expected, sizeof(expected), "%s/a/b", directory);
    assert_string_equal(c.data_dir, expected);
    config_done(&c);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(config_load(&flags, &c, &err), 0);
    assert_string_equal(c.data_dir, "/a/b");
    config_done(&c);
    assert_int_equal(rmdir(directory), 0);
}

static void test_description_has_every_key(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    config_describe(out);
    assert_int_equal(fclose(out), 0);
#define X(member, key, def, min, max, what)                                                        \
    if (strcmp(key, "uid") != 0 && strcmp(key, "gid") != 0) {                                      \
        assert_non_null(strstr(text, "  " key " "));                                               \
    }
    CONFIG_NUMBERS(X)
#undef X
    assert_non_null(strstr(text, "docker.pull"));
    assert_non_null(strstr(text, "65532:65532"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_everything_set),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_quotas),
        cmocka_unit_test(test_shared_store),
        cmocka_unit_test(test_shared_store_faults),
        cmocka_unit_test(test_faults_name_the_key),
        cmocka_unit_test(test_range_ends_are_taken),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_file_faults),
        cmocka_unit_test(test_relative_directories),
        cmocka_unit_test(test_description_has_every_key),
    };

    clearenv();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
