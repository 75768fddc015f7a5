/* Not out, but over: of processes, memory, inodes, descriptors. */
#include "escape.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a process group of their own, each of them tries on. */
static void be_child(pid_t group)
{
    (void)setpgid(0, group);
    while (fork() >= 0 || errno != EAGAIN) {
    }
    for (;;) {
        pause();
    }
}

/* Children that stay, until no more can be made; then they go. */
void attempt_forks(const char *argument)
{
    pid_t group = 0;
    int made = 0;
    pid_t pid;

    (void)argument;
    fflush(stdout);
    while ((pid = fork()) >= 0) {
        if (pid == 0) {
            be_child(group);
        }
        group = group == 0 ? pid : group;
        (void)setpgid(pid, group);
        made++;
    }
    tried("fork", -1);
    saw("fewer than 4096", "%s", made < 4096 ? "yes" : "no");
    while (kill(-group, SIGKILL) == 0) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
}

/* `argument` NULL: pages of its own; "shared": of a memory file. */
void attempt_memory(const char *argument)
{
    enum { STEP = 1024 * 1024 };
    int fd = argument != NULL ? memfd_create("bomb", MFD_CLOEXEC) : -1;

    for (size_t n = 0;; n++) {
        char *page;

        if (fd >= 0) {
            static char data[STEP] = {1};

            if (pwrite(fd, data, STEP, (off_t)(n * STEP)) != STEP) {
                tried("write", -1);
                return;
            }
            continue;
        }
        page = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) {
            tried("mmap", -1);
            return;
        }
        memset(page, 1, STEP);
    }
}

/* `argument` is the directory to fill with empty files. */
void attempt_inodes(const char *argument)
{
    enum { MOST = 2000000 };
    long made = 0;

    if (argument == NULL || chdir(argument) != 0) {
        tried("directory", -1);
        return;
    }
    while (made < MOST) {
        char name[32];
        int fd;

        (void)snprintf(name, sizeof(name), "i%ld", made);
        fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) {
            break;
        }
        close(fd);
        made++;
    }
    tried("create", made == MOST ? 0 : -1);
    saw("fewer than 70000", "%s", made < 70000 ? "yes" : "no");
}

void attempt_files_open(const char *argument)
{
    struct rlimit limit = {0};
    long made = 0;

    (void)argument;
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    while (made < 4000000 && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
        made++;
    }
    tried("open", -1);
    saw("fewer than 1048577", "%s", made < 1048577 ? "yes" : "no");
}

void attempt_limits(const char *argument)
{
    static const struct {
        const char *name;
        int resource;
    } LIMITS[] = {
        {"core", RLIMIT_CORE},
        {"nofile", RLIMIT_NOFILE},
        {"memlock", RLIMIT_MEMLOCK},
        {"msgqueue", RLIMIT_MSGQUEUE},
    };

    (void)argument;
    for (size_t i = 0; i < sizeof(LIMITS) / sizeof(LIMITS[0]); i++) {
        struct rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
        char what[64];

        (void)snprintf(what, sizeof(what), "raise %s", LIMITS[i].name);
        tried(what, setrlimit(LIMITS[i].resource, &limit));
    }
}

void attempt_crash(const char *argument)
{
    (void)argument;
    fflush(stdout);
    abort();
}
