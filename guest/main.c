#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { USAGE = 2, FALLBACK_FDS = 4096 };

static int usage(void)
{
    static const char text[] = "usage: guest run [--stdin] [--cwd DIR] -- COMMAND ARG...\n"
                               "       guest load DIR\n"
                               "       guest list|read|remove|remove-tree|pack|sweep PATH\n"
                               "       guest write PATH MEMORY MODE SIZE\n"
                               "       guest unpack PATH MEMORY\n";
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
    int first = getenv(GUEST_MEMORY_VARIABLE) != NULL ? GUEST_MEMORY_FD + 1 : STDERR_FILENO + 1;
    if (syscall(SYS_close_range, first, ~0U, 0) == 0) {
        return 0;
    }
    for (fd = first; fd < FALLBACK_FDS; fd++) {
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

static int remove_name(const char *path)
{
    return remove_main(path, false);
}

static int remove_all(const char *path)
{
    return remove_main(path, true);
}

/* The subcommands that take one path. */
static const struct {
    const char *name;
    int (*main)(const char *path);
} with_path[] = {
    {"list", list_main},         {"read", read_main}, {"remove", remove_name},
    {"remove-tree", remove_all}, {"pack", pack_main}, {"sockets", sockets_main},
    {"sweep", sweep_main},
};

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Two hexadecimal digits a byte, none of them NUL; in place. */
static bool decode(char *text)
{
    char *out = text;
    for (const char *in = text; *in != '\0'; in += 2) {
        int high = digit(in[0]);
        int low = digit(in[1]);
        if (high < 0 || low < 0 || high + low == 0) {
            return false;
        }
        *out++ = (char)(high << 4 | low);
    }
    *out = '\0';
    return true;
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
    if (argc < 3 || !decode(argv[2])) {
        return usage();
    }
    if (argc == 6 && strcmp(argv[1], "write") == 0) {
        const struct write_words words = {argv[3], argv[4], argv[5]};
        return write_main(argv[2], &words);
    }
    if (argc == 4 && strcmp(argv[1], "unpack") == 0) {
        return unpack_main(argv[2], argv[3]);
    }
    for (size_t i = 0; argc == 3 && i < sizeof(with_path) / sizeof(with_path[0]); i++) {
        if (strcmp(argv[1], with_path[i].name) == 0) {
            return with_path[i].main(argv[2]);
        }
    }
    return usage();
}
