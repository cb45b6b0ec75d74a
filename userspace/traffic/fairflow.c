// SPDX-License-Identifier: GPL-2.0
/*
 * fairflow - a few flows at exact times, sampled by TCP_INFO
 *
 *	fairtraffic sink --port 5000 --output sink.json
 *	fairflow --every 0.1 --output flows.fair
 *		 to=10.0.0.2,port=5000,cc=bic,start=0,stop=60
 *		 to=10.0.0.2,port=5000,cc=reno,start=10,stop=60,bytes=1e9
 *
 * Each flow is TCP with its own congestion control, or UDP at a rate. It starts
 * and stops at given times, or stops when so many bytes were received. It may
 * send and pause alternately (on=, off=), for fixed or random times.
 *
 * All flows are sampled by TCP_INFO at fixed times, which only takes the
 * socket's lock for a moment; in virtual time it takes no time at all. Samples
 * are kept in memory and written to one file at the end: one line of JSON that
 * describes the flows, their results and the samples' fields, then the samples
 * in binary.
 *
 * System calls are expensive in User-Mode Linux (two context switches). So each
 * flow is a thread that passes a megabyte or more to the kernel at once, and is
 * woken when there is room for more. Only TCP limits it.
 *
 * A flow that ends at its stop time is reset (RST), and unsent data discarded.
 * One that ends by its size waits for the sink's answer, so that its end is the
 * arrival of the last byte.
 *
 * Times are seconds since the start: --begin, by CLOCK_MONOTONIC, so that
 * several instances can start together; otherwise the start of the program.
 *
 * Exit status: 0; 1 after a failure; 2 for invalid arguments.
 */
#define _GNU_SOURCE

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fairflow.h"

/* The stack of a flow's thread, which has a packet of PACKET_MAX on it. */
#define STACK (256 << 10)

const char program[] = "fairflow";

static const char usage[] =
	"usage: fairflow [--output FILE] [--every SECONDS] [--begin SECONDS] [--seed N] FLOW...\n"
	"\n"
	"Send flows to sinks (fairtraffic sink) and sample them by TCP_INFO.\n"
	"\n"
	"  --output FILE     results and samples: a line of JSON, then binary data (stdout)\n"
	"  --every SECONDS   sampling interval (0.1)\n"
	"  --begin SECONDS   start of all times, by CLOCK_MONOTONIC (now)\n"
	"  --seed N          seed of random times (1)\n"
	"  --help, --version\n"
	"\n"
	"FLOW is a list of options with commas between; to, port and stop are required:\n"
	"  to=ADDRESS port=N the sink\n"
	"  bind=ADDRESS      source address (that of the route)\n"
	"  from=N            source port (any)\n"
	"  cc=NAME           congestion control (the system's default)\n"
	"  udp=RATE size=N   UDP packets of N bytes (1000) at RATE bit/s\n"
	"  start=S stop=S    seconds since the start (default start=0)\n"
	"  bytes=N           the flow ends when N bytes were received\n"
	"  open=S first=N    connect at S instead, send N of its bytes then, the rest at start\n"
	"  rate=RATE         rate limit of TCP, bit/s\n"
	"  on=TIME off=TIME  alternate sending and pausing; TIME is seconds,\n"
	"                    exp:MEAN or pareto:SHAPE:MEAN\n"
	"\n"
	"Exit status: 0 success, 1 failure, 2 invalid arguments.\n";

static struct duration duration_named(const char *name, const char *text)
{
	struct duration found = { FIXED };
	const char *rest = text;
	char shape[16] = "";

	if (sscanf(text, "pareto:%15[0-9.]:", shape) == 1 &&
	    strchr(text + 7, ':')) {
		found.law = PARETO;
		found.shape = number(name, shape, 1.01, 100);
		rest = strchr(text + 7, ':') + 1;
	} else if (!strncmp(text, "exp:", 4)) {
		found.law = EXPONENTIAL;
		rest = text + 4;
	}
	found.mean = number(name, rest, 1e-6, SECONDS_MAX);
	return found;
}

