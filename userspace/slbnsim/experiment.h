/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The experiments of SLBN's paper, by their names there, and some of ours.
 */
#ifndef SLBNSIM_EXPERIMENT_H
#define SLBNSIM_EXPERIMENT_H

#include "generate.h"
#include "maxmin.h"
#include "sim.h"

/**
 * struct fabric - leaves, spines, and hosts at leaves
 * @leaves: each has a link to each spine; 0: there is no such network
 * @spines: how many
 * @hosts: at each leaf
 * @host_rate: bit/s
 * @rate: between leaves and spines, bit/s
 * @delay: least of a link between these, ns: up to twice as much is drawn; a
 *	host's has half of it
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
 * struct experiment - who joins and leaves when, on which network
 * @name: the paper's
 * @about: a line about it
 * @network: a transit-stub network
 * @fabric: or else leaves and spines
 * @joins: sessions that join at first, evenly in @joins_until
 * @joins_until: ns
 * @more: sessions that join later, and
 * @leaves: of the first that leave then, both evenly
 * @churn_from: ns
 * @churn_until: ns
 * @sized: sessions have so much to send, and then go
 * @from: since when the paper shows it, ns
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
 * struct spread - of many values
 * @count: how many
 * @mean: their mean
 * @p10: the tenth percentile
 * @p90: the ninetieth
 * @least: the least
 * @most: the largest
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
 * struct sample - how it stood
 * @time: when, ns
 * @present: sessions that were there
 * @sources: errors at sources that have been told a rate, percent
 * @links: errors at links that restrict some session, percent
 * @off_count: sources whose error is more than one percent; those without a rate too
 * @wait: the longest that a packet has had to wait since the moment before, ns
 * @queue: the longest that a queue has been since then, bytes
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

/* What looks at a run now and then. */
struct monitor {
	struct maxmin *exact;
	bool *present; /* by session */
	bool *before; /* as it was when rates were last worked out */
	double *values;
	bool fresh; /* nothing has been worked out yet */
};

extern const struct experiment experiments[];
extern const u32 experiment_count;

void experiment_draw(struct net *net, const struct experiment *experiment,
		     u32 joins, u64 seed);
u64 experiment_round_trip(const struct net *net);
void monitor_init(struct monitor *monitor, const struct net *net,
		  struct maxmin *exact);
struct sample monitor_sample(struct monitor *monitor, struct sim *sim);
void monitor_free(struct monitor *monitor);

#endif /* SLBNSIM_EXPERIMENT_H */
