// SPDX-License-Identifier: GPL-2.0
/*
 * bic_core.h, the paper's form, against an exact model and the paper's
 * formulas.
 *
 * The model below implements the paper and the head of bic_core.h per
 * round-trip, with model.h's rational windows. It rounds growth down to
 * thousandths of a packet per round-trip, the unit of the parameters.
 */
#include <math.h>

#include "model.h"

#include <tcp_bic/bic_core.h>

/* The paper's: Smax 32, Smin 0.01, reduction by 1/8, Reno below 14 packets. */
static const struct bic_params paper = {
	.smax = 32000,
	.smin = 10,
	.beta = 896,
	.low_window = 14,
	.fast_convergence = 1,
	.form = BIC_FORM_PAPER,
};

/**
 * struct search - state of the search
 * @wmax: window at the last loss, 0 before the first
 * @unbounded: max probing ended without a loss: there is no upper bound
 * @probing: this round-trip belongs to max probing
 * @probes: previous round-trips of max probing without a loss
 */
struct search {
	struct rat wmax;
	bool unbounded;
	bool probing;
	u32 probes;
};

struct bic_model {
	struct bic_params p;
	struct model m;
	struct search now;
	struct search before_loss;
	u32 phase;
};

static void bic_model_begin(struct bic_model *b, const struct bic_params *p)
{
	*b = (struct bic_model){
		.p = *p,
		.now.wmax = rat(0, 1000),
		.before_loss.wmax = rat(0, 1000),
	};
	model_forget(&b->m);
}

/* The increment for the round-trip that starts. */
static struct rat bic_model_step(struct bic_model *b)
{
	struct rat smax = rat(b->p.smax, 1000), smin = rat(b->p.smin, 1000);
	struct rat w = b->m.window, left, step;
	struct search *s = &b->now;
	bool probing = s->probing;

	s->probing = false;
	if (rat_less(w, rat(b->p.low_window, 1))) {
		b->phase = BIC_LOW_WINDOW;
		return rat(1, 1);
	}

	if (!s->wmax.n || s->unbounded) {
		b->phase = BIC_ADDITIVE;
		return smax;
	}

	if (rat_less(w, s->wmax)) {
		left = rat_sub(s->wmax, w);
		step = rat(left.n, left.d * 2);
		step = rat_thousandths(rat_min(rat_max(step, smin), smax));
		b->phase = rat_less(step, smax) ? BIC_BINARY : BIC_ADDITIVE;
		return rat_min(step, left);
	}

	if (!probing)
		s->probes = 0;
	s->probing = true;
	b->phase = BIC_PROBING;
	return rat_min(rat((u128)1 << s->probes, 1), smax);
}

static void bic_model_round(struct bic_model *b)
{
	b->m.step = rat_thousandths(bic_model_step(b));
}

static u64 bic_model_ack(struct bic_model *b, const struct bic_ack *ack)
{
	if (model_see(&b->m, ack->cwnd))
		bic_model_round(b);
	if (model_ack(&b->m, ack->acked)) {
		if (b->now.probing &&
		    !rat_less(rat((u128)2 << b->now.probes, 1),
			      rat(b->p.smax, 1000))) {
			b->now.unbounded = true;
			b->now.probing = false;
		}
		b->now.probes++;
		bic_model_round(b);
	}
	return model_window(&b->m, ack->clamp);
}

static u64 bic_model_loss(struct bic_model *b, u32 cwnd)
{
	struct rat w = rat((u128)cwnd * 1000, 1000);
	struct rat kept = rat((u128)cwnd * b->p.beta, 1024);

	b->before_loss = b->now;
	model_forget(&b->m);
	b->now.unbounded = false;
	b->now.probing = false;
	if (cwnd < b->p.low_window)
		return rat_floor(rat_max(rat(cwnd, 2), rat(2, 1)));

	if (b->p.fast_convergence && rat_less(w, b->now.wmax)) {
		struct rat sum = rat_add(w, kept);

		b->now.wmax = rat_thousandths(rat(sum.n, sum.d * 2));
	} else {
		b->now.wmax = w;
	}
	return rat_floor(rat_max(kept, rat(2, 1)));
}

static void bic_model_undo(struct bic_model *b)
{
	b->now = b->before_loss;
	model_forget(&b->m);
}

