#include "store/schema.h"

#include "store/transaction.h"

/* Every subset of the filters of a list has an index of its own that ends in the row's number, so a
 * page is read from its place and in its order, whatever else is in the table. What has no owner is
 * not in the indices by owner. Live rows have indices of their own, which stay small. */
static const char EXECUTIONS[] =
    "CREATE TABLE service (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE executions ("
    " row INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant TEXT NOT NULL,"
    " execution_id TEXT NOT NULL,"
    " incarnation INTEGER NOT NULL CHECK (incarnation >= 1),"
    " host TEXT NOT NULL,"
    " image TEXT NOT NULL,"
    " nano_cpus INTEGER NOT NULL,"
    " memory_bytes INTEGER NOT NULL,"
    " disk_bytes INTEGER NOT NULL,"
    " pids INTEGER NOT NULL,"
    " runtime_ms INTEGER NOT NULL,"
    " max_output_bytes INTEGER NOT NULL,"
    " requested_at INTEGER,"
    " state TEXT NOT NULL CHECK"
    "  (state IN ('provisioning', 'provisioned', 'terminating', 'terminated', 'failed')),"
    " handle TEXT,"
    " image_digests TEXT,"
    " workspace TEXT,"
    " environment TEXT,"
    " metadata TEXT,"
    " labels TEXT,"
    " warnings TEXT,"
    " owner_id TEXT,"
    " fencing_token INTEGER NOT NULL,"
    " restored_from TEXT,"
    " created_at INTEGER,"
    " expires_at INTEGER,"
    " terminated_at INTEGER,"
    " usage_cpu_ms INTEGER,"
    " usage_memory_peak_bytes INTEGER,"
    " usage_pids_peak INTEGER,"
    " usage_workspace_bytes INTEGER,"
    " termination_reason TEXT,"
    " termination_code TEXT,"
    " termination_detail TEXT,"
    " termination_at INTEGER,"
    " leftover INTEGER NOT NULL CHECK (leftover IN (0, 1)),"
    " UNIQUE (tenant, execution_id, incarnation)"
    ") STRICT;"
    "CREATE UNIQUE INDEX executions_live_id ON executions (tenant, execution_id)"
    " WHERE " SCHEMA_LIVE ";"
    "CREATE INDEX executions_live ON executions (row) WHERE " SCHEMA_LIVE ";"
    "CREATE INDEX executions_tenant ON executions (tenant);"
    "CREATE INDEX executions_tenant_state ON executions (tenant, state);"
    "CREATE INDEX executions_tenant_host ON executions (tenant, host);"
    "CREATE INDEX executions_tenant_state_host ON executions (tenant, state, host);"
    "CREATE INDEX executions_tenant_owner ON executions (tenant, owner_id)"
    " WHERE owner_id IS NOT NULL;"
    "CREATE INDEX executions_tenant_state_owner ON executions (tenant, state, owner_id)"
    " WHERE owner_id IS NOT NULL;"
    "CREATE INDEX executions_tenant_host_owner ON executions (tenant, host, owner_id)"
    " WHERE owner_id IS NOT NULL;"
    "CREATE INDEX executions_tenant_state_host_owner ON executions (tenant, state, host, owner_id)"
    " WHERE owner_id IS NOT NULL;"
    "CREATE TABLE execution_labels ("
    " tenant TEXT NOT NULL,"
    " key TEXT NOT NULL,"
    " value TEXT NOT NULL,"
    " execution_row INTEGER NOT NULL REFERENCES executions (row) ON DELETE CASCADE,"
    " PRIMARY KEY (tenant, key, value, execution_row)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX execution_labels_execution ON execution_labels (execution_row);";

