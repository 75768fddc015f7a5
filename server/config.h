/* The configuration: one JSON file plus EXECHOST_* environment plus command-line flags, parsed once
 * into a const struct. An unknown key refuses to start, naming it. Every number has a default and a
 * hard range in one table (config_table) that README, code and tests share. */
#ifndef EXECHOST_SERVER_CONFIG_H
#define EXECHOST_SERVER_CONFIG_H

#include "base/error.h"
#include "base/log.h"
#include "server/tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(member, json key, default, minimum, maximum, what it is) */
#define CONFIG_NUMBERS(X)                                                                          \
    X(port_threads, "eventThreads", 2, 1, 64, "event threads of the HTTP server")                  \
    X(worker_threads, "workerThreads", 32, 2, 1024, "threads for engine calls and files")          \
    X(worker_queue, "workerQueue", 1024, 1, 65536, "jobs that may wait for a worker")              \
    X(connections_max, "maxConnections", 16384, 16, 1048576, "open HTTP connections")              \
    X(body_max, "maxBodyBytes", 4194304, 65536, 67108864, "largest JSON request body")             \
    X(import_max, "maxImportBytes", 68719476736, 1048576, 17592186044416,                          \
      "largest exported checkpoint that is taken in")                                              \
    X(upload_max, "maxUploadBytes", 1073741824, 1048576, 1099511627776,                            \
      "largest file or archive sent as a request body")                                            \
    X(head_timeout_s, "idleTimeoutSeconds", 30, 1, 3600, "an idle or half-sent request is cut")    \
    X(whole_head_s, "headTimeoutSeconds", 60, 1, 3600,                                             \
      "for the whole head of a request, of a kept connection as long after its idle time")         \
    X(whole_body_s, "bodyTimeoutSeconds", 60, 1, 3600,                                             \
      "for its whole body, and a second more for each minBodyBytesPerSecond")                      \
    X(body_rate, "minBodyBytesPerSecond", 4096, 1, 1073741824, "slower bodies are cut")            \
    X(grace_ms, "graceMs", 3000, 100, 60000, "the end of a killed command is awaited that long")   \
    X(drain_ms, "drainMs", 10000, 0, 600000, "running commands get that long at SIGTERM")          \
    X(provision_timeout_ms, "provisionTimeoutMs", 120000, 1000, 3600000,                           \
      "creating and importing an execution")                                                       \
    X(checkpoint_timeout_ms, "checkpointTimeoutMs", 600000, 1000, 3600000, "making a checkpoint")  \
    X(file_timeout_ms, "fileTimeoutMs", 300000, 1000, 3600000,                                     \
      "one call for files or an archive of an execution")                                          \
    X(queue_max, "maxQueuedCommands", 64, 1, 4096, "commands that may wait in one execution")      \
    X(executions_max, "maxExecutions", 4096, 1, 1048576, "living executions")                      \
    X(uid, "uid", 65532, 1, 2147483646, "user id of commands (user is uid:gid)")                   \
    X(gid, "gid", 65532, 1, 2147483647, "group id of commands")                                    \
    X(zstd_level, "checkpointLevel", 1, 1, 19, "zstd level of checkpoint archives")

/* The same within "retention": how much of what is over is kept, and for how long; the oldest goes
 * first. Bytes are those of all tenants together. */
#define CONFIG_RETENTION(X)                                                                        \
    X(checkpoint_age_max, "checkpointMaxAgeMs", 2592000000, 1000, 315360000000,                    \
      "checkpoints, since they were made or imported here")                                        \
    X(checkpoint_bytes_max, "checkpointMaxBytes", 68719476736, 0, 9007199254740991,                \
      "checkpoint files together")                                                                 \
    X(record_age_max, "recordMaxAgeMs", 2592000000, 1000, 315360000000,                            \
      "records of executions and their commands, since the execution ended")                       \
    X(record_bytes_max, "recordMaxBytes", 2147483648, 0, 9007199254740991,                         \
      "records of ended executions together")                                                      \
    X(transcript_age_max, "transcriptMaxAgeMs", 604800000, 1000, 315360000000,                     \
      "transcripts, since the command ended")                                                      \
    X(transcript_bytes_max, "transcriptMaxBytes", 17179869184, 0, 9007199254740991,                \
      "transcripts of ended commands together")                                                    \
    X(run_age_max, "runMaxAgeMs", 604800000, 1000, 315360000000,                                   \
      "runs of programs with their events and results, since they ended")                          \
    X(run_bytes_max, "runMaxBytes", 17179869184, 0, 9007199254740991,                              \
      "records, events and results of ended runs together")                                        \
    X(sweep_interval_ms, "sweepIntervalMs", 60000, 100, 3600000, "between two looks at all that")

