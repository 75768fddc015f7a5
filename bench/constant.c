/* The floor for answering a request: libmicrohttpd as the service configures it, and one constant
 * body of SIZE bytes whatever is asked. Prints its port, ends when its standard input does. */
#include <microhttpd.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 2, SIZE_MAX_BYTES = 1 << 20, IDLE_SECONDS = 30 };

static enum MHD_Result on_access(void *ctx, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **request)
{
    static int seen;
    struct MHD_Response *answer = ctx;

    (void)url;
    (void)method;
    (void)version;
    (void)data;
    (void)size;
    /* An answer at the first call, with the request not yet read, would close the connection. */
    if (*request == NULL) {
        *request = &seen;
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, answer);
}

static struct MHD_Response *constant_new(size_t size)
{
    struct MHD_Response *answer;
    char *body = malloc(size);

    if (body == NULL) {
        return NULL;
    }
    memset(body, 'x', size);
    answer = MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
    if (answer == NULL) {
        free(body);
        return NULL;
    }
    if (MHD_add_response_header(answer, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json") !=
        MHD_YES) {
        MHD_destroy_response(answer);
        return NULL;
    }
    return answer;
}

static void wait_for_end(void)
{
    char ignored;
    ssize_t got;

    do {
        got = read(STDIN_FILENO, &ignored, 1);
    } while (got > 0 || (got < 0 && errno == EINTR));
}

static int serve(struct MHD_Response *answer)
{
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, on_access,
                         answer, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
                         MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_END);
    const union MHD_DaemonInfo *info;

    if (daemon == NULL) {
        return -1;
    }
    info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (info != NULL) {
        printf("%" PRIu16 "\n", info->port);
        fflush(stdout);
        wait_for_end();
    }
    MHD_stop_daemon(daemon);
    return info != NULL ? 0 : -1;
}

int main(int argc, char **argv)
{
    long size = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
    struct MHD_Response *answer;
    int result;

    if (size <= 0 || size > SIZE_MAX_BYTES) {
        fprintf(stderr, "usage: bench_constant SIZE\n");
        return 2;
    }
    answer = constant_new((size_t)size);
    if (answer == NULL) {
        fprintf(stderr, "bench_constant: out of memory\n");
        return 1;
    }
    result = serve(answer);
    MHD_destroy_response(answer);
    if (result < 0) {
        fprintf(stderr, "bench_constant: the server does not start\n");
        return 1;
    }
    return 0;
}
