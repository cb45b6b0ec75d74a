// SPDX-License-Identifier: GPL-2.0
/*
 * The command topology: generate a network and sessions, and write them as files
 * (read.h). A run reads the same nodes, links and sessions in the same order, so
 * a run of an experiment's files is a run of the experiment.
 *
 * "about" in the topology is the command line that writes the same files, with
 * all defaults.
 */
#include "topology.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "experiment.h"
#include "generate.h"
#include "options.h"
#include "read.h"
#include "write.h"

/* The most routers; a random graph looks at all pairs of them. */
#define NODES_MAX 1000000
#define RANDOM_MAX 20000
#define SESSIONS_MAX 10000000
#define WITHIN_MAX (1000000 * SEC)

#define ONE_FILE "topology and sessions cannot be the same file"

static const char usage[] =
	"usage: slbnsim topology KIND [OPTION]...\n"
	"\n"
	"Generate a network and sessions as files for run and maxmin.\n"
	"\n"
	"  line, star         routers in a row, or around one\n"
	"  parking-lot        a line; a session over all links and one over each\n"
	"  random             Waxman's random graph, connected\n"
	"  transit-stub       two levels of domains, as GT-ITM generates them\n"
	"  1a, 1b, 2a, 2b, lan, wan  an experiment's network with its sessions\n"
	"  file               the network of --topology\n"
	"any kind:\n"
	"  --seed N           seed of all random numbers (1)\n"
	"  --out FILE         for the topology, as JSON (- for standard output)\n"
	"  --sessions-out FILE  for the sessions, as CSV (they are not written)\n"
	"line, star, parking-lot, random:\n"
	"  --nodes N          number of routers (10)\n"
	"  --rate RATE        of links (1gbit)\n"
	"  --delay TIME[-TIME]  of links, drawn between the two (1ms; random: 1ms-10ms,\n"
	"                     by distance)\n"
	"random:\n"
	"  --degree N         mean number of a router's links (4)\n"
	"  --alpha PERCENT    Waxman's alpha: the larger, the more long links (20)\n"
	"transit-stub (defaults: 1,100 routers):\n"
	"  --domains N        transit domains (10)\n"
	"  --transit N        mean number of routers in each (10)\n"
	"  --stubs N          stub domains at each of these routers (2)\n"
	"  --stub N           mean number of routers in each (5)\n"
	"  --top-links PERCENT, --transit-links PERCENT, --stub-links PERCENT\n"
	"                     probability that two domains, or two routers of a domain,\n"
	"                     are linked (50, 50, 42)\n"
	"1a, 1b, 2a, 2b, lan, wan:\n"
	"  --percent N        of the sessions, 1 to 100 (100)\n"
	"file:\n"
	"  --topology FILE    nodes and links, as JSON (- for standard input)\n"
	"sessions (not of experiments; --sessions not of parking-lot):\n"
	"  --sessions N       number of sessions between two random routers (10)\n"
	"  --within TIME      they join from 0 until then (1s; parking-lot: 0)\n"
	"  --host-rate RATE   link of a host at each end of a session (no hosts;\n"
	"                     transit-stub: 100mbit)\n"
	"  --host-delay TIME[-TIME]  (1us)\n";

/* Kinds, as bits. */
enum kind {
	LINE = 1,
	STAR = 2,
	PARKING_LOT = 4,
	RANDOM = 8,
	TRANSIT_STUB = 16,
	EXPERIMENT = 32,
	FROM_FILE = 64,
};

#define SIMPLE (LINE | STAR | PARKING_LOT | RANDOM)
#define ANY (SIMPLE | TRANSIT_STUB | EXPERIMENT | FROM_FILE)

static const struct {
	const char *name;
	enum kind kind;
} kinds[] = {
	{ "line", LINE },
	{ "star", STAR },
	{ "parking-lot", PARKING_LOT },
	{ "random", RANDOM },
	{ "transit-stub", TRANSIT_STUB },
	{ "file", FROM_FILE },
};