/* Valid parameters: the defaults, near them, or random. */
static struct bic_params random_params(void)
{
	struct bic_params p = paper;

	if (one_in(4))
		return p;
	p.smax = one_in(2) ? rnd_size(1, 1000000) : 1000 * rnd_size(1, 1000);
	p.smin = rnd_size(1, p.smax);
	p.beta = one_in(2) ? rnd_in(700, 1023) : rnd_in(1, 1023);
	p.low_window = one_in(2) ? rnd_in(0, 20) : rnd_size(0, 1000000);
	p.fast_convergence = rnd_in(0, 1);
	return p;
}

/**
 * struct both - a connection of the core and of the model
 * @v: state of the core
 * @b: state of the model
 * @ack: the next ACK
 * @cnt: snd_cwnd_cnt
 * @cwnd: window [packets]
 * @window_max: maximum window [packets]
 * @lost: a loss occurred that can be undone
 */
struct both {
	struct bic_vars v;
	struct bic_model b;
	struct bic_ack ack;
	u32 cnt;
	u32 cwnd;
	u32 window_max;
	bool lost;
};

static void both_begin(struct both *c)
{
	bic_model_begin(&c->b, &(struct bic_params){ 0 });
	c->b.p = random_params();
	c->v = (struct bic_vars){ 0 };
	bic_init(&c->b.p, &c->v);
	c->window_max = rnd_size(1, 1U << 31);
	c->cwnd = rnd_size(1, c->window_max);
	c->ack.clamp = c->window_max;
	c->cnt = 0;
	c->lost = false;
}

static void both_loss(struct both *c)
{
	u32 kept = bic_decrease(&c->b.p, &c->v, c->cwnd);

	CHECK(kept == bic_model_loss(&c->b, c->cwnd), "loss at %u: %u", c->cwnd,
	      kept);
	c->lost = true;
	if (one_in(4)) {
		bic_timeout(&c->b.p, &c->v);
		kept = 1;
	}
	c->cwnd = fp_min(kept, c->window_max);
	c->cnt = 0;
	c->b.m.counted = 0;
}

/* Mostly none: changes by the stack, losses, and their undo. */
static void both_event(struct both *c)
{
	switch (rnd_in(0, 199)) {
	case 0: /* recovery, restart, slow start */
		c->cwnd = rnd_size(1, c->window_max);
		break;
	case 1:
		c->cwnd = fp_min(c->cwnd + rnd_in(1, 2), c->window_max);
		break;
	case 2:
		c->cwnd = fp_max(c->cwnd - fp_min(c->cwnd, rnd_in(0, 20)), 1);
		break;
	case 3:
		c->cnt = 0;
		c->b.m.counted = 0;
		break;
	case 4:
		c->ack.clamp =
			one_in(2) ? c->window_max : rnd_size(1, c->window_max);
		break;
	case 5:
	case 6:
		both_loss(c);
		break;
	case 7:
		if (!c->lost)
			break;
		c->lost = false;
		bic_undo(&c->b.p, &c->v);
		bic_model_undo(&c->b);
		if (one_in(2))
			c->cwnd = rnd_size(c->cwnd, c->window_max);
		break;
	default:
		break;
	}
}

static void both_ack(struct both *c)
{
	struct bic_model *b = &c->b;
	struct bic_ack *ack = &c->ack;

	ack->cwnd = c->cwnd;
	/* Often a whole window, to test many round-trips. */
	ack->acked = one_in(2) ? c->cwnd : rnd_size(1, c->cwnd);
	if (one_in(100))
		ack->acked += rnd_in(0, 3) * c->cwnd / 2;
	c->cwnd = bic_increase(&b->p, &c->v, &c->cnt, ack);

	CHECK(c->cwnd == bic_model_ack(b, ack),
	      "ACK of %u at %u: window %u, model %llu", ack->acked, ack->cwnd,
	      c->cwnd, b->m.shown);
	CHECK(c->cnt == b->m.counted, "ACK of %u at %u: count %u, model %llu",
	      ack->acked, ack->cwnd, c->cnt, b->m.counted);
	CHECK(bic_step(&b->p, &c->v) == b->m.step.n,
	      "at window %u: step %u, model %u, phase %u", c->cwnd,
	      bic_step(&b->p, &c->v), (u32)b->m.step.n, b->phase);
	CHECK(c->v.phase == b->phase, "at window %u: phase %u, model %u",
	      c->cwnd, c->v.phase, b->phase);
	CHECK(bic_wmax(&b->p, &c->v) ==
		      (b->now.unbounded ? 0 : rat_floor(b->now.wmax)),
	      "wmax %u, model %llu", bic_wmax(&b->p, &c->v),
	      rat_floor(b->now.wmax));
}

