// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl: controls SLBN's links, the sessions of this router's agent, and the
 * keys of both.
 *
 * Commands are a tree of struct command, and may be abbreviated as in iproute2, as
 * long as one command matches; options may precede any command. link.c
 * implements "slbnctl link" over genl.c (the kernel), session.c, path.c and top.c
 * the others over libslbn (slbnd), key.c and domain.c over both; show.c prints.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <fairpath/slbn.h>
#include <fairpath/slbn_netlink.h>

#include "../libslbn/protocol.h"
#include "slbnctl.h"

bool json;
const char *slbnd_socket;

static const struct command top_commands[] = {
	{
		.name = "link",
		.usage =
			"Usage: slbnctl [OPTION]... link COMMAND ...\n"
			"\n"
			"Commands:\n"
			"  show [DEV]         show one link, or all of this network namespace\n"
			"  list               the same as show\n"
			"  set DEV OPTION...  change options of a link\n"
			"  reset DEV          forget its sessions\n"
			"  monitor [DEV]      print changes of the fair share\n"
			"\n"
			"DEV may follow the word dev, as in iproute2.\n",
		.commands = link_commands,
	},
	{
		.name = "session",
		.usage =
			"Usage: slbnctl [OPTION]... session COMMAND ...\n"
			"\n"
			"Commands:\n"
			"  join DESTINATION OPTION...    start a session\n"
			"  change SESSION demand RATE    change its demand\n"
			"  leave SESSION                 end it\n"
			"  list                          show all sessions of this router's agent\n"
			"  show SESSION|DESTINATION      show one with its path\n"
			"  trace SESSION|DESTINATION     show the state of the links on its path\n"
			"  watch [SESSION]               print changes of rates\n",
		.commands = session_commands,
	},
	{
		.name = "key",
		.usage =
			"Usage: slbnctl [OPTION]... key COMMAND ...\n"
			"\n"
			"Commands:\n"
			"  add ID @FILE|- [dev DEV|agent] [accept]\n"
			"                            add a key to all links and slbnd, or to one\n"
			"  retire ID [dev DEV|agent] remove it\n"
			"  show [dev DEV|agent]      show the numbers of the keys\n"
			"  generate [FILE [ID]]      write a new key\n"
			"  fingerprint FILE|-        print a hash of a key\n",
		.commands = key_commands,
	},
	{
		.name = "domain",
		.usage =
			"Usage: slbnctl [OPTION]... domain COMMAND ...\n"
			"\n"
			"Commands:\n"
			"  check [wait TIME]  check that links, slbnd and other routers agree\n",
		.commands = domain_commands,
	},
	{
		.name = "status",
		.usage =
			"Usage: slbnctl [OPTION]... status\n"
			"\n"
			"Show the state of slbnd: number of sessions, numbers of its keys (it signs with\n"
			"the last one), whether it detects flows and enforces rates on its devices,\n"
			"counters of control packets, and those that it dropped:\n"
			"\n"
			"  malformed    not control packets of this version\n"
			"  stale        answers that no session waited for\n"
			"  bad_key      not authentic, or only one of packet and slbnd has a key\n"
			"  unknown_key  with a key that slbnd does not have\n"
			"  bad_time     authentic, but sent more than 10 s before or after the time of\n"
			"               slbnd's clock: clocks are wrong, or the packets were replayed\n"
			"  bad_return   the recorded way back is wrong\n"
			"\n"
			"Exit status 3 if slbnd is degraded: it cannot detect flows, or enforce rates on\n"
			"all of its devices, although it is configured to.\n",
		.run = run_status,
	},
	{
		.name = "metrics",
		.usage =
			"Usage: slbnctl [OPTION]... metrics [FILE]\n"
			"\n"
			"Print the links of this network namespace, slbnd with its sessions in sum, and\n"
			"drr_fq qdiscs in Prometheus's text format, for the textfile collector of its\n"
			"node_exporter; or replace FILE by it at once.\n",
		.run = run_metrics,
	},
	{
		.name = "top",
		.usage =
			"Usage: slbnctl [OPTION]... top [interval TIME] [count NUMBER] [by ORDER]\n"
			"\n"
			"Show a table of all sessions, with assigned rate, use and bottleneck, and\n"
			"update it periodically.\n"
			"\n"
			"  interval  between updates; 100ms to 3600s (1s)\n"
			"  count     number of tables (until interrupted)\n"
			"  by        sort by rate (assigned rate) or use (measured rate), largest first\n"
			"            (rate)\n",
		.run = run_top,
	},
	{},
};

