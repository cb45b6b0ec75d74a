/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Exact model of growth per round-trip, slow and in rational numbers.
 *
 * It implements the definition independently of growth.h. The window W is a
 * rational number. A round is as many packets as the integer part of W at its
 * start. Each acknowledged packet adds step / round to W, so a whole round adds
 * step. The stack gets the integer part of W. The state is W, the step and the
 * packets counted in the round, from which W is computed each time.
 *
 * Where the definition is ambiguous, the model follows growth.h or Linux's
 * Reno, which the same code must match:
 * - a window set by the stack starts a new round. The fraction from earlier
 *   rounds and the count are kept, unless they have already grown W by a whole
 *   packet: neither may count twice;
 * - a count of at least the round, left from a larger window, is one round; the
 *   rest of an ACK longer than the window is one round per window, with the
 *   window before that ACK;
 * - the clamp discards the fraction.
 *
 * Rationals are not reduced: stored ones have the denominator 1000, as steps
 * are whole thousandths, and intermediate ones take few operations, for which
 * 128 bits suffice with windows below 2^32.
 */
#ifndef MODEL_H
#define MODEL_H

#include "unit.h"

typedef unsigned __int128 u128;

struct rat {
	u128 n;
	u128 d;
};

static inline struct rat rat(u128 n, u128 d)
{
	return (struct rat){ n, d };
}

static inline struct rat rat_add(struct rat a, struct rat b)
{
	if (a.d == b.d)
		return rat(a.n + b.n, a.d);
	return rat(a.n * b.d + b.n * a.d, a.d * b.d);
}

static inline struct rat rat_sub(struct rat a, struct rat b)
{
	if (a.d == b.d)
		return rat(a.n - b.n, a.d);
	return rat(a.n * b.d - b.n * a.d, a.d * b.d);
}

static inline bool rat_less(struct rat a, struct rat b)
{
	return a.n * b.d < b.n * a.d;
}

static inline struct rat rat_min(struct rat a, struct rat b)
{
	return rat_less(b, a) ? b : a;
}

static inline struct rat rat_max(struct rat a, struct rat b)
{
	return rat_less(a, b) ? b : a;
}

static inline u64 rat_floor(struct rat a)
{
	return (u64)(a.n / a.d);
}

/* Round down to thousandths. */
static inline struct rat rat_thousandths(struct rat a)
{
	return rat(a.n * 1000 / a.d, 1000);
}

/**
 * struct model - a window and its growth
 * @window: at the start of the round, in thousandths
 * @step: growth in this round, in thousandths
 * @round: packets in this round, 0 before the first
 * @counted: packets acknowledged in this round
 * @shown: window last returned to the stack
 */
struct model {
	struct rat window;
	struct rat step;
	u64 round;
	u64 counted;
	u64 shown;
};

/* A loss: discard the growth earned before it. */
static inline void model_forget(struct model *m)
{
	m->window = rat(0, 1000);
	m->round = 0;
	m->shown = 0;
}

/* Set the stack's window. Returns true if it starts a new round. */
static inline bool model_see(struct model *m, u32 cwnd)
{
	struct rat fraction;

	if (m->shown == cwnd)
		return false;

	fraction = rat_sub(m->window, rat((u128)m->round * 1000, 1000));
	if (m->shown > m->round) {
		fraction = rat(0, 1000);
		m->counted = 0;
	}
	m->window = rat_add(rat((u128)cwnd * 1000, 1000), fraction);
	m->round = cwnd;
	m->shown = cwnd;
	return true;
}

/* Acknowledge packets. Returns the number of rounds completed. */
static inline u64 model_ack(struct model *m, u64 acked)
{
	bool as_reno = acked > m->shown;
	u64 round = m->round, ended = 0;

	if (m->counted >= round) {
		as_reno = true;
		m->counted = 0;
		m->window = rat_add(m->window, m->step);
		ended++;
	}

	m->counted += acked;
	while (m->counted >= round) {
		m->counted -= round;
		m->window = rat_add(m->window, m->step);
		ended++;
		if (!as_reno)
			round = rat_floor(m->window);
	}

	if (ended)
		m->shown = m->round = rat_floor(m->window);
	return ended;
}

/* The window returned to the stack. */
static inline u64 model_window(struct model *m, u32 clamp)
{
	struct rat earned = rat(m->step.n * m->counted, m->step.d * m->round);
	u64 window = rat_floor(rat_add(m->window, earned));

	/* A cleared count must not shrink the window. */
	if (m->shown < window)
		m->shown = window;
	if (m->shown > clamp) {
		m->window = rat((u128)clamp * 1000, 1000);
		m->shown = m->round = clamp;
	}
	return m->shown;
}

#endif /* MODEL_H */
