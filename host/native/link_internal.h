/* Shared by the two halves of links: connections (link.c) and their commands (link_command.c). */
#ifndef EXECHOST_HOST_NATIVE_LINK_INTERNAL_H
#define EXECHOST_HOST_NATIVE_LINK_INTERNAL_H

#include "host/native/link.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

enum { LINK_KEY_SIZE = 200, LINK_BUCKETS = 512, LINK_HELPED_MAX = 64 };

struct link_waiter {
    uint32_t serial;
    bool done;
    struct shim_event reply;
    LIST_ENTRY(link_waiter) entry;
};

struct link_helped {
    uint32_t serial;
    int status;
};

/* Set under the link's lock by whoever starts a command; while `active` the thread's alone. */
struct link_running {
    bool active;
    char id[SHIM_ID_SIZE];
    char *name;
    char *cwd;
    struct host_exec_events events;
    int64_t skip[2];
    bool muted; /* the receiver takes no more output */
    int spool;
    int64_t at; /* how far the spool has been read */
    int errnum; /* why it could not be */
};

struct link {
    struct links *links;
    char key[LINK_KEY_SIZE];
    atomic_uint refs;
    int fd;
    pid_t child;
    pid_t pid;
    bool frozen;
    char **environment;
    bool listed; /* [links] */
    LIST_ENTRY(link) entry;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool alive;                                   /* [lock] */
    bool closed;                                  /* [lock] */
    bool published;                               /* [lock] */
    uint32_t serial;                              /* [lock] */
    LIST_HEAD(link_waiters, link_waiter) waiters; /* [lock] */
    struct link_helped helped[LINK_HELPED_MAX];   /* [lock] the newest */
    size_t helped_next;                           /* [lock] */
    struct link_running command;
};

struct links {
    int run_fd;
    struct host_observer observer;
    int epoll;
    int stop;
    bool running;
    pthread_t thread;
    pthread_mutex_t lock;
    LIST_HEAD(link_bucket, link) buckets[LINK_BUCKETS]; /* [lock] */
    LIST_HEAD(link_claims, link_claim) claims;          /* [lock] */
};

/* Its end is told by a command's. */
void link_ended(struct link *k);

/* [lock] ERROR_RUNTIME while another one is active. */
int link_command_begin(struct link *k, const struct link_command *command,
                       struct error *err) WARN_UNUSED;
/* On the thread. */
void link_command_output(struct link *k, const struct shim_event *event);
void link_command_finished(struct link *k, const struct shim_event *event);
void link_command_lost(struct link *k, const char *detail);
/* The service ends, the command does not. */
void link_command_let_go(struct link *k);
void link_command_forget(struct link *k);

/* record.c's, without the rest of it. */
bool link_key_parse(char *key, struct host_identity *out);

#endif