static const char COMMANDS[] =
    "CREATE TABLE commands ("
    " row INTEGER PRIMARY KEY AUTOINCREMENT,"
    " execution_row INTEGER NOT NULL REFERENCES executions (row) ON DELETE CASCADE,"
    " tenant TEXT NOT NULL,"
    " command_id TEXT NOT NULL,"
    " command TEXT NOT NULL,"
    " args TEXT,"
    " cwd TEXT,"
    " environment TEXT,"
    " timeout_ms INTEGER,"
    " queued_at INTEGER,"
    " state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'exited', 'failed')),"
    " started_at INTEGER,"
    " completed_at INTEGER,"
    " exit_code INTEGER,"
    " signal TEXT,"
    " stdout_bytes INTEGER NOT NULL,"
    " stderr_bytes INTEGER NOT NULL,"
    " truncated INTEGER NOT NULL CHECK (truncated IN (0, 1)),"
    " usage_cpu_ms INTEGER,"
    " usage_memory_peak_bytes INTEGER,"
    " usage_wall_ms INTEGER,"
    " termination_reason TEXT,"
    " termination_code TEXT,"
    " termination_detail TEXT,"
    " termination_checkpoint_id TEXT,"
    " UNIQUE (tenant, command_id)"
    ") STRICT;"
    "CREATE INDEX commands_execution ON commands (execution_row);"
    "CREATE INDEX commands_unfinished ON commands (row) WHERE " SCHEMA_UNFINISHED ";";

static const char CHECKPOINTS[] =
    "CREATE TABLE checkpoints ("
    " row INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant TEXT NOT NULL,"
    " checkpoint_id TEXT NOT NULL,"
    " source_execution_id TEXT NOT NULL,"
    " source_incarnation INTEGER NOT NULL CHECK (source_incarnation >= 1),"
    " created_at INTEGER,"
    " manifest TEXT NOT NULL,"
    " content_bytes INTEGER NOT NULL,"
    " archive_bytes INTEGER NOT NULL,"
    " entries INTEGER NOT NULL,"
    " skipped INTEGER NOT NULL,"
    " archive_digest TEXT NOT NULL,"
    " durability TEXT NOT NULL CHECK"
    "  (durability IN ('local', 'uploading', 'durable', 'failed')),"
    " UNIQUE (tenant, checkpoint_id)"
    ") STRICT;"
    "CREATE INDEX checkpoints_tenant ON checkpoints (tenant);"
    "CREATE INDEX checkpoints_tenant_source ON checkpoints (tenant, source_execution_id);"
    "CREATE INDEX checkpoints_tenant_durability ON checkpoints (tenant, durability);"
    "CREATE INDEX checkpoints_tenant_source_durability"
    " ON checkpoints (tenant, source_execution_id, durability);";

/* A key is open while it has no status. The rows of keys are never numbered again, so that what was
 * begun under one can't be taken for another's. */
static const char IDEMPOTENCY[] =
    "CREATE TABLE idempotency_keys ("
    " row INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant TEXT NOT NULL,"
    " key TEXT NOT NULL,"
    " digest TEXT NOT NULL,"
    " expires_at INTEGER NOT NULL,"
    " resource_kind TEXT CHECK (resource_kind IN ('execution', 'command', 'checkpoint')),"
    " resource_id TEXT,"
    " resource_number INTEGER,"
    " status INTEGER,"
    " content_type TEXT,"
    " headers TEXT,"
    " body BLOB,"
    " body_size INTEGER,"
    " UNIQUE (tenant, key)"
    ") STRICT;"
    "CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);";

/* Triggers, so that no change can be made without its event, nor an event without its change. The
 * numbers have no gaps because the newest event of a tenant is never removed, and the oldest go by
 * many at once, so that few writes pay for it. */
#define EVENT(tenant, values)                                                                      \
    " BEGIN INSERT INTO events (tenant, type, execution_id, incarnation, command_id,"              \
    " checkpoint_id, state, host, expires_at, exit_code, reason, seq, at) SELECT " tenant          \
    ", " values ", 1 + coalesce((SELECT max(seq) FROM events WHERE tenant = " tenant "), 0),"      \
    " CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
#define EXECUTION_EVENT(row, state)                                                                \
    EVENT(row ".tenant", "'execution', " row ".execution_id, " row ".incarnation, NULL, NULL, "    \
                         "" state ", " row ".host, " row ".expires_at, NULL, "                     \
                         "" row ".termination_reason")                                             \
    "; END;"
