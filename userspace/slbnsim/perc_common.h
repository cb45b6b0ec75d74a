/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the algorithms of the PERC family: packets carry an entry for
 * each hop of their path, with the link's offer and what the link has counted
 * the session with. Links process packets alike in both directions; when a
 * session leaves, a last packet removes it.
 */
#ifndef SLBNSIM_PERC_COMMON_H
#define SLBNSIM_PERC_COMMON_H

#include "sim.h"

/**
 * struct perc_hop - a session at a link
 * @offer: the link's offer, bit/s
 * @counted_rate: what the link has counted the session with, bit/s
 * @counted: the link has counted the session
 * @elsewhere: it has its bottleneck elsewhere
 * @ignore: other links ignore the offer
 */
struct perc_hop {
	u64 offer;
	u64 counted_rate;
	u8 counted;
	u8 elsewhere;
	u8 ignore;
};

/**
 * struct perc_counts - the sessions of a link
 * @elsewhere: sum of the rates of those with their bottleneck elsewhere, bit/s
 * @here: number of those with their bottleneck here
 */
struct perc_counts {
	u64 elsewhere;
	u64 here;
};

struct perc_packet {
	bool is_leave;
	u8 hops;
	struct perc_hop entries[];
};

static inline size_t perc_memory(u32 hops)
{
	return sizeof(struct perc_packet) + hops * sizeof(struct perc_hop);
}

/* Headers, 16 bytes, and two rates for each hop. */
static inline u32 perc_bytes(u32 hops)
{
	return 20 + 8 + 14 + 16 + 16 * hops;
}

static inline void perc_join(struct sim *sim, struct packet *packet)
{
	struct perc_packet *own = SIM_PRIV(packet);
	u32 hop;

	own->is_leave = false;
	own->hops = sim->net->sessions[packet->session].hops;
	for (hop = 0; hop < own->hops; hop++)
		own->entries[hop] = (struct perc_hop){ .ignore = true };
}

static inline void perc_at_destination(struct sim *sim, struct packet *packet)
{
	(void)sim;
	(void)packet;
}

/* Lost packets corrupt sums, which must not become negative. */
static inline u64 perc_subtract(u64 from, u64 amount)
{
	return from - fp_min64(from, amount);
}

/* The smallest of the demand and of the other links' offers, bit/s. */
static inline u64 perc_limit(const struct sim *sim, const struct packet *packet)
{
	const struct perc_packet *own = SIM_PRIV(packet);
	u64 least = sim_demand(sim, packet->session);
	u32 hop;

	for (hop = 0; hop < own->hops; hop++)
		if (hop != packet->hop && !own->entries[hop].ignore)
			least = fp_min64(least, own->entries[hop].offer);
	return least;
}

/* Remove a session from the counts. Return: whether it was counted. */
static inline bool perc_remove(struct perc_counts *counts,
			       struct perc_hop *entry)
{
	if (!entry->counted)
		return false;
	entry->counted = false;
	if (entry->elsewhere)
		counts->elsewhere =
			perc_subtract(counts->elsewhere, entry->counted_rate);
	else
		counts->here = perc_subtract(counts->here, 1);
	return true;
}

/* Count a session: elsewhere if its limit there is below the offer. */
static inline void perc_add(struct perc_counts *counts, struct perc_hop *entry,
			    u64 limit, u64 offer)
{
	entry->counted = true;
	entry->elsewhere = limit < offer;
	entry->counted_rate = fp_min64(limit, offer);
	entry->offer = offer;
	if (entry->elsewhere)
		counts->elsewhere += limit;
	else
		counts->here++;
}

/* The share of one more session with its bottleneck here, bit/s. */
static inline u64 perc_offer(const struct perc_counts *counts, u64 rate)
{
	u64 left = rate > counts->elsewhere ? rate - counts->elsewhere : 0;

	return fp_div(left, counts->here + 1);
}

/* Assign the smallest rate that a link has counted the session with. */
static inline bool perc_at_source(struct sim *sim, struct packet *packet)
{
	struct perc_packet *own = SIM_PRIV(packet);
	u64 rate = sim_demand(sim, packet->session);
	u32 hop;

	if (own->is_leave)
		return false;
	if (sim_source(sim, packet->session)->leaving) {
		own->is_leave = true;
		return true;
	}
	for (hop = 0; hop < own->hops; hop++)
		rate = fp_min64(rate, own->entries[hop].counted_rate);
	sim_set_rate(sim, packet->session, rate);
	return true;
}

#endif /* SLBNSIM_PERC_COMMON_H */
