// SPDX-License-Identifier: GPL-2.0
/*
 * fairtraffic - background traffic of many short flows, or of single packets
 *
 *	fairtraffic sink   --port 5000 --output sink.json
 *	fairtraffic source --to 10.0.0.2 --port 5000 --load 25000000
 *			   --mean 100000 --peak 1000000 --output source.json
 *
 * The background of Roberts and Augé, "Fair queueing and congestion control"
 * (2005), in two kinds:
 *
 * flows: TCP connections arrive as a Poisson process, each with a size, drawn
 * from an exponential or Pareto distribution, and a peak rate by
 * SO_MAX_PACING_RATE (the kernel does not pace the first ten segments of a
 * connection; a qdisc like fq with maxrate does). The source sends and
 * half-closes; the sink replies with the bytes and data segments received. So
 * the source knows when each flow was complete, and exactly how many segments
 * the network lost.
 *
 * packets: UDP packets of one size arrive as a Poisson process. Each belongs to
 * a random one of many flows, which differ in source ports: traffic of many
 * flows far below their fair share. Both ends count packets by their sending
 * time, in bins of 0.1 s; the difference was lost. Packets carry that time, so
 * both ends must share a clock, that is, a kernel.
 *
 * Loads count payload, without headers. The seed determines arrivals and sizes
 * (draw.h); `fairtraffic plan` prints them. The source reports how late it was,
 * since a slow machine offers less than planned.
 *
 * One thread with one epoll set, and few system calls per flow, since these are
 * expensive in emulated machines: waits with nanosecond timeouts instead of
 * timers, the FIN in the last data segment, wake-ups of the sink for 256 KB
 * instead of each segment.
 *
 * Both ends run until SIGTERM or SIGINT, the source at most for --time, and
 * then write one JSON document. Exit status: 0; 1 after a failure (including
 * that of a single flow, since the background would be incomplete); 2 for
 * invalid arguments.
 */
#define _GNU_SOURCE

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "fairtraffic.h"

#define MAX_PORTS 4096

const char program[] = "fairtraffic";

/* Print the arrivals, without traffic. */
static void plan(const struct options *o)
{
	FILE *file = open_output(o->output);
	struct arrivals arrivals;

	start_arrivals(&arrivals, o);
	begin_output(o->output, file);
	fputs("nanoseconds,bytes\n", file);
	while (arrivals_due(&arrivals) < o->seconds * NSEC_PER_SEC) {
		uint64_t due = arrivals_due(&arrivals);

		fprintf(file, "%llu,%llu\n", (unsigned long long)due,
			(unsigned long long)arrivals_take(&arrivals));
	}
	close_output(o->output, file);
}

static const char usage[] =
	"usage: fairtraffic source --to ADDRESS --port N --load BITS --mean BYTES [OPTION]...\n"
	"       fairtraffic sink   --port N [OPTION]...\n"
	"       fairtraffic plan   --load BITS --mean BYTES --time SECONDS [OPTION]...\n"
	"\n"
	"Background traffic: short flows, or single packets, arrive as a Poisson process.\n"
	"\n"
	"  --kind flows|packets    TCP flows (default), or UDP packets\n"
	"  --output FILE           write the result there, as JSON (plan: CSV); default: stdout\n"
	"source and plan:\n"
	"  --load BITS             mean offered load in bit/s, without headers\n"
	"  --mean BYTES            mean size of a flow; size of every packet\n"
	"  --sizes exp|pareto:A    distribution of flow sizes: exponential (default), or\n"
	"                          Pareto with shape A > 1\n"
	"  --seed N                seed of arrivals and sizes (1)\n"
	"  --time SECONDS          duration (source: default until SIGTERM or SIGINT)\n"
	"source:\n"
	"  --to ADDRESS            the sink's IPv4 address\n"
	"  --port N                the sink's port\n"
	"  --peak BITS             rate limit of each flow, bit/s (no limit)\n"
	"  --ports N               number of flows that packets belong to (256)\n"
	"sink:\n"
	"  --port N                port to listen on\n"
	"  --bind ADDRESS          listen only on this IPv4 address\n"
	"  --delays-from SECONDS   report delays of packets sent from then on, by\n"
	"                          CLOCK_MONOTONIC (all)\n"
	"everywhere:\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 success, 1 failure, 2 invalid arguments\n";

static const char version[] = "fairtraffic " VERSION "\n";

enum command {
	SOURCE,
	SINK,
	PLAN
};

static const char *const commands[] = { "source", "sink", "plan" };

enum which {
	O_HELP,
	O_VERSION,
	O_KIND,
	O_OUTPUT,
	O_LOAD,
	O_MEAN,
	O_SIZES,
	O_SEED,
	O_TIME,
	O_TO,
	O_PORT,
	O_PEAK,
	O_PORTS,
	O_BIND,
	O_DELAYS_FROM,
	OPTIONS,
};

static const struct option names[] = {
	{ "help", no_argument, NULL, O_HELP },
	{ "version", no_argument, NULL, O_VERSION },
	{ "kind", required_argument, NULL, O_KIND },
	{ "output", required_argument, NULL, O_OUTPUT },
	{ "load", required_argument, NULL, O_LOAD },
	{ "mean", required_argument, NULL, O_MEAN },
	{ "sizes", required_argument, NULL, O_SIZES },
	{ "seed", required_argument, NULL, O_SEED },
	{ "time", required_argument, NULL, O_TIME },
	{ "to", required_argument, NULL, O_TO },
	{ "port", required_argument, NULL, O_PORT },
	{ "peak", required_argument, NULL, O_PEAK },
	{ "ports", required_argument, NULL, O_PORTS },
	{ "bind", required_argument, NULL, O_BIND },
	{ "delays-from", required_argument, NULL, O_DELAYS_FROM },
	{},
};