#define COMMAND_EVENT(row, state)                                                                  \
    EVENT(row ".tenant", "'command', e.execution_id, e.incarnation, " row ".command_id, NULL, "    \
                         "" state ", NULL, NULL, " row ".exit_code, " row ".termination_reason")   \
    " FROM executions AS e WHERE e.row = " row ".execution_row; END;"
#define CHECKPOINT_EVENT(row, state)                                                               \
    EVENT(row ".tenant", "'checkpoint', " row ".source_execution_id, " row ".source_incarnation, " \
                         "NULL, " row ".checkpoint_id, " state ", NULL, NULL, NULL, NULL")         \
    "; END;"

static const char EVENTS[] =
    "CREATE TABLE events ("
    " row INTEGER PRIMARY KEY,"
    " tenant TEXT NOT NULL,"
    " seq INTEGER NOT NULL,"
    " at INTEGER NOT NULL,"
    " type TEXT NOT NULL CHECK (type IN ('execution', 'command', 'checkpoint')),"
    " execution_id TEXT NOT NULL,"
    " incarnation INTEGER NOT NULL,"
    " command_id TEXT,"
    " checkpoint_id TEXT,"
    " state TEXT NOT NULL,"
    " host TEXT,"
    " expires_at INTEGER,"
    " exit_code INTEGER,"
    " reason TEXT,"
    " UNIQUE (tenant, seq)"
    ") STRICT;"
    "CREATE TRIGGER events_bound AFTER INSERT ON events WHEN NEW.seq % 256 = 0 BEGIN"
    " DELETE FROM events WHERE tenant = NEW.tenant AND seq <= NEW.seq - 10000; END;";

#define TRIGGER(name, after, event) "CREATE TRIGGER " name " AFTER " after event
#define EXECUTION_CHANGED                                                                          \
    "UPDATE ON executions WHEN OLD.state IS NOT NEW.state"                                         \
    " OR OLD.expires_at IS NOT NEW.expires_at OR OLD.labels IS NOT NEW.labels"                     \
    " OR OLD.metadata IS NOT NEW.metadata OR OLD.owner_id IS NOT NEW.owner_id"                     \
    " OR OLD.fencing_token IS NOT NEW.fencing_token"
#define COMMAND_CHANGED "UPDATE ON commands WHEN OLD.state IS NOT NEW.state"
#define CHECKPOINT_CHANGED "UPDATE ON checkpoints WHEN OLD.durability IS NOT NEW.durability"

static const char ON_EXECUTION_NEW[] =
    TRIGGER("executions_inserted", "INSERT ON executions", EXECUTION_EVENT("NEW", "NEW.state"));
static const char ON_EXECUTION[] =
    TRIGGER("executions_updated", EXECUTION_CHANGED, EXECUTION_EVENT("NEW", "NEW.state"));
static const char ON_EXECUTION_GONE[] =
    TRIGGER("executions_deleted", "DELETE ON executions", EXECUTION_EVENT("OLD", "'deleted'"));
static const char ON_COMMAND_NEW[] =
    TRIGGER("commands_inserted", "INSERT ON commands", COMMAND_EVENT("NEW", "NEW.state"));
static const char ON_COMMAND[] =
    TRIGGER("commands_updated", COMMAND_CHANGED, COMMAND_EVENT("NEW", "NEW.state"));
/* One that was refused after all. Those that go with their execution have no event each: the
 * execution's says it. */
static const char ON_COMMAND_GONE[] =
    TRIGGER("commands_deleted", "DELETE ON commands WHEN OLD.state = 'queued'",
            COMMAND_EVENT("OLD", "'deleted'"));
static const char ON_CHECKPOINT_NEW[] = TRIGGER("checkpoints_inserted", "INSERT ON checkpoints",
                                                CHECKPOINT_EVENT("NEW", "NEW.durability"));
static const char ON_CHECKPOINT[] =
    TRIGGER("checkpoints_updated", CHECKPOINT_CHANGED, CHECKPOINT_EVENT("NEW", "NEW.durability"));
static const char ON_CHECKPOINT_GONE[] =
    TRIGGER("checkpoints_deleted", "DELETE ON checkpoints", CHECKPOINT_EVENT("OLD", "'deleted'"));

