#include "server/commands/commands.h"

#include "base/log.h"
#include "server/service.h"

#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

/* Many short-lived threads' worth of heaps would keep memory that one or two can share. What a
 * request needs and frees is kept for the next one instead of going to the kernel and back. */
enum { HEAPS_MAX = 2, MAPPED_LEAST = 256 * 1024, HEAP_TOP_MAX = 512 * 1024 };

static void print_help(void)
{
    printf(
        "usage: exechost serve [--config FILE] [--listen HOST:PORT|unix:PATH|fd:N] [--data DIR]\n\n"
        "Keys of the configuration file (JSON), their defaults and ranges. Each scalar one may "
        "also be\n"
        "given in the environment: maxBodyBytes is EXECHOST_MAX_BODY_BYTES, docker.pull is\n"
        "EXECHOST_DOCKER_PULL; EXECHOST_CONFIG names the file, EXECHOST_DATA the data directory.\n"
        "A flag goes before the environment, that before the file.\n\n");
    config_describe(stdout);
}

/* Every waiting request, command and engine stream holds a descriptor. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Blocked in every thread from here on, so that the main thread alone takes them by sigwait. */
static void block_signals(sigset_t *set)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGPIPE, &ignore, NULL);
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void reload(struct service *service, const struct config_flags *flags)
{
    struct config fresh;
    struct error err = ERROR_INIT;

    if (config_load(flags, &fresh, &err) != 0) {
        log_failure(LOG_LEVEL_ERROR, &err, "the configuration can't be read, what was there stays",
                    NULL);
        return;
    }
    service_reload(service, &fresh);
    config_done(&fresh);
}

/* SIGHUP, which a closed terminal sends too, ends nothing. */
static void wait_for_signal(const sigset_t *set, struct service *service,
                            const struct config_flags *flags)
{
    sigset_t ending;
    int number = 0;

    while (sigwait(set, &number) != 0 || number == SIGHUP) {
        if (number == SIGHUP) {
            reload(service, flags);
        }
        number = 0;
    }
    log_info("stopping", "signal", number == SIGTERM ? "SIGTERM" : "SIGINT", NULL);
    /* The next one is not caught by anybody: it ends the process. */
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &ending, NULL);
}

static int serve(const struct config *config, const struct config_flags *flags)
{
    struct service *service = NULL;
    struct error err = ERROR_INIT;
    sigset_t signals;

    mallopt(M_ARENA_MAX, HEAPS_MAX);
    mallopt(M_MMAP_THRESHOLD, MAPPED_LEAST);
    mallopt(M_TRIM_THRESHOLD, HEAP_TOP_MAX);
    raise_file_limit();
    block_signals(&signals);
    if (service_start(config, &service, &err) != 0) {
        return command_fail("cannot start", &err);
    }
    printf("listening on %s\n", service_address(service));
    if (fflush(stdout) != 0) {
        log_warn("standard output is closed", NULL);
    }
    log_info("listening", "address", service_address(service), "version", EXECHOST_VERSION, NULL);
    wait_for_signal(&signals, service, flags);
    service_drain(service);
    service_free(service);
    log_info("stopped", NULL);
    return 0;
}

/* A service manager that listens hands its socket over as descriptor 3 (sd_listen_fds(3)). False
 * after a complaint. */
static bool take_activation(struct config_flags *flags)
{
    const char *pid = getenv("LISTEN_PID");
    const char *count = getenv("LISTEN_FDS");
    char own[24];

    snprintf(own, sizeof(own), "%ld", (long)getpid());
    if (pid == NULL || count == NULL || strcmp(pid, own) != 0) {
        return true;
    }
    if (strcmp(count, "1") != 0) {
        fprintf(stderr, "exechost: one socket can be handed over, not LISTEN_FDS=%s\n", count);
        return false;
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    flags->listen = "fd:3";
    return true;
}

int command_serve(int argc, char **argv)
{
    struct command_options options;
    struct config config;
    struct error err = ERROR_INIT;
    int first = command_options(argc, argv, false, &options);
    int status;

    if (first < 0) {
        return EXIT_USAGE;
    }
    if (options.help) {
        print_help();
        return 0;
    }
    if (first != argc) {
        fprintf(stderr, "exechost: serve takes no \"%s\"; see exechost serve --help\n",
                argv[first]);
        return EXIT_USAGE;
    }
    if (!take_activation(&options.flags)) {
        return EXIT_USAGE;
    }
    if (config_load(&options.flags, &config, &err) != 0) {
        return command_fail("configuration", &err);
    }
    log_set_level(config.log_level);
    status = serve(&config, &options.flags);
    config_done(&config);
    return status;
}
