/* How the program that starts Node inside of an execution is called. Shared by the service and
 * ptc/inside. */
#ifndef EXECHOST_PTC_INSIDE_PROTOCOL_H
#define EXECHOST_PTC_INSIDE_PROTOCOL_H

/* argv: name, Node's heap option, how what is lent is loaded, whether it is an Electron. Standard
 * output and error are pipes, descriptor 3 is the control socket. */
enum { INSIDE_ARG_HEAP = 1, INSIDE_ARG_LOADER, INSIDE_ARG_ELECTRON, INSIDE_ARGS };

/* Loaders: a file name among the libraries; "": it needs none; or this. */
#define INSIDE_NOTHING_LENT "-"

/* Below the place where the service's part is lent: node, bootstrap/main.mjs, lib. */
#define INSIDE_LIBRARIES "lib"
#define INSIDE_BOOTSTRAP_DIRECTORY "bootstrap"

/* A failure is a line on standard error that starts so, and this exit status. */
#define INSIDE_FAULT "launch: "
enum { INSIDE_FAILED = 125 };

#endif
