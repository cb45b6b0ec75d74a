/* SPDX-License-Identifier: GPL-2.0 */
/*
 * BIC: binary increase congestion control.
 *
 * L. Xu, K. Harfoush, I. Rhee: Binary Increase Congestion Control (BIC) for
 * Fast Long-Distance Networks, INFOCOM 2004; and the authors' slides.
 *
 * BIC searches for the window that the path can bear. The last loss gave an
 * upper bound, Wmax; what was fine for a round-trip is a lower one, Wmin. Per
 * round-trip, the window moves to the middle of the two, but by no more than
 * Smax (far from Wmax: additive increase) and no less than Smin (the search is
 * over). Beyond Wmax the bound has proved wrong: max probing looks for a new
 * one, slowly at first (1, 2, 4 ... packets per round-trip), then by Smax. A
 * loss sets Wmax and multiplies the window by beta; if Wmax is lower than the
 * one before, somebody else is growing, and it is set lower still to make room
 * (fast convergence). Below low_window, BIC is Reno.
 *
 * Two forms of it are in use, and both are here:
 *
 * - BIC_FORM_PAPER is that text. growth.h counts the increase, so a fraction
 *   like Smin = 0.01 packet per round-trip is honoured.
 * - BIC_FORM_LINUX is what Linux has made of it since 2.6.6: a quarter of the
 *   distance to Wmax per round-trip instead of half, a flat zone of 4 packets
 *   on either side of Wmax, at least 5 % per round-trip while no loss was seen,
 *   integers rounded down, and growth scaled up for receivers that delay ACKs.
 *   With mainline's constants it computes the same window, ACK for ACK.
 *
 * What the paper leaves open is decided so: a flow that lost while probing had
 * passed its Wmax, so that is no reason for fast convergence (the pseudo-code
 * sets Wmax to infinity when probing starts, which would always be one); a
 * time-out is a loss like another for Wmax, and slow start follows as in Reno;
 * when the stack finds that a loss was none, the search is taken up again where
 * it was left.
 *
 * Rates of growth are in thousandths of a packet per round-trip; beta is in
 * units of 1/1024, in which both 7/8 and mainline's 819/1024 are exact.
 */
#ifndef BIC_CORE_H
#define BIC_CORE_H

#include <fairpath/growth.h>

#define BIC_BETA_SCALE 1024U

/* Mainline's constants that are no parameters: BICTCP_B, its ACK ratio. */
#define BIC_LINUX_B 4U
#define BIC_LINUX_ACK_SHIFT 4U
#define BIC_LINUX_UNSEEN_CNT 20U

enum bic_form {
	BIC_FORM_PAPER,
	BIC_FORM_LINUX,
};

enum bic_phase {
	BIC_SLOW_START, /* set by the stack */
	BIC_LOW_WINDOW, /* as Reno */
	BIC_ADDITIVE, /* far below Wmax, or no Wmax known */
	BIC_BINARY, /* halving the distance to Wmax */
	BIC_PROBING, /* above Wmax */
};

/**
 * struct bic_params - what makes one BIC differ from another
 * @smax: largest increase per round-trip [1/1000 packet], 1 to 1000000
 * @smin: smallest increase per round-trip [1/1000 packet], 1 to @smax
 * @beta: part of the window kept after a loss [1/1024], 1 to 1023
 * @low_window: below this (Linux: up to this) be Reno [packets]
 * @fast_convergence: 1 to make room for growing flows, else 0
 * @form: one of enum bic_form
 */
struct bic_params {
	u32 smax;
	u32 smin;
	u32 beta;
	u32 low_window;
	u32 fast_convergence;
	u32 form;
};

/**
 * struct bic_search - what the paper's form knows of the path
 * @wmax: window at the last loss [1/1000 packet], 0 before the first
 * @open: the window has left Wmax behind: there is no upper bound
 * @probe: step of max probing [1/1000 packet], 0 when not probing
 */
struct bic_search {
	u64 wmax;
	u32 open;
	u32 probe;
};

/**
 * struct bic_paper - state of the paper's form
 * @search: the search
 * @before_loss: the search as it was before the last loss
 * @growth: of the window in this round-trip
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
 * @last_time: and when [ticks]
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
 * struct bic_vars - a connection's state
 * @phase: one of enum bic_phase
 * @paper: if params.form is BIC_FORM_PAPER
 * @linux_form: if it is BIC_FORM_LINUX
 */
struct bic_vars {
	u32 phase;
	union {
		struct bic_paper paper;
		struct bic_linux linux_form;
	};
};

/**
 * struct bic_ack - what an ACK brings
 * @cwnd: the window [packets], at least 1, not in slow start
 * @clamp: the window must not exceed this [packets]
 * @acked: packets newly acknowledged
 * @now: clock [ticks], used by Linux's form only, wraps
 * @recheck: ticks after which Linux's form looks again, though @cwnd is the same
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
 * bic_init() - a connection begins
 * @p: parameters
 * @v: state, all zero
 */
static inline void bic_init(const struct bic_params *p, struct bic_vars *v)
{
	if (p->form == BIC_FORM_LINUX)
		bic_linux_reset(&v->linux_form);
}

/* The step of the round-trip that begins at window w [1/1000 packet]. */
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
		/* Found to be wrong below Wmax: the search goes on there. */
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

/* A round of max probing is over without a loss: be bolder in the next. */
static inline void bic_paper_probed(const struct bic_params *p,
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
		bic_paper_probed(p, &v->paper.search);
		bic_paper_round(p, v);
	}
	return fp_growth_window(g, *cnt, ack->clamp);
}

