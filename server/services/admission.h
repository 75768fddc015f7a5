/* Who may still have something: what living executions, commands and runs of programs take, counted
 * for each tenant and together, against quotas and against what the machine can give.
 *
 * A share is taken before the thing it is for is put on record, and given back once nothing of it
 * is left and before anybody is told so: two who race can't both have the last of something, and
 * who has heard of an end finds room. Counts are in memory; a start makes them anew from what it
 * takes over. Any thread; one mutex, below all others, held for a few additions. */
#ifndef EXECHOST_SERVER_SERVICES_ADMISSION_H
#define EXECHOST_SERVER_SERVICES_ADMISSION_H

#include "server/service.h"

struct admission;

enum { ADMISSION_FILE_CALLS_MAX = 1024 };

struct admission_share {
    int64_t executions, nano_cpus, memory_bytes, disk_bytes;
    int64_t commands;   /* running or queued */
    int64_t runs;       /* of programs */
    int64_t file_calls; /* under way or waiting; no quota, ADMISSION_FILE_CALLS_MAX for everybody */
};

/* Looks at the machine. */
int admission_new(const struct config *config, struct admission **out,
                  struct error *err) WARN_UNUSED;
void admission_free(struct admission *a); /* NULL is fine */

/* ERROR_QUOTA_EXCEEDED, with the quota's name in the detail, where the tenant would have more than
 * `quotas` say; ERROR_OVERLOADED where all would have more than the machine's capacity. NULL
 * `quotas`: what there is already, which is counted in any case. */
int admission_take(struct admission *a, const char *tenant, const struct admission_share *share,
                   const struct quotas *quotas, struct error *err) WARN_UNUSED;
void admission_give(struct admission *a, const char *tenant, const struct admission_share *share);

/* What the tenant has; NULL: all together. */
void admission_used(struct admission *a, const char *tenant, struct admission_share *out);
/* The most that all may have together; 0: any amount. */
void admission_capacity(const struct admission *a, struct admission_share *out);

/* ERROR_QUOTA_EXCEEDED where what is stored of the tenant has reached its quota, or would with
 * `bytes` more. Reads the store. */
int admission_storing(struct service *s, const char *tenant, const struct quotas *quotas,
                      int64_t bytes, struct error *err) WARN_UNUSED;

#endif
