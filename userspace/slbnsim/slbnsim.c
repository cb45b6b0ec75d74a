// SPDX-License-Identifier: GPL-2.0
/*
 * slbnsim - explicit rates on networks too large to emulate
 *
 *	slbnsim run --topology net.json --sessions sessions.csv --json
 *	slbnsim maxmin --topology net.json --sessions sessions.csv
 *	slbnsim experiment 1a --algorithm bfyz --json
 *	slbnsim topology random --nodes 100 --out net.json
 *
 * run lets sessions join and leave, with the algorithm that is asked for, and
 * tells the rates at the end beside the exact ones. maxmin tells these alone.
 * experiment does one of those of SLBN's paper, or of ours, and tells how it went.
 * topology draws networks (topology.c). docs/man/slbnsim.1 has all options, and
 * docs/slbnsim.md the formats; sim.h tells what is simulated, and how.
 *
 * A run depends on nothing but its files and options, which it repeats in its
 * answer with all defaults: the same seed gives the same run, bit for bit.
 *
 * Exit status: 0; 2 for arguments or files that make no sense; 128 + N if signal
 * N stopped a run or an experiment, which tells what it has seen so far.
 */
#include <getopt.h>
#include <json-c/json.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "experiment.h"
#include "maxmin.h"
#include "read.h"
#include "sim.h"
#include "topology.h"
#include "trouble.h"

/* After the last join or leave, if nobody says until when. */
#define REST (5 * SEC)
#define UNTIL_MAX (1000000 * SEC)

static const struct algorithm *const algorithms[] = {
	&slbn_algorithm,  &slbn_paper_algorithm, &bfyz_algorithm,
	&sperc_algorithm, &erica_algorithm,	 &cobb_algorithm,
	&rcp_algorithm,	  &piqi_rcp_algorithm,	 &xcp_algorithm,
};

#define ALGORITHMS (sizeof(algorithms) / sizeof(*algorithms))

static const char usage[] =
	"usage: slbnsim run --topology FILE --sessions FILE [OPTION]...\n"
	"       slbnsim maxmin --topology FILE --sessions FILE [OPTION]...\n"
	"       slbnsim experiment NAME [OPTION]...\n"
	"       slbnsim topology KIND [OPTION]...\n"
	"       slbnsim algorithms | experiments [--json]\n"
	"\n"
	"Explicit rates on networks too large to emulate.\n"
	"\n"
	"  run                sessions join and leave; rates at the end, and exact ones\n"
	"  maxmin             the exact rates alone, of all sessions together\n"
	"  experiment         of SLBN's paper, or of ours: errors as time goes by\n"
	"  topology           draw a network, and sessions on it, as files\n"
	"  algorithms, experiments  which there are\n";

static const char usage_files[] =
	"  --topology FILE    nodes and links, as JSON (- for standard input)\n"
	"  --sessions FILE    who joins and leaves when, as CSV\n";

static const char usage_answer[] =
	"  --json             the answer as JSON instead of a table\n"
	"  --quiet            no progress reports\n";

static const char usage_run[] =
	"  --algorithm NAME   what links and sources do (slbn)\n"
	"  --until TIME       the end, such as 2s (5 s after the last join or leave; an\n"
	"                     experiment's own)\n"
	"  --seed N           decides all that is random (1)\n"
	"  --pause TIME       mean of the pause between cycles (5ms)\n"
	"  --control PERCENT  most that control packets may take of a rate (1)\n"
	"  --data BYTES|fluid sources send packets of this size, or a fluid (nothing)\n"
	"  --round TIME       of algorithms that have rounds (their own)\n"
	"  --loss PERCENT     of control packets, on each link (0)\n"
	"  --memory VISITS    most that a link remembers, if any are lost (all)\n"
	"  --dead PERCENT@TIME  of the sessions vanish then without a word (none)\n"
	"  --cut FROM>TO@TIME|busiest@TIME  a link is cut; sessions move (none)\n"
	"  --silent           they move without a word on the old path\n";

static const char usage_experiment[] =
	"  --every TIME       between two looks (10ms)\n"
	"  --percent N        of the sessions, 1 to 100 (100)\n"
	"  --count N          so many sessions join at first, others in proportion\n";

static const char usage_status[] =
	"\n"
	"Exit status: 0; 1 no memory; 2 arguments or files that make no sense; 128 + N\n"
	"stopped by signal N, after telling what a run or an experiment has seen.\n";

