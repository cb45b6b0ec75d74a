/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Exact additive growth of a congestion window per round-trip time.
 *
 * Papers define growth per round-trip time ("W + alpha") or, meant to be
 * equivalent, per acknowledged packet ("W + alpha / W"). A kernel counts whole
 * packets, and an ACK may cover one packet or a hundred. Two common shortcuts
 * are inexact: dividing by the current window (which grows within the
 * round-trip, so a large alpha adds visibly less than alpha), and rounding
 * W / alpha to whole packets (at W = 31, alpha = 16, the window doubles).
 *
 * Here, growth is counted in rounds. A round is as many newly acknowledged
 * packets as the window had at its start: those in flight then, so one
 * round-trip. After n of them, the window is
 *
 *	start + floor((frac + inc * n / start) / 1000)
 *
 * and at the end of the round exactly inc thousandths more than at the start;
 * the fraction of a packet carries over. Single and stretch ACKs up to a window
 * long give the same result. With inc = 1000, this is Linux's Reno
 * (tcp_cong_avoid_ai()), ACK for ACK: that function counts packets up to the
 * window, adds one and restarts.
 *
 * The caller owns the count of packets (in Linux tp->snd_cwnd_cnt), since the
 * stack clears it when it reduces the window, as for Reno.
 */
#ifndef FAIRPATH_GROWTH_H
#define FAIRPATH_GROWTH_H

#include "core.h"

/**
 * struct fp_growth - a round of additive growth
 * @start: window at the start of the round [packets], 0 before the first
 * @grown: growth of the window since [packets]
 * @inc: growth in this round [1/1000 packet]
 * @frac: fraction carried over from earlier rounds [1/1000 packet]
 */
struct fp_growth {
	u32 start;
	u32 grown;
	u32 inc;
	u32 frac;
};

/* Start over after a loss: growth earned before it is discarded. */
static inline void fp_growth_reset(struct fp_growth *g)
{
	g->start = 0;
	g->grown = 0;
	g->frac = 0;
}

/**
 * fp_growth_sync() - start a new round if the stack has changed the window
 * @g: the growth
 * @cnt: packets counted in this round
 * @cwnd: current window [packets]
 *
 * Slow start, recovery, undo and idle restart set the window. A new round then
 * starts from that window. Packets counted and growth earned so far are kept,
 * as for Reno, unless they have already grown the window. A window of 0, which
 * a route's "cwnd lock 0" makes, counts as 1.
 *
 * Return: true if a new round starts; the caller then sets @g->inc.
 */
static inline bool fp_growth_sync(struct fp_growth *g, u32 *cnt, u32 cwnd)
{
	cwnd = fp_max(cwnd, 1);
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
 * fp_growth_count() - count newly acknowledged packets
 * @g: the growth, synchronized by fp_growth_sync()
 * @cnt: packets counted in this round
 * @acked: packets newly acknowledged
 *
 * Return: true if this ended a round; the next starts at the resulting window,
 * and the caller may change @g->inc for it.
 */
static inline bool fp_growth_count(struct fp_growth *g, u32 *cnt, u32 acked)
{
	u64 counted, earned, rounds = 0, start;
	/* An ACK covers more than a window only after a window reduction. */
	bool stretched = acked > g->start + g->grown;

	/* A count left from a larger window ends one round, not several. */
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
 * fp_growth_window() - compute the window after the packets counted so far
 * @g: the growth
 * @cnt: packets counted in this round
 * @clamp: maximum window [packets]; 0 counts as 1
 *
 * Return: the window [packets].
 */
static inline u32 fp_growth_window(struct fp_growth *g, u32 cnt, u32 clamp)
{
	u64 packet = (u64)g->start * FP_PACKET;
	u64 earned = (u64)g->start * g->frac + (u64)g->inc * cnt;

	/* Avoid the division for the many ACKs that add no whole packet. */
	if (earned >= packet * ((u64)g->grown + 1))
		g->grown = (u32)fp_div(earned, packet);

	clamp = fp_max(clamp, 1);
	if ((u64)g->start + g->grown > clamp) {
		g->start = clamp;
		g->grown = 0;
		g->frac = 0;
	}
	return g->start + g->grown;
}

#endif /* FAIRPATH_GROWTH_H */
