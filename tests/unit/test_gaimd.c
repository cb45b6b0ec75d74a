// SPDX-License-Identifier: GPL-2.0
/*
 * gaimd_core.h: GAIMD(1, 1/2) equals Reno; other alpha and beta are exact.
 *
 * test_growth.c tests the increase in detail. Here: (1, 1/2) against mainline's
 * Reno, event for event; the increase through GAIMD's interface; the decrease
 * for every beta; and random calls. test_cores.py checks the TCP-friendly
 * presets, with fractions.
 */
#include "lockstep.h"

#include <tcp_gaimd/gaimd_core.h>

struct gaimd {
	struct gaimd_params params;
	struct gaimd_vars vars;
};

static void test_init(struct sock *sk)
{
	struct gaimd *ca = inet_csk_ca(sk);

	ca->params = (struct gaimd_params){ .alpha = 1000, .beta = 500 };
}

static void test_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct gaimd *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	(void)ack;
	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_snd_cwnd_set(tp,
				 gaimd_increase(&ca->params, &ca->vars,
						&tp->snd_cwnd_cnt, tp->snd_cwnd,
						tp->snd_cwnd_clamp, acked));
}

static u32 test_ssthresh(struct sock *sk)
{
	struct gaimd *ca = inet_csk_ca(sk);

	return gaimd_decrease(&ca->params, &ca->vars, tcp_snd_cwnd(tcp_sk(sk)));
}

static const struct tcp_congestion_ops ours = {
	.init = test_init,
	.ssthresh = test_ssthresh,
	.cong_avoid = test_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
};

static const struct tcp_congestion_ops reno = {
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
};

UNIT_TEST(matches_mainline_reno)
{
	struct sock a, b;
	u32 window_max = 0;

	for (; unit_step < 10000000; unit_step++) {
		struct event e;

		if (unit_step % 1000 == 0) {
			window_max = rnd_size(1, 1U << 28);
			sockets_begin(&a, &b, &reno, &ours, window_max);
		}
		e = event_random(&a, window_max);
		event_apply(&e, &a, &reno);
		event_apply(&e, &b, &ours);
		sockets_equal(&e, &a, &b);
	}
}

/* Round-trips with random stretch ACKs, and losses in between. */
UNIT_TEST(alpha_per_round_trip)
{
	while (unit_step < 4000000) {
		struct gaimd_params p = {
			.alpha = rnd_size(GAIMD_ALPHA_MIN, GAIMD_ALPHA_MAX),
			.beta = rnd_in(GAIMD_BETA_MIN, GAIMD_BETA_MAX),
		};
		struct gaimd_vars v = { 0 };
		u32 cnt = 0, cwnd = rnd_size(1, 1000000), losses, trips;

		for (losses = 0; losses < 3; losses++) {
			u32 start = cwnd, flight;
			u64 want = start;

			for (trips = 1; trips <= 100; trips++) {
				for (flight = (u32)want; flight; unit_step++) {
					u32 acked = rnd_in(1, flight);

					cwnd = gaimd_increase(&p, &v, &cnt,
							      cwnd, ~0U, acked);
					flight -= acked;
				}
				want = start + (u64)trips * p.alpha / 1000;
				CHECK(cwnd == want,
				      "%u round-trips of %u/1000 from %u: %u",
				      trips, p.alpha, start, cwnd);
			}
			cwnd = gaimd_decrease(&p, &v, cwnd);
		}
	}
}

UNIT_TEST(beta_for_every_window)
{
	for (; unit_step < 2000000; unit_step++) {
		u32 cwnd = rnd_size(0, ~0U);
		struct gaimd_params p = {
			.alpha = 1000,
			.beta = rnd_in(GAIMD_BETA_MIN, GAIMD_BETA_MAX),
		};
		struct gaimd_vars v = { 0 };
		u32 kept = gaimd_decrease(&p, &v, cwnd);

		/* floor(beta W), at least 2. */
		CHECK(kept >= 2, "%u x %u/1000: %u", cwnd, p.beta, kept);
		CHECK(((u64)kept + 1) * 1000 > (u64)cwnd * p.beta,
		      "%u x %u/1000: %u", cwnd, p.beta, kept);
		CHECK(kept == 2 || (u64)kept * 1000 <= (u64)cwnd * p.beta,
		      "%u x %u/1000: %u", cwnd, p.beta, kept);
	}
}