/* The same within "capacity": what living executions may be granted together, as a multiple of what
 * the machine has; 0: any amount. Limits are ceilings that few reach, so the multiples are large.
 */
#define CONFIG_CAPACITY(X)                                                                         \
    X(cpu_factor, "cpuFactor", 1024, 0, 1048576, "cpus, times those of the machine")               \
    X(memory_factor, "memoryFactor", 16, 0, 1048576, "memoryBytes, times the machine's memory")    \
    X(disk_factor, "diskFactor", 64, 0, 1048576,                                                   \
      "diskBytes, times the machine's memory, in which workspaces lie")                            \
    X(runs_max, "runs", 1024, 1, 65536, "runs of programs at once")

/* The same within "ptc": runs of programs. What a request names is capped by the larger numbers. */
#define CONFIG_PTC(X)                                                                              \
    X(ptc_timeout_ms, "defaultTimeoutMs", 120000, 1, 2147483647, "time of a run that names none")  \
    X(ptc_timeout_max_ms, "maxTimeoutMs", 600000, 1, 2147483647, "longest time of a run")          \
    X(ptc_memory, "memoryBytes", 1073741824, 67108864, 1099511627776,                              \
      "memory of a run that names none")                                                           \
    X(ptc_memory_max, "maxMemoryBytes", 4294967296, 67108864, 1099511627776,                       \
      "most memory of a run")                                                                      \
    X(ptc_pids, "pids", 128, 16, 4194304, "processes and threads of a run that names none")        \
    X(ptc_pids_max, "maxPids", 1024, 16, 4194304, "most processes and threads of a run")           \
    X(ptc_cpu_ms, "cpuMs", 600000, 1, 86400000, "CPU time of a run that names none")               \
    X(ptc_cpu_max_ms, "maxCpuMs", 3600000, 1, 86400000, "most CPU time of a run")                  \
    X(ptc_heap, "heapBytes", 536870912, 16777216, 1099511627776,                                   \
      "old generation of V8 of a run that names none")                                             \
    X(ptc_heap_max, "maxHeapBytes", 2147483648, 16777216, 1099511627776, "most of it")             \
    X(ptc_output, "outputBytes", 67108864, 4, 268435456,                                           \
      "logs and value of a run that names none")                                                   \
    X(ptc_output_max, "maxOutputBytes", 67108864, 4, 268435456, "most of it")                      \
    X(ptc_message_max, "maxMessageBytes", 134217728, 65536, 536870912,                             \
      "a frame, calls outstanding and answers queued of a run, each")                              \
    X(ptc_pending_max, "maxPendingCalls", 128, 1, 65536, "calls of a run that wait for an answer") \
    X(ptc_pool_size, "poolSize", 2, 0, 256, "processes kept ready of each kind in use")            \
    X(ptc_pool_max, "maxPool", 8, 0, 1024, "processes kept ready together")                        \
    X(ptc_first_id, "firstId", 1880096768, 65536, 4294901759,                                      \
      "first of the user and group ids that runs have outside, one each")                          \
    X(ptc_id_count, "idCount", 4096, 1, 65536, "how many ids there are")

/* The same within "sharedStore". */
#define CONFIG_SHARED(X)                                                                           \
    X(shared_attempts, "maxAttempts", 5, 1, 20, "of each request to the shared store")             \
    X(shared_stall_s, "stallSeconds", 30, 1, 3600,                                                 \
      "a transfer that stands still that long is cut")                                             \
    X(shared_multipart, "multipartBytes", 67108864, 5242880, 5368709120,                           \
      "larger files are sent in parts")                                                            \
    X(shared_part, "partBytes", 16777216, 5242880, 5368709120, "of a part")                        \
    X(shared_parallel, "parallel", 4, 1, 16, "parts or ranges at a time")                          \
    X(shared_sweep_s, "sweepSeconds", 3600, 1, 86400,                                              \
      "how often what nobody needs any more is looked for")

/* Per tenant, absolute paths. */
struct config_roots {
    char *tenant;
    char **roots; /* NULL-ended */
};

