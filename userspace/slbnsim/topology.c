// SPDX-License-Identifier: GPL-2.0
/*
 * The command topology: draws a network, and sessions on it, and writes both as
 * read.h has them, so that run reads just what has been drawn: the same nodes,
 * links and sessions in the same order. So a run of the files of an experiment is
 * a run of the experiment.
 *
 * "about" in the topology is the command line that makes the same files again,
 * with all that was left to defaults.
 */
#include "topology.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "experiment.h"
#include "generate.h"
#include "read.h"
#include "write.h"

/* As many routers as are drawn at most; at random, each looks at each other. */
#define NODES_MAX 1000000
#define RANDOM_MAX 20000
#define SESSIONS_MAX 10000000

const char topology_usage[] =
	"usage: slbnsim topology KIND [OPTION]...\n"
	"\n"
	"Draws a network, and sessions on it, and writes them as files for run.\n"
	"\n"
	"  line, star         routers in a row, or around one\n"
	"  parking-lot        a line, with a session over all links and one over each\n"
	"  random             Waxman's random graph, connected\n"
	"  transit-stub       as GT-ITM draws them\n"
	"  1a, 1b, 2a, 2b, lan, wan  an experiment's network with its sessions\n"
	"  file               that of --topology\n"
	"any kind:\n"
	"  --seed N           decides all that is random (1)\n"
	"  --out FILE         where the topology goes, as JSON (- for standard output)\n"
	"  --sessions-out FILE  where sessions go, as CSV (they are not written)\n"
	"line, star, parking-lot, random:\n"
	"  --nodes N          how many routers (10)\n"
	"  --rate RATE        of links (1gbit)\n"
	"  --delay TIME[-TIME]  of links, drawn between the two (1ms; random: 1ms-10ms,\n"
	"                     by distance)\n"
	"random:\n"
	"  --degree N         links of a router on average (4)\n"
	"  --alpha PERCENT    how far links reach (20)\n"
	"transit-stub (defaults: 1,100 routers):\n"
	"  --domains N        transit domains (10)\n"
	"  --transit N        routers in each on average (10)\n"
	"  --stubs N          stub domains at each of these routers (2)\n"
	"  --stub N           routers in each on average (5)\n"
	"  --top-links PERCENT, --transit-links PERCENT, --stub-links PERCENT\n"
	"                     how likely two domains, or routers of a domain, are linked\n"
	"                     (50, 50, 42)\n"
	"1a, 1b, 2a, 2b, lan, wan:\n"
	"  --percent N        of the sessions, 1 to 100 (100)\n"
	"file:\n"
	"  --topology FILE    nodes and links, as JSON (- for standard input)\n"
	"sessions (not of experiments; their number not in a parking lot):\n"
	"  --sessions N       how many, between two routers each (10)\n"
	"  --within TIME      they join from 0 to then (1s; parking-lot: 0)\n"
	"  --host-rate RATE   each begins and ends at a host with such a link (none;\n"
	"                     transit-stub: 100mbit)\n"
	"  --host-delay TIME[-TIME]  (1us)\n";

/* Kinds, as bits: which options are for which. */
enum kind {
	LINE = 1,
	STAR = 2,
	PARKING_LOT = 4,
	RANDOM = 8,
	TRANSIT_STUB = 16,
	EXPERIMENT = 32,
	FROM_FILE = 64,
};

#define RULED (LINE | STAR | PARKING_LOT | RANDOM)
#define ANY (RULED | TRANSIT_STUB | EXPERIMENT | FROM_FILE)

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

enum choice {
	HELP,
	SEED,
	OUT,
	SESSIONS_OUT,
	NODES,
	RATE,
	DELAY,
	DEGREE,
	ALPHA,
	DOMAINS,
	TRANSIT,
	STUBS,
	STUB,
	TOP_LINKS,
	TRANSIT_LINKS,
	STUB_LINKS,
	PERCENT,
	TOPOLOGY,
	SESSIONS,
	WITHIN,
	HOST_RATE,
	HOST_DELAY,
	CHOICES
};

static const struct option names[CHOICES + 1] = {
	[HELP] = { "help", no_argument, NULL, HELP },
	[SEED] = { "seed", required_argument, NULL, SEED },
	[OUT] = { "out", required_argument, NULL, OUT },
	[SESSIONS_OUT] = { "sessions-out", required_argument, NULL,
			   SESSIONS_OUT },
	[NODES] = { "nodes", required_argument, NULL, NODES },
	[RATE] = { "rate", required_argument, NULL, RATE },
	[DELAY] = { "delay", required_argument, NULL, DELAY },
	[DEGREE] = { "degree", required_argument, NULL, DEGREE },
	[ALPHA] = { "alpha", required_argument, NULL, ALPHA },
	[DOMAINS] = { "domains", required_argument, NULL, DOMAINS },
	[TRANSIT] = { "transit", required_argument, NULL, TRANSIT },
	[STUBS] = { "stubs", required_argument, NULL, STUBS },
	[STUB] = { "stub", required_argument, NULL, STUB },
	[TOP_LINKS] = { "top-links", required_argument, NULL, TOP_LINKS },
	[TRANSIT_LINKS] = { "transit-links", required_argument, NULL,
			    TRANSIT_LINKS },
	[STUB_LINKS] = { "stub-links", required_argument, NULL, STUB_LINKS },
	[PERCENT] = { "percent", required_argument, NULL, PERCENT },
	[TOPOLOGY] = { "topology", required_argument, NULL, TOPOLOGY },
	[SESSIONS] = { "sessions", required_argument, NULL, SESSIONS },
	[WITHIN] = { "within", required_argument, NULL, WITHIN },
	[HOST_RATE] = { "host-rate", required_argument, NULL, HOST_RATE },
	[HOST_DELAY] = { "host-delay", required_argument, NULL, HOST_DELAY },
};

