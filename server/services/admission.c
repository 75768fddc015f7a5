#include "server/services/admission.h"

#include "store/stored.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/sysinfo.h>

static const int64_t NANO = 1000000000;

struct tenant_share {
    LIST_ENTRY(tenant_share) entry;
    char tenant[ID_SIZE];
    struct admission_share used;
};

struct admission {
    pthread_mutex_t lock;
    LIST_HEAD(tenant_shares, tenant_share) tenants; /* [lock] as many as have tokens */
    struct admission_share used;                    /* [lock] of all */
    struct admission_share capacity;
};

/* --- the machine --- */

static int64_t machine_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return get_nprocs();
    }
    return CPU_COUNT(&set);
}

static int64_t machine_memory(void)
{
    struct sysinfo info;

    return sysinfo(&info) == 0 ? (int64_t)info.totalram * info.mem_unit : 0;
}

/* No more than can be counted. */
static int64_t times(int64_t factor, int64_t amount)
{
    int64_t product;

    return __builtin_mul_overflow(factor, amount, &product) ? INT64_MAX : product;
}

int admission_new(const struct config *config, struct admission **out, struct error *err)
{
    struct admission *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&a->lock, NULL);
    LIST_INIT(&a->tenants);
    a->capacity = (struct admission_share){
        .executions = config->executions_max,
        .nano_cpus = times(config->cpu_factor, machine_cpus() * NANO),
        .memory_bytes = times(config->memory_factor, machine_memory()),
        .disk_bytes = times(config->disk_factor, machine_memory()),
        .runs = config->runs_max,
    };
    *out = a;
    return 0;
}

