// SPDX-License-Identifier: GPL-2.0
/*
 * The experiments of Mozo, Lopez-Presa, Fernandez Anta, "SLBN", NCA 2012,
 * section IV: tens of thousands of sessions join transit-stub networks of 1,100
 * and 11,000 routers within a second, some leave and others join. At each
 * sample, assigned rates are compared with the max-min rates of the sessions
 * that are present:
 *
 *	Es = 100 (rate - exact) / exact            at a source
 *	Ee = 100 (sum of rates - C) / C            at a bottleneck
 *
 * With headroom, C is what sessions share.
 *
 * The paper's parameters for GT-ITM are unknown. These give its numbers of
 * routers: ten transit routers to a domain, two stub domains of five routers to
 * each of them, and ten domains or a hundred. Each stub router has 200 hosts;
 * only those that sessions use are created.
 *
 * Sources and destinations are uniformly random hosts, no host is the source of
 * two sessions, and paths are the shortest by delay.
 *
 * lan and wan are ours: the same leaf-spine network with link delays of 1 to 2
 * us and of 5 to 10 ms. Half of the hosts join at once; after rates have
 * settled, a tenth of them leave and as many others join.
 */
#include "experiment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

#define MSEC 1000000ULL
#define SEC (1000 * MSEC)
#define HOSTS 200
#define HOST_RATE 100000000ULL
#define HOST_DELAY 1000ULL
/* A session's data: Pareto, in packets of 2000 bytes, 300 on average. */
#define PACKET 2000
#define SHAPE 4.0
#define LEAST_PACKETS 225.0

#define MEDIUM                              \
	{                                   \
		10, 10, 2, 5, 500, 500, 420 \
	}
#define LARGE                                \
	{                                    \
		100, 10, 2, 5, 150, 500, 420 \
	}

#define FABRIC(delay)                                              \
	{                                                          \
		16, 8, 64, 10000000000ULL, 100000000000ULL, delay, \
	}

const struct experiment experiments[] = {
	{
		.name = "1a",
		.about =
			"1,100 routers: 50,000 join; 10,000 join and 10,000 leave",
		.network = MEDIUM,
		.joins = 50000,
		.joins_until = 500 * MSEC,
		.more = 10000,
		.leaves = 10000,
		.churn_from = 500 * MSEC,
		.churn_until = 700 * MSEC,
		.until = 2 * SEC,
	},
	{
		.name = "1b",
		.about =
			"1,100 routers: 50,000 join, and leave when they have sent their data",
		.network = MEDIUM,
		.joins = 50000,
		.joins_until = 500 * MSEC,
		.sized = true,
		.until = 6 * SEC,
	},
	{
		.name = "2a",
		.about = "11,000 routers: 180,000 join",
		.network = LARGE,
		.joins = 180000,
		.joins_until = SEC,
		.until = 2 * SEC,
	},
	{
		.name = "2b",
		.about =
			"11,000 routers: 100,000 join; 50,000 join and 50,000 leave",
		.network = LARGE,
		.joins = 100000,
		.joins_until = SEC,
		.more = 50000,
		.leaves = 50000,
		.churn_from = 9 * SEC,
		.churn_until = 10 * SEC,
		.from = 9 * SEC,
		.until = 11 * SEC,
	},
	{
		.name = "lan",
		.about =
			"leaf-spine network, 10 and 100 Gbit/s, us: 512 join; 51 join and 51 leave",
		.fabric = FABRIC(1000),
		.joins = 512,
		.joins_until = 20 * 1000,
		.more = 51,
		.leaves = 51,
		.churn_from = 6 * MSEC,
		.churn_until = 6 * MSEC + 20 * 1000,
		.until = 12 * MSEC,
	},
	{
		.name = "wan",
		.about =
			"leaf-spine network, 10 and 100 Gbit/s, ms: 512 join; 51 join and 51 leave",
		.fabric = FABRIC(5 * MSEC),
		.joins = 512,
		.joins_until = 100 * MSEC,
		.more = 51,
		.leaves = 51,
		.churn_from = 5 * SEC,
		.churn_until = 5 * SEC + 100 * MSEC,
		.until = 10 * SEC,
	},
};

