#include "ptc_fixture.h"

#include "base/clock.h"

#include <string.h>

static void test_values(void **state)
{
    (void)state;
    ptc_assert_value("return 1", "1");
    ptc_assert_value("const a: number = 2; return a + 1", "3");
    ptc_assert_value("return {a:[1,null,true,'x'],b:{}}", "{\"a\":[1,null,true,\"x\"],\"b\":{}}");
    ptc_assert_value("", "");
    ptc_assert_value("return undefined", "");
    ptc_assert_value("return '\\ud800'", "\"\\ud800\"");
    ptc_assert_value("return Object.keys(process.env).length", "0");
    ptc_assert_value("const fs = await import('node:fs'); return fs.existsSync('/etc/passwd')",
                     "true");
    ptc_assert_value("const o = JSON.parse('{\"__proto__\":1}'); return o", "{\"__proto__\":1}");
}

static void test_failures(void **state)
{
    (void)state;
    ptc_assert_fails("throw new Error('boom')", "", PTC_EXCEPTION, "boom");
    ptc_assert_fails("\n\nconst a: number = 1;\nthrow new Error('x')", "", PTC_EXCEPTION,
                     "program.ts:4:7");
    ptc_assert_fails("throw new Error('x')", "", PTC_EXCEPTION, "program.ts:1:7");
    ptc_assert_fails("enum A { B }", "", PTC_EXCEPTION, "enum");
    ptc_assert_fails("import fs from 'fs'", "", PTC_EXCEPTION, "");
    ptc_assert_fails("}); (async () => {", "", PTC_EXCEPTION, "");
    ptc_assert_fails("return -0", "", PTC_INVALID_OUTPUT, "-0");
    ptc_assert_fails("return new Date()", "", PTC_INVALID_OUTPUT, "Date");
    ptc_assert_fails("return [undefined]", "", PTC_INVALID_OUTPUT, "undefined");
    ptc_assert_fails("process.exit(7)", "", PTC_WORKER_EXIT, "code 7");
    ptc_assert_fails("throw { get stack() { throw 1 } }", "", PTC_EXCEPTION, "unrenderable");
    ptc_assert_fails("for (;;) {}", ",\"timeoutMs\":300", PTC_TIMEOUT,
                     "execution deadline reached (300ms)");
    ptc_assert_fails("Promise.reject(new Error('lost')); await new Promise(() => {})", "",
                     PTC_EXCEPTION, "lost");
    ptc_assert_fails("for (;;) {}", ",\"limits\":{\"cpuMs\":300}", PTC_WORKER_EXIT, "CPU time");
}

static void test_memory(void **state)
{
    (void)state;
    ptc_assert_fails("throw new Error('ran')", ",\"limits\":{\"memoryBytes\":67108864,\"pids\":16}",
                     PTC_EXCEPTION, "ran");
    ptc_assert_fails("const a = []; for (;;) a.push(new Array(1e5).fill(1.5))",
                     ",\"limits\":{\"heapBytes\":67108864}", PTC_WORKER_EXIT, "heap");
    ptc_assert_fails("const a = []; for (;;) a.push(Buffer.alloc(1 << 24, 1))",
                     ",\"limits\":{\"memoryBytes\":200000000}", PTC_WORKER_EXIT, "code 137");
}

static void test_output(void **state)
{
    struct ptc_seen seen = {.echo = false};
    (void)state;
    ptc_test_run(&seen,
                 "console.log('a', 1, {b: [1]}); process.stdout.write('w');"
                 "const c = await import('node:child_process');"
                 "c.execFileSync('/bin/sh', ['-c', 'echo child >&2'], {stdio: 'inherit'});"
                 "return Object.keys(console).join()",
                 "");
    assert_int_equal(seen.kind, PTC_OK);
    assert_string_equal(seen.value, "\"log,info,warn,error,debug\"");
    assert_string_equal(seen.logs, "[\"a 1 { b: [ 1 ] }\",\"w\",\"child\\n\"]");
    ptc_test_done(&seen);
    ptc_test_run(&seen, "console.log('first'); for (;;) {}", ",\"timeoutMs\":4000");
    assert_int_equal(seen.kind, PTC_TIMEOUT);
    assert_string_equal(seen.logs, "[\"first\"]");
    ptc_test_done(&seen);
    ptc_test_run(&seen, "console.log('x'.repeat(100)); return 1",
                 ",\"limits\":{\"maxOutputBytes\":80}");
    assert_int_equal(seen.kind, PTC_OUTPUT_LIMIT);
    assert_int_equal(strlen(seen.logs) + strlen(seen.message), 80);
    ptc_test_done(&seen);
}

