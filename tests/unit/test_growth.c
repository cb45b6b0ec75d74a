// SPDX-License-Identifier: GPL-2.0
/*
 * growth.h: exact growth per round-trip.
 *
 * Compared with the exact model for random ACKs and all changes that the stack
 * makes to a window; the documented properties: the result does not depend on
 * how packets are split into ACKs, growth per round-trip is exact and counted
 * once; and the limits of its ranges.
 */
#include "model.h"

#include <fairpath/growth.h>

#define INC_MAX 1000000U
#define WINDOW_MAX 0x80000000U

struct flow {
	struct fp_growth growth;
	u32 cnt;
	u32 cwnd;
	u32 clamp;
};

/* As called by the cores, with a constant increase. */
static void flow_ack(struct flow *f, u32 inc, u32 acked)
{
	f->growth.inc = inc;
	fp_growth_sync(&f->growth, &f->cnt, f->cwnd);
	fp_growth_count(&f->growth, &f->cnt, acked);
	f->cwnd = fp_growth_window(&f->growth, f->cnt, f->clamp);
}

UNIT_TEST(exact_model)
{
	struct model m = { 0 };
	struct flow f = { 0 };
	u32 inc_max = 0, window_max = 0, set = 0;

	for (; unit_step < 10000000; unit_step++) {
		u32 acked, inc;

		if (unit_step % 500 == 0) {
			/* New connection. */
			m = (struct model){ 0 };
			model_forget(&m);
			f = (struct flow){ 0 };
			inc_max = rnd_size(1, INC_MAX);
			window_max = rnd_size(1, WINDOW_MAX);
			f.cwnd = rnd_size(1, window_max);
			f.clamp = window_max;
		}

		switch (rnd_in(0, 79)) {
		case 0: /* recovery, restart, undo, slow start */
			set = rnd_size(1, window_max);
			f.cwnd = set;
			break;
		case 1: /* small changes, as after recovery or MTU probing */
			f.cwnd = fp_max(f.cwnd - rnd_in(0, 2), 1);
			break;
		case 2:
			f.cwnd = fp_min(f.cwnd + rnd_in(1, 2), window_max);
			break;
		case 3: /* count cleared */
			f.cnt = 0;
			m.counted = 0;
			break;
		case 4: /* loss */
			fp_growth_reset(&f.growth);
			model_forget(&m);
			break;
		case 5: /* clamp changed */
			f.clamp = one_in(2) ? window_max :
					      rnd_size(1, window_max);
			break;
		default:
			break;
		}

		/* Up to a window; rarely, more. */
		acked = one_in(4) ? f.cwnd : rnd_size(1, f.cwnd);
		if (one_in(100))
			acked += rnd_in(0, 3) * f.cwnd / 2;

		inc = rnd_size(1, inc_max);
		if (fp_growth_sync(&f.growth, &f.cnt, f.cwnd))
			f.growth.inc = inc;
		if (model_see(&m, f.cwnd))
			m.step = rat(inc, 1000);
		CHECK(f.cnt == m.counted, "count %u, model %llu", f.cnt,
		      m.counted);

		inc = rnd_size(1, inc_max);
		if (fp_growth_count(&f.growth, &f.cnt, acked))
			f.growth.inc = inc;
		if (model_ack(&m, acked))
			m.step = rat(inc, 1000);
		f.cwnd = fp_growth_window(&f.growth, f.cnt, f.clamp);

		CHECK(f.cwnd == model_window(&m, f.clamp),
		      "ACK of %u: window %u, model %llu", acked, f.cwnd,
		      m.shown);
		CHECK(f.cnt == m.counted,
		      "ACK of %u, window %u: count %u, model %llu", acked,
		      f.cwnd, f.cnt, m.counted);
		CHECK(f.growth.inc == m.step.n, "increase %u, model %u",
		      f.growth.inc, (u32)m.step.n);
	}
}