/* All of it, or what concerns one command. */
static void tell_usage(const char *about)
{
	bool all = !about, run = all || !strcmp(about, "run");
	bool maxmin = all || !strcmp(about, "maxmin");
	bool experiment = all || !strcmp(about, "experiment");

	fputs(usage, stdout);
	if (run || maxmin) {
		puts("run, maxmin:");
		fputs(usage_files, stdout);
	}
	if (run || maxmin || experiment) {
		puts("run, maxmin, experiment:");
		fputs(usage_answer, stdout);
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

struct command {
	const char *topology;
	const char *sessions;
	const struct experiment *experiment;
	bool json;
	bool quiet;
	bool until_given;
	u64 every;
	u32 percent;
	u32 count;
	struct trouble trouble;
	struct sim_options options;
};

/* ------------------------------------------------------------------------ */
/* Arguments                                                                */

static u32 size_named(const char *name, const char *text)
{
	return number_named(name, text, 40, 65535);
}

static const struct algorithm *algorithm_named(const char *name)
{
	size_t n;

	for (n = 0; n < ALGORITHMS; n++)
		if (!strcmp(algorithms[n]->name, name))
			return algorithms[n];
	refuse("no algorithm '%s'; see slbnsim algorithms", name);
}

/* WHAT@TIME: cuts the text in two. */
static u64 moment_named(const char *name, char *text)
{
	char *at = strrchr(text, '@');

	if (!at)
		refuse("%s '%s': needs @ and a time, such as @2s", name, text);
	*at = 0;
	return time_named(name, at + 1, UNTIL_MAX);
}

static void add_death(struct trouble *trouble, char *text)
{
	struct death *death = &trouble->deaths[trouble->death_count++];

	if (trouble->death_count > TROUBLE_DEATHS)
		refuse("--dead: at most %u times", TROUBLE_DEATHS);
	death->time = moment_named("--dead", text);
	death->part = part_named("--dead", text, 1);
}

static const struct experiment *experiment_named(const char *name)
{
	u32 n;

	for (n = 0; n < experiment_count; n++)
		if (!strcmp(experiments[n].name, name))
			return &experiments[n];
	refuse("no experiment '%s'; see slbnsim experiments", name);
}

/* What makes no sense together. */
static void check(const struct command *command, bool run)
{
	const struct sim_options *options = &command->options;

	if (run && options->algorithm->measures && !options->fluid &&
	    !options->data_bytes)
		refuse("links of %s look at data: needs --data fluid, or a size",
		       options->algorithm->name);
	if (options->round && !options->algorithm->rounds)
		refuse("%s has no rounds", options->algorithm->name);
	if (command->trouble.silent && !command->trouble.cut)
		refuse("--silent is for --cut");
	if (command->experiment && command->experiment->sized &&
	    !options->fluid && !options->data_bytes)
		refuse("sessions of %s have data: needs --data fluid, or a size",
		       command->experiment->name);
	if (command->experiment)
		return;
	if (!command->topology || !command->sessions)
		refuse("needs --topology and --sessions; see --help");
	if (!strcmp(command->topology, command->sessions))
		refuse("topology and sessions cannot be the same file");
}

static struct command parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "topology", required_argument, NULL, 't' },
		{ "sessions", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "algorithm", required_argument, NULL, 'a' },
		{ "until", required_argument, NULL, 'u' },
		{ "seed", required_argument, NULL, 'r' },
		{ "pause", required_argument, NULL, 'p' },
		{ "control", required_argument, NULL, 'c' },
		{ "data", required_argument, NULL, 'd' },
		{ "every", required_argument, NULL, 'e' },
		{ "percent", required_argument, NULL, 'n' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "round", required_argument, NULL, 'o' },
		{ "loss", required_argument, NULL, 'l' },
		{ "memory", required_argument, NULL, 'm' },
		{ "dead", required_argument, NULL, 'x' },
		{ "cut", required_argument, NULL, 'k' },
		{ "silent", no_argument, NULL, 'i' },
		{ "count", required_argument, NULL, 'N' },
		{},
	};
	struct command command = {
		.every = 10 * MSEC,
		.percent = 100,
		.options = {
			.algorithm = &slbn_algorithm,
			.seed = 1,
			.pause = 5 * MSEC,
			.share = 10,
			.memory = NET_NONE,
		},
	};
	struct sim_options *options = &command.options;
	bool experiment = !strcmp(argv[1], "experiment");
	bool run = experiment || !strcmp(argv[1], "run");
	int which, at = 0;

	opterr = 0;
	optind = 2;
	if (experiment && argc > 2 && *argv[2] != '-') {
		command.experiment = experiment_named(argv[2]);
		optind = 3;
	}
	while ((which = getopt_long(argc, argv, "+:", names, &at)) != -1) {
		if (strchr("aurpcdolmxki", which) && !run)
			refuse("--%s is for run", names[at].name);
		if (strchr("enN", which) && !experiment)
			refuse("--%s is for experiment", names[at].name);
		if (strchr("ts", which) && experiment)
			refuse("--%s: an experiment has a network of its own",
			       names[at].name);
		switch (which) {
		case 'h':
			tell_usage(argv[1]);
			break;
		case 't':
			command.topology = optarg;
			break;
		case 's':
			command.sessions = optarg;
			break;
		case 'j':
			command.json = true;
			break;
		case 'a':
			options->algorithm = algorithm_named(optarg);
			break;
		case 'u':
			options->until =
				time_named("--until", optarg, UNTIL_MAX);
			command.until_given = true;
			break;
		case 'r':
			options->seed =
				number_named("--seed", optarg, 0, UINT64_MAX);
			break;
		case 'p':
			options->pause =
				time_named("--pause", optarg, 10 * SEC);
			break;
		case 'c':
			options->share = share_named("--control", optarg);
			break;
		case 'd':
			options->fluid = !strcmp(optarg, "fluid");
			options->data_bytes = 0;
			if (!options->fluid)
				options->data_bytes =
					size_named("--data", optarg);
			break;
		case 'e':
			command.every = time_named("--every", optarg, 10 * SEC);
			if (!command.every)
				refuse("--every: must be more than nothing");
			break;
		case 'n':
			command.percent =
				number_named("--percent", optarg, 1, 100);
			break;
		case 'q':
			command.quiet = true;
			break;
		case 'o':
			options->round =
				time_named("--round", optarg, 10 * SEC);
			break;
		case 'l':
			options->loss = part_named("--loss", optarg, 0);
			break;
		case 'm':
			options->memory =
				number_named("--memory", optarg, 0, NET_NONE);
			break;
		case 'x':
			add_death(&command.trouble, optarg);
			break;
		case 'k':
			command.trouble.cut_at = moment_named("--cut", optarg);
			command.trouble.cut = optarg;
			break;
		case 'i':
			command.trouble.silent = true;
			break;
		case 'N':
			command.count =
				number_named("--count", optarg, 1, 10000000);
			break;
		case ':':
			refuse("%s needs a value", argv[optind - 1]);
		default:
			refuse("unknown option %s; see --help",
			       argv[optind - 1]);
		}
	}
	if (optind < argc)
		refuse("'%s' is one word too many; see --help", argv[optind]);
	if (experiment && !command.experiment)
		refuse("needs the name of an experiment; see slbnsim experiments");
	check(&command, run);
	return command;
}