UNIT_TEST(exact_model)
{
	struct both c = { 0 };
	u32 left = 0;

	for (; unit_step < 10000000; unit_step++) {
		if (!left--) {
			left = rnd_size(1, 5000);
			both_begin(&c);
		}
		both_event(&c);
		both_ack(&c);
	}
}

/* A connection that advances by round-trips. */
struct flow {
	struct bic_params p;
	struct bic_vars v;
	u32 cnt;
	u32 cwnd;
};

static struct flow flow_begin(const struct bic_params *p, u32 cwnd)
{
	struct flow f = { .p = *p, .cwnd = cwnd };

	bic_init(&f.p, &f.v);
	return f;
}

static void flow_ack(struct flow *f, u32 acked)
{
	struct bic_ack ack = { .cwnd = f->cwnd, .clamp = ~0U, .acked = acked };

	f->cwnd = bic_increase(&f->p, &f->v, &f->cnt, &ack);
}

/* Acknowledge a whole window. */
static void flow_trip(struct flow *f)
{
	flow_ack(f, f->cwnd);
	unit_step++;
}

static void flow_loss(struct flow *f)
{
	f->cwnd = bic_decrease(&f->p, &f->v, f->cwnd);
	f->cnt = 0;
}

/* One ACK per packet and stretch ACKs up to a window give the same result. */
UNIT_TEST(stretch_acks_equal_single_acks)
{
	while (unit_step < 20000000) {
		struct bic_params p = random_params();
		struct flow single = flow_begin(&p, rnd_size(1, 3000));
		struct flow stretched;
		u32 acks = rnd_in(1, 100), i;

		stretched = single;
		for (; acks && single.cwnd < 20000; acks--) {
			u32 acked = one_in(4) ? stretched.cwnd :
						rnd_size(1, stretched.cwnd);

			if (one_in(30)) {
				flow_loss(&single);
				flow_loss(&stretched);
				acked = fp_min(acked, stretched.cwnd);
			}
			for (i = 0; i < acked; i++, unit_step++)
				flow_ack(&single, 1);
			flow_ack(&stretched, acked);
			CHECK(single.cwnd == stretched.cwnd &&
				      single.cnt == stretched.cnt &&
				      single.v.phase == stretched.v.phase,
			      "single ACKs %u+%u, stretch ACKs, last of %u: %u+%u",
			      single.cwnd, single.cnt, acked, stretched.cwnd,
			      stretched.cnt);
		}
	}
}

/*
 * From beta Wmax back to Wmax. For a reduction by D = (1 - beta) Wmax, the
 * paper computes
 *
 *	N1 = max(ceil(D / Smax) - 2, 0)		of additive increase, then
 *	N2 = log2((D - N1 Smax) / Smin) + 2	of binary search
 *
 * round-trips. Here: additive while half of the distance is Smax or more, that
 * is N1 round-trips (one more if Smax divides D). Then the distance d halves
 * until half of it is below Smin, in ceil(log2(d / Smin)) - 1 round-trips; one
 * round-trip of Smin follows, and one for the rest, if any. That is N2 minus 1
 * or 2; rounding d / 2 down can save at most one more.
 */
UNIT_TEST(round_trips_to_wmax)
{
	while (unit_step < 3000000) {
		struct bic_params p = paper;
		u32 wmax = rnd_size(100, 1000000), trips = 0;
		double d, smax, smin, n1, n2;
		struct flow f;

		if (one_in(2)) {
			p.smax = 1000 * rnd_size(1, 1000);
			p.smin = rnd_size(1, p.smax);
			p.beta = rnd_in(512, 1023);
		}
		f = flow_begin(&p, wmax);
		flow_loss(&f);
		d = (double)wmax - f.cwnd;
		smax = p.smax / 1000.0;
		smin = p.smin / 1000.0;
		n1 = fmax(ceil(d / smax) - 2, 0);
		n2 = fmax(log2((d - n1 * smax) / smin), 0) + 2;

		while (f.cwnd < wmax) {
			flow_trip(&f);
			trips++;
		}
		CHECK(trips <= n1 + n2 && trips >= n1 + n2 - 3,
		      "from %.0f to %u, steps %g to %g: %u round-trips, not %.0f + %.1f",
		      wmax - d, wmax, smin, smax, trips, n1, n2);
	}
}

