/* Which environment names look like they carry a secret. The rule of provision, exec, image check
 * and restore alike: uppercase the name, drop what is neither letter nor digit, and it must not
 * contain TOKEN, SECRET, PASSWORD, PASSWD, APIKEY, KEYAPI, ACCESSKEY, PRIVATEKEY or CREDENTIAL.
 * Pure; any thread. */
#ifndef EXECHOST_BASE_SECRET_H
#define EXECHOST_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* `len` bytes of name, without "=value". */
bool secret_name_like(const char *name, size_t len);

#endif