/* ------------------------------------------------------------------------ */
/* Answers                                                                  */

static void put_number(json_object *to, const char *name, u64 value)
{
	json_object_object_add(to, name, json_object_new_uint64(value));
}

static void put_double(json_object *to, const char *name, double value)
{
	json_object_object_add(to, name, json_object_new_double(value));
}

/* So many digits as say all that a rate is known to. */
static void put_rate(json_object *to, const char *name, double rate)
{
	put_double(to, name, round(rate * 1e3) / 1e3);
}

static void put_name(json_object *to, const char *name, const char *text)
{
	json_object_object_add(to, name, json_object_new_string(text));
}

static void print_json(json_object *all)
{
	int flags = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
		    JSON_C_TO_STRING_NOSLASHESCAPE;

	puts(json_object_to_json_string_ext(all, flags));
	json_object_put(all);
	if (fflush(stdout) || ferror(stdout))
		refuse("the answer cannot be written");
}

static void put_trouble(json_object *to, const struct command *command)
{
	const struct trouble *trouble = &command->trouble;
	json_object *list = json_object_new_array(), *one;
	u32 n;

	put_double(to, "loss_percent", command->options.loss / 1e4);
	if (command->options.memory != NET_NONE)
		put_number(to, "memory", command->options.memory);
	for (n = 0; n < trouble->death_count; n++) {
		one = json_object_new_object();
		put_double(one, "percent", trouble->deaths[n].part / 1e4);
		put_number(one, "time_ns", trouble->deaths[n].time);
		json_object_array_add(list, one);
	}
	json_object_object_add(to, "dead", list);
	if (!trouble->cut)
		return;
	put_name(to, "cut", trouble->cut);
	put_number(to, "cut_at_ns", trouble->cut_at);
	json_object_object_add(to, "silent",
			       json_object_new_boolean(trouble->silent));
}