/* The slides' parameters, with numbers that can be verified by hand. */
UNIT_TEST(round_trips_to_wmax_of_1024)
{
	static const u32 halves[] = { 64000, 32000, 16000, 8000, 4000,
				      2000,  1000,  500,   250,	 125,
				      63,    32,    16,	   6,	 0 };
	struct flow f = flow_begin(&paper, 1024);
	size_t i;

	flow_loss(&f);
	assert_int_equal(f.cwnd, 896);

	/*
	 * Distance 128 packets: steps of 32, 32, 32 (half of 64), 16, 8 ...
	 * down to a distance of 0.016, then Smin, 0.010, and the rest.
	 */
	flow_trip(&f);
	assert_int_equal(f.cwnd, 928);
	assert_int_equal(f.v.phase, BIC_ADDITIVE);
	flow_trip(&f);
	for (i = 0; i < ARRAY_SIZE(halves); i++) {
		u32 w = 1024000 - halves[i];

		assert_int_equal(f.cwnd, w / 1000);
		assert_int_equal(f.v.paper.growth.start * 1000 +
					 f.v.paper.growth.frac,
				 w);
		assert_int_equal(f.v.phase, i < 1     ? BIC_ADDITIVE :
					    halves[i] ? BIC_BINARY :
							BIC_PROBING);
		flow_trip(&f);
	}
}

/* Fractional steps are neither rounded up nor lost. */
UNIT_TEST(fractional_smin_is_exact)
{
	static const u32 smins[] = { 1, 3, 10, 37, 999 };
	struct bic_params p = paper;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(smins); i++) {
		struct flow f;
		u32 start, n;

		p.smin = p.smax = smins[i];
		f = flow_begin(&p, 1000);
		flow_loss(&f);
		start = f.cwnd;
		for (n = 1; n <= 20000; n++) {
			u32 want = start + (u32)((u64)n * smins[i] / 1000);
			u32 stretch = rnd_in(1, f.cwnd);
			u32 flight = f.cwnd;

			if (want > 999)
				break;
			flow_ack(&f, stretch);
			if (flight > stretch)
				flow_ack(&f, flight - stretch);
			unit_step++;
			CHECK(f.cwnd == want, "%u x %u/1000 from %u: %u", n,
			      smins[i], start, f.cwnd);
		}
	}
}

/* The search never decreases, never exceeds Wmax, and reaches it exactly. */
UNIT_TEST(search_converges_to_wmax)
{
	while (unit_step < 5000000) {
		struct bic_params p = random_params();
		struct flow f = flow_begin(&p, rnd_size(2, 100000));
		u32 wmax = f.cwnd, trips = 0;

		p.low_window = f.p.low_window = 0;
		flow_loss(&f);
		while (f.cwnd < wmax && trips < 10000) {
			u32 before = f.cwnd, flight = f.cwnd, acked;

			while (flight) {
				acked = rnd_size(1, flight);
				flow_ack(&f, acked);
				flight -= acked;
				unit_step++;
			}
			trips++;
			CHECK(f.cwnd >= before && f.cwnd <= wmax,
			      "search for %u: %u to %u", wmax, before, f.cwnd);
			CHECK(f.cwnd < wmax || f.v.phase == BIC_PROBING,
			      "at %u: phase %u", wmax, f.v.phase);
		}
		CHECK(f.v.paper.growth.frac == 0 || f.cwnd < wmax,
		      "reached %u + %u/1000, not %u", f.cwnd,
		      f.v.paper.growth.frac, wmax);
	}
}

