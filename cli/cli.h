/* The verbs for a person at a terminal, who asks a running service over HTTP. Each takes argv from
 * its own name on and returns the exit status: 0, 1 for what failed (said in one line on standard
 * error), 2 for wrong usage; cli_run passes on that of the program that it ran. One thread calls,
 * and each call blocks until the verb is done. They share nothing with a service on the same
 * machine but its HTTP. */
#ifndef EXECHOST_CLI_CLI_H
#define EXECHOST_CLI_CLI_H

int cli_run(int argc, char **argv);
int cli_ps(int argc, char **argv);
int cli_logs(int argc, char **argv);
int cli_cp(int argc, char **argv);
int cli_checkpoint(int argc, char **argv);
int cli_restore(int argc, char **argv);
int cli_share(int argc, char **argv);
int cli_ptc(int argc, char **argv);

#endif
