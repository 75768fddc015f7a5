/* How the launcher is started: its descriptors and arguments. Shared by the service and
 * ptc/launch. */
#ifndef EXECHOST_PTC_LAUNCH_PROTOCOL_H
#define EXECHOST_PTC_LAUNCH_PROTOCOL_H

/* Standard input is /dev/null, output and error are pipes. */
enum launch_fd {
    LAUNCH_CONTROL = 3, /* the only one besides the standard ones that the program's process gets */
    LAUNCH_INFO,        /* a pid_t: who goes on to be bubblewrap; then bubblewrap's --info-fd */
    LAUNCH_SECCOMP,     /* bubblewrap's --seccomp */
    LAUNCH_BWRAP,       /* bubblewrap itself */
    LAUNCH_STAGE,       /* a directory with node, bootstrap, etc and workspace in it */
    LAUNCH_NODE,        /* goes to LAUNCH_PLACE/node */
    LAUNCH_WORKSPACE,   /* goes to LAUNCH_PLACE/workspace; may be closed */
    LAUNCH_BIRTH,       /* directory of the control group to be born in; may be closed */
    LAUNCH_GROUPS,      /* the files by which a process goes into the others, from here on */
};

/* Where the stage is mounted, in a mount namespace of the launcher's own. */
#define LAUNCH_PLACE "/mnt"

/* argv: name, uid, gid, number of groups, and bubblewrap's arguments from its name on. */
enum { LAUNCH_ARG_UID = 1, LAUNCH_ARG_GID, LAUNCH_ARG_GROUPS, LAUNCH_ARG_BWRAP };

/* A failure is a line on standard error that starts so, and this exit status. */
#define LAUNCH_FAULT "launch: "
enum { LAUNCH_FAILED = 125 };

#endif