/* 1, 2, 4, 8, 16 packets per round-trip, then 32. */
UNIT_TEST(max_probing)
{
	static const u32 steps[] = { 1, 2, 4, 8, 16, 32, 32, 32, 32 };
	struct flow f = flow_begin(&paper, 400);
	u32 before;
	size_t i;

	flow_loss(&f);
	while (f.cwnd < 400)
		flow_trip(&f);

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		assert_int_equal(f.v.phase, i < 5 ? BIC_PROBING : BIC_ADDITIVE);
		assert_int_equal(bic_wmax(&f.p, &f.v), i < 5 ? 400 : 0);
		before = f.cwnd;
		flow_trip(&f);
		assert_int_equal(f.cwnd - before, steps[i]);
	}

	/* A loss above Wmax sets it, without fast convergence. */
	before = f.cwnd;
	flow_loss(&f);
	assert_int_equal(bic_wmax(&f.p, &f.v), before);
	assert_int_equal(f.cwnd, before * 7 / 8);
}

/* Before the first loss, after slow start ended without one: Smax. */
UNIT_TEST(additive_without_wmax)
{
	struct flow f = flow_begin(&paper, 14);
	u32 n;

	for (n = 1; n <= 100; n++) {
		flow_trip(&f);
		assert_int_equal(f.cwnd, 14 + 32 * n);
		assert_int_equal(f.v.phase, BIC_ADDITIVE);
	}
}

/* Wmax below the previous one: another flow grows; set 0.9375 of the window. */
UNIT_TEST(fast_convergence)
{
	struct bic_params never = paper;
	struct flow f = flow_begin(&paper, 1000);

	flow_loss(&f);
	assert_int_equal(f.v.paper.search.wmax, 1000000);
	assert_int_equal(f.cwnd, 875);

	f.cwnd = 1000;
	flow_loss(&f);
	assert_int_equal(f.v.paper.search.wmax, 1000000);

	f.cwnd = 999;
	flow_loss(&f);
	assert_int_equal(f.v.paper.search.wmax, 936562);
	assert_int_equal(f.cwnd, 874);

	f.cwnd = 800;
	flow_loss(&f);
	assert_int_equal(f.v.paper.search.wmax, 750000);

	/* Above the previous Wmax of 750. */
	f.cwnd = 751;
	flow_loss(&f);
	assert_int_equal(f.v.paper.search.wmax, 751000);

	never.fast_convergence = 0;
	f = flow_begin(&never, 1000);
	flow_loss(&f);
	f.cwnd = 800;
	flow_loss(&f);
	assert_int_equal(f.v.paper.search.wmax, 800000);
}

/* Below 14 packets: 1 packet per round-trip, halve at a loss, keep Wmax. */
UNIT_TEST(reno_below_the_low_window)
{
	struct flow f = flow_begin(&paper, 100);
	u32 n;

	flow_loss(&f);
	f.cwnd = 4;
	for (n = 5; n <= 14; n++) {
		flow_trip(&f);
		assert_int_equal(f.cwnd, n);
		assert_int_equal(f.v.phase,
				 n < 14 ? BIC_LOW_WINDOW : BIC_ADDITIVE);
	}
	f.cwnd = 13;
	flow_loss(&f);
	assert_int_equal(f.cwnd, 6);
	f.cwnd = 3;
	flow_loss(&f);
	assert_int_equal(f.cwnd, 2);
	assert_int_equal(bic_wmax(&f.p, &f.v), 100);

	f.cwnd = 14;
	flow_loss(&f);
	assert_int_equal(f.cwnd, 12);
	assert_int_equal(bic_wmax(&f.p, &f.v), 13);
}

/*
 * A restart during max probing: round-trips below the low window are no probes,
 * and Wmax is kept.
 */
UNIT_TEST(reno_rounds_do_not_probe)
{
	struct flow f = flow_begin(&paper, 400);
	u32 before;

	flow_loss(&f);
	while (f.v.phase != BIC_PROBING)
		flow_trip(&f);
	flow_trip(&f);
	flow_trip(&f);
	assert_int_equal(f.cwnd, 403);

	f.cwnd = 5;
	while (f.cwnd < 14)
		flow_trip(&f);
	assert_int_equal(bic_wmax(&f.p, &f.v), 400);
	while (f.cwnd < 400)
		flow_trip(&f);
	before = f.cwnd;
	flow_trip(&f);
	assert_int_equal(f.cwnd, before + 1);
}

/* A timeout sets Wmax like any other loss, and the search resumes. */
UNIT_TEST(timeout_keeps_wmax)
{
	struct flow f = flow_begin(&paper, 1000);

	flow_loss(&f);
	bic_timeout(&f.p, &f.v);
	assert_int_equal(bic_wmax(&f.p, &f.v), 1000);

	f.cwnd = 1;
	while (f.cwnd < 875)
		f.cwnd *= 2;
	f.cwnd = 875;
	flow_trip(&f);
	assert_int_equal(f.cwnd, 907);
	assert_int_equal(bic_target(&f.p, &f.v, f.cwnd), 907 + 93 / 2);
}

