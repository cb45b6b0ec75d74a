// SPDX-License-Identifier: GPL-2.0
/*
 * headroom auto: the reserves by themselves, and in networks, where the plan
 * changes the control packets that it reserves for.
 */
#include "unit.h"

#include "slbn_net.h"

#define T (1000 * NET_MS)
#define RATE (100 * MEGA)
#define STEP (RATE / SLBN_HEADROOM_STEPS)
#define REST (RATE * SLBN_HEADROOM_REST / 1000)
#define SHARE (RATE / 20)

static const struct slbn_headroom_params params = {
	.C = RATE,
	.control = SHARE,
	.unassigned = SHARE,
	.epoch = T,
};

/* A number of any size, at least 1. */
static u64 any(u64 most)
{
	return 1 + (rnd() >> rnd_in(0, 63)) % most;
}

/* --- reserves ----------------------------------------------------------- */

/* A link that sends @rate of unassigned packets in an epoch; returns its plan. */
static u64 epoch_of(struct slbn_headroom *v, u64 *now, u64 rate)
{
	*now += T;
	assert_true(slbn_headroom_measure(&params, v, v->measured + rate / 8,
					  *now));
	return slbn_headroom_plan(&params, v);
}

/* A link that has sent no unassigned packet for long. */
static void start_idle(struct slbn_headroom *v, u64 *now)
{
	u32 n;

	slbn_headroom_init(v, *now);
	for (n = 0; n <= SLBN_HEADROOM_EPOCHS; n++)
		epoch_of(v, now, 0);
	assert_int_equal(slbn_headroom_plan(&params, v), RATE - REST);
}

UNIT_TEST(plan_falls_at_once_and_rises_after_four_epochs)
{
	struct slbn_headroom v;
	u64 now = 7, plan, reserve;
	u32 n;

	start_idle(&v, &now);
	/* The reserve has an eighth and a step more, in steps. */
	plan = epoch_of(&v, &now, 2 * MEGA);
	reserve = (RATE - REST - plan) / 2;
	assert_in_range(reserve, 2250000, 2250000 + 2 * STEP);
	assert_int_equal(reserve % STEP, 0);
	/* For two epochs, as much drains the queue. */
	assert_int_equal(plan, RATE - REST - 2 * reserve);
	assert_int_equal(epoch_of(&v, &now, 2 * MEGA), plan);
	plan += reserve;
	/* The same load, or one up to the reserve, or half of it, moves nothing. */
	for (n = 0; n < 20; n++) {
		u64 load = MEGA + n % 10 * MEGA / 10;

		assert_int_equal(epoch_of(&v, &now, load), plan);
	}
	/* It needs all four epochs. */
	for (n = 0; n < 3; n++)
		assert_int_equal(epoch_of(&v, &now, 0), plan);
	assert_int_equal(epoch_of(&v, &now, MEGA), plan);
	for (n = 0; n < 3; n++)
		assert_int_equal(epoch_of(&v, &now, 0), plan);
	assert_int_equal(epoch_of(&v, &now, 0), RATE - REST);
	/* The share bounds what a flood reserves. */
	for (n = 0; n < SLBN_HEADROOM_DRAIN; n++)
		assert_int_equal(epoch_of(&v, &now, RATE),
				 RATE - REST - 2 * SHARE);
	assert_int_equal(epoch_of(&v, &now, RATE), RATE - REST - SHARE);
	/* What the reserve had before needs no draining. */
	for (n = 0; n < SLBN_HEADROOM_EPOCHS; n++)
		epoch_of(&v, &now, 2 * MEGA);
	plan = epoch_of(&v, &now, 2 * MEGA);
	assert_int_equal(epoch_of(&v, &now, RATE),
			 RATE - REST - 2 * SHARE + (RATE - REST - plan));
}

UNIT_TEST(idle_links_forget_at_the_same_pace)
{
	u32 idle;

	for (idle = 1; idle < 8; idle++) {
		struct slbn_headroom v;
		u64 now = T, low;

		slbn_headroom_init(&v, 0);
		slbn_headroom_count_control(&v, 2 * MEGA);
		assert_true(slbn_headroom_update(&params, &v, now));
		low = slbn_headroom_plan(&params, &v);
		assert_true(low < RATE - REST - SHARE);
		now += idle * T;
		assert_true(slbn_headroom_update(&params, &v, now));
		assert_int_equal(slbn_headroom_plan(&params, &v),
				 idle < SLBN_HEADROOM_EPOCHS ?
					 low :
					 RATE - REST - SHARE);
		assert_false(slbn_headroom_update(&params, &v, now + T - 1));
		/* A clock that steps back. */
		assert_false(slbn_headroom_update(&params, &v, 0));
	}
}

