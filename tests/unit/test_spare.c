// SPDX-License-Identifier: GPL-2.0
/*
 * spare.h: what a default class leaves to packets above the rates of their sessions.
 */
#include "unit.h"

#include "userspace/slbnd/enforcement/spare.h"

#define MS 1000000ULL
#define BURST (100 * MS)

/* Takes what the class leaves at @now in packets of @duration; returns how many. */
static u32 take_all(u64 *next, u64 now, u64 duration)
{
	u32 count = 0;
	u64 begun;

	while ((begun = spare_departure(*next, now, BURST, duration))) {
		*next = begun + duration;
		count++;
	}
	return count;
}

UNIT_TEST(half_of_the_burst_remains)
{
	u64 now = 1000 * MS, next = 0;

	assert_int_equal(take_all(&next, now, MS), 50);
	assert_int_equal(next, now - BURST / 2);
	/* Then as much as the rate of the class. */
	for (; unit_step < 1000; unit_step++) {
		now += 3 * MS;
		assert_int_equal(take_all(&next, now, MS), 3);
	}
}

UNIT_TEST(nothing_while_the_class_uses_it)
{
	u64 now = 1000 * MS, next;

	for (next = now - BURST / 2; next < now + BURST; next += MS)
		assert_int_equal(spare_departure(next, now, BURST, 1), 0);
	assert_int_equal(spare_departure(now - BURST / 2 - 1, now, BURST, 1),
			 now - BURST / 2 - 1);
}

UNIT_TEST(packets_longer_than_the_half_do_not_fit)
{
	u64 now = 1000 * MS;

	assert_int_equal(spare_departure(0, now, BURST, BURST / 2 + 1), 0);
	assert_int_equal(spare_departure(0, now, BURST, BURST / 2),
			 now - BURST);
}

/* The clock may be younger than the burst. */
UNIT_TEST(begins_at_zero)
{
	u64 next = 0;

	assert_int_equal(spare_departure(0, 0, BURST, 0), 0);
	assert_int_equal(spare_departure(0, MS, BURST, 0), 0);
	assert_int_equal(take_all(&next, BURST + 1, MS), 50);
}

/* With packets of the class itself, the sum never exceeds burst and rate. */
UNIT_TEST(class_never_exceeds_its_rate)
{
	u64 now = 1000 * MS, next = now, sent = 0, begun;
	const u64 start = now;

	for (; unit_step < 1000000; unit_step++) {
		u64 duration = rnd_size(1, 20 * MS);

		now += rnd_size(0, 5 * MS);
		if (one_in(2)) {
			/* As pace_shared() does. */
			begun = fp_max64(next, now - BURST);
			if (begun > now)
				continue;
		} else {
			begun = spare_departure(next, now, BURST, duration);
			if (!begun)
				continue;
			CHECK(begun + duration + BURST / 2 <= now, "%llu",
			      (unsigned long long)begun);
		}
		next = begun + duration;
		sent += duration;
		CHECK(sent <= now - start + BURST + 20 * MS, "%llu",
		      (unsigned long long)sent);
	}
}

UNIT_MAIN()
