#include "ptc_fixture.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHELL(command)                                                                             \
    "const c = await import('node:child_process');"                                                \
    "return c.spawnSync('/bin/sh', ['-c', `" command "`], {encoding: 'utf8'}).stdout"

static void assert_value_with(const char *program, const char *members, const char *value)
{
    struct ptc_seen seen = {.echo = true};
    ptc_test_run(&seen, program, members);
    if (seen.kind != PTC_OK || strcmp(seen.value, value) != 0) {
        fail_msg("%s: %s %s", program, seen.message, seen.value);
    }
    ptc_test_done(&seen);
}

static void test_hidden(void **state)
{
    (void)state;
    ptc_assert_value(SHELL("ls /"),
                     "\"bin\\ndev\\netc\\nlib\\nlib32\\nlib64\\nopt\\nproc\\nsbin\\nusr"
                     "\\nworkspace\\n\"");
    ptc_assert_value(
        SHELL("ls /etc /dev/shm"),
        "\"/dev/shm:\\n\\n/etc:\\ngroup\\nhosts\\nld.so.cache\\nnsswitch.conf\\npasswd\\n\"");
    ptc_assert_value(
        SHELL("id -u; id -g; id -G; grep -c . /proc/net/dev; ls /proc | grep -c '^[0-9]'"),
        "\"1000\\n1000\\n1000\\n3\\n5\\n\"");
    ptc_assert_value(
        SHELL("grep -E '^(Cap...:|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\\\t\\\\n'"),
        "\"CapInh:0000000000000000CapPrm:0000000000000000CapEff:0000000000000000"
        "CapBnd:0000000000000000CapAmb:0000000000000000NoNewPrivs:1Seccomp:2\"");
    ptc_assert_value(
        SHELL("tr '\\\\0' '\\\\n' </proc/1/environ; cat /proc/$PPID/environ | tr '\\\\0' '\\\\n'"),
        "\"PATH=/usr/local/bin:/usr/bin:/bin\\nPWD=/\\n\"");
}

static void test_refused(void **state)
{
    struct ptc_seen seen = {.echo = false};
    (void)state;
    ptc_assert_value(
        SHELL("for p in /workspace/a /usr/a /dev/shm/a /tmp/a /etc/a /a /opt/ptc/node; do"
              " (: >$p) 2>/dev/null && echo $p; done; echo end"),
        "\"end\\n\"");
    ptc_assert_value(
        SHELL("mount -o remount,rw / 2>/dev/null && echo a; unshare -r true 2>/dev/null && echo b;"
              " cat /etc/shadow 2>/dev/null && echo c; ls /proc/self/fd | tr '\\\\n' ' '"),
        "\"0 1 2 3 \"");
    ptc_assert_value(
        "const net = await import('node:net'); return await new Promise((r) => {"
        " net.connect(80, '1.1.1.1').on('error', (e) => r(e.code)).on('connect', () => r(1)) })",
        "\"ENETUNREACH\"");
    ptc_test_run(&seen, "(await import('node:fs')).writeFileSync('/workspace/a', 'x')", "");
    assert_int_equal(seen.kind, PTC_EXCEPTION);
    assert_true(seen.denied);
    ptc_test_done(&seen);
    ptc_test_run(&seen, "throw new Error('else')", "");
    assert_false(seen.denied);
    ptc_test_done(&seen);
}

/* Descriptor 3 of a child is none of the channel. */
static void test_channel_stays(void **state)
{
    (void)state;
    ptc_assert_value(SHELL("readlink /proc/self/fd/3; (: >&3) 2>/dev/null || echo none"),
                     "\"none\\n\"");
}

static void test_descendants(void **state)
{
    (void)state;
    ptc_assert_value(
        "const c = await import('node:child_process');"
        "c.spawn('/usr/bin/setsid', ['/bin/sh', '-c', 'sleep 1000'], {detached: true, stdio: "
        "'ignore'});"
        "c.spawn('/bin/sh', ['-c', 'trap \"\" TERM; while :; do :; done'], {stdio: 'inherit'});"
        "return 1",
        "1");
}

static void test_workspace_write(void **state)
{
    static const char policy[] = ",\"sandboxPolicy\":{\"mode\":\"workspace-write\"}";
    (void)state;
    assert_value_with(SHELL("pwd; echo a >a; cat a; echo b >/tmp/b; cat /tmp/b; (: >/usr/a) "
                            "2>/dev/null || echo no"),
                      policy, "\"/workspace\\na\\nb\\nno\\n\"");
    assert_value_with(SHELL("ls /workspace /tmp"), policy, "\"/tmp:\\n\\n/workspace:\\n\"");
}

