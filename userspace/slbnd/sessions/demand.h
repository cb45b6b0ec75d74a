/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Demand estimation: what a detected flow should ask for, by what it uses.
 *
 * In the paper applications know their demand (NCA 2012, section II: Change). Of
 * a detected flow only the packets are visible, limited to the assigned rate. Too
 * low a demand slows the flow down; too high a demand takes rate from others; each
 * change costs a cycle.
 *
 * Where slbnd lowers the receive windows of TCP (window.h), it sees whether a
 * flow wants more: a sender at the right edge of its window does, and so does
 * one whose packets always wait in the pacer. Any other sender is limited by
 * its application, its receiver or its congestion window, and needs only what
 * it uses. demand_by_window() follows that: a flow that wants more gets a
 * multiple of its use; any other flow gets 33/32 of its peak, after a window
 * (see below).
 *
 * A sender that bursts is at its edge although it needs no higher rate in the
 * mean. If it wants more within a minute of a lowered demand, the next margin
 * is larger, and the multiple smaller, until both are 2: then its demand is
 * stable. A flow that paused begins anew, with the multiple of a start: a small
 * demand would slow it down. It would not where sessions may send above their
 * rates (ceiling.h): there the multiple is always 2, and a flow that sends
 * above its rate wants more, although its window does not limit it.
 *
 * Without "--borrow on" a session is limited by what it reserves, so it reserves more than
 * it uses: a flow whose congestion window recovers needs its rate soon (on a backbone of
 * 72 ms the rule above lost 12 % of goodput). Its demand follows its use alone, too.
 *
 * Windows do not apply to UDP, QUIC and tunnels, acknowledgments, TCP older
 * than slbnd, TCP whose acknowledgments return by another router, nor to any
 * flow with "--windows off". The only thing known about these is how much of
 * the assigned rate they use:
 *
 *	0 to 85 %	lower the demand to 9/8 of the peak, at the end of a window
 *	85 to 95 %	keep it
 *	above 95 %	raise it, after one step
 *
 * A demand of 9/8 of the use is used by 89 %, in the middle: a steady flow changes
 * its demand once. The limits allow for the fluctuation of steady flows between
 * steps, a few per cent, and a demand is kept if it would fall by less than 1/17.
 * Acknowledgments fluctuate more: there is one for each packet or for each second one,
 * and each loss changes that. Their demand is 3/2 of the peak, and lowered below 50 %. It
 * is a small part of the data's rate.
 *
 * Lowering: the peak of the steps of a window counts, not the mean.
 * Rate-limited TCP sometimes halves its window, fills the path again and
 * retransmits losses, and on-off sources pause; if the mean counted, they would
 * lose rate that they need a moment later. A window lasts a second, or some
 * round trips if those are longer. While use grows from step to step (slow
 * start), the window restarts. While it grows from window to window, the demand
 * is kept. The first window is short, so that an initial demand that is too
 * large is returned soon.
 *
 * Raising: the demand of a rate-limited flow is not visible, only that it uses
 * all of its rate (to within a packet, as a step may contain one more than
 * another), or that its packets were dropped. If no link but only the demand
 * limits it, the demand is doubled, or restored to a demand that it used before:
 * a flow that paused recovers in one step.
 *
 * The rate may rise during a step, as long as links have no room for the share:
 * so a flow that used the rate before the step is not assumed to need less.
 * Without a rate its packets share the default class, and nothing is estimated.
 *
 * If a flow uses its whole rate soon after its demand was lowered, it probably
 * varies more slowly than the window, and the next window is twice as long.
 *
 * At its start a flow is measured in each round trip, with or without a rate.
 * While it uses most of its rate, or its use grows by half (slow start doubles
 * it), its demand is raised to twice its use, of TCP to DEMAND_SLOW_START
 * times: a new rate is assigned about three round trips after its demand was
 * raised: one for the share, one for others to release their rates, and one to
 * get them. A rate that limits slow start ends it: CUBIC interprets pacing as a
 * bottleneck (HyStart). When a flow does neither for some round trips, the
 * demand is lowered to twice its use, and the start is over. It ends, too, when
 * a link restricts the flow: the share does not depend on the demand then. At
 * its start, a flow holds no more than the share of a flow that sends as much
 * as it can.
 *
 * No clock, no session: times and counters are parameters.
 */
#ifndef SLBND_DEMAND_H
#define SLBND_DEMAND_H