static const struct command top = {
	.name = "slbnctl",
	.usage =
		"Usage: slbnctl [OPTION]... COMMAND ...\n"
		"\n"
		"Commands:\n"
		"  link       show, set, reset and monitor SLBN links\n"
		"  session    join, change, leave, list, show, trace and watch sessions of slbnd\n"
		"  key        add, retire and show the keys of links and slbnd; generate keys\n"
		"  domain     check that links, slbnd and other routers agree\n"
		"  status     show the state of slbnd\n"
		"  metrics    print links, slbnd and drr_fq qdiscs for Prometheus\n"
		"  top        show a live table of the sessions\n"
		"\n"
		"Commands may be abbreviated if one matches; \"help\" after any of them shows its\n"
		"help.\n"
		"\n"
		"Options, before any of the commands:\n"
		"  -j, --json     print JSON\n"
		"  -s, --socket PATH\n"
		"                 socket of slbnd (/run/slbnd/socket)\n"
		"  -h, --help     show this help, or that of the command before it\n"
		"  -V, --version  show the version\n"
		"\n"
		"Exit status: 0 success; 1 the kernel or slbnd refused the request or is not\n"
		"available, or there is no such link, session or key; 2 invalid command line;\n"
		"3 slbnd is degraded (status), or something disagrees (domain check).\n",
	.commands = top_commands,
};

static void handle_signal(int number)
{
	(void)number;
	_exit(STATUS_OK);
}

/**
 * exit_on_signal() - exit with success on SIGINT and SIGTERM
 *
 * For commands that run until interrupted. They flush their output before they
 * wait.
 */
void exit_on_signal(void)
{
	struct sigaction action = { .sa_handler = handle_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* Before each command and its arguments. */
static const struct option options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "socket", required_argument, NULL, 's' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{},
};

/* Process an option. Returns whether slbnctl is to exit, with *@status. */
static bool process_option(const struct command *command, int option,
			   const char *text, enum status *status)
{
	*status = STATUS_OK;
	switch (option) {
	case 'j':
		json = true;
		return false;
	case 's':
		slbnd_socket = optarg;
		return false;
	case 'h':
		fputs(command->usage, stdout);
		return true;
	case 'V':
		printf("slbnctl " VERSION "\n"
		       "protocols: control packets %d, generic netlink %d, socket of slbnd %d\n",
		       SLBN_VERSION, SLBN_GENL_VERSION, SLBN_PROTOCOL);
		return true;
	case ':':
		complain("\"%s\" needs a value", text);
		break;
	default:
		complain("unknown option \"%s\"; see --help", text);
	}
	*status = STATUS_USAGE;
	return true;
}

/* Whether @text abbreviates, or is, @name. */
static bool matches(const char *text, const char *name)
{
	return *text && !strncmp(text, name, strlen(text));
}

/* The command @text, or the only one that it abbreviates; NULL after an error. */
static const struct command *find_command(const struct command *commands,
					  const char *text)
{
	const struct command *command, *found = NULL;

	for (command = commands; command->name; command++) {
		if (!strcmp(text, command->name))
			return command;
		if (!matches(text, command->name))
			continue;
		if (found) {
			complain("ambiguous command \"%s\": %s or %s", text,
				 found->name, command->name);
			return NULL;
		}
		found = command;
	}
	if (!found)
		complain("unknown command \"%s\"; see --help", text);
	return found;
}

/* Run @command; argv[0] is its name. */
static enum status run_command(const struct command *command, int argc,
			       char **argv)
{
	const struct command *next;
	enum status status;
	int option, at;

	/* 0 makes getopt_long() start again; +: options precede arguments. */
	for (optind = 0, at = 1;; at = optind) {
		option = getopt_long(argc, argv, "+:js:hV", options, NULL);
		if (option == -1)
			break;
		if (process_option(command, option, argv[at], &status))
			return status;
	}
	argc -= optind;
	argv += optind;
	if (argc && !strcmp(*argv, "help")) {
		fputs(command->usage, stdout);
		return STATUS_OK;
	}
	if (command->run)
		return command->run(argc, argv);
	if (!argc) {
		fputs(command->usage, stderr);
		return STATUS_USAGE;
	}
	next = find_command(command->commands, *argv);
	return next ? run_command(next, argc, argv) : STATUS_USAGE;
}

/*
 * Let no socket or file become a standard stream that is closed: what is
 * printed would be sent or written there. Printing to it fails as before.
 */
static bool reserve_streams(void)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	enum status status;

	if (!argc)
		return STATUS_USAGE;
	if (!reserve_streams())
		return STATUS_FAILED;
	opterr = 0;
	status = run_command(&top, argc, argv);

	if (fflush(stdout) || ferror(stdout)) {
		complain("standard output: %s", strerror(errno));
		return STATUS_FAILED;
	}
	return status;
}
