#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

struct unit {
    const char *name;
    int64_t factor;
};

static int parse_with_unit(const char *text, const struct unit *units, size_t count, int64_t *out)
{
    char *end = NULL;
    double value;

    errno = 0;
    value = strtod(text, &end);
    if (end == text || errno != 0 || !isfinite(value) || value < 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        double whole = value * (double)units[i].factor;

        if (strcmp(end, units[i].name) == 0 && whole < 9e15) {
            *out = (int64_t)whole;
            return 0;
        }
    }
    return -1;
}

int cli_parse_size(const char *text, int64_t *out)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", INT64_C(1) << 10},
        {"KB", INT64_C(1) << 10},
        {"KiB", INT64_C(1) << 10},
        {"M", INT64_C(1) << 20},
        {"MB", INT64_C(1) << 20},
        {"MiB", INT64_C(1) << 20},
        {"G", INT64_C(1) << 30},
        {"GB", INT64_C(1) << 30},
        {"GiB", INT64_C(1) << 30},
        {"T", INT64_C(1) << 40},
        {"TB", INT64_C(1) << 40},
        {"TiB", INT64_C(1) << 40},
    };

    return parse_with_unit(text, units, ARRAY_SIZE(units), out);
}

int cli_parse_duration(const char *text, int64_t *out)
{
    static const struct unit units[] = {
        {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

    return parse_with_unit(text, units, ARRAY_SIZE(units), out);
}

int cli_parse_cpus(const char *text, double *out)
{
    char *end = NULL;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !isfinite(value) || value <= 0) {
        return -1;
    }
    *out = value;
    return 0;
}

int cli_parse_count(const char *text, int64_t *out)
{
    char *end = NULL;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 1) {
        return -1;
    }
    *out = value;
    return 0;
}

int cli_fail(const char *verb, const struct error *err)
{
    if (err->field[0] != '\0') {
        fprintf(stderr, "exechost: %s: %s (%s)\n", verb, err->detail, err->field);
    } else {
        fprintf(stderr, "exechost: %s: %s\n", verb, err->detail);
    }
    return CLI_FAULT;
}

int cli_misused(const char *verb, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "exechost: %s: ", verb);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "; exechost %s --help says more\n", verb);
    return CLI_USAGE;
}
