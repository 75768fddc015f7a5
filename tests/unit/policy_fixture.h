/* What the tests of policy rules share. */
#ifndef EXECHOST_TESTS_POLICY_FIXTURE_H
#define EXECHOST_TESTS_POLICY_FIXTURE_H

#include "api/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The value of a JSON text; the test fails when it is none. Returns owned. */
static inline json_t *json_of(const char *text)
{
    struct error err = ERROR_INIT;
    json_t *value = NULL;

    if (api_json_parse(text, strlen(text), &value, &err) != 0) {
        fail_msg("%s: %s", text, err.detail);
    }
    return value;
}

#endif
