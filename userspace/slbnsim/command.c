// SPDX-License-Identifier: GPL-2.0
/*
 * The options of the commands run, maxmin and experiment, and --help.
 */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fairpath/slbn_netlink.h>

#include "options.h"

const struct algorithm *const algorithms[] = {
	&slbn_algorithm, &slbn_1_algorithm, &slbn_paper_algorithm,
	&bfyz_algorithm, &sperc_algorithm,  &erica_algorithm,
	&cobb_algorithm, &rcp_algorithm,    &piqi_rcp_algorithm,
	&xcp_algorithm,
};

const u32 algorithm_count = sizeof(algorithms) / sizeof(*algorithms);

static const char usage[] =
	"usage: slbnsim run --topology FILE --sessions FILE [OPTION]...\n"
	"       slbnsim maxmin --topology FILE --sessions FILE [OPTION]...\n"
	"       slbnsim experiment NAME [OPTION]...\n"
	"       slbnsim topology KIND [OPTION]...\n"
	"       slbnsim algorithms | experiments [--json]\n"
	"\n"
	"Simulate explicit-rate protocols on networks too large to emulate.\n"
	"\n"
	"  run                simulate sessions; print their rates and max-min rates\n"
	"  maxmin             print the max-min fair rates of all sessions\n"
	"  experiment         run an experiment of SLBN's paper, or one of ours; print\n"
	"                     the error of rates over time\n"
	"  topology           generate a network and sessions as files\n"
	"  algorithms, experiments  list them\n";

static const char usage_files[] =
	"  --topology FILE    nodes and links, as JSON (- for standard input)\n"
	"  --sessions FILE    sessions, as CSV (- for standard input)\n";

static const char usage_any[] =
	"  --headroom PERCENT the part of links' rates that is not shared, 0 to 50 (0);\n"
	"                     run, auto: what control packets take, and 0.5\n"
	"  --json             print JSON instead of a table\n"
	"  --quiet            no progress reports\n";

static const char usage_run[] =
	"  --algorithm NAME   what links and sources run (slbn)\n"
	"  --until TIME       the end, such as 2s (5 s after the last join or leave; an\n"
	"                     experiment's own)\n"
	"  --seed N           seed of all random numbers (1)\n"
	"  --pause TIME       mean pause between a session's cycles (5ms)\n"
	"  --control PERCENT  the largest part of its rate for control packets (1)\n"
	"  --data BYTES|fluid send data packets of this size, or a fluid (no data)\n"
	"  --round TIME       of algorithms that have rounds (their own)\n"
	"  --initial-rate PERCENT  of rcp's and piqi-rcp's links (5)\n"
	"  --target-delay TIME  of erica's queues, at most 10s (1.5ms)\n"
	"  --decay PERCENT    what remains of erica's averages in 5 ms, 0 to 99 (80)\n"
	"  --epoch TIME       between rotations of slbn's and slbn-1's ledgers, 10ms to\n"
	"                     3600s; 0: never (1s)\n"
	"  --loss PERCENT     loss of control packets on each link (0)\n"
	"  --memory ENTRIES   memory of an slbn link, if packets may be lost (enough)\n"
	"  --dead PERCENT@TIME  sessions that crash, without a Leave (none)\n"
	"  --cut FROM>TO@TIME|busiest@TIME  a link fails; sessions are rerouted (none)\n"
	"  --silent           rerouted sessions send no Leave on the old path\n";

static const char usage_experiment[] =
	"  --every TIME       between two samples (10ms)\n"
	"  --percent N        of the sessions, 1 to 100 (100)\n"
	"  --count N          sessions that join at first; others in proportion\n";

static const char usage_status[] =
	"\n"
	"Exit status: 0; 1 out of memory; 2 invalid arguments or files; 128 + N stopped\n"
	"by signal N, after printing the results so far.\n";

/**
 * print_usage() - print the usage and end the program
 * @command: only its options; NULL: all of them
 */
void print_usage(const char *command)
{
	bool all = !command, run = all || !strcmp(command, "run");
	bool maxmin = all || !strcmp(command, "maxmin");
	bool experiment = all || !strcmp(command, "experiment");

	fputs(usage, stdout);
	if (run || maxmin) {
		puts("run, maxmin:");
		fputs(usage_files, stdout);
	}
	if (run || maxmin || experiment) {
		puts("run, maxmin, experiment:");
		fputs(usage_any, stdout);
	}
	if (run || experiment) {
		puts("run, experiment:");
		fputs(usage_run, stdout);
	}
	if (experiment) {
		puts("experiment:");
		fputs(usage_experiment, stdout);
	}
	if (all)
		puts("topology: see slbnsim topology --help");
	fputs(usage_status, stdout);
	exit(0);
}

static void parse_algorithm(void *settings, const char *name, char *text)
{
	struct command *command = settings;
	u32 n;

	(void)name;
	for (n = 0; n < algorithm_count; n++) {
		if (!strcmp(algorithms[n]->name, text)) {
			command->options.algorithm = algorithms[n];
			return;
		}
	}
	refuse("no algorithm '%s'; see slbnsim algorithms", text);
}

