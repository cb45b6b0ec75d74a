/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the algorithms without per-hop state in packets: a packet
 * carries one rate, which links lower downstream. The source sets its demand,
 * and sends at the rate that returns.
 */
#ifndef SLBNSIM_RATE_STAMP_H
#define SLBNSIM_RATE_STAMP_H

#include "sim.h"

/* IPv4, UDP, Ethernet as queues count it, and 24 bytes. */
#define RATE_STAMP_BYTES (20 + 8 + 14 + 24)

/**
 * struct rate_stamp - such a packet
 * @rate: the smallest rate so far, bit/s
 * @now: the source's present rate, bit/s
 * @rtt: the source's round-trip time, ns; 0: unknown
 */
struct rate_stamp {
	u64 rate;
	u64 now;
	u64 rtt;
};

static inline size_t rate_stamp_memory(u32 hops)
{
	(void)hops;
	return sizeof(struct rate_stamp);
}

static inline u32 rate_stamp_bytes(u32 hops)
{
	(void)hops;
	return RATE_STAMP_BYTES;
}

static inline void rate_stamp_join(struct sim *sim, struct packet *packet)
{
	struct rate_stamp *own = SIM_PRIV(packet);

	*own = (struct rate_stamp){ .rate = sim_demand(sim, packet->session) };
}

static inline void rate_stamp_pass(struct sim *sim, struct packet *packet,
				   u32 link)
{
	(void)sim;
	(void)packet;
	(void)link;
}

static inline void rate_stamp_at_destination(struct sim *sim,
					     struct packet *packet)
{
	(void)sim;
	(void)packet;
}

static inline bool rate_stamp_at_source(struct sim *sim, struct packet *packet)
{
	struct rate_stamp *own = SIM_PRIV(packet);

	/* Links need no Leave. */
	if (sim_source(sim, packet->session)->leaving)
		return false;
	sim_set_rate(sim, packet->session, own->rate);
	own->now = own->rate;
	own->rtt = sim_since_sent(sim, packet->session);
	own->rate = sim_demand(sim, packet->session);
	return true;
}

/**
 * rate_stamp_measure() - a link's input rate since the previous measurement
 * @sim: the run
 * @link: the link
 * @before: bits that had arrived then; updated
 * @seconds: since then
 *
 * Return: bit/s.
 */
static inline double rate_stamp_measure(struct sim *sim, u32 link,
					double *before, double seconds)
{
	double arrived = sim_arrived_bits(sim, link);
	double rate = (arrived - *before) / seconds;

	*before = arrived;
	return rate;
}

/**
 * struct shared_rate - a link with one rate for all sessions
 * @R: the rate, bit/s
 * @arrived: bits, at the previous measurement
 */
struct shared_rate {
	double R;
	double arrived;
};

/* The authors' router for ns-2 begins with a twentieth of the capacity. */
#define INITIAL_RATE 50

static inline void shared_rate_start(struct sim *sim, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct shared_rate *own = sim_link_priv(sim, link);

	own->R = here->rate * (sim->options.initial_rate / 1e3);
}

static inline void shared_rate_stamp(struct sim *sim, struct packet *packet,
				     u32 link)
{
	struct shared_rate *own = sim_link_priv(sim, link);
	struct rate_stamp *stamp = SIM_PRIV(packet);

	stamp->rate = fp_min64(stamp->rate, (u64)own->R);
}

/* The minimum is a tenth of a packet of 2000 bytes in a round-trip, bit/s. */
static inline void shared_rate_set(struct shared_rate *own, double rate,
				   double rtt, double most)
{
	double least = 0.1 * 8 * 2000 / rtt;

	if (rate < least)
		rate = least;
	own->R = rate < most ? rate : most;
}

#endif /* SLBNSIM_RATE_STAMP_H */
