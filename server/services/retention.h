/* Lets go of what is over and too old or too much: checkpoints, transcripts of ended commands,
 * records of ended executions. A timer asks a worker to look every `sweepIntervalMs`; what a look
 * finds beyond a bounded number is left to the next one, which then comes at once. What is being
 * read stays until its reader is done. For an hour after the wall clock has jumped ahead nothing
 * goes for its age. */
#ifndef EXECHOST_SERVER_SERVICES_RETENTION_H
#define EXECHOST_SERVER_SERVICES_RETENTION_H

#include "server/service.h"

/* From now on until the service's timers stop. */
void retention_start(struct service *s);

#endif
