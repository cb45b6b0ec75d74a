/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The exact model of growth per round-trip, slow and in rational numbers.
 *
 * It follows the definition, not growth.h. The window W is a rational number.
 * A round is as many packets as W had whole ones when it began. Each packet
 * acknowledged adds step / round to W, so the whole round adds step. What the
 * stack is told is W without its fraction. No state but W, the step, and the
 * packets of the round counted so far, from which W is worked out each time.
 *
 * What the definition leaves open is decided as growth.h says, or as Reno does
 * in Linux, which the same code has to equal:
 * - a window set by others begins a new round. The fraction earned in earlier
 *   rounds and the packets counted stay, unless W grew by a whole packet on
 *   their account: they are spent then, and neither may pay twice;
 * - a count as long as the round or longer, left from a larger window, is one
 *   round, and so is the rest of an ACK longer than the window, for each
 *   window's worth that it has at the window before that ACK;
 * - where a bound (clamp) cuts W, the fraction goes.
 *
 * Rationals are not reduced: those that are kept have the denominator 1000, as
 * steps are whole thousandths, and others live for a few operations only, which
 * 128 bits bear for windows below 2^32.
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

/* The largest number of thousandths that is not above a. */
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
 * @shown: what the stack was told last
 */
struct model {
	struct rat window;
	struct rat step;
	u64 round;
	u64 counted;
	u64 shown;
};

/* A loss: nothing earned before it counts. */
static inline void model_forget(struct model *m)
{
	m->window = rat(0, 1000);
	m->round = 0;
	m->shown = 0;
}

/* The stack's window. Return: it was set by others, so a new round begins. */
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

/* Packets acknowledged. Return: rounds that this ended. */
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

/* What the stack is told. */
static inline u64 model_window(struct model *m, u32 clamp)
{
	struct rat earned = rat(m->step.n * m->counted, m->step.d * m->round);
	u64 window = rat_floor(rat_add(m->window, earned));

	/* When the stack clears the count, the window does not shrink. */
	if (m->shown < window)
		m->shown = window;
	if (m->shown > clamp) {
		m->window = rat((u128)clamp * 1000, 1000);
		m->shown = m->round = clamp;
	}
	return m->shown;
}

#endif /* MODEL_H */
