#include "server/config_settings.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { NAME_SIZE = 96 };

enum kind { KIND_NUMBER, KIND_STRING, KIND_BOOL, KIND_CHOICE, KIND_LEVEL, KIND_USER };

struct config_setting {
    const char *section;
    const char *key;
    enum kind kind;
    size_t offset;
    int64_t number; /* KIND_NUMBER: default */
    int64_t min;
    int64_t max;
    const char *text; /* the default of the other kinds, NULL: none */
    const char *on;   /* KIND_CHOICE: the text that means true … */
    const char *off;  /* … and false */
    const char *what;
};

#define STRING(section, key, member, def, what)                                                    \
    {                                                                                              \
        section, key, KIND_STRING, offsetof(struct config, member), 0, 0, 0, def, NULL, NULL, what \
    }
#define BOOL(key, member, def, what)                                                               \
    {                                                                                              \
        NULL, key, KIND_BOOL, offsetof(struct config, member), 0, 0, 0, def, NULL, NULL, what      \
    }
#define BOOL_IN(section, key, member, def, what)                                                   \
    {                                                                                              \
        section, key, KIND_BOOL, offsetof(struct config, member), 0, 0, 0, def, NULL, NULL, what   \
    }
#define CHOICE(section, key, member, on, off, what)                                                \
    {                                                                                              \
        section, key, KIND_CHOICE, offsetof(struct config, member), 0, 0, 0, on, on, off, what     \
    }

