#include "workspace/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char GOOD[] =
    "{\"version\":1,\"checkpointId\":\"cp-1\",\"sourceExecutionId\":\"ex-1\",\"sourceIncarnation\":"
    "2,"
    "\"createdAt\":\"2026-11-29T15:00:00.123Z\",\"image\":\"busybox@sha256:" HEX64 "\","
    "\"imageDigests\":[\"sha256:" HEX64 "\",\"busybox@sha256:" HEX64 "\"],"
    "\"resources\":{\"cpus\":0.1,\"memoryBytes\":67108864,\"diskBytes\":65536,\"pids\":64,"
    "\"runtimeMs\":60000,\"maxOutputBytes\":1024},\"network\":{\"mode\":\"none\"},"
    "\"environment\":{\"B\":\"1\",\"A\":\"\xc3\xa9\"},"
    "\"metadata\":{\"z\":[0.1,null,true,{\"a\":-1}],\"b\":\"\\u0000\\\"\"},"
    "\"contentBytes\":8192,\"entries\":3,\"skipped\":1,\"archive\":{\"digest\":\"sha256:" HEX64
    "\",\"bytes\":700,\"compression\":\"zstd\",\"format\":\"pax\"},\"files\":\"sha256:" HEX64 "\"}";

static int decode(struct workspace_manifest *m, const char *text, struct error *err)
{
    workspace_manifest_init(m);
    return workspace_manifest_decode(m, text, strlen(text), err);
}

static void round_trip(void **state)
{
    (void)state;
    _cleanup_manifest_ struct workspace_manifest m;
    _cleanup_buf_ struct buf out;
    struct error err = ERROR_INIT;
    buf_init(&out, WORKSPACE_MANIFEST_MAX);
    if (decode(&m, GOOD, &err) != 0) {
        fail_msg("%s", err.detail);
    }
    assert_true(m.resources.cpus == 0.1);
    assert_int_equal(m.source_incarnation, 2);
    assert_int_equal(m.facts.compression, WORKSPACE_COMPRESSION_ZSTD);
    assert_int_equal(m.facts.content_bytes, 8192);
    assert_int_equal(workspace_manifest_encode(&m, &out, &err), 0);
    assert_string_equal(buf_str(&out), GOOD);
}

static char *replaced(const char *from, const char *to)
{
    const char *at = strstr(GOOD, from);
    assert_non_null(at);
    char *out = NULL;
    assert_true(asprintf(&out, "%.*s%s%s", (int)(at - GOOD), GOOD, to, at + strlen(from)) > 0);
    return out;
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *detail;
    } rows[] = {
        {"\"version\":1", "\"version\":2", "version"},
        {"\"version\":1", "\"version\":\"1\"", "version"},
        {"\"version\":1,", "", "version: missing"},
        {"\"version\":1", "\"version\":1,\"extra\":0", "extra: unknown key"},
        {"\"version\":1", "\"version\":1,\"version\":1", "not JSON"},
        {"\"cp-1\"", "\"../x\"", "checkpointId"},
        {"\"ex-1\"", "7", "sourceExecutionId"},
        {"\"sourceIncarnation\":2", "\"sourceIncarnation\":0", "sourceIncarnation"},
        {"15:00:00.123Z", "15:00:00Z", "createdAt"},
        {"15:00:00.123Z", "35:00:00.123Z", "createdAt"},
        {"\"image\":\"busybox", "\"image\":[\"busybox\"],\"x\":\"", "x: unknown"},
        {"[\"sha256:0", "[\"sha256:G", "imageDigests"},
        {"\"cpus\":0.1", "\"cpus\":0", "cpus"},
        {"\"cpus\":0.1", "\"cpus\":\"1\"", "cpus"},
        {"\"cpus\":0.1", "\"gpus\":1,\"cpus\":0.1", "gpus: unknown key"},
        {"\"pids\":64", "\"pids\":64.5", "pids"},
        {"\"pids\":64,", "", "pids: missing"},
        {"{\"mode\":\"none\"}", "\"none\"", "network"},
        {"\"B\":\"1\"", "\"B\":1", "environment"},
        {"\"B\":\"1\"", "\"B\":\"\\u0000\"", "environment"},
        {"\"metadata\":{", "\"metadata\":[],\"m\":{", "m: unknown"},
        {"\"entries\":3", "\"entries\":-1", "entries"},
        {"\"digest\":\"sha256:", "\"digest\":\"sha512:", "digest"},
        {"\"zstd\"", "\"gzip\"", "compression"},
        {"\"pax\"", "\"cpio\"", "format"},
        {"\"files\":\"sha256:0", "\"files\":\"sha256:A", "files"},
        {"\"skipped\":1,", "", "skipped: missing"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        _cleanup_free_ char *text = replaced(rows[i].from, rows[i].to);
        struct workspace_manifest m;
        struct error err = ERROR_INIT;
        assert_int_equal(decode(&m, text, &err), -1);
        assert_int_equal(err.code, ERROR_CHECKPOINT_INVALID);
        if (strstr(err.detail, rows[i].detail) == NULL) {
            fail_msg("row %zu: \"%s\" in \"%s\"", i, rows[i].detail, err.detail);
        }
        assert_null(m.image);
        assert_null(m.metadata);
    }
}

static void cut_short(void **state)
{
    (void)state;
    for (size_t n = 0; n < strlen(GOOD); n++) {
        struct workspace_manifest m;
        struct error err = ERROR_INIT;
        workspace_manifest_init(&m);
        assert_int_equal(workspace_manifest_decode(&m, GOOD, n, &err), -1);
        assert_int_equal(err.code, ERROR_CHECKPOINT_INVALID);
    }
}

static void incomplete_is_not_encoded(void **state)
{
    (void)state;
    struct workspace_manifest m;
    _cleanup_buf_ struct buf out;
    struct error err = ERROR_INIT;
    buf_init(&out, 4096);
    assert_int_equal(buf_add_str(&out, "kept"), 0);
    workspace_manifest_init(&m);
    assert_int_equal(workspace_manifest_encode(&m, &out, &err), -1);
    assert_int_equal(err.code, ERROR_INTERNAL);
    assert_string_equal(buf_str(&out), "kept");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(refusals),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(incomplete_is_not_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