#include <fairpath/core.h>

#define DEMAND_MS 1000000ULL

/* Interval of measurements, ns. */
#define DEMAND_STEP (250 * DEMAND_MS)
/* Windows after which an unused demand is lowered, ns. */
#define DEMAND_FIRST_WINDOW (500 * DEMAND_MS)
#define DEMAND_WINDOW (1000 * DEMAND_MS)
#define DEMAND_MAX_WINDOW (4000 * DEMAND_MS)
/* Minimum round trips of a window: TCP adapts once in each. */
#define DEMAND_ROUND_TRIPS 4
/*
 * Growth of TCP in slow start until its demand is assigned: a factor of two in each of
 * the three round trips, and in the one whose use is measured.
 */
#define DEMAND_SLOW_START 16
/* The same if it may send above its rate meanwhile (ceiling.h): what is measured. */
#define DEMAND_BORROWER 2
/* Growth until the first answer: in the round trip that was measured, and in one more. */
#define DEMAND_JOINING 4
/* Time without high use after which a flow's start is over, at least, ns. */
#define DEMAND_QUIET (100 * DEMAND_MS)
/*
 * Windows apply to a flow if they apply to this part of its octets; such a flow
 * wants more if at least 1 / DEMAND_EDGE of these leave at the edge. Of several
 * connections in a session one may want more.
 */
#define DEMAND_REACHED 0.875
#define DEMAND_EDGE 8
/*
 * Levels of caution, the next one after a flow wanted more within DEMAND_LEARN ns of a
 * lowered demand: the margin is 1/32, 1/16 ... 1 of its use, and the multiple
 * 16, 8, 4, 2, 2, 2.
 */
#define DEMAND_CAUTION 5
#define DEMAND_LEARN (60000 * DEMAND_MS)
/* Mean length of a data flow's packets, at least, octets. */
#define DEMAND_DATA_PACKET 256
/*
 * No demand is lowered below this, bit/s: a packet or two per step. With less, an
 * interactive flow that begins to send more would lose most of its packets for seconds:
 * at 64 kbit/s one of 1500 octets takes 190 ms, and a demand is doubled once per step.
 * What it takes from others is bounded: a flow that sends little has no octets for its
 * control packets (struct agent_credit), and with --sessions host all flows of a host
 * have one demand.
 */
#define DEMAND_MIN 64000ULL

/**
 * struct demand - state of the estimation
 * @bytes: sent until the last step
 * @drops: packets dropped until then
 * @step: time of the last step, ns; 0: there was none
 * @rate: at the last step, bit/s
 * @used: in the last step, bit/s
 * @window: its length, ns; 0: not chosen yet
 * @window_start: ns
 * @peak: largest use in a step of the window, bit/s
 * @before: @peak of the window before, or the last high use, bit/s; 0: none
 * @proven: demand for the last use of nearly the whole rate, bit/s
 * @restored: the last step set the demand to @proven
 * @lowered: when the demand was last lowered, ns; 0: never
 * @busy: at the flow's start, time of the last step with high or growing use, ns
 * @started: the start is over
 * @reached: as in struct demand_sample, at the last step
 * @limited: the same
 * @elsewhere: the same
 * @by_window: windows applied to what it sent in the last step that it sent in
 * @acked_elsewhere: most acknowledgments for that returned by another router
 * @wants: in the last step, it wanted more than its window
 * @caution: 0 to DEMAND_CAUTION
 */
struct demand {
	u64 bytes;
	u64 drops;
	u64 step;
	u64 rate;
	u64 used;
	u64 window;
	u64 window_start;
	u64 peak;
	u64 before;
	u64 proven;
	bool restored;
	u64 lowered;
	u64 busy;
	bool started;
	u64 reached;
	u64 limited;
	u64 elsewhere;
	bool by_window;
	bool acked_elsewhere;
	bool wants;
	u8 caution;
};

/**
 * struct demand_sample - a measurement of a flow
 * @now: ns
 * @bytes: sent so far
 * @drops: packets dropped so far, above its rate and a short queue
 * @packet: mean length of its packets, octets
 * @rtt: of its path, ns; 0: unknown
 * @rate: assigned rate, bit/s; 0: none
 * @demand: bit/s
 * @unrestricted: no link restricts it to less than its demand
 * @demand_limited: the same, and the demand is assigned
 * @borrows: it may send above its rate while that grows (ceiling.h)
 * @by_use: estimate by its use alone, also if windows apply to it
 * @growth: demand of a flow at its start, in multiples of its use
 * @reached: octets of @bytes so far of connections whose windows slbnd may lower
 * @limited: octets of @reached so far that windows or the pacer held back
 * @elsewhere: octets of @bytes so far of connections whose acknowledgments
 *	return by another router
 */