static const struct config_setting settings[] = {
    STRING(NULL, "listen", listen, "127.0.0.1:8470", "HOST:PORT, unix:PATH or fd:NUMBER"),
    STRING(NULL, "dataDirectory", data_dir, "./data", "where the service keeps what it knows"),
    STRING(NULL, "checkpointDirectory", checkpoint_dir, NULL,
           "checkpoint files; <dataDirectory>/checkpoints when left out"),
    STRING(NULL, "socketMode", socket_mode, "0660",
           "mode of a unix socket that is listened on, octal"),
    STRING("tls", "certificate", tls_certificate, NULL,
           "certificate (PEM, with its chain) to speak TLS with; none when left out"),
    STRING("tls", "key", tls_key, NULL, "its key (PEM)"),
    STRING(NULL, "auditLog", audit_log, NULL,
           "file to which each request to change something is appended; none when left out"),
    STRING("docker", "socket", docker_socket, "/var/run/docker.sock", "the engine's socket"),
    CHOICE("docker", "pull", docker_pull, "missing", "never",
           "fetch images that are absent: missing or never"),
    STRING("native", "images", native_images, NULL,
           "the native host's images; <dataDirectory>/native/images when left out"),
    CHOICE("native", "fetch", native_fetch, "missing", "never",
           "fetch images that are absent with skopeo: missing or never"),
    {"native", "firstId", KIND_NUMBER, offsetof(struct config, native_first_id), 1879048192, 65536,
     4294901759, NULL, NULL, NULL,
     "first of the user and group ids that native executions have outside, two each"},
    {"native", "idCount", KIND_NUMBER, offsetof(struct config, native_id_count), 65536, 2,
     4294836224, NULL, NULL, NULL, "how many ids there are"},
    STRING("ptc", "node", ptc_node, NULL,
           "Node.js, 22.13 or newer, that runs programs; the first of PATH when left out"),
    STRING("ptc", "bubblewrap", ptc_bwrap, NULL, "bwrap; the first of PATH when left out"),
    STRING("ptc", "defaultMode", ptc_default_mode, "read-only",
           "read-only, workspace-write or danger-full-access"),
    BOOL_IN("ptc", "allowFullAccess", ptc_danger, "false", "runs may ask for danger-full-access"),
    {"ptc", "network", KIND_CHOICE, offsetof(struct config, ptc_network), 0, 0, 0, "none", "host",
     "none", "runs may ask for the machine's network: host or none"},
    STRING("sharedStore", "endpoint", shared_endpoint, NULL,
           "http[s]://HOST[:PORT] of an S3-compatible store; none when left out"),
    STRING("sharedStore", "region", shared_region, "us-east-1", "its region"),
    STRING("sharedStore", "bucket", shared_bucket, NULL, "the bucket"),
    STRING("sharedStore", "prefix", shared_prefix, NULL,
           "what all keys begin with; may be left out"),
    BOOL_IN("sharedStore", "pathStyle", shared_path_style, "true",
            "the bucket is in the path, not in the host's name"),
    STRING("sharedStore", "caFile", shared_ca_file, NULL,
           "certificates that are trusted; the system's when left out"),
    STRING("sharedStore", "credentialsFile", shared_credentials, NULL,
           "[default] with aws_access_key_id and aws_secret_access_key; AWS_* when left out"),
    STRING(NULL, "defaultHost", default_host, NULL,
           "native or docker; native where the machine allows it when left out"),
    BOOL("allowUnpinnedImages", allow_unpinned_images, "false", "take images without a digest"),
    BOOL("requireFencing", require_fencing, "false", "owned executions need a Fencing-Token"),
    CHOICE(NULL, "checkpointCompression", compress_checkpoints, "zstd", "none", "zstd or none"),
    {NULL, "logLevel", KIND_LEVEL, 0, 0, 0, 0, "info", NULL, NULL, "debug, info, warn or error"},
    {NULL, "user", KIND_USER, 0, 0, 0, 0, NULL, NULL, NULL, "UID:GID of commands"},
#define X(member, key, def, min, max, what)                                                        \
    {NULL, key,  KIND_NUMBER, offsetof(struct config, member), def, min, max, NULL,                \
     NULL, NULL, what},
    CONFIG_NUMBERS(X)
#undef X
#define X(member, key, def, min, max, what)                                                        \
    {"retention", key,  KIND_NUMBER, offsetof(struct config, member), def, min, max, NULL,         \
     NULL,        NULL, what},
        CONFIG_RETENTION(X)
#undef X
#define X(member, key, def, min, max, what)                                                        \
    {"capacity", key,  KIND_NUMBER, offsetof(struct config, member), def, min, max, NULL,          \
     NULL,       NULL, what},
            CONFIG_CAPACITY(X)
#undef X
#define X(member, key, max, what)                                                                  \
    {                                                                                              \
        "quotas",                                                                                  \
        key,                                                                                       \
        KIND_NUMBER,                                                                               \
        offsetof(struct config, quotas.member),                                                    \
        0,                                                                                         \
        0,                                                                                         \
        max,                                                                                       \
        NULL,                                                                                      \
        NULL,                                                                                      \
        NULL,                                                                                      \
        what "; 0: any amount"},
                QUOTAS(X)
#undef X
#define X(member, key, def, min, max, what)                                                        \
    {"ptc", key,  KIND_NUMBER, offsetof(struct config, member), def, min, max, NULL,               \
     NULL,  NULL, what},
                    CONFIG_PTC(X)
#undef X
#define X(member, key, def, min, max, what)                                                        \
    {"sharedStore", key,  KIND_NUMBER, offsetof(struct config, member), def, min, max, NULL,       \
     NULL,          NULL, what},
                        CONFIG_SHARED(X)
#undef X
};

static void *member(struct config *c, const struct config_setting *s)
{
    return (char *)c + s->offset;
}

/* The two ids have a range in the table, but no key: they are set by `user`. */
static bool has_key(const struct config_setting *s)
{
    return s->offset != offsetof(struct config, uid) && s->offset != offsetof(struct config, gid);
}

static void name_of(const struct config_setting *s, char out[NAME_SIZE])
{
    snprintf(out, NAME_SIZE, "%s%s%s", s->section != NULL ? s->section : "",
             s->section != NULL ? "." : "", s->key);
}

static int fault(struct error *err, const struct config_setting *s, const char *rule)
{
    char name[NAME_SIZE];

    name_of(s, name);
    return error_set_field(err, ERROR_INVALID_REQUEST, name, "%s %s", name, rule);
}

/* --- single values --- */

static int set_number(struct config *c, const struct config_setting *s, int64_t value,
                      struct error *err)
{
    char rule[96];

    if (value < s->min || value > s->max) {
        snprintf(rule, sizeof(rule), "must be an integer from %" PRId64 " to %" PRId64, s->min,
                 s->max);
        return fault(err, s, rule);
    }
    *(int64_t *)member(c, s) = value;
    return 0;
}

