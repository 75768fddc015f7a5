/* What a container looks like, and that the engine's account of it is held against it. */
#include "host/docker/container.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEX64B "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char variable[] = "CI=1";
static char *environment[] = {variable, NULL};
static const struct host_limits LIMITS = {.nano_cpus = 333000000,
                                          .memory_bytes = 64 << 20,
                                          .disk_bytes = 10 << 20,
                                          .pids = 32,
                                          .runtime_ms = 1000,
                                          .max_output_bytes = 1000};

static struct container_spec spec_of(void)
{
    return (struct container_spec){
        .instance = "i1",
        .id = {.tenant = "default", .execution_id = "exe-1", .incarnation = 2},
        .image = "sha256:" HEX64,
        .search_path = "/bin",
        .limits = &LIMITS,
        .environment = environment,
        .set_home = true,
        .owner_id = "worker-a",
        .fencing_token = 12,
        .uid = 65532,
        .gid = 65532,
        .shm_bytes_max = 16 << 20,
        .sleep_s = 3,
        .deadline_wall_ms = 1700000000000,
    };
}

static json_t *body_of(void)
{
    struct container_spec spec = spec_of();
    struct error err = ERROR_INIT;
    json_t *body = container_body(&spec, &err);

    assert_non_null(body);
    return body;
}

/* What a good engine would say of it. */
static json_t *inspection_of(const json_t *body)
{
    json_t *config = json_deep_copy(body);
    json_t *host = json_deep_copy(json_object_get(body, "HostConfig"));
    json_t *env = json_object_get(config, "Env");

    json_object_del(config, "HostConfig");
    json_object_set_new(config, "Cmd", json_null());
    json_array_append_new(env, json_string("PATH=/bin"));
    json_object_set_new(json_object_get(config, "Labels"), "of.the.image", json_string("x"));
    json_object_set_new(host, "Binds", json_null());
    json_object_set_new(host, "Privileged", json_false());
    json_object_set_new(host, "MaskedPaths", json_pack("[s]", "/proc/kcore"));
    json_object_set_new(host, "ReadonlyPaths", json_pack("[s]", "/proc/sys"));
    return json_pack(
        "{s:s,s:{s:b,s:b},s:o,s:o,s:[{s:s,s:s,s:s,s:s,s:b},{s:s,s:s,s:s,s:s,s:b}],s:{s:{s:{}}}}",
        "Id", HEX64, "State", "Running", 1, "Paused", 0, "Config", config, "HostConfig", host,
        "Mounts", "Type", "volume", "Name", HEX64, "Destination", "/workspace", "Driver", "local",
        "RW", 1, "Type", "volume", "Name", HEX64B, "Destination", "/.exechost", "Driver", "local",
        "RW", 1, "NetworkSettings", "Networks", "none");
}

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void test_names_are_unique(void **state)
{
    static const struct {
        struct host_identity id;
        const char *name;
    } rows[] = {
        {{"default", "x-1", 2}, "exechost-i-default-x-1-2"},
        {{"a", "b-c", 1}, "exechost-i-a-b-c-1"},
        {{"a-b", "c", 1}, "exechost-i-.3.a-b-c-1"},
        {{"3.a", "b-c", 1}, "exechost-i-3.a-b-c-1"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char *name = container_name("i", &rows[i].id);

        assert_string_equal(name, rows[i].name);
        free(name);
    }
}

static void test_body(void **state)
{
    json_t *body = body_of();
    const json_t *host = json_object_get(body, "HostConfig");
    const json_t *labels = json_object_get(body, "Labels");
    const json_t *volume =
        json_object_get(json_array_get(json_object_get(host, "Mounts"), 0), "VolumeOptions");

    (void)state;
    assert_string_equal(text_at(body, "User"), "65533:65532");
    assert_string_equal(text_at(labels, "exechost.incarnation"), "2");
    assert_string_equal(text_at(labels, "exechost.owner"), "worker-a");
    assert_string_equal(text_at(labels, "exechost.fencing-token"), "12");
    assert_string_equal(text_at(labels, "exechost.deadline"), "1700000000000");
    assert_string_equal(text_at(json_object_get(host, "Tmpfs"), "/tmp"),
                        "rw,nosuid,nodev,noexec,mode=1777,size=16777216,nr_inodes=4096");
    assert_string_equal(
        text_at(json_object_get(json_object_get(volume, "DriverConfig"), "Options"), "o"),
        "size=10485760,nr_inodes=2560,uid=65532,gid=65532,mode=0700,nosuid,nodev");
    assert_int_equal(json_integer_value(json_object_get(host, "MemorySwap")), 64 << 20);
    assert_int_equal(json_array_size(json_object_get(body, "Env")), 2);
    json_decref(body);
}

static void test_verify_accepts(void **state)
{
    json_t *body = body_of();
    json_t *inspection = inspection_of(body);
    struct container_handle handle;
    struct error err = ERROR_INIT;

    (void)state;
    if (container_verify(body, inspection, &handle, &err) < 0) {
        fail_msg("%s", err.detail);
    }
    assert_string_equal(handle.id, HEX64);
    assert_string_equal(handle.volumes[0], HEX64);
    assert_string_equal(handle.volumes[1], HEX64B);
    json_decref(inspection);
    json_decref(body);
}

/* One value of the inspection set to something else. */
struct tampering {
    const char *part; /* "Config", "HostConfig", "State", "" */
    const char *key;
    const char *value; /* JSON; NULL: removed */
    enum error_code code;
};

static void test_verify_refuses(void **state)
{
    static const struct tampering CASES[] = {
        {"HostConfig", "Init", "false", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "AutoRemove", "false", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "NanoCpus", "1", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "Memory", "1", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "MemorySwap", "-1", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "PidsLimit", NULL, ERROR_RESOURCE_LIMIT},
        {"HostConfig", "ShmSize", "67108864", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "ReadonlyRootfs", "false", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "CapDrop", "[]", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "CapAdd", "[\"SYS_ADMIN\"]", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "SecurityOpt", "[\"no-new-privileges\",\"seccomp=unconfined\"]",
         ERROR_RESOURCE_LIMIT},
        {"HostConfig", "NetworkMode", "\"bridge\"", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "Tmpfs", "{\"/tmp\":\"rw\"}", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "Mounts", "[]", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "Binds", "[\"/:/host\"]", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "Devices", "[{\"PathOnHost\":\"/dev/sda\"}]", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "Privileged", "true", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "PidMode", "\"host\"", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "MaskedPaths", "[]", ERROR_RESOURCE_LIMIT},
        {"HostConfig", "OomKillDisable", "true", ERROR_RESOURCE_LIMIT},
        {"Config", "User", "\"0:0\"", ERROR_RESOURCE_LIMIT},
        {"Config", "WorkingDir", "\"/\"", ERROR_RESOURCE_LIMIT},
        {"Config", "Entrypoint", "[\"/bin/sh\"]", ERROR_RESOURCE_LIMIT},
        {"Config", "Cmd", "[\"x\"]", ERROR_RESOURCE_LIMIT},
        {"Config", "Healthcheck", "{\"Test\":[\"CMD\",\"x\"]}", ERROR_RESOURCE_LIMIT},
        {"Config", "Labels", "{}", ERROR_RESOURCE_LIMIT},
        {"Config", "Env", "[\"CI=2\",\"HOME=/workspace\"]", ERROR_RESOURCE_LIMIT},
        {"Config", "Image", "\"other\"", ERROR_RESOURCE_LIMIT},
        {"Config", "Volumes", "{\"/data\":{}}", ERROR_RESOURCE_LIMIT},
        {"State", "Running", "false", ERROR_RUNTIME},
        {"NetworkSettings", "Networks", "{\"bridge\":{}}", ERROR_RESOURCE_LIMIT},
        {"", "Mounts", "[]", ERROR_RESOURCE_LIMIT},
        {"", "Mounts", "[{\"Type\":\"bind\"}]", ERROR_RESOURCE_LIMIT},
    };
    json_t *body = body_of();

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        const struct tampering *c = &CASES[i];
        json_t *inspection = inspection_of(body);
        json_t *part = c->part[0] != '\0' ? json_object_get(inspection, c->part) : inspection;
        struct container_handle handle;
        struct error err = ERROR_INIT;

        if (c->value == NULL) {
            json_object_del(part, c->key);
        } else {
            json_object_set_new(part, c->key, json_loads(c->value, JSON_DECODE_ANY, NULL));
        }
        if (container_verify(body, inspection, &handle, &err) != -1 || err.code != c->code) {
            fail_msg("%s.%s = %s: %s", c->part, c->key, c->value, err.detail);
        }
        json_decref(inspection);
    }
    json_decref(body);
}

