// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for BFYZ: Bartal, Farach-Colton, Yooseph, Zhang, "Fast, Fair and
 * Frugal Bandwidth Allocation in ATM Networks", Algorithmica 33(3), 2002.
 *
 * BFYZ keeps, for each session at each link, the rate that the session was
 * counted with, does a constant amount of work for each cell, and converges to
 * the max-min fair rates in a linear number of maximum round-trip times. Its
 * text was not available. This algorithm has the same properties and is of the
 * same family (Charny's consistent marking, as in PERC): a link offers
 *
 *	v = max((C - BF) / NR, C / N)
 *
 * to a session. It counts in F, with the smallest offer of other links, each
 * session for which that is less. The offers of all hops are kept by the packet
 * rather than by links, which is equivalent. Results are those of a stand-in.
 *
 * Rates are integers, and a session is in F only if its limit is strictly less.
 */
#include "perc_common.h"

struct bfyz_link {
	struct perc_counts counts; /* BF and NR */
	u64 N;
};

static void process(struct sim *sim, struct packet *packet, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct bfyz_link *own = sim_link_priv(sim, link);
	struct perc_packet *cell = SIM_PRIV(packet);
	struct perc_hop *entry = &cell->entries[packet->hop];
	u64 limit = perc_limit(sim, packet), v;

	own->N = perc_subtract(own->N, perc_remove(&own->counts, entry));
	if (cell->is_leave)
		return;
	own->N++;
	v = fp_max64(perc_offer(&own->counts, here->rate),
		     fp_div(here->rate, own->N));
	perc_add(&own->counts, entry, limit, v);
	entry->ignore = false;
}

const struct algorithm bfyz_algorithm = {
	.name = "bfyz",
	.about = "a stand-in for BFYZ, with state for each session",
	.link_memory = sizeof(struct bfyz_link),
	.packet_memory = perc_memory,
	.packet_bytes = perc_bytes,
	.join = perc_join,
	.down = process,
	.at_destination = perc_at_destination,
	.up = process,
	.at_source = perc_at_source,
};
