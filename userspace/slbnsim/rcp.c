// SPDX-License-Identifier: GPL-2.0
/*
 * RCP: Dukkipati, Kobayashi, Zhang-Shen, McKeown, "Processor Sharing Flows in
 * the Internet", IWQoS 2005.
 *
 * A link has one rate R for all sessions, and does not know them. Each T it
 * measures its input (y) and its queue (Q), and changes R:
 *
 *	R <- R (1 + T/d (alpha (C - y) - beta Q/d) / C)
 *
 * d is the mean round-trip time of its traffic, by bytes, as packets report it.
 *
 * alpha is 0.1 and beta 1, as in SLBN's paper, which took them from RCP's. T of
 * 10 ms, the initial d, the mean of d, and the least R, a tenth of a packet in
 * a round-trip time, are those of the authors' router for ns-2. So is the first
 * R, a twentieth of C (--initial-rate). The timers of links have random phases.
 *
 * RCP's fields are part of data packets. Here a session has one packet with
 * them at a time, on behalf of all data of a round-trip time; a source gets one
 * answer in that time, on average half of it late. A link sets the fields when
 * the packet leaves its queue, as the router does.
 */
#include <math.h>

#include "rate_stamp.h"

#define ALPHA 0.1
#define BETA 1.0
#define INTERVAL 10000000ULL
#define FIRST_RTT 0.2

struct rcp_link {
	struct shared_rate shared;
	double d; /* mean round-trip time, s */
	double bits; /* data of the packets that reported a round-trip time */
	double rtts; /* sum of these times, by bits */
};

static void link_init(struct sim *sim, u32 link)
{
	struct rcp_link *own = sim_link_priv(sim, link);

	shared_rate_start(sim, link);
	own->d = FIRST_RTT;
}

static void down(struct sim *sim, struct packet *packet, u32 link)
{
	struct rcp_link *own = sim_link_priv(sim, link);
	const struct rate_stamp *stamp = SIM_PRIV(packet);
	double rtt = stamp->rtt / 1e9;

	shared_rate_stamp(sim, packet, link);
	own->bits += stamp->now * rtt;
	own->rtts += stamp->now * rtt * rtt;
}

static void timer(struct sim *sim, u32 link)
{
	const double T = INTERVAL / 1e9;
	const struct link *here = sim_link(sim, link);
	struct rcp_link *own = sim_link_priv(sim, link);
	double y = rate_stamp_measure(sim, link, &own->shared.arrived, T);
	double C = here->rate, Q = sim_queued_bits(sim, link);
	double mean, part;

	if (own->bits > 0) {
		mean = own->rtts / own->bits;
		/* Adapt more slowly to shorter ones. */
		part = T / own->d;
		if (mean < own->d)
			part *= own->shared.R / C * mean / own->d;
		own->d += fmin(part, 1) * (mean - own->d);
		own->rtts = 0;
		own->bits = 0;
	}
	part = fmin(T / own->d, 1) * (ALPHA * (C - y) - BETA * Q / own->d) / C;
	shared_rate_set(&own->shared, own->shared.R * (1 + part), own->d, C);
}

const struct algorithm rcp_algorithm = {
	.name = "rcp",
	.about = "RCP, alpha 0.1, beta 1",
	.link_memory = sizeof(struct rcp_link),
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
