#include "base/child.h"
#include "base/clock.h"
#include "ptc/internal.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { PROBE_MS = 10000, TEXT_MAX = 1024, LEAST_MAJOR = 22, LEAST_MINOR = 13, DECIMAL = 10 };

static int judge(const char *path, const char *text, bool *electron, struct error *err)
{
    char *rest = NULL;
    long major = strtol(text, &rest, DECIMAL);
    long minor = *rest == '.' ? strtol(rest + 1, NULL, DECIMAL) : 0;
    if (rest == text || major < LEAST_MAJOR || (major == LEAST_MAJOR && minor < LEAST_MINOR)) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "%s is no Node 22.13 or newer", path);
    }
    *electron = strstr(text, "electron") != NULL;
    return 0;
}

int ptc_node_probe(const char *path, bool *electron, struct error *err)
{
    /* An Electron that is not told would open a window. */
    static const char *const envp[] = {"PATH=/usr/bin:/bin", "ELECTRON_RUN_AS_NODE=1", NULL};
    const char *const argv[] = {
        path, "-e",
        "console.log(process.versions.node, process.versions.electron ? 'electron' : '')", NULL};
    _cleanup_buf_ struct buf out;
    _cleanup_buf_ struct buf diag;
    struct child_run run = {.spec = {.argv = argv, .envp = envp, .cwd = "/"},
                            .deadline_mono_ms = clock_mono_ms() + PROBE_MS,
                            .out = &out,
                            .diag = &diag};
    buf_init(&out, TEXT_MAX);
    buf_init(&diag, TEXT_MAX);
    if (child_run(&run, err) != 0) {
        return -1;
    }
    if (run.status != 0) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "%s does not run as Node", path);
    }
    return judge(path, buf_str(&out), electron, err);
}

static char *accept_node(const char *path, struct error *err)
{
    bool electron = false;
    _cleanup_free_ char *real = realpath(path, NULL);
    if (real == NULL) {
        (void)error_set(err, ERROR_HOST_UNAVAILABLE, "there is no %s", path);
        return NULL;
    }
    return ptc_node_probe(real, &electron, err) == 0 ? TAKE_PTR(real) : NULL;
}

/* The first "node" of PATH, whatever its age. */
static bool find_in_path(char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        size_t len = strcspn(path, ":");
        int n = snprintf(out, PATH_MAX, "%.*s/node", (int)len, path);
        if (len > 0 && path[0] == '/' && n > 0 && n < PATH_MAX && access(out, X_OK) == 0) {
            return true;
        }
        path += len;
        path += *path == ':';
    }
    return false;
}

/* Where the scripts put one: ../node beside the directory of the service. */
static bool find_beside(char out[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (len <= 0) {
        return false;
    }
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    int n = snprintf(out, PATH_MAX, "%s/../node/bin/node", self);
    return n > 0 && n < PATH_MAX && access(out, X_OK) == 0;
}

char *ptc_find_node(const char *configured, const char *fallback, struct error *err)
{
    char found[PATH_MAX];
    char *node = NULL;
    if (configured != NULL) {
        return accept_node(configured, err);
    }
    (void)error_set(err, ERROR_HOST_UNAVAILABLE, "there is no Node 22.13 or newer");
    if (find_in_path(found)) {
        node = accept_node(found, err);
    }
    if (node == NULL && find_beside(found)) {
        node = accept_node(found, err);
    }
    return node == NULL && fallback != NULL ? accept_node(fallback, err) : node;
}
