#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { USAGE = 2, FALLBACK_FDS = 4096 };

static int usage(void)
{
    static const char text[] = "usage: guest run [--stdin] [--cwd DIR] -- COMMAND ARG...\n"
                               "       guest load DIR\n";
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    return USAGE;
}

/* What runs under the same user may not look into this process: it holds the only way out. */
static void shield(void)
{
    sigset_t all;
    (void)prctl(PR_SET_DUMPABLE, 0);
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
}

static int own_descriptors_only(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0) {
        return -1;
    }
    if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0) {
        return 0;
    }
    for (fd = STDERR_FILENO + 1; fd < FALLBACK_FDS; fd++) {
        close(fd);
    }
    return 0;
}

static int run(char **args)
{
    struct spawn_spec spec = {.cwd = ""};
    for (; *args != NULL && strcmp(*args, "--") != 0; args++) {
        if (strcmp(*args, "--stdin") == 0) {
            spec.has_stdin = true;
        } else if (strcmp(*args, "--cwd") == 0 && args[1] != NULL) {
            spec.cwd = *++args;
        } else {
            return usage();
        }
    }
    if (args[0] == NULL || args[1] == NULL) {
        return usage();
    }
    spec.argv = args + 1;
    return run_main(&spec);
}

int main(int argc, char **argv)
{
    shield();
    if (own_descriptors_only() != 0) {
        return 1;
    }
    if (argc >= 2 && strcmp(argv[1], "run") == 0) {
        return run(argv + 2);
    }
    if (argc == 3 && strcmp(argv[1], "load") == 0) {
        return load_main(argv[2]);
    }
    return usage();
}