struct demand_sample {
	u64 now;
	u64 bytes;
	u64 drops;
	u64 packet;
	u64 rtt;
	u64 rate;
	u64 demand;
	bool unrestricted;
	bool demand_limited;
	bool borrows;
	bool by_use;
	u32 growth;
	u64 reached;
	u64 limited;
	u64 elsewhere;
};

/* Demand of TCP that wants more, in multiples of its use. */
static inline u32 demand_growth(bool borrows)
{
	return borrows ? DEMAND_BORROWER : DEMAND_SLOW_START;
}

/* By its counters. Flows of short packets are mostly acknowledgments. */
static inline bool demand_has_data(u64 packets, u64 octets)
{
	return !packets || octets / packets >= DEMAND_DATA_PACKET;
}

/**
 * demand_first_floor() - what a flow sends when its first rate can be assigned
 * @speed: what was measured, bit/s
 * @tcp: it is TCP, which grows in slow start
 * @packets: that it sent
 * @octets: the same
 *
 * A rate below it would end its slow start, since HyStart interprets packets
 * that wait in the pacer as a bottleneck.
 *
 * Return: bit/s.
 */
static inline u64 demand_first_floor(u64 speed, bool tcp, u64 packets,
				     u64 octets)
{
	return tcp && demand_has_data(packets, octets) ?
		       DEMAND_JOINING * speed :
		       speed;
}

/**
 * demand_starts() - is a first rate still too low for a flow at its start?
 * @floor: demand_first_floor()
 * @rate: assigned, bit/s; 0: none
 * @share: what links have stated as its share, bit/s; 0: not all of them have
 * @rests: the source does not wait for a higher rate
 *
 * While others join, the share keeps falling, and the source does not rest: so
 * a flow that has about its share does not wait for more.
 *
 * Return: whether it remains in the default class.
 */
static inline bool demand_starts(u64 floor, u64 rate, u64 share, bool rests)
{
	if (!rate)
		return floor;
	return rate < floor && !rests && (!share || rate < share - share / 8);
}

static inline bool demand_is_data(const struct demand_sample *s)
{
	return demand_has_data(1, s->packet);
}

/* The demand for a use: with a margin. */
static inline u64 demand_for(const struct demand_sample *s, u64 used)
{
	return used + used / (demand_is_data(s) ? 8 : 2);
}

/* Least part of its rate that a flow must use to keep its demand. */
static inline double demand_kept(const struct demand_sample *s)
{
	return demand_is_data(s) ? 0.85 : 0.5;
}

static inline void demand_restart(struct demand *d, u64 start)
{
	d->window_start = start;
	d->peak = 0;
}

static inline u64 demand_raise(struct demand *d, const struct demand_sample *s)
{
	u64 wanted = fp_max64(2 * s->demand, demand_for(s, d->used));

	d->restored = d->proven > wanted;
	wanted = fp_max64(wanted, d->proven);
	if (d->lowered && s->now - d->lowered < d->window)
		d->window = fp_min64(2 * d->window, DEMAND_MAX_WINDOW);
	else
		d->window = DEMAND_WINDOW;
	return wanted;
}

static inline u64 demand_lower(struct demand *d, const struct demand_sample *s)
{
	u64 wanted = fp_max64(demand_for(s, d->peak), DEMAND_MIN);
	/* Links may have lowered the rate during the window. */
	bool unused = (double)d->peak < (double)s->rate * demand_kept(s);
	bool growing = d->before && d->peak > d->before + d->before / 32;

	d->before = d->peak;
	/* A flow that has sent next to nothing starts with its first demand. */
	if (d->window == DEMAND_FIRST_WINDOW && wanted == DEMAND_MIN)
		d->proven = s->demand;
	d->window = fp_max64(d->window, DEMAND_WINDOW);
	demand_restart(d, s->now);
	/* A change costs a cycle, and the peaks of steady flows differ. */
	if (!unused || growing || wanted + wanted / 16 > s->demand)
		return s->demand;
	d->lowered = s->now;
	return wanted;
}

