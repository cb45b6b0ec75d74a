// SPDX-License-Identifier: GPL-2.0
/*
 * bic_core.h, Linux's form, against mainline's tcp_bic, event for event.
 *
 * Windows, ssthresh, snd_cwnd_cnt and all private state that mainline uses must
 * be equal after each event, with mainline's constants and with random ones
 * that both can represent. Time passes between the events, with several values
 * of HZ and across the wrap of jiffies.
 *
 * Windows stay below 2^21: mainline multiplies them by up to 2047 in 32 bits.
 * For larger ones, where mainline overflows, the exact results are tested.
 */
#include "lockstep.h"

#include <tcp_bic.c>

#include <tcp_bic/bic_core.h>

#define WINDOW_MAX (1U << 21)

/* Mainline's constants in our units: the preset "linux". */
static const struct bic_params mainline = {
	.smax = 16000,
	.smin = 200,
	.beta = 819,
	.low_window = 14,
	.fast_convergence = 1,
	.form = BIC_FORM_LINUX,
};

static struct bic_params params;

static void test_init(struct sock *sk)
{
	bic_init(&params, inet_csk_ca(sk));
}

static void test_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic_ack now = {
		.now = mainline_now,
		.recheck = mainline_ticks_per_second / 32,
	};

	(void)ack;
	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (!acked)
		return;
	now.cwnd = tp->snd_cwnd;
	now.clamp = tp->snd_cwnd_clamp;
	now.acked = acked;
	tcp_snd_cwnd_set(tp, bic_increase(&params, inet_csk_ca(sk),
					  &tp->snd_cwnd_cnt, &now));
}

static u32 test_ssthresh(struct sock *sk)
{
	return bic_decrease(&params, inet_csk_ca(sk), tcp_snd_cwnd(tcp_sk(sk)));
}

static void test_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		bic_timeout(&params, inet_csk_ca(sk));
}

static u32 test_undo_cwnd(struct sock *sk)
{
	bic_undo(&params, inet_csk_ca(sk));
	return tcp_reno_undo_cwnd(sk);
}

static void test_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Open)
		bic_count_ack(&params, inet_csk_ca(sk), sample->pkts_acked);
}

static const struct tcp_congestion_ops ours = {
	.init = test_init,
	.ssthresh = test_ssthresh,
	.cong_avoid = test_cong_avoid,
	.set_state = test_set_state,
	.undo_cwnd = test_undo_cwnd,
	.pkts_acked = test_pkts_acked,
};

static void private_state_equal(struct sock *theirs, struct sock *sk)
{
	const struct bictcp *a = inet_csk_ca(theirs);
	const struct bic_vars *v = inet_csk_ca(sk);
	const struct bic_linux *b = &v->linux_form;

	CHECK(a->cnt == b->cnt, "cnt %u, mainline %u, at window %u", b->cnt,
	      a->cnt, sk->tcp.snd_cwnd);
	CHECK(a->last_max_cwnd == b->last_max, "last_max %u, mainline %u",
	      b->last_max, a->last_max_cwnd);
	CHECK(a->last_cwnd == b->last_cwnd, "last_cwnd %u, mainline %u",
	      b->last_cwnd, a->last_cwnd);
	CHECK(a->last_time == b->last_time, "last_time %u, mainline %u",
	      b->last_time, a->last_time);
	CHECK(a->delayed_ack == b->ack_ratio, "ack_ratio %u, mainline %u",
	      b->ack_ratio, a->delayed_ack);
}

/* Random events of a connection, often near Wmax, where the formula changes. */
static void connection(u32 events)
{
	static const u32 rates[] = { 100, 250, 300, 1000 };
	u32 window_max = rnd_size(1, WINDOW_MAX);
	struct sock a, b;

	mainline_ticks_per_second = rates[rnd_in(0, ARRAY_SIZE(rates) - 1)];
	mainline_now = one_in(2) ? 0U - rnd_in(0, 3000) : (u32)rnd();
	sockets_begin(&a, &b, &bictcp, &ours, window_max);

	for (; events; events--, unit_step++) {
		struct event e = event_random(&a, window_max);
		const struct bictcp *ca = inet_csk_ca(&a);

		if (e.kind == EVENT_WINDOW && one_in(2)) {
			u32 off = rnd_size(0, 8 * (u32)max_increment);

			e.value = one_in(2) ? ca->last_max_cwnd + off :
					      ca->last_max_cwnd - off;
			if (!e.value || e.value > WINDOW_MAX)
				e.value = 1;
		}
		if (one_in(8))
			mainline_now += one_in(50) ? rnd_size(0, 1U << 31) :
						     rnd_in(0, 40);

		event_apply(&e, &a, &bictcp);
		event_apply(&e, &b, &ours);
		sockets_equal(&e, &a, &b);
		private_state_equal(&a, &b);
	}
}

UNIT_TEST(matches_mainline)
{
	params = mainline;
	while (unit_step < 10000000)
		connection(2000);
}

