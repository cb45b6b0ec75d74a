/* SPDX-License-Identifier: GPL-2.0 */
/* The experiments of SLBN's paper, by their names there, and ours. */
#ifndef SLBNSIM_EXPERIMENT_H
#define SLBNSIM_EXPERIMENT_H

#include "generate.h"
#include "maxmin.h"
#include "sim.h"

/**
 * struct fabric - a leaf-spine network; hosts are at leaves
 * @leaves: each has a link to each spine; 0: no such network
 * @spines: number of spines
 * @hosts: at each leaf
 * @host_rate: of a host's link, bit/s
 * @rate: of a link between leaf and spine, bit/s
 * @delay: of a link between leaf and spine, ns: random, from this to twice
 *	this; of a host's link half of this
 */
struct fabric {
	u32 leaves;
	u32 spines;
	u32 hosts;
	u64 host_rate;
	u64 rate;
	u64 delay;
};

/**
 * struct experiment - a network, and sessions that join and leave
 * @name: as in --experiment
 * @about: a line about it
 * @network: a transit-stub network
 * @fabric: or a leaf-spine network
 * @joins: sessions that join from 0 to @joins_until, uniformly
 * @joins_until: ns
 * @more: sessions that join from @churn_from to @churn_until, uniformly
 * @leaves: of @joins, sessions that leave then, uniformly
 * @churn_from: ns
 * @churn_until: ns
 * @sized: sessions leave when they have sent their data
 * @from: of the first sample, ns: where the paper's figure begins
 * @until: the end, ns
 */
struct experiment {
	const char *name;
	const char *about;
	struct transit_stub network;
	struct fabric fabric;
	u32 joins;
	u64 joins_until;
	u32 more;
	u32 leaves;
	u64 churn_from;
	u64 churn_until;
	bool sized;
	u64 from;
	u64 until;
};

/**
 * struct spread - statistics of values
 * @count: number of values
 * @mean: mean
 * @p10: tenth percentile
 * @p90: ninetieth percentile
 * @least: smallest
 * @most: largest
 */
struct spread {
	u32 count;
	double mean;
	double p10;
	double p90;
	double least;
	double most;
};

/**
 * struct sample - errors at a time
 * @time: ns
 * @present: sessions that are present
 * @sources: errors of sources that have a rate, percent
 * @links: errors at bottlenecks, percent
 * @off_count: sources that are off by more than 1 %, or have no rate
 * @wait: the longest wait of a packet since the sample before, ns
 * @queue: the longest queue since the sample before, bytes
 */
struct sample {
	u64 time;
	u32 present;
	struct spread sources;
	struct spread links;
	u32 off_count;
	u64 wait;
	u64 queue;
};

/**
 * struct newcomers - how fast those who join last get their rates
 * @count: sessions that join after the churn began; without churn, all
 * @late: of these, sessions that did not reach 80 % of their max-min rate at the
 *	end of the run
 * @median: of the time from joining until then, ns; late ones: until the end
 * @p95: 95th percentile of that time, ns
 */
struct newcomers {
	u32 count;
	u32 late;
	u64 median;
	u64 p95;
};

/* Takes samples of a run. */
struct monitor {
	struct maxmin *exact;
	bool *present; /* by session: it is present */
	bool *before; /* at the latest computation of max-min rates */
	double *values;
	bool is_first; /* no max-min rates were computed yet */
};

extern const struct experiment experiments[];
extern const u32 experiment_count;

void experiment_draw(struct net *net, const struct experiment *experiment,
		     u32 joins, u64 seed);
void experiment_watch(struct sim *sim, struct maxmin *exact, u64 until);
struct newcomers experiment_newcomers(const struct sim *sim,
				      const struct experiment *experiment,
				      u64 until);
void experiment_unwatch(struct sim *sim);
u64 experiment_round_trip(const struct net *net);
void monitor_init(struct monitor *monitor, const struct net *net,
		  struct maxmin *exact);
struct sample monitor_sample(struct monitor *monitor, struct sim *sim);
void monitor_free(struct monitor *monitor);

#endif /* SLBNSIM_EXPERIMENT_H */
