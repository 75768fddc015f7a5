/* Starts Node inside of an execution: the image's where that is new enough, else the one that the
 * service lends, with its own libraries and loader, for the image may have none. Confined already:
 * whatever the image brings can do here what any program may. */
#include "ptc/inside/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENT "/.exechost"
#define MAIN LENT "/" INSIDE_BOOTSTRAP_DIRECTORY "/main.mjs"

enum { CONTROL = 3, LEAST_MAJOR = 22, LEAST_MINOR = 13, DECIMAL = 10, ARGUMENTS_MAX = 10 };

extern char **environ;

static char quiet[] = "--no-warnings";
static char main_file[] = MAIN;
static char node_name[] = "node";

static int fail(const char *step)
{
    (void)dprintf(STDERR_FILENO, INSIDE_FAULT "%s: %s\n", step, strerror(errno));
    return INSIDE_FAILED;
}

/* --- the image's --- */

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The first "node" of PATH. */
static bool find_own(char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        size_t len = strcspn(path, ":");
        int n = snprintf(out, PATH_MAX, "%.*s/node", (int)len, path);
        if (path[0] == '/' && n > 0 && n < PATH_MAX && is_program(out)) {
            return true;
        }
        path += len;
        path += *path == ':';
    }
    return false;
}

static _Noreturn void ask_version(const char *path, int out)
{
    char script[] = "process.stdout.write(process.versions.node)";
    char option[] = "-e";
    char *const argv[] = {node_name, option, script, NULL};
    close(CONTROL);
    if (dup2(out, STDOUT_FILENO) >= 0) {
        (void)execve(path, argv, environ);
    }
    _exit(INSIDE_FAILED);
}

static bool is_new_enough(const char *version)
{
    char *rest = NULL;
    long major = strtol(version, &rest, DECIMAL);
    long minor = rest != version && *rest == '.' ? strtol(rest + 1, NULL, DECIMAL) : 0;
    return major > LEAST_MAJOR || (major == LEAST_MAJOR && minor >= LEAST_MINOR);
}

/* Whatever else it says or does is its own matter: the run's time goes on. */
static bool own_serves(const char *path)
{
    char version[64];
    size_t len = 0;
    int status = 0;
    int ends[2];
    ssize_t n = 1;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        ask_version(path, ends[1]);
    }
    close(ends[1]);
    while (pid > 0 && n > 0 && len + 1 < sizeof(version)) {
        n = read(ends[0], version + len, sizeof(version) - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    version[len] = '\0';
    close(ends[0]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && is_new_enough(version);
}

static int start_own(const char *path, char *heap)
{
    char *const argv[] = {node_name, quiet, heap, main_file, NULL};
    (void)execve(path, argv, environ);
    return fail("start the image's Node");
}

/* --- the service's --- */

static int start_lent(const char *loader, char *heap)
{
    static char libraries[] = LENT "/" INSIDE_LIBRARIES;
    static char node[] = LENT "/node";
    char path_option[] = "--library-path";
    char name_option[] = "--argv0";
    char file[PATH_MAX];
    char *const plain[] = {node_name, quiet, heap, main_file, NULL};
    char *const loaded[] = {file, path_option, libraries, name_option, node_name,
                            node, quiet,       heap,      main_file,   NULL};
    if (loader[0] == '\0') {
        (void)execve(node, plain, environ);
    } else {
        (void)snprintf(file, sizeof(file), "%s/%s", libraries, loader);
        (void)execve(file, loaded, environ);
    }
    return fail("start the Node that is lent");
}

int main(int argc, char **argv)
{
    char own[PATH_MAX];
    if (argc != INSIDE_ARGS) {
        errno = EINVAL;
        return fail("read the arguments");
    }
    char *heap = argv[INSIDE_ARG_HEAP];
    if (find_own(own) && own_serves(own)) {
        return start_own(own, heap);
    }
    if (strcmp(argv[INSIDE_ARG_LOADER], INSIDE_NOTHING_LENT) == 0) {
        errno = ENOENT;
        return fail("find a Node 22.13 or newer in the image");
    }
    if (argv[INSIDE_ARG_ELECTRON][0] != '\0' && setenv("ELECTRON_RUN_AS_NODE", "1", 1) != 0) {
        return fail("set the environment");
    }
    return start_lent(argv[INSIDE_ARG_LOADER], heap);
}