/* What retention goes by: when a thing came here or ended, and how much room it takes. What was
 * there before is taken for as large as its columns can tell. */
static const char RETENTION[] =
    "ALTER TABLE checkpoints ADD COLUMN stored_at INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE checkpoints ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0;"
    "UPDATE checkpoints SET stored_at = created_at, stored_bytes = archive_bytes + "
    "length(manifest);"
    "CREATE INDEX checkpoints_stored ON checkpoints (stored_at, stored_bytes);"
    "ALTER TABLE commands ADD COLUMN transcript_bytes INTEGER NOT NULL DEFAULT 0;"
    "UPDATE commands SET transcript_bytes = stdout_bytes + stderr_bytes + 1024"
    " WHERE started_at IS NOT NULL AND completed_at IS NOT NULL;"
    "CREATE INDEX commands_transcripts ON commands (completed_at, transcript_bytes)"
    " WHERE " SCHEMA_TRANSCRIPT ";"
    "ALTER TABLE executions ADD COLUMN record_bytes INTEGER NOT NULL DEFAULT 0;"
    "UPDATE executions SET record_bytes = 4096 WHERE " SCHEMA_ENDED ";"
    "CREATE INDEX executions_ended ON executions (terminated_at, record_bytes)"
    " WHERE " SCHEMA_ENDED ";";

/* Runs. Events and keys know of them too, and a CHECK can't be widened in place: their tables are
 * made anew. What triggers an event refers to the table, so it steps aside meanwhile. */
static const char RUNS[] =
    "CREATE TABLE runs ("
    " row INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant TEXT NOT NULL,"
    " run_id TEXT NOT NULL,"
    " description TEXT NOT NULL,"
    " requested_at INTEGER NOT NULL,"
    " state TEXT NOT NULL CHECK (state IN ('starting', 'running', 'settled')),"
    " started_at INTEGER,"
    " completed_at INTEGER,"
    " calls_total INTEGER NOT NULL,"
    " calls_answered INTEGER NOT NULL,"
    " calls_cancelled INTEGER NOT NULL,"
    " outcome TEXT,"
    " result_place INTEGER NOT NULL,"
    " result_bytes INTEGER NOT NULL,"
    " log_bytes INTEGER NOT NULL,"
    " spec TEXT NOT NULL,"
    " record_bytes INTEGER NOT NULL GENERATED ALWAYS AS (512 + log_bytes + length(spec)) STORED,"
    " UNIQUE (tenant, run_id)"
    ") STRICT;"
    "CREATE INDEX runs_tenant ON runs (tenant);"
    "CREATE INDEX runs_unfinished ON runs (row) WHERE " SCHEMA_RUN_UNFINISHED ";"
    "CREATE INDEX runs_settled ON runs (completed_at, record_bytes) WHERE state = 'settled';";

static const char RUN_KEYS[] =
    "CREATE TABLE idempotency_made ("
    " row INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant TEXT NOT NULL,"
    " key TEXT NOT NULL,"
    " digest TEXT NOT NULL,"
    " expires_at INTEGER NOT NULL,"
    " resource_kind TEXT CHECK (resource_kind IN ('execution', 'command', 'checkpoint', 'run')),"
    " resource_id TEXT,"
    " resource_number INTEGER,"
    " status INTEGER,"
    " content_type TEXT,"
    " headers TEXT,"
    " body BLOB,"
    " body_size INTEGER,"
    " UNIQUE (tenant, key)"
    ") STRICT;"
    "INSERT INTO idempotency_made SELECT * FROM idempotency_keys;"
    "DELETE FROM sqlite_sequence WHERE name = 'idempotency_made';"
    "INSERT INTO sqlite_sequence (name, seq) SELECT 'idempotency_made', seq FROM sqlite_sequence"
    " WHERE name = 'idempotency_keys';"
    "DROP TABLE idempotency_keys;"
    "ALTER TABLE idempotency_made RENAME TO idempotency_keys;"
    "CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);";

