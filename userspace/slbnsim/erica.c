// SPDX-License-Identifier: GPL-2.0
/*
 * ERICA+: Kalyanaraman, Jain, Fahmy, Goyal, Vandalore, "The ERICA switch
 * algorithm for ABR traffic management in ATM networks", ToN 8(1), 2000.
 *
 * In each interval a link divides its input by its target, for the load factor
 * z, and the target by the number of active sessions, for the fair share. A
 * cell on its way upstream gets the larger of the fair share and the session's
 * rate divided by z; and while z is at most 1 + delta, at least the largest
 * rate that any cell got in the previous interval, so that all rates become
 * equal.
 *
 * The target is ERICA+'s: slightly above the link's rate when the queue is
 * empty, and below it when the queueing delay exceeds T0.
 *
 * delta 0.1, 5 ms, T0 of 1.5 ms (--target-delay) and the least fraction of 0.5
 * are the authors'; a and b are the usual values. z and the number of sessions
 * are exponential averages, of which 0.8 (--decay) remains in each interval
 * (Vandalore and others, ATM Forum 98-0408, section 5.3).
 *
 * T0 is for short paths. Without averages, when the queueing delay w is T0, the
 * target falls by (a - 1) / a for each further T0:
 *
 *	w'(t) = -(a - 1) / (a T0) (w(t - tau) - T0)
 *
 * where tau is the time from a cell's rate to the data that arrives at it. Such
 * a loop is stable if its gain times tau is below pi / 2, that is, if T0 is
 * more than tau / 12: with 1.5 ms, rates and queues oscillate on longer paths
 * than some 18 ms. 30 ms would suffice for those of the experiments.
 *
 * ERICA has a cell after 31 data cells, so a link assigns a rate to each
 * session in each interval; here there is one cell in a round-trip time. A
 * session is active from its first cell until its last one, and the previous
 * interval is the latest in which any cell got a rate. Still, sessions get
 * rates at different loads, and these differ the more, the longer the
 * round-trip time.
 */
#include "rate_stamp.h"

#define INTERVAL 5000000ULL
#define DELTA 0.1
#define T0 1500000ULL
#define DECAY 800
#define A 1.15
#define B 1.05
#define LEAST_FRACTION 0.5

enum cell {
	FIRST,
	NEXT,
	LAST,
};

struct erica_packet {
	struct rate_stamp stamp;
	enum cell cell;
};

struct erica_source {
	u64 counted; /* hops whose links count the session, as bits */
};

struct erica_link {
	u64 active;
	double arrived; /* bits, at the previous interval's end */
	double target;
	double z; /* average */
	double sessions; /* average of active */
	double fair_share;
	double most; /* largest rate of this interval */
	double most_before; /* largest rate of the previous interval */
	bool rate_assigned; /* a cell got a rate in this interval */
};

static size_t packet_memory(u32 hops)
{
	(void)hops;
	return sizeof(struct erica_packet);
}

static void end_interval(struct erica_link *own, double input, double target,
			 double decay)
{
	own->target = target;
	own->z = decay * own->z + (1 - decay) * input / target;
	own->sessions = decay * own->sessions + (1 - decay) * own->active;
	own->fair_share = target / (own->sessions > 1 ? own->sessions : 1);
	if (!own->rate_assigned)
		return;
	own->rate_assigned = false;
	own->most_before = own->most;
	own->most = own->fair_share;
}

static void link_init(struct sim *sim, u32 link)
{
	const struct link *here = sim_link(sim, link);

	end_interval(sim_link_priv(sim, link), 0, here->rate, 0);
}

static void timer(struct sim *sim, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct erica_link *own = sim_link_priv(sim, link);
	double input =
		rate_stamp_measure(sim, link, &own->arrived, INTERVAL / 1e9);
	double q = sim_queued_bits(sim, link);
	double Q0 = sim->options.target_delay / 1e9 * here->rate;
	double fraction = q <= Q0 ? B * Q0 / ((B - 1) * q + Q0) :
				    A * Q0 / ((A - 1) * q + Q0);

	if (fraction < LEAST_FRACTION)
		fraction = LEAST_FRACTION;
	end_interval(own, input, fraction * here->rate,
		     sim->options.decay / 1e3);
}

static void join(struct sim *sim, struct packet *packet)
{
	struct erica_packet *own = SIM_PRIV(packet);

	rate_stamp_join(sim, packet);
	own->cell = FIRST;
}

static void down(struct sim *sim, struct packet *packet, u32 link)
{
	struct erica_source *source =
		SIM_PRIV(sim_source(sim, packet->session));
	struct erica_link *own = sim_link_priv(sim, link);
	struct erica_packet *cell = SIM_PRIV(packet);
	u64 hop = 1ULL << packet->hop;

	/* Once for each hop: cells may be retransmitted. */
	if (cell->cell == LAST) {
		own->active -= !!(source->counted & hop);
		source->counted &= ~hop;
	} else {
		own->active += !(source->counted & hop);
		source->counted |= hop;
	}
}

static void up(struct sim *sim, struct packet *packet, u32 link)
{
	struct erica_link *own = sim_link_priv(sim, link);
	struct erica_packet *cell = SIM_PRIV(packet);
	/* The cell's fields CCR and ER. */
	double ccr = cell->stamp.now, er;

	if (cell->cell == LAST)
		return;
	er = own->z > 0 ? ccr / own->z : 0;
	if (er < own->fair_share)
		er = own->fair_share;
	if (own->z <= 1 + DELTA && er < own->most_before)
		er = own->most_before;
	own->rate_assigned = true;
	if (er > own->target)
		er = own->target;
	if (own->most < er)
		own->most = er;
	/* A source at the fair share may be below it by rounding. */
	if (er > own->fair_share && ccr + 1 < own->fair_share)
		er = own->fair_share;
	cell->stamp.rate = fp_min64(cell->stamp.rate, (u64)er);
}

static bool answer(struct sim *sim, struct packet *packet)
{
	struct erica_packet *own = SIM_PRIV(packet);

	if (own->cell == LAST)
		return false;
	own->cell = NEXT;
	if (!rate_stamp_at_source(sim, packet))
		own->cell = LAST;
	return true;
}

const struct algorithm erica_algorithm = {
	.name = "erica",
	.about = "ERICA+, 5 ms, delta 0.1, T0 1.5 ms",
	.link_memory = sizeof(struct erica_link),
	.source_memory = sizeof(struct erica_source),
	.packet_memory = packet_memory,
	.packet_bytes = rate_stamp_bytes,
	.link_init = link_init,
	.join = join,
	.down = down,
	.at_destination = rate_stamp_at_destination,
	.up = up,
	.at_source = answer,
	.needs_data = true,
	.target_delay = T0,
	.decay = DECAY,
	.timer = timer,
	.timer_interval = INTERVAL,
};