static void test_third_mount(void **state)
{
    json_t *body = body_of();
    json_t *inspection = inspection_of(body);
    struct container_handle handle;
    struct error err = ERROR_INIT;

    (void)state;
    json_array_append_new(json_object_get(inspection, "Mounts"),
                          json_pack("{s:s,s:s,s:s,s:s,s:b}", "Type", "volume", "Name", HEX64B,
                                    "Destination", "/data", "Driver", "local", "RW", 1));
    assert_int_equal(container_verify(body, inspection, &handle, &err), -1);
    assert_int_equal(err.code, ERROR_RESOURCE_LIMIT);
    json_decref(inspection);
    json_decref(body);
}

static void test_search_path(void **state)
{
    static const char *const CASES[][2] = {
        {NULL, ""},
        {"/bin:/opt/x/bin", "/bin:/opt/x/bin:"},
        {"/workspace/bin:/bin", "/bin:"},
        {"/workspace:.:bin::/tmp/x:/dev/shm:/proc/1/root/x", ""},
        {"/bin/../workspace:/bin//x:/x/./workspace:/workspaces", "/workspaces:"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        char *path = container_search_path(CASES[i][0]);
        size_t len = strlen(CASES[i][1]);

        assert_memory_equal(path, CASES[i][1], len);
        assert_memory_equal(path + len, "/usr/local/sbin:", 16);
        free(path);
    }
}

static void test_handle(void **state)
{
    static const char *const BAD[] = {"",
                                      "x",
                                      HEX64,
                                      HEX64 " - ",
                                      HEX64 " " HEX64 " ../x",
                                      HEX64 "0 - -",
                                      HEX64 " - - -",
                                      "- " HEX64 " -x"};
    struct container_handle handle;
    char *text;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        assert_int_equal(container_handle_parse(BAD[i], &handle), -1);
    }
    assert_int_equal(container_handle_parse("- " HEX64 " -", &handle), 0);
    text = container_handle_format(&handle);
    assert_string_equal(text, "- " HEX64 " -");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_unique), cmocka_unit_test(test_body),
        cmocka_unit_test(test_verify_accepts),   cmocka_unit_test(test_verify_refuses),
        cmocka_unit_test(test_third_mount),      cmocka_unit_test(test_search_path),
        cmocka_unit_test(test_handle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
