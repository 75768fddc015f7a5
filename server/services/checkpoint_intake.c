/* Checkpoints from elsewhere, taken in: an export, or what the shared store holds. */
#include "policy/policy.h"
#include "server/services/checkpoints_private.h"
#include "workspace/archive.h"

#include <string.h>

/* What a checkpoint made here could not have. Whether it may be restored is asked by restore, by
 * the rules of that day. */
static int check_manifest(struct workspace_manifest *m, struct error *err)
{
    struct error fault = ERROR_INIT;
    if (policy_metadata(m->metadata, "/metadata", &fault) != 0) {
        return error_set(err, ERROR_CHECKPOINT_INVALID, "manifest: %s", fault.detail);
    }
    m->facts.apparent_bytes_max = checkpoint_apparent_bytes_max(m->resources.disk_bytes);
    return 0;
}

/* 1: it is here already, 0: it is not. */
static int look(struct service *s, const struct checkpoint_intake *i, struct error *err)
{
    _cleanup_(store_checkpoint_done) struct store_checkpoint row = {0};
    const char *id = i->manifest->checkpoint_id;
    if (store_checkpoint_get(s->store, i->tenant, id, &row, err) != 0) {
        bool absent = err->code == ERROR_CHECKPOINT_NOT_FOUND;
        if (absent) {
            error_clear(err);
        }
        return absent ? 0 : -1;
    }
    if (strcmp(row.manifest, i->text) != 0) {
        return error_set(err, ERROR_ID_IN_USE, "there is another checkpoint %s", id);
    }
    return 1;
}

/* What is verified is what is published: the draft's own files. */
static int fill_draft(struct service *s, const struct checkpoint_intake *i,
                      const struct store_checkpoint_draft *draft, struct error *err)
{
    struct workspace_reader *reader = NULL;
    if (i->fill(i->ctx, draft, err) != 0 ||
        workspace_reader_new(draft->archive_fd, draft->files_fd, &i->manifest->facts, &reader,
                             err) != 0) {
        return -1;
    }
    int result = workspace_reader_run(reader, NULL, s->stop, err);
    workspace_reader_free(reader);
    return result;
}

/* With the id held. */
static int take_in(struct service *s, const struct checkpoint_intake *i, bool *made,
                   struct error *err)
{
    struct store_checkpoint_draft draft = {.archive_fd = -1, .files_fd = -1};
    int here = look(s, i, err);
    if (here < 0 ||
        store_checkpoint_draft_open(
            s->config->checkpoint_dir, i->tenant, i->manifest->checkpoint_id,
            i->manifest->facts.compression == WORKSPACE_COMPRESSION_ZSTD, &draft, err) != 0) {
        return -1;
    }
    int result = fill_draft(s, i, &draft, err);
    if (result == 0 && here == 0) {
        const struct checkpoint_publication p = {i->tenant, i->manifest,   i->text,
                                                 i->claim,  i->stored_max, i->shared};
        result = checkpoint_publish(s, &p, &draft, err);
    }
    store_checkpoint_draft_done(&draft);
    *made = here == 0;
    return result;
}

int checkpoint_take_in(struct service *s, const struct checkpoint_intake *intake, bool *made,
                       struct error *err)
{
    struct checkpoint_hold hold;
    struct checkpoints *c = s->checkpoints;
    if (check_manifest(intake->manifest, err) != 0) {
        return -1;
    }
    if (checkpoint_hold_begin(c, &hold, CHECKPOINT_HOLD_IMPORT, intake->tenant,
                              intake->manifest->checkpoint_id, err) != 0) {
        err->field[0] = '\0'; /* the id is no field of the request here */
        return -1;
    }
    int result = take_in(s, intake, made, err);
    if (result != 0) {
        service_name_the_stop(s, err);
    }
    checkpoint_hold_end(c, &hold);
    return result;
}
