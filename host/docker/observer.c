#include "host/docker/observer.h"

#include "base/log.h"
#include "host/docker/container.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { RETRY_S = 2 };

struct observed {
    struct observed *next;
    char container[CONTAINER_ID_SIZE];
    char *tenant;
    char *execution;
    unsigned incarnation;
    bool published;
    bool ended;
    bool helper_ready;
};

struct observer {
    struct engine *engine;
    char *instance;
    struct host_observer events;
    pthread_mutex_t lock; /* list, resync, stop */
    pthread_cond_t changed;
    struct observed *list;
    bool resync;
    bool stop;
    struct cancel *cancel; /* ends the resync's engine call */
    pthread_t thread;
};

static void observed_free(struct observed *entry)
{
    if (entry != NULL) {
        free(entry->tenant);
        free(entry->execution);
        free(entry);
    }
}

/* With the lock held. */
static struct observed **find(struct observer *o, const char *container)
{
    struct observed **link = &o->list;

    while (*link != NULL && strcmp((*link)->container, container) != 0) {
        link = &(*link)->next;
    }
    return link;
}

static struct host_identity identity_of(const struct observed *entry)
{
    return (struct host_identity){.tenant = entry->tenant,
                                  .execution_id = entry->execution,
                                  .incarnation = entry->incarnation};
}

int observer_add(struct observer *o, const char *container, const struct host_identity *id,
                 struct error *err)
{
    struct observed *entry = calloc(1, sizeof(*entry));

    if (entry == NULL || (entry->tenant = strdup(id->tenant)) == NULL ||
        (entry->execution = strdup(id->execution_id)) == NULL) {
        observed_free(entry);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    entry->incarnation = id->incarnation;
    snprintf(entry->container, sizeof(entry->container), "%s", container);
    observer_remove(o, container);
    pthread_mutex_lock(&o->lock);
    entry->next = o->list;
    o->list = entry;
    pthread_mutex_unlock(&o->lock);
    return 0;
}

/* Takes it out of the list; NULL when it is not there. */
static struct observed *take(struct observer *o, const char *container)
{
    struct observed **link;
    struct observed *entry;

