/* The configuration file. A refusal names what is wrong; what was accepted is inside its ranges. */
#include "tests/fuzz/fuzz.h"

#include "server/config.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_ranges(const struct config *config)
{
#define X(member, key, def, min, max, what)                                                        \
    fuzz_require(config->member >= (min) && config->member <= (max));
    CONFIG_NUMBERS(X)
#undef X
    fuzz_require(config->listen != NULL && config->docker_socket != NULL);
    for (size_t i = 0; i < config->token_count; i++) {
        fuzz_require(strlen(config->tokens[i].sha256) == 64 &&
                     config->tokens[i].tenant[0] != '\0' && config->tokens[i].scopes != 0);
    }
    fuzz_require(config->data_dir[0] == '/' && config->checkpoint_dir[0] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_flags flags = {.data = "/data"};
    struct config config;
    struct error err = ERROR_INIT;
    char path[64];
    int fd = memfd_create("config", MFD_CLOEXEC);

    fuzz_require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    flags.file = path;
    if (config_load(&flags, &config, &err) == 0) {
        check_ranges(&config);
        config_done(&config);
    } else {
        fuzz_require(err.code != ERROR_NONE && err.detail[0] != '\0');
    }
    (void)close(fd);
    return 0;
}