static json_object *configuration(const struct command *command)
{
	const struct sim_options *options = &command->options;
	json_object *all = json_object_new_object();

	put_name(all, "version", VERSION);
	put_name(all, "algorithm", options->algorithm->name);
	if (command->experiment) {
		put_name(all, "experiment", command->experiment->name);
		put_number(all, "percent", command->percent);
		put_number(all, "every_ns", command->every);
		if (command->count)
			put_number(all, "count", command->count);
	} else {
		put_name(all, "topology", command->topology);
		put_name(all, "sessions", command->sessions);
	}
	put_number(all, "seed", options->seed);
	put_number(all, "until_ns", options->until);
	put_number(all, "pause_ns", options->pause);
	put_rate(all, "control_percent", options->share / 10.0);
	put_number(all, "data_bytes", options->data_bytes);
	json_object_object_add(all, "fluid",
			       json_object_new_boolean(options->fluid));
	if (options->round)
		put_number(all, "round_ns", options->round);
	put_trouble(all, command);
	return all;
}

static json_object *session_json(const struct sim *sim,
				 const struct maxmin *exact, u32 number)
{
	const struct net *net = sim->net;
	const struct session *session = &net->sessions[number];
	const struct source *source = sim_source(sim, number);
	json_object *one = json_object_new_object();

	put_name(one, "id", name_of(&net->ids, session->id));
	put_number(one, "rate", source->rate);
	put_rate(one, "exact", exact->rate[number]);
	if (sim->options.data_bytes || sim->options.fluid)
		put_number(one, "arrived", sim_sent(sim, number));
	if (sim->sendings && sim->sendings[number].complete)
		put_double(one, "complete",
			   sim->sendings[number].complete / 1e9);
	return one;
}

static json_object *link_json(struct sim *sim, u32 number)
{
	const struct net *net = sim->net;
	const struct wire *wire = sim_wire(sim, number);
	const struct load *load = sim_load(sim, number);
	json_object *one = json_object_new_object();
	double over = (double)load->most_assigned / net->links[number].rate - 1;
	/* First of all: fluid has flowed until now. */
	u64 data = sim_data(sim, number) / 8;

	put_name(one, "from", name_of(&net->nodes, net->links[number].from));
	put_name(one, "to", name_of(&net->nodes, net->links[number].to));
	put_number(one, "assigned", load->assigned);
	put_double(one, "overshoot", over > 0 ? over : 0);
	put_number(one, "longest_wait_ns", wire->longest);
	put_number(one, "control_bytes", wire->control);
	put_number(one, "data_bytes", data);
	return one;
}

/* Control packets of sources: what became of them. */
static void put_packets(json_object *to, const struct sim_counts *counts)
{
	json_object *one = json_object_new_object();

	put_number(one, "sent", counts->sent);
	put_number(one, "again", counts->again);
	put_number(one, "answered", counts->cycles);
	put_number(one, "lost", counts->lost);
	put_number(one, "under_way",
		   counts->sent - counts->cycles - counts->lost);
	json_object_object_add(to, "packets", one);
}

static double largest_overshoot(const struct sim *sim)
{
	double most = 0;
	u32 n;

	for (n = 0; n < sim->net->link_count; n++) {
		double assigned = sim_load(sim, n)->most_assigned;

		most = fmax(most, assigned / sim_link(sim, n)->rate - 1);
	}
	return most;
}

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	stopped = number;
}

/*
 * An exact rate in a table. It takes printf() long to find three decimals of a
 * double, but a long double holds a thousand times as much without rounding.
 */
static void end_line(double rate)
{
	u64 thousandths = llrintl(1000.0L * rate);

	printf("%16llu.%03llu\n", (unsigned long long)thousandths / 1000,
	       (unsigned long long)thousandths % 1000);
}