/* Options that a command accepts, and those that it requires. */
#define BIT(option) (1U << (option))
#define ALWAYS (BIT(O_HELP) | BIT(O_KIND) | BIT(O_OUTPUT))
#define A_PLAN \
	(BIT(O_LOAD) | BIT(O_MEAN) | BIT(O_SIZES) | BIT(O_SEED) | BIT(O_TIME))

static const unsigned int allowed[] = {
	[SOURCE] = ALWAYS | A_PLAN | BIT(O_TO) | BIT(O_PORT) | BIT(O_PEAK) |
		   BIT(O_PORTS),
	[SINK] = ALWAYS | BIT(O_PORT) | BIT(O_BIND) | BIT(O_DELAYS_FROM),
	[PLAN] = ALWAYS | A_PLAN,
};

static const unsigned int needed[] = {
	[SOURCE] = BIT(O_TO) | BIT(O_PORT) | BIT(O_LOAD) | BIT(O_MEAN),
	[SINK] = BIT(O_PORT),
	[PLAN] = BIT(O_LOAD) | BIT(O_MEAN) | BIT(O_TIME),
};

static enum kind kind_named(const char *text)
{
	if (!strcmp(text, kinds[FLOWS]))
		return FLOWS;
	if (!strcmp(text, kinds[PACKETS]))
		return PACKETS;
	refuse("--kind '%s': must be flows or packets", text);
}

/* The shape of the Pareto distribution; 0: exponential. */
static double shape_named(const char *text)
{
	double shape;

	if (!strcmp(text, "exp"))
		return 0;
	if (strncmp(text, "pareto:", 7))
		refuse("--sizes '%s': must be exp or pareto:SHAPE", text);
	shape = number("--sizes pareto", text + 7, 0, 100);
	/* Near 1, almost all of the mean is in flows too large to occur. */
	if (shape < 1.01)
		refuse("--sizes %s: the shape must be at least 1.01 (below 1 the mean is infinite)",
		       text);
	return shape;
}

static void take_option(struct options *o, int which, const char *text)
{
	switch (which) {
	case O_KIND:
		o->kind = kind_named(text);
		break;
	case O_OUTPUT:
		o->output = text;
		break;
	case O_LOAD:
		o->load = number("--load", text, 1, 1e12);
		break;
	case O_MEAN:
		o->mean = whole_number("--mean", text, MIN_PACKET, 1e12);
		break;
	case O_SIZES:
		o->shape = shape_named(text);
		break;
	case O_SEED:
		o->seed = seed_number(text);
		break;
	case O_TIME:
		o->seconds = number("--time", text, 0.001, 86400);
		break;
	case O_TO:
		o->address = address_named("--to", text);
		break;
	case O_BIND:
		o->address = address_named("--bind", text);
		break;
	case O_DELAYS_FROM:
		o->delays_from = number("--delays-from", text, 0, 1e9);
		break;
	case O_PORT:
		o->port = whole_number("--port", text, 1, 65535);
		break;
	case O_PEAK:
		o->peak = number("--peak", text, 8, 1e12);
		break;
	case O_PORTS:
		o->ports = whole_number("--ports", text, 1, MAX_PORTS);
		break;
	}
}

static enum command command_named(const char *text)
{
	int n;

	for (n = SOURCE; n <= PLAN; n++)
		if (!strcmp(text, commands[n]))
			return n;
	refuse("no command '%s': source, sink or plan", text);
}

static void show(const char *text)
{
	fputs(text, stdout);
	close_output(NULL, stdout);
	exit(0);
}

static enum command parse(struct options *o, int argc, char **argv)
{
	enum command command;
	unsigned int given = 0;
	int which;

	if (argc < 2)
		refuse("no command: source, sink or plan; see --help");
	if (!strcmp(argv[1], "--help"))
		show(usage);
	if (!strcmp(argv[1], "--version"))
		show(version);
	command = command_named(argv[1]);
	argv++;
	argc--;
	opterr = 0;
	while ((which = getopt_long(argc, argv, "+:", names, NULL)) != -1) {
		if (which == ':')
			refuse("%s needs a value", argv[optind - 1]);
		if (which == '?')
			refuse("unknown option %s; see --help",
			       argv[optind - 1]);
		if (which == O_HELP)
			show(usage);
		if (which == O_VERSION)
			show(version);
		if (!(allowed[command] & BIT(which)))
			refuse("%s has no --%s", commands[command],
			       names[which].name);
		given |= BIT(which);
		take_option(o, which, optarg);
	}
	if (optind < argc)
		refuse("unexpected '%s'", argv[optind]);
	for (which = 0; which < OPTIONS; which++)
		if (needed[command] & ~given & BIT(which))
			refuse("%s needs --%s", commands[command],
			       names[which].name);
	if (o->kind == FLOWS && given & BIT(O_DELAYS_FROM))
		refuse("--delays-from is for packets only");
	if (o->kind == PACKETS && command != SINK) {
		if (o->mean > MAX_PACKET)
			refuse("--mean %.0f: a packet has at most %u bytes",
			       o->mean, MAX_PACKET);
		if (given & (BIT(O_SIZES) | BIT(O_PEAK)))
			refuse("packets have neither --sizes nor --peak");
	} else if (given & BIT(O_PORTS)) {
		refuse("--ports is for packets only: each TCP flow has its own");
	}
	return command;
}

int main(int argc, char **argv)
{
	struct options options = { .seed = 1, .ports = 256 };

	switch (parse(&options, argc, argv)) {
	case SOURCE:
		source(&options);
		break;
	case SINK:
		sink(&options);
		break;
	case PLAN:
		plan(&options);
		break;
	}
	return 0;
}
