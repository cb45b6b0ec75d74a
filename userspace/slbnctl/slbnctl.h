/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the commands of slbnctl share: how they are found, how they end, what
 * options stand before them.
 */
#ifndef FAIRPATH_SLBNCTL_H
#define FAIRPATH_SLBNCTL_H

#include <stdbool.h>

/* A message of ours to stderr. */
#define complain(...)                                              \
	(fputs("slbnctl: ", stderr), fprintf(stderr, __VA_ARGS__), \
	 fputc('\n', stderr))

/**
 * enum status - how slbnctl exits
 * @STATUS_FINE: it was done
 * @STATUS_REFUSED: the kernel or slbnd refused, or there is no such thing
 * @STATUS_USAGE: the request makes no sense; nothing was sent
 */
enum status {
	STATUS_FINE,
	STATUS_REFUSED,
	STATUS_USAGE,
};

/**
 * struct command - a word of the command line
 * @word: the word
 * @usage: what --help says of it
 * @run: does it, with the words that follow; NULL: it has commands of its own
 * @commands: these, up to one without a word
 */
struct command {
	const char *word;
	const char *usage;
	enum status (*run)(int argc, char **argv);
	const struct command *commands;
};

/* JSON was asked for. */
extern bool json;

/* Where slbnd is; NULL: where it is by default. */
extern const char *slbnd_socket;

extern const struct command link_commands[];
extern const struct command session_commands[];

enum status run_top(int argc, char **argv);
bool link_known(unsigned int device);
void end_when_interrupted(void);

#endif /* FAIRPATH_SLBNCTL_H */