/* Marks multiply by beta_ecn, or by beta without it; losses always by beta. */
UNIT_TEST(ecn_marks_reduce_by_beta_ecn)
{
	for (; unit_step < 1000000; unit_step++) {
		u32 cwnd = rnd_size(0, ~0U);
		struct gaimd_params p = {
			.alpha = 1000,
			.beta = rnd_in(GAIMD_BETA_MIN, GAIMD_BETA_MAX),
		};
		struct gaimd_vars v = { 0 };
		u32 lost = gaimd_decrease(&p, &v, cwnd);

		assert_int_equal(gaimd_decrease_ecn(&p, &v, cwnd), lost);
		p.beta_ecn = rnd_in(p.beta, GAIMD_BETA_MAX);
		assert_int_equal(gaimd_decrease(&p, &v, cwnd), lost);
		assert_int_equal(gaimd_decrease_ecn(&p, &v, cwnd),
				 fp_max((u64)cwnd * p.beta_ecn / 1000, 2));
	}
}

/* Seven rounds earn less than a packet, and so do seven more after a loss. */
UNIT_TEST(loss_clears_the_fraction)
{
	struct gaimd_params p = { .alpha = 130, .beta = 999 };
	struct gaimd_vars v = { 0 };
	u32 cnt = 0, i;

	for (i = 0; i < 7; i++)
		assert_int_equal(gaimd_increase(&p, &v, &cnt, 100, ~0U, 100),
				 100);
	gaimd_decrease(&p, &v, 100);
	for (i = 0; i < 7; i++)
		assert_int_equal(gaimd_increase(&p, &v, &cnt, 100, ~0U, 100),
				 100);
	assert_int_equal(gaimd_increase(&p, &v, &cnt, 100, ~0U, 100), 101);
}

/* The window stays from 1 to the clamp, and ACKs never reduce it. */
UNIT_TEST(random_calls)
{
	struct gaimd_params p = { 0 };
	struct gaimd_vars v = { 0 };
	u32 cnt = 0, cwnd = 0, before, clamp;

	for (; unit_step < 5000000; unit_step++) {
		if (unit_step % 100 == 0) {
			p.alpha = rnd_size(GAIMD_ALPHA_MIN, GAIMD_ALPHA_MAX);
			p.beta = rnd_in(GAIMD_BETA_MIN, GAIMD_BETA_MAX);
			p.beta_ecn =
				one_in(2) ? 0 : rnd_in(p.beta, GAIMD_BETA_MAX);
			v = (struct gaimd_vars){ 0 };
			cnt = rnd_size(0, ~0U);
			cwnd = rnd_size(1, ~0U);
		}
		before = cwnd;
		switch (rnd_in(0, 9)) {
		case 0:
			cwnd = rnd_size(1, ~0U);
			break;
		case 1:
			cwnd = one_in(2) ? gaimd_decrease(&p, &v, cwnd) :
					   gaimd_decrease_ecn(&p, &v, cwnd);
			CHECK(cwnd >= 2 && cwnd <= fp_max(before, 2),
			      "%u to %u", before, cwnd);
			break;
		case 2:
			cnt = rnd_size(0, ~0U);
			break;
		default:
			clamp = one_in(2) ? ~0U : rnd_size(1, ~0U);
			cwnd = gaimd_increase(&p, &v, &cnt, cwnd, clamp,
					      rnd_size(0, ~0U));
			CHECK(cwnd >= fp_min(before, clamp) && cwnd <= clamp,
			      "%u to %u, clamp %u", before, cwnd, clamp);
		}
	}
}

UNIT_MAIN()
