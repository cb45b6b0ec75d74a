/* SPDX-License-Identifier: GPL-2.0 */
/*
 * BIC: binary increase congestion control.
 *
 * L. Xu, K. Harfoush, I. Rhee: Binary Increase Congestion Control (BIC) for
 * Fast Long-Distance Networks, INFOCOM 2004; and the authors' slides.
 *
 * BIC searches for the largest window that the path sustains, between Wmax,
 * the window at the last loss, and Wmin, the window without loss in the last
 * round-trip. Per round-trip, the window moves to the middle of the two, by at
 * most Smax (far from Wmax: additive increase) and at least Smin (the search
 * has converged). Above Wmax, max probing searches for a new maximum: slowly
 * at first (1, 2, 4 ... packets per round-trip), then by Smax. A loss sets
 * Wmax and multiplies the window by beta. If the new Wmax is below the
 * previous one, another flow is growing, and Wmax is reduced further to make
 * room (fast convergence). Below low_window, BIC behaves as Reno.
 *
 * This file implements two variants:
 *
 * - BIC_FORM_PAPER follows the paper. growth.h counts the increase, so
 *   fractions like Smin = 0.01 packet per round-trip are exact.
 * - BIC_FORM_LINUX follows Linux since 2.6.6: a quarter of the distance to
 *   Wmax per round-trip instead of half, a flat zone of 4 packets on either
 *   side of Wmax, at least 5 % per round-trip until the first loss, integers
 *   rounded down, and growth scaled up for receivers that delay ACKs. With
 *   mainline's constants it computes the same window, ACK for ACK.
 *
 * Where the paper is ambiguous: a loss while probing does not trigger fast
 * convergence, since the flow had passed its Wmax (the pseudo-code sets Wmax to
 * infinity when probing starts, so it always would); a retransmission timeout
 * sets Wmax as any other loss, and slow start follows as in Reno; when the
 * stack undoes a spurious loss, the search resumes from its previous state.
 *
 * RFC 8511 (ABE): an ECN mark comes from a short queue, so in congestion
 * avoidance it may reduce the window less than a loss. beta_ecn, if set, is the
 * factor for marks; the RFC suggests 0.85 where beta is 0.7 (CUBIC), and 0.8 for
 * Reno, which is used below low_window.
 *
 * Growth rates are in thousandths of a packet per round-trip; beta is in units
 * of 1/1024, in which both 7/8 and mainline's 819/1024 are exact.
 */
#ifndef BIC_CORE_H
#define BIC_CORE_H

#include <fairpath/growth.h>

#define BIC_BETA_SCALE 1024U

/* Mainline's compile-time constants: BICTCP_B, the ACK ratio's shift. */
#define BIC_LINUX_B 4U
#define BIC_LINUX_ACK_SHIFT 4U
#define BIC_LINUX_UNSEEN_CNT 20U

enum bic_form {
	BIC_FORM_PAPER,
	BIC_FORM_LINUX,
};

enum bic_phase {
	BIC_SLOW_START, /* set by the stack */
	BIC_LOW_WINDOW, /* Reno */
	BIC_ADDITIVE, /* far below Wmax, or Wmax unknown */
	BIC_BINARY, /* halving the distance to Wmax */
	BIC_PROBING, /* above Wmax */
};

/**
 * struct bic_params - parameters of the algorithm
 * @smax: largest increase per round-trip [1/1000 packet], 1 to 1000000
 * @smin: smallest increase per round-trip [1/1000 packet], 1 to @smax
 * @beta: window after a loss, relative to before [1/1024], 1 to 1023
 * @low_window: use Reno below this window (Linux: up to it) [packets]
 * @fast_convergence: 1 to enable fast convergence, else 0
 * @form: one of enum bic_form
 * @beta_ecn: window after an ECN mark, relative to before [1/1024], @beta to
 *	1023, or 0: as after a loss
 */
struct bic_params {
	u32 smax;
	u32 smin;
	u32 beta;
	u32 low_window;
	u32 fast_convergence;
	u32 form;
	u32 beta_ecn;
};

/**
 * struct bic_search - search state of the paper's form
 * @wmax: window at the last loss [1/1000 packet], 0 before the first
 * @open: max probing has ended above Wmax: no upper bound is known
 * @probe: increment of max probing [1/1000 packet], 0 when not probing
 */
struct bic_search {
	u64 wmax;
	u32 open;
	u32 probe;
};

/**
 * struct bic_paper - state of the paper's form
 * @search: the search
 * @before_loss: copy of @search before the last loss, for undo
 * @growth: growth of the window in this round-trip
 */
