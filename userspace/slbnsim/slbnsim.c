// SPDX-License-Identifier: GPL-2.0
/*
 * slbnsim - simulate explicit-rate protocols on networks too large to emulate
 *
 *	slbnsim run --topology net.json --sessions sessions.csv --json
 *	slbnsim maxmin --topology net.json --sessions sessions.csv
 *	slbnsim experiment 1a --algorithm bfyz --json
 *	slbnsim topology random --nodes 100 --out net.json
 *
 * run.c has the first three commands, topology.c the fourth; sim.h explains the
 * simulation. docs/man/slbnsim.1 describes all options, docs/slbnsim.md the file
 * formats.
 *
 * A run depends on nothing but its files and options, and prints them with its
 * result, defaults included: the same seed gives the same run, bit for bit.
 *
 * Exit status: 0; 1 out of memory; 2 invalid arguments or files; 128 + N if
 * signal N stopped a run or an experiment, after printing the results so far.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "options.h"
#include "report.h"
#include "run.h"
#include "topology.h"

static void list_one(json_object *all, const char *name, const char *about)
{
	json_object *one;

	if (!all) {
		printf("%-12s %s\n", name, about);
		return;
	}
	one = json_object_new_object();
	put_text(one, "name", name);
	put_text(one, "about", about);
	json_object_array_add(all, one);
}

/* The commands algorithms and experiments. */
static void list(int argc, char **argv)
{
	bool json = argc > 2 && !strcmp(argv[2], "--json");
	json_object *all = json ? json_object_new_array() : NULL;
	u32 n;

	if (argc > 2 && !strcmp(argv[2], "--help"))
		print_usage(argv[1]);
	if (argc > 2 + json)
		refuse("unexpected argument '%s'; see slbnsim --help",
		       argv[2 + json]);
	if (!strcmp(argv[1], "algorithms")) {
		for (n = 0; n < algorithm_count; n++)
			list_one(all, algorithms[n]->name,
				 algorithms[n]->about);
	} else {
		for (n = 0; n < experiment_count; n++)
			list_one(all, experiments[n].name,
				 experiments[n].about);
	}
	if (json)
		print_json(all);
}

/*
 * Called at exit: a result that could not be written is an error, wherever that
 * was noticed.
 */
static void check_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return;
	fputs("slbnsim: cannot write to standard output\n", stderr);
	_exit(2);
}

int main(int argc, char **argv)
{
	atexit(check_output);
	if (argc < 2)
		refuse("needs a command; see slbnsim --help");
	if (!strcmp(argv[1], "--help"))
		print_usage(NULL);
	if (!strcmp(argv[1], "--version")) {
		puts("slbnsim " VERSION);
		return 0;
	}
	if (!strcmp(argv[1], "algorithms") || !strcmp(argv[1], "experiments")) {
		list(argc, argv);
		return 0;
	}
	if (!strcmp(argv[1], "topology")) {
		topology(argc, argv);
		return 0;
	}
	if (strcmp(argv[1], "run") && strcmp(argv[1], "maxmin") &&
	    strcmp(argv[1], "experiment"))
		refuse("no command '%s'; see slbnsim --help", argv[1]);
	return run_command(argc, argv);
}
