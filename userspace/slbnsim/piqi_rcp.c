// SPDX-License-Identifier: GPL-2.0
/*
 * PIQI-RCP: Jain, Loguinov, "PIQI-RCP: Design and Analysis of Rate-Based
 * Explicit Congestion Control", IWQoS 2007.
 *
 * As RCP, but what waits does not count (queue-independent), and the gain is
 * bounded by the longest round-trip, so that it is stable whatever the delays:
 *
 *	R <- R (1 + kappa (C - y) / C), each T = 5 ms
 *	kappa = T / (2 (T + RTT))
 *
 * Only the beginning of the text was at hand. The rule is the part of it that
 * others quote; its bound is what is left of equation 35 in the paper on SLBN,
 * and lies at a third of what a single link with that delay can stand. The
 * proportional term, on changes of the mismatch, is missing. Results are of a
 * part of PIQI-RCP.
 *
 * Packets, the first R and the least one are as for RCP.
 */
#include "stamp.h"

#define INTERVAL 5000000ULL
#define FIRST_RTT 0.2
/* So much of the longest round-trip is forgotten at each look. */
#define FORGET 0.001

struct piqi_wire {
	struct common common;
	double rtt; /* the longest, s */
};

static void wire_init(struct sim *sim, u32 link)
{
	struct piqi_wire *own = sim_own(sim, link);

	common_start(sim, link);
	own->rtt = FIRST_RTT;
}

static void down(struct sim *sim, struct packet *packet, u32 link)
{
	struct piqi_wire *own = sim_own(sim, link);
	const struct stamp *stamp = SIM_OWN(packet);

	common_stamp(sim, packet, link);
	if (stamp->rtt / 1e9 > own->rtt)
		own->rtt = stamp->rtt / 1e9;
}

static void timer(struct sim *sim, u32 link)
{
	const double T = INTERVAL / 1e9;
	const struct link *here = sim_link(sim, link);
	struct piqi_wire *own = sim_own(sim, link);
	double y = stamp_measure(sim, link, &own->common.arrived, T);
	double C = here->rate, kappa = T / (2 * (T + own->rtt));
	double R = own->common.R * (1 + kappa * (C - y) / C);

	own->rtt *= 1 - FORGET;
	common_set(&own->common, R, own->rtt, C);
}

const struct algorithm piqi_rcp_algorithm = {
	.name = "piqi-rcp",
	.about = "the queue-independent part of PIQI-RCP, T 5 ms",
	.wire_memory = sizeof(struct piqi_wire),
	.packet_memory = stamp_memory,
	.packet_bytes = stamp_bytes,
	.wire_init = wire_init,
	.join = stamp_join,
	.down = down,
	.turn = stamp_turn,
	.up = stamp_pass,
	.answer = stamp_answer,
	.measures = true,
	.rides = true,
	.timer = timer,
	.interval = INTERVAL,
};
