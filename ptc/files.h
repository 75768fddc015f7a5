/* Files that are part of the service: the launchers and the bootstrap's modules. Static. */
#ifndef EXECHOST_PTC_FILES_H
#define EXECHOST_PTC_FILES_H

#include <stddef.h>

struct ptc_file {
    const char *name;
    const char *start;
    const char *end;
};

extern const struct ptc_file ptc_launch_file;
extern const struct ptc_file ptc_inside_file;
/* Ends with a NULL name. */
extern const struct ptc_file ptc_bootstrap_files[];

#endif