/* Begin a step. */
static inline void demand_step(struct demand *d, const struct demand_sample *s,
			       u64 rate, u64 used)
{
	d->step = s->now;
	d->bytes = s->bytes;
	d->drops = s->drops;
	d->rate = rate;
	d->used = used;
	d->reached = s->reached;
	d->limited = s->limited;
	d->elsewhere = s->elsewhere;
}

/*
 * By what was sent since the last step: do windows apply to it, does it want
 * more?
 */
static inline void demand_look(struct demand *d, const struct demand_sample *s,
			       u64 used)
{
	u64 sent = s->bytes - d->bytes, reached = 0, limited = 0, elsewhere = 0;

	/* Otherwise the counters were reset. */
	if (s->reached >= d->reached && s->limited >= d->limited &&
	    s->elsewhere >= d->elsewhere) {
		reached = s->reached - d->reached;
		limited = s->limited - d->limited;
		elsewhere = s->elsewhere - d->elsewhere;
	}
	if (sent) {
		d->by_window = (double)reached >= (double)sent * DEMAND_REACHED;
		d->acked_elsewhere = elsewhere > sent / 2;
	}
	d->wants = d->by_window && !s->by_use &&
		   ((limited && limited >= reached / DEMAND_EDGE) ||
		    (s->borrows && used > s->rate));
}

/* Windows after the first one: with caution they are longer. */
static inline void demand_use_window(struct demand *d)
{
	d->window = fp_min64(DEMAND_WINDOW << d->caution, DEMAND_MAX_WINDOW);
}

/* The demand at the end of a window in which the flow did not want more. */
static inline u64 demand_settle(struct demand *d, const struct demand_sample *s)
{
	/* With caution, of the window before, too. */
	u64 peak = fp_max64(d->peak, d->caution ? d->before : 0);
	u64 margin = peak >> (DEMAND_CAUTION - d->caution);
	u64 wanted = fp_max64(peak + margin, DEMAND_MIN);
	bool growing = d->before && d->peak > d->before + d->before / 32;

	if (wanted == DEMAND_MIN)
		d->caution = 0;
	d->before = d->peak;
	demand_use_window(d);
	demand_restart(d, s->now);
	/* A change costs a cycle, and the peaks of steady flows differ. */
	if (growing || wanted + fp_max64(wanted / 16, margin / 2) > s->demand)
		return s->demand;
	d->lowered = s->now;
	return wanted;
}

/*
 * The demand of TCP that windows apply to, after a step that began at @before,
 * and in which its rate was at least @lowest. What it wants is a multiple of
 * its use, not of its demand: a demand that is not assigned, or not used, does
 * not grow. A flow at its edge that uses less than half of its rate bursts.
 */
static inline u64 demand_by_window(struct demand *d,
				   const struct demand_sample *s, u64 before,
				   u64 lowest)
{
	d->proven = 0;
	if (d->wants && d->used < lowest / 2) {
		d->caution += d->caution < DEMAND_CAUTION;
	} else if (d->wants) {
		if (d->lowered && s->now - d->lowered > DEMAND_LEARN)
			d->caution -= !!d->caution;
		else if (d->lowered && d->caution < DEMAND_CAUTION)
			d->caution++;
		d->lowered = 0;
		demand_use_window(d);
		d->before = d->used;
		demand_restart(d, s->now);
		if (s->demand >= 2 * d->used)
			return s->demand;
		return fp_max64(demand_growth(s->borrows) >> d->caution, 2) *
		       d->used;
	}
	if (d->used > d->peak + d->peak / 4)
		d->window_start = before;
	d->peak = fp_max64(d->peak, d->used);
	/* Tolerate steps that are slightly short. */
	if (s->now - d->window_start + DEMAND_STEP / 2 <
	    fp_max64(d->window, DEMAND_ROUND_TRIPS * s->rtt))
		return s->demand;
	return demand_settle(d, s);
}

/**
 * demand_begin() - begin to estimate the demand of a flow at its start
 * @d: state of the estimation, initially 0
 * @now: ns
 * @bytes: sent so far
 */
static inline void demand_begin(struct demand *d, u64 now, u64 bytes)
{
	d->bytes = bytes;
	d->step = now;
	d->busy = now;
}

