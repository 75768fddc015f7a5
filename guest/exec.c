#include "guest/exec.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const char *search_path(char *const *envp)
{
    for (; *envp != NULL; envp++) {
        if (strncmp(*envp, "PATH=", 5) == 0) {
            return *envp + 5;
        }
    }
    return DEFAULT_PATH;
}

static int exec_searched(char *const *argv, char *const *envp)
{
    char file[PATH_MAX];
    const char *name = argv[0];
    size_t name_len = strlen(name);
    bool denied = false;
    for (const char *dir = search_path(envp);; dir++) {
        size_t dir_len = strcspn(dir, ":");
        if (dir_len + 1 + name_len < sizeof(file)) {
            memcpy(file, dir, dir_len);
            file[dir_len] = '/';
            size_t start = dir_len == 0 ? 0 : dir_len + 1;
            memcpy(file + start, name, name_len + 1);
            execve(file, argv, envp);
            if (errno == EACCES) {
                denied = true;
            } else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE && errno != ENODEV) {
                return errno;
            }
        }
        dir += dir_len;
        if (*dir == '\0') {
            return denied ? EACCES : ENOENT;
        }
    }
}

int guest_exec(char *const *argv, char *const *envp)
{
    if (argv[0][0] == '\0') {
        return ENOENT;
    }
    if (strchr(argv[0], '/') == NULL) {
        return exec_searched(argv, envp);
    }
    execve(argv[0], argv, envp);
    return errno;
}