static inline u32 bic_paper_decrease(const struct bic_params *p,
				     struct bic_paper *b, u32 cwnd)
{
	u64 w = (u64)cwnd * FP_PACKET, kept;

	b->before_loss = b->search;
	fp_growth_reset(&b->growth);
	b->search.open = 0;
	b->search.probe = 0;

	if (cwnd < p->low_window)
		return fp_max(cwnd / 2, 2);

	kept = w * p->beta / BIC_BETA_SCALE;
	if (p->fast_convergence && w < b->search.wmax)
		b->search.wmax = (w + kept) / 2;
	else
		b->search.wmax = w;
	return fp_max((u32)((u64)cwnd * p->beta / BIC_BETA_SCALE), 2);
}

/* Packets to be acknowledged for one packet of growth, as mainline has it. */
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
	u64 cwnd = ack->cwnd, counted;

	if (l->last_cwnd != ack->cwnd ||
	    (s32)(ack->now - l->last_time) > (s32)ack->recheck) {
		l->last_cwnd = ack->cwnd;
		l->last_time = ack->now;
		l->cnt = bic_linux_cnt(p, l, &v->phase, ack->cwnd);
	}

	/* A count from a larger window is worth one packet, not several. */
	if (*cnt >= l->cnt) {
		*cnt = 0;
		cwnd++;
	}

	counted = (u64)*cnt + ack->acked;
	cwnd += fp_div(counted, l->cnt);
	*cnt = (u32)(counted - fp_div(counted, l->cnt) * l->cnt);
	return (u32)fp_min64(cwnd, ack->clamp);
}

static inline u32 bic_linux_decrease(const struct bic_params *p,
				     struct bic_linux *l, u32 cwnd)
{
	if (p->fast_convergence && cwnd < l->last_max)
		l->last_max = (u32)((u64)cwnd * (BIC_BETA_SCALE + p->beta) /
				    (2 * BIC_BETA_SCALE));
	else
		l->last_max = cwnd;

	if (cwnd <= p->low_window)
		return fp_max(cwnd / 2, 2);
	return fp_max((u32)((u64)cwnd * p->beta / BIC_BETA_SCALE), 2);
}

/**
 * bic_increase() - the window after packets were newly acknowledged
 * @p: parameters
 * @v: state
 * @cnt: packets acknowledged so far towards growth, kept by the caller
 * @ack: the ACK
 *
 * Return: the window [packets].
 */
static inline u32 bic_increase(const struct bic_params *p, struct bic_vars *v,
			       u32 *cnt, const struct bic_ack *ack)
{
	if (p->form == BIC_FORM_LINUX)
		return bic_linux_increase(p, v, cnt, ack);
	return bic_paper_increase(p, v, cnt, ack);
}

/**
 * bic_decrease() - the window to go on with after a loss
 * @p: parameters
 * @v: state
 * @cwnd: the window at the loss [packets]
 *
 * Return: the reduced window [packets], at least 2.
 */
static inline u32 bic_decrease(const struct bic_params *p, struct bic_vars *v,
			       u32 cwnd)
{
	if (p->form == BIC_FORM_LINUX)
		return bic_linux_decrease(p, &v->linux_form, cwnd);
	return bic_paper_decrease(p, &v->paper, cwnd);
}

/**
 * bic_timeout() - everything in flight is taken for lost
 * @p: parameters
 * @v: state
 *
 * Linux forgets all it knew. The paper's form has taken the loss already, in
 * bic_decrease(), and keeps its bound.
 */
static inline void bic_timeout(const struct bic_params *p, struct bic_vars *v)
{
	if (p->form == BIC_FORM_LINUX)
		bic_linux_reset(&v->linux_form);
}

/**
 * bic_undo() - the last loss was none
 * @p: parameters
 * @v: state
 *
 * Linux's form keeps what it has learnt from the wrong loss, as mainline does.
 */
static inline void bic_undo(const struct bic_params *p, struct bic_vars *v)
{
	if (p->form == BIC_FORM_PAPER) {
		v->paper.search = v->paper.before_loss;
		fp_growth_reset(&v->paper.growth);
	}
}

/**
 * bic_count_ack() - follow how many packets an ACK covers
 * @p: parameters
 * @v: state
 * @packets: covered by the ACK that came in, with no loss under repair
 */
static inline void bic_count_ack(const struct bic_params *p, struct bic_vars *v,
				 u32 packets)
{
	struct bic_linux *l = &v->linux_form;

	if (p->form == BIC_FORM_LINUX)
		l->ack_ratio += packets - (l->ack_ratio >> BIC_LINUX_ACK_SHIFT);
}

/**
 * bic_wmax() - the window that the search is about [packets], 0 if none
 * @p: parameters
 * @v: state
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
 * bic_step() - growth in this round-trip [1/1000 packet], 0 before the first
 * @p: parameters
 * @v: state
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
 * bic_target() - where the search would like to be next [packets], 0 if unbounded
 * @p: parameters
 * @v: state
 * @cwnd: the window [packets]
 */
static inline u32 bic_target(const struct bic_params *p,
			     const struct bic_vars *v, u32 cwnd)
{
	u32 wmax = bic_wmax(p, v);
	u32 parts = p->form == BIC_FORM_LINUX ? BIC_LINUX_B : 2;

	return wmax > cwnd ? cwnd + (wmax - cwnd) / parts : 0;
}

#endif /* BIC_CORE_H */
