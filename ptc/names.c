#include "ptc/names.h"

#include "base/macros.h"

#include <string.h>

/* ECMAScript's reserved words, those of strict code and modules, and what acts like one. */
static const char *const ecmascript[] = {
    "arguments", "async",    "await",      "break",   "case",    "catch",      "class",
    "const",     "continue", "debugger",   "default", "delete",  "do",         "else",
    "enum",      "eval",     "export",     "extends", "false",   "finally",    "for",
    "function",  "if",       "implements", "import",  "in",      "instanceof", "interface",
    "let",       "new",      "null",       "package", "private", "protected",  "public",
    "return",    "static",   "super",      "switch",  "this",    "throw",      "true",
    "try",       "typeof",   "undefined",  "var",     "void",    "while",      "with",
    "yield",     "NaN",      "Infinity",
};

static const char *const python[] = {
    "False", "None",   "True",  "and",    "as",   "assert", "def",      "del",
    "elif",  "except", "from",  "global", "is",   "lambda", "nonlocal", "not",
    "or",    "pass",   "raise", "match",  "case", "type",   "_",
};

static const char *const taken[] = {
    "console", "__dsh_main__", "__builtins__", "__name__", "__debug__",
};

static const char *const error_members[] = {
    "name", "message", "stack", "args", "with_traceback", "add_note",
};

static bool is_one_of(const char *name, size_t len, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(list[i]) == len && memcmp(list[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_identifier(const char *name, size_t len)
{
    if (len == 0 || !is_letter(name[0])) {
        return false;
    }
    for (size_t i = 1; i < len; i++) {
        if (!is_letter(name[i]) && (name[i] < '0' || name[i] > '9')) {
            return false;
        }
    }
    return true;
}

const char *ptc_name_fault(const char *name, size_t len)
{
    if (!is_identifier(name, len)) {
        return "must be [A-Za-z_][A-Za-z0-9_]*";
    }
    if (is_one_of(name, len, ecmascript, ARRAY_SIZE(ecmascript))) {
        return "is a reserved word of ECMAScript";
    }
    if (is_one_of(name, len, python, ARRAY_SIZE(python))) {
        return "is a reserved word of Python";
    }
    return is_one_of(name, len, taken, ARRAY_SIZE(taken)) ? "is taken" : NULL;
}

const char *ptc_member_property_fault(const char *name, size_t len)
{
    if (len == 0) {
        return "must not be empty";
    }
    if (is_one_of(name, len, error_members, ARRAY_SIZE(error_members))) {
        return "is a member of every error";
    }
    if (len >= 4 && memcmp(name, "__", 2) == 0 && memcmp(name + len - 2, "__", 2) == 0) {
        return "must not begin and end with two underscores";
    }
    return NULL;
}