struct bic_paper {
	struct bic_search search;
	struct bic_search before_loss;
	struct fp_growth growth;
};

/**
 * struct bic_linux - state of Linux's form
 * @cnt: packets acknowledged per packet of growth
 * @last_max: window at the last loss [packets], 0 before the first
 * @last_cwnd: window at which @cnt was computed [packets]
 * @last_time: time at which @cnt was computed [ticks]
 * @ack_ratio: packets per ACK, smoothed [1/16]
 */
struct bic_linux {
	u32 cnt;
	u32 last_max;
	u32 last_cwnd;
	u32 last_time;
	u32 ack_ratio;
};

/**
 * struct bic_vars - state of a connection
 * @phase: one of enum bic_phase
 * @paper: state if params.form is BIC_FORM_PAPER
 * @linux_form: state if params.form is BIC_FORM_LINUX
 */
struct bic_vars {
	u32 phase;
	union {
		struct bic_paper paper;
		struct bic_linux linux_form;
	};
};

/**
 * struct bic_ack - input of bic_increase() for an ACK
 * @cwnd: current window [packets], not in slow start; 0 counts as 1
 * @clamp: maximum window [packets]; 0 counts as 1
 * @acked: packets newly acknowledged
 * @now: current time [ticks]; Linux's form only; wraps
 * @recheck: ticks after which Linux's form recomputes the growth for an
 *	unchanged @cwnd
 */
struct bic_ack {
	u32 cwnd;
	u32 clamp;
	u32 acked;
	u32 now;
	u32 recheck;
};

static inline void bic_linux_reset(struct bic_linux *l)
{
	*l = (struct bic_linux){
		.ack_ratio = 2U << BIC_LINUX_ACK_SHIFT,
	};
}

/**
 * bic_init() - initialize a connection's state
 * @p: parameters
 * @v: state; what losses of the handshake left in it is forgotten
 */
static inline void bic_init(const struct bic_params *p, struct bic_vars *v)
{
	*v = (struct bic_vars){ 0 };
	if (p->form == BIC_FORM_LINUX)
		bic_linux_reset(&v->linux_form);
}

/* The increment for a round-trip that starts at window w [1/1000 packet]. */
static inline u32 bic_paper_step(const struct bic_params *p, u32 *phase,
				 struct bic_search *s, u64 w)
{
	u64 distance;
	u32 step;

	if (w < (u64)p->low_window * FP_PACKET) {
		*phase = BIC_LOW_WINDOW;
		s->probe = 0;
		return FP_PACKET;
	}

	if (!s->open && s->wmax && w < s->wmax) {
		/* Back below Wmax: resume the binary search. */
		s->probe = 0;
		distance = s->wmax - w;
		step = (u32)fp_min64(fp_max64(distance / 2, p->smin), p->smax);
		*phase = step == p->smax ? BIC_ADDITIVE : BIC_BINARY;
		return (u32)fp_min64(step, distance);
	}

	if (!s->open && s->wmax) {
		if (!s->probe)
			s->probe = fp_min(FP_PACKET, p->smax);
		*phase = BIC_PROBING;
		return s->probe;
	}

	*phase = BIC_ADDITIVE;
	return p->smax;
}

/* A round of max probing ended without a loss: double the increment. */
static inline void bic_paper_probe_done(const struct bic_params *p,
					struct bic_search *s)
{
	if (!s->probe)
		return;
	s->probe *= 2;
	if (s->probe >= p->smax) {
		s->probe = 0;
		s->open = 1;
	}
}

static inline void bic_paper_round(const struct bic_params *p,
				   struct bic_vars *v)
{
	struct fp_growth *g = &v->paper.growth;

	g->inc = bic_paper_step(p, &v->phase, &v->paper.search,
				(u64)g->start * FP_PACKET + g->frac);
}

static inline u32 bic_paper_increase(const struct bic_params *p,
				     struct bic_vars *v, u32 *cnt,
				     const struct bic_ack *ack)
{
	struct fp_growth *g = &v->paper.growth;

	if (fp_growth_sync(g, cnt, ack->cwnd))
		bic_paper_round(p, v);
	if (fp_growth_count(g, cnt, ack->acked)) {
		bic_paper_probe_done(p, &v->paper.search);
		bic_paper_round(p, v);
	}
	return fp_growth_window(g, *cnt, ack->clamp);
}

/* Reno's window after a loss, or RFC 8511's after an ECN mark. */
static inline u32 bic_reno_decrease(u32 cwnd, bool ecn)
{
	return fp_max(ecn ? (u32)fp_div((u64)cwnd * 4, 5) : cwnd / 2, 2);
}

