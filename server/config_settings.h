/* Inside of the configuration: the table of its scalar keys, and how each is set from text or JSON.
 * Faults are ERROR_INVALID_REQUEST with the key ("docker.pull") in `field`. No file but
 * server/config*.c includes this. Called before there are threads. */
#ifndef EXECHOST_SERVER_CONFIG_SETTINGS_H
#define EXECHOST_SERVER_CONFIG_SETTINGS_H

#include "server/config.h"

#include <jansson.h>

struct config_setting;

/* `section` is the object the key stands in, NULL for the outermost. NULL when there is no such
 * key. */
const struct config_setting *config_setting_find(const char *section, const char *key);
bool config_section_exists(const char *key);

int config_setting_text(struct config *c, const struct config_setting *s, const char *text,
                        struct error *err) WARN_UNUSED;
int config_setting_json(struct config *c, const struct config_setting *s, const json_t *value,
                        struct error *err) WARN_UNUSED;

int config_settings_default(struct config *c, struct error *err) WARN_UNUSED;
int config_settings_environment(struct config *c, struct error *err) WARN_UNUSED;
void config_settings_done(struct config *c);

#endif
