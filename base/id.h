/* Identifiers. Any thread. */
#ifndef EXECHOST_BASE_ID_H
#define EXECHOST_BASE_ID_H

#include "base/macros.h"

#include <stdbool.h>

enum { ID_MAX = 64, ID_SIZE = ID_MAX + 1 };

/* "<prefix>-" and 26 random characters of [0-9a-v] (130 bits from getrandom). Aborts the process
 * only when the kernel has no randomness at all. `prefix` at most 16 bytes. */
void id_generate(const char *prefix, char out[ID_SIZE]);

/* [A-Za-z0-9][A-Za-z0-9_.-]{0,63} */
bool id_is_valid(const char *id);

#endif
