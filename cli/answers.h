/* What answers the calls of a program: values of a JSON file, or a command. Text of JSON is in its
 * one form (ptc_json_write). One thread; a command blocks until it has ended. */
#ifndef EXECHOST_CLI_ANSWERS_H
#define EXECHOST_CLI_ANSWERS_H

#include "ptc/json.h"

struct cli_answers;

/* `file`: {"namespace": {"function": value, …}, …}, where {"$error": "message"} makes the call
 * throw; or NULL. `command`: run by /bin/sh for calls of what the file does not have, with
 * namespace and function as $1 and $2 and the argument on standard input; its standard output is
 * the value (none: undefined), a failure throws what it said on standard error; or NULL. Borrows
 * both. Returns owned. */
struct cli_answers *cli_answers_new(const char *file, const char *command,
                                    struct error *err) WARN_UNUSED;
void cli_answers_free(struct cli_answers *answers);

/* Declares "NAMESPACE.FUNCTION" for the command; all after the first dot is the function. */
int cli_answers_declare(struct cli_answers *answers, const char *text,
                        struct error *err) WARN_UNUSED;
/* Appends the request's `bindings`. */
int cli_answers_bindings(const struct cli_answers *answers, struct buf *out,
                         struct error *err) WARN_UNUSED;
/* Appends the body of the answer to a call of two names, as JSON strings, with an argument (empty:
 * none). */
int cli_answers_find(const struct cli_answers *answers, struct ptc_text global,
                     struct ptc_text function, struct ptc_text argument, struct buf *out,
                     struct error *err) WARN_UNUSED;

#endif