static void parse_data(void *settings, const char *name, char *text)
{
	struct sim_options *options = &((struct command *)settings)->options;

	options->fluid = !strcmp(text, "fluid");
	options->data_bytes =
		options->fluid ? 0 : parse_number(name, text, 40, 65535);
}

static void parse_initial(void *settings, const char *name, char *text)
{
	struct sim_options *options = &((struct command *)settings)->options;

	options->initial_rate = parse_per_mille(name, text, 1000);
	if (!options->initial_rate)
		refuse("%s '%s': must be 0.1 to 100 percent", name, text);
}

static void parse_epoch(void *settings, const char *name, char *text)
{
	struct command *command = settings;
	u64 epoch;

	if (!read_time(text, &epoch) ||
	    (epoch && (epoch < SLBN_EPOCH_MIN || epoch > SLBN_EPOCH_MAX)))
		refuse("%s '%s': must be 10ms to 3600s, or 0: never rotate",
		       name, text);
	command->options.epoch = epoch;
}

/* 1/1000 of a link's rate, as sch_slbn's. */
#define HEADROOM_MAX 500

static void parse_headroom(void *settings, const char *name, char *text)
{
	struct sim_options *options = &((struct command *)settings)->options;

	options->headroom_auto = !strcmp(text, "auto");
	if (options->headroom_auto)
		return;
	options->headroom = parse_per_mille(name, text, HEADROOM_MAX);
}

/* Parse the time of WHAT@TIME, ns, and cut TEXT at the @. */
static u64 split_time(const char *name, char *text)
{
	char *at = strrchr(text, '@');

	if (!at)
		refuse("%s '%s': needs @ and a time, such as @2s", name, text);
	*at = 0;
	return parse_time(name, at + 1, 0, UNTIL_MAX);
}

static void parse_dead(void *settings, const char *name, char *text)
{
	struct faults *faults = &((struct command *)settings)->faults;
	struct crash *crash = &faults->crashes[faults->crash_count++];

	if (faults->crash_count > FAULTS_CRASHES_MAX)
		refuse("%s: at most %u times", name, FAULTS_CRASHES_MAX);
	crash->time = split_time(name, text);
	crash->part = parse_ppm(name, text, 1);
}

static void parse_cut(void *settings, const char *name, char *text)
{
	struct faults *faults = &((struct command *)settings)->faults;

	faults->cut_at = split_time(name, text);
	faults->cut = text;
}

#define FILES (COMMAND_RUN | COMMAND_MAXMIN)
#define SIMULATION (COMMAND_RUN | COMMAND_EXPERIMENT)
#define ANY (COMMAND_RUN | COMMAND_MAXMIN | COMMAND_EXPERIMENT)
/* Of --epoch: the algorithm's. */
#define EPOCH_DEFAULT (~0ULL)
/* Of --decay, 1/1000: the most, and the algorithm's. */
#define DECAY_MAX 990
#define DECAY_DEFAULT (~0U)
#define AT(field) offsetof(struct command, field)

static const struct option_spec specs[] = {
	{ "topology", OPTION_TEXT, FILES, .at = AT(topology) },
	{ "sessions", OPTION_TEXT, FILES, .at = AT(sessions) },
	{ "json", OPTION_FLAG, ANY, .at = AT(json) },
	{ "quiet", OPTION_FLAG, ANY, .at = AT(quiet) },
	{ "algorithm", OPTION_CALL, SIMULATION, .parse = parse_algorithm },
	{ "until", OPTION_TIME, SIMULATION, .at = AT(options.until),
	  .max = UNTIL_MAX },
	{ "seed", OPTION_U64, SIMULATION, .at = AT(options.seed),
	  .max = ~0ULL },
	{ "pause", OPTION_TIME, SIMULATION, .at = AT(options.pause),
	  .max = 10 * SEC },
	{ "control", OPTION_PPM, SIMULATION, .at = AT(options.control_share) },
	{ "headroom", OPTION_CALL, ANY, .parse = parse_headroom },
	{ "data", OPTION_CALL, SIMULATION, .parse = parse_data },
	{ "round", OPTION_TIME, SIMULATION, .at = AT(options.round),
	  .max = 10 * SEC },
	{ "initial-rate", OPTION_CALL, SIMULATION, .parse = parse_initial },
	{ "target-delay", OPTION_TIME, SIMULATION,
	  .at = AT(options.target_delay), .min = 1, .max = 10 * SEC },
	{ "decay", OPTION_PER_MILLE, SIMULATION, .at = AT(options.decay),
	  .max = DECAY_MAX },
	{ "epoch", OPTION_CALL, SIMULATION, .parse = parse_epoch },
	{ "loss", OPTION_PPM, SIMULATION, .at = AT(options.loss) },
	{ "memory", OPTION_U32, SIMULATION, .at = AT(options.memory),
	  .max = NET_NONE },
	{ "dead", OPTION_CALL, SIMULATION, .parse = parse_dead },
	{ "cut", OPTION_CALL, SIMULATION, .parse = parse_cut },
	{ "silent", OPTION_FLAG, SIMULATION, .at = AT(faults.silent) },
	{ "every", OPTION_TIME, COMMAND_EXPERIMENT, .at = AT(every), .min = 1,
	  .max = 10 * SEC },
	{ "percent", OPTION_U32, COMMAND_EXPERIMENT, .at = AT(percent),
	  .min = 1, .max = 100 },
	{ "count", OPTION_U32, COMMAND_EXPERIMENT, .at = AT(count), .min = 1,
	  .max = 10000000 },
};

