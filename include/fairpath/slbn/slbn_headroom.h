/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The headroom of a link that follows what the link carries besides sessions.
 *
 * Source: docs/protocol.md, section 9. The plan of a link assigns the capacity
 * less a small rest and less a reserve for each kind of other traffic: control
 * packets, and unassigned packets, those of flows without a rate. A reserve
 * follows what this kind took per epoch, within bounds:
 *
 * - The plan falls at the end of the first epoch that took more than the reserve.
 * - It rises only if each of the last SLBN_HEADROOM_EPOCHS epochs needs less than
 *   half of the reserve.
 * - Reserves are multiples of 1 / SLBN_HEADROOM_STEPS of the capacity, and
 *   exceed what was measured by an eighth and a step. After a fall of the plan,
 *   the load may still grow, so the same applies to what is measured in the
 *   SLBN_HEADROOM_EPOCHS epochs after it.
 * - When unassigned packets raise their reserve, the plan falls by twice as much for
 *   SLBN_HEADROOM_DRAIN epochs. Sessions had that capacity, too, for up to an epoch
 *   and a cycle, and the rest alone drains the queue of that time slowly.
 *
 * So the plan changes at most once in an epoch, and is constant while the load
 * is: when the plan changes, sources send more control packets for a while, but
 * less than twice as many, which does not change a reserve that has been twice
 * as large. A burst of at most an epoch that repeats within
 * SLBN_HEADROOM_EPOCHS epochs does not let the plan rise in between, as at
 * least half of it is in one of these epochs.
 *
 * The safety of the commit does not depend on the plan: rates in use are at most
 * the capacity, whatever the reserves are. Control packets are counted one by one,
 * unassigned packets are measured about once in an epoch, if the link can identify
 * them. While it cannot, and in the first epochs in which it can, they have their
 * largest reserve.
 */
#ifndef SLBN_HEADROOM_H
#define SLBN_HEADROOM_H

#include <fairpath/core.h>

/* What always stays free, per mille of the capacity. */
#define SLBN_HEADROOM_REST 5
/* A plan moves by multiples of this part of the capacity. */
#define SLBN_HEADROOM_STEPS 1024
/* A plan rises after so many epochs that need less. */
#define SLBN_HEADROOM_EPOCHS 4
/* For so many epochs the plan is lower by what the reserve has risen. */
#define SLBN_HEADROOM_DRAIN 2

/**
 * struct slbn_headroom_params - parameters
 * @C: capacity, bit/s, 10^3 to 10^12
 * @control: largest reserve for control packets, bit/s, at most @C
 * @unassigned: largest reserve for unassigned packets, bit/s, at most @C
 * @epoch: ns, 10^7 to 3.6 * 10^12
 */
struct slbn_headroom_params {
	u64 C;
	u64 control;
	u64 unassigned;
	u64 epoch;
};

/**
 * struct slbn_reserve - reserve for one kind of traffic
 * @bits: sent in this epoch, if packets are counted
 * @taken: rates of the epochs before, the latest first, bit/s
 * @rate: the reserve, bit/s
 * @risen: by how much it rose last, bit/s
 * @settling: epochs until it is compared with the load once more after a rise
 */
struct slbn_reserve {
	u64 bits;
	u64 taken[SLBN_HEADROOM_EPOCHS];
	u64 rate;
	u64 risen;
	u32 settling;
};

/**
 * struct slbn_headroom - state
 * @epoch_start: start of this epoch, ns
 * @control: of control packets
 * @unassigned: of unassigned packets, if they are measured
 * @is_measured: they are
 * @measured: bytes of them until @measured_at
 * @measured_at: time of the last measurement, also of one that failed, ns
 * @next_at: earliest time of the next one, ns
 */
struct slbn_headroom {
	u64 epoch_start;
	struct slbn_reserve control;
	struct slbn_reserve unassigned;
	bool is_measured;
	u64 measured;
	u64 measured_at;
	u64 next_at;
};

/**
 * slbn_headroom_init() - start to measure
 * @v: state
 * @now: time, ns
 */
static inline void slbn_headroom_init(struct slbn_headroom *v, u64 now)
{
	*v = (struct slbn_headroom){ .epoch_start = now };
}

/**
 * slbn_headroom_count_control() - count a control packet that the link sends
 * @v: state, after slbn_headroom_update() with the present time
 * @bits: its length
 */
static inline void slbn_headroom_count_control(struct slbn_headroom *v,
					       u32 bits)
{
	v->control.bits += bits;
}

/* A rate, bit/s. Of more than 18 petabits, only these; @time, ns, is at least 1 ms. */
static inline u64 slbn_rate_of(u64 bits, u64 time)
{
	/* 10 bits in 10 ms are 1 kbit/s: with ms, no product overflows. */
	return fp_div(fp_min64(bits, ~0ULL / 1000) * 1000,
		      fp_div(time, 1000000));
}

/* The reserve for a rate that was measured, bit/s. */
static inline u64 slbn_reserve_for(const struct slbn_headroom_params *p,
				   u64 rate, u64 most)
{
	u64 step = fp_max64(fp_div(p->C, SLBN_HEADROOM_STEPS), 1);
	u64 steps;

	if (!rate)
		return 0;
	steps = fp_div(rate + rate / 8 + step - 1, step) + 1;
	return fp_min64(steps * step, most);
}

/*
 * @epochs have ended, at least 1: the first one with @taken, bit/s, the others
 * without traffic.
 */