const u32 experiment_count = sizeof(experiments) / sizeof(*experiments);

/* ------------------------------------------------------------------------ */
/* Sessions                                                                 */

struct hosts {
	const struct drawn *drawn;
	u32 each; /* of each router */
	u64 rate;
	u64 delay;
	u32 *nodes; /* by host; NET_NONE: not created yet */
	bool *sources; /* by host: it is the source of a session */
};

static u32 any_host(const struct hosts *hosts, u64 *random)
{
	return draw_below(random, (u64)hosts->drawn->count * hosts->each);
}

static u32 node_of(struct net *net, struct hosts *hosts, u32 host)
{
	u32 router = hosts->drawn->stubs[host / hosts->each];
	char name[80];

	if (hosts->nodes[host] != NET_NONE)
		return hosts->nodes[host];
	snprintf(name, sizeof(name), "%s.h%u", name_of(&net->nodes, router),
		 host % hosts->each);
	hosts->nodes[host] = name_add(&net->nodes, name);
	net_add_link(net, hosts->nodes[host], router, hosts->rate,
		     hosts->delay);
	net_add_link(net, router, hosts->nodes[host], hosts->rate,
		     hosts->delay);
	return hosts->nodes[host];
}

static void draw_session(struct net *net, struct hosts *hosts, u64 from,
			 u64 until, bool sized, u64 *random)
{
	struct session *session = net_add_session(net);
	u32 source, destination;
	char name[16];

	snprintf(name, sizeof(name), "%u", net->session_count);
	session->id = name_add(&net->ids, name);
	do {
		source = any_host(hosts, random);
	} while (hosts->sources[source]);
	hosts->sources[source] = true;
	do {
		destination = any_host(hosts, random);
	} while (destination == source);
	session->from = node_of(net, hosts, source);
	session->to = node_of(net, hosts, destination);
	session->join = from + draw_below(random, until - from);
	if (sized)
		session->bytes =
			PACKET * llround(LEAST_PACKETS *
					 pow(draw_part(random), -1 / SHAPE));
}

/* A leaf-spine network, without its hosts. */
static struct drawn draw_fabric(struct net *net, const struct fabric *wanted,
				u64 *random)
{
	struct drawn drawn = {
		.stubs = alloc_array(wanted->leaves, sizeof(u32)),
		.count = wanted->leaves,
	};
	u32 leaf, spine, node;
	char name[16];
	u64 delay;

	for (leaf = 0; leaf < wanted->leaves; leaf++) {
		snprintf(name, sizeof(name), "l%u", leaf);
		drawn.stubs[leaf] = name_add(&net->nodes, name);
	}
	for (spine = 0; spine < wanted->spines; spine++) {
		snprintf(name, sizeof(name), "s%u", spine);
		node = name_add(&net->nodes, name);
		for (leaf = 0; leaf < wanted->leaves; leaf++) {
			delay = wanted->delay +
				draw_below(random, wanted->delay + 1);
			net_add_link(net, drawn.stubs[leaf], node, wanted->rate,
				     delay);
			net_add_link(net, node, drawn.stubs[leaf], wanted->rate,
				     delay);
		}
	}
	return drawn;
}

/**
 * experiment_draw() - generate the network and sessions of an experiment
 * @net: empty
 * @experiment: the experiment
 * @joins: sessions that join at first, at least 1; others in proportion
 * @seed: of all random numbers
 */
