// SPDX-License-Identifier: GPL-2.0
/*
 * After Cobb and Gouda, "Stabilization of Max-Min Fair Networks without
 * Per-flow State", SSS 2008 (TCS 2011).
 *
 * Time is divided into rounds of T, longer than any round-trip time; each
 * source sends one probe per round, with the rate that it was granted last. A
 * link grants A to all sessions. In a round it sums the rates of those with
 * their bottleneck elsewhere (S), counts the others (n), and in the next round
 *
 *	A <- (C - S) / n
 *
 * The granted rate of a probe is as old as the previous probe, so it is
 * compared with the A of the previous round: below it, the bottleneck is
 * elsewhere. If that is so for all (n = 0), A is the remaining capacity plus
 * the largest rate.
 *
 * So links have constant state, and since probes report everything again in
 * each round, errors are forgotten: the algorithm stabilizes. It converges to
 * the max-min fair rates if T is longer than any round-trip time, and does not
 * if it is shorter, as SLBN's paper says of theirs.
 *
 * The text of the algorithm was not available: this follows their abstract and
 * SLBN's paper. Nor was the T of SLBN's paper: it is 250 ms here. Results are
 * those of a similar algorithm.
 */
#include "rate_stamp.h"

#define ROUND 250000000ULL

struct cobb_link {
	u64 A;
	u64 before; /* A of the previous round */
	u64 S; /* rates of sessions with their bottleneck elsewhere */
	u64 n; /* number of the other sessions */
	u64 most; /* largest rate in S */
};

static void link_init(struct sim *sim, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct cobb_link *own = sim_link_priv(sim, link);

	own->A = here->rate;
	own->before = here->rate;
}

static void down(struct sim *sim, struct packet *packet, u32 link)
{
	struct cobb_link *own = sim_link_priv(sim, link);
	struct rate_stamp *stamp = SIM_PRIV(packet);

	/* A session without a granted rate counts in n. */
	if (stamp->now && stamp->now < own->before) {
		own->S += stamp->now;
		own->most = fp_max64(own->most, stamp->now);
	} else {
		own->n++;
	}
	stamp->rate = fp_min64(stamp->rate, own->A);
}

static void timer(struct sim *sim, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct cobb_link *own = sim_link_priv(sim, link);
	u64 left = here->rate > own->S ? here->rate - own->S : 0;

	own->before = own->A;
	own->A = own->n ? fp_div(left, own->n) : left + own->most;
	/* At least 1 bit/s: a source without a rate could not report it. */
	own->A = fp_max64(own->A, 1);
	own->S = 0;
	own->n = 0;
	own->most = 0;
}

const struct algorithm cobb_algorithm = {
	.name = "cobb",
	.about = "after Cobb and Gouda, T 250 ms",
	.link_memory = sizeof(struct cobb_link),
	.packet_memory = rate_stamp_memory,
	.packet_bytes = rate_stamp_bytes,
	.link_init = link_init,
	.join = rate_stamp_join,
	.down = down,
	.at_destination = rate_stamp_at_destination,
	.up = rate_stamp_pass,
	.at_source = rate_stamp_at_source,
	.min_interval = ROUND,
	.timer = timer,
	.timer_interval = ROUND,
};