void admission_free(struct admission *a)
{
    struct tenant_share *t;

    if (a == NULL) {
        return;
    }
    while ((t = LIST_FIRST(&a->tenants)) != NULL) {
        LIST_REMOVE(t, entry);
        free(t);
    }
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* --- the rules --- */

/* One kind of thing: what is there, what is asked, the bound; 0: none. */
struct amount {
    const char *name;
    int64_t used;
    int64_t asked;
    int64_t max;
    int64_t unit; /* for people */
};

static bool fits(const struct amount *m)
{
    return m->max == 0 || m->asked == 0 || (m->asked <= m->max && m->used <= m->max - m->asked);
}

/* Thousandths, where it is no whole number. */
static void amount_text(int64_t value, int64_t unit, char out[32])
{
    if (value % unit == 0) {
        snprintf(out, 32, "%" PRId64, value / unit);
    } else {
        snprintf(out, 32, "%.3f", (double)value / (double)unit);
    }
}

static int refuse(const struct amount *m, enum error_code code, const char *what, struct error *err)
{
    char used[32];
    char asked[32];
    char max[32];

    amount_text(m->used, m->unit, used);
    amount_text(m->asked, m->unit, asked);
    amount_text(m->max, m->unit, max);
    return error_set(err, code, "%s %s: %s in use, %s asked for, %s at most", what, m->name, used,
                     asked, max);
}

static int check_quotas(const struct admission_share *used, const struct admission_share *asked,
                        const struct quotas *q, struct error *err)
{
    const struct amount amounts[] = {
        {"executions", used->executions, asked->executions, q->executions, 1},
        {"cpus", used->nano_cpus, asked->nano_cpus, q->cpus * NANO, NANO},
        {"memoryBytes", used->memory_bytes, asked->memory_bytes, q->memory_bytes, 1},
        {"diskBytes", used->disk_bytes, asked->disk_bytes, q->disk_bytes, 1},
        {"commands", used->commands, asked->commands, q->commands, 1},
        {"runs", used->runs, asked->runs, q->runs, 1},
        {"calls for files", used->file_calls, asked->file_calls, ADMISSION_FILE_CALLS_MAX, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(amounts); i++) {
        if (!fits(&amounts[i])) {
            return refuse(&amounts[i], ERROR_QUOTA_EXCEEDED, "the tenant's quota", err);
        }
    }
    return 0;
}

static int check_capacity(const struct admission *a, const struct admission_share *asked,
                          struct error *err)
{
    const struct admission_share *used = &a->used;
    const struct admission_share *max = &a->capacity;
    const struct amount amounts[] = {
        {"executions", used->executions, asked->executions, max->executions, 1},
        {"cpus", used->nano_cpus, asked->nano_cpus, max->nano_cpus, NANO},
        {"memoryBytes", used->memory_bytes, asked->memory_bytes, max->memory_bytes, 1},
        {"diskBytes", used->disk_bytes, asked->disk_bytes, max->disk_bytes, 1},
        {"runs", used->runs, asked->runs, max->runs, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(amounts); i++) {
        /* What alone is more than the machine has could wait for ever: it may have it to itself. */
        bool alone = amounts[i].used == 0;

        if (!alone && !fits(&amounts[i])) {
            return refuse(&amounts[i], ERROR_OVERLOADED, "the capacity of the machine", err);
        }
    }
    return 0;
}

/* --- counting --- */

static void add(struct admission_share *to, const struct admission_share *share, int64_t sign)
{
    to->executions += sign * share->executions;
    to->nano_cpus += sign * share->nano_cpus;
    to->memory_bytes += sign * share->memory_bytes;
    to->disk_bytes += sign * share->disk_bytes;
    to->commands += sign * share->commands;
    to->runs += sign * share->runs;
    to->file_calls += sign * share->file_calls;
}

/* [lock] */
static struct tenant_share *find(struct admission *a, const char *tenant)
{
    struct tenant_share *t;

    LIST_FOREACH(t, &a->tenants, entry)
    {
        if (strcmp(t->tenant, tenant) == 0) {
            break;
        }
    }
    return t;
}

/* [lock] NULL when memory is out. */
static struct tenant_share *find_or_make(struct admission *a, const char *tenant)
{
    struct tenant_share *t = find(a, tenant);

    if (t == NULL && (t = calloc(1, sizeof(*t))) != NULL) {
        snprintf(t->tenant, sizeof(t->tenant), "%s", tenant);
        LIST_INSERT_HEAD(&a->tenants, t, entry);
    }
    return t;
}

int admission_take(struct admission *a, const char *tenant, const struct admission_share *share,
                   const struct quotas *quotas, struct error *err)
{
    int result = 0;

    pthread_mutex_lock(&a->lock);
    struct tenant_share *t = find_or_make(a, tenant);
    if (t == NULL) {
        result = error_set(err, ERROR_INTERNAL, "out of memory");
    } else if (quotas != NULL && (check_quotas(&t->used, share, quotas, err) != 0 ||
                                  check_capacity(a, share, err) != 0)) {
        result = -1;
    } else {
        add(&t->used, share, 1);
        add(&a->used, share, 1);
    }
    pthread_mutex_unlock(&a->lock);
    return result;
}

void admission_give(struct admission *a, const char *tenant, const struct admission_share *share)
{
    pthread_mutex_lock(&a->lock);
    struct tenant_share *t = find(a, tenant);
    if (t != NULL) {
        add(&t->used, share, -1);
        add(&a->used, share, -1);
    }
    pthread_mutex_unlock(&a->lock);
}

void admission_used(struct admission *a, const char *tenant, struct admission_share *out)
{
    static const struct admission_share nothing = {0};
    pthread_mutex_lock(&a->lock);
    const struct admission_share *used = &a->used;
    if (tenant != NULL) {
        const struct tenant_share *t = find(a, tenant);
        used = t == NULL ? &nothing : &t->used;
    }
    *out = *used;
    pthread_mutex_unlock(&a->lock);
}

void admission_capacity(const struct admission *a, struct admission_share *out)
{
    *out = a->capacity;
}

/* --- what is stored --- */

int admission_storing(struct service *s, const char *tenant, const struct quotas *quotas,
                      int64_t bytes, struct error *err)
{
    struct amount m = {"storedBytes", 0, bytes > 0 ? bytes : 1, quotas->stored_bytes, 1};
    struct store_stored stored = {0};

    if (m.max == 0) {
        return 0;
    }
    if (store_stored_bytes(s->store, tenant, &stored, err) != 0) {
        return -1;
    }
    m.used = store_stored_total(&stored);
    return fits(&m) ? 0 : refuse(&m, ERROR_QUOTA_EXCEEDED, "the tenant's quota", err);
}
