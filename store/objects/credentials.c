#include "store/objects/objects.h"

#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_MAX = 64 * 1024 };

static void forget(char **text)
{
    if (*text != NULL) {
        explicit_bzero(*text, strlen(*text));
    }
    free(*text);
    *text = NULL;
}

void objects_credentials_done(struct objects_credentials *c)
{
    forget(&c->access_key);
    forget(&c->secret_key);
    forget(&c->session_token);
}

/* --- a file --- */

static const char BLANKS[] = " \t\r";

/* The text without blanks around it. */
static char *trim(char *text)
{
    size_t len;

    text += strspn(text, BLANKS);
    len = strlen(text);
    while (len > 0 && strchr(BLANKS, text[len - 1]) != NULL) {
        text[--len] = '\0';
    }
    return text;
}

static int take_value(struct objects_credentials *c, const char *key, const char *value,
                      struct error *err)
{
    char **to = NULL;

    if (strcmp(key, "aws_access_key_id") == 0) {
        to = &c->access_key;
    } else if (strcmp(key, "aws_secret_access_key") == 0) {
        to = &c->secret_key;
    } else if (strcmp(key, "aws_session_token") == 0) {
        to = &c->session_token;
    }
    if (to == NULL || *value == '\0') {
        return 0;
    }
    forget(to);
    *to = strdup(value);
    return *to != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

static int take_line(struct objects_credentials *c, char *line, bool *in_default, struct error *err)
{
    char *equals;

    line = trim(line);
    if (*line == '\0' || *line == '#' || *line == ';') {
        return 0;
    }
    if (*line == '[') {
        *in_default = strcmp(line, "[default]") == 0;
        return 0;
    }
    equals = strchr(line, '=');
    if (equals == NULL) {
        return error_set(err, ERROR_INVALID_REQUEST, "a line is neither [section] nor key = value");
    }
    *equals = '\0';
    return *in_default ? take_value(c, trim(line), trim(equals + 1), err) : 0;
}

static int check(const struct objects_credentials *c, const char *access, const char *secret,
                 struct error *err)
{
    if (c->access_key == NULL || c->secret_key == NULL) {
        return error_set(err, ERROR_INVALID_REQUEST, "%s is missing",
                         c->access_key == NULL ? access : secret);
    }
    for (const char *const *text =
             (const char *const[]){c->access_key, c->secret_key, c->session_token, NULL};
         *text != NULL; text++) {
        for (const char *p = *text; *p != '\0'; p++) {
            if (*p <= ' ' || *p > '~') {
                return error_set(err, ERROR_INVALID_REQUEST,
                                 "credentials are printable ASCII without blanks");
            }
        }
    }
    return 0;
}

int objects_credentials_parse(const char *text, size_t len, struct objects_credentials *out,
                              struct error *err)
{
    struct objects_credentials c = {0};
    char *copy = malloc(len + 1);
    char *rest = copy;
    bool in_default = false;
    int result = copy != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");

    if (copy != NULL) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    if (result == 0 && strlen(copy) != len) {
        result = error_set(err, ERROR_INVALID_REQUEST, "a NUL in it");
    }
    for (char *line; result == 0 && (line = strsep(&rest, "\n")) != NULL;) {
        result = take_line(&c, line, &in_default, err);
    }
    if (result == 0) {
        result =
            check(&c, "aws_access_key_id of [default]", "aws_secret_access_key of [default]", err);
    }
    if (copy != NULL) {
        explicit_bzero(copy, len);
    }
    free(copy);
    if (result != 0) {
        objects_credentials_done(&c);
        return -1;
    }
    *out = c;
    return 0;
}

static int load_file(const char *file, struct objects_credentials *out, struct error *err)
{
    _cleanup_buf_ struct buf text;
    struct error cause = ERROR_INIT;
    struct stat st;
    int result;

    buf_init(&text, FILE_MAX);
    if (stat(file, &st) != 0) {
        return error_set_errno(err, ERROR_INVALID_REQUEST, errno, "cannot look at %s", file);
    }
    if (!S_ISREG(st.st_mode) || (st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "%s must be a regular file that only its owner may read (mode 0600)",
                         file);
    }
    if (file_read(file, &text, err) != 0) {
        return -1;
    }
    result = objects_credentials_parse(buf_str(&text), text.len, out, &cause);
    if (text.data != NULL) {
        explicit_bzero(text.data, text.len);
    }
    return result == 0 ? 0 : error_set(err, cause.code, "%s: %s", file, cause.detail);
}

/* --- the environment --- */

static int take_variable(const char *name, char **to, struct error *err)
{
    const char *value = getenv(name);

    if (value == NULL || *value == '\0') {
        return 0;
    }
    *to = strdup(value);
    return *to != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

int objects_credentials_load(const char *file, struct objects_credentials *out, struct error *err)
{
    struct objects_credentials c = {0};

    if (file != NULL) {
        return load_file(file, out, err);
    }
    if (take_variable("AWS_ACCESS_KEY_ID", &c.access_key, err) != 0 ||
        take_variable("AWS_SECRET_ACCESS_KEY", &c.secret_key, err) != 0 ||
        take_variable("AWS_SESSION_TOKEN", &c.session_token, err) != 0 ||
        check(&c, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", err) != 0) {
        objects_credentials_done(&c);
        return -1;
    }
    *out = c;
    return 0;
}