static const u32 meant_for[CHOICES] = {
	[HELP] = ANY,
	[SEED] = ANY,
	[OUT] = ANY,
	[SESSIONS_OUT] = ANY,
	[NODES] = RULED,
	[RATE] = RULED,
	[DELAY] = RULED,
	[DEGREE] = RANDOM,
	[ALPHA] = RANDOM,
	[DOMAINS] = TRANSIT_STUB,
	[TRANSIT] = TRANSIT_STUB,
	[STUBS] = TRANSIT_STUB,
	[STUB] = TRANSIT_STUB,
	[TOP_LINKS] = TRANSIT_STUB,
	[TRANSIT_LINKS] = TRANSIT_STUB,
	[STUB_LINKS] = TRANSIT_STUB,
	[PERCENT] = EXPERIMENT,
	[TOPOLOGY] = FROM_FILE,
	[SESSIONS] = ANY & ~(EXPERIMENT | PARKING_LOT),
	[WITHIN] = ANY & ~EXPERIMENT,
	[HOST_RATE] = ANY & ~EXPERIMENT,
	[HOST_DELAY] = ANY & ~EXPERIMENT,
};

struct plan {
	enum kind kind;
	const char *name;
	const struct experiment *experiment;
	const char *file;
	const char *out;
	const char *sessions_out;
	u64 seed;
	u32 nodes;
	u32 degree;
	u32 alpha; /* thousandths */
	u32 percent;
	struct links links;
	struct transit_stub network;
	struct wish_list sessions;
	u32 given; /* choices that were, as bits */
};

/* ------------------------------------------------------------------------ */
/* Arguments                                                                */

static void kind_named(struct plan *plan, const char *name)
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

/* One time, or two with - between. */
static void delays_named(struct links *links, const char *name, char *text)
{
	char *dash = strchr(text, '-');

	if (dash)
		*dash = '\0';
	links->delay_least = time_named(name, text, NET_DELAY_MAX);
	links->delay_most = links->delay_least;
	if (!dash)
		return;
	links->delay_most = time_named(name, dash + 1, NET_DELAY_MAX);
	*dash = '-';
	if (links->delay_most < links->delay_least)
		refuse("%s '%s': the second is less than the first", name,
		       text);
}

static void take(struct plan *plan, enum choice choice, char *text)
{
	u32 least, most;
	char name[32];

	snprintf(name, sizeof(name), "--%s", names[choice].name);
	if (!(meant_for[choice] & plan->kind))
		refuse("%s is not for %s", name, plan->name);
	plan->given |= 1U << choice;
	switch (choice) {
	case SEED:
		plan->seed = number_named(name, text, 0, ~0ULL);
		break;
	case OUT:
		plan->out = text;
		break;
	case SESSIONS_OUT:
		plan->sessions_out = text;
		break;
	case NODES:
		least = plan->kind == STAR ? 3 : 2;
		most = plan->kind == RANDOM ? RANDOM_MAX : NODES_MAX;
		plan->nodes = number_named(name, text, least, most);
		break;
	case RATE:
		plan->links.rate = rate_named(name, text);
		break;
	case DELAY:
		delays_named(&plan->links, name, text);
		break;
	case DEGREE:
		plan->degree = number_named(name, text, 1, 1000);
		break;
	case ALPHA:
		plan->alpha = share_named(name, text);
		if (!plan->alpha)
			refuse("%s: must be more than nothing", name);
		break;
	case DOMAINS:
		plan->network.domains = number_named(name, text, 1, 1000);
		break;
	case TRANSIT:
		plan->network.transit = number_named(name, text, 1, 1000);
		break;
	case STUBS:
		plan->network.stubs = number_named(name, text, 1, 1000);
		break;
	case STUB:
		plan->network.stub = number_named(name, text, 1, 1000);
		break;
	case TOP_LINKS:
		plan->network.top_links = share_named(name, text);
		break;
	case TRANSIT_LINKS:
		plan->network.transit_links = share_named(name, text);
		break;
	case STUB_LINKS:
		plan->network.stub_links = share_named(name, text);
		break;
	case PERCENT:
		plan->percent = number_named(name, text, 1, 100);
		break;
	case TOPOLOGY:
		plan->file = text;
		break;
	case SESSIONS:
		plan->sessions.count =
			number_named(name, text, 1, SESSIONS_MAX);
		break;
	case WITHIN:
		plan->sessions.within = time_named(name, text, 1000000 * SEC);
		break;
	case HOST_RATE:
		plan->sessions.hosts.rate = rate_named(name, text);
		break;
	case HOST_DELAY:
		delays_named(&plan->sessions.hosts, name, text);
		break;
	case HELP:
	case CHOICES:
		break;
	}
}