static inline void slbn_reserve_update(const struct slbn_headroom_params *p,
				       struct slbn_reserve *r, u64 most,
				       u64 taken, u64 epochs)
{
	u64 largest = 0, needed;
	u32 n;

	taken = fp_min64(taken, most);
	for (n = SLBN_HEADROOM_EPOCHS; n--;) {
		if (n >= epochs)
			r->taken[n] = r->taken[n - epochs];
		else
			r->taken[n] = n + 1 == epochs ? taken : 0;
		largest = fp_max64(largest, r->taken[n]);
	}
	needed = slbn_reserve_for(p, largest, most);
	if (taken > r->rate) {
		r->risen = needed - r->rate;
		r->rate = needed;
		r->settling = SLBN_HEADROOM_EPOCHS;
	} else if (r->settling > epochs) {
		r->settling -= epochs;
	} else {
		if (needed < r->rate / 2 || (r->settling && needed > r->rate))
			r->rate = needed;
		r->settling = 0;
	}
	r->rate = fp_min64(r->rate, most);
}

/**
 * slbn_headroom_update() - follow what the link carries when an epoch is over
 * @p: parameters
 * @v: state
 * @now: time, ns
 *
 * Return: whether an epoch was over; then slbn_headroom_plan() may have changed.
 */
static inline bool slbn_headroom_update(const struct slbn_headroom_params *p,
					struct slbn_headroom *v, u64 now)
{
	u64 epochs;

	if (now < v->epoch_start || now - v->epoch_start < p->epoch)
		return false;
	epochs = fp_div(now - v->epoch_start, p->epoch);
	v->epoch_start += epochs * p->epoch;
	slbn_reserve_update(p, &v->control, p->control,
			    slbn_rate_of(v->control.bits, p->epoch), epochs);
	v->control.bits = 0;
	return true;
}

/**
 * slbn_headroom_is_due() - is it time to measure what unassigned packets take?
 * @v: state
 * @now: time, ns
 *
 * Return: whether an epoch is over since the last measurement. Some epochs may
 * be shorter by an eighth, but not all of them: a caller that checks once in an
 * epoch is sometimes early, and would otherwise measure every second epoch
 * only.
 */
static inline bool slbn_headroom_is_due(const struct slbn_headroom *v, u64 now)
{
	return now >= v->measured_at && now >= v->next_at;
}

/**
 * slbn_headroom_expect() - measure at the latest after an epoch
 * @p: parameters, of which the epoch may have changed
 * @v: state
 * @now: time, ns
 */
static inline void slbn_headroom_expect(const struct slbn_headroom_params *p,
					struct slbn_headroom *v, u64 now)
{
	v->next_at = fp_min64(v->next_at, now + p->epoch);
}

/* A measurement was tried. */
static inline void slbn_headroom_tried(const struct slbn_headroom_params *p,
				       struct slbn_headroom *v, u64 now)
{
	u64 next = v->next_at;

	if (now >= next)
		next += p->epoch;
	v->next_at = fp_max64(next, now + p->epoch - p->epoch / 8);
	v->measured_at = now;
}

/**
 * slbn_headroom_measure() - follow what unassigned packets take
 * @p: parameters
 * @v: state
 * @bytes: of the unassigned packets that the link has sent since any time; less than
 *	before if the counter was reset
 * @now: time, ns
 *
 * To be called at least once in an epoch while the link has sessions: what took
 * longer counts as one epoch, with its mean.
 *
 * Return: whether an epoch was over; then slbn_headroom_plan() may have changed.
 */
static inline bool slbn_headroom_measure(const struct slbn_headroom_params *p,
					 struct slbn_headroom *v, u64 bytes,
					 u64 now)
{
	u64 sent = bytes < v->measured ? bytes : bytes - v->measured;

	if (v->is_measured && !slbn_headroom_is_due(v, now))
		return false;
	if (v->is_measured) {
		u64 rate = slbn_rate_of(sent * 8, now - v->measured_at);

		slbn_reserve_update(p, &v->unassigned, p->unassigned, rate, 1);
	} else {
		v->unassigned = (struct slbn_reserve){
			.rate = p->unassigned,
			.settling = SLBN_HEADROOM_EPOCHS,
		};
		v->is_measured = true;
	}
	v->measured = bytes;
	slbn_headroom_tried(p, v, now);
	return true;
}

/**
 * slbn_headroom_end_measure() - the link cannot identify unassigned packets any more
 * @p: parameters
 * @v: state; slbn_headroom_plan() may have changed
 * @now: time, ns
 */
static inline void
slbn_headroom_end_measure(const struct slbn_headroom_params *p,
			  struct slbn_headroom *v, u64 now)
{
	v->is_measured = false;
	slbn_headroom_tried(p, v, now);
}

/* The reserve for unassigned packets, and what drains the queue after its rise. */
static inline u64 slbn_headroom_unassigned(const struct slbn_headroom_params *p,
					   const struct slbn_headroom *v)
{
	const struct slbn_reserve *r = &v->unassigned;
	u64 drain = 0;

	if (!v->is_measured)
		return p->unassigned;
	if (r->settling > SLBN_HEADROOM_EPOCHS - SLBN_HEADROOM_DRAIN)
		drain = r->risen;
	return fp_min64(r->rate, p->unassigned) +
	       fp_min64(drain, p->unassigned);
}

/**
 * slbn_headroom_plan() - what the plan assigns
 * @p: parameters
 * @v: state
 *
 * Return: bit/s, at least half of the capacity.
 */
static inline u64 slbn_headroom_plan(const struct slbn_headroom_params *p,
				     const struct slbn_headroom *v)
{
	u64 reserved = fp_div(p->C * SLBN_HEADROOM_REST, 1000) +
		       fp_min64(v->control.rate, p->control) +
		       slbn_headroom_unassigned(p, v);

	return p->C - fp_min64(reserved, p->C / 2);
}

#endif /* SLBN_HEADROOM_H */
