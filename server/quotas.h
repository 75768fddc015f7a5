/* How much a tenant may have and do at once: the closed table of limits, shared by configuration,
 * admission and README. What is counted is the tenant's; the numbers are those of the token that
 * asks. */
#ifndef EXECHOST_SERVER_QUOTAS_H
#define EXECHOST_SERVER_QUOTAS_H

#include <stdint.h>

/* X(member, json key, maximum, what is counted). The default of each is 0: no bound. */
#define QUOTAS(X)                                                                                  \
    X(executions, "executions", 1048576, "living executions")                                      \
    X(cpus, "cpus", 1048576, "cpus of living executions together")                                 \
    X(memory_bytes, "memoryBytes", 9007199254740991, "memoryBytes of living executions together")  \
    X(disk_bytes, "diskBytes", 9007199254740991, "diskBytes of living executions together")        \
    X(commands, "commands", 1048576, "commands running or queued")                                 \
    X(runs, "runs", 1048576, "runs of programs that are not settled")                              \
    X(stored_bytes, "storedBytes", 9007199254740991,                                               \
      "checkpoints, transcripts, records of what has ended, and runs")                             \
    X(requests_per_second, "requestsPerSecond", 1000000, "requests, with as many at once")

struct quotas {
#define X(member, key, max, what) int64_t member;
    QUOTAS(X)
#undef X
};

/* Who asks for something: the tenant whose it will be, and what that may have by the word of its
 * token. Borrows both. */
struct caller {
    const char *tenant;
    const struct quotas *quotas;
};

#endif