/* One ACK per packet and stretch ACKs up to a window give the same result. */
UNIT_TEST(stretch_acks_equal_single_acks)
{
	while (unit_step < 20000000) {
		u32 cwnd = rnd_size(1, 5000), inc = rnd_size(1, INC_MAX);
		struct flow single = { .cwnd = cwnd, .clamp = ~0U };
		struct flow stretched = single;
		u32 acks, i;

		for (acks = rnd_in(1, 60); acks; acks--) {
			u32 acked = one_in(4) ? stretched.cwnd :
						rnd_size(1, stretched.cwnd);

			if (unit_step > 20000000)
				break;
			for (i = 0; i < acked; i++, unit_step++)
				flow_ack(&single, inc, 1);
			flow_ack(&stretched, inc, acked);
			CHECK(single.cwnd == stretched.cwnd &&
				      single.cnt == stretched.cnt,
			      "from %u by %u/1000: single ACKs %u+%u, stretch ACKs, last of %u: %u+%u",
			      cwnd, inc, single.cwnd, single.cnt, acked,
			      stretched.cwnd, stretched.cnt);
		}
	}
}

/* The same, with numbers that can be verified by hand. */
UNIT_TEST(window_long_ack_late_in_doubling_round)
{
	struct flow single = { .cwnd = 100, .clamp = ~0U };
	struct flow stretched;
	u32 i;

	for (i = 0; i < 99; i++)
		flow_ack(&single, 100000, 1);
	assert_int_equal(single.cwnd, 199);

	stretched = single;
	for (i = 0; i < 199; i++)
		flow_ack(&single, 100000, 1);
	flow_ack(&stretched, 100000, 199);

	/* 298 packets: a round of 100, and 198 of the next one's 200. */
	assert_int_equal(single.cwnd, 299);
	assert_int_equal(stretched.cwnd, 299);
}

/*
 * A round-trip acknowledges the packets in flight at its start: a window. After
 * n round-trips, the window has grown by exactly n times the increase.
 */
UNIT_TEST(increase_per_round_trip_is_exact)
{
	static const u32 incs[] = { 1,	  3,	10,    200,   310,    999,
				    1000, 1001, 16000, 32000, 999999, INC_MAX };
	static const u32 windows[] = { 1,   2,	  3,	 10,	 31,	 32,
				       100, 1000, 65537, 999999, 1000000 };
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(incs); i++) {
		for (j = 0; j < ARRAY_SIZE(windows); j++) {
			struct flow f = { .cwnd = windows[j], .clamp = ~0U };
			u64 trips, cwnd = windows[j];

			for (trips = 1; trips <= 3000; trips++) {
				u32 flight = (u32)cwnd;

				while (flight) {
					u32 acked = rnd_in(1, flight);

					flow_ack(&f, incs[i], acked);
					flight -= acked;
					unit_step++;
				}
				cwnd = windows[j] + trips * incs[i] / 1000;
				CHECK(f.cwnd == cwnd,
				      "%llu x %u/1000 from %u: %u", trips,
				      incs[i], windows[j], f.cwnd);
			}
		}
	}
}

/* Within a round: after n packets, n / start of the increase. */
UNIT_TEST(increase_is_linear_within_round_trip)
{
	u32 inc, n;

	for (inc = 1; inc <= INC_MAX; inc = inc * 3 + 1) {
		struct flow f = { .cwnd = 777, .clamp = ~0U };

		for (n = 1; n <= 777; n++, unit_step++) {
			flow_ack(&f, inc, 1);
			CHECK(f.cwnd == 777 + (u64)inc * n / 777 / 1000,
			      "%u/1000, after %u packets: %u", inc, n, f.cwnd);
		}
	}
}

/* An ACK of n windows counts as n rounds, as in Reno. */
UNIT_TEST(ack_of_several_windows)
{
	for (; unit_step < 1000000; unit_step++) {
		u32 cwnd = rnd_size(1, 1000000), inc = rnd_size(1, INC_MAX);
		u32 rounds = rnd_in(1, 4000);
		struct flow f = { .cwnd = cwnd, .clamp = ~0U };

		flow_ack(&f, inc, rounds * cwnd);
		CHECK(f.cwnd == cwnd + (u64)rounds * inc / 1000,
		      "%u rounds of %u/1000 from %u in one ACK: %u", rounds,
		      inc, cwnd, f.cwnd);
	}
}