static void check(const struct plan *plan)
{
	const u32 about_sessions = 1U << SESSIONS | 1U << WITHIN |
				   1U << HOST_RATE | 1U << HOST_DELAY;
	const struct transit_stub *network = &plan->network;

	if (plan->kind == FROM_FILE && !plan->file)
		refuse("needs --topology; see slbnsim topology --help");
	if (!plan->sessions_out && plan->given & about_sessions)
		refuse("sessions need --sessions-out");
	if (plan->given & 1U << HOST_DELAY && !plan->sessions.hosts.rate)
		refuse("--host-delay needs --host-rate");
	if (plan->sessions_out && !strcmp(plan->out, plan->sessions_out))
		refuse("topology and sessions cannot be the same file");
	if ((u64)network->domains * network->transit *
		    (1 + (u64)network->stubs * network->stub) >
	    NODES_MAX)
		refuse("that would be more than %u routers", NODES_MAX);
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
	int which;

	if (argc > 2 && !strcmp(argv[2], "--help")) {
		fputs(topology_usage, stdout);
		exit(0);
	}
	if (argc < 3 || *argv[2] == '-')
		refuse("needs a kind of topology; see slbnsim topology --help");
	kind_named(&plan, argv[2]);
	if (plan.kind == RANDOM)
		plan.links.delay_most = 10 * MSEC;
	if (plan.kind == TRANSIT_STUB)
		plan.sessions.hosts.rate = 100000000;
	if (plan.kind == PARKING_LOT)
		plan.sessions.within = 0;
	opterr = 0;
	optind = 3;
	while ((which = getopt_long(argc, argv, "+:", names, NULL)) != -1) {
		if (which == HELP) {
			fputs(topology_usage, stdout);
			exit(0);
		}
		if (which == ':')
			refuse("%s needs a value", argv[optind - 1]);
		if (which >= CHOICES)
			refuse("unknown option %s; see slbnsim topology --help",
			       argv[optind - 1]);
		take(&plan, which, optarg);
	}
	if (optind < argc)
		refuse("'%s' is one word too many; see --help", argv[optind]);
	check(&plan);
	return plan;
}

/* ------------------------------------------------------------------------ */
/* Drawing                                                                  */

static u32 *all_from(u32 first, u32 count)
{
	u32 *all = calloc(count + 1UL, sizeof(u32)), n;

	if (!all) {
		fputs("slbnsim: out of memory\n", stderr);
		exit(1);
	}
	for (n = 0; n < count; n++)
		all[n] = first + n;
	return all;
}

static void draw_all(struct net *net, const struct plan *plan)
{
	u64 random = plan->seed;
	u32 *ends = NULL, count = 0, which = 0;
	struct drawn drawn;
	const char *wrong;

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
	wrong = net_index(net);
	if (!wrong)
		wrong = net_route(net, &which);
	if (wrong)
		refuse("these sessions cannot be: %s", wrong);
}

/* ------------------------------------------------------------------------ */
/* Files                                                                    */

static FILE *open_file(const char *name)
{
	FILE *file = strcmp(name, "-") ? fopen(name, "we") : stdout;

	if (!file)
		refuse("%s: %s", name, strerror(errno));
	return file;
}

static void close_file(FILE *file, const char *name)
{
	if (ferror(file) | fclose(file))
		refuse("%s: cannot be written", name);
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
		      const struct links *links)
{
	add(line, " --%srate %llubit --%sdelay %lluns", prefix,
	    (unsigned long long)links->rate, prefix,
	    (unsigned long long)links->delay_least);
	if (links->delay_most != links->delay_least)
		add(line, "-%lluns", (unsigned long long)links->delay_most);
}

/* The command line that draws the same. */
static void describe(struct line *line, const struct plan *plan)
{
	const struct transit_stub *network = &plan->network;

	add(line, "slbnsim " VERSION " topology %s --seed %llu", plan->name,
	    (unsigned long long)plan->seed);
	if (plan->kind & RULED) {
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
 * @argc: words
 * @argv: the words; the third is the kind
 */
void topology(int argc, char **argv)
{
	struct plan plan = parse(argc, argv);
	struct line about = {};
	struct net net = {};
	FILE *to;
	char *at;

	draw_all(&net, &plan);
	describe(&about, &plan);
	/* Only a file's name may be anything. */
	for (at = about.text; *at; at++)
		if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f)
			*at = '?';
	to = open_file(plan.out);
	write_topology(&net, to, about.text);
	close_file(to, plan.out);
	if (plan.sessions_out) {
		to = open_file(plan.sessions_out);
		write_sessions(&net, to);
		close_file(to, plan.sessions_out);
	}
	net_free(&net);
}
