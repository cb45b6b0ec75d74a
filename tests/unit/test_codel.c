// SPDX-License-Identifier: GPL-2.0
/*
 * codel.h: the control law of RFC 8289, and its effect on a TCP-like sender.
 */
#include <math.h>

#include "unit.h"

#include "userspace/slbnd/enforcement/codel.h"

#define MS 1000000ULL
#define TARGET CODEL_TARGET
#define INTERVAL CODEL_INTERVAL

/* Packets each @step ns from *@now until @end wait for @delay; returns signals. */
static u32 feed(struct codel *codel, u64 *now, u64 end, u64 step, u64 delay)
{
	u32 signals = 0;

	for (; *now < end; *now += step) {
		unit_step++;
		signals += codel_signals(codel, *now, delay, TARGET, INTERVAL);
	}
	return signals;
}

UNIT_TEST(spacing_is_interval_over_square_root)
{
	struct codel codel = {};

	codel_begin(&codel, MS, INTERVAL);
	for (; codel.count < 1000000; unit_step++) {
		double exact = INTERVAL / sqrt(codel.count);
		double error = codel_spacing(&codel, INTERVAL) / exact - 1;

		CHECK(fabs(error) < (codel.count < 4 ? 0.02 : 0.001),
		      "count %u: %g", codel.count, error);
		codel.count++;
		codel_invert(&codel);
	}
}

UNIT_TEST(first_signal_after_an_interval)
{
	struct codel codel = {};
	u64 now = MS;

	assert_int_equal(feed(&codel, &now, MS + INTERVAL, MS, TARGET), 0);
	assert_true(codel_signals(&codel, now, TARGET, TARGET, INTERVAL));
	/* The next ones after 100, 71, 58, 50, 45 and 41 ms. */
	assert_int_equal(feed(&codel, &now, now + 99 * MS, MS, TARGET), 0);
	assert_int_equal(feed(&codel, &now, now + 2 * MS, MS, TARGET), 1);
	assert_int_equal(feed(&codel, &now, now + 265 * MS, MS, TARGET), 5);
}

UNIT_TEST(delay_below_target_resets)
{
	struct codel codel = {};
	u64 now = MS;
	u32 n;

	for (n = 0; n < 1000; n++) {
		assert_int_equal(
			feed(&codel, &now, now + INTERVAL, MS, 20 * TARGET), 0);
		assert_int_equal(feed(&codel, &now, now + 1, MS, TARGET - 1),
				 0);
	}
}

UNIT_TEST(signals_stop_below_target)
{
	struct codel codel = {};
	u64 now = MS;

	assert_in_range(feed(&codel, &now, 2000 * MS, MS, TARGET), 50, 110);
	assert_int_equal(feed(&codel, &now, now + 1000 * MS, MS, TARGET - 1),
			 0);
}

/* Signals in two periods of a second above the target, @pause apart. */
static void two_periods(u64 pause, u32 signals[2])
{
	struct codel codel = {};
	u64 now = MS;
	u32 n;

	for (n = 0; n < 2; n++) {
		signals[n] =
			feed(&codel, &now, now + 2000 * MS, MS / 4, TARGET);
		feed(&codel, &now, now + pause, MS, 0);
	}
}

UNIT_TEST(rate_of_signals_is_resumed_soon)
{
	u32 soon[2], late[2];

	two_periods(INTERVAL, soon);
	assert_true(soon[1] > soon[0] * 3 / 2);
	two_periods((CODEL_RESUME + 1) * INTERVAL, late);
	CHECK(late[0] == late[1], "%u %u", late[0], late[1]);
}

UNIT_TEST(random_delays_keep_the_law)
{
	u64 now = 0, below = 0, last = 0;
	struct codel codel = {};

	for (; unit_step < 1000000; unit_step++) {
		u64 delay = rnd_size(0, 1u << 30);
		u64 interval = rnd_size(1, 1u << 30);

		now += rnd_size(0, 1u << 30);
		if (one_in(3))
			delay = TARGET;
		if (delay < TARGET)
			below = now;
		if (!codel_signals(&codel, now, delay, TARGET, interval))
			continue;
		CHECK(delay >= TARGET, "signal at %llu", delay);
		CHECK(now > below && now >= last, "signal too early");
		CHECK(codel.count && codel.inverse, "count %u", codel.count);
		last = now;
	}
}