void experiment_draw(struct net *net, const struct experiment *experiment,
		     u32 joins, u64 seed)
{
	const struct fabric *fabric = &experiment->fabric;
	u32 leaves = (u64)experiment->leaves * joins / experiment->joins;
	u32 later = (u64)experiment->more * joins / experiment->joins;
	u64 random = seed, span;
	struct drawn drawn =
		fabric->leaves ?
			draw_fabric(net, fabric, &random) :
			draw_transit_stub(net, &experiment->network, &random);
	struct hosts hosts = {
		.drawn = &drawn,
		.each = fabric->leaves ? fabric->hosts : HOSTS,
		.rate = fabric->leaves ? fabric->host_rate : HOST_RATE,
		.delay = fabric->leaves ? fabric->delay / 2 : HOST_DELAY,
	};
	size_t count = (size_t)drawn.count * hosts.each;
	const char *error;
	u32 n, which;

	if ((u64)joins + later > count) {
		fprintf(stderr,
			"slbnsim: %s: only %zu hosts, each the source of at most one session\n",
			experiment->name, count);
		exit(2);
	}
	hosts.nodes = alloc_array(count, sizeof(u32));
	hosts.sources = alloc_array(count, sizeof(bool));
	memset(hosts.nodes, 0xff, count * sizeof(u32));
	for (n = 0; n < joins; n++)
		draw_session(net, &hosts, 0, experiment->joins_until,
			     experiment->sized, &random);
	for (n = 0; n < later; n++)
		draw_session(net, &hosts, experiment->churn_from,
			     experiment->churn_until, experiment->sized,
			     &random);
	for (n = 0; n < leaves; n++) {
		span = experiment->churn_until - experiment->churn_from;
		do {
			which = draw_below(&random, joins);
		} while (net->sessions[which].leave != NET_NEVER);
		net->sessions[which].leave =
			experiment->churn_from + draw_below(&random, span);
	}
	free(hosts.nodes);
	free(hosts.sources);
	free(drawn.stubs);
	error = net_index(net);
	if (!error)
		error = net_route(net, &which);
	if (error) {
		fprintf(stderr, "slbnsim: %s: %s\n", experiment->name, error);
		exit(1);
	}
}

/**
 * experiment_round_trip() - round-trip time without queues and transmission
 * @net: a network, with paths of all sessions
 *
 * Return: the mean over all sessions, ns.
 */
u64 experiment_round_trip(const struct net *net)
{
	u64 sum = 0;
	u32 n, hop;

	for (n = 0; n < net->session_count; n++) {
		const struct session *session = &net->sessions[n];

		for (hop = 0; hop < session->hops; hop++) {
			const struct link *link =
				&net->links[net->hops[session->path + hop]];

			sum += link->delay + net->links[link->reverse].delay;
		}
	}
	return net->session_count ? sum / net->session_count : 0;
}

/* ------------------------------------------------------------------------ */
/* Newcomers                                                                */

/* As in SLBN's reference model for the commit. */
#define TARGET 0.8

static bool is_present_at(const struct session *session, u64 time)
{
	return session->join <= time && session->leave > time;
}

/**
 * experiment_watch() - record when sessions reach their rates
 * @sim: the run, set up; experiment_unwatch() ends this
 * @exact: for max-min rates; sets those of @until
 * @until: the end of the run, ns
 */
void experiment_watch(struct sim *sim, struct maxmin *exact, u64 until)
{
	u32 count = sim->net->session_count, n;
	bool *present = alloc_array(count, sizeof(bool));

	sim->targets = alloc_array(count, sizeof(double));
	sim->reached = alloc_array(count, sizeof(u64));
	for (n = 0; n < count; n++)
		present[n] = is_present_at(&sim->net->sessions[n], until);
	maxmin_compute(exact, present);
	for (n = 0; n < count; n++)
		sim->targets[n] = TARGET * exact->rate[n];
	free(present);
}

void experiment_unwatch(struct sim *sim)
{
	free(sim->targets);
	free(sim->reached);
}

static int compare_times(const void *a, const void *b)
{
	u64 one = *(const u64 *)a, other = *(const u64 *)b;

	return (one > other) - (one < other);
}

/**
 * experiment_newcomers() - how fast newcomers reached their rates
 * @sim: the run, since experiment_watch()
 * @experiment: the experiment
 * @until: the end of the run, ns
 *
 * Return: statistics of the sessions that are present at the end.
 */