static inline u32 bic_paper_decrease(const struct bic_params *p,
				     struct bic_paper *b, u32 cwnd, bool ecn)
{
	u32 beta = ecn ? p->beta_ecn : p->beta;
	u64 w = (u64)cwnd * FP_PACKET, kept;

	b->before_loss = b->search;
	fp_growth_reset(&b->growth);
	b->search.open = 0;
	b->search.probe = 0;

	if (cwnd < p->low_window)
		return bic_reno_decrease(cwnd, ecn);

	kept = w * beta / BIC_BETA_SCALE;
	if (p->fast_convergence && w < b->search.wmax)
		b->search.wmax = (w + kept) / 2;
	else
		b->search.wmax = w;
	return fp_max((u32)((u64)cwnd * beta / BIC_BETA_SCALE), 2);
}

/* Acknowledged packets per packet of growth, as computed by mainline. */
static inline u32 bic_linux_cnt(const struct bic_params *p,
				const struct bic_linux *l, u32 *phase, u32 cwnd)
{
	u32 smax = fp_max(p->smax / FP_PACKET, 1);
	u64 flat = fp_div((u64)cwnd * FP_PACKET, p->smin);
	u64 cnt;

	if (cwnd <= p->low_window) {
		*phase = BIC_LOW_WINDOW;
		return cwnd;
	}

	if (cwnd < l->last_max) {
		u32 distance = (l->last_max - cwnd) / BIC_LINUX_B;

		*phase = distance > smax ? BIC_ADDITIVE : BIC_BINARY;
		if (distance > smax)
			cnt = cwnd / smax;
		else if (distance <= 1)
			cnt = flat;
		else
			cnt = cwnd / distance;
	} else {
		u32 beyond = cwnd - l->last_max;

		*phase = l->last_max ? BIC_PROBING : BIC_ADDITIVE;
		if (beyond < BIC_LINUX_B)
			cnt = flat;
		else if (beyond < smax * (BIC_LINUX_B - 1))
			cnt = fp_div((u64)cwnd * (BIC_LINUX_B - 1), beyond);
		else
			cnt = cwnd / smax;
	}

	if (!l->last_max)
		cnt = fp_min64(cnt, BIC_LINUX_UNSEEN_CNT);

	cnt = fp_div(cnt << BIC_LINUX_ACK_SHIFT, fp_max(l->ack_ratio, 1));
	return (u32)fp_max64(fp_min64(cnt, ~0U), 1);
}

static inline u32 bic_linux_increase(const struct bic_params *p,
				     struct bic_vars *v, u32 *cnt,
				     const struct bic_ack *ack)
{
	struct bic_linux *l = &v->linux_form;
	u32 before = fp_max(ack->cwnd, 1);
	u64 cwnd = before, counted;

	if (l->last_cwnd != before ||
	    (s32)(ack->now - l->last_time) > (s32)ack->recheck) {
		l->last_cwnd = before;
		l->last_time = ack->now;
		l->cnt = bic_linux_cnt(p, l, &v->phase, before);
	}

	/* A count left from a larger window adds one packet, not several. */
	if (*cnt >= l->cnt) {
		*cnt = 0;
		cwnd++;
	}

	counted = (u64)*cnt + ack->acked;
	cwnd += fp_div(counted, l->cnt);
	*cnt = (u32)(counted - fp_div(counted, l->cnt) * l->cnt);
	return (u32)fp_min64(cwnd, fp_max(ack->clamp, 1));
}

static inline u32 bic_linux_decrease(const struct bic_params *p,
				     struct bic_linux *l, u32 cwnd, bool ecn)
{
	u32 beta = ecn ? p->beta_ecn : p->beta;

	if (p->fast_convergence && cwnd < l->last_max)
		l->last_max = (u32)((u64)cwnd * (BIC_BETA_SCALE + beta) /
				    (2 * BIC_BETA_SCALE));
	else
		l->last_max = cwnd;

	if (cwnd <= p->low_window)
		return bic_reno_decrease(cwnd, ecn);
	return fp_max((u32)((u64)cwnd * beta / BIC_BETA_SCALE), 2);
}

/**
 * bic_increase() - compute the window after an ACK
 * @p: parameters
 * @v: state
 * @cnt: packets acknowledged towards growth (snd_cwnd_cnt)
 * @ack: the ACK
 *
 * Return: the new window [packets].
 */
