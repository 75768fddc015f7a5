/* Reading checkpoints: verify and restore. */
#include "api/json.h"
#include "policy/policy.h"
#include "server/services/admission.h"
#include "server/services/checkpoints_private.h"
#include "server/services/executions.h"

#include <string.h>

/* --- reading --- */

int64_t checkpoint_apparent_bytes_max(int64_t disk_bytes)
{
    static const int64_t least = 64LL * 1024 * 1024;
    int64_t four = disk_bytes > INT64_MAX / 4 ? INT64_MAX : disk_bytes * 4;
    return four > least ? four : least;
}

static int open_of_row(struct service *s, const struct store_checkpoint *row,
                       struct store_checkpoint_files *files, struct workspace_manifest *m,
                       struct error *err)
{
    if (workspace_manifest_decode(m, row->manifest, strlen(row->manifest), err) != 0) {
        return -1;
    }
    bool compressed = m->facts.compression == WORKSPACE_COMPRESSION_ZSTD;
    if (store_checkpoint_files_open(s->config->checkpoint_dir, row->tenant, row->checkpoint_id,
                                    compressed, files, err) != 0) {
        return -1;
    }
    if (strcmp(files->manifest, row->manifest) != 0) {
        return error_set(err, ERROR_CHECKPOINT_INVALID,
                         "manifest.json differs from what was recorded");
    }
    /* An archive of holes must not take forever: no more than what writing it allows. */
    m->facts.apparent_bytes_max = checkpoint_apparent_bytes_max(m->resources.disk_bytes);
    return 0;
}

/* Files that are not as the row says may be gone, or another's, because it was deleted. */
int checkpoint_files_open(struct service *s, const char *tenant, const char *id,
                          struct store_checkpoint_files *files, struct workspace_manifest *manifest,
                          struct error *err)
{
    int64_t seen = 0;
    for (;;) {
        _cleanup_(store_checkpoint_done) struct store_checkpoint row = {0};
        struct error absent = ERROR_INIT;
        if (store_checkpoint_get(s->store, tenant, id, &row, &absent) != 0) {
            *err = absent;
            return -1;
        }
        if (row.row == seen) {
            return -1;
        }
        seen = row.row;
        store_checkpoint_files_done(files);
        workspace_manifest_done(manifest);
        error_clear(err);
        if (open_of_row(s, &row, files, manifest, err) == 0) {
            return 0;
        }
        if (err->code != ERROR_CHECKPOINT_INVALID) {
            return -1;
        }
    }
}

int checkpoint_reading_open(struct service *s, const char *tenant, const char *id,
                            struct checkpoint_reading **out, struct error *err)
{
    struct checkpoint_reading *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    r->service = s;
    if (checkpoint_hold_begin(s->checkpoints, &r->hold, CHECKPOINT_HOLD_READ, tenant, id, err) !=
        0) {
        free(r);
        return -1;
    }
    if (checkpoint_files_open(s, tenant, id, &r->files, &r->manifest, err) != 0) {
        checkpoint_reading_close(r);
        return -1;
    }
    *out = r;
    return 0;
}

void checkpoint_reading_close(struct checkpoint_reading *r)
{
    if (r == NULL) {
        return;
    }
    checkpoint_hold_end(r->service->checkpoints, &r->hold);
    store_checkpoint_files_done(&r->files);
    workspace_manifest_done(&r->manifest);
    free(r);
}

const struct workspace_manifest *checkpoint_reading_manifest(const struct checkpoint_reading *r)
{
    return &r->manifest;
}

int checkpoint_reading_reader(struct checkpoint_reading *r, struct workspace_reader **out,
                              struct error *err)
{
    return workspace_reader_new(r->files.archive_fd, r->files.files_fd, &r->manifest.facts, out,
                                err);
}

/* --- verify --- */

static int read_all(struct checkpoint_reading *r, struct error *err)
{
    struct workspace_reader *reader = NULL;
    if (checkpoint_reading_reader(r, &reader, err) != 0) {
        return -1;
    }
    int result = workspace_reader_run(reader, NULL, r->service->stop, err);
    workspace_reader_free(reader);
    if (result != 0) {
        service_name_the_stop(r->service, err);
    }
    return result;
}

