#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "ptc/internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

enum { BITS = 8, RETRY_US = 2000 };

/* --- letters --- */

static void push(struct ptc_worker **list, struct ptc_worker *w)
{
    while (*list != NULL) {
        list = &(*list)->letter;
    }
    w->letter = NULL;
    *list = w;
}

static struct ptc_worker *pop(struct ptc_worker **list)
{
    struct ptc_worker *w = *list;
    if (w != NULL) {
        *list = w->letter;
        w->letter = NULL;
    }
    return w;
}

void ptc_helper_spawn(struct ptc_worker *w)
{
    struct ptc_engine *e = w->engine;
    pthread_mutex_lock(&e->lock);
    push(&e->to_spawn, w);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

void ptc_helper_remove(struct ptc_worker *w)
{
    struct ptc_engine *e = w->engine;
    pthread_mutex_lock(&e->lock);
    push(&e->to_remove, w);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

void ptc_helper_empty(struct ptc_engine *e, int pidfd)
{
    pthread_mutex_lock(&e->lock);
    bool room = e->empty_count < PTC_EMPTY_MAX;
    if (room) {
        e->to_empty[e->empty_count++] = pidfd;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    if (!room) {
        close(pidfd);
    }
}

void ptc_helper_give_back(struct ptc_worker *w)
{
    struct ptc_engine *e = w->engine;
    pthread_mutex_lock(&e->lock);
    push(&e->arrived, w);
    pthread_mutex_unlock(&e->lock);
    ptc_loop_wake(e);
}

/* --- host ids --- */

static int take_slot(struct ptc_worker *w, struct error *err)
{
    struct ptc_engine *e = w->engine;
    for (uint32_t i = 0; i < e->config.uid_count; i++) {
        if ((e->slots[i / BITS] & (1U << (i % BITS))) == 0) {
            e->slots[i / BITS] = (unsigned char)(e->slots[i / BITS] | (1U << (i % BITS)));
            w->slot = i;
            return 0;
        }
    }
    return error_set(err, ERROR_OVERLOADED, "no host id is free");
}

static void give_slot(struct ptc_worker *w)
{
    if (w->slot >= 0) {
        unsigned char *byte = &w->engine->slots[w->slot / BITS];
        *byte = (unsigned char)(*byte & ~(1U << (w->slot % BITS)));
        w->slot = -1;
    }
}

/* --- the end of a process --- */

/* Whatever is left of it dies: also what left the process group. */
static void remove_traces(struct ptc_worker *w)
{
    struct ptc_engine *e = w->engine;
    int64_t deadline = clock_mono_ms() + e->config.grace_ms;
    while (w->group.count > 0) {
        int fault = fault_point("ptc.remove");
        if (fault == 0 && cgroup_remove(&e->groups, w->group_name) == 0) {
            break;
        }
        errno = fault != 0 ? fault : errno;
        if (errno != EBUSY || clock_mono_ms() > deadline) {
            /* Its host id stays taken: nothing else may meet what still lives. */
            w->stuck = true;
            cgroup_set_close(&w->group);
            log_error("processes of a program could not be ended", "group", w->group_name, NULL);
            return;
        }
        (void)!cgroup_kill(&w->group);
        (void)usleep(RETRY_US);
    }
    cgroup_set_close(&w->group);
    give_slot(w);
}

void ptc_helper_sweep(struct ptc_engine *e)
{
    for (uint32_t i = 0; e->grouped && i < e->config.uid_count; i++) {
        char name[32];
        struct cgroup_set group = CGROUP_SET_INIT;
        (void)snprintf(name, sizeof(name), "r%u", i);
        if (!cgroup_exists(&e->groups, name) ||
            cgroup_below(&e->groups, name, false, &group) != 0) {
            continue;
        }
        int64_t deadline = clock_mono_ms() + e->config.grace_ms;
        while (cgroup_remove(&e->groups, name) != 0 && clock_mono_ms() < deadline) {
            (void)!cgroup_kill(&group);
            (void)usleep(RETRY_US);
        }
        cgroup_set_close(&group);
    }
}

/* --- the thread --- */

/* Two processors take half of the time to give memory back, which is most of the end of a process.
 * [lock], given up meanwhile. */
static void empty_all(struct ptc_engine *e)
{
    while (e->empty_count > 0) {
        int pidfd = e->to_empty[--e->empty_count];
        pthread_mutex_unlock(&e->lock);
        (void)syscall(SYS_process_mrelease, pidfd, 0);
        close(pidfd);
        pthread_mutex_lock(&e->lock);
    }
}

static struct ptc_worker *wait_for_work(struct ptc_engine *e, bool *spawn)
{
    struct ptc_worker *w = NULL;
    pthread_mutex_lock(&e->lock);
    empty_all(e);
    while (e->to_remove == NULL && e->to_spawn == NULL && !e->helper_ends) {
        pthread_cond_wait(&e->changed, &e->lock);
        empty_all(e);
    }
    *spawn = e->to_remove == NULL;
    w = pop(*spawn ? &e->to_spawn : &e->to_remove);
    pthread_mutex_unlock(&e->lock);
    return w;
}

/* Processes are started here only: they die with the thread that started them. */
void *ptc_helper_main(void *engine)
{
    struct ptc_engine *e = engine;
    struct ptc_worker *w;
    bool spawn = false;
    while ((w = wait_for_work(e, &spawn)) != NULL) {
        if (!spawn) {
            remove_traces(w);
        } else if (take_slot(w, &w->failure) == 0) {
            (void)!ptc_sandbox_spawn(w, &w->failure);
        }
        ptc_helper_give_back(w);
    }
    return NULL;
}