struct config {
#define X(member, key, def, min, max, what) int64_t member;
    CONFIG_NUMBERS(X)
    CONFIG_RETENTION(X)
    CONFIG_CAPACITY(X)
    CONFIG_PTC(X)
    CONFIG_SHARED(X)
#undef X
    char *listen;                   /* "listen", 127.0.0.1:8470 */
    char *data_dir;                 /* "dataDirectory", ./data; made absolute */
    char *socket_mode;              /* "socketMode": octal digits, "0660" */
    char *tls_certificate;          /* "tls": {"certificate": …}; absolute; NULL: no TLS */
    char *tls_key;                  /* "tls": {"key": …}; absolute */
    char *audit_log;                /* "auditLog": path, made absolute; NULL: none */
    char *checkpoint_dir;           /* "checkpointDirectory", <data>/checkpoints; absolute */
    char *docker_socket;            /* "docker": {"socket": …}, /var/run/docker.sock */
    bool docker_pull;               /* "docker": {"pull": "missing" | "never"}; missing */
    char *native_images;            /* "native": {"images": …}, <data>/native/images; absolute */
    bool native_fetch;              /* "native": {"fetch": "missing" | "never"}; missing */
    int64_t native_first_id;        /* "native": {"firstId": …} */
    int64_t native_id_count;        /* "native": {"idCount": …} */
    char *default_host;             /* "defaultHost": "native" | "docker"; NULL: chosen */
    bool allow_unpinned_images;     /* "allowUnpinnedImages", false */
    bool require_fencing;           /* "requireFencing", false */
    bool compress_checkpoints;      /* "checkpointCompression": "zstd" | "none"; zstd */
    char **cors_origins;            /* "corsOrigins", NULL-ended */
    struct config_roots *git_roots; /* "gitRoots": {"<tenant>": ["/srv/repositories"]} */
    size_t git_roots_count;
    char *ptc_node;                 /* "ptc": {"node": …}; NULL: node of PATH */
    char *ptc_bwrap;                /* "ptc": {"bubblewrap": …}; NULL: bwrap of PATH */
    char *ptc_default_mode;         /* "ptc": {"defaultMode": …}, read-only */
    bool ptc_danger;                /* "ptc": {"allowFullAccess": true | false}; false */
    bool ptc_network;               /* "ptc": {"network": "host" | "none"}; none */
    struct config_roots *ptc_roots; /* "ptc": {"workspaceRoots": {"<tenant>": […]}} */
    size_t ptc_roots_count;
    /* "sharedStore": NULL endpoint: none. */
    char *shared_endpoint;
    char *shared_region;
    char *shared_bucket;
    char *shared_prefix; /* NULL: none; segments without a slash at either end */
    bool shared_path_style;
    char *shared_ca_file;     /* NULL: the system's */
    char *shared_credentials; /* "credentialsFile", NULL: the environment's */
    struct quotas quotas;     /* "quotas": where a token says nothing else, and without tokens */
    struct token *tokens; /* "tokens": [{"sha256", "tenant", "scopes", "quotas"}]; none: loopback
                           * only */
    size_t token_count;
    enum log_level log_level; /* "logLevel": debug | info | warn | error */
};

struct config_flags {
    const char *file;   /* --config or NULL */
    const char *listen; /* --listen or NULL */
    const char *data;   /* --data or NULL */
};

/* Order of precedence: flag, environment (EXECHOST_LISTEN, EXECHOST_DATA, EXECHOST_CONFIG and
 * EXECHOST_<KEY IN UPPER SNAKE CASE> for every scalar key), file, default. ERROR_INVALID_REQUEST
 * with the key in `field`. `user` ("uid:gid") is the key for the two ids. */
int config_load(const struct config_flags *flags, struct config *out,
                struct error *err) WARN_UNUSED;
/* The same of one JSON text and the defaults alone. */
int config_parse(const char *text, size_t len, struct config *out, struct error *err) WARN_UNUSED;
void config_done(struct config *config);
/* Prints the table of keys: one line each with key, default, range and what it is. */
void config_describe(FILE *out);
/* "socketMode" as a number. */
unsigned config_socket_mode(const struct config *config);
/* The roots of a tenant, NULL-ended, or NULL. Borrowed. */
const char *const *config_ptc_roots_of(const struct config *config, const char *tenant);
const char *const *config_git_roots_of(const struct config *config, const char *tenant);

#endif