/* Whoever cannot or could not measure reserves all of the share. */
UNIT_TEST(unmeasured_traffic_has_its_share)
{
	u64 least = RATE - REST - SHARE, now = 5;
	struct slbn_headroom v;
	u32 n, round;

	slbn_headroom_init(&v, 0);
	assert_int_equal(slbn_headroom_plan(&params, &v), least);
	slbn_headroom_update(&params, &v, 100 * T);
	assert_int_equal(slbn_headroom_plan(&params, &v), least);
	for (round = 0; round < 2; round++) {
		/* The first look, and four epochs. */
		for (n = 0; n < 4; n++)
			assert_int_equal(epoch_of(&v, &now, 0), least);
		assert_int_equal(epoch_of(&v, &now, 0), RATE - REST);
		slbn_headroom_end_measure(&params, &v, now);
		assert_int_equal(slbn_headroom_plan(&params, &v), least);
	}
}

UNIT_TEST(measurements_are_rates_of_the_time_between)
{
	u64 now = 5, plan, sent;
	struct slbn_headroom v;

	start_idle(&v, &now);
	sent = v.measured + 2 * MEGA / 8;
	/* Not before most of an epoch is over. */
	assert_false(
		slbn_headroom_measure(&params, &v, sent, now + T - T / 8 - 1));
	assert_false(slbn_headroom_is_due(&v, now + T - T / 8 - 1));
	assert_true(slbn_headroom_is_due(&v, now + T - T / 8));
	assert_false(slbn_headroom_measure(&params, &v, sent, 0));
	assert_int_equal(slbn_headroom_plan(&params, &v), RATE - REST);
	plan = epoch_of(&v, &now, 2 * MEGA);
	assert_in_range((RATE - REST - plan) / 2, 2250000, 2250000 + 2 * STEP);

	start_idle(&v, &now);
	sent = v.measured + 3 * 2 * MEGA / 8;
	now += 3 * T;
	assert_true(slbn_headroom_measure(&params, &v, sent, now));
	assert_int_equal(slbn_headroom_plan(&params, &v), plan);

	/* A qdisc that was replaced counts from 0. */
	now += T;
	assert_true(slbn_headroom_measure(&params, &v, 2 * MEGA / 8, now));
	assert_int_equal(slbn_headroom_plan(&params, &v), plan);
}

/* Somewhat early or late: each measures, but often is not more often. */
UNIT_TEST(each_epoch_is_measured_once)
{
	u64 start = 7, now;
	struct slbn_headroom v;
	u32 n, measured = 0;

	slbn_headroom_init(&v, start);
	for (n = 1; n < 1000; n++) {
		now = start + n * T + rnd_in(0, T / 20);
		assert_true(slbn_headroom_measure(&params, &v, 0, now));
	}
	for (n = 1; n <= 16 * 100; n++)
		measured += slbn_headroom_measure(&params, &v, 0,
						  now + n * (T / 16));
	assert_in_range(measured, 99, 101);
}

/* Any parameters and loads: no overflow, the bounds, at most a move per epoch. */
UNIT_TEST(plans_stay_in_their_bounds)
{
	u32 round, n;

	for (round = 0; round < 20000; round++) {
		struct slbn_headroom_params p = {
			.C = 999 + any(1000000000000ULL - 999),
			.epoch = 10 * NET_MS - 1 + any(3600 * T - 10 * NET_MS),
		};
		struct slbn_headroom v;
		u64 now = rnd() >> 8, plan;

		p.control = p.C * rnd_in(1, 1000) / 1000;
		p.unassigned = p.C * rnd_in(0, 500) / 1000;
		slbn_headroom_init(&v, now);
		for (n = 0; n < 12; n++) {
			/* At most the capacity for an hour. */
			u64 bits = p.C * (p.epoch / (10 * NET_MS)) / 100;
			u64 least = p.C - p.C / 2;

			if (one_in(5))
				slbn_headroom_end_measure(&p, &v, now);
			else
				slbn_headroom_measure(
					&p, &v,
					one_in(9) ? any(bits) :
						    v.measured + any(bits) / 8,
					now);
			slbn_headroom_count_control(&v, rnd_size(0, 1 << 20));
			now += any(6 * p.epoch);
			slbn_headroom_update(&p, &v, now);
			plan = slbn_headroom_plan(&p, &v);
			least = fp_max64(
				least,
				p.C - fp_min64(p.C, p.C * 5 / 1000 + p.control +
							    2 * p.unassigned));
			CHECK(plan >= least && plan <= p.C - p.C * 5 / 1000,
			      "C %llu: plan %llu, at least %llu", p.C, plan,
			      least);
			unit_step++;
		}
	}
}

/* --- networks ------------------------------------------------------------ */

#define SESSIONS 30
#define LINKS 6

/*
 * Sessions over links of RATE, some of which have a smaller demand. As slbnd does, a
 * source pauses for at most a quarter of an epoch: then cycles that changed rates
 * cause are the largest part of all.
 */
