#include "cli/input.h"

#include "cli/client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

enum { PIECE = 64 * 1024, PATH_SIZE = 1024, FULL_PAUSE_MS = 100, FULL_PAUSES = 6000 };

struct cli_input {
    struct cli_client *client;
    char path[PATH_SIZE];
    pthread_t thread;
    int stop_fd;
    atomic_bool stopping;
};

/* True when it was taken. The program may read slowly: what waits for it is bounded over there. */
static bool send_piece(struct cli_input *input, const char *data, size_t len)
{
    struct error err = ERROR_INIT;
    char path[PATH_SIZE + 16];
    struct cli_request request = {.method = "POST", .path = path, .data = data, .data_len = len};
    struct timespec pause = {.tv_nsec = FULL_PAUSE_MS * 1000000L};

    snprintf(path, sizeof(path), "%s/stdin%s", input->path, len == 0 ? "?eof=true" : "");
    for (int i = 0; i < FULL_PAUSES && !atomic_load(&input->stopping); i++) {
        /* A key would let it be sent again, at the price of a write to the service's disk. */
        if (cli_call(input->client, &request, NULL, &err) == 0) {
            return true;
        }
        /* Not there yet: the request that makes the command is on its way. */
        if (err.code != ERROR_OVERLOADED && err.code != ERROR_COMMAND_NOT_FOUND) {
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return false;
}

static void *pass_on(void *opaque)
{
    struct cli_input *input = opaque;
    char data[PIECE];
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = input->stop_fd, .events = POLLIN}};

    for (;;) {
        ssize_t len;

        if (poll(fds, 2, -1) < 0 && errno == EINTR) {
            continue;
        }
        if (fds[1].revents != 0) {
            return NULL;
        }
        len = read(STDIN_FILENO, data, sizeof(data));
        if (!send_piece(input, data, len > 0 ? (size_t)len : 0) || len <= 0) {
            return NULL;
        }
    }
}

struct cli_input *cli_input_start(const char *server, const char *command_path, struct error *err)
{
    struct cli_input *input = calloc(1, sizeof(*input));

    if (input == NULL) {
        error_set(err, ERROR_INTERNAL, "no memory");
        return NULL;
    }
    input->stop_fd = eventfd(0, EFD_CLOEXEC);
    snprintf(input->path, sizeof(input->path), "%s", command_path);
    input->client = cli_client_new(server, err);
    if (input->client == NULL || input->stop_fd < 0 ||
        pthread_create(&input->thread, NULL, pass_on, input) != 0) {
        error_set(err, ERROR_INTERNAL, "standard input can't be passed on");
        cli_client_free(input->client);
        cleanup_close(&input->stop_fd);
        free(input);
        return NULL;
    }
    return input;
}

void cli_input_stop(struct cli_input *input)
{
    if (input == NULL) {
        return;
    }
    atomic_store(&input->stopping, true);
    if (eventfd_write(input->stop_fd, 1) == 0) {
        pthread_join(input->thread, NULL);
    }
    cli_client_free(input->client);
    cleanup_close(&input->stop_fd);
    free(input);
}
