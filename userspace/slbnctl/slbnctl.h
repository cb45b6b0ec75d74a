/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command tree, exit statuses and global options of slbnctl.
 */
#ifndef FAIRPATH_SLBNCTL_H
#define FAIRPATH_SLBNCTL_H

#include <stdbool.h>

/* Print an error to stderr. */
#define complain(...)                                              \
	(fputs("slbnctl: ", stderr), fprintf(stderr, __VA_ARGS__), \
	 fputc('\n', stderr))

/**
 * enum status - exit status
 * @STATUS_OK: success
 * @STATUS_FAILED: the kernel or slbnd refused the request, cannot be reached, or
 *	has no such link, session or key
 * @STATUS_USAGE: invalid command line; no request was sent
 * @STATUS_DEGRADED: slbnd runs, but does not do all that is configured; or a check has
 *	found a problem
 */
enum status {
	STATUS_OK,
	STATUS_FAILED,
	STATUS_USAGE,
	STATUS_DEGRADED,
};

/**
 * struct command - a command
 * @name: its name on the command line
 * @usage: its --help
 * @run: runs it with the remaining arguments; NULL: it has subcommands
 * @commands: its subcommands, up to an empty entry
 */
struct command {
	const char *name;
	const char *usage;
	enum status (*run)(int argc, char **argv);
	const struct command *commands;
};

/* --json was given. */
extern bool json;

/* --socket; NULL: slbnd's default. */
extern const char *slbnd_socket;

extern const struct command link_commands[];
extern const struct command session_commands[];
extern const struct command key_commands[];
extern const struct command domain_commands[];

enum status run_status(int argc, char **argv);
enum status run_metrics(int argc, char **argv);
enum status run_top(int argc, char **argv);
void exit_on_signal(void);

#endif /* FAIRPATH_SLBNCTL_H */
