/* The rules of names in bindings. Owns nothing; any thread. */
#ifndef EXECHOST_PTC_NAMES_H
#define EXECHOST_PTC_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Why a namespace or error class can't be called that; NULL: it can. Static. */
const char *ptc_name_fault(const char *name, size_t len);
/* The same of an error class's memberNameProperty. */
const char *ptc_member_property_fault(const char *name, size_t len);

#endif
