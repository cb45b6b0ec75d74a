/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets that carry a row for each hop of their path, with what the link there
 * has offered, and what it has counted the session with: what algorithms of the
 * family of PERC have in common. Links do the same with them both ways; when a
 * session leaves, a last packet takes it out.
 */
#ifndef SLBNSIM_HOPS_H
#define SLBNSIM_HOPS_H

#include "sim.h"

/**
 * struct row - a session at a link
 * @offer: what the link offers, bit/s
 * @held: what it has counted the session with
 * @counted: whether it has
 * @elsewhere: the session is restricted elsewhere
 * @ignore: the offer is not to be heeded, yet
 */
struct row {
	u64 offer;
	u64 held;
	u8 counted;
	u8 elsewhere;
	u8 ignore;
};

/**
 * struct counts - the sessions of a link, by where they are restricted
 * @elsewhere: what those have who are restricted elsewhere, bit/s
 * @here: how many are restricted here
 */
struct counts {
	u64 elsewhere;
	u64 here;
};

struct hops_packet {
	bool goodbye;
	u8 hops;
	struct row rows[];
};

static inline size_t hops_memory(u32 hops)
{
	return sizeof(struct hops_packet) + hops * sizeof(struct row);
}

/* Headers, 16 octets, and two rates for each hop. */
static inline u32 hops_bytes(u32 hops)
{
	return 20 + 8 + 14 + 16 + 16 * hops;
}

static inline void hops_join(struct sim *sim, struct packet *packet)
{
	struct hops_packet *own = SIM_OWN(packet);
	u32 hop;

	own->goodbye = false;
	own->hops = sim->net->sessions[packet->session].hops;
	for (hop = 0; hop < own->hops; hop++)
		own->rows[hop] = (struct row){ .ignore = true };
}

static inline void hops_turn(struct sim *sim, struct packet *packet)
{
	(void)sim;
	(void)packet;
}

/* Packets that were lost falsify sums: never below nothing. */
static inline u64 hops_take(u64 from, u64 amount)
{
	return from - fp_min64(from, amount);
}

/* The least of the demand and of what other links offer, bit/s. */
static inline u64 hops_elsewhere(const struct sim *sim,
				 const struct packet *packet)
{
	const struct hops_packet *own = SIM_OWN(packet);
	u64 least = sim_demand(sim, packet->session);
	u32 hop;

	for (hop = 0; hop < own->hops; hop++)
		if (hop != packet->hop && !own->rows[hop].ignore)
			least = fp_min64(least, own->rows[hop].offer);
	return least;
}

/* A session is not counted any more. Return: whether it was. */
static inline bool hops_take_out(struct counts *counts, struct row *row)
{
	if (!row->counted)
		return false;
	row->counted = false;
	if (row->elsewhere)
		counts->elsewhere = hops_take(counts->elsewhere, row->held);
	else
		counts->here = hops_take(counts->here, 1);
	return true;
}

/* It is counted: elsewhere if it has strictly less there than is offered. */
static inline void hops_put_in(struct counts *counts, struct row *row,
			       u64 limit, u64 offer)
{
	row->counted = true;
	row->elsewhere = limit < offer;
	row->held = fp_min64(limit, offer);
	row->offer = offer;
	if (row->elsewhere)
		counts->elsewhere += limit;
	else
		counts->here++;
}

/* What is left for one more who is restricted here, bit/s. */
static inline u64 hops_left(const struct counts *counts, u64 rate)
{
	u64 left = rate > counts->elsewhere ? rate - counts->elsewhere : 0;

	return fp_div(left, counts->here + 1);
}

/* The source sends at the least that it has been counted with. */
static inline bool hops_answer(struct sim *sim, struct packet *packet)
{
	struct hops_packet *own = SIM_OWN(packet);
	u64 rate = sim_demand(sim, packet->session);
	u32 hop;

	if (own->goodbye)
		return false;
	if (sim_source(sim, packet->session)->leaving) {
		own->goodbye = true;
		return true;
	}
	for (hop = 0; hop < own->hops; hop++)
		rate = fp_min64(rate, own->rows[hop].held);
	sim_set_rate(sim, packet->session, rate);
	return true;
}

#endif /* SLBNSIM_HOPS_H */