/* The next packet, a millisecond later. */
static bool drops(struct codel *codel, u64 *now, u64 delay,
		  enum codel_last last)
{
	*now += MS;
	return codel_drops(codel, *now, delay, TARGET, INTERVAL, last);
}

UNIT_TEST(last_packet_is_not_dropped)
{
	struct codel codel = {};
	u64 now = 0;

	/* A burst of which only the last packet leaves an interval after the first one. */
	for (; unit_step < INTERVAL / MS; unit_step++)
		assert_false(drops(&codel, &now, TARGET, CODEL_NOT_LAST));
	assert_false(drops(&codel, &now, TARGET, CODEL_MAYBE_LAST));
	/* The next burst does not pay for it if the queue was empty. */
	assert_false(drops(&codel, &now, 0, CODEL_NOT_LAST));
	assert_false(drops(&codel, &now, TARGET, CODEL_NOT_LAST));
}

UNIT_TEST(packet_after_the_last_one_is_dropped)
{
	int last;

	for (last = CODEL_NOT_LAST; last < CODEL_LAST; last++) {
		struct codel codel = {};
		u64 now = 0;

		for (unit_step = 0; unit_step < INTERVAL / MS; unit_step++)
			assert_false(
				drops(&codel, &now, TARGET, CODEL_NOT_LAST));
		assert_false(drops(&codel, &now, TARGET, CODEL_MAYBE_LAST));
		assert_false(drops(&codel, &now, TARGET, CODEL_LAST));
		assert_true(drops(&codel, &now, TARGET, last));
		assert_false(drops(&codel, &now, TARGET, last));
	}
}

UNIT_TEST(sender_that_always_pushes_gains_nothing)
{
	struct codel usual = {}, pushes = {};
	u64 now = 0, same = 0, dropped = 0, put_off = 0;

	for (; unit_step < 10000; unit_step++) {
		dropped += drops(&usual, &now, TARGET, CODEL_NOT_LAST);
		put_off += drops(&pushes, &same, TARGET, CODEL_MAYBE_LAST);
	}
	CHECK(dropped > 100 && put_off + 1 >= dropped, "%llu of %llu", put_off,
	      dropped);
}

#define WINDOW 4096

/*
 * A sender that adds a packet to its window in each round trip, and halves it when
 * a packet signals, behind a pacer that takes @slot ns for a packet. Returns its
 * use of the rate, and sets the mean delay, ns.
 */
static double use_of_rate(u64 rtt, u64 slot, u64 target, double *mean)
{
	static u64 acknowledged_at[WINDOW];
	u64 sent = 0, acknowledged = 0, halved = 0;
	u64 now = MS, end = 100000 * MS, departure = 0;
	double window = 10, delays = 0;
	struct codel codel = {};

	while (now < end) {
		u64 wait;

		unit_step++;
		if (sent - acknowledged >= (u64)window) {
			now = fp_max64(
				now, acknowledged_at[acknowledged++ % WINDOW]);
			window = fmin(window + 1 / window, WINDOW);
			continue;
		}
		departure = fp_max64(departure, now);
		wait = departure - now;
		delays += wait;
		if (codel_signals(&codel, departure, wait, target, INTERVAL) &&
		    acknowledged >= halved) {
			window = fmax(window / 2, 2);
			halved = sent;
		}
		acknowledged_at[sent++ % WINDOW] = departure + rtt;
		departure += slot;
	}
	*mean = delays / sent;
	return (double)sent * slot / end;
}

/* With targets as enforce.c sets them. */
UNIT_TEST(sender_uses_rate_with_little_delay)
{
	static const u64 rtts[] = { 5 * MS, 10 * MS, 20 * MS, 40 * MS };
	double mean, use;
	u32 n;

	for (n = 0; n < ARRAY_SIZE(rtts); n++) {
		u64 target = fp_max64(rtts[n] / 2, TARGET);

		use = use_of_rate(rtts[n], 600000, target, &mean);
		print_message("# RTT %llu ms: use %.3f, delay %.1f ms\n",
			      rtts[n] / MS, use, mean / MS);
		CHECK(use > 0.95, "use %g", use);
		CHECK(mean < 1.5 * target, "delay %g", mean);
	}
}

UNIT_MAIN()
