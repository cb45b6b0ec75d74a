// SPDX-License-Identifier: GPL-2.0
/*
 * s-PERC: Jose, Ibanez, Alizadeh, McKeown, "A Distributed Algorithm to
 * Calculate Max-Min Fair Rates Without Per-Flow State", SIGMETRICS 2019.
 *
 * Like SLBN, links have constant state, and packets carry for each hop the rate
 * that the session is counted with there. A link counts a session as
 * bottlenecked here (B) or elsewhere (E), with its limit e, and offers
 *
 *	b = (C - SumE) / NumB
 *
 * An offer can be too low for a while, because some session is still counted
 * with too large an e. So a link keeps the largest e of two rounds (MaxE), and
 * marks an offer below it, so that the other links ignore it: this makes the
 * algorithm converge, in 6 N rounds at most.
 *
 * The round must be longer than the time between two packets of a session. It
 * is 250 ms, or that of --round: longer than any round-trip time of the
 * experiments, but not than the time between packets of a session of some 1
 * Mbit/s or less, whose control packets may take 1 % of that at most. A round
 * of a second delays all sessions: offers are ignored for up to two.
 *
 * Rates are integers; a demand is an offer that is never ignored. The source
 * sends at the smallest rate that it has been counted with.
 */
#include "perc_common.h"

#define ROUND 250000000ULL

struct sperc_link {
	struct perc_counts counts; /* SumE and NumB */
	u64 MaxE;
	u64 next_MaxE;
};

static void process(struct sim *sim, struct packet *packet, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct sperc_link *own = sim_link_priv(sim, link);
	struct perc_packet *cell = SIM_PRIV(packet);
	struct perc_hop *entry = &cell->entries[packet->hop];
	u64 e = perc_limit(sim, packet), b;

	perc_remove(&own->counts, entry);
	if (cell->is_leave)
		return;
	b = perc_offer(&own->counts, here->rate);
	perc_add(&own->counts, entry, e, b);
	/* MaxE without this session. */
	entry->ignore = own->MaxE > b;
	if (entry->elsewhere) {
		own->MaxE = fp_max64(own->MaxE, e);
		own->next_MaxE = fp_max64(own->next_MaxE, e);
	}
}

static void timer(struct sim *sim, u32 link)
{
	struct sperc_link *own = sim_link_priv(sim, link);

	own->MaxE = own->next_MaxE;
	own->next_MaxE = 0;
}

const struct algorithm sperc_algorithm = {
	.name = "sperc",
	.about = "s-PERC, rounds of 250 ms",
	.link_memory = sizeof(struct sperc_link),
	.packet_memory = perc_memory,
	.packet_bytes = perc_bytes,
	.join = perc_join,
	.down = process,
	.at_destination = perc_at_destination,
	.up = process,
	.at_source = perc_at_source,
	.timer = timer,
	.timer_interval = ROUND,
	.has_rounds = true,
};