static void tell_run(const struct command *command, struct sim *sim,
		     const struct maxmin *exact)
{
	const struct sim_counts *counts = &sim->counts;
	const struct net *net = sim->net;
	json_object *all, *list;
	u32 n;

	if (!command->json) {
		printf("%-24s %20s %20s\n", "session", "rate (bit/s)", "exact");
		for (n = 0; n < net->session_count; n++) {
			printf("%-24s %20llu ",
			       name_of(&net->ids, net->sessions[n].id),
			       (unsigned long long)sim_source(sim, n)->rate);
			end_line(exact->rate[n]);
		}
		if (stopped)
			printf("\nStopped at %.6f of %.6f s.\n", sim->now / 1e9,
			       command->options.until / 1e9);
		printf("\n%llu events; last change at %.6f s; largest overshoot %.3f %%\n",
		       (unsigned long long)counts->events,
		       counts->last_change / 1e9, 100 * largest_overshoot(sim));
		return;
	}
	all = json_object_new_object();
	json_object_object_add(all, "configuration", configuration(command));
	json_object_object_add(all, "interrupted",
			       json_object_new_boolean(stopped));
	put_double(all, "time", sim->now / 1e9);
	put_number(all, "events", counts->events);
	put_number(all, "control_packets", counts->control);
	put_number(all, "data_packets", counts->data);
	put_number(all, "cycles", counts->cycles);
	put_packets(all, counts);
	put_double(all, "last_change", counts->last_change / 1e9);
	put_double(all, "largest_overshoot", largest_overshoot(sim));
	list = json_object_new_array();
	for (n = 0; n < net->session_count; n++)
		json_object_array_add(list, session_json(sim, exact, n));
	json_object_object_add(all, "sessions", list);
	list = json_object_new_array();
	for (n = 0; n < net->link_count; n++)
		json_object_array_add(list, link_json(sim, n));
	json_object_object_add(all, "links", list);
	print_json(all);
}

static void tell_maxmin(const struct command *command, const struct net *net,
			const struct maxmin *exact)
{
	json_object *all, *list, *one;
	u32 n;

	if (!command->json) {
		printf("%-24s %20s\n", "session", "exact (bit/s)");
		for (n = 0; n < net->session_count; n++) {
			printf("%-24s ",
			       name_of(&net->ids, net->sessions[n].id));
			end_line(exact->rate[n]);
		}
		return;
	}
	all = json_object_new_object();
	list = json_object_new_array();
	for (n = 0; n < net->session_count; n++) {
		one = json_object_new_object();
		put_name(one, "id", name_of(&net->ids, net->sessions[n].id));
		put_rate(one, "exact", exact->rate[n]);
		json_object_array_add(list, one);
	}
	json_object_object_add(all, "sessions", list);
	print_json(all);
}

static json_object *spread_json(const struct spread *spread)
{
	json_object *one = json_object_new_object();

	put_number(one, "count", spread->count);
	put_rate(one, "mean", spread->mean);
	put_rate(one, "p10", spread->p10);
	put_rate(one, "p90", spread->p90);
	put_rate(one, "least", spread->least);
	put_rate(one, "most", spread->most);
	return one;
}

static void tell_moment(json_object *series, const struct moment *moment)
{
	json_object *one;

	if (!series) {
		printf("%8.3f %8u %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.3f\n",
		       moment->time / 1e9, moment->present,
		       moment->sources.mean, moment->sources.p10,
		       moment->sources.p90, moment->links.mean,
		       moment->links.p10, moment->links.p90,
		       moment->wait / 1e6);
		return;
	}
	one = json_object_new_object();
	put_double(one, "time", moment->time / 1e9);
	put_number(one, "sessions", moment->present);
	json_object_object_add(one, "sources", spread_json(&moment->sources));
	json_object_object_add(one, "links", spread_json(&moment->links));
	put_number(one, "astray", moment->astray);
	put_double(one, "longest_wait", moment->wait / 1e9);
	put_number(one, "longest_queue", moment->queue);
	json_object_array_add(series, one);
}

/* How long sessions took that had something to send, by packets of 2000 bytes. */
static json_object *completions_json(const struct sim *sim)
{
	json_object *list = json_object_new_array(), *one, *value;
	double took;
	u32 n;

	for (n = 0; n < sim->net->session_count; n++) {
		const struct session *session = &sim->net->sessions[n];
		u64 complete = sim->sendings ? sim->sendings[n].complete : 0;

		if (!session->bytes || !complete)
			continue;
		took = (complete - session->join) / 1e9;
		one = json_object_new_array();
		value = json_object_new_uint64(session->bytes / 2000);
		json_object_array_add(one, value);
		value = json_object_new_double(took);
		json_object_array_add(one, value);
		json_object_array_add(list, one);
	}
	return list;
}