static void make_links(u32 links, u64 pause)
{
	u32 n;

	net_clear();
	net.commit = true;
	net.pause = pause;
	net.checks = NET_CHECK_RATES | NET_CHECK_HELD;
	for (n = 0; n < links; n++) {
		net_add_link(RATE, rnd_in(1, 20) * NET_MS, T, 256);
		net.links[n].headroom = params;
		slbn_headroom_init(&net.links[n].measured, 0);
		net.links[n].unassigned = 0;
		net.links[n].params.P =
			slbn_headroom_plan(&params, &net.links[n].measured);
	}
	for (n = 0; n < SESSIONS; n++) {
		net_add_session(rnd_in(1, fp_min(links, 4)));
		net_schedule(rnd_in(0, 1000) * NET_MS, NET_JOIN, n)->value =
			one_in(3) ? rnd_in(1, 3) * MEGA : UNLIMITED;
	}
}

/*
 * The first link carries @rate of unassigned packets in the first @length of each
 * @period. Returns the control packets of @epochs.
 */
static u64 pulse(u64 period, u64 length, u64 rate, u32 epochs)
{
	u64 begin = net.now, before = net.packets, step = 10 * NET_MS;
	u32 n;

	while (net.now < begin + epochs * T) {
		net_run(net.now + step);
		for (n = 0; n < net.link_count; n++)
			net_measure(&net.links[n], NULL);
		if (period && (net.now - begin - step) % period < length)
			net.links[0].unassigned += rate / 100 / 8;
	}
	return net.packets - before;
}

static u32 all_moves(void)
{
	u32 n, moves = 0;

	for (n = 0; n < net.link_count; n++)
		moves += net.links[n].moves;
	return moves;
}

/* Plans and rates rest for 100 epochs where the load rests. */
UNIT_TEST(plans_rest_where_the_load_rests)
{
	static const u64 pauses[] = { 5 * NET_MS, 50 * NET_MS, T / 4 };
	u32 n, round, moves;

	for (round = 0; round < 6; round++) {
		make_links(LINKS, pauses[round % 3]);
		/* Constant unassigned traffic, 0 to more than its share. */
		pulse(T, T, round % 4 * 2 * MEGA, 12);
		moves = all_moves();
		pulse(T, T, round % 4 * 2 * MEGA, 100);
		CHECK(all_moves() == moves, "round %u: %u moves in 100 epochs",
		      round, all_moves() - moves);
		CHECK(net.settled < net.now - 100 * T, "rates moved at %llu ms",
		      net.settled / NET_MS);
		net_solve();
		for (n = 0; n < SESSIONS; n++)
			CHECK(fabsl(net.sessions[n].src.rate -
				    net.sessions[n].fair) <= CLOSE_BITS,
			      "session %u has %llu, fair is %Lf", n,
			      net.sessions[n].src.rate, net.sessions[n].fair);
		printf("# pause %llu ms: %u moves until rest; plan %.2f %%\n",
		       pauses[round % 3] / NET_MS, moves,
		       net.links[0].params.P * 100.0 / RATE);
		unit_step++;
	}
	net_clear();
}

/*
 * A host that pulses, at periods of T to 4 T with any phase, at most doubles the
 * control packets, and the plan does not follow it.
 */
UNIT_TEST(pulses_at_most_double_control_packets)
{
	static const u64 lengths[] = { T / 100, T / 2, T };
	u32 period, length;

	for (period = 4; period <= 16; period += 2) {
		for (length = 0; length < ARRAY_SIZE(lengths); length++) {
			u64 quiet, pulsing;
			u32 moves;

			make_links(1, T / 4);
			pulse(0, 0, 0, 30);
			quiet = pulse(0, 0, 0, 50);
			moves = all_moves();
			pulsing =
				pulse(period * T / 4 + rnd_in(0, 20) * NET_MS -
					      20 * NET_MS * (period == 16),
				      lengths[length], RATE, 50);
			CHECK(pulsing <= 2 * quiet,
			      "period %u T/4, length %llu ms: %llu packets, %llu without",
			      period, lengths[length] / NET_MS, pulsing, quiet);
			CHECK(all_moves() - moves <= 2,
			      "period %u T/4: %u moves", period,
			      all_moves() - moves);
			unit_step++;
		}
	}
	net_clear();
}

/*
 * The worst that a host can do: a step more in each epoch, then nothing until the
 * plan has risen. It moves the plan in most epochs.
 */
UNIT_TEST(ramps_at_most_double_control_packets)
{
	u64 quiet, ramping, before;
	u32 n, moves;

	make_links(1, T / 4);
	pulse(0, 0, 0, 30);
	quiet = pulse(0, 0, 0, 112);
	before = net.packets;
	moves = all_moves();
	for (n = 0; n < 112; n++)
		pulse(T, T, n % 28 < 23 ? (n % 28 + 1) * 2 * STEP : 0, 1);
	ramping = net.packets - before;
	moves = all_moves() - moves;
	printf("# ramp: %llu control packets, %llu without, %u moves\n",
	       ramping, quiet, moves);
	assert_true(moves >= 40);
	assert_true(ramping <= 2 * quiet);
	net_clear();
}

UNIT_MAIN()