/* The options. */
struct plan {
	enum kind kind;
	const char *name; /* of the kind */
	const struct experiment *experiment;
	const char *file;
	const char *out;
	const char *sessions_out;
	u64 seed;
	u32 nodes;
	u32 degree;
	u32 alpha; /* thousandths */
	u32 percent;
	struct link_params links;
	struct transit_stub network;
	struct session_params sessions;
};

/* ------------------------------------------------------------------------ */
/* Options                                                                  */

static void find_kind(struct plan *plan, const char *name)
{
	size_t n;

	plan->name = name;
	for (n = 0; n < sizeof(kinds) / sizeof(*kinds); n++)
		if (!strcmp(kinds[n].name, name))
			plan->kind = kinds[n].kind;
	for (n = 0; n < experiment_count; n++) {
		if (strcmp(experiments[n].name, name))
			continue;
		plan->kind = EXPERIMENT;
		plan->experiment = &experiments[n];
	}
	if (!plan->kind)
		refuse("no kind of topology '%s'; see slbnsim topology --help",
		       name);
}

static void parse_nodes(void *settings, const char *name, char *text)
{
	struct plan *plan = settings;
	u32 min = plan->kind == STAR ? 3 : 2;
	u32 max = plan->kind == RANDOM ? RANDOM_MAX : NODES_MAX;

	plan->nodes = parse_number(name, text, min, max);
}

static void parse_alpha(void *settings, const char *name, char *text)
{
	struct plan *plan = settings;

	plan->alpha = parse_per_mille(name, text, 1000);
	if (!plan->alpha)
		refuse("%s '%s': must be 0.1 to 100 percent", name, text);
}

/* TIME or TIME-TIME */
static void parse_delays(struct link_params *links, const char *name,
			 char *text)
{
	char *dash = strchr(text, '-');

	if (dash)
		*dash = '\0';
	links->delay_min = parse_time(name, text, 0, NET_DELAY_MAX);
	links->delay_max = links->delay_min;
	if (!dash)
		return;
	links->delay_max = parse_time(name, dash + 1, 0, NET_DELAY_MAX);
	*dash = '-';
	if (links->delay_max < links->delay_min)
		refuse("%s '%s': the second is less than the first", name,
		       text);
}

static void parse_link_delay(void *settings, const char *name, char *text)
{
	parse_delays(&((struct plan *)settings)->links, name, text);
}

static void parse_host_delay(void *settings, const char *name, char *text)
{
	parse_delays(&((struct plan *)settings)->sessions.hosts, name, text);
}

#define AT(field) offsetof(struct plan, field)

static const struct option_spec specs[] = {
	{ "seed", OPTION_U64, ANY, .at = AT(seed), .max = ~0ULL },
	{ "out", OPTION_TEXT, ANY, .at = AT(out) },
	{ "sessions-out", OPTION_TEXT, ANY, .at = AT(sessions_out) },
	{ "nodes", OPTION_CALL, SIMPLE, .parse = parse_nodes },
	{ "rate", OPTION_RATE, SIMPLE, .at = AT(links.rate) },
	{ "delay", OPTION_CALL, SIMPLE, .parse = parse_link_delay },
	{ "degree", OPTION_U32, RANDOM, .at = AT(degree), 1, 1000 },
	{ "alpha", OPTION_CALL, RANDOM, .parse = parse_alpha },
	{ "domains", OPTION_U32, TRANSIT_STUB, .at = AT(network.domains), 1,
	  1000 },
	{ "transit", OPTION_U32, TRANSIT_STUB, .at = AT(network.transit), 1,
	  1000 },
	{ "stubs", OPTION_U32, TRANSIT_STUB, .at = AT(network.stubs), 1, 1000 },
	{ "stub", OPTION_U32, TRANSIT_STUB, .at = AT(network.stub), 1, 1000 },
	{ "top-links", OPTION_PER_MILLE, TRANSIT_STUB,
	  .at = AT(network.top_links) },
	{ "transit-links", OPTION_PER_MILLE, TRANSIT_STUB,
	  .at = AT(network.transit_links) },
	{ "stub-links", OPTION_PER_MILLE, TRANSIT_STUB,
	  .at = AT(network.stub_links) },
	{ "percent", OPTION_U32, EXPERIMENT, .at = AT(percent), 1, 100 },
	{ "topology", OPTION_TEXT, FROM_FILE, .at = AT(file) },
	{ "sessions", OPTION_U32, ANY & ~(EXPERIMENT | PARKING_LOT),
	  .at = AT(sessions.count), 1, SESSIONS_MAX },
	{ "within", OPTION_TIME, ANY & ~EXPERIMENT, .at = AT(sessions.within),
	  .max = WITHIN_MAX },
	{ "host-rate", OPTION_RATE, ANY & ~EXPERIMENT,
	  .at = AT(sessions.hosts.rate) },
	{ "host-delay", OPTION_CALL, ANY & ~EXPERIMENT,
	  .parse = parse_host_delay },
};