/* After a spurious loss while probing, probing continues unchanged. */
UNIT_TEST(undo_resumes_the_search)
{
	struct flow f = flow_begin(&paper, 400), g;
	u32 n;

	flow_loss(&f);
	while (f.v.phase != BIC_PROBING)
		flow_trip(&f);
	flow_trip(&f);
	flow_trip(&f);
	g = f;

	flow_loss(&f);
	flow_trip(&f);
	assert_int_equal(bic_wmax(&f.p, &f.v), 403);
	bic_undo(&f.p, &f.v);
	f.cwnd = g.cwnd;
	for (n = 0; n < 10; n++) {
		flow_trip(&f);
		flow_trip(&g);
		assert_int_equal(f.cwnd, g.cwnd);
		assert_int_equal(f.v.phase, g.v.phase);
	}
}

/*
 * The response function, for one loss per @packets packets:
 *
 *	Wmax = (-b + root) / 2 a,	root = sqrt(b^2 + 4 a (c + packets)),
 *	a = d (2 - d) / 2 Smax,		b = log2(Smax / Smin) + (2 - d) / 2,
 *	c = Smax - Smin, with the reduction d = 1 - beta, for d Wmax > 2 Smax
 *
 * and the mean window, in packets per round-trip,
 *
 *	(2 - d) packets / (root + (1 - d) b + d (2 - d) / 2).
 */
static double response(double packets, double *wmax)
{
	double d = 1 - paper.beta / 1024.0;
	double smax = paper.smax / 1000.0, smin = paper.smin / 1000.0;
	double a = d * (2 - d) / (2 * smax);
	double b = log2(smax / smin) + (2 - d) / 2;
	double root = sqrt(b * b + 4 * a * (smax - smin + packets));

	*wmax = (root - b) / (2 * a);
	return (2 - d) * packets / (root + (1 - d) * b + d * (2 - d) / 2);
}

/*
 * The formula assumes whole round-trips and a loss exactly when Wmax is
 * reached. The loss is up to a round-trip later, so the result lies between the
 * formula's values for all packets and for one window fewer.
 */
UNIT_TEST(response_function)
{
	static const struct {
		double p, tolerance;
	} points[] = {
		{ 4.1e-8, 0.01 }, { 5.9e-7, 0.01 }, { 5e-6, 0.01 },
		{ 6.5e-6, 0.01 }, { 3e-5, 0.03 },   { 1e-4, 0.05 },
		{ 3e-4, 0.1 },	  { 6e-4, 0.1 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(points); i++) {
		double p = points[i].p, tolerance = points[i].tolerance;
		double peak = 0, packets = 0, trips = 0, rate;
		double high_peak, high_rate, low_peak, low_rate;
		struct flow f;
		u32 losses;

		high_rate = response(1 / p, &high_peak);
		low_rate = response(1 / p - high_peak, &low_peak);

		f = flow_begin(&paper, (u32)high_peak / 2);
		for (losses = 0; losses < 300; losses++) {
			u64 left = (u64)(1 / p);

			while (left) {
				u32 acked = (u32)fp_min64(left, f.cwnd / 4 + 1);

				left -= acked;
				if (losses >= 100) {
					packets += acked;
					trips += (double)acked / f.cwnd;
				}
				flow_ack(&f, acked);
				unit_step++;
			}
			if (losses >= 100)
				peak += f.cwnd / 200.0;
			flow_loss(&f);
		}

		rate = packets / trips;
		CHECK(peak > low_peak * (1 - tolerance) &&
			      peak < high_peak * (1 + tolerance),
		      "p %g: Wmax %g, formula %g to %g", p, peak, low_peak,
		      high_peak);
		CHECK(rate > low_rate * (1 - tolerance) &&
			      rate < high_rate * (1 + tolerance),
		      "p %g: %g packets per round-trip, formula %g to %g", p,
		      rate, low_rate, high_rate);
		print_message("# p %g: Wmax %.0f, formula %.0f to %.0f\n", p,
			      peak, low_peak, high_peak);
	}
}

UNIT_MAIN()