/* ------------------------------------------------------------------------ */
/* Commands                                                                 */

static void say(const struct sim *sim, u64 until)
{
	static time_t last;
	time_t now = time(NULL);

	if (now == last)
		return;
	last = now;
	fprintf(stderr, "%s%.2f of %.2f s, %.1f million events%s",
		isatty(2) ? "\r" : "", sim->now / 1e9, until / 1e9,
		sim->counts.events / 1e6, isatty(2) ? "" : "\n");
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* The series, and what came of it all. */
static void tell_experiment(const struct command *command, struct sim *sim,
			    json_object *series, double took)
{
	json_object *all = json_object_new_object();
	double control = 0, data = 0;
	u32 n;

	for (n = 0; n < sim->net->link_count; n++) {
		const struct wire *wire = sim_wire(sim, n);

		data += sim_arrived(sim, n) / 8 - wire->control;
		control += wire->control;
	}
	json_object_object_add(all, "configuration", configuration(command));
	json_object_object_add(all, "interrupted",
			       json_object_new_boolean(stopped));
	put_number(all, "routers_and_hosts", sim->net->nodes.count);
	put_number(all, "links", sim->net->link_count);
	put_number(all, "sessions", sim->net->session_count);
	put_number(all, "events", sim->counts.events);
	put_number(all, "control_packets", sim->counts.control);
	put_number(all, "data_packets", sim->counts.data);
	put_number(all, "control_bytes", control);
	put_number(all, "data_bytes", data);
	put_packets(all, &sim->counts);
	put_double(all, "mean_round_trip",
		   experiment_round_trip(sim->net) / 1e9);
	put_double(all, "last_change", sim->counts.last_change / 1e9);
	put_double(all, "largest_overshoot", largest_overshoot(sim));
	/* The only thing that differs from run to run. */
	put_double(all, "simulated_in_seconds", took);
	json_object_object_add(all, "series", series);
	if (command->experiment->sized)
		json_object_object_add(all, "completions",
				       completions_json(sim));
	print_json(all);
}

static void plan_trouble(struct command *command, struct net *net)
{
	struct sim_options *options = &command->options;
	const char *wrong;
	u32 link;

	wrong = trouble_plan(net, &command->trouble, options->seed, &link);
	if (wrong)
		refuse("--cut %s: %s", command->trouble.cut, wrong);
	if (link == NET_NONE)
		return;
	options->cut = link + 1;
	options->cut_at = command->trouble.cut_at;
}

static u32 joins_of(const struct command *command)
{
	if (command->count)
		return command->count;
	return (u64)command->experiment->joins * command->percent / 100;
}

static void experiment(struct command *command)
{
	const struct experiment *what = command->experiment;
	json_object *series = command->json ? json_object_new_array() : NULL;
	static struct sim sim;
	struct net net = {};
	struct maxmin exact;
	struct watch watch;
	struct moment moment;
	double took = 0, begun;
	u64 time = 0, until;

	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	if (!command->until_given)
		command->options.until = what->until;
	until = command->options.until;
	experiment_draw(&net, what, joins_of(command), command->options.seed);
	plan_trouble(command, &net);
	net_seal(&net);
	maxmin_init(&exact, &net);
	watch_init(&watch, &net, &exact);
	sim_init(&sim, &net, &command->options);
	if (!series)
		printf("%8s %8s %29s %29s %9s\n", "time", "sessions",
		       "error at sources: mean 10 90 %",
		       "at bottlenecks: mean 10 90 %", "wait, ms");
	while (time < until && !stopped) {
		time = fp_min64(time + command->every, until);
		begun = seconds_now();
		sim_run(&sim, time);
		took += seconds_now() - begun;
		if (!command->quiet)
			say(&sim, until);
		if (time < what->from)
			continue;
		moment = watch_look(&watch, &sim);
		tell_moment(series, &moment);
	}
	if (!command->quiet && isatty(2))
		fputc('\n', stderr);
	if (series)
		tell_experiment(command, &sim, series, took);
	watch_free(&watch);
	sim_free(&sim);
	maxmin_free(&exact);
	net_free(&net);
}

static u64 last_call(const struct net *net)
{
	u64 last = 0;
	u32 n;

	for (n = 0; n < net->session_count; n++) {
		const struct session *session = &net->sessions[n];

		if (session->join != NET_NEVER)
			last = fp_max64(last, session->join);
		if (session->leave != NET_NEVER)
			last = fp_max64(last, session->leave);
	}
	return last;
}

/* Who is there at TIME? With data to send, who has not yet sent it all. */
static bool *who_is_there(const struct net *net, const struct sim *sim,
			  u64 time)
{
	bool *there = calloc(net->session_count + 1, sizeof(bool));
	u32 n;

	if (!there)
		refuse("out of memory");
	for (n = 0; n < net->session_count; n++) {
		const struct session *session = &net->sessions[n];

		there[n] = session->join <= time && session->leave > time &&
			   !(sim && sim_source(sim, n)->leaving);
	}
	return there;
}

/*
 * In steps, of as much virtual time as takes some hundredths of a second, so that
 * a signal is heard soon; the answer does not depend on them.
 */
static void simulate(const struct command *command, struct sim *sim)
{
	u64 until = command->options.until, step = MSEC;
	double begun, took, first = seconds_now();
	bool said = false;

	do {
		begun = seconds_now();
		sim_run(sim, until - sim->now > step ? sim->now + step : until);
		took = seconds_now() - begun;
		if (took < 0.02)
			step = fp_min64(2 * step, UNTIL_MAX);
		else if (took > 0.1 && step > 1)
			step /= 2;
		/* Most runs are over before there is anything to say. */
		if (!command->quiet && begun + took - first >= 1) {
			say(sim, until);
			said = true;
		}
	} while (sim->now < until && !stopped);
	if (said && isatty(2))
		fputc('\n', stderr);
}

static void run(struct command *command, const struct net *net,
		struct maxmin *exact)
{
	static struct sim sim;
	bool *there;

	if (!command->until_given)
		command->options.until = last_call(net) + REST;
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	sim_init(&sim, net, &command->options);
	simulate(command, &sim);
	there = who_is_there(net, &sim, sim.now);
	maxmin_compute(exact, there);
	tell_run(command, &sim, exact);
	free(there);
	sim_free(&sim);
}

/* All that ever join, together: whoever leaves is asked about too. */
static void maxmin(const struct command *command, const struct net *net,
		   struct maxmin *exact)
{
	bool *there = calloc(net->session_count + 1, sizeof(bool));

	if (!there)
		refuse("out of memory");
	memset(there, true, net->session_count);
	maxmin_compute(exact, there);
	tell_maxmin(command, net, exact);
	free(there);
}

static void list_one(json_object *all, const char *name, const char *about)
{
	json_object *one;

	if (!all) {
		printf("%-12s %s\n", name, about);
		return;
	}
	one = json_object_new_object();
	put_name(one, "name", name);
	put_name(one, "about", about);
	json_object_array_add(all, one);
}

/* Which algorithms there are, or experiments. */
static void list(int argc, char **argv)
{
	bool json = argc > 2 && !strcmp(argv[2], "--json");
	json_object *all = json ? json_object_new_array() : NULL;
	size_t n;

	if (argc > 2 && !strcmp(argv[2], "--help"))
		tell_usage(argv[1]);
	if (argc > 2 + json)
		refuse("'%s' is one word too many; see --help", argv[2 + json]);
	if (!strcmp(argv[1], "algorithms")) {
		for (n = 0; n < ALGORITHMS; n++)
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

int main(int argc, char **argv)
{
	struct command command;
	struct net net = {};
	struct maxmin exact;

	if (argc < 2)
		refuse("needs a command; see --help");
	if (!strcmp(argv[1], "--help"))
		tell_usage(NULL);
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
		refuse("no command '%s'; see --help", argv[1]);
	/* What is large goes back to the system when it is freed. */
	mallopt(M_MMAP_THRESHOLD, 1 << 17);
	command = parse(argc, argv);
	if (command.experiment) {
		experiment(&command);
		return stopped ? 128 + stopped : 0;
	}
	read_topology(&net, command.topology);
	read_sessions(&net, command.sessions);
	plan_trouble(&command, &net);
	net_seal(&net);
	maxmin_init(&exact, &net);
	if (!strcmp(argv[1], "run"))
		run(&command, &net, &exact);
	else
		maxmin(&command, &net, &exact);
	maxmin_free(&exact);
	net_free(&net);
	return stopped ? 128 + stopped : 0;
}