/**
 * demand_start() - estimate the demand of a flow at its start
 * @d: state of the estimation; initially 0
 * @s: a measurement
 *
 * To be called once in each round trip, until demand_has_started().
 *
 * Return: the demand, bit/s; usually @s->demand.
 */
static inline u64 demand_start(struct demand *d, const struct demand_sample *s)
{
	u64 rate = fp_min64(s->rate, s->demand);
	u64 lowest = fp_min64(rate, d->rate), duration = s->now - d->step;
	bool high, growing;
	double used;

	if (!d->step || !duration || s->bytes < d->bytes) {
		demand_step(d, s, rate, 0);
		demand_restart(d, s->now);
		d->busy = s->now;
		return s->demand;
	}
	used = (double)(s->bytes - d->bytes) * 8e9 / (double)duration;
	/* In a short step a single packet is a large part. */
	if (duration < DEMAND_STEP && s->bytes - d->bytes < s->packet * 4 &&
	    (double)lowest * (double)duration < (double)s->packet * 4 * 8e9)
		return s->demand;
	demand_look(d, s, used);
	high = d->wants || s->drops > d->drops ||
	       (lowest && used > (double)lowest * 0.75);
	growing = used > (double)d->peak * 1.5;
	demand_step(d, s, rate, used);
	if (high)
		demand_restart(d, s->now);
	else
		d->peak = fp_max64(d->peak, d->used);
	if (high || growing) {
		d->busy = s->now;
		return s->unrestricted ?
			       fp_max64(s->demand, s->growth * d->used) :
			       s->demand;
	}
	d->started = s->now - d->busy >=
		     fp_max64(DEMAND_QUIET, DEMAND_ROUND_TRIPS * s->rtt);
	if (!d->started)
		return s->demand;
	return fp_min64(s->demand, fp_max64(2 * d->peak, DEMAND_MIN));
}

static inline bool demand_has_started(const struct demand *d)
{
	return d->started;
}

/**
 * demand_update() - estimate the demand of a flow
 * @d: state of the estimation; initially 0
 * @s: a measurement
 *
 * To be called every DEMAND_STEP, or less often.
 *
 * Return: the demand, bit/s; usually @s->demand.
 */
static inline u64 demand_update(struct demand *d, const struct demand_sample *s)
{
	/* A demand that was just lowered will soon limit the rate. */
	u64 rate = fp_min64(s->rate, s->demand);
	u64 before = d->step, duration = s->now - before;
	u64 lowest = fp_min64(rate, d->rate);
	double used, packet;
	bool high, restored = d->restored;

	if (!before || s->now <= before || s->bytes < d->bytes || !rate) {
		demand_step(d, s, rate, 0);
		demand_restart(d, s->now);
		return s->demand;
	}
	/* In a short step a single packet is a large part. */
	if (duration < DEMAND_STEP / 2)
		return s->demand;
	used = (double)(s->bytes - d->bytes) * 8e9 / (double)duration;
	packet = (double)s->packet * 8e9 / (double)duration;
	high = used - packet > (double)rate * 0.95;
	/* Ignore drops until the restored demand is assigned. */
	high |= s->drops > d->drops && !restored;
	d->restored = false;
	demand_look(d, s, used);
	demand_step(d, s, rate, used);
	if (!d->window)
		d->window = DEMAND_FIRST_WINDOW;
	if (d->by_window && !s->by_use)
		return demand_by_window(d, s, before, lowest);

	if (high || used >= (double)lowest * demand_kept(s)) {
		u64 wanted = s->demand;

		if (high && s->demand_limited)
			wanted = demand_raise(d, s);
		/* If the restored demand remains unused, it is not restored again. */
		d->proven = fp_max64(demand_for(s, d->used), DEMAND_MIN);
		d->window = fp_max64(d->window, DEMAND_WINDOW);
		d->before = d->used;
		demand_restart(d, s->now);
		return wanted;
	}
	if (d->used > d->peak + d->peak / 4) {
		d->window_start = before;
		d->peak = d->used;
	}
	d->peak = fp_max64(d->peak, d->used);
	/* Tolerate steps that are slightly short. */
	if (s->now - d->window_start + DEMAND_STEP / 2 <
	    fp_max64(d->window, DEMAND_ROUND_TRIPS * s->rtt))
		return s->demand;
	return demand_lower(d, s);
}

#endif /* SLBND_DEMAND_H */