static const char RUN_EVENTS[] =
    "DROP TRIGGER executions_inserted; DROP TRIGGER executions_updated;"
    "DROP TRIGGER executions_deleted; DROP TRIGGER commands_inserted;"
    "DROP TRIGGER commands_updated; DROP TRIGGER commands_deleted;"
    "DROP TRIGGER checkpoints_inserted; DROP TRIGGER checkpoints_updated;"
    "DROP TRIGGER checkpoints_deleted; DROP TRIGGER events_bound;"
    "CREATE TABLE events_made ("
    " row INTEGER PRIMARY KEY,"
    " tenant TEXT NOT NULL,"
    " seq INTEGER NOT NULL,"
    " at INTEGER NOT NULL,"
    " type TEXT NOT NULL CHECK (type IN ('execution', 'command', 'checkpoint', 'run')),"
    " execution_id TEXT,"
    " incarnation INTEGER,"
    " command_id TEXT,"
    " checkpoint_id TEXT,"
    " run_id TEXT,"
    " state TEXT NOT NULL,"
    " host TEXT,"
    " expires_at INTEGER,"
    " exit_code INTEGER,"
    " reason TEXT,"
    " UNIQUE (tenant, seq)"
    ") STRICT;"
    "INSERT INTO events_made (row, tenant, seq, at, type, execution_id, incarnation, command_id,"
    " checkpoint_id, state, host, expires_at, exit_code, reason)"
    " SELECT row, tenant, seq, at, type, execution_id, incarnation, command_id, checkpoint_id,"
    " state, host, expires_at, exit_code, reason FROM events;"
    "DROP TABLE events;"
    "ALTER TABLE events_made RENAME TO events;"
    "CREATE TRIGGER events_bound AFTER INSERT ON events WHEN NEW.seq % 256 = 0 BEGIN"
    " DELETE FROM events WHERE tenant = NEW.tenant AND seq <= NEW.seq - 10000; END;";

#define RUN_EVENT(row, state)                                                                      \
    " BEGIN INSERT INTO events (tenant, type, run_id, state, reason, seq, at) SELECT " row         \
    ".tenant, 'run', " row ".run_id, " state ", " row ".outcome,"                                  \
    " 1 + coalesce((SELECT max(seq) FROM events WHERE tenant = " row ".tenant), 0),"               \
    " CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER); END;"

static const char ON_RUN[] =
    TRIGGER("runs_inserted", "INSERT ON runs", RUN_EVENT("NEW", "NEW.state"))
        TRIGGER("runs_updated", "UPDATE ON runs WHEN OLD.state IS NOT NEW.state",
                RUN_EVENT("NEW", "NEW.state"))
            TRIGGER("runs_deleted", "DELETE ON runs", RUN_EVENT("OLD", "'deleted'"));

/* What each tenant has stored, in bytes of each kind. Summing it up anew for each question would
 * walk all that is there. */
#define STORED_ADD(row, kind, sign, column)                                                        \
    " INSERT INTO stored (tenant, kind, bytes) VALUES (" row ".tenant, '" kind "', " sign row      \
    "." column ") ON CONFLICT (tenant, kind) DO UPDATE SET bytes = bytes + excluded.bytes;"
#define STORED(table, kind, column)                                                                \
    "CREATE TRIGGER stored_" table "_inserted AFTER INSERT ON " table " WHEN NEW." column          \
    " <> 0 BEGIN" STORED_ADD(                                                                      \
        "NEW", kind, "",                                                                           \
        column) " END;"                                                                            \
                "CREATE TRIGGER stored_" table "_updated AFTER UPDATE ON " table                   \
                " WHEN OLD." column " <> NEW." column                                              \
                " BEGIN" STORED_ADD("OLD", kind, "-", column) STORED_ADD(                          \
                    "NEW", kind, "",                                                               \
                    column) " END;"                                                                \
                            "CREATE TRIGGER stored_" table "_deleted AFTER DELETE ON " table       \
                            " WHEN OLD." column " <> 0 BEGIN" STORED_ADD(                          \
                                "OLD", kind, "-", column) " END;"                                  \
                                                          "INSERT INTO stored (tenant, kind, "     \
                                                          "bytes) SELECT tenant, '" kind           \
                                                          "', sum(" column ")"                     \
                                                          " FROM " table " GROUP BY tenant;"

