/* Signals by name, as `kill -l` shows them with SIG before: SIGINT, SIGRTMIN+1. Pure; any thread.
 */
#ifndef EXECHOST_API_SIGNAL_H
#define EXECHOST_API_SIGNAL_H

#include "base/error.h"

#include <stddef.h>

enum { API_SIGNAL_SIZE = 16 };

/* 0 when there is no such signal. */
int api_signal_number(const char *name);
void api_signal_name(int number, char out[API_SIGNAL_SIZE]);

/* POST …/commands/{commandId}/signal: the number of the signal asked for. */
int api_signal_decode(const char *body, size_t len, int *number, struct error *err) WARN_UNUSED;

#endif
