/* Shared by the two halves of files: when a call runs (files.c) and what it does (file_work.c). */
#ifndef EXECHOST_SERVER_SERVICES_FILES_PRIVATE_H
#define EXECHOST_SERVER_SERVICES_FILES_PRIVATE_H

#include "server/services/files.h"

#include <fcntl.h>
#include <stdatomic.h>

/* Written by one thread at a time: who makes it, then the worker; read once `over` is set. */
struct file_call {
    TAILQ_ENTRY(file_call) entry; /* [lock] while it waits */
    struct live_execution *execution;
    atomic_uint refs;
    atomic_bool over;
    char topic[48];
    enum file_kind kind;
    char *path;
    char *range;
    bool recursive;
    unsigned mode;
    int body_fd;
    int64_t body_size;
    int64_t fencing_token;
    bool admitted;          /* counts as one of its tenant's */
    struct log_trace trace; /* of the request that it is */
    struct cancel *cancel;  /* its execution's; set when it runs */
    struct file_result result;
    struct error error; /* code NONE when it went well */
};

/* Does it. Blocks on the host. */
int file_call_work(struct file_call *call, struct error *err) WARN_UNUSED;

#endif