    pthread_mutex_lock(&o->lock);
    link = find(o, container);
    entry = *link;
    if (entry != NULL) {
        *link = entry->next;
    }
    pthread_mutex_unlock(&o->lock);
    return entry;
}

void observer_remove(struct observer *o, const char *container)
{
    observed_free(take(o, container));
}

bool observer_publish(struct observer *o, const char *container)
{
    struct observed *entry;
    bool alive;

    pthread_mutex_lock(&o->lock);
    entry = *find(o, container);
    alive = entry != NULL && !entry->ended;
    if (alive) {
        entry->published = true;
    }
    pthread_mutex_unlock(&o->lock);
    return alive;
}

bool observer_helper_ready(struct observer *o, const char *container)
{
    struct observed *entry;
    bool ready;

    pthread_mutex_lock(&o->lock);
    entry = *find(o, container);
    ready = entry != NULL && entry->helper_ready;
    pthread_mutex_unlock(&o->lock);
    return ready;
}

void observer_set_helper_ready(struct observer *o, const char *container)
{
    struct observed *entry;

    pthread_mutex_lock(&o->lock);
    entry = *find(o, container);
    if (entry != NULL) {
        entry->helper_ready = true;
    }
    pthread_mutex_unlock(&o->lock);
}

/* --- what the engine tells --- */

static void ended(struct observer *o, const char *container, const char *detail)
{
    struct observed **link;
    struct observed *entry;

    pthread_mutex_lock(&o->lock);
    link = find(o, container);
    entry = *link;
    if (entry != NULL && entry->published) {
        *link = entry->next;
    } else if (entry != NULL) {
        entry->ended = true;
        entry = NULL;
    }
    pthread_mutex_unlock(&o->lock);
    if (entry != NULL) {
        struct host_identity id = identity_of(entry);

        o->events.gone(o->events.ctx, &id, detail);
        observed_free(entry);
    }
}

static void out_of_memory(struct observer *o, const char *container)
{
    struct observed copy = {0};
    struct observed *entry;

    pthread_mutex_lock(&o->lock);
    entry = *find(o, container);
    if (entry != NULL && entry->published) {
        copy.tenant = strdup(entry->tenant);
        copy.execution = strdup(entry->execution);
        copy.incarnation = entry->incarnation;
    }
    pthread_mutex_unlock(&o->lock);
    if (copy.tenant != NULL && copy.execution != NULL) {
        struct host_identity id = identity_of(&copy);

        o->events.oom(o->events.ctx, &id);
    }
    free(copy.tenant);
    free(copy.execution);
}

static void on_event(void *ctx, const json_t *event)
{
    struct observer *o = ctx;
    const json_t *actor = json_object_get(event, "Actor");
    const char *action = json_string_value(json_object_get(event, "Action"));
    const char *container = json_string_value(json_object_get(actor, "ID"));
    const char *code =
        json_string_value(json_object_get(json_object_get(actor, "Attributes"), "exitCode"));
    char detail[96];

    if (action == NULL || container == NULL) {
        return;
    }
    if (strcmp(action, "oom") == 0) {
        out_of_memory(o, container);
    } else if (strcmp(action, "die") == 0) {
        snprintf(detail, sizeof(detail), "the container ended with exit code %.10s",
                 code != NULL ? code : "unknown");
        ended(o, container, detail);
    } else if (strcmp(action, "destroy") == 0) {
        ended(o, container, "the container was removed");
    }
}

/* Events that happened while nobody listened are not told again: who is still there must be asked.
 */
static void on_connected(void *ctx, bool up)
{
    struct observer *o = ctx;

    o->events.up(o->events.ctx, up);
    if (up) {
        pthread_mutex_lock(&o->lock);
        o->resync = true;
        pthread_cond_signal(&o->changed);
        pthread_mutex_unlock(&o->lock);
    }
}

/* --- after a gap --- */

/* The ids that were in use before the engine is asked. Returns owned. */
static json_t *snapshot(struct observer *o)
{
    json_t *ids = json_array();

    pthread_mutex_lock(&o->lock);
    for (const struct observed *entry = o->list; entry != NULL; entry = entry->next) {
        (void)json_array_append_new(ids, json_string(entry->container));
    }
    pthread_mutex_unlock(&o->lock);
    return ids;
}

static bool is_alive(const json_t *containers, const char *id)
{
    size_t i;
    const json_t *container;

    json_array_foreach(containers, i, container)
    {
        const char *name = json_string_value(json_object_get(container, "Id"));
        const char *state = json_string_value(json_object_get(container, "State"));

        if (name != NULL && state != NULL && strcmp(name, id) == 0) {
            return strcmp(state, "exited") != 0 && strcmp(state, "dead") != 0 &&
                   strcmp(state, "removing") != 0;
        }
    }
    return false;
}

static int list_own(struct observer *o, struct engine_answer *answer, struct error *err)
{
    _cleanup_buf_ struct buf path;
    struct engine_request request = {.verb = "resync", .method = "GET", .cancel = o->cancel};
    char label[192];

    buf_init(&path, 4096);
    snprintf(label, sizeof(label), "{\"label\":[\"" CONTAINER_LABEL_INSTANCE "=%s\"]}",
             o->instance);
    if (buf_add_str(&path, "/containers/json?all=1&filters=") < 0 ||
        engine_escape(&path, label) < 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    request.path = buf_str(&path);
    if (engine_call(o->engine, &request, answer, err) < 0) {
        return -1;
    }
    if (answer->status != 200) {
        engine_answer_done(answer);
        return error_set(err, ERROR_RUNTIME, "the engine does not list containers");
    }
    return 0;
}

/* -1: could not ask. */
static int resync(struct observer *o)
{
    struct error err = ERROR_INIT;
    struct engine_answer answer;
    json_t *ids = snapshot(o);
    size_t i;
    const json_t *id;
    int result = 0;

    if (json_array_size(ids) > 0) {
        result = list_own(o, &answer, &err);
        if (result < 0) {
            log_failure(LOG_LEVEL_WARN, &err, "executions could not be checked after a gap", NULL);
        } else {
            json_array_foreach(ids, i, id)
            {
                if (!is_alive(answer.json, json_string_value(id))) {
                    ended(o, json_string_value(id),
                          "the container was gone when the engine came back");
                }
            }
            engine_answer_done(&answer);
        }
    }
    json_decref(ids);
    return result;
}

/* With the lock held; until something changes or a while has passed. */
static void pause_a_while(struct observer *o)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RETRY_S;
    (void)pthread_cond_timedwait(&o->changed, &o->lock, &until);
}

static void *observer_main(void *arg)
{
    struct observer *o = arg;

    pthread_mutex_lock(&o->lock);
    while (!o->stop) {
        if (!o->resync) {
            pthread_cond_wait(&o->changed, &o->lock);
            continue;
        }
        o->resync = false;
        pthread_mutex_unlock(&o->lock);
        int result = resync(o);

        pthread_mutex_lock(&o->lock);
        if (result < 0 && !o->stop) {
            o->resync = true;
            pause_a_while(o);
        }
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* --- life --- */

static int start(struct observer *o, struct engine_loop *loop, struct error *err)
{
    struct engine_watch_events watch = {.line = on_event, .connected = on_connected, .ctx = o};
    char label[160];
    int code = pthread_create(&o->thread, NULL, observer_main, o);

    if (code != 0) {
        o->stop = true;
        return error_set_errno(err, ERROR_INTERNAL, code, "thread");
    }
    snprintf(label, sizeof(label), CONTAINER_LABEL_INSTANCE "=%s", o->instance);
    return engine_loop_watch(loop, label, &watch, err);
}

int observer_new(struct engine *engine, struct engine_loop *loop, const char *instance,
                 const struct host_observer *events, struct observer **out, struct error *err)
{
    struct observer *o = calloc(1, sizeof(*o));

    if (o == NULL || (o->instance = strdup(instance)) == NULL) {
        free(o);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    o->engine = engine;
    o->events = *events;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    if (cancel_new(&o->cancel, err) < 0 || start(o, loop, err) < 0) {
        observer_free(o);
        return -1;
    }
    *out = o;
    return 0;
}

void observer_stop(struct observer *o)
{
    bool running;

    pthread_mutex_lock(&o->lock);
    running = !o->stop && o->cancel != NULL;
    o->stop = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
    if (running) {
        cancel_fire(o->cancel);
        pthread_join(o->thread, NULL);
    }
}

void observer_free(struct observer *o)
{
    if (o == NULL) {
        return;
    }
    observer_stop(o);
    cancel_unref(o->cancel);
    while (o->list != NULL) {
        struct observed *entry = o->list;

        o->list = entry->next;
        observed_free(entry);
    }
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o->instance);
    free(o);
}
