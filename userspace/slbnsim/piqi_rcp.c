// SPDX-License-Identifier: GPL-2.0
/*
 * PIQI-RCP: Jain, Loguinov, "PIQI-RCP: Design and Analysis of Rate-Based
 * Explicit Congestion Control", IWQoS 2007.
 *
 * Like RCP, but independent of the queue, and with a gain that is bounded by
 * the longest round-trip time, so that it is stable with any delays:
 *
 *	R <- R (1 + kappa (C - y) / C), each T = 5 ms
 *	kappa = T / (2 (T + RTT))
 *
 * Only the beginning of the text was available. The rule is the part of it that
 * others quote; its bound is the remainder of equation 35 in SLBN's paper, a
 * third of what is stable on a single link with that delay. The proportional
 * term, on changes of the mismatch, is missing. Results are those of a part of
 * PIQI-RCP.
 *
 * Packets, where links set them, the initial R and the least R are RCP's.
 */
#include "rate_stamp.h"

#define INTERVAL 5000000ULL
#define FIRST_RTT 0.2
/* The decay of the longest round-trip time in each interval. */
#define FORGET 0.001

struct piqi_link {
	struct shared_rate shared;
	double rtt; /* the longest, s */
};

static void link_init(struct sim *sim, u32 link)
{
	struct piqi_link *own = sim_link_priv(sim, link);

	shared_rate_start(sim, link);
	own->rtt = FIRST_RTT;
}

static void down(struct sim *sim, struct packet *packet, u32 link)
{
	struct piqi_link *own = sim_link_priv(sim, link);
	const struct rate_stamp *stamp = SIM_PRIV(packet);

	shared_rate_stamp(sim, packet, link);
	if (stamp->rtt / 1e9 > own->rtt)
		own->rtt = stamp->rtt / 1e9;
}

static void timer(struct sim *sim, u32 link)
{
	const double T = INTERVAL / 1e9;
	const struct link *here = sim_link(sim, link);
	struct piqi_link *own = sim_link_priv(sim, link);
	double y = rate_stamp_measure(sim, link, &own->shared.arrived, T);
	double C = here->rate, kappa = T / (2 * (T + own->rtt));
	double R = own->shared.R * (1 + kappa * (C - y) / C);

	own->rtt *= 1 - FORGET;
	shared_rate_set(&own->shared, R, own->rtt, C);
}

const struct algorithm piqi_rcp_algorithm = {
	.name = "piqi-rcp",
	.about = "the queue-independent part of PIQI-RCP, T 5 ms",
	.link_memory = sizeof(struct piqi_link),
	.packet_memory = rate_stamp_memory,
	.packet_bytes = rate_stamp_bytes,
	.link_init = link_init,
	.join = rate_stamp_join,
	.down = down,
	.at_destination = rate_stamp_at_destination,
	.up = rate_stamp_pass,
	.at_source = rate_stamp_at_source,
	.needs_data = true,
	.piggybacks = true,
	.at_dequeue = true,
	.initial_rate = INITIAL_RATE,
	.timer = timer,
	.timer_interval = INTERVAL,
};
