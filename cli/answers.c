#include "cli/answers.h"

#include "base/file.h"

#include <errno.h>
#include <jansson.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { FILE_LIMIT = 64 * 1024 * 1024, DECLARED_MAX = 256, NAME_LIMIT = 16 * 1024 };

struct declared {
    struct buf global; /* as JSON strings */
    struct buf function;
};

struct cli_answers {
    struct buf text; /* the file's value; empty: none */
    const char *command;
    struct declared declared[DECLARED_MAX];
    size_t count;
};

static int out_of_memory(struct error *err)
{
    return error_set(err, ERROR_INTERNAL, "no memory");
}

static bool same(struct ptc_text a, struct ptc_text b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static struct ptc_text text_of(const struct buf *b)
{
    return (struct ptc_text){.data = buf_str(b), .len = b->len};
}

/* --- what may be called --- */

static int no_object(void *ctx, struct ptc_text key, struct ptc_text value)
{
    (void)ctx;
    (void)key;
    return value.data[0] == '{' ? 0 : -1;
}

static int read_file(struct cli_answers *answers, const char *file, struct error *err)
{
    _cleanup_buf_ struct buf text;
    struct error why = ERROR_INIT;

    buf_init(&text, FILE_LIMIT);
    if (file_read(file, &text, err) != 0) {
        return -1;
    }
    if (ptc_json_write(buf_str(&text), text.len, &answers->text, &why) != 0) {
        return error_set(err, ERROR_INVALID_REQUEST, "%s: %s", file, why.detail);
    }
    if (answers->text.data[0] != '{' ||
        ptc_json_members(answers->text.data, answers->text.len, no_object, NULL) != 0) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "%s is not of the form {\"namespace\": {\"function\": value}}", file);
    }
    return 0;
}

struct cli_answers *cli_answers_new(const char *file, const char *command, struct error *err)
{
    struct cli_answers *answers = calloc(1, sizeof(*answers));

    if (answers == NULL) {
        out_of_memory(err);
        return NULL;
    }
    buf_init(&answers->text, FILE_LIMIT);
    answers->command = command;
    if (file != NULL && read_file(answers, file, err) != 0) {
        cli_answers_free(answers);
        return NULL;
    }
    return answers;
}

void cli_answers_free(struct cli_answers *answers)
{
    if (answers == NULL) {
        return;
    }
    for (size_t i = 0; i < answers->count; i++) {
        buf_done(&answers->declared[i].global);
        buf_done(&answers->declared[i].function);
    }
    buf_done(&answers->text);
    free(answers);
}

int cli_answers_declare(struct cli_answers *answers, const char *text, struct error *err)
{
    const char *dot = strchr(text, '.');
    struct declared *declared = &answers->declared[answers->count];
    struct ptc_text global;
    struct ptc_text function;

    if (dot == NULL || dot == text || answers->count == DECLARED_MAX) {
        return error_set(err, ERROR_INVALID_REQUEST, "%s is not NAMESPACE.FUNCTION", text);
    }
    global = (struct ptc_text){.data = text, .len = (size_t)(dot - text)};
    function = (struct ptc_text){.data = dot + 1, .len = strlen(dot + 1)};
    buf_init(&declared->global, NAME_LIMIT);
    buf_init(&declared->function, NAME_LIMIT);
    answers->count++;
    return ptc_json_quote(global, &declared->global) == 0 &&
                   ptc_json_quote(function, &declared->function) == 0
               ? 0
               : out_of_memory(err);
}

/* The functions of one namespace, from the file and from what was declared. */
struct listing {
    const struct cli_answers *answers;
    struct buf *out;
    bool first;
};

static int add_name(struct listing *listing, struct ptc_text name)
{
    int result = listing->first ? 0 : buf_add_char(listing->out, ',');

    listing->first = false;
    return result != 0 ? result : buf_add(listing->out, name.data, name.len);
}

static int add_function(void *ctx, struct ptc_text key, struct ptc_text value)
{
    (void)value;
    return add_name(ctx, key);
}

static int add_declared(struct listing *listing, struct ptc_text global)
{
    const struct cli_answers *answers = listing->answers;

    for (size_t i = 0; i < answers->count; i++) {
        if (same(text_of(&answers->declared[i].global), global) &&
            add_name(listing, text_of(&answers->declared[i].function)) != 0) {
            return -1;
        }
    }
    return 0;
}