static const struct option_set option_set = {
	.specs = specs,
	.count = sizeof(specs) / sizeof(*specs),
	.help = "slbnsim topology",
};

static bool is_given(u32 given, const char *name)
{
	return option_given(&option_set, given, name);
}

/* Refuse options that contradict each other. */
static void check(const struct plan *plan, u32 given)
{
	const struct transit_stub *network = &plan->network;

	if (plan->kind == FROM_FILE && !plan->file)
		refuse("needs --topology; see slbnsim topology --help");
	if (!plan->sessions_out &&
	    (is_given(given, "sessions") || is_given(given, "within") ||
	     is_given(given, "host-rate") || is_given(given, "host-delay")))
		refuse("sessions need --sessions-out");
	if (is_given(given, "host-delay") && !plan->sessions.hosts.rate)
		refuse("--host-delay needs --host-rate");
	if (plan->sessions_out && !strcmp(plan->out, plan->sessions_out))
		refuse(ONE_FILE);
	if ((u64)network->domains * network->transit *
		    (1 + (u64)network->stubs * network->stub) >
	    NODES_MAX)
		refuse("that would be more than %u routers", NODES_MAX);
}

static void __attribute__((noreturn)) print_topology_usage(void)
{
	fputs(usage, stdout);
	exit(0);
}

static struct plan parse(int argc, char **argv)
{
	struct plan plan = {
		.out = "-",
		.seed = 1,
		.nodes = 10,
		.degree = 4,
		.alpha = 200,
		.percent = 100,
		.links = { 1000000000, MSEC, MSEC },
		.network = { 10, 10, 2, 5, 500, 500, 420 },
		.sessions = { 10, SEC, { 0, 1000, 1000 } },
	};
	u32 given;

	if (argc > 2 && !strcmp(argv[2], "--help"))
		print_topology_usage();
	if (argc < 3 || *argv[2] == '-')
		refuse("needs a kind of topology; see slbnsim topology --help");
	find_kind(&plan, argv[2]);
	if (plan.kind == RANDOM)
		plan.links.delay_max = 10 * MSEC;
	if (plan.kind == TRANSIT_STUB)
		plan.sessions.hosts.rate = 100000000;
	if (plan.kind == PARKING_LOT)
		plan.sessions.within = 0;
	if (!parse_options(&option_set, plan.kind, plan.name, argv + 2, &plan,
			   &given))
		print_topology_usage();
	check(&plan, given);
	return plan;
}

/* ------------------------------------------------------------------------ */
/* Drawing                                                                  */

static u32 *all_from(u32 first, u32 count)
{
	u32 *all = calloc(count + 1UL, sizeof(u32)), n;

	if (!all)
		out_of_memory();
	for (n = 0; n < count; n++)
		all[n] = first + n;
	return all;
}

