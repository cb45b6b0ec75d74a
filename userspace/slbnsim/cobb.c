// SPDX-License-Identifier: GPL-2.0
/*
 * Something like Cobb and Gouda's "Stabilization of Max-Min Fair Networks
 * without Per-flow State", SSS 2008 (TCS 2011).
 *
 * Time is cut into rounds of T, which must be longer than any round-trip; each
 * source probes once in a round, with what it was granted last. A link grants A
 * to all. In a round it adds up what those have who are restricted elsewhere
 * (S), counts the others (n), and for the next round
 *
 *	A <- (C - S) / n
 *
 * What a source was granted is as old as its latest probe, so it is held
 * against the A of the round before: who has less than that is restricted
 * elsewhere. If all are (n = 0), A is what is left and the most that one has.
 *
 * So a link has a constant state, and as probes tell it all anew in each round,
 * what has gone wrong is forgotten: it stabilizes. It comes to the max-min fair
 * rates while T is longer than any round-trip, and not when it is shorter, as
 * the paper on SLBN says of theirs.
 *
 * The text of the algorithm was not at hand: this is made after what their
 * abstract and the paper on SLBN tell of it. Neither was the T of the paper on
 * SLBN: it is 250 ms. Results are of something like it.
 */
#include "rate_stamp.h"

#define ROUND 250000000ULL

struct cobb_link {
	u64 A;
	u64 before; /* what A was in the round before */
	u64 S; /* what those have who are restricted elsewhere */
	u64 n; /* how many are not */
	u64 most; /* that one has who is in S */
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

	/* Who has not been granted anything yet wants as much as there is. */
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
	/* Nobody may come away with nothing: he would have no rate to tell. */
	own->A = fp_max64(own->A, 1);
	own->S = 0;
	own->n = 0;
	own->most = 0;
}

const struct algorithm cobb_algorithm = {
	.name = "cobb",
	.about = "something like Cobb and Gouda's, T 250 ms",
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