static int set_string(struct config *c, const struct config_setting *s, const char *text,
                      struct error *err)
{
    char **to = member(c, s);
    char *copy;

    if (text[0] == '\0') {
        return fault(err, s, "must not be empty");
    }
    copy = strdup(text);
    if (copy == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    free(*to);
    *to = copy;
    return 0;
}

static int set_choice(struct config *c, const struct config_setting *s, const char *text,
                      struct error *err)
{
    const char *on = s->kind == KIND_BOOL ? "true" : s->on;
    const char *off = s->kind == KIND_BOOL ? "false" : s->off;
    char rule[64];

    if (strcmp(text, on) != 0 && strcmp(text, off) != 0) {
        snprintf(rule, sizeof(rule), "must be %s or %s", on, off);
        return fault(err, s, rule);
    }
    *(bool *)member(c, s) = strcmp(text, on) == 0;
    return 0;
}

static int set_level(struct config *c, const struct config_setting *s, const char *text,
                     struct error *err)
{
    static const char *const names[] = {[LOG_LEVEL_DEBUG] = "debug",
                                        [LOG_LEVEL_INFO] = "info",
                                        [LOG_LEVEL_WARN] = "warn",
                                        [LOG_LEVEL_ERROR] = "error"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            c->log_level = (enum log_level)i;
            return 0;
        }
    }
    return fault(err, s, "must be debug, info, warn or error");
}

/* Digits only, ended by `end`; what follows it in `rest`. */
static int parse_digits(const char *text, char end, int64_t *out, const char **rest)
{
    size_t digits = strspn(text, "0123456789");
    long long value;

    errno = 0;
    value = strtoll(text, NULL, 10);
    if (digits == 0 || text[digits] != end || errno != 0) {
        return -1;
    }
    *out = value;
    *rest = text + digits + 1;
    return 0;
}

static const struct config_setting *setting_at(size_t offset)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (settings[i].kind == KIND_NUMBER && settings[i].offset == offset) {
            return &settings[i];
        }
    }
    abort(); /* the table and the struct are made from one list */
}

static bool in_range(const struct config_setting *s, int64_t value)
{
    return value >= s->min && value <= s->max;
}

/* Names are refused: what they mean would depend on the machine. Zero is root. */
static int set_user(struct config *c, const struct config_setting *s, const char *text,
                    struct error *err)
{
    const struct config_setting *uid = setting_at(offsetof(struct config, uid));
    const struct config_setting *gid = setting_at(offsetof(struct config, gid));
    const char *rest;
    int64_t u;
    int64_t g;

    if (parse_digits(text, ':', &u, &rest) != 0 || parse_digits(rest, '\0', &g, &rest) != 0 ||
        !in_range(uid, u) || !in_range(gid, g)) {
        return fault(err, s, "must be UID:GID, two numbers of at least 1");
    }
    c->uid = u;
    c->gid = g;
    return 0;
}

/* From the environment, a flag, or a default. */
int config_setting_text(struct config *c, const struct config_setting *s, const char *text,
                        struct error *err)
{
    int64_t value;

    switch (s->kind) {
    case KIND_NUMBER: {
        const char *rest;

        if (parse_digits(text, '\0', &value, &rest) != 0) {
            value = INT64_MIN; /* out of every range: the fault names it */
        }
        return set_number(c, s, value, err);
    }
    case KIND_STRING: return set_string(c, s, text, err);
    case KIND_BOOL:
    case KIND_CHOICE: return set_choice(c, s, text, err);
    case KIND_LEVEL: return set_level(c, s, text, err);
    case KIND_USER: return set_user(c, s, text, err);
    }
    abort();
}

int config_setting_json(struct config *c, const struct config_setting *s, const json_t *value,
                        struct error *err)
{
    if (s->kind == KIND_NUMBER) {
        return set_number(c, s, json_is_integer(value) ? json_integer_value(value) : INT64_MIN,
                          err);
    }
    if (s->kind == KIND_BOOL) {
        if (!json_is_boolean(value)) {
            return fault(err, s, "must be true or false");
        }
        *(bool *)member(c, s) = json_is_true(value);
        return 0;
    }
    if (!json_is_string(value)) {
        return fault(err, s, "must be a string");
    }
    return config_setting_text(c, s, json_string_value(value), err);
}