static void draw_all(struct net *net, const struct plan *plan)
{
	u64 random = plan->seed;
	u32 *ends = NULL, count = 0, which = 0;
	struct drawn drawn;
	const char *error;

	switch (plan->kind) {
	case EXPERIMENT:
		count = (u64)plan->experiment->joins * plan->percent / 100;
		experiment_draw(net, plan->experiment, count, plan->seed);
		return;
	case FROM_FILE:
		read_topology(net, plan->file);
		break;
	case TRANSIT_STUB:
		drawn = draw_transit_stub(net, &plan->network, &random);
		ends = drawn.stubs;
		count = drawn.count;
		break;
	case LINE:
	case PARKING_LOT:
		draw_line(net, plan->nodes, &plan->links, &random);
		break;
	case STAR:
		draw_star(net, plan->nodes, &plan->links, &random);
		break;
	case RANDOM:
		draw_random(net, plan->nodes, plan->degree,
			    plan->alpha / 1000.0, &plan->links, &random);
	}
	if (!ends) {
		count = net->nodes.count - (plan->kind == STAR);
		ends = all_from(plan->kind == STAR, count);
	}
	if (plan->sessions_out && count < 2)
		refuse("sessions need two routers");
	if (plan->sessions_out && plan->kind == PARKING_LOT)
		draw_parking_lot(net, &plan->sessions, &random);
	else if (plan->sessions_out)
		draw_sessions(net, &plan->sessions, ends, count, &random);
	free(ends);
	error = net_index(net);
	if (!error)
		error = net_route(net, &which);
	if (error)
		refuse("cannot route the sessions: %s", error);
}

/* ------------------------------------------------------------------------ */
/* Files                                                                    */

/*
 * A file to write. It gets its name when all are complete, so that neither a full
 * disk nor a signal leaves a part of it; a device, a pipe or a link is written to.
 */
struct output {
	const char *name;
	FILE *file;
	char *temporary; /* its name until then, or NULL */
};

/* The topology and the sessions. */
static struct output outputs[2];

static void remove_temporaries(void)
{
	size_t n;

	for (n = 0; n < 2; n++)
		if (outputs[n].temporary)
			unlink(outputs[n].temporary);
}

static void end_by_signal(int number)
{
	remove_temporaries();
	signal(number, SIG_DFL);
	raise(number);
}

/* Is a name that of the file that the other output writes? One file may have two names. */
static bool is_other(const struct output *output, const char *name)
{
	const struct output *other = &outputs[output == outputs];
	struct stat one, two;

	return other->file && !stat(name, &one) && S_ISREG(one.st_mode) &&
	       !fstat(fileno(other->file), &two) && one.st_dev == two.st_dev &&
	       one.st_ino == two.st_ino;
}

static void open_output(struct output *output, const char *name)
{
	struct stat present;
	char *temporary;
	int fd;

	output->name = name;
	output->file = stdout;
	if (!strcmp(name, "-"))
		return;
	if (is_other(output, name))
		refuse(ONE_FILE);
	if (!lstat(name, &present) && !S_ISREG(present.st_mode)) {
		/* What a link leads to is kept until the other name is known. */
		fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		output->file = fd < 0 ? NULL : fdopen(fd, "w");
	} else {
		temporary = alloc_array(strlen(name) + sizeof(".new"), 1);
		strcat(strcpy(temporary, name), ".new");
		/* Not a file of somebody else. */
		output->file = fopen(temporary, "wxe");
		if (!output->file && is_other(output, temporary))
			refuse(ONE_FILE);
		if (!output->file && errno == EEXIST)
			refuse("%s: %s", temporary, strerror(errno));
		if (output->file)
			output->temporary = temporary;
	}
	if (!output->file)
		refuse("%s: %s", name, strerror(errno));
}

/* What is not written to a temporary file begins anew. */
static void empty_outputs(void)
{
	struct output *output;
	struct stat present;

	for (output = outputs; output < outputs + 2; output++)
		if (output->file && output->file != stdout &&
		    !output->temporary &&
		    !fstat(fileno(output->file), &present) &&
		    S_ISREG(present.st_mode) &&
		    ftruncate(fileno(output->file), 0))
			refuse("%s: %s", output->name, strerror(errno));
}

