#include "policy/policy.h"
#include "policy/rules.h"

#include "api/field.h"
#include "api/host.h"

#include <math.h>
#include <string.h>

static const int64_t NANO = 1000000000;

static const struct host_limit_ranges GENERAL = {
    .nano_cpus = {1, 128000000000},
    .memory_bytes = {4194304, 549755813888},
    .disk_bytes = {65536, 1099511627776},
    .pids = {1, 32768},
    .runtime_ms = {1, 86400000},
    .max_output_bytes = {1, 67108864},
};

struct resource_fields {
    double cpus;
    int64_t memory_bytes;
    int64_t disk_bytes;
    int64_t pids;
    int64_t runtime_ms;
    int64_t max_output_bytes;
};

static const struct api_field FIELDS[] = {
    {"cpus", API_NUMBER, true, offsetof(struct resource_fields, cpus)},
    {"memoryBytes", API_INTEGER, true, offsetof(struct resource_fields, memory_bytes)},
    {"diskBytes", API_INTEGER, true, offsetof(struct resource_fields, disk_bytes)},
    {"pids", API_INTEGER, true, offsetof(struct resource_fields, pids)},
    {"runtimeMs", API_INTEGER, true, offsetof(struct resource_fields, runtime_ms)},
    {"maxOutputBytes", API_INTEGER, true, offsetof(struct resource_fields, max_output_bytes)},
};

static const struct api_field_table TABLE = {FIELDS, ARRAY_SIZE(FIELDS), ERROR_RESOURCE_LIMIT};

const struct host_limit_ranges *policy_general_ranges(void)
{
    return &GENERAL;
}

static int refuse_range(const char *pointer, const char *name, const struct host_range *range,
                        const char *whose, struct error *err)
{
    char field[ERROR_FIELD_MAX];

    api_pointer_join(pointer, name, field);
    if (strcmp(name, "cpus") == 0 && range->min == 1) {
        return error_set_field(err, ERROR_RESOURCE_LIMIT, field,
                               "%s must be above 0 and at most %.9g%s", field,
                               (double)range->max / (double)NANO, whose);
    }
    if (strcmp(name, "cpus") == 0) {
        return error_set_field(err, ERROR_RESOURCE_LIMIT, field, "%s must be from %.9g to %.9g%s",
                               field, (double)range->min / (double)NANO,
                               (double)range->max / (double)NANO, whose);
    }
    return error_set_field(err, ERROR_RESOURCE_LIMIT, field, "%s must be from %lld to %lld%s",
                           field, (long long)range->min, (long long)range->max, whose);
}

static int check_ranges(const struct host_limits *limits, const char *pointer,
                        const struct host_limit_ranges *ranges, const char *whose,
                        struct error *err)
{
    const struct {
        const char *name;
        int64_t value;
        const struct host_range *range;
    } checks[] = {
        {"cpus", limits->nano_cpus, &ranges->nano_cpus},
        {"memoryBytes", limits->memory_bytes, &ranges->memory_bytes},
        {"diskBytes", limits->disk_bytes, &ranges->disk_bytes},
        {"pids", limits->pids, &ranges->pids},
        {"runtimeMs", limits->runtime_ms, &ranges->runtime_ms},
        {"maxOutputBytes", limits->max_output_bytes, &ranges->max_output_bytes},
    };

    for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
        if (checks[i].value < checks[i].range->min || checks[i].value > checks[i].range->max) {
            return refuse_range(pointer, checks[i].name, checks[i].range, whose, err);
        }
    }
    return 0;
}

/* -1 stands for everything that is out of any range and might not fit an integer. */
static int64_t to_nano(double cpus)
{
    double nano = cpus * (double)NANO;

    if (!(cpus > 0) || cpus > 128) {
        return -1;
    }
    return llround(nano);
}

static int read_resources(json_t *resources, const char *pointer,
                          const struct host_limit_ranges *ranges, struct host_limits *out,
                          struct error *err)
{
    struct resource_fields fields = {0};

    if (resources == NULL) {
        return error_set_field(err, ERROR_RESOURCE_LIMIT, pointer, "%s is missing", pointer);
    }
    if (api_fields_decode(resources, pointer, &TABLE, &fields, err) != 0) {
        return -1;
    }
    *out = (struct host_limits){
        .nano_cpus = to_nano(fields.cpus),
        .memory_bytes = fields.memory_bytes,
        .disk_bytes = fields.disk_bytes,
        .pids = fields.pids,
        .runtime_ms = fields.runtime_ms,
        .max_output_bytes = fields.max_output_bytes,
    };
    if (check_ranges(out, pointer, &GENERAL, "", err) != 0) {
        return -1;
    }
    return ranges == NULL ? 0 : check_ranges(out, pointer, ranges, " on this host", err);
}

int policy_resources(json_t *resources, const char *pointer, const struct host_limit_ranges *ranges,
                     struct host_limits *out, struct error *err)
{
    struct host_limits limits;

    if (read_resources(resources, pointer, ranges, &limits, err) != 0) {
        return error_in_phase(err, PHASE_VALIDATE);
    }
    *out = limits;
    return 0;
}

json_t *policy_resources_encode(const struct host_limits *limits)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "cpus", api_cpus_encode(limits->nano_cpus),
                     "memoryBytes", (json_int_t)limits->memory_bytes, "diskBytes",
                     (json_int_t)limits->disk_bytes, "pids", (json_int_t)limits->pids, "runtimeMs",
                     (json_int_t)limits->runtime_ms, "maxOutputBytes",
                     (json_int_t)limits->max_output_bytes);
}