static void test_named_workspace(void **state)
{
    char directory[] = "/tmp/exechost-ptc-ws-XXXXXX";
    char members[256];
    char path[128];
    char value[160];
    struct stat st;
    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chmod(directory, 0700), 0);
    assert_int_equal(chown(directory, 1234567, 1234567), 0);
    (void)snprintf(members, sizeof(members),
                   ",\"sandboxPolicy\":{\"mode\":\"workspace-write\",\"workspaceRoot\":\"%s\"}",
                   directory);
    (void)snprintf(value, sizeof(value), "\"%s\\n\"", directory);
    assert_value_with(SHELL("pwd; echo a >a"), members, value);
    (void)snprintf(path, sizeof(path), "%s/a", directory);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, 1234567);
    (void)snprintf(members, sizeof(members), ",\"sandboxPolicy\":{\"workspaceRoot\":\"%s\"}",
                   directory);
    assert_value_with(
        SHELL("cat a; (echo b >a) 2>/dev/null || echo no; ln -s / /tmp/x 2>/dev/null || echo no"),
        members, "\"a\\nno\\nno\\n\"");
    assert_int_equal(unlink(path), 0);
    /* A ready process has the directory that goes now. */
    (void)usleep(500000);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(mkdir(directory, 0755), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_value_with(SHELL("ls"), members, "\"a\\n\"");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

static void test_danger(void **state)
{
    static const char policy[] = ",\"sandboxPolicy\":{\"mode\":\"danger-full-access\"}";
    struct ptc_seen seen = {.echo = false};
    char program[512];
    (void)state;
    (void)snprintf(program, sizeof(program),
                   "const fs = await import('node:fs');"
                   "return [process.cwd(), fs.existsSync('/etc/hostname'), fs.readdirSync('%s')]",
                   ptc_data);
    ptc_test_run(&seen, program, policy);
    assert_string_equal(seen.message, "");
    assert_string_equal(seen.value, "[\"/workspace\",true,[]]");
    ptc_test_done(&seen);
}

static void test_electron(void **state)
{
    char path[] = "/tmp/exechost-ptc-electron-XXXXXX";
    struct ptc_engine_config config;
    struct error err = ERROR_INIT;
    struct ptc_engine *other = NULL;
    struct ptc_engine *before = ptc_engine;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    /* The words of Node 22.13 and an Electron's; otherwise it tells its environment. */
    static const char script[] = "#!/bin/sh\n[ \"$1\" = -e ] && { echo 22.13.0 electron; exit; }\n"
                                 "env | grep ELECTRON >&2\nexit 9\n";
    assert_int_equal(write(fd, script, sizeof(script) - 1), sizeof(script) - 1);
    assert_int_equal(fchmod(fd, 0755), 0);
    assert_int_equal(close(fd), 0);
    ptc_test_config(&config);
    char hidden[160];
    (void)snprintf(hidden, sizeof(hidden), "%s/electron", ptc_data);
    assert_int_equal(mkdir(hidden, 0700), 0);
    config.hidden = hidden;
    config.node = path;
    config.first_uid += 300;
    assert_int_equal(ptc_engine_new(&config, &other, &err), 0);
    assert_int_equal(ptc_engine_enforcement(other), PTC_ENFORCEMENT_NONE);
    assert_non_null(strstr(ptc_engine_reason(other), "ELECTRON_RUN_AS_NODE=1"));
    ptc_engine = other;
    ptc_assert_fails("return 1", "", PTC_SANDBOX_UNAVAILABLE, "ELECTRON_RUN_AS_NODE=1");
    ptc_engine = before;
    ptc_engine_free(other);
    assert_int_equal(unlink(path), 0);
}

static void test_stop(void **state)
{
    struct ptc_engine_config config;
    struct error err = ERROR_INIT;
    struct ptc_engine *other = NULL;
    struct ptc_engine *before = ptc_engine;
    struct ptc_seen seen = {.echo = false};
    char hidden[160];
    (void)state;
    ptc_test_config(&config);
    (void)snprintf(hidden, sizeof(hidden), "%s/stop", ptc_data);
    assert_int_equal(mkdir(hidden, 0700), 0);
    config.hidden = hidden;
    config.first_uid += 600;
    assert_int_equal(ptc_engine_new(&config, &other, &err), 0);
    ptc_engine = other;
    ptc_test_start(&seen, "for (;;) {}", "");
    ptc_test_wait_started(&seen);
    ptc_engine_stop(other, "going");
    assert_int_equal(seen.kind, PTC_ABORT);
    assert_string_equal(seen.message, "\"going\"");
    ptc_test_done(&seen);
    ptc_engine_free(other);
    ptc_engine = before;
}

static void test_no_sandbox(void **state)
{
    struct ptc_engine_config config;
    struct error err = ERROR_INIT;
    struct ptc_engine *other = NULL;
    struct ptc_engine *before = ptc_engine;
    (void)state;
    ptc_test_config(&config);
    config.bwrap = "/nowhere/bwrap";
    assert_int_equal(ptc_engine_new(&config, &other, &err), 0);
    assert_int_equal(ptc_engine_enforcement(other), PTC_ENFORCEMENT_NONE);
    ptc_engine = other;
    ptc_assert_fails("return 1", "", PTC_SANDBOX_UNAVAILABLE, "/nowhere/bwrap");
    ptc_engine = before;
    ptc_engine_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_channel_stays),
        cmocka_unit_test(test_descendants),
        cmocka_unit_test(test_workspace_write),
        cmocka_unit_test(test_named_workspace),
        cmocka_unit_test(test_danger),
        cmocka_unit_test(test_electron),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_no_sandbox),
    };
    return cmocka_run_group_tests(tests, ptc_engine_setup, ptc_engine_teardown);
}
