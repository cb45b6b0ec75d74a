// SPDX-License-Identifier: GPL-2.0
/*
 * In the place of BFYZ: Bartal, Farach-Colton, Yooseph, Zhang, "Fast, Fair and
 * Frugal Bandwidth Allocation in ATM Networks", Algorithmica 33(3), 2002.
 *
 * Their algorithm keeps, for each session at each link, what the session was
 * counted with, does a constant amount of work for each cell, and converges to
 * the max-min fair rates in a linear number of maximum round-trips. Its text was
 * not at hand. This one has the same properties and is of the same family
 * (Charny's consistent marking, as PERC has it): a link offers
 *
 *	v = max((C - BF) / NR, C / N)
 *
 * to a session, where it counts in F, with what the others' offers leave it, a
 * session that has less than that elsewhere. Offers of all hops are remembered,
 * here by the packet, which comes to the same. Results are of a stand-in.
 *
 * Rates are integers, and a session is in F only if it has strictly less.
 */
#include "hops.h"

struct bfyz_wire {
	struct counts counts; /* BF and NR */
	u64 N;
};

static void visit(struct sim *sim, struct packet *packet, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct bfyz_wire *own = sim_own(sim, link);
	struct hops_packet *cell = SIM_OWN(packet);
	struct row *row = &cell->rows[packet->hop];
	u64 limit = hops_elsewhere(sim, packet), v;

	own->N = hops_take(own->N, hops_take_out(&own->counts, row));
	if (cell->goodbye)
		return;
	own->N++;
	v = fp_max64(hops_left(&own->counts, here->rate),
		     fp_div(here->rate, own->N));
	hops_put_in(&own->counts, row, limit, v);
	row->ignore = false;
}

const struct algorithm bfyz_algorithm = {
	.name = "bfyz",
	.about = "a stand-in for BFYZ, with state for each session",
	.wire_memory = sizeof(struct bfyz_wire),
	.packet_memory = hops_memory,
	.packet_bytes = hops_bytes,
	.join = hops_join,
	.down = visit,
	.turn = hops_turn,
	.up = visit,
	.answer = hops_answer,
};
