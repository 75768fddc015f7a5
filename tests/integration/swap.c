/* Runs inside an execution and does its worst to whoever works on the workspace from outside: swaps
 * directories and files for links that lead out, in a tight loop, moves directories about, meddles
 * with what is being prepared. `swap SECONDS` prints how often it has swapped. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char secret[] = "OUTSIDE-SECRET\n";
static const char *const targets[] = {"/tmp",    "../tmp", "/", "/etc", "../../tmp/outside-dir",
                                      "/dev/shm"};
enum { TARGETS = sizeof(targets) / sizeof(targets[0]), PLACES = 3 };

static void put(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

static void outside(void)
{
    mkdir("/tmp/outside-dir", 0755);
    put(AT_FDCWD, "/tmp/f", secret);
    put(AT_FDCWD, "/tmp/outside-name", secret);
    put(AT_FDCWD, "/tmp/outside-dir/f", secret);
    put(AT_FDCWD, "/tmp/outside-dir/outside-name", secret);
    chmod("/tmp/outside-dir", 0711);
}

static int open_real(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

/* A directory with a file and a directory in it. Never goes through a link itself. */
static void furnish(const char *name)
{
    mkdir(name, 0755);
    int dir = open_real(AT_FDCWD, name);
    if (dir < 0) {
        return;
    }
    put(dir, "f", "inside\n");
    mkdirat(dir, "sub", 0755);
    int sub = open_real(dir, "sub");
    if (sub >= 0) {
        put(sub, "f", "inside\n");
        close(sub);
    }
    close(dir);
}

static void point(int dir, const char *name, const char *target)
{
    unlinkat(dir, name, 0);
    (void)!symlinkat(target, dir, name);
}

/* A file in the place's directory and a link to one outside. */
static unsigned long swap_files(const char *name, const char *target)
{
    int dir = open_real(AT_FDCWD, name);
    if (dir < 0) {
        return 0;
    }
    point(dir, "g", target);
    unsigned long done = renameat2(dir, "f", dir, "g", RENAME_EXCHANGE) == 0;
    close(dir);
    return done;
}

static unsigned long swap_place(int place, unsigned long round)
{
    char real[32];
    char link[32];
    snprintf(real, sizeof(real), "d%d", place);
    snprintf(link, sizeof(link), "l%d", place);
    if (round % 64 == 0) {
        struct stat st;
        /* Whichever of the two is the link now is made anew, the other furnished. */
        bool other = lstat(link, &st) == 0 && S_ISDIR(st.st_mode);
        point(AT_FDCWD, other ? real : link,
              targets[(round / 64 + (unsigned long)place) % TARGETS]);
        furnish(other ? link : real);
    }
    unsigned long done = renameat2(AT_FDCWD, real, AT_FDCWD, link, RENAME_EXCHANGE) == 0;
    if (round % 8 == 0) {
        const char *target = round % 16 == 0 ? "/tmp/f" : "../../tmp/outside-dir/f";
        done += swap_files(real, target) + swap_files(link, target);
    }
    return done;
}

/* A directory that moves up and down, so that ".." from it leads elsewhere. */
static void move_about(unsigned long round)
{
    if (round % 2 == 0) {
        mkdir("deep", 0755);
        mkdir("deep/a", 0755);
        furnish("deep/a/b");
        rename("deep/a/b", "b");
    } else {
        rename("b", "deep/a/b");
        rename("deep/a", "a");
        rename("a", "deep/a");
    }
}

/* What a call prepares lies below the workspace. */
static void meddle(void)
{
    DIR *dir = opendir(".");
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char from[512];
        char to[512];
        if (strncmp(entry->d_name, ".exechost-stage-", 16) != 0) {
            continue;
        }
        static const char *const names[] = {"file", "tree", "tree/sub", "tree/x", "taken", "d1"};
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            snprintf(from, sizeof(from), "%s/%s", entry->d_name, names[i]);
            snprintf(to, sizeof(to), "%s/%s-away", entry->d_name, names[i]);
            if (rename(from, to) == 0) {
                (void)!symlink(i % 2 == 0 ? "/tmp/f" : "/tmp/outside-dir", from);
            }
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void run(int worker, time_t until)
{
    unsigned long swaps = 0;
    for (unsigned long round = 0;; round++) {
        if (worker < PLACES) {
            swaps += swap_place(worker, round);
        } else if (worker == PLACES) {
            move_about(round);
        } else {
            meddle();
            usleep(2000);
        }
        if (round % 256 == 0 && time(NULL) >= until) {
            break;
        }
    }
    if (worker < PLACES) {
        printf("%lu\n", swaps);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    time_t until = time(NULL) + (argc > 1 ? atol(argv[1]) : 1);
    outside();
    /* Tight loops must not starve whom they are to meet. */
    (void)!nice(19);
    umask(022);
    for (int worker = 0; worker < PLACES + 2; worker++) {
        if (fork() == 0) {
            run(worker, until);
            _exit(0);
        }
    }
    while (wait(NULL) > 0 || errno == EINTR) {
    }
    return 0;
}
