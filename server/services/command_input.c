/* Standard input and signals for commands that wait or run. */
#include "server/services/command_input.h"

#include "server/services/commands_private.h"
#include "server/services/ending.h"

#include <string.h>

void command_input_done(struct command_input *in)
{
    buf_done(&in->bytes);
}

void command_input_init(struct command_input *in, bool open, size_t given)
{
    *in = (struct command_input){.open = open, .was_open = open, .given = given};
    buf_init(&in->bytes, HOST_INPUT_MAX);
}

/* --- kept until its turn comes --- */

/* [lock] What was given so far counts, and not only what is left of it: the host must be able to
 * take all of it at once. */
static int keep_bytes(struct command_input *in, const struct command_bytes *bytes,
                      struct error *err)
{
    if (!in->open) {
        return error_set(err, ERROR_INVALID_REQUEST, "%s",
                         in->was_open ? "the command's standard input is closed already"
                                      : "the command was started without stdinOpen");
    }
    if (bytes->len > 0 && (in->given > HOST_INPUT_MAX || bytes->len > HOST_INPUT_MAX - in->given)) {
        return error_set(err, ERROR_OVERLOADED,
                         "%zu bytes of standard input wait already for the command to start",
                         in->given);
    }
    if (bytes->len > 0 && buf_add(&in->bytes, bytes->data, bytes->len) != 0) {
        return error_set(err, ERROR_OVERLOADED, "no memory for the standard input");
    }
    in->given += bytes->len;
    in->open = !bytes->eof;
    in->end_due = bytes->eof;
    return 0;
}

/* [lock] */
static int keep_signal(struct command_input *in, int number, struct error *err)
{
    if (in->count == COMMAND_SIGNALS_MAX) {
        return error_set(err, ERROR_OVERLOADED, "%u signals wait already", in->count);
    }
    in->signals[in->count++] = (uint8_t)number;
    return 0;
}

/* --- which command --- */

static struct command *command_of(struct live_item *item, const char *command_id)
{
    struct command *c = (struct command *)item;
    bool found = item != NULL && item->is_command && !item->parked &&
                 strcmp(c->row.command_id, command_id) == 0;
    return found ? c : NULL;
}

/* [lock] The one that runs or waits; NULL: none. Stays as long as the lock is held. */
static struct command *find(const struct live_execution *x, const char *command_id)
{
    struct command *c = command_of(x->current, command_id);
    struct live_item *item;
    TAILQ_FOREACH(item, &x->queue, entry)
    {
        c = c != NULL ? c : command_of(item, command_id);
    }
    return c;
}

static int not_running(struct live_execution *x, const char *command_id, struct error *err)
{
    _cleanup_(store_command_done) struct store_command row = {0};
    if (store_command_get(x->service->store, x->row, command_id, &row, err) != 0) {
        return -1;
    }
    return error_set(err, ERROR_COMMAND_NOT_FOUND, "command %s has ended", command_id);
}

static struct host_exec_ref ref_of(const struct live_execution *x, const char *command_id)
{
    return (struct host_exec_ref){
        .id = {x->tenant, x->execution_id, x->incarnation},
        .handle = x->handle,
        .command_id = command_id,
    };
}

/* --- what clients ask for --- */

/* Bytes, or where there are none a signal. */
struct message {
    const struct command_bytes *bytes;
    int number;
};

/* [lock] */
static int keep(struct command_input *in, const struct message *m, struct error *err)
{
    return m->bytes != NULL ? keep_bytes(in, m->bytes, err) : keep_signal(in, m->number, err);
}

static int hand_on(const struct live_execution *x, const char *command_id, const struct message *m,
                   struct error *err)
{
    struct host *host = x->host->host;
    const struct command_bytes *bytes = m->bytes;
    struct host_exec_ref ref = ref_of(x, command_id);
    if (bytes == NULL) {
        return host->ops->exec_signal(host, &ref, m->number, err);
    }
    return host->ops->exec_input(host, &ref, bytes->data, bytes->len, bytes->eof, err);
}

static int deliver(struct live_execution *x, const char *command_id, const struct message *m,
                   struct error *err)
{
    live_lock(x->service->live);
    struct command *c = find(x, command_id);
    bool direct = c != NULL && c->input.direct;
    int result = c == NULL || direct ? -1 : keep(&c->input, m, err);
    live_unlock(x->service->live);
    if (direct) {
        result = hand_on(x, command_id, m, err);
    }
    bool gone = c == NULL || (result != 0 && err->code == ERROR_COMMAND_NOT_FOUND);
    return gone ? not_running(x, command_id, err) : result;
}

int commands_input(struct live_execution *x, const char *command_id,
                   const struct command_bytes *bytes, struct error *err)
{
    return deliver(x, command_id, &(struct message){.bytes = bytes}, err);
}

int commands_signal(struct live_execution *x, const char *command_id, int number, struct error *err)
{
    return deliver(x, command_id, &(struct message){.number = number}, err);
}

/* --- handed over --- */

struct kept {
    char command_id[ID_SIZE];
    struct buf bytes;
    bool eof;
    unsigned count;
    uint8_t signals[COMMAND_SIGNALS_MAX];
};

/* Takes what has been kept; false when nothing has, and from then on all goes to the host. Another
 * may have its turn by now: then there is nothing either. */
static bool take_kept(struct live_execution *x, uint64_t serial, struct kept *out)
{
    live_lock(x->service->live);
    struct live_item *item = x->current;
    bool ours = item != NULL && item->serial == serial && item->is_command && !item->parked;
    bool any = false;
    if (ours) {
        struct command *c = (struct command *)item;
        struct command_input *in = &c->input;
        any = in->bytes.len > 0 || in->end_due || in->count > 0;
        in->direct = !any;
        snprintf(out->command_id, sizeof(out->command_id), "%s", c->row.command_id);
        out->bytes = in->bytes;
        out->eof = in->end_due;
        out->count = in->count;
        memcpy(out->signals, in->signals, in->count);
        buf_init(&in->bytes, HOST_INPUT_MAX);
        in->end_due = false;
        in->count = 0;
    }
    live_unlock(x->service->live);
    return any;
}

void command_input_pass_on(struct live_execution *x, uint64_t serial)
{
    struct host *host = x->host->host;
    struct kept kept;
    memset(&kept, 0, sizeof(kept));
    buf_init(&kept.bytes, 0);
    while (take_kept(x, serial, &kept)) {
        struct host_exec_ref ref = ref_of(x, kept.command_id);
        struct error err = ERROR_INIT;
        /* Only a command that has ended meanwhile takes none of it. */
        bool runs =
            (kept.bytes.len == 0 && !kept.eof) ||
            host->ops->exec_input(host, &ref, kept.bytes.data, kept.bytes.len, kept.eof, &err) == 0;
        for (unsigned i = 0; runs && i < kept.count; i++) {
            runs = host->ops->exec_signal(host, &ref, kept.signals[i], &err) == 0;
        }
        buf_done(&kept.bytes);
    }
    buf_done(&kept.bytes);
}
