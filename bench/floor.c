/* The floor under the native host: what the kernel takes for the same isolation, asked for by the
 * shortest program that asks for all of it: the same namespaces, mounts, identity, limits and
 * filter, made by the same functions, with neither a service nor a shim around them.
 *
 *   floor IMAGE_DIRECTORY
 *
 * Reads a line at a time and answers each with one: "provision" (clone, groups, mounts, root,
 * exec of an idle program), "exec" (fork, setns, exec of `true`, wait), "terminate" (kill, reap,
 * remove) with milliseconds; "cycles COUNT PARALLEL" with how many of all three a second. */
#include "sandbox/cgroup.h"
#include "sandbox/sandbox.h"
#include "sandbox/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct sandbox_disk disk = {.workspace_bytes = 64 << 20,
                                         .workspace_inodes = 16384,
                                         .tmp_bytes = 16 << 20,
                                         .shm_bytes = 16 << 20};
static const struct cgroup_limits limits = {.nano_cpus = 1000000000,
                                            .memory_bytes = 256 << 20,
                                            .pids = 64};
static const struct sandbox_identity identity = {.uid = 65532,
                                                 .gid = 65532,
                                                 .host_uid = 390000,
                                                 .host_gid = 390000};

struct floor {
    struct cgroup_set roots;
    int image;
    int filter;
    char name[64];
    struct cgroup_set groups;
    pid_t pid;
    int pidfd;
};

static const char *const environment[] = {"PATH=/bin:/usr/bin", NULL};

static _Noreturn void give_up(const char *step, int errnum)
{
    fprintf(stderr, "floor: %s: %s\n", step, strerror(errnum));
    _exit(1);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1000 + (double)now.tv_nsec / 1e6;
}

/* The last steps of both ways in: from here on the program's own rights. */
static void become_program(const struct floor *f, const char *const *argv)
{
    struct sandbox_fault fault = {0};
    if (sandbox_drop_keeper(&identity, &fault) != 0 ||
        sandbox_seccomp_install(f->filter, &fault) != 0) {
        give_up(fault.step, fault.errnum);
    }
    if (sandbox_become_user(&identity) != 0) {
        give_up("become the user", errno);
    }
    (void)execve(argv[0], (char *const *)argv, (char *const *)environment);
    give_up(argv[0], errno);
}

/* As the service's: each moves itself. */
struct entries {
    int fds[CGROUP_TREES_MAX];
    size_t count;
};

static void open_entries(const struct floor *f, struct entries *out)
{
    if (cgroup_open_entries(&f->groups, out->fds, &out->count) != 0) {
        give_up("open the groups", errno);
    }
}

static void close_entries(const struct entries *e)
{
    for (size_t i = 0; i < e->count; i++) {
        close(e->fds[i]);
    }
}

static void enter_groups(const struct entries *e)
{
    for (size_t i = 0; i < e->count; i++) {
        if (write(e->fds[i], "0", 1) != 1) {
            give_up("enter the groups", errno);
        }
    }
    close_entries(e);
}

static void be_inside(const struct floor *f, const struct sandbox_mounts *mounts,
                      const struct entries *entries, int go)
{
    static const char *const idle[] = {"/bin/sleep", "3600", NULL};
    struct sandbox_fault fault = {0};
    char byte;
    if (read(go, &byte, 1) != 1) {
        give_up("wait for the maps", errno);
    }
    enter_groups(entries);
    if (sandbox_mounts_enter(mounts, &fault) != 0 || sandbox_loopback_up(&fault) != 0) {
        give_up(fault.step, fault.errnum);
    }
    become_program(f, idle);
}

static void start(struct floor *f, const struct sandbox_mounts *mounts)
{
    struct sandbox_fault fault = {0};
    int go[2];
    int done[2];
    struct entries entries;
    char byte = 0;
    open_entries(f, &entries);
    if (pipe2(go, O_CLOEXEC) != 0 || pipe2(done, O_CLOEXEC) != 0) {
        give_up("pipe", errno);
    }
    f->pid = sandbox_clone(cgroup_birth_fd(&f->groups), &f->pidfd);
    if (f->pid < 0) {
        give_up("clone", errno);
    }
    if (f->pid == 0) {
        be_inside(f, mounts, &entries, go[0]);
    }
    close(done[1]);
    close_entries(&entries);
    if (sandbox_map_identity(f->pid, &identity, &fault) != 0) {
        give_up(fault.step, fault.errnum);
    }
    if (write(go[1], &byte, 1) != 1) {
        give_up("let it go", errno);
    }
    /* The other end closes with the exec. */
    if (read(done[0], &byte, 1) != 0) {
        give_up("wait for the program", errno);
    }
    close(done[0]);
    close(go[0]);
    close(go[1]);
}

