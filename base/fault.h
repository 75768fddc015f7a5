/* Fault points: named places where a test build can fail, hang or die. In a release build every
 * point is the constant 0.
 *
 * EXECHOST_FAULT="name:nth:action[,…]" in the environment arms them once at the first use; `nth`
 * counts from 1, "*" hits every time; action is kill (SIGKILL to the own process), hang (10
 * minutes) or an errno name (EIO, ENOSPC, EPIPE …). EXECHOST_FAULT_LIST=FILE appends the name of
 * a point at each visit, before anything is done: a driver enumerates them so, and sees that one
 * was reached. Any thread. */
#ifndef EXECHOST_BASE_FAULT_H
#define EXECHOST_BASE_FAULT_H

#ifdef EXECHOST_FAULTS
/* 0 to go on, otherwise the errno to behave as if the guarded call had failed with it. */
int fault_point(const char *name);
#else
#define fault_point(name) ((void)(name), 0)
#endif

#endif