static void set_flow_option(struct flow *flow, const char *name,
			    const char *value)
{
	if (!strcmp(name, "to")) {
		flow->to.sin_addr = address_named(name, value);
	} else if (!strcmp(name, "port")) {
		flow->to.sin_port = htons(whole_number(name, value, 1, 65535));
	} else if (!strcmp(name, "bind")) {
		flow->bind = address_named(name, value);
	} else if (!strcmp(name, "from")) {
		flow->from = whole_number(name, value, 1, 65535);
	} else if (!strcmp(name, "cc")) {
		if (!*value || strlen(value) >= sizeof(flow->cc))
			refuse("cc '%s': no such name", value);
		strcpy(flow->cc, value);
	} else if (!strcmp(name, "udp")) {
		flow->udp = true;
		flow->rate = number(name, value, 8, 1e12);
	} else if (!strcmp(name, "size")) {
		flow->size = whole_number(name, value, PACKET_MIN, PACKET_MAX);
	} else if (!strcmp(name, "start")) {
		flow->start = number(name, value, 0, SECONDS_MAX);
	} else if (!strcmp(name, "stop")) {
		flow->stop = number(name, value, 1e-3, SECONDS_MAX);
	} else if (!strcmp(name, "open")) {
		flow->open = number(name, value, 0, SECONDS_MAX);
	} else if (!strcmp(name, "first")) {
		flow->first = whole_number(name, value, 1, 1e15);
	} else if (!strcmp(name, "bytes")) {
		flow->bytes = whole_number(name, value, 1, 1e15);
	} else if (!strcmp(name, "rate")) {
		flow->rate = number(name, value, 8, 1e12);
	} else if (!strcmp(name, "on")) {
		flow->on = duration_named(name, value);
	} else if (!strcmp(name, "off")) {
		flow->off = duration_named(name, value);
	} else {
		refuse("'%s': no such option of a flow; see --help", name);
	}
}

static void add_flow(char *text, uint64_t seed)
{
	struct flow *flow = &flows[flow_count];
	bool rate = false;
	char *option;

	if (flow_count == FLOWS_MAX)
		refuse("at most %d flows", FLOWS_MAX);
	*flow = (struct flow){
		.to.sin_family = AF_INET,
		.fd = -1,
		.draw = draw_start(seed, flow_count),
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	flow_count++;
	while ((option = strsep(&text, ","))) {
		char *value = strchr(option, '=');

		if (!value)
			refuse("flow %u: '%s' is not NAME=VALUE", flow_count,
			       option);
		*value++ = '\0';
		rate |= !strcmp(option, "rate");
		set_flow_option(flow, option, value);
	}
	if (!flow->to.sin_addr.s_addr || !flow->to.sin_port || !flow->stop)
		refuse("flow %u: needs to=, port= and stop=", flow_count);
	if (flow->start >= flow->stop)
		refuse("flow %u: stops before it starts", flow_count);
	if (flow->udp && (flow->bytes || *flow->cc || rate))
		refuse("flow %u: UDP has no bytes=, cc= or rate=", flow_count);
	if (flow->first ? flow->udp || flow->first >= flow->bytes ||
				  flow->open > flow->start :
			  flow->open)
		refuse("flow %u: open= needs first=, less than bytes=, and a later start=",
		       flow_count);
	if (!flow->udp && flow->size)
		refuse("flow %u: size= is for UDP", flow_count);
	if (!flow->on.mean != !flow->off.mean)
		refuse("flow %u: on= and off= belong together", flow_count);
	if (!flow->size)
		flow->size = 1000;
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ "output", required_argument, NULL, 'o' },
		{ "every", required_argument, NULL, 'e' },
		{ "begin", required_argument, NULL, 'b' },
		{ "seed", required_argument, NULL, 's' },
		{},
	};
	struct samples samples = {};
	pthread_attr_t attributes;
	const char *output = NULL;
	double every = 0.1, at = 0;
	uint64_t seed = 1;
	unsigned int n;
	FILE *file;
	int which;

	opterr = 0;
	while ((which = getopt_long(argc, argv, "+:", names, NULL)) != -1) {
		switch (which) {
		case 'h':
			fputs(usage, stdout);
			close_output(NULL, stdout);
			return 0;
		case 'V':
			fputs("fairflow " VERSION "\n", stdout);
			close_output(NULL, stdout);
			return 0;
		case 'o':
			output = optarg;
			break;
		case 'e':
			every = number("--every", optarg, 1e-4, 3600);
			break;
		case 'b':
			at = number("--begin", optarg, 0, 1e12);
			break;
		case 's':
			seed = seed_number(optarg);
			break;
		case ':':
			refuse("%s needs a value", argv[optind - 1]);
		default:
			refuse("unknown option %s; see --help",
			       argv[optind - 1]);
		}
	}
	if (optind == argc)
		refuse("no flows; see --help");
	while (optind < argc)
		add_flow(argv[optind++], seed);

	file = open_output(output);
	prepare();
	begin = at ? nanoseconds(at) : now();
	/* Stacks are locked in memory: by default 8 MiB of each of 1024 flows. */
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	for (n = 0; n < flow_count; n++)
		if (pthread_create(&flows[n].thread, &attributes, run_flow,
				   &flows[n]))
			broken("flow %u: cannot create a thread", n + 1);
	pthread_attr_destroy(&attributes);
	/* Only this thread handles signals. */
	pthread_sigmask(SIG_SETMASK, &while_waiting, NULL);
	sample_flows(&samples, every);
	for (n = 0; n < flow_count; n++)
		close_flow(&flows[n]);
	begin_output(output, file);
	write_result(file, &samples, every);
	close_output(output, file);
	free(samples.sample);
	return 0;
}
