// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl: looks after SLBN's links, and this router's sessions.
 *
 * A command line is options, a word, options, a word and so on, down a tree of
 * struct command whose leaves do something; this is what walks it. Each branch
 * has a file of its own, link.c for "slbnctl link", session.c and top.c; genl.c
 * speaks with the kernel, libslbn with slbnd, show.c prints.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "slbnctl.h"

bool json;
const char *slbnd_socket;

static const struct command top_commands[] = {
	{
		.word = "link",
		.usage =
			"Usage: slbnctl [OPTION]... link COMMAND ...\n"
			"\n"
			"Commands:\n"
			"  list               all links of this network namespace\n"
			"  show DEV           one of them\n"
			"  set DEV WORD...    change it\n"
			"  reset DEV          forget its sessions\n"
			"  monitor [DEV]      tell when a fair share moves\n",
		.commands = link_commands,
	},
	{
		.word = "session",
		.usage =
			"Usage: slbnctl [OPTION]... session COMMAND ...\n"
			"\n"
			"Commands:\n"
			"  join DESTINATION WORD...      begin one\n"
			"  change SESSION demand RATE    ask for another rate\n"
			"  leave SESSION                 end one\n"
			"  list                          all sessions of this router's agent\n"
			"  watch [SESSION]               tell when a rate moves\n",
		.commands = session_commands,
	},
	{
		.word = "top",
		.usage =
			"Usage: slbnctl [OPTION]... top [interval TIME] [count NUMBER] [by ORDER]\n"
			"\n"
			"Shows all sessions, what they may and what they do, again and again.\n"
			"\n"
			"  interval  between two tables; 100ms to 3600s (1s)\n"
			"  count     so many tables (until interrupted)\n"
			"  by        rate: what may use most comes first (rate); use: what does\n",
		.run = run_top,
	},
	{},
};

static const struct command top = {
	.word = "slbnctl",
	.usage =
		"Usage: slbnctl [OPTION]... COMMAND ...\n"
		"\n"
		"Commands:\n"
		"  link       list, show, set, reset and monitor the links of SLBN\n"
		"  session    join, change, leave, list and watch the sessions of slbnd\n"
		"  top        a table of them that is always fresh\n"
		"\n"
		"Options, before any of the words:\n"
		"  -j, --json     print JSON\n"
		"  -s, --socket PATH\n"
		"                 where slbnd is (/run/slbnd/socket)\n"
		"  -h, --help     say what there is; after a command, more of it\n"
		"  -V, --version  say which version this is\n"
		"\n"
		"Exit status: 0 fine, 1 the kernel or slbnd refused, or there is no such link\n"
		"or session, 2 the request makes no sense.\n",
	.commands = top_commands,
};

static void interrupt(int number)
{
	(void)number;
	_exit(STATUS_FINE);
}

/**
 * end_when_interrupted() - let a signal end slbnctl, and let that be fine
 *
 * For commands that go on until then, and have written all there is to say
 * whenever they wait.
 */
void end_when_interrupted(void)
{
	struct sigaction action = { .sa_handler = interrupt };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* Whether nothing is left to do after this option. */
static bool take_option(const struct command *command, const char *text,
			enum status *status)
{
	*status = STATUS_FINE;
	if (!strcmp(text, "-j") || !strcmp(text, "--json")) {
		json = true;
		return false;
	}
	if (!strcmp(text, "-h") || !strcmp(text, "--help")) {
		fputs(command->usage, stdout);
	} else if (!strcmp(text, "-V") || !strcmp(text, "--version")) {
		puts("slbnctl " VERSION);
	} else {
		complain("there is no option \"%s\"; see --help", text);
		*status = STATUS_USAGE;
	}
	return true;
}

static enum status walk(const struct command *command, int argc, char **argv)
{
	const struct command *next;
	enum status status;

	for (; argc && **argv == '-'; argc--, argv++) {
		if (!strcmp(*argv, "--")) {
			argc--;
			argv++;
			break;
		}
		if (!strcmp(*argv, "-s") || !strcmp(*argv, "--socket")) {
			if (argc < 2) {
				complain("\"%s\" needs a path", *argv);
				return STATUS_USAGE;
			}
			slbnd_socket = *++argv;
			argc--;
			continue;
		}
		if (take_option(command, *argv, &status))
			return status;
	}
	if (command->run)
		return command->run(argc, argv);
	if (!argc) {
		fputs(command->usage, stderr);
		return STATUS_USAGE;
	}
	for (next = command->commands; next->word; next++)
		if (!strcmp(*argv, next->word))
			return walk(next, argc - 1, argv + 1);
	complain("there is no command \"%s\"; see --help", *argv);
	return STATUS_USAGE;
}

int main(int argc, char **argv)
{
	enum status status = walk(&top, argc - !!argc, argv + !!argc);

	/* What was not written was not told. */
	if (fflush(stdout) || ferror(stdout)) {
		complain("standard output: %s", strerror(errno));
		return STATUS_REFUSED;
	}
	return status;
}