int checkpoints_verify(struct service *s, const char *tenant, const char *id, json_t **out,
                       struct error *err)
{
    struct checkpoint_reading *r = NULL;
    int result = checkpoint_reading_open(s, tenant, id, &r, err);
    if (result == 0) {
        result = read_all(r, err);
    }
    checkpoint_reading_close(r);
    if (result != 0 && err->code != ERROR_CHECKPOINT_INVALID) {
        return -1;
    }
    const char *problem = err->detail;
    *out = api_verification_encode(&problem, result == 0 ? 0 : 1);
    return *out != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

/* --- restore --- */

struct restore_source {
    struct checkpoint_reading *reading;
    struct workspace_reader *reader;
};

void restore_source_free(struct restore_source *source)
{
    if (source == NULL) {
        return;
    }
    workspace_reader_free(source->reader);
    checkpoint_reading_close(source->reading);
    free(source);
}

/* Two passes: nothing of a bad archive may be seen inside, so the first one only verifies. */
int restore_source_provision(struct restore_source *source, struct host *host,
                             const struct host_provision_plan *plan, struct host_provisioned *out,
                             struct error *err)
{
    if (workspace_reader_run(source->reader, NULL, plan->cancel, err) != 0) {
        return error_in_phase(err, PHASE_LOAD);
    }
    return host->ops->restore(host, plan, source->reader, out, err);
}

/* Any digest of the image names it: first the reference as asked, then the name with each other
 * digest. */
static int find_image(struct host *host, const struct workspace_manifest *m, char **image,
                      struct error *err)
{
    if (host->ops->check_image(host, m->image, NULL, err) == 0) {
        *image = strdup(m->image);
        return 0;
    }
    const char *at = strchr(m->image, '@');
    int name = (int)(at == NULL ? strlen(m->image) : (size_t)(at - m->image));
    size_t i;
    json_t *digest;
    json_array_foreach(m->image_digests, i, digest)
    {
        _cleanup_buf_ struct buf reference;
        buf_init(&reference, 2048);
        struct error absent = ERROR_INIT;
        if (err->code == ERROR_IMAGE_NOT_FOUND &&
            buf_addf(&reference, "%.*s@%s", name, m->image, json_string_value(digest)) == 0 &&
            host->ops->check_image(host, buf_str(&reference), NULL, &absent) == 0) {
            error_clear(err);
            *image = buf_take(&reference, NULL);
            return 0;
        }
    }
    return -1;
}

static json_t *resources_json(const struct workspace_manifest_resources *r)
{
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:I}", "cpus", r->cpus, "memoryBytes",
                     (json_int_t)r->memory_bytes, "diskBytes", (json_int_t)r->disk_bytes, "pids",
                     (json_int_t)r->pids, "runtimeMs", (json_int_t)r->runtime_ms, "maxOutputBytes",
                     (json_int_t)r->max_output_bytes);
}

static int plan_restore(struct service_host *host, const char *tenant,
                        struct api_checkpoint_restore *request, const struct workspace_manifest *m,
                        struct host_provision_plan *plan, struct error *err)
{
    struct host_limit_ranges ranges;
    struct policy_context context;
    executions_policy_context(host, tenant, &ranges, &context);
    _cleanup_json_ json_t *resources = resources_json(&m->resources);
    const struct policy_manifest manifest = {
        .image = m->image,
        .resources = resources,
        .network = m->network,
        .environment = m->environment,
        .metadata = m->metadata,
    };
    return policy_restore(request, &manifest, &context, plan, err);
}

static int look(struct service_host *host, const struct workspace_manifest *m,
                struct host_provision_plan *plan, struct error *err)
{
    char *image = NULL;
    if (service_host_ready(host, err) != 0 || find_image(host->host, m, &image, err) != 0) {
        return -1;
    }
    free(plan->image);
    plan->image = image;
    return image != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

static int source_new(struct checkpoint_reading *reading, struct restore_source **out,
                      struct error *err)
{
    struct restore_source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (checkpoint_reading_reader(reading, &source->reader, err) != 0) {
        free(source);
        return -1;
    }
    source->reading = reading;
    *out = source;
    return 0;
}

/* Everything up to the intent; takes `reading` on success. */
static int begin(struct service_host *host, const struct caller *who,
                 struct api_checkpoint_restore *request, struct checkpoint_reading *reading,
                 struct live_execution **out, struct error *err)
{
    const struct workspace_manifest *m = checkpoint_reading_manifest(reading);
    struct host_provision_plan plan = {0};
    struct store_execution row = {0};
    struct restore_source *source = NULL;
    if (plan_restore(host, who->tenant, request, m, &plan, err) != 0) {
        return -1;
    }
    const struct executions_texts texts = {
        .image = m->image,
        .environment = m->environment,
        .metadata = m->metadata,
        .labels = request->labels,
    };
    if (look(host, m, &plan, err) != 0 ||
        executions_row(&row, &plan, host->name, &texts, err) != 0) {
        host_provision_plan_done(&plan);
        return -1;
    }
    row.restored_from = strdup(m->checkpoint_id);
    row.claim = request->claim;
    if (row.restored_from == NULL || provision_admit(host->service, who, &plan.limits, err) != 0) {
        store_execution_done(&row);
        host_provision_plan_done(&plan);
        return -1;
    }
    if (source_new(reading, &source, err) != 0) {
        const struct admission_share share = live_share(&plan.limits);
        admission_give(host->service->admission, who->tenant, &share);
        store_execution_done(&row);
        host_provision_plan_done(&plan);
        return -1;
    }
    if (provision_begin(host, &plan, &row, source, out, err) != 0) {
        return 1; /* the source, and with it the reading, is freed */
    }
    return 0;
}

int checkpoints_restore(struct service *s, const struct caller *who, const char *id,
                        struct api_checkpoint_restore *request, struct live_execution **out,
                        struct error *err)
{
    struct service_host *host = NULL;
    struct checkpoint_reading *reading = NULL;
    if (service_host_find(s, request->host, &host, err) != 0 ||
        checkpoint_reading_open(s, who->tenant, id, &reading, err) != 0) {
        return -1;
    }
    int result = begin(host, who, request, reading, out, err);
    if (result < 0) {
        checkpoint_reading_close(reading);
    }
    return result == 0 ? 0 : -1;
}
