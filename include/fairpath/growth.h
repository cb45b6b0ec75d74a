/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Additive growth of a congestion window: so much per round-trip time, exactly.
 *
 * Papers state growth per round-trip time ("W + alpha") or, which they mean to
 * be the same, per packet acknowledged ("W + alpha / W"). A kernel has whole
 * packets and sees ACKs that cover one packet or a hundred. Two shortcuts are
 * common and both are inexact: dividing by the window of the moment (as it
 * grows within the round-trip, a large alpha earns visibly less than alpha),
 * and rounding W / alpha to a whole number of packets (at W = 31, alpha = 16,
 * the window doubles).
 *
 * Here growth is counted in rounds. A round is as many newly acknowledged
 * packets as the window had at its start: those that were in flight then, so
 * one round-trip. After n of them, the window is
 *
 *	start + floor((frac + inc * n / start) / 1000)
 *
 * and after the last exactly inc thousandths more than at the start; what is
 * not a whole packet is carried over. ACKs may come one by one or in stretches
 * up to a window long, with the same result. With inc = 1000 it is Reno as
 * Linux counts it (tcp_cong_avoid_ai()), ACK for ACK: that function counts
 * packets up to the window, adds one and starts again.
 *
 * The count of packets is the caller's (in Linux tp->snd_cwnd_cnt), for the
 * stack clears it when it takes the window back, as it does for Reno.
 */
#ifndef FAIRPATH_GROWTH_H
#define FAIRPATH_GROWTH_H

#include "core.h"

/**
 * struct fp_growth - a round of additive growth
 * @start: window at the start of the round [packets], 0 before the first
 * @grown: whole packets that the window has grown since
 * @inc: growth in this round [1/1000 packet]
 * @frac: growth earned in earlier rounds, not yet a packet [1/1000 packet]
 */
struct fp_growth {
	u32 start;
	u32 grown;
	u32 inc;
	u32 frac;
};

/* Forget the round: after a loss nothing earned before it counts any more. */
static inline void fp_growth_reset(struct fp_growth *g)
{
	g->start = 0;
	g->grown = 0;
	g->frac = 0;
}

/**
 * fp_growth_sync() - take note of a window that others have set
 * @g: the growth
 * @cnt: packets counted in this round
 * @cwnd: the window now [packets], at least 1
 *
 * Slow start, recovery, undo and idle restart set the window behind our back.
 * A new round starts from what they set. What was counted and earned so far
 * still counts, as it does for Reno, unless the window grew on its account.
 *
 * Return: true if a new round starts, and the caller has to set @g->inc.
 */
static inline bool fp_growth_sync(struct fp_growth *g, u32 *cnt, u32 cwnd)
{
	if (g->start && g->start + g->grown == cwnd)
		return false;

	if (g->grown) {
		*cnt = 0;
		g->frac = 0;
	}
	g->start = cwnd;
	g->grown = 0;
	return true;
}

/**
 * fp_growth_count() - count packets newly acknowledged
 * @g: the growth, in sync with the window
 * @cnt: packets counted in this round
 * @acked: packets newly acknowledged
 *
 * Return: true if that ended a round; the next has begun at the window that
 * this one earned, and the caller may set another @g->inc for it.
 */
static inline bool fp_growth_count(struct fp_growth *g, u32 *cnt, u32 acked)
{
	u64 counted, earned, rounds = 0, start;
	/* No ACK covers more than a window, but for one that follows a cut. */
	bool stretched = acked > g->start + g->grown;

	/* A count from a larger window is worth one round, not several. */
	if (*cnt >= g->start) {
		*cnt = 0;
		rounds = 1;
	}

	counted = (u64)*cnt + acked;
	if (counted >= g->start) {
		u64 full = stretched ? fp_div(counted, g->start) : 1;

		rounds += full;
		counted -= full * g->start;
	}
	*cnt = (u32)counted;
	if (!rounds)
		return false;

	earned = g->frac + rounds * g->inc;
	start = g->start + fp_div(earned, FP_PACKET);
	g->frac = (u32)(earned - fp_div(earned, FP_PACKET) * FP_PACKET);
	g->start = (u32)fp_min64(start, ~0U);
	g->grown = 0;
	return true;
}

/**
 * fp_growth_window() - the window that the count so far has earned
 * @g: the growth
 * @cnt: packets counted in this round
 * @clamp: the window must not exceed this [packets]
 *
 * Return: the window [packets].
 */
static inline u32 fp_growth_window(struct fp_growth *g, u32 cnt, u32 clamp)
{
	u64 packet = (u64)g->start * FP_PACKET;
	u64 earned = (u64)g->start * g->frac + (u64)g->inc * cnt;

	/* Most ACKs earn no further packet: tell so without a division. */
	if (earned >= packet * ((u64)g->grown + 1))
		g->grown = (u32)fp_div(earned, packet);

	if ((u64)g->start + g->grown > clamp) {
		g->start = clamp;
		g->grown = 0;
		g->frac = 0;
	}
	return g->start + g->grown;
}

#endif /* FAIRPATH_GROWTH_H */