static void close_outputs(void)
{
	struct output *output;
	size_t n;

	for (n = 0; n < 2; n++) {
		output = &outputs[n];
		/* Standard output is checked at exit. */
		if (output->file && output->file != stdout &&
		    (ferror(output->file) | fclose(output->file)))
			refuse("%s: cannot write", output->name);
	}
	for (n = 0; n < 2; n++) {
		output = &outputs[n];
		if (output->temporary &&
		    rename(output->temporary, output->name))
			refuse("%s: %s", output->name, strerror(errno));
		free(output->temporary);
		output->temporary = NULL;
	}
}

struct line {
	char text[2048];
	size_t length;
};

static void __attribute__((format(printf, 2, 3)))
add(struct line *line, const char *format, ...)
{
	size_t room = sizeof(line->text) - line->length;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->text + line->length, room, format, arguments);
	va_end(arguments);
	line->length += (size_t)length < room ? (size_t)length : room - 1;
}

static void add_links(struct line *line, const char *prefix,
		      const struct link_params *links)
{
	add(line, " --%srate %llubit --%sdelay %lluns", prefix,
	    (unsigned long long)links->rate, prefix,
	    (unsigned long long)links->delay_min);
	if (links->delay_max != links->delay_min)
		add(line, "-%lluns", (unsigned long long)links->delay_max);
}

/* The command line that generates the same network. */
static void describe(struct line *line, const struct plan *plan)
{
	const struct transit_stub *network = &plan->network;

	add(line, "slbnsim " VERSION " topology %s --seed %llu", plan->name,
	    (unsigned long long)plan->seed);
	if (plan->kind & SIMPLE) {
		add(line, " --nodes %u", plan->nodes);
		add_links(line, "", &plan->links);
	}
	if (plan->kind == RANDOM)
		add(line, " --degree %u --alpha %g", plan->degree,
		    plan->alpha / 10.0);
	if (plan->kind == TRANSIT_STUB)
		add(line,
		    " --domains %u --transit %u --stubs %u --stub %u --top-links %g --transit-links %g --stub-links %g",
		    network->domains, network->transit, network->stubs,
		    network->stub, network->top_links / 10.0,
		    network->transit_links / 10.0, network->stub_links / 10.0);
	if (plan->kind == EXPERIMENT)
		add(line, " --percent %u", plan->percent);
	if (plan->kind == FROM_FILE)
		add(line, " --topology %s", plan->file);
	if (plan->sessions_out)
		add(line, " --sessions-out %s", plan->sessions_out);
	if (!plan->sessions_out || plan->kind == EXPERIMENT)
		return;
	if (plan->kind != PARKING_LOT)
		add(line, " --sessions %u", plan->sessions.count);
	add(line, " --within %lluns",
	    (unsigned long long)plan->sessions.within);
	if (plan->sessions.hosts.rate)
		add_links(line, "host-", &plan->sessions.hosts);
}

/**
 * topology() - the command
 * @argc: number of arguments
 * @argv: the program, topology, the kind, and options
 */
void topology(int argc, char **argv)
{
	struct plan plan = parse(argc, argv);
	struct line about = {};
	struct net net = {};
	char *at;

	draw_all(&net, &plan);
	describe(&about, &plan);
	/* A file name may have any characters. */
	for (at = about.text; *at; at++)
		if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f)
			*at = '?';
	atexit(remove_temporaries);
	signal(SIGINT, end_by_signal);
	signal(SIGTERM, end_by_signal);
	signal(SIGHUP, end_by_signal);
	/* A closed pipe is an error of writing. */
	signal(SIGPIPE, SIG_IGN);
	open_output(&outputs[0], plan.out);
	if (plan.sessions_out) {
		open_output(&outputs[1], plan.sessions_out);
		/* As the temporary file of the second one, or by a link. */
		if (outputs[0].temporary && is_other(&outputs[0], plan.out))
			refuse(ONE_FILE);
	}
	empty_outputs();
	if (plan.sessions_out)
		write_sessions(&net, outputs[1].file);
	write_topology(&net, outputs[0].file, about.text);
	close_outputs();
	net_free(&net);
}
