// SPDX-License-Identifier: GPL-2.0
/*
 * ERICA+: Kalyanaraman, Jain, Fahmy, Goyal, Vandalore, "The ERICA switch
 * algorithm for ABR traffic management in ATM networks", ToN 8(1), 2000.
 *
 * Each interval a link compares what came in with its target, for a load factor
 * z, and divides the target among the active sessions for a fair share. A cell
 * on its way back is told the larger of the fair share and what the session
 * would have if all were scaled by 1/z; and while z is at most 1 + delta, at
 * least as much as the most that anybody was told in the interval before, so
 * that all come to the same.
 *
 * The target is ERICA+'s: a little more than the link's rate when nothing
 * waits, less when more waits than is sent in T0.
 *
 * delta 0.1, 5 ms and the least fraction of a half are the authors', and a, b as
 * they are commonly told. T0 is not: with their 0.5 to 1.5 ms, rates and queues
 * swing on paths of more than 6 to 18 ms. For where a queue of T0 waits, the
 * target falls by (a - 1) / a for each T0 that more waits. So a queue of w
 * seconds moves with
 *
 *	w'(t) = -(a - 1) / (a T0) (w(t - tau) - T0)
 *
 * where tau is how long it takes for what sources are told to come back as
 * data, and such a loop is stable if its gain times tau is below pi / 2: if T0
 * is more than tau / 12. 30 ms are enough for 0.36 s, a long round-trip of the
 * experiments and the wait for the next cell.
 *
 * Theirs has a cell after 31 of data, so a link tells each session in each
 * interval; here there is one in a round-trip. A session is active from when its
 * first cell comes until it says goodbye, and the interval before is the latest
 * in which anybody was told. Still, sessions are told at different loads, and
 * what they get differs the more, the longer the round-trip.
 */
#include "rate_stamp.h"

#define INTERVAL 5000000ULL
#define DELTA 0.1
#define T0 0.03
#define A 1.15
#define B 1.05
#define LEAST_FRACTION 0.5

enum cell {
	FIRST,
	NEXT,
	GOODBYE,
};

struct erica_packet {
	struct rate_stamp stamp;
	enum cell cell;
};

struct erica_link {
	u64 active;
	double arrived; /* bits, at the latest look */
	double target;
	double z;
	double fair_share;
	double most; /* told in this interval, */
	double most_before; /* and in the one before */
	bool told; /* somebody was, in this interval */
};

static size_t packet_memory(u32 hops)
{
	(void)hops;
	return sizeof(struct erica_packet);
}

static void look(struct erica_link *own, double input, double target)
{
	own->target = target;
	own->z = input / target;
	own->fair_share = target / fp_max64(own->active, 1);
	if (!own->told)
		return;
	own->told = false;
	own->most_before = own->most;
	own->most = own->fair_share;
}

static void link_init(struct sim *sim, u32 link)
{
	const struct link *here = sim_link(sim, link);

	look(sim_link_priv(sim, link), 0, here->rate);
}

static void timer(struct sim *sim, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct erica_link *own = sim_link_priv(sim, link);
	double input =
		rate_stamp_measure(sim, link, &own->arrived, INTERVAL / 1e9);
	double q = sim_queued_bits(sim, link), Q0 = T0 * here->rate;
	double fraction = q <= Q0 ? B * Q0 / ((B - 1) * q + Q0) :
				    A * Q0 / ((A - 1) * q + Q0);

	if (fraction < LEAST_FRACTION)
		fraction = LEAST_FRACTION;
	look(own, input, fraction * here->rate);
}

static void join(struct sim *sim, struct packet *packet)
{
	struct erica_packet *own = SIM_PRIV(packet);

	rate_stamp_join(sim, packet);
	own->cell = FIRST;
}

static void down(struct sim *sim, struct packet *packet, u32 link)
{
	struct erica_link *own = sim_link_priv(sim, link);
	struct erica_packet *cell = SIM_PRIV(packet);

	own->active += cell->cell == FIRST;
	own->active -= cell->cell == GOODBYE;
}

static void up(struct sim *sim, struct packet *packet, u32 link)
{
	struct erica_link *own = sim_link_priv(sim, link);
	struct erica_packet *cell = SIM_PRIV(packet);
	/* CCR and ER, the fields of the cell. */
	double ccr = cell->stamp.now, er;

	if (cell->cell == GOODBYE)
		return;
	er = own->z > 0 ? ccr / own->z : 0;
	if (er < own->fair_share)
		er = own->fair_share;
	if (own->z <= 1 + DELTA && er < own->most_before)
		er = own->most_before;
	own->told = true;
	if (er > own->target)
		er = own->target;
	if (own->most < er)
		own->most = er;
	/* A source that is at the fair share may be below by rounding. */
	if (er > own->fair_share && ccr + 1 < own->fair_share)
		er = own->fair_share;
	cell->stamp.rate = fp_min64(cell->stamp.rate, (u64)er);
}

static bool answer(struct sim *sim, struct packet *packet)
{
	struct erica_packet *own = SIM_PRIV(packet);

	if (own->cell == GOODBYE)
		return false;
	own->cell = NEXT;
	if (!rate_stamp_at_source(sim, packet))
		own->cell = GOODBYE;
	return true;
}

const struct algorithm erica_algorithm = {
	.name = "erica",
	.about = "ERICA+, 5 ms, delta 0.1",
	.link_memory = sizeof(struct erica_link),
	.packet_memory = packet_memory,
	.packet_bytes = rate_stamp_bytes,
	.link_init = link_init,
	.join = join,
	.down = down,
	.at_destination = rate_stamp_at_destination,
	.up = up,
	.at_source = answer,
	.needs_data = true,
	.timer = timer,
	.timer_interval = INTERVAL,
};
