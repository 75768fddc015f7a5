/* The bindings of a request: their shape and names. Any thread. */
#ifndef EXECHOST_PTC_BINDINGS_H
#define EXECHOST_PTC_BINDINGS_H

#include "base/error.h"

#include <jansson.h>

/* Returns a new reference to what a spec shows; NULL with ERROR_PTC_INVALID_REQUEST and the pointer
 * of the fault, or ERROR_INTERNAL. */
json_t *ptc_bindings_resolve(json_t *bindings, struct error *err) WARN_UNUSED;

#endif