static const char STORED_TABLE[] =
    "CREATE TABLE stored ("
    " tenant TEXT NOT NULL,"
    " kind TEXT NOT NULL CHECK (kind IN ('checkpoints', 'transcripts', 'records', 'runs')),"
    " bytes INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, kind)"
    ") STRICT, WITHOUT ROWID;";
static const char STORED_CHECKPOINTS[] = STORED("checkpoints", "checkpoints", "stored_bytes");
static const char STORED_TRANSCRIPTS[] = STORED("commands", "transcripts", "transcript_bytes");
static const char STORED_RECORDS[] = STORED("executions", "records", "record_bytes");
static const char STORED_RUNS[] = STORED("runs", "runs", "record_bytes");
/* How far each checkpoint has come on its way into the shared store. */
static const char SHARED[] =
    "ALTER TABLE checkpoints ADD COLUMN shared_uri TEXT;"
    "ALTER TABLE checkpoints ADD COLUMN shared_digest TEXT;"
    "ALTER TABLE checkpoints ADD COLUMN shared_at INTEGER;"
    "ALTER TABLE checkpoints ADD COLUMN shared_sent INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE checkpoints ADD COLUMN shared_bytes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE checkpoints ADD COLUMN shared_error TEXT;";

/* What leads from version i to i + 1. A step that has been released never changes. */
struct schema_step {
    const char *scripts[16];
};

static const struct schema_step STEPS[] = {
    {{EXECUTIONS, COMMANDS, CHECKPOINTS}},
    {{IDEMPOTENCY}},
    {{EVENTS, ON_EXECUTION_NEW, ON_EXECUTION, ON_EXECUTION_GONE, ON_COMMAND_NEW, ON_COMMAND,
      ON_COMMAND_GONE, ON_CHECKPOINT_NEW, ON_CHECKPOINT, ON_CHECKPOINT_GONE}},
    {{RETENTION}},
    {{RUNS, RUN_KEYS, RUN_EVENTS, ON_EXECUTION_NEW, ON_EXECUTION, ON_EXECUTION_GONE, ON_COMMAND_NEW,
      ON_COMMAND, ON_COMMAND_GONE, ON_CHECKPOINT_NEW, ON_CHECKPOINT, ON_CHECKPOINT_GONE, ON_RUN}},
    {{STORED_TABLE, STORED_CHECKPOINTS, STORED_TRANSCRIPTS, STORED_RECORDS, STORED_RUNS}},
    {{SHARED}},
};

int schema_version(void)
{
    return (int)ARRAY_SIZE(STEPS);
}

static int read_version(struct sql *s, int *version, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, "PRAGMA user_version", &stmt, err) != 0) {
        return -1;
    }
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    *version = sqlite3_column_int(stmt, 0);
    return 0;
}

static int run_step(struct sql *s, void *ctx, struct error *err)
{
    const int *from = ctx;
    const struct schema_step *step = &STEPS[*from];
    char text[64];

    for (size_t i = 0; i < ARRAY_SIZE(step->scripts) && step->scripts[i] != NULL; i++) {
        if (sql_script(s, step->scripts[i], err) != 0) {
            return -1;
        }
    }
    snprintf(text, sizeof(text), "PRAGMA user_version = %d", *from + 1);
    return sql_script(s, text, err);
}

int schema_migrate(struct sql *writer, struct error *err)
{
    static const struct sql_points POINTS = SQL_POINTS_POWER_LOSS("migrate");
    int version;

    if (read_version(writer, &version, err) != 0) {
        return -1;
    }
    if (version < 0 || version > schema_version()) {
        return error_set(err, ERROR_INTERNAL,
                         "the store has version %d and this service knows versions up to %d",
                         version, schema_version());
    }
    for (; version < schema_version(); version++) {
        if (sql_write(writer, &POINTS, run_step, &version, err) != 0) {
            return -1;
        }
    }
    return 0;
}