static void provision(struct floor *f)
{
    struct sandbox_fault fault = {0};
    struct sandbox_mounts mounts = SANDBOX_MOUNTS_INIT;
    if (cgroup_below(&f->roots, f->name, true, &f->groups) != 0) {
        give_up("make the groups", errno);
    }
    if (cgroup_limit(&f->groups, &limits, &fault) != 0 ||
        sandbox_mounts_make(&mounts, f->image, &disk, &identity, &fault) != 0) {
        give_up(fault.step, fault.errnum);
    }
    start(f, &mounts);
    sandbox_mounts_close(&mounts);
}

static void wait_for(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid) {
        give_up("wait", errno);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        give_up("the program failed", EPROTO);
    }
}

static void run(struct floor *f)
{
    static const char *const program[] = {"/bin/true", NULL};
    struct sandbox_fault fault = {0};
    pid_t outer = fork();
    if (outer == 0) {
        struct entries entries;
        open_entries(f, &entries);
        enter_groups(&entries);
        if (sandbox_join(f->pidfd, &fault) != 0) {
            give_up(fault.step, fault.errnum);
        }
        pid_t inner = fork();
        if (inner == 0) {
            become_program(f, program);
        }
        wait_for(inner);
        _exit(0);
    }
    wait_for(outer);
}

static void terminate(struct floor *f)
{
    if (kill(f->pid, SIGKILL) != 0 || waitpid(f->pid, NULL, 0) != f->pid) {
        give_up("kill", errno);
    }
    close(f->pidfd);
    cgroup_set_close(&f->groups);
    while (cgroup_remove(&f->roots, f->name) != 0) {
        if (errno != EBUSY) {
            give_up("remove the groups", errno);
        }
    }
}

static void cycle_all(struct floor *f, int count)
{
    for (int i = 0; i < count; i++) {
        provision(f);
        run(f);
        terminate(f);
    }
}

/* Cycles a second. */
static double cycles(const struct floor *f, int count, int parallel)
{
    double started = now_ms();
    for (int i = 0; i < parallel; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct floor own = *f;
            snprintf(own.name, sizeof(own.name), "%.40s-%d", f->name, i);
            cycle_all(&own, count / parallel);
            _exit(0);
        }
    }
    for (int i = 0; i < parallel; i++) {
        int status;
        if (wait(&status) < 0 || status != 0) {
            give_up("a parallel run failed", EPROTO);
        }
    }
    return (double)(count / parallel * parallel) * 1000 / (now_ms() - started);
}

static double timed(struct floor *f, void (*action)(struct floor *f))
{
    double started = now_ms();
    action(f);
    return now_ms() - started;
}

static void answer(struct floor *f, const char *line)
{
    int count;
    int parallel;
    double figure;
    if (strcmp(line, "provision\n") == 0) {
        figure = timed(f, provision);
    } else if (strcmp(line, "exec\n") == 0) {
        figure = timed(f, run);
    } else if (strcmp(line, "terminate\n") == 0) {
        figure = timed(f, terminate);
    } else if (sscanf(line, "cycles %d %d", &count, &parallel) == 2 && count > 0 && parallel > 0) {
        figure = cycles(f, count, parallel);
    } else {
        give_up("an unknown line", EINVAL);
    }
    printf("%.4f\n", figure);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct floor f = {.roots = CGROUP_SET_INIT, .groups = CGROUP_SET_INIT};
    struct sandbox_fault fault = {0};
    struct error err = ERROR_INIT;
    char line[64];
    if (argc != 2) {
        fprintf(stderr, "usage: floor IMAGE_DIRECTORY\n");
        return 2;
    }
    f.image = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (f.image < 0) {
        give_up("open the image", errno);
    }
    if (sandbox_seccomp_build(&f.filter, &err) != 0) {
        give_up(err.detail, EINVAL);
    }
    if (cgroup_find(&f.roots, &fault) != 0) {
        give_up(fault.step, fault.errnum);
    }
    snprintf(f.name, sizeof(f.name), "exechost-floor-%d", (int)getpid());
    while (fgets(line, sizeof(line), stdin) != NULL) {
        answer(&f, line);
    }
    return 0;
}
