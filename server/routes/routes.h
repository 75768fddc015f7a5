/* The routes: decode, call a service, encode. No rules, no state beyond an exchange's own. */
#ifndef EXECHOST_SERVER_ROUTES_ROUTES_H
#define EXECHOST_SERVER_ROUTES_ROUTES_H

#include "server/config.h"
#include "server/http/http.h"

/* The whole table; static but for the body caps, which the first call sets from the configuration.
 */
const struct http_route *routes_table(const struct config *config, size_t *count);
/* The places of routes in the table; NULL: one behind the last. */
size_t routes_count(void);
size_t routes_index(const struct http_route *route);
void routes_name(size_t index, const char **method, const char **path);

/* Idempotency keys, on every POST and PUT. */
extern const struct http_guard routes_guard;

void route_execution_create(struct http_exchange *x);
void route_execution_list(struct http_exchange *x);
void route_execution_get(struct http_exchange *x);
void route_execution_patch(struct http_exchange *x);
void route_execution_delete(struct http_exchange *x);
void route_execution_reclaim(struct http_exchange *x);
void route_execution_owner(struct http_exchange *x);

void route_command_create(struct http_exchange *x);
void route_command_list(struct http_exchange *x);
void route_command_get(struct http_exchange *x);
void route_command_delete(struct http_exchange *x);
void route_command_stdin(struct http_exchange *x);
void route_command_signal(struct http_exchange *x);

void route_command_events(struct http_exchange *x);
void route_command_stdout(struct http_exchange *x);
void route_command_stderr(struct http_exchange *x);
void route_events(struct http_exchange *x);

void route_checkpoint_create(struct http_exchange *x);
void route_checkpoint_list(struct http_exchange *x);
void route_checkpoint_get(struct http_exchange *x);
void route_checkpoint_delete(struct http_exchange *x);
void route_checkpoint_verify(struct http_exchange *x);
void route_checkpoint_restore(struct http_exchange *x);
void route_checkpoint_manifest(struct http_exchange *x);
void route_checkpoint_archive(struct http_exchange *x);
void route_checkpoint_export(struct http_exchange *x);
void route_checkpoint_import(struct http_exchange *x);
void route_checkpoint_share(struct http_exchange *x);
void route_shared_list(struct http_exchange *x);

void route_file_list(struct http_exchange *x);
void route_file_read(struct http_exchange *x);
void route_file_write(struct http_exchange *x);
void route_file_remove(struct http_exchange *x);
void route_archive_read(struct http_exchange *x);
void route_archive_write(struct http_exchange *x);

void route_image_list(struct http_exchange *x);
void route_image_fetch(struct http_exchange *x);
void route_image_remove(struct http_exchange *x);

void route_ptc(struct http_exchange *x);
void route_ptc_resolve(struct http_exchange *x);
void route_dashboard(struct http_exchange *x);
void route_asset(struct http_exchange *x);

void route_run_create(struct http_exchange *x);
void route_run_list(struct http_exchange *x);
void route_run_get(struct http_exchange *x);
void route_run_delete(struct http_exchange *x);
void route_run_events(struct http_exchange *x);
void route_run_calls(struct http_exchange *x);
void route_run_answer(struct http_exchange *x);

void route_host(struct http_exchange *x);
void route_metrics(struct http_exchange *x);
void route_health(struct http_exchange *x);
void route_ready(struct http_exchange *x);
void route_openapi_json(struct http_exchange *x);
void route_openapi_yaml(struct http_exchange *x);

#endif
