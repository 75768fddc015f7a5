#include "escape.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *errno_name(int errnum)
{
    static char other[16];
    const char *name = strerrorname_np(errnum);

    if (name == NULL) {
        (void)snprintf(other, sizeof(other), "E%d", errnum);
        name = other;
    }
    return name;
}

bool tried(const char *what, long result)
{
    printf("%s: %s\n", what, result < 0 ? errno_name(errno) : "DONE");
    return result >= 0;
}

void saw(const char *what, const char *fmt, ...)
{
    va_list ap;

    printf("%s: ", what);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

long try_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);

    if (fd >= 0) {
        close(fd);
    }
    return fd;
}

static const struct {
    const char *name;
    void (*run)(const char *argument);
} attempts[] = {
    {"write-outside", attempt_write_outside},
    {"mount", attempt_mount},
    {"nodes", attempt_nodes},
    {"host-files", attempt_host_files},
    {"kernel-files", attempt_kernel_files},
    {"groups", attempt_groups},
    {"programs", attempt_programs},
    {"descriptors", attempt_descriptors},
    {"kernel-calls", attempt_kernel_calls},
    {"rings", attempt_rings},
    {"keys", attempt_keys},
    {"namespaces", attempt_namespaces},
    {"machine", attempt_machine},
    {"identity", attempt_identity},
    {"terminal", attempt_terminal},
    {"trace", attempt_trace},
    {"signals", attempt_signals},
    {"network", attempt_network},
    {"abstract", attempt_abstract},
    {"forks", attempt_forks},
    {"memory", attempt_memory},
    {"inodes", attempt_inodes},
    {"files-open", attempt_files_open},
    {"limits", attempt_limits},
    {"crash", attempt_crash},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        if (strcmp(argv[1], attempts[i].name) == 0) {
            attempts[i].run(argc > 2 ? argv[2] : NULL);
            return fflush(stdout) == 0 ? 0 : 1;
        }
    }
    fprintf(stderr, "usage: escape ATTEMPT [ARGUMENT]\n");
    return 2;
}