static const char bindings[] =
    ",\"bindings\":[{\"global\":\"tools\",\"functions\":[\"echo\",\"__proto__\"],"
    "\"errorClass\":{\"name\":\"ToolError\",\"memberNameProperty\":\"tool\"}}]";

static void test_calls(void **state)
{
    struct ptc_seen seen = {.echo = true};
    (void)state;
    ptc_test_run(&seen,
                 "let r = await tools.echo({a: 1}); let p = await tools['__proto__']([2]);"
                 "let bad; try { await tools.echo(NaN) } catch (e) { bad = e.name }"
                 "return [r, p, bad, typeof globalThis.tools, Object.getPrototypeOf(tools)]",
                 bindings);
    assert_string_equal(seen.message, "");
    assert_string_equal(seen.value, "[{\"a\":1},[2],\"TypeError\",\"undefined\",null]");
    assert_int_equal(seen.calls, 2);
    ptc_test_done(&seen);
    ptc_test_run(&seen,
                 "let s = 0; for (let i = 0; i < 300; i += 1) s += await tools.echo(i);"
                 "const all = await Promise.all(Array.from({length: 64}, (_, i) => tools.echo(i)));"
                 "return s + all.length",
                 bindings);
    assert_string_equal(seen.value, "44914");
    ptc_test_done(&seen);
    ptc_test_run(&seen,
                 "let a = []; for (let i = 0; i < 100000; i += 1) a = [a];"
                 "let b = await tools.echo(a); return b",
                 bindings);
    assert_int_equal(strlen(seen.value), 200002);
    ptc_test_done(&seen);
}

static void test_answers(void **state)
{
    struct ptc_seen seen = {.echo = false};
    struct error err = ERROR_INIT;
    struct ptc_answer bad = {.ok = false, .payload = {"\"no way\"", 8}};
    struct ptc_answer none = {.ok = true};
    struct ptc_answer lossy = {.ok = true, .payload = {"[-0]", 4}};
    (void)state;
    ptc_test_start(&seen,
                   "try { await tools.echo(1) } catch (e) {"
                   " console.log(e.name, e.tool, e.message, e instanceof ToolError) }"
                   "const u = await tools.echo(2); tools.echo(3); return typeof u",
                   bindings);
    ptc_test_wait_calls(&seen, 1);
    assert_string_equal(buf_str(&seen.last), "tools \"echo\" 1");
    assert_int_equal(ptc_run_answer(seen.run, 2, &bad, &err), -1);
    assert_int_equal(err.code, ERROR_PTC_CALL_NOT_FOUND);
    assert_int_equal(ptc_run_answer(seen.run, 1, &lossy, &err), -1);
    assert_int_equal(err.code, ERROR_PTC_INVALID_REQUEST);
    assert_int_equal(ptc_run_answer(seen.run, 1, &bad, &err), 0);
    assert_int_equal(ptc_run_answer(seen.run, 1, &bad, &err), -1);
    assert_int_equal(err.code, ERROR_PTC_CALL_SETTLED);
    ptc_test_wait_calls(&seen, 2);
    assert_int_equal(ptc_run_answer(seen.run, 2, &none, &err), 0);
    ptc_test_wait(&seen);
    assert_int_equal(ptc_run_answer(seen.run, 3, &none, &err), -1);
    assert_int_equal(err.code, ERROR_PTC_RUN_SETTLED);
    assert_string_equal(seen.value, "\"undefined\"");
    assert_string_equal(seen.logs, "[\"ToolError echo no way true\"]");
    assert_int_equal(seen.cancelled, 1);
    ptc_test_done(&seen);
}

