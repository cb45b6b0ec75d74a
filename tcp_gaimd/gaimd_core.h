/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GAIMD(alpha, beta): general additive increase, multiplicative decrease.
 *
 * Y. Richard Yang, Simon S. Lam: General AIMD Congestion Control, ICNP 2000.
 * With W the congestion window in packets, the paper defines:
 *
 *	for each packet newly acknowledged	W <- W + alpha / W
 *	for a loss detected by duplicate ACKs	W <- beta W
 *	for a timeout				W <- 1
 *
 * and everything else as in TCP Reno, which is GAIMD(1, 1/2). growth.h counts
 * the increase: exactly for any alpha, and as Linux's Reno, ACK for ACK, for
 * alpha = 1. It counts packets, not ACKs, so delayed ACKs do not slow growth:
 * b = 1 in the paper's formula for the send rate.
 *
 * ssthresh after a timeout is beta W, too: the paper leaves it to Reno, whose
 * 1/2 is its beta.
 *
 * RFC 8511 (ABE): an ECN mark comes from a short queue, so in congestion
 * avoidance it may reduce the window less than a loss. beta_ecn, if set, is the
 * factor for marks; the RFC suggests 0.8 where beta is 1/2.
 *
 * alpha is in thousandths of a packet per round-trip, beta in thousandths.
 */
#ifndef GAIMD_CORE_H
#define GAIMD_CORE_H

#include <fairpath/growth.h>

#define GAIMD_ALPHA_MIN 1U
#define GAIMD_ALPHA_MAX 1000000U
#define GAIMD_BETA_MIN 1U
#define GAIMD_BETA_MAX 999U

/**
 * struct gaimd_params - parameters of the algorithm
 * @alpha: increase per round-trip [1/1000 packet], 1 to 1000000
 * @beta: window after a loss, relative to before [1/1000], 1 to 999
 * @beta_ecn: the same after an ECN mark [1/1000], @beta to 999, or 0: @beta
 */
struct gaimd_params {
	u32 alpha;
	u32 beta;
	u32 beta_ecn;
};

/**
 * struct gaimd_vars - state of a connection
 * @growth: growth of the window in congestion avoidance
 */
struct gaimd_vars {
	struct fp_growth growth;
};

/**
 * gaimd_increase() - compute the window after an ACK
 * @p: parameters
 * @v: state
 * @cnt: packets acknowledged in this round (snd_cwnd_cnt)
 * @cwnd: current window [packets], not in slow start; 0 counts as 1
 * @clamp: maximum window [packets]; 0 counts as 1
 * @acked: packets newly acknowledged
 *
 * Return: the new window [packets].
 */
static inline u32 gaimd_increase(const struct gaimd_params *p,
				 struct gaimd_vars *v, u32 *cnt, u32 cwnd,
				 u32 clamp, u32 acked)
{
	v->growth.inc = p->alpha;
	fp_growth_sync(&v->growth, cnt, cwnd);
	fp_growth_count(&v->growth, cnt, acked);
	return fp_growth_window(&v->growth, *cnt, clamp);
}

static inline u32 gaimd_reduce(struct gaimd_vars *v, u32 cwnd, u32 beta)
{
	fp_growth_reset(&v->growth);
	return fp_max((u32)fp_div((u64)cwnd * beta, 1000), 2);
}

/**
 * gaimd_decrease() - compute the window after a loss
 * @p: parameters
 * @v: state
 * @cwnd: window at the loss [packets]
 *
 * Return: beta times the window [packets], at least 2, as for Reno.
 */
static inline u32 gaimd_decrease(const struct gaimd_params *p,
				 struct gaimd_vars *v, u32 cwnd)
{
	return gaimd_reduce(v, cwnd, p->beta);
}

/**
 * gaimd_decrease_ecn() - compute the window after an ECN mark (RFC 8511)
 * @p: parameters
 * @v: state
 * @cwnd: window at the mark [packets], not in slow start
 *
 * Return: beta_ecn times the window [packets], at least 2; without beta_ecn, as
 * after a loss.
 */
static inline u32 gaimd_decrease_ecn(const struct gaimd_params *p,
				     struct gaimd_vars *v, u32 cwnd)
{
	return gaimd_reduce(v, cwnd, p->beta_ecn ? p->beta_ecn : p->beta);
}

/**
 * gaimd_alpha_td() - TCP-friendly alpha when most losses cause duplicate ACKs
 * @beta: window after a loss, relative to before [1/1000], 1 to 999
 *
 * alpha = 3 (1 - beta) / (1 + beta) makes the triple-duplicate-ACK term ("TD")
 * of the send rate equal to TCP's.
 *
 * Return: alpha [1/1000 packet], rounded to the nearest.
 */
static inline u32 gaimd_alpha_td(u32 beta)
{
	u32 alpha =
		(2 * 3000 * (1000 - beta) + 1000 + beta) / (2 * (1000 + beta));

	return fp_max(alpha, GAIMD_ALPHA_MIN);
}

/**
 * gaimd_alpha_to() - TCP-friendly alpha when timeouts dominate
 * @beta: window after a loss, relative to before [1/1000], 1 to 999
 *
 * alpha = 4 (1 - beta^2) / 3 makes the timeout term ("TO") of the send rate
 * equal to TCP's.
 *
 * Return: alpha [1/1000 packet], rounded to the nearest.
 */
static inline u32 gaimd_alpha_to(u32 beta)
{
	return fp_max((2 * 4 * (1000000 - beta * beta) + 3000) / 6000,
		      GAIMD_ALPHA_MIN);
}

#endif /* GAIMD_CORE_H */