static int add_namespace(struct listing *all, struct ptc_text global, struct ptc_text functions)
{
    struct listing names = {.answers = all->answers, .out = all->out, .first = true};

    if (buf_addf(all->out, "%s{\"global\":%.*s,\"functions\":[", all->first ? "" : ",",
                 (int)global.len, global.data) != 0 ||
        (functions.len > 0 &&
         ptc_json_members(functions.data, functions.len, add_function, &names) != 0) ||
        add_declared(&names, global) != 0) {
        return -1;
    }
    all->first = false;
    return buf_add_str(all->out, "]}");
}

static int add_file_namespace(void *ctx, struct ptc_text key, struct ptc_text value)
{
    return add_namespace(ctx, key, value);
}

struct search {
    struct ptc_text name;
    struct ptc_text found; /* data NULL: none */
};

static int look(void *ctx, struct ptc_text key, struct ptc_text value)
{
    struct search *search = ctx;

    if (same(key, search->name)) {
        search->found = value;
    }
    return 0;
}

static struct ptc_text member(struct ptc_text object, struct ptc_text name)
{
    struct search search = {.name = name};

    if (object.len > 0 && ptc_json_members(object.data, object.len, look, &search) != 0) {
        search.found.data = NULL;
    }
    return search.found;
}

static bool is_listed(const struct cli_answers *answers, size_t index)
{
    struct ptc_text global = text_of(&answers->declared[index].global);

    for (size_t i = 0; i < index; i++) {
        if (same(text_of(&answers->declared[i].global), global)) {
            return true;
        }
    }
    return member(text_of(&answers->text), global).data != NULL;
}

int cli_answers_bindings(const struct cli_answers *answers, struct buf *out, struct error *err)
{
    struct listing all = {.answers = answers, .out = out, .first = true};
    struct ptc_text none = {.data = "", .len = 0};
    struct ptc_text file = text_of(&answers->text);

    if (buf_add_char(out, '[') != 0 ||
        (file.len > 0 && ptc_json_members(file.data, file.len, add_file_namespace, &all) != 0)) {
        return out_of_memory(err);
    }
    for (size_t i = 0; i < answers->count; i++) {
        if (!is_listed(answers, i) &&
            add_namespace(&all, text_of(&answers->declared[i].global), none) != 0) {
            return out_of_memory(err);
        }
    }
    return buf_add_char(out, ']') == 0 ? 0 : out_of_memory(err);
}

/* --- the answer of a command --- */

/* Standard input, output and error of it, in memory. */
struct places {
    int in;
    int out;
    int error;
};

static int open_places(struct places *places, struct ptc_text argument, struct error *err)
{
    places->in = memfd_create("argument", MFD_CLOEXEC);
    places->out = memfd_create("value", MFD_CLOEXEC);
    places->error = memfd_create("message", MFD_CLOEXEC);
    if (places->in < 0 || places->out < 0 || places->error < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "no memory for a command");
    }
    if (file_write_all(places->in, argument.data, argument.len, err) != 0) {
        return -1;
    }
    return lseek(places->in, 0, SEEK_SET) == 0 ? 0 : out_of_memory(err);
}

static void close_places(struct places *places)
{
    cleanup_close(&places->in);
    cleanup_close(&places->out);
    cleanup_close(&places->error);
}

static int read_place(int fd, struct buf *out, struct error *err)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *place = size > 0 ? buf_reserve(out, (size_t)size) : NULL;

    if (size <= 0) {
        return 0;
    }
    if (place == NULL || pread(fd, place, (size_t)size, 0) != size) {
        return error_set(err, ERROR_INTERNAL, "a command said too much");
    }
    out->len += (size_t)size;
    return 0;
}

/* A JSON string as text; "" when it can't be. Returns owned, NULL when memory is out. */
static char *decoded(struct ptc_text text)
{
    json_t *value = json_loadb(text.data, text.len, JSON_DECODE_ANY, NULL);
    char *copy = strdup(json_is_string(value) ? json_string_value(value) : "");

    json_decref(value);
    return copy;
}

