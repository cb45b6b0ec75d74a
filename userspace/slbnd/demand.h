/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a flow is to ask for, judged by what it uses.
 *
 * The paper's application knows its demand (NCA 2012, section II: Change). Of a
 * flow that was only found, all there is to see is what it sends while it is held
 * to a rate. A demand that is too low holds it back; one that is too high keeps
 * from others what nobody uses; and each change costs the network a cycle. So
 *
 *	use of the rate		what is done
 *	0 ... 85 %		lowered to 9/8 of the use, after a look
 *	85 % ... 95 %		nothing
 *	95 % ...		raised, after one step
 *
 * A demand of 9/8 of the use is used by 89 %, which is inside: a flow that is
 * steady is changed once. The bounds lie as close to that as what steady flows
 * are seen to fluctuate by in a step, some per cent.
 *
 * Low: the most that was used in any step of a look is what counts, and not the
 * mean. TCP that is held to its rate halves its window now and then, fills its
 * pipe again, and repairs losses; sources go on and off; each would lose what it
 * needs a moment later. A look lasts a second, or some round trips if those are
 * longer. While use grows from step to step (slow start) a look begins anew. The
 * first look is short, so that a first demand may be large: the half of a
 * connection that only acknowledges gives it back soon.
 *
 * High: what a flow that is held would like to have cannot be seen, only that it
 * takes all it may (to within a packet, for a step may have one more than another),
 * or that packets were dropped because it wanted more. If nothing but the demand
 * restricts it, the demand is doubled, or becomes again what the flow has once
 * used: one that has paused is back after a step.
 *
 * A flow that presses as soon as its demand was lowered will do so again (it goes
 * on and off more slowly than we look), so the next look is twice as long.
 *
 * There is no clock here, and no session: times and counters are passed in.
 */
#ifndef SLBND_DEMAND_H
#define SLBND_DEMAND_H

#include <fairpath/core.h>

#define DEMAND_MS 1000000ULL

/* How often use is to be looked at, ns. */
#define DEMAND_STEP (250 * DEMAND_MS)
/* What a flow has not used for so long, it does not need, ns. */
#define DEMAND_FIRST_LOOK (500 * DEMAND_MS)
#define DEMAND_LOOK (1000 * DEMAND_MS)
#define DEMAND_LONGEST_LOOK (4000 * DEMAND_MS)
/* A look has so many round trips, for TCP moves by these. */
#define DEMAND_ROUND_TRIPS 4
/* No demand is lowered to less, bit/s: a packet or two in each step. */
#define DEMAND_LEAST 64000ULL

/**
 * struct demand - what is known of a flow's use
 * @bytes: used up to the last step
 * @drops: packets that were too many, up to then
 * @step: when that was, ns; 0: there was none
 * @used: in the last step, bit/s
 * @look: how long to look before the demand is lowered, ns; 0: not chosen yet
 * @since: when this look began, ns
 * @peak: the most that was used in one of its steps, bit/s
 * @proven: what would suit the most recent use of nearly all of a rate, bit/s
 * @restored: @proven has become the demand in the last step
 * @lowered: when the demand was lowered last, ns; 0: never
 */
struct demand {
	u64 bytes;
	u64 drops;
	u64 step;
	u64 used;
	u64 look;
	u64 since;
	u64 peak;
	u64 proven;
	bool restored;
	u64 lowered;
};

/**
 * struct demand_seen - what is seen of a flow
 * @now: ns
 * @bytes: used so far
 * @drops: packets so far that were more than its rate and a short queue allow
 * @packet: how long its packets are, octets
 * @rtt: of its path, ns; 0: not known
 * @rate: what it may use, bit/s; 0: not known yet
 * @demand: what it asks for, bit/s
 * @restricted: no link restricts it, but the demand
 */
struct demand_seen {
	u64 now;
	u64 bytes;
	u64 drops;
	u64 packet;
	u64 rtt;
	u64 rate;
	u64 demand;
	bool restricted;
};

/* What suits a use: some of it is left over. */
static inline u64 demand_suiting(u64 used)
{
	return used + used / 8;
}

static inline void demand_look_anew(struct demand *d, u64 since)
{
	d->since = since;
	d->peak = 0;
}

static inline u64 demand_raise(struct demand *d, const struct demand_seen *s)
{
	u64 wanted = fp_max64(2 * s->demand, demand_suiting(d->used));

	d->restored = d->proven > wanted;
	wanted = fp_max64(wanted, d->proven);
	if (d->lowered && s->now - d->lowered < d->look)
		d->look = fp_min64(2 * d->look, DEMAND_LONGEST_LOOK);
	else
		d->look = DEMAND_LOOK;
	return wanted;
}

static inline u64 demand_lower(struct demand *d, const struct demand_seen *s)
{
	u64 wanted = fp_max64(demand_suiting(d->peak), DEMAND_LEAST);
	/* Links may have lowered it since. */
	bool little = (double)d->peak < (double)s->rate * 0.85;

	/* What has said next to nothing yet shall begin as if it began now. */
	if (d->look == DEMAND_FIRST_LOOK && wanted == DEMAND_LEAST)
		d->proven = s->demand;
	d->look = fp_max64(d->look, DEMAND_LOOK);
	demand_look_anew(d, s->now);
	if (!little || wanted >= s->demand)
		return s->demand;
	d->lowered = s->now;
	return wanted;
}

/**
 * demand_follow() - another look at a flow
 * @d: what is known of it; zeros at first
 * @s: what is seen
 *
 * To be called once in each DEMAND_STEP, or less often.
 *
 * Return: what it is to ask for, bit/s; mostly what it does ask for.
 */
static inline u64 demand_follow(struct demand *d, const struct demand_seen *s)
{
	/* A demand that was just lowered will soon be its rate. */
	u64 rate = fp_min64(s->rate, s->demand);
	u64 before = d->step, took = s->now - before;
	double used, packet;
	bool high, restored = d->restored;

	if (!before || s->now <= before || s->bytes < d->bytes || !rate) {
		d->step = s->now;
		d->bytes = s->bytes;
		d->drops = s->drops;
		d->used = 0;
		demand_look_anew(d, s->now);
		return s->demand;
	}
	/* Of too short a time a packet is too much. */
	if (took < DEMAND_STEP / 2)
		return s->demand;
	used = (double)(s->bytes - d->bytes) * 8e9 / (double)took;
	packet = (double)s->packet * 8e9 / (double)took;
	high = used - packet > (double)rate * 0.95;
	/* What was dropped until the network has answered says nothing more. */
	high |= s->drops > d->drops && !restored;
	d->restored = false;
	d->step = s->now;
	d->bytes = s->bytes;
	d->drops = s->drops;
	d->used = used;
	if (!d->look)
		d->look = DEMAND_FIRST_LOOK;

	if (high || used >= (double)rate * 0.85) {
		u64 wanted = s->demand;

		if (high && s->restricted)
			wanted = demand_raise(d, s);
		/* If it does not use what it gets now, that is not believed again. */
		d->proven = fp_max64(demand_suiting(d->used), DEMAND_LEAST);
		demand_look_anew(d, s->now);
		return wanted;
	}
	if (d->used > d->peak + d->peak / 4) {
		d->since = before;
		d->peak = d->used;
	}
	d->peak = fp_max64(d->peak, d->used);
	/* Steps are a little shorter at times. */
	if (s->now - d->since + DEMAND_STEP / 2 <
	    fp_max64(d->look, DEMAND_ROUND_TRIPS * s->rtt))
		return s->demand;
	return demand_lower(d, s);
}

#endif /* SLBND_DEMAND_H */
