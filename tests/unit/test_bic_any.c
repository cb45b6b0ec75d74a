// SPDX-License-Identifier: GPL-2.0
/*
 * bic_core.h, both forms: random parameters and random calls.
 *
 * For any calls and any parameters within the ranges that the module accepts:
 * no division by zero, no undefined behaviour, a window from 1 to the clamp,
 * ACKs never reduce the window, losses never increase it.
 */
#include "unit.h"

#include <tcp_bic/bic_core.h>

static struct bic_params random_params(u32 form)
{
	struct bic_params p = {
		.smax = rnd_size(1, 1000000),
		.beta = rnd_in(1, BIC_BETA_SCALE - 1),
		.low_window = rnd_size(0, 1000000),
		.fast_convergence = rnd_in(0, 1),
		.form = form,
	};

	p.smin = rnd_size(1, p.smax);
	p.beta_ecn = one_in(2) ? 0 : rnd_in(p.beta, BIC_BETA_SCALE - 1);
	return p;
}

static void random_calls(u32 form)
{
	struct bic_params p = { 0 };
	struct bic_vars v = { 0 };
	u32 cnt = 0, cwnd = 0, window_max = 0, before, ratio;
	struct bic_ack ack = { 0 };

	for (; unit_step < 5000000; unit_step++) {
		if (unit_step % 100 == 0) {
			p = random_params(form);
			v = (struct bic_vars){ 0 };
			bic_init(&p, &v);
			window_max = one_in(2) ? ~0U : rnd_size(1, ~0U);
			cwnd = rnd_size(1, window_max);
			cnt = one_in(2) ? 0 : rnd_size(0, ~0U);
		}

		before = cwnd;
		switch (rnd_in(0, 19)) {
		case 0:
			cwnd = rnd_size(1, window_max);
			break;
		case 1:
		case 2:
			cwnd = one_in(2) ? bic_decrease(&p, &v, cwnd) :
					   bic_decrease_ecn(&p, &v, cwnd);
			CHECK(cwnd >= 2 && cwnd <= fp_max(before, 2),
			      "loss at %u: %u", before, cwnd);
			break;
		case 3:
			bic_timeout(&p, &v);
			break;
		case 4:
			bic_undo(&p, &v);
			break;
		case 5:
			cnt = rnd_size(0, ~0U);
			break;
		case 6:
			bic_count_ack(&p, &v, rnd_size(0, ~0U));
			break;
		case 7: /* down to 0, which needs a wrong count */
			ratio = v.linux_form.ack_ratio;
			bic_count_ack(&p, &v, (ratio >> 4) - ratio);
			break;
		default:
			ack.cwnd = cwnd;
			ack.clamp = one_in(2) ? window_max :
						rnd_size(1, window_max);
			ack.acked = rnd_size(0, ~0U);
			ack.now = one_in(2) ? ack.now : (u32)rnd();
			ack.recheck = rnd_size(0, 1000);
			cwnd = bic_increase(&p, &v, &cnt, &ack);
			CHECK(cwnd >= fp_min(before, ack.clamp) &&
				      cwnd <= ack.clamp && cwnd,
			      "ACK of %u at %u, clamp %u: %u", ack.acked,
			      before, ack.clamp, cwnd);
			CHECK(v.phase > BIC_SLOW_START &&
				      v.phase <= BIC_PROBING,
			      "phase %u", v.phase);
			CHECK(form != BIC_FORM_PAPER ||
				      bic_step(&p, &v) <=
					      fp_max(p.smax, FP_PACKET),
			      "step %u", bic_step(&p, &v));
		}

		bic_step(&p, &v);
		before = bic_target(&p, &v, cwnd);
		CHECK(!before || (before >= cwnd && before <= bic_wmax(&p, &v)),
		      "target %u, window %u, wmax %u", before, cwnd,
		      bic_wmax(&p, &v));
	}
}

UNIT_TEST(paper_form)
{
	random_calls(BIC_FORM_PAPER);
}

