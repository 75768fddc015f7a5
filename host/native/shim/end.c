#include "host/native/shim/shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>

enum {
    KILL_WAIT_MS = 10 * 1000,
    REMOVE_WAIT_MS = 5 * 1000,
    LOOK_US = 100,
    LOOK_MOST_US = 5000,
    LOOK_MS = 5
};

static void pause_us(unsigned us)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

/* Process 1 ends after everything in its pid namespace has: reaping it is the proof. What is inside
 * and a child of the shim must be reaped for that too. */
static int reap_init(struct shim *s)
{
    struct pollfd ended = {.fd = s->init_pidfd, .events = POLLIN};
    int64_t until = shim_now_ms() + KILL_WAIT_MS;
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == s->init_pid || (pid < 0 && errno == ECHILD)) {
            return 0;
        }
        if (pid > 0) {
            helper_ended(s, pid, status);
            program_ended(s, pid, status);
            continue;
        }
        int64_t left = until - shim_now_ms();
        if (left <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        (void)poll(&ended, 1, left < LOOK_MS ? (int)left : LOOK_MS);
    }
}

int end_kill(struct shim *s)
{
    if (s->init_pid == 0) {
        return 0;
    }
    bool frozen = cgroup_is_frozen(&s->group);
    if (cgroup_kill(&s->group) != 0) {
        /* The older way: process 1 takes the others along, once they may run. */
        (void)pidfd_send_signal(s->init_pidfd, SIGKILL, NULL, 0);
    }
    if (frozen && cgroup_freeze(&s->group, false, 0) != 0) {
        return -1;
    }
    /* A process on its way into the namespaces is in no group yet. */
    (void)pidfd_send_signal(s->init_pidfd, SIGKILL, NULL, 0);
    if (reap_init(s) != 0) {
        return -1;
    }
    s->init_pid = 0;
    shim_close(&s->init);
    command_lost(s);
    programs_drop(s);
    return 0;
}

static int remove_groups(const struct shim *s)
{
    int64_t until = shim_now_ms() + REMOVE_WAIT_MS;
    unsigned us = LOOK_US;
    while (cgroup_remove_tree(&s->parents, s->start.cgroup) != 0) {
        if (errno != EBUSY || shim_now_ms() >= until) {
            return -1;
        }
        pause_us(us);
        us = us * 2 < LOOK_MOST_US ? us * 2 : LOOK_MOST_US;
    }
    return 0;
}

/* All that is in there are plain files. */
static void empty_directory(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *files = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *file;
    if (files == NULL) {
        return;
    }
    while ((file = readdir(files)) != NULL) {
        if (strcmp(file->d_name, ".") != 0 && strcmp(file->d_name, "..") != 0) {
            (void)unlinkat(dir, file->d_name, 0);
        }
    }
    (void)closedir(files);
}

static int remove_directory(const struct shim *s)
{
    int dir = s->fds[SHIM_START_DIRECTORY];
    int parent = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0) {
        return -1;
    }
    empty_directory(dir);
    int result = unlinkat(parent, s->start.cgroup, AT_REMOVEDIR);
    int errnum = errno;
    close(parent);
    errno = errnum;
    return result == 0 || errno == ENOENT ? 0 : -1;
}

int end_all(struct shim *s)
{
    if (end_kill(s) != 0) {
        return -1;
    }
    shim_close(&s->oom);
    shim_close(&s->workspace);
    cgroup_set_close(&s->group);
    if (remove_groups(s) != 0) {
        return -1;
    }
    return remove_directory(s);
}