static inline u32 bic_increase(const struct bic_params *p, struct bic_vars *v,
			       u32 *cnt, const struct bic_ack *ack)
{
	if (p->form == BIC_FORM_LINUX)
		return bic_linux_increase(p, v, cnt, ack);
	return bic_paper_increase(p, v, cnt, ack);
}

static inline u32 bic_reduce(const struct bic_params *p, struct bic_vars *v,
			     u32 cwnd, bool ecn)
{
	if (p->form == BIC_FORM_LINUX)
		return bic_linux_decrease(p, &v->linux_form, cwnd, ecn);
	return bic_paper_decrease(p, &v->paper, cwnd, ecn);
}

/**
 * bic_decrease() - compute the window after a loss
 * @p: parameters
 * @v: state
 * @cwnd: window at the loss [packets]
 *
 * Return: the reduced window [packets], at least 2.
 */
static inline u32 bic_decrease(const struct bic_params *p, struct bic_vars *v,
			       u32 cwnd)
{
	return bic_reduce(p, v, cwnd, false);
}

/**
 * bic_decrease_ecn() - compute the window after an ECN mark (RFC 8511)
 * @p: parameters
 * @v: state
 * @cwnd: window at the mark [packets], not in slow start
 *
 * A mark sets Wmax as a loss does.
 *
 * Return: the reduced window [packets], at least 2; without beta_ecn, as after
 * a loss.
 */
static inline u32 bic_decrease_ecn(const struct bic_params *p,
				   struct bic_vars *v, u32 cwnd)
{
	return bic_reduce(p, v, cwnd, p->beta_ecn != 0);
}

/**
 * bic_timeout() - handle a retransmission timeout
 * @p: parameters
 * @v: state
 *
 * Linux's form resets its state. The paper's form keeps Wmax: bic_decrease()
 * has already handled the loss.
 */
static inline void bic_timeout(const struct bic_params *p, struct bic_vars *v)
{
	if (p->form == BIC_FORM_LINUX)
		bic_linux_reset(&v->linux_form);
}

/**
 * bic_undo() - undo a spurious loss
 * @p: parameters
 * @v: state
 *
 * Linux's form keeps the state set by the spurious loss, as mainline does.
 */
static inline void bic_undo(const struct bic_params *p, struct bic_vars *v)
{
	if (p->form == BIC_FORM_PAPER) {
		v->paper.search = v->paper.before_loss;
		fp_growth_reset(&v->paper.growth);
	}
}

/**
 * bic_count_ack() - update the average number of packets per ACK
 * @p: parameters
 * @v: state
 * @packets: packets that the ACK covers, received in TCP_CA_Open
 */
static inline void bic_count_ack(const struct bic_params *p, struct bic_vars *v,
				 u32 packets)
{
	struct bic_linux *l = &v->linux_form;

	if (p->form == BIC_FORM_LINUX)
		l->ack_ratio += packets - (l->ack_ratio >> BIC_LINUX_ACK_SHIFT);
}

/**
 * bic_wmax() - report Wmax
 * @p: parameters
 * @v: state
 *
 * Return: Wmax [packets], 0 if unknown.
 */
static inline u32 bic_wmax(const struct bic_params *p, const struct bic_vars *v)
{
	if (p->form == BIC_FORM_LINUX)
		return v->linux_form.last_max;
	if (v->paper.search.open)
		return 0;
	return (u32)fp_div(v->paper.search.wmax, FP_PACKET);
}

/**
 * bic_step() - report the growth in this round-trip
 * @p: parameters
 * @v: state
 *
 * Return: growth [1/1000 packet], 0 before the first round-trip.
 */
static inline u32 bic_step(const struct bic_params *p, const struct bic_vars *v)
{
	const struct bic_linux *l = &v->linux_form;
	u64 cwnd = (u64)l->last_cwnd * FP_PACKET;

	if (p->form == BIC_FORM_PAPER)
		return v->paper.growth.inc;
	return l->cnt ? (u32)fp_min64(fp_div(cwnd, l->cnt), ~0U) : 0;
}

/**
 * bic_target() - report the window that the search moves to next
 * @p: parameters
 * @v: state
 * @cwnd: current window [packets]
 *
 * Return: target [packets], 0 if @cwnd is not below a known Wmax.
 */
static inline u32 bic_target(const struct bic_params *p,
			     const struct bic_vars *v, u32 cwnd)
{
	u32 wmax = bic_wmax(p, v);
	u32 parts = p->form == BIC_FORM_LINUX ? BIC_LINUX_B : 2;

	return wmax > cwnd ? cwnd + (wmax - cwnd) / parts : 0;
}

#endif /* BIC_CORE_H */