UNIT_TEST(linux_form)
{
	random_calls(BIC_FORM_LINUX);
}

/*
 * Without beta_ecn, a mark is a loss. With it, losses stay as they were, and a
 * mark sets the same Wmax and multiplies by beta_ecn, or by 4/5 where BIC is
 * Reno.
 */
static void ecn_marks(u32 form)
{
	for (; unit_step < 1000000; unit_step++) {
		struct bic_params p = random_params(form), with;
		u32 first = rnd_size(1, ~0U), cwnd = rnd_size(1, ~0U);
		struct bic_vars lost = { 0 }, marked, both;
		u32 kept, want;
		bool reno;

		p.beta_ecn = 0;
		with = p;
		with.beta_ecn = rnd_in(p.beta, BIC_BETA_SCALE - 1);
		bic_init(&p, &lost);
		bic_decrease(&p, &lost, first);
		marked = lost;
		both = lost;
		kept = bic_decrease(&p, &lost, cwnd);

		assert_int_equal(bic_decrease_ecn(&p, &marked, cwnd), kept);
		assert_memory_equal(&marked, &lost, sizeof(lost));
		marked = both;
		assert_int_equal(bic_decrease(&with, &both, cwnd), kept);
		assert_memory_equal(&both, &lost, sizeof(lost));

		reno = form == BIC_FORM_LINUX ? cwnd <= p.low_window :
						cwnd < p.low_window;
		want = reno ? (u64)cwnd * 4 / 5 :
			      (u64)cwnd * with.beta_ecn / BIC_BETA_SCALE;
		assert_int_equal(bic_decrease_ecn(&with, &marked, cwnd),
				 fp_max(want, 2));
		if (cwnd >= first || !p.fast_convergence)
			assert_int_equal(bic_wmax(&with, &marked),
					 bic_wmax(&p, &lost));
		else
			assert_true(bic_wmax(&with, &marked) >=
				    bic_wmax(&p, &lost));
	}
}

UNIT_TEST(paper_ecn_marks)
{
	ecn_marks(BIC_FORM_PAPER);
}

UNIT_TEST(linux_ecn_marks)
{
	ecn_marks(BIC_FORM_LINUX);
}

/*
 * For a lost SYN, the stack calls ssthresh() and set_state() before init(),
 * with parameters of 0.
 */
UNIT_TEST(init_forgets_losses_of_the_handshake)
{
	static const struct bic_params none;
	u32 form;

	for (form = BIC_FORM_PAPER; form <= BIC_FORM_LINUX; form++) {
		struct bic_params p = random_params(form);
		struct bic_vars v = { 0 }, fresh = { 0 };

		assert_int_equal(bic_decrease(&none, &v, 10), 2);
		bic_timeout(&none, &v);
		bic_decrease(&none, &v, 1);
		bic_init(&p, &v);
		bic_init(&p, &fresh);
		assert_int_equal(bic_wmax(&p, &v), 0);
		assert_int_equal(v.phase, fresh.phase);
		assert_memory_equal(&v.paper, &fresh.paper, sizeof(v.paper));
	}
}

/* See windows_and_clamps_of_0_count_as_1() of test_growth.c. */
UNIT_TEST(windows_and_clamps_of_0_count_as_1)
{
	u32 form;

	for (form = BIC_FORM_PAPER; form <= BIC_FORM_LINUX; form++) {
		struct bic_params p = random_params(form);
		struct bic_vars v = { 0 };
		struct bic_ack ack = { .acked = 1 };
		u32 cnt = 0;

		bic_init(&p, &v);
		assert_int_equal(bic_increase(&p, &v, &cnt, &ack), 1);
		ack.acked = 100;
		assert_int_equal(bic_increase(&p, &v, &cnt, &ack), 1);
		bic_timeout(&p, &v);
		assert_int_equal(bic_increase(&p, &v, &cnt, &ack), 1);
	}
}

UNIT_MAIN()