static const struct option_set option_set = {
	.specs = specs,
	.count = sizeof(specs) / sizeof(*specs),
	.help = "slbnsim",
};

static const struct experiment *find_experiment(const char *name)
{
	u32 n;

	for (n = 0; n < experiment_count; n++)
		if (!strcmp(experiments[n].name, name))
			return &experiments[n];
	refuse("no experiment '%s'; see slbnsim experiments", name);
}

/* Refuse options that contradict each other. */
static void check(const struct command *command)
{
	const struct sim_options *options = &command->options;
	const struct experiment *experiment = command->experiment;
	bool has_data = options->fluid || options->data_bytes;

	if (command->type == COMMAND_EXPERIMENT && !experiment)
		refuse("needs the name of an experiment; see slbnsim experiments");
	if (command->type != COMMAND_MAXMIN && options->algorithm->needs_data &&
	    !has_data)
		refuse("%s measures data: needs --data fluid or --data BYTES",
		       options->algorithm->name);
	if ((options->headroom || options->headroom_auto) &&
	    !options->algorithm->plan)
		refuse("%s has no headroom: only slbn, slbn-1 and slbn-paper do",
		       options->algorithm->name);
	if (options->headroom_auto && command->type != COMMAND_RUN)
		refuse("--headroom auto follows the packets of a run: only run has it");
	if (options->round && !options->algorithm->has_rounds)
		refuse("%s has no rounds", options->algorithm->name);
	if (options->initial_rate && !options->algorithm->initial_rate)
		refuse("%s has no initial rate: only rcp and piqi-rcp do",
		       options->algorithm->name);
	if (options->target_delay && !options->algorithm->target_delay)
		refuse("%s has no target delay: only erica does",
		       options->algorithm->name);
	if (options->decay != DECAY_DEFAULT && !options->algorithm->decay)
		refuse("%s has no averages: only erica does",
		       options->algorithm->name);
	if (options->epoch != EPOCH_DEFAULT && !options->algorithm->epoch)
		refuse("%s has no epochs: only slbn and slbn-1 do",
		       options->algorithm->name);
	if (command->faults.silent && !command->faults.cut)
		refuse("--silent needs --cut");
	if (experiment && experiment->sized && !has_data)
		refuse("sessions of %s have data: needs --data fluid or --data BYTES",
		       experiment->name);
	if (experiment)
		return;
	if (!command->topology || !command->sessions)
		refuse("needs --topology and --sessions; see --help");
	if (!strcmp(command->topology, command->sessions))
		refuse("topology and sessions cannot be the same file");
}

/**
 * parse_command() - parse the command line
 * @argc: number of arguments
 * @argv: the program, run, maxmin or experiment, and options
 *
 * Return: the command. Invalid arguments end the program with status 2.
 */
struct command parse_command(int argc, char **argv)
{
	struct command command = {
		.type = COMMAND_RUN,
		.every = 10 * MSEC,
		.percent = 100,
		.options = {
			.algorithm = &slbn_algorithm,
			.seed = 1,
			.until = NET_NEVER,
			.pause = 5 * MSEC,
			.control_share = 10000,
			.memory = NET_NONE,
			.epoch = EPOCH_DEFAULT,
			.decay = DECAY_DEFAULT,
		},
	};
	char **arguments = argv + 1;
	u32 given;

	if (!strcmp(argv[1], "maxmin"))
		command.type = COMMAND_MAXMIN;
	if (!strcmp(argv[1], "experiment")) {
		command.type = COMMAND_EXPERIMENT;
		if (argc > 2 && *argv[2] != '-') {
			command.experiment = find_experiment(argv[2]);
			arguments++;
		}
	}
	if (!parse_options(&option_set, command.type, argv[1], arguments,
			   &command, &given))
		print_usage(argv[1]);
	check(&command);
	if (command.options.epoch == EPOCH_DEFAULT)
		command.options.epoch = command.options.algorithm->epoch;
	if (command.options.decay == DECAY_DEFAULT)
		command.options.decay = command.options.algorithm->decay;
	if (!command.options.initial_rate)
		command.options.initial_rate =
			command.options.algorithm->initial_rate;
	if (!command.options.target_delay)
		command.options.target_delay =
			command.options.algorithm->target_delay;
	return command;
}