static int spawn(const char *command, const char *global, const char *function,
                 const struct places *places, pid_t *pid)
{
    char *argv[] = {(char *)"sh",     (char *)"-c", (char *)command, (char *)"sh", (char *)global,
                    (char *)function, NULL};
    posix_spawn_file_actions_t actions;
    int result;

    if (posix_spawn_file_actions_init(&actions) != 0) {
        return ENOMEM;
    }
    posix_spawn_file_actions_adddup2(&actions, places->in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, places->out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, places->error, STDERR_FILENO);
    result = posix_spawn(pid, "/bin/sh", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

/* `status` is what waitpid says. */
static int run_command(const struct cli_answers *answers, struct ptc_text global,
                       struct ptc_text function, const struct places *places, int *status,
                       struct error *err)
{
    _cleanup_free_ char *first = decoded(global);
    _cleanup_free_ char *second = decoded(function);
    pid_t pid = -1;
    int failed = first == NULL || second == NULL
                     ? ENOMEM
                     : spawn(answers->command, first, second, places, &pid);

    if (failed != 0) {
        return error_set_errno(err, ERROR_INTERNAL, failed, "/bin/sh can't be started");
    }
    while (waitpid(pid, status, 0) < 0) {
        if (errno != EINTR) {
            return error_set_errno(err, ERROR_INTERNAL, errno, "a command was lost");
        }
    }
    return 0;
}

/* --- answers --- */

static int refuse(struct ptc_text message, struct buf *out, struct error *err)
{
    return buf_add_str(out, "{\"ok\":false,\"message\":") == 0 &&
                   ptc_json_quote(message, out) == 0 && buf_add_char(out, '}') == 0
               ? 0
               : out_of_memory(err);
}

static int refuse_text(const char *message, struct buf *out, struct error *err)
{
    return refuse((struct ptc_text){.data = message, .len = strlen(message)}, out, err);
}

static int give(struct ptc_text value, struct buf *out, struct error *err)
{
    return buf_add_str(out, "{\"ok\":true,\"value\":") == 0 &&
                   buf_add(out, value.data, value.len) == 0 && buf_add_char(out, '}') == 0
               ? 0
               : out_of_memory(err);
}

static size_t without_end(const struct buf *text)
{
    size_t len = text->len;

    while (len > 0 && strchr(" \t\r\n", text->data[len - 1]) != NULL) {
        len--;
    }
    return len;
}

/* What the command said, as an answer. */
static int answer_of(const struct places *places, int status, struct buf *out, struct error *err)
{
    _cleanup_buf_ struct buf said;
    _cleanup_buf_ struct buf value;
    struct error why = ERROR_INIT;
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    buf_init(&said, FILE_LIMIT);
    buf_init(&value, FILE_LIMIT);
    if (read_place(fine ? places->out : places->error, &said, err) != 0) {
        return -1;
    }
    if (!fine) {
        size_t len = without_end(&said);

        return len == 0 ? refuse_text("the command failed", out, err)
                        : refuse((struct ptc_text){.data = said.data, .len = len}, out, err);
    }
    if (without_end(&said) == 0) {
        return buf_add_str(out, "{\"ok\":true}") == 0 ? 0 : out_of_memory(err);
    }
    if (ptc_json_write(said.data, said.len, &value, &why) != 0) {
        return refuse_text("the command did not print JSON", out, err);
    }
    return give(text_of(&value), out, err);
}

static int ask_command(const struct cli_answers *answers, struct ptc_text global,
                       struct ptc_text function, struct ptc_text argument, struct buf *out,
                       struct error *err)
{
    struct places places = {.in = -1, .out = -1, .error = -1};
    int status = 0;
    int result = open_places(&places, argument, err);

    if (result == 0) {
        result = run_command(answers, global, function, &places, &status, err);
    }
    if (result == 0) {
        result = answer_of(&places, status, out, err);
    }
    close_places(&places);
    return result;
}

int cli_answers_find(const struct cli_answers *answers, struct ptc_text global,
                     struct ptc_text function, struct ptc_text argument, struct buf *out,
                     struct error *err)
{
    static const struct ptc_text error_name = {.data = "\"$error\"", .len = 8};
    struct ptc_text value = member(member(text_of(&answers->text), global), function);
    struct ptc_text message = {.data = NULL};

    if (value.data == NULL) {
        return answers->command != NULL ? ask_command(answers, global, function, argument, out, err)
                                        : refuse_text("nothing answers this call", out, err);
    }
    if (value.data[0] == '{') {
        message = member(value, error_name);
    }
    if (message.data == NULL || message.data[0] != '"') {
        return give(value, out, err);
    }
    return buf_addf(out, "{\"ok\":false,\"message\":%.*s}", (int)message.len, message.data) == 0
               ? 0
               : out_of_memory(err);
}
