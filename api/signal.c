#include "api/signal.h"

#include "api/field.h"
#include "api/json.h"

#include <signal.h>
#include <string.h>

/* Other names of some. */
static const struct {
    const char *name;
    int number;
} ALIASES[] = {{"CLD", SIGCHLD}, {"IO", SIGIO}, {"IOT", SIGABRT}, {"POLL", SIGPOLL}};

/* 0, or the count behind `sign`, one to three digits. */
static int offset_of(const char *text, char sign)
{
    int value = 0;
    if (text[0] != sign || text[1] < '1' || text[1] > '9' || strlen(text) > 4) {
        return 0;
    }
    for (const char *c = text + 1; *c != '\0'; c++) {
        if (*c < '0' || *c > '9') {
            return 0;
        }
        value = value * 10 + (*c - '0');
    }
    return value;
}

/* "RTMIN", "RTMIN+3", "RTMAX-2", "RTMAX" */
static int realtime_number(const char *name)
{
    static const char min[] = "RTMIN";
    static const char max[] = "RTMAX";
    const char *rest = name + sizeof(min) - 1;
    int number = 0;
    if (strncmp(name, min, sizeof(min) - 1) == 0) {
        int offset = offset_of(rest, '+');
        number = *rest == '\0' || offset > 0 ? SIGRTMIN + offset : 0;
    } else if (strncmp(name, max, sizeof(max) - 1) == 0) {
        int offset = offset_of(rest, '-');
        number = *rest == '\0' || offset > 0 ? SIGRTMAX - offset : 0;
    }
    return number >= SIGRTMIN && number <= SIGRTMAX ? number : 0;
}

int api_signal_number(const char *name)
{
    if (strncmp(name, "SIG", 3) != 0) {
        return 0;
    }
    name += 3;
    for (int number = 1; number < SIGRTMIN; number++) {
        const char *known = sigabbrev_np(number);
        if (known != NULL && strcmp(known, name) == 0) {
            return number;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(ALIASES); i++) {
        if (strcmp(ALIASES[i].name, name) == 0) {
            return ALIASES[i].number;
        }
    }
    return realtime_number(name);
}

void api_signal_name(int number, char out[API_SIGNAL_SIZE])
{
    const char *known = sigabbrev_np(number);
    if (known != NULL) {
        snprintf(out, API_SIGNAL_SIZE, "SIG%s", known);
    } else if (number == SIGRTMIN) {
        snprintf(out, API_SIGNAL_SIZE, "SIGRTMIN");
    } else {
        snprintf(out, API_SIGNAL_SIZE, "SIGRTMIN+%d", number - SIGRTMIN);
    }
}

int api_signal_decode(const char *body, size_t len, int *number, struct error *err)
{
    struct signal_fields {
        const char *signal;
    } fields = {NULL};
    static const struct api_field known[] = {
        {"signal", API_STRING, true, offsetof(struct signal_fields, signal)},
    };
    static const struct api_field_table table = {known, ARRAY_SIZE(known), ERROR_INVALID_REQUEST};
    _cleanup_json_ json_t *root = NULL;

    if (api_json_parse_object(body, len, false, &root, err) != 0 ||
        api_fields_decode(root, "", &table, &fields, err) != 0) {
        return -1;
    }
    *number = api_signal_number(fields.signal);
    if (*number == 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/signal",
                               "there is no signal \"%.32s\"; names are like SIGINT",
                               fields.signal);
    }
    return 0;
}