/*
 * The stack resets the window whenever it has grown. The growth is then used
 * up: acknowledged packets must not grow the window twice.
 */
UNIT_TEST(growth_is_counted_once)
{
	struct flow f = { .cwnd = 10, .clamp = ~0U };
	u32 i, grown = 0;

	for (i = 0; i < 10000; i++) {
		flow_ack(&f, 900, 1);
		grown += f.cwnd - 10;
		f.cwnd = 10;
	}
	/* 1000 rounds of 0.9 packets each. */
	CHECK(grown <= 900, "grew by %u packets", grown);
	CHECK(grown >= 800, "grew by %u packets only", grown);
}

/* The count is kept across slow start and restart, as in Reno. */
UNIT_TEST(count_is_kept_when_the_stack_sets_the_window)
{
	struct flow f = { .cwnd = 100, .clamp = ~0U };

	flow_ack(&f, 1000, 60);
	f.cwnd = 80;
	flow_ack(&f, 1000, 19);
	assert_int_equal(f.cwnd, 80);
	assert_int_equal(f.cnt, 79);
	flow_ack(&f, 1000, 1);
	assert_int_equal(f.cwnd, 81);
	assert_int_equal(f.cnt, 0);

	/* A count left from a far larger window: one round. */
	flow_ack(&f, 1000, 70);
	f.cwnd = 10;
	flow_ack(&f, 1000, 1);
	assert_int_equal(f.cwnd, 11);
	assert_int_equal(f.cnt, 1);
}

/* A loss clears the fraction. */
UNIT_TEST(reset_clears_the_fraction)
{
	struct flow f = { .cwnd = 10, .clamp = ~0U };

	flow_ack(&f, 999, 10);
	assert_int_equal(f.cwnd, 10);
	fp_growth_reset(&f.growth);
	flow_ack(&f, 999, 10);
	assert_int_equal(f.cwnd, 10);
	flow_ack(&f, 999, 10);
	assert_int_equal(f.cwnd, 11);
}

/* Windows up to 2^32 - 1 are exact and limited by the clamp. */
UNIT_TEST(maximum_windows)
{
	static const u32 windows[] = { 0x7fffffff, 0x80000000, 0xfffffc00,
				       0xfffffffe, 0xffffffff };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(windows); i++) {
		struct flow f = { .cwnd = windows[i], .clamp = ~0U };
		u64 want = (u64)windows[i] + 1000;

		flow_ack(&f, INC_MAX, windows[i] - 1);
		assert_int_equal(f.cwnd, fp_min64(want - 1, ~0U));
		flow_ack(&f, INC_MAX, 1);
		assert_int_equal(f.cwnd, fp_min64(want, ~0U));
		f.cnt = ~0U;
		flow_ack(&f, INC_MAX, ~0U);
		assert_true(f.cwnd >= windows[i]);

		f = (struct flow){ .cwnd = windows[i], .clamp = 77 };
		flow_ack(&f, INC_MAX, ~0U);
		assert_int_equal(f.cwnd, 77);

		/* From 1 to the maximum: a round for every packet. */
		f = (struct flow){ .cwnd = 1, .clamp = windows[i] };
		flow_ack(&f, INC_MAX, ~0U);
		assert_int_equal(f.cwnd, windows[i]);
	}
}

/*
 * A route with "cwnd lock 0" makes Linux set windows and clamps of 0. As with a
 * window of 1: growth goes on, and nothing is divided by 0.
 */
UNIT_TEST(windows_and_clamps_of_0_count_as_1)
{
	struct flow f = { .cwnd = 0, .clamp = 0 };

	flow_ack(&f, 1000, 1);
	assert_int_equal(f.cwnd, 1);
	flow_ack(&f, 1000, 5);
	assert_int_equal(f.cwnd, 1);
	f.cwnd = 0;
	f.clamp = 10;
	flow_ack(&f, 1000, 1);
	assert_int_equal(f.cwnd, 2);
}

UNIT_MAIN()
