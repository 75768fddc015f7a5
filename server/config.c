#include "server/config_settings.h"
#include "server/config_tokens.h"

#include "api/json.h"
#include "base/file.h"
#include "base/id.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { FILE_SIZE_MAX = 1024 * 1024, SHARED_PREFIX_MAX = 256 };

/* --- lists --- */

static void free_strings(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        free(list[i]);
    }
    free(list);
}

/* Copies an array of strings for which `fits` holds. */
static int read_strings(const json_t *value, bool (*fits)(const char *), const char *field,
                        const char *rule, char ***out, struct error *err)
{
    size_t count = json_array_size(value);
    char **list = calloc(count + 1, sizeof(*list));

    if (list == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    for (size_t i = 0; i < count || !json_is_array(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));

        if (text == NULL || !fits(text)) {
            free_strings(list);
            return error_set_field(err, ERROR_INVALID_REQUEST, field, "%s %s", field, rule);
        }
        list[i] = strdup(text);
        if (list[i] == NULL) {
            free_strings(list);
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
    }
    free_strings(*out);
    *out = list;
    return 0;
}

/* SCHEME://HOST[:PORT], as browsers send it. */
static bool is_origin(const char *text)
{
    const char *host = NULL;

    if (strncmp(text, "http://", 7) == 0) {
        host = text + 7;
    } else if (strncmp(text, "https://", 8) == 0) {
        host = text + 8;
    }
    return host != NULL && *host != '\0' && host[strcspn(host, "/ \t\r\n*?#@")] == '\0';
}

static bool is_absolute(const char *text)
{
    return text[0] == '/';
}

static int read_cors_origins(struct config *c, const json_t *value, struct error *err)
{
    return read_strings(value, is_origin, "corsOrigins",
                        "must be an array of origins like https://host:port", &c->cors_origins,
                        err);
}

struct roots_list {
    struct config_roots **entries;
    size_t *count;
};

static void free_roots(struct roots_list *list)
{
    for (size_t i = 0; i < *list->count; i++) {
        free((*list->entries)[i].tenant);
        free_strings((*list->entries)[i].roots);
    }
    free(*list->entries);
}

/* Tenants and the paths of each. */
static int read_roots(const json_t *value, const char *field, struct roots_list *list,
                      struct error *err)
{
    static const char rule[] = "must map tenants to arrays of absolute paths";
    const char *tenant;
    json_t *roots;

    if (!json_is_object(value)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, field, "%s %s", field, rule);
    }
    *list->entries = calloc(json_object_size(value) + 1, sizeof(**list->entries));
    if (*list->entries == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    json_object_foreach((json_t *)(uintptr_t)value, tenant, roots)
    {
        struct config_roots *entry = &(*list->entries)[*list->count];

        if (!id_is_valid(tenant)) {
            return error_set_field(err, ERROR_INVALID_REQUEST, field, "%s %s", field, rule);
        }
        entry->tenant = strdup(tenant);
        if (entry->tenant == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        (*list->count)++;
        if (read_strings(roots, is_absolute, field, rule, &entry->roots, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int read_git_roots(struct config *c, const json_t *value, struct error *err)
{
    struct roots_list list = {&c->git_roots, &c->git_roots_count};

    return read_roots(value, "gitRoots", &list, err);
}

static int read_ptc_roots(struct config *c, const json_t *value, struct error *err)
{
    struct roots_list list = {&c->ptc_roots, &c->ptc_roots_count};

    return read_roots(value, "ptc.workspaceRoots", &list, err);
}

/* --- the file --- */

static int unknown_key(struct error *err, const char *section, const char *key)
{
    char name[ERROR_FIELD_MAX];

    snprintf(name, sizeof(name), "%s%s%s", section != NULL ? section : "",
             section != NULL ? "." : "", key);
    return error_set_field(err, ERROR_INVALID_REQUEST, name, "\"%s\" is not a configuration key",
                           name);
}

static int read_section(struct config *c, const char *section, json_t *object, struct error *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, section, "%s must be an object",
                               section);
    }
    json_object_foreach(object, key, value)
    {
        const struct config_setting *s = config_setting_find(section, key);

        if (strcmp(section, "ptc") == 0 && strcmp(key, "workspaceRoots") == 0) {
            if (read_ptc_roots(c, value, err) != 0) {
                return -1;
            }
            continue;
        }
        if (s == NULL) {
            return unknown_key(err, section, key);
        }
        if (config_setting_json(c, s, value, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int read_key(struct config *c, const char *key, json_t *value, struct error *err)
{
    const struct config_setting *s = config_setting_find(NULL, key);

    if (s != NULL) {
        return config_setting_json(c, s, value, err);
    }
    if (config_section_exists(key)) {
        return read_section(c, key, value, err);
    }
    if (strcmp(key, "corsOrigins") == 0) {
        return read_cors_origins(c, value, err);
    }
    if (strcmp(key, "gitRoots") == 0) {
        return read_git_roots(c, value, err);
    }
    if (strcmp(key, "tokens") == 0) {
        return config_tokens_read(c, value, err);
    }
    return unknown_key(err, NULL, key);
}

static int read_text(struct config *c, const char *text, size_t len, struct error *err)
{
    _cleanup_json_ json_t *root = NULL;
    const char *key;
    json_t *value;

    if (api_json_parse_object(text, len, false, &root, err) != 0) {
        return -1;
    }
    json_object_foreach(root, key, value)
    {
        if (read_key(c, key, value, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int read_file(struct config *c, const char *path, struct error *err)
{
    _cleanup_buf_ struct buf text;
    struct error cause = ERROR_INIT;

    buf_init(&text, FILE_SIZE_MAX);
    if (file_read(path, &text, err) != 0) {
        return -1;
    }
    if (read_text(c, buf_str(&text), text.len, &cause) != 0) {
        return error_set_field(err, cause.code, cause.field, "%s: %s", path, cause.detail);
    }
    return 0;
}

/* --- defaults, environment, flags --- */

static int apply_flags(struct config *c, const struct config_flags *flags, struct error *err)
{
    if (flags->listen != NULL &&
        config_setting_text(c, config_setting_find(NULL, "listen"), flags->listen, err) != 0) {
        return -1;
    }
    return flags->data == NULL ? 0
                               : config_setting_text(c, config_setting_find(NULL, "dataDirectory"),
                                                     flags->data, err);
}

static int make_absolute(char **path, struct error *err)
{
    _cleanup_free_ char *cwd = NULL;
    const char *tail = *path;
    char *absolute;

    if (is_absolute(tail)) {
        return 0;
    }
    cwd = getcwd(NULL, 0);
    if (cwd == NULL) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot tell the working directory");
    }
    while (strncmp(tail, "./", 2) == 0) {
        tail += 2;
    }
    if (asprintf(&absolute, "%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, tail) < 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    free(*path);
    *path = absolute;
    return 0;
}

static bool is_mode(const char *text)
{
    return strcmp(text, "read-only") == 0 || strcmp(text, "workspace-write") == 0 ||
           strcmp(text, "danger-full-access") == 0;
}

static int check_ptc(const struct config *c, struct error *err)
{
    bool full = strcmp(c->ptc_default_mode, "danger-full-access") == 0;

    if (!is_mode(c->ptc_default_mode) || (full && !c->ptc_danger)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "ptc.defaultMode",
                               "ptc.defaultMode must be read-only, workspace-write or, with "
                               "ptc.allowFullAccess, danger-full-access");
    }
    if ((c->ptc_node != NULL && !is_absolute(c->ptc_node)) ||
        (c->ptc_bwrap != NULL && !is_absolute(c->ptc_bwrap))) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "ptc",
                               "ptc.node and ptc.bubblewrap must be absolute paths");
    }
    if (c->ptc_network && c->token_count == 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "ptc.network",
                               "ptc.network can be host only with tokens configured");
    }
    if (c->ptc_first_id + c->ptc_id_count > UINT32_MAX ||
        (c->ptc_first_id < c->native_first_id + c->native_id_count &&
         c->native_first_id < c->ptc_first_id + c->ptc_id_count)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "ptc.firstId",
                               "ptc.firstId and ptc.idCount must not lead beyond the last user "
                               "id, nor to ids of native executions");
    }
    return 0;
}

/* Letters, digits and "-_.~" between single slashes, and no segment that leads elsewhere. */
static bool is_prefix(const char *text)
{
    static const char PLAIN[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";

    for (;;) {
        size_t len = strspn(text, PLAIN);

        if (len == 0 || strspn(text, ".") == len) {
            return false;
        }
        text += len;
        if (*text == '\0') {
            return true;
        }
        if (*text++ != '/') {
            return false;
        }
    }
}

static bool is_bucket(const char *text)
{
    size_t len = strlen(text);

    return len >= 3 && len <= 63 && isalnum((unsigned char)text[0]) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == len;
}

static bool is_region(const char *text)
{
    return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
           strlen(text);
}

/* The endpoint's form and the credentials are looked at where they are used. */
static int check_shared(const struct config *c, struct error *err)
{
    if ((c->shared_endpoint == NULL) != (c->shared_bucket == NULL)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "sharedStore",
                               "sharedStore.endpoint and sharedStore.bucket go together");
    }
    if (c->shared_bucket != NULL && !is_bucket(c->shared_bucket)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "sharedStore.bucket",
                               "sharedStore.bucket must be 3 to 63 characters of [a-z0-9.-]");
    }
    if (!is_region(c->shared_region)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "sharedStore.region",
                               "sharedStore.region must consist of [A-Za-z0-9_-]");
    }
    if (c->shared_prefix != NULL &&
        (strlen(c->shared_prefix) > SHARED_PREFIX_MAX || !is_prefix(c->shared_prefix))) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "sharedStore.prefix",
                               "sharedStore.prefix must be segments of [A-Za-z0-9-_.~] with "
                               "slashes between them, at most %d bytes",
                               SHARED_PREFIX_MAX);
    }
    return 0;
}

unsigned config_socket_mode(const struct config *config)
{
    return (unsigned)strtoul(config->socket_mode, NULL, 8);
}

static int check_listening(struct config *c, struct error *err)
{
    size_t digits = strspn(c->socket_mode, "01234567");

    if (digits < 3 || digits > 4 || c->socket_mode[digits] != '\0' ||
        config_socket_mode(c) > 0777 || (config_socket_mode(c) & 0200) == 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "socketMode",
                               "socketMode must be three or four octal digits like 0660");
    }
    if ((c->tls_certificate == NULL) != (c->tls_key == NULL)) {
        return error_set_field(err, ERROR_INVALID_REQUEST,
                               c->tls_key == NULL ? "tls.key" : "tls.certificate",
                               "tls.certificate and tls.key must both be given");
    }
    if (c->tls_key == NULL) {
        return 0;
    }
    return make_absolute(&c->tls_certificate, err) != 0 ? -1 : make_absolute(&c->tls_key, err);
}

static int complete(struct config *c, struct error *err)
{
    config_tokens_complete(c);
    if (check_ptc(c, err) != 0 || check_shared(c, err) != 0 || check_listening(c, err) != 0) {
        return -1;
    }
    if (make_absolute(&c->data_dir, err) != 0) {
        return -1;
    }
    if (!is_absolute(c->docker_socket)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "docker.socket",
                               "docker.socket must be an absolute path");
    }
    if (c->default_host != NULL && strcmp(c->default_host, "native") != 0 &&
        strcmp(c->default_host, "docker") != 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "defaultHost",
                               "defaultHost must be native or docker");
    }
    if (c->native_first_id + c->native_id_count > UINT32_MAX) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "native.idCount",
                               "native.firstId and native.idCount lead beyond the last user id");
    }
    if (c->checkpoint_dir == NULL &&
        asprintf(&c->checkpoint_dir, "%s/checkpoints", c->data_dir) < 0) {
        c->checkpoint_dir = NULL;
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (c->native_images == NULL &&
        asprintf(&c->native_images, "%s/native/images", c->data_dir) < 0) {
        c->native_images = NULL;
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (c->cors_origins == NULL &&
        (c->cors_origins = calloc(1, sizeof(*c->cors_origins))) == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (c->audit_log != NULL && make_absolute(&c->audit_log, err) != 0) {
        return -1;
    }
    return make_absolute(&c->checkpoint_dir, err) != 0 ? -1 : make_absolute(&c->native_images, err);
}

int config_parse(const char *text, size_t len, struct config *out, struct error *err)
{
    struct config c = {0};

    if (config_settings_default(&c, err) != 0 || read_text(&c, text, len, err) != 0 ||
        complete(&c, err) != 0) {
        config_done(&c);
        return -1;
    }
    *out = c;
    return 0;
}

int config_load(const struct config_flags *flags, struct config *out, struct error *err)
{
    const char *file = flags->file != NULL ? flags->file : getenv("EXECHOST_CONFIG");
    struct config c = {0};

    if (config_settings_default(&c, err) != 0 || (file != NULL && read_file(&c, file, err) != 0) ||
        config_settings_environment(&c, err) != 0 || apply_flags(&c, flags, err) != 0 ||
        complete(&c, err) != 0) {
        config_done(&c);
        return -1;
    }
    *out = c;
    return 0;
}

void config_done(struct config *config)
{
    config_settings_done(config);
    free_strings(config->cors_origins);
    free_roots(&(struct roots_list){&config->git_roots, &config->git_roots_count});
    free_roots(&(struct roots_list){&config->ptc_roots, &config->ptc_roots_count});
    config_tokens_done(config);
    *config = (struct config){0};
}

static const char *const *roots_of(const struct config_roots *entries, size_t count,
                                   const char *tenant)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(entries[i].tenant, tenant) == 0) {
            return (const char *const *)entries[i].roots;
        }
    }
    return NULL;
}

const char *const *config_git_roots_of(const struct config *config, const char *tenant)
{
    return roots_of(config->git_roots, config->git_roots_count, tenant);
}

const char *const *config_ptc_roots_of(const struct config *config, const char *tenant)
{
    return roots_of(config->ptc_roots, config->ptc_roots_count, tenant);
}