static void test_abort(void **state)
{
    struct ptc_seen seen = {.echo = false};
    (void)state;
    ptc_test_start(&seen, "for (;;) {}", "");
    ptc_run_abort(seen.run, "early");
    ptc_test_wait(&seen);
    assert_int_equal(seen.kind, PTC_ABORT);
    assert_string_equal(seen.message, "\"early\"");
    ptc_test_done(&seen);
    ptc_test_start(&seen, "console.log(1); for (;;) {}", "");
    ptc_test_wait_log(&seen);
    ptc_run_abort(seen.run, NULL);
    ptc_test_wait(&seen);
    assert_int_equal(seen.kind, PTC_ABORT);
    assert_string_equal(seen.logs, "[\"1\"]");
    ptc_test_done(&seen);
}

static const char forge[] =
    "const fs = await import('node:fs'); const b = Buffer.from(%s); const h = Buffer.alloc(4);"
    "h.writeUInt32BE(b.length); fs.writeSync(3, Buffer.concat([h, b])); await new Promise(() => "
    "{})";

static void forged(const char *frame, enum ptc_error_kind kind)
{
    char program[1024];
    (void)snprintf(program, sizeof(program), forge, frame);
    ptc_assert_fails(program, bindings, kind, "");
}

static void test_forged(void **state)
{
    (void)state;
    forged("'{'", PTC_PROTOCOL);
    forged("''", PTC_PROTOCOL);
    forged("'{\"type\":\"ready\"}'", PTC_PROTOCOL);
    forged(
        "'{\"type\":\"call\",\"id\":2,\"global\":\"tools\",\"function\":\"echo\",\"argument\":1}'",
        PTC_PROTOCOL);
    forged(
        "'{\"type\":\"call\",\"id\":1,\"global\":\"tools\",\"function\":\"nope\",\"argument\":1}'",
        PTC_PROTOCOL);
    forged("'{\"type\":\"done\",\"ok\":true,\"value\":-0}'", PTC_PROTOCOL);
    forged("'{\"type\":\"output-limit\"}'", PTC_OUTPUT_LIMIT);
    ptc_assert_fails("(await import('node:fs')).writeSync(3, Buffer.from([255,0,0,0]));"
                     "await new Promise(() => {})",
                     "", PTC_PROTOCOL, "maxMessageBytes");
    ptc_assert_fails("const net = await import('node:fs'); net.closeSync(3); for (;;) {}", "",
                     PTC_WORKER_EXIT, "channel");
}

static void test_replaced_intrinsics(void **state)
{
    (void)state;
    ptc_assert_fails("Array.prototype.push = () => 0; JSON.stringify = () => '1';"
                     "Number.isFinite = () => true; Object.getPrototypeOf = () => Object.prototype;"
                     "Map.prototype.get = Set.prototype.has = () => false;"
                     "Promise.prototype.then = () => 0; return [NaN]",
                     "", PTC_INVALID_OUTPUT, "finite");
    ptc_assert_value("String.prototype.slice = null; Array.prototype[Symbol.iterator] = null;"
                     "Object.prototype.toJSON = () => 2; Array.prototype.concat = null;"
                     "return {a: ['b']}",
                     "{\"a\":[\"b\"]}");
}

static void test_many(void **state)
{
    enum { COUNT = 50 };
    struct ptc_seen seen[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        seen[i].echo = true;
        ptc_test_start(&seen[i], "return await tools.echo(5)", bindings);
    }
    for (int i = 0; i < COUNT; i++) {
        ptc_test_wait(&seen[i]);
        assert_string_equal(seen[i].message, "");
        assert_string_equal(seen[i].value, "5");
        ptc_test_done(&seen[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_forged),
        cmocka_unit_test(test_replaced_intrinsics),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, ptc_engine_setup, ptc_engine_teardown);
}
