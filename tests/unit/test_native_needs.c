/* What the machine must have: met here, and told with a way out where it is not. */
#include "host/native/needs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cmocka.h>

static const struct native_needs_config GOOD = {.images = "/nonexistent/images",
                                                .host_uid_first = 1879048192,
                                                .host_uid_count = 65536};

static void expect_lack(const struct native_needs_config *config, const char *name,
                        const char *text)
{
    struct native_needs needs;
    bool found = false;

    native_needs_look(config, &needs);
    for (size_t i = 0; i < needs.count; i++) {
        const struct native_need *need = &needs.items[i];

        assert_true(need->text[0] != '\0');
        assert_true((need->fix == NULL) == need->met);
        if (!need->met && strcmp(need->name, name) == 0) {
            assert_non_null(strstr(need->text, text));
            found = true;
        }
    }
    assert_true(found);
}

static void met_here(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;

    if (native_needs_check(&GOOD, &err) != 0) {
        fail_msg("%s", err.detail);
    }
}

static void ids_of_others(void **state)
{
    (void)state;
    struct native_needs_config config = GOOD;
    struct error err = ERROR_INIT;

    /* The first one behind root is daemon everywhere. */
    config.host_uid_first = 1;
    config.host_uid_count = 5;
    expect_lack(&config, "user ids", "/etc/passwd");
    assert_int_equal(native_needs_check(&config, &err), -1);
    assert_int_equal(err.code, ERROR_HOST_UNAVAILABLE);
    assert_non_null(strstr(err.detail, "native.firstId"));
    /* The last id of all is none. */
    config.host_uid_first = UINT32_MAX - 4;
    expect_lack(&config, "user ids", "from");
}

static void other_user(void **state)
{
    (void)state;
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct native_needs needs;

        if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) {
            _exit(2);
        }
        native_needs_look(&GOOD, &needs);
        _exit(needs.items[0].met || strcmp(needs.items[0].name, "rights") != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void no_programs(void **state)
{
    (void)state;
    char dir[] = "/tmp/exechost-needs-XXXXXX";
    char images[64];
    struct native_needs_config config = GOOD;

    assert_non_null(mkdtemp(dir));
    assert_int_equal(mount("none", dir, "tmpfs", MS_NOEXEC, "size=64k"), 0);
    (void)snprintf(images, sizeof(images), "%s/not/yet", dir);
    config.images = images;
    expect_lack(&config, "image store", "noexec");
    assert_int_equal(umount(dir), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(met_here),
        cmocka_unit_test(ids_of_others),
        cmocka_unit_test(other_user),
        cmocka_unit_test(no_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