struct newcomers experiment_newcomers(const struct sim *sim,
				      const struct experiment *experiment,
				      u64 until)
{
	u64 from = experiment->more ? experiment->churn_from : 0;
	u64 *times = alloc_array(sim->net->session_count, sizeof(u64));
	struct newcomers found = {};
	u32 n;

	for (n = 0; n < sim->net->session_count; n++) {
		const struct session *session = &sim->net->sessions[n];
		u64 reached = sim->reached[n];

		if (session->join < from || !is_present_at(session, until))
			continue;
		found.late += !reached;
		times[found.count++] =
			(reached ? reached : until) - session->join;
	}
	qsort(times, found.count, sizeof(*times), compare_times);
	if (found.count) {
		found.median = times[found.count / 2];
		found.p95 = times[found.count * 95ULL / 100];
	}
	free(times);
	return found;
}

/* ------------------------------------------------------------------------ */
/* Samples */

/**
 * monitor_init() - set up samples of runs on a network
 * @monitor: set up
 * @net: the network
 * @exact: for the max-min rates of the network
 */
void monitor_init(struct monitor *monitor, const struct net *net,
		  struct maxmin *exact)
{
	size_t most = fp_max(net->session_count, net->link_count);

	*monitor = (struct monitor){
		.exact = exact,
		.present = alloc_array(net->session_count, sizeof(bool)),
		.before = alloc_array(net->session_count, sizeof(bool)),
		.values = alloc_array(most, sizeof(double)),
		.is_first = true,
	};
}

void monitor_free(struct monitor *monitor)
{
	free(monitor->present);
	free(monitor->before);
	free(monitor->values);
}

static int compare_values(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

static struct spread spread_of(double *values, u32 count)
{
	struct spread spread = { .count = count };
	double sum = 0;
	u32 n;

	if (!count)
		return spread;
	qsort(values, count, sizeof(*values), compare_values);
	for (n = 0; n < count; n++)
		sum += values[n];
	spread.mean = sum / count;
	/* The least value that 10 % (90 %) of all do not exceed. */
	spread.p10 = values[(count + 9) / 10 - 1];
	spread.p90 = values[(9 * (u64)count + 9) / 10 - 1];
	spread.least = values[0];
	spread.most = values[count - 1];
	return spread;
}

static u32 update_present(struct monitor *monitor, const struct sim *sim)
{
	const struct net *net = sim->net;
	u32 n, present = 0;

	for (n = 0; n < net->session_count; n++) {
		monitor->present[n] = sim_is_present(sim, n);
		present += monitor->present[n];
	}
	if (monitor->is_first || memcmp(monitor->present, monitor->before,
					net->session_count * sizeof(bool))) {
		maxmin_compute(monitor->exact, monitor->present);
		memcpy(monitor->before, monitor->present,
		       net->session_count * sizeof(bool));
		monitor->is_first = false;
	}
	return present;
}

/**
 * monitor_sample() - compare a run with the max-min rates, now
 * @monitor: the monitor
 * @sim: the run; the longest waits are reset
 *
 * Return: the sample.
 */
struct sample monitor_sample(struct monitor *monitor, struct sim *sim)
{
	const struct net *net = sim->net;
	struct sample sample = {
		.time = sim->now,
		.present = update_present(monitor, sim),
	};
	u32 n, count = 0;
	double error;

	for (n = 0; n < net->session_count; n++) {
		const struct source *source = sim_source(sim, n);
		double exact = monitor->exact->rate[n];

		if (!monitor->present[n])
			continue;
		if (!source->has_rate) {
			sample.off_count++;
			continue;
		}
		error = 100 * (source->rate - exact) / exact;
		sample.off_count += fabs(error) > 1;
		monitor->values[count++] = error;
	}
	sample.sources = spread_of(monitor->values, count);
	count = 0;
	for (n = 0; n < net->link_count; n++) {
		struct link_state *state = sim_link_state(sim, n);
		double C = net->links[n].rate;
		double P = monitor->exact->plan[n];

		if (monitor->exact->is_bottleneck[n])
			monitor->values[count++] =
				100 * (sim_link_load(sim, n)->assigned - P) / P;
		sample.wait = fp_max64(sample.wait, state->max_wait);
		sample.queue =
			fp_max64(sample.queue, state->max_wait / 8e9 * C);
		state->max_wait = 0;
	}
	sample.links = spread_of(monitor->values, count);
	return sample;
}