UNIT_TEST(matches_mainline_for_random_parameters)
{
	/* 4 / smooth_part is a whole number of thousandths. */
	static const int smooth[] = { 4, 5, 8, 10, 16, 20, 25, 40, 100, 400 };

	while (unit_step < 5000000) {
		fast_convergence = (int)rnd_in(0, 1);
		max_increment = (int)rnd_size(1, 1000);
		low_window = (int)rnd_size(0, 1000000);
		beta = (int)rnd_in(1, BICTCP_BETA_SCALE - 1);
		smooth_part = smooth[rnd_in(0, ARRAY_SIZE(smooth) - 1)];
		params = (struct bic_params){
			.smax = (u32)max_increment * 1000,
			.smin = BICTCP_B * 1000 / (u32)smooth_part,
			.beta = (u32)beta,
			.low_window = (u32)low_window,
			.fast_convergence = (u32)fast_convergence,
			.form = BIC_FORM_LINUX,
		};
		connection(500);
	}
}

/* The values that ss(8) and the tracepoint show. */
UNIT_TEST(reported_values)
{
	struct bic_vars v = { 0 };
	struct bic_ack ack = { .cwnd = 800, .clamp = ~0U, .acked = 1 };
	static const struct {
		u32 cwnd, phase;
	} phases[] = {
		{ 14, BIC_LOW_WINDOW }, { 15, BIC_ADDITIVE },
		{ 932, BIC_ADDITIVE },	{ 936, BIC_BINARY },
		{ 999, BIC_BINARY },	{ 1000, BIC_PROBING },
		{ 2000, BIC_PROBING },
	};
	u32 cnt = 0;
	size_t i;

	bic_init(&mainline, &v);
	assert_int_equal(bic_wmax(&mainline, &v), 0);
	assert_int_equal(bic_step(&mainline, &v), 0);
	assert_int_equal(bic_target(&mainline, &v, 800), 0);

	assert_int_equal(bic_decrease(&mainline, &v, 1000), 799);
	assert_int_equal(bic_wmax(&mainline, &v), 1000);
	assert_int_equal(bic_target(&mainline, &v, 800), 850);
	assert_int_equal(bic_target(&mainline, &v, 1000), 0);

	/* 800 / 16 = 50 packets each, half of that for delayed ACKs. */
	bic_increase(&mainline, &v, &cnt, &ack);
	assert_int_equal(v.phase, BIC_ADDITIVE);
	assert_int_equal(bic_step(&mainline, &v), 32000);

	for (i = 0; i < ARRAY_SIZE(phases); i++) {
		ack.cwnd = phases[i].cwnd;
		bic_increase(&mainline, &v, &cnt, &ack);
		assert_int_equal(v.phase, phases[i].phase);
	}
}

/* Windows for which mainline's 32 bits overflow. */
UNIT_TEST(large_windows)
{
	u32 bit;

	for (bit = 21; bit < 32; bit++) {
		u32 cwnd = 1U << bit, cnt = 0;
		struct bic_vars v = { 0 };
		struct bic_ack ack = { .clamp = ~0U, .acked = 1 };

		bic_init(&mainline, &v);
		assert_int_equal(bic_decrease(&mainline, &v, cwnd),
				 (u64)cwnd * 819 / 1024);
		assert_int_equal(v.linux_form.last_max, cwnd);
		assert_int_equal(bic_decrease(&mainline, &v, cwnd - 1),
				 ((u64)cwnd - 1) * 819 / 1024);
		assert_int_equal(v.linux_form.last_max,
				 ((u64)cwnd - 1) * 1843 / 2048);

		/* Flat zone: 0.2 packets, doubled for delayed ACKs. */
		ack.cwnd = v.linux_form.last_max;
		bic_increase(&mainline, &v, &cnt, &ack);
		assert_int_equal(v.linux_form.cnt,
				 fp_min64((u64)ack.cwnd * 5 / 2, ~0U));

		/* Above it: a third of 30 packets, doubled. */
		ack.cwnd = v.linux_form.last_max + 30;
		bic_increase(&mainline, &v, &cnt, &ack);
		assert_int_equal(v.linux_form.cnt,
				 (u64)ack.cwnd * 3 / 30 * 16 / 32);
		assert_in_range(bic_step(&mainline, &v), 20000, 20001);
	}
}

/* The same for counts and the reported step. */
UNIT_TEST(large_counts)
{
	struct bic_vars v = { 0 };
	struct bic_ack ack = { .cwnd = ~0U - 9, .clamp = ~0U, .acked = 3 };
	u32 cnt = ~0U - 1;

	bic_init(&mainline, &v);
	bic_decrease(&mainline, &v, ack.cwnd);
	assert_int_equal(bic_increase(&mainline, &v, &cnt, &ack), ~0U - 8);
	assert_int_equal(v.linux_form.cnt, ~0U);
	assert_int_equal(cnt, 2);

	/* ACKs that are large enough for each to grow the window. */
	bic_init(&mainline, &v);
	bic_count_ack(&mainline, &v, 1U << 20);
	bic_increase(&mainline, &v, &cnt, &ack);
	assert_int_equal(v.linux_form.cnt, 1);
	assert_int_equal(bic_step(&mainline, &v), ~0U);
}

UNIT_MAIN()
