#include "server/commands/commands.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "host/native/needs.h"
#include "ptc/ptc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

enum { VERSION_TIMEOUT_MS = 10000, VERSION_OUTPUT_MAX = 256 };
enum { ENGINE_API_MAJOR = 1, ENGINE_API_MINOR = 41 };
enum { FILES_WANTED = 4096 };
static const uint64_t MIB = 1024 * 1024;
enum { DISK_FAIL_MIB = 64, DISK_WARN_MIB = 2048 };

/* Bits, so that several can be taken together. */
enum verdict { VERDICT_OK = 0, VERDICT_WARN = 1, VERDICT_FAIL = 2 };
enum { TEXT_MAX = 1024 };

/* Prints one line; `fix` is left out where there is nothing to fix. */
static enum verdict say(enum verdict verdict, const char *name, const char *text, const char *fix)
{
    static const char *const words[] = {
        [VERDICT_OK] = "ok  ", [VERDICT_WARN] = "warn", [VERDICT_FAIL] = "FAIL"};

    printf("%s  %s: %s%s%s\n", words[verdict], name, text, fix != NULL ? " — " : "",
           fix != NULL ? fix : "");
    return verdict;
}

/* The directory itself or the nearest one above it that exists. */
static void nearest_existing(const char *path, char *out, size_t size)
{
    char *slash;

    snprintf(out, size, "%s", path);
    while (access(out, F_OK) != 0 && (slash = strrchr(out, '/')) != NULL && slash != out) {
        *slash = '\0';
    }
    if (access(out, F_OK) != 0) {
        snprintf(out, size, "/");
    }
}

static enum verdict check_data_directory(const struct config *config)
{
    char existing[PATH_MAX];
    char text[PATH_MAX + 64];
    struct stat st;

    nearest_existing(config->data_dir, existing, sizeof(existing));
    if (stat(existing, &st) != 0 || !S_ISDIR(st.st_mode) || access(existing, W_OK | X_OK) != 0) {
        snprintf(text, sizeof(text), "%s can't be written", existing);
        return say(VERDICT_FAIL, "data directory", text,
                   "choose another one with --data, or run as a user who may write there");
    }
    snprintf(text, sizeof(text), "%s%s", config->data_dir,
             strcmp(existing, config->data_dir) == 0 ? "" : " will be made");
    return say(VERDICT_OK, "data directory", text, NULL);
}

static enum verdict check_disk(const struct config *config)
{
    char existing[PATH_MAX];
    char text[96];
    struct statvfs fs;
    uint64_t free_mib;
    enum verdict verdict = VERDICT_OK;

    nearest_existing(config->data_dir, existing, sizeof(existing));
    if (statvfs(existing, &fs) != 0) {
        return say(VERDICT_WARN, "disk space", strerror(errno),
                   "look at the data directory's disk");
    }
    free_mib = (uint64_t)fs.f_bavail * fs.f_frsize / MIB;
    if (free_mib < DISK_FAIL_MIB) {
        verdict = VERDICT_FAIL;
    } else if (free_mib < DISK_WARN_MIB) {
        verdict = VERDICT_WARN;
    }
    snprintf(text, sizeof(text), "%" PRIu64 " MiB free for transcripts and checkpoints", free_mib);
    return say(verdict, "disk space", text,
               verdict == VERDICT_OK ? NULL : "free some, or choose another directory with --data");
}

static enum verdict check_kernel(void)
{
    _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int self = file_open_beneath(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    struct utsname name;

    uname(&name);
    if (self < 0) {
        return say(VERDICT_FAIL, "kernel", name.release, "openat2 is needed: Linux 5.6 or later");
    }
    return say(VERDICT_OK, "kernel", name.release, NULL);
}

static enum verdict check_files(const struct config *config)
{
    uint64_t wanted = (uint64_t)config->connections_max + FILES_WANTED;
    struct rlimit limit;
    char text[96];

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return say(VERDICT_WARN, "open files", strerror(errno), "raise the limit (ulimit -Hn)");
    }
    snprintf(text, sizeof(text), "up to %" PRIu64 " (%" PRId64 " connections are configured)",
             (uint64_t)limit.rlim_max, config->connections_max);
    if (limit.rlim_max < wanted) {
        return say(VERDICT_WARN, "open files", text,
                   "raise the hard limit (ulimit -Hn, LimitNOFILE=) or lower maxConnections");
    }
    return say(VERDICT_OK, "open files", text, NULL);
}

/* The first line of what `program --version` says; -1 when it does not run. */
static int version_of(const char *program, const char *path, char text[VERSION_OUTPUT_MAX])
{
    const char *const argv[] = {program, "--version", NULL};
    const char *const envp[] = {path, NULL};
    _cleanup_buf_ struct buf out;
    _cleanup_buf_ struct buf diag;
    struct child_run run = {.spec = {.argv = argv, .envp = envp},
                            .deadline_mono_ms = clock_mono_ms() + VERSION_TIMEOUT_MS,
                            .out = &out,
                            .diag = &diag};
    struct error err = ERROR_INIT;

    buf_init(&out, VERSION_OUTPUT_MAX);
    buf_init(&diag, VERSION_OUTPUT_MAX);
    if (child_run(&run, &err) != 0 || run.status != 0) {
        return -1;
    }
    snprintf(text, VERSION_OUTPUT_MAX, "%.*s", (int)strcspn(buf_str(&out), "\n"), buf_str(&out));
    return 0;
}

static enum verdict check_git(void)
{
    char text[VERSION_OUTPUT_MAX];

