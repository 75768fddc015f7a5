#include "host/docker/process_running.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

struct docker_running {
    pthread_mutex_t lock;
    struct engine_loop *loop;
    TAILQ_HEAD(running_list, running) all;
};

int docker_running_new(struct engine_loop *loop, struct docker_running **out, struct error *err)
{
    struct docker_running *list = calloc(1, sizeof(*list));
    if (list == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&list->lock, NULL);
    list->loop = loop;
    TAILQ_INIT(&list->all);
    *out = list;
    return 0;
}

void docker_running_free(struct docker_running *list)
{
    if (list == NULL) {
        return;
    }
    pthread_mutex_destroy(&list->lock);
    free(list);
}

void running_lock(struct docker_running *list)
{
    pthread_mutex_lock(&list->lock);
}

void running_unlock(struct docker_running *list)
{
    pthread_mutex_unlock(&list->lock);
}

/* One step under the lock: its end may come on the loop's thread before this has returned, and
 * whoever finds it needs its stream. */
int running_add(struct docker_running *list, struct running *r, struct engine_loop *loop, int fd,
                const struct engine_stream_events *handler, struct error *err)
{
    struct engine_stream_events events = *handler;
    events.stream = &r->stream;
    running_lock(list);
    TAILQ_INSERT_TAIL(&list->all, r, entry);
    /* POLLOUT at first: what came with the answer waits to be looked at, what came with the request
     * to be sent. */
    int result = engine_loop_add(loop, fd, POLLIN | POLLOUT, &events, err);
    if (result != 0) {
        TAILQ_REMOVE(&list->all, r, entry);
    }
    running_unlock(list);
    return result;
}

void running_remove(struct docker_running *list, struct running *r)
{
    running_lock(list);
    TAILQ_REMOVE(&list->all, r, entry);
    running_unlock(list);
}

/* [lock] */
static struct running *find(struct docker_running *list, const struct docker_command_name *name,
                            struct error *err)
{
    struct running *r;
    TAILQ_FOREACH(r, &list->all, entry)
    {
        if (r->command_id != NULL && strcmp(r->command_id, name->command_id) == 0 &&
            strcmp(r->container, name->container) == 0) {
            return r;
        }
    }
    (void)error_set(err, ERROR_COMMAND_NOT_FOUND, "command %s is not running", name->command_id);
    return NULL;
}

/* [lock] */
static void send_soon(struct docker_running *list, struct running *r)
{
    if (host_input_ready(&r->input)) {
        engine_loop_rouse(list->loop, r->stream);
    }
}

int docker_process_input(struct docker_running *list, const struct docker_command_name *name,
                         const struct docker_input *input, struct error *err)
{
    int result = -1;
    running_lock(list);
    struct running *r = find(list, name, err);
    if (r != NULL) {
        result = host_input_add(&r->input, input->data, input->len, input->eof, err);
        send_soon(list, r);
    }
    running_unlock(list);
    return result;
}

int docker_process_signal(struct docker_running *list, const struct docker_command_name *name,
                          int signo, struct error *err)
{
    int result = -1;
    running_lock(list);
    struct running *r = find(list, name, err);
    if (r != NULL) {
        result = host_input_signal(&r->input, signo, err);
        send_soon(list, r);
    }
    running_unlock(list);
    return result;
}
