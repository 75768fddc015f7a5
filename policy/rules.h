/* What the module's files share. */
#ifndef EXECHOST_POLICY_RULES_H
#define EXECHOST_POLICY_RULES_H

#include "base/error.h"

#include <jansson.h>

/* As error_set_field with ERROR_INVALID_REQUEST and PHASE_VALIDATE; the detail is "<field> <rule>".
 */
int policy_refuse(struct error *err, const char *field, const char *rule);

/* As api_owner_read with the phase set, and an execution id. */
int policy_execution_id(const json_t *id, const char *pointer, struct error *err) WARN_UNUSED;

/* How an execution starts, into `plan`. */
struct host_provision_plan;
int policy_workspace(json_t *workspace, const char *const *git_roots,
                     struct host_provision_plan *plan, struct error *err) WARN_UNUSED;

#endif