    if (version_of("git", "PATH=/usr/bin:/bin", text) != 0) {
        return say(VERDICT_WARN, "git",
                   "git does not run; workspaces of kind git-worktree will fail", "install git");
    }
    return say(VERDICT_OK, "git", text, NULL);
}

/* What runs of programs need. */
static enum verdict check_programs(const struct config *config)
{
    const char *bwrap = config->ptc_bwrap != NULL ? config->ptc_bwrap : "bwrap";
    struct error err = ERROR_INIT;
    _cleanup_free_ char *node = ptc_find_node(config->ptc_node, NULL, &err);
    char version[VERSION_OUTPUT_MAX];
    char text[TEXT_MAX];

    if (node == NULL) {
        return say(VERDICT_WARN, "programs", err.detail,
                   "install Node.js 22.13 or newer, or set ptc.node");
    }
    if (version_of(bwrap, "PATH=/usr/bin:/bin", version) != 0) {
        return say(VERDICT_WARN, "programs", "bubblewrap does not run",
                   "install bubblewrap, or set ptc.bubblewrap");
    }
    snprintf(text, sizeof(text), "%.512s, %s", node, version);
    return say(VERDICT_OK, "programs", text, NULL);
}

/* --- the engine --- */

static int probe(const struct config *config, struct host_status *status, struct error *err)
{
    struct host *host = NULL;

    if (command_host_open(config, &host, err) != 0) {
        return -1;
    }
    host->ops->probe(host, status);
    command_host_close(host);
    return 0;
}

static bool api_is_new_enough(const char *version)
{
    char *end = NULL;
    long major = strtol(version, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

    return major > ENGINE_API_MAJOR || (major == ENGINE_API_MAJOR && minor >= ENGINE_API_MINOR);
}

/* Whether the engine can be worked with; `fix` says what to do where not. */
static bool look_at_engine(const struct config *config, char text[TEXT_MAX], const char **fix)
{
    struct host_status status = {0};
    struct error err = ERROR_INIT;

    if (access(config->docker_socket, F_OK) != 0) {
        snprintf(text, TEXT_MAX, "there is no socket at %s", config->docker_socket);
        *fix =
            "install and start a Docker engine (apt-get install docker.io), or set docker.socket";
        return false;
    }
    if (access(config->docker_socket, R_OK | W_OK) != 0) {
        snprintf(text, TEXT_MAX, "%s may not be used by this user", config->docker_socket);
        *fix = "run as root or join the socket's group";
        return false;
    }
    if (probe(config, &status, &err) != 0 || !status.available) {
        snprintf(text, TEXT_MAX, "%s: %s", config->docker_socket,
                 err.code != ERROR_NONE ? err.detail : status.reason);
        *fix = "start the engine and look at its log";
        return false;
    }
    snprintf(text, TEXT_MAX, "engine %s, API %s", status.engine_version, status.engine_api);
    *fix =
        api_is_new_enough(status.engine_api) ? NULL : "API 1.41 is needed: Docker 20.10 or later";
    return *fix == NULL;
}

/* --- the hosts --- */

/* One that can work will do, unless the configuration wants a certain one. */
static enum verdict lack_of(const struct config *config, const char *host, bool other_works)
{
    bool wanted = config->default_host != NULL && strcmp(config->default_host, host) == 0;

    return wanted || !other_works ? VERDICT_FAIL : VERDICT_WARN;
}

static bool all_met(const struct native_needs *needs)
{
    for (size_t i = 0; i < needs->count; i++) {
        if (!needs->items[i].met) {
            return false;
        }
    }
    return true;
}

static enum verdict check_hosts(const struct config *config)
{
    const struct native_needs_config wanted = {.images = config->native_images,
                                               .host_uid_first = (uint32_t)config->native_first_id,
                                               .host_uid_count = (uint32_t)config->native_id_count};
    struct native_needs needs;
    char text[TEXT_MAX];
    const char *fix = NULL;
    bool engine = look_at_engine(config, text, &fix);
    enum verdict worst = VERDICT_OK;
    enum verdict lack;

    native_needs_look(&wanted, &needs);
    lack = lack_of(config, "native", engine);
    for (size_t i = 0; i < needs.count; i++) {
        const struct native_need *need = &needs.items[i];
        char name[64];

        snprintf(name, sizeof(name), "native: %s", need->name);
        worst |= say(need->met ? VERDICT_OK : lack, name, need->text, need->fix);
    }
    lack = lack_of(config, "docker", all_met(&needs));
    return worst | say(engine ? VERDICT_OK : lack, "docker", text, fix);
}

static int examine(const struct config *config)
{
    const enum verdict verdicts[] = {
        check_kernel(), check_data_directory(config), check_disk(config),  check_files(config),
        check_git(),    check_programs(config),       check_hosts(config),
    };
    bool failed = false;

    for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++) {
        failed |= (verdicts[i] & VERDICT_FAIL) != 0;
    }
    return failed ? EXIT_FAULT : 0;
}

int command_doctor(int argc, char **argv)
{
    struct command_options options;
    struct config config;
    struct error err = ERROR_INIT;
    int first = command_options(argc, argv, false, &options);
    int status;

    if (first >= 0 && options.help) {
        printf("usage: exechost doctor [--config FILE] [--data DIR]\n");
        return 0;
    }
    if (first != argc) {
        fprintf(stderr, "usage: exechost doctor [--config FILE] [--data DIR]\n");
        return EXIT_USAGE;
    }
    log_set_level(LOG_LEVEL_ERROR);
    if (config_load(&options.flags, &config, &err) != 0) {
        say(VERDICT_FAIL, "configuration", err.detail,
            "mend the key; exechost serve --help lists them");
        return EXIT_FAULT;
    }
    status = examine(&config);
    config_done(&config);
    return status;
}