/* --- the table as a whole --- */

static bool same_section(const struct config_setting *s, const char *section)
{
    return section == NULL ? s->section == NULL
                           : s->section != NULL && strcmp(s->section, section) == 0;
}

const struct config_setting *config_setting_find(const char *section, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (has_key(&settings[i]) && same_section(&settings[i], section) &&
            strcmp(settings[i].key, key) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

bool config_section_exists(const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (settings[i].section != NULL && strcmp(settings[i].section, key) == 0) {
            return true;
        }
    }
    return false;
}

int config_settings_default(struct config *c, struct error *err)
{
    c->log_level = LOG_LEVEL_INFO;
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        const struct config_setting *s = &settings[i];

        if (s->kind == KIND_NUMBER) {
            *(int64_t *)member(c, s) = s->number;
        } else if (s->text != NULL && config_setting_text(c, s, s->text, err) != 0) {
            return -1;
        }
    }
    return 0;
}

/* EXECHOST_ and the key in upper snake case: maxBodyBytes is EXECHOST_MAX_BODY_BYTES. */
static void environment_name(const struct config_setting *s, char out[NAME_SIZE])
{
    char name[NAME_SIZE];
    size_t len = (size_t)snprintf(out, NAME_SIZE, "EXECHOST_");

    name_of(s, name);
    for (const char *c = name; *c != '\0' && len + 2 < NAME_SIZE; c++) {
        if (isupper((unsigned char)*c)) {
            out[len++] = '_';
        }
        out[len++] = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
    }
    out[len] = '\0';
}

int config_settings_environment(struct config *c, struct error *err)
{
    const char *data = getenv("EXECHOST_DATA");

    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        char name[NAME_SIZE];
        const char *text;

        environment_name(&settings[i], name);
        text = has_key(&settings[i]) ? getenv(name) : NULL;
        if (text != NULL && config_setting_text(c, &settings[i], text, err) != 0) {
            return -1;
        }
    }
    return data == NULL
               ? 0
               : config_setting_text(c, config_setting_find(NULL, "dataDirectory"), data, err);
}

void config_settings_done(struct config *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (settings[i].kind == KIND_STRING) {
            free(*(char **)member(c, &settings[i]));
        }
    }
}

/* --- help --- */

static void describe(FILE *out, const struct config_setting *s)
{
    const struct config_setting *uid = setting_at(offsetof(struct config, uid));
    const struct config_setting *gid = setting_at(offsetof(struct config, gid));
    char name[NAME_SIZE];
    char value[64] = "-";
    char range[64] = "";

    name_of(s, name);
    if (s->kind == KIND_NUMBER) {
        snprintf(value, sizeof(value), "%" PRId64, s->number);
        snprintf(range, sizeof(range), " (%" PRId64 "..%" PRId64 ")", s->min, s->max);
    } else if (s->kind == KIND_USER) {
        snprintf(value, sizeof(value), "%" PRId64 ":%" PRId64, uid->number, gid->number);
    } else if (s->text != NULL) {
        snprintf(value, sizeof(value), "%s", s->text);
    }
    fprintf(out, "  %-26s %-21s %s%s\n", name, value, s->what, range);
}

void config_describe(FILE *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (has_key(&settings[i])) {
            describe(out, &settings[i]);
        }
    }
    fprintf(out, "  %-26s %-21s %s\n", "corsOrigins", "[]",
            "origins whose pages may call, e.g. [\"https://host\"]");
    fprintf(out, "  %-26s %-21s %s\n", "gitRoots", "{}",
            "per tenant, below which paths repositories may lie");
    fprintf(out, "  %-26s %-21s %s\n", "ptc.workspaceRoots", "{}",
            "per tenant, below which paths workspaces of runs may lie");
    fprintf(out, "  %-26s %-21s %s\n", "tokens", "-",
            "who may ask: [{\"sha256\", \"tenant\", \"scopes\", \"quotas\"}]; exechost token makes "
            "one");
}
