// SPDX-License-Identifier: GPL-2.0
/*
 * mark.h: which packets are new, what tokens bound, and that a change of bands does not
 * reorder packets.
 */
#include "unit.h"

#include "userspace/slbnd/enforcement/mark.h"

#define MS 1000000ULL
#define FULL 1514

/* A connection whose peer has answered its first packet at 1 ms. */
static struct mark opened(void)
{
	struct mark m = {};

	assert_int_equal(mark_enter(&m, MS, FULL, true, false), MARK_OPENS);
	m.answered = 1;
	return m;
}

UNIT_TEST(nothing_is_new_before_an_answer)
{
	struct mark m = {};
	u32 n;

	assert_int_equal(mark_enter(&m, MS, FULL, false, false), MARK_OPENS);
	for (n = 0; n < 100; n++)
		assert_int_equal(mark_enter(&m, MS, FULL, false, false),
				 MARK_NOT_NEW);
	m.answered = 1;
	assert_int_equal(mark_enter(&m, MS, FULL, false, false), MARK_IS_NEW);
}

UNIT_TEST(a_late_answer_to_who_has_a_rate)
{
	struct mark m = {};

	mark_enter(&m, MS, FULL, false, false);
	assert_int_equal(mark_enter(&m, MS, FULL, false, true), MARK_NOT_NEW);
	m.answered = 1;
	assert_int_equal(mark_enter(&m, MS, FULL, false, true), MARK_NOT_NEW);
}

UNIT_TEST(the_first_octets_are_new)
{
	u64 rated;

	for (rated = 0; rated < 2; rated++) {
		struct mark m = opened();
		u64 sent = 0;

		while (mark_enter(&m, 2 * MS, FULL, false, rated) ==
		       MARK_IS_NEW) {
			mark_depart(&m, DRR_FQ_BAND_NEW, 2 * MS, true);
			sent += FULL;
		}
		assert_in_range(sent, MARK_OCTETS - FULL, MARK_OCTETS);
		/* A shorter one is not, either. */
		assert_int_equal(mark_enter(&m, 2 * MS, 60, false, rated),
				 MARK_NOT_NEW);
		/* A SYN begins anew, and must be answered, too. */
		assert_int_equal(mark_enter(&m, 2 * MS, FULL, true, rated),
				 MARK_OPENS);
		assert_int_equal(mark_enter(&m, 2 * MS, FULL, false, rated),
				 MARK_NOT_NEW);
	}
}

UNIT_TEST(new_again_after_silence_without_a_rate)
{
	struct mark m = opened();
	u64 now = 2 * MS;

	m.old = 1;
	mark_depart(&m, DRR_FQ_BAND_UNASSIGNED, now, true);
	now += MARK_WAIT_UNASSIGNED;
	assert_int_equal(mark_enter(&m, now - 1, FULL, false, false),
			 MARK_NOT_NEW);
	assert_int_equal(mark_enter(&m, now, FULL, false, true), MARK_NOT_NEW);
	assert_int_equal(mark_enter(&m, now, FULL, false, false), MARK_IS_NEW);
	/* Nothing of it waits anywhere. */
	assert_int_equal(mark_depart(&m, DRR_FQ_BAND_NEW, now, true), now);
}

/* From each band to each other, and from a packet that waits to be sent. */
UNIT_TEST(nothing_of_tcp_is_overtaken)
{
	u32 from, to, ordered;

	for (from = 0; from < DRR_FQ_BANDS; from++)
		for (to = 0; to < DRR_FQ_BANDS; to++)
			for (ordered = 0; ordered < 2; ordered++) {
				struct mark m = opened();
				u64 sent = 10 * MS, wait = MARK_WAIT;

				if (from == DRR_FQ_BAND_UNASSIGNED ||
				    to == DRR_FQ_BAND_UNASSIGNED)
					wait = MARK_WAIT_UNASSIGNED;
				if (from == to)
					wait = 0;
				if (!ordered)
					wait = -8 * MS;
				assert_int_equal(mark_depart(&m, from, sent, 1),
						 sent);
				assert_int_equal(
					mark_depart(&m, to, 2 * MS, ordered),
					sent + wait);
				/* The following ones are behind it. */
				assert_int_equal(
					mark_depart(&m, to, 2 * MS, ordered),
					sent + wait);
			}
}

/* Takes packets of @duration at @now until tokens are used up; returns how many. */
static u32 take_all(u64 *host, u64 *all, bool asked, u64 now, u64 duration)
{
	u32 count = 0;

	while (mark_take(host, all, asked, now, duration))
		count++;
	return count;
}

UNIT_TEST(a_burst_and_then_the_rate)
{
	u64 now = 1000 * MS, host = 0, all = 0;
	u32 burst = MARK_BURST / MS;

	assert_int_equal(take_all(&host, &all, false, now, MS), burst);
	assert_int_equal(all, 0);
	for (; unit_step < 1000; unit_step++) {
		now += 3 * MS;
		assert_int_equal(take_all(&host, &all, false, now, MS), 3);
	}
	now += 10 * MARK_BURST;
	assert_int_equal(take_all(&host, &all, false, now, MS), burst);
}

UNIT_TEST(who_floods_leaves_half_to_the_others)
{
	u64 now = 1000 * MS, hosts[3] = {}, all = 0;
	u32 burst = MARK_BURST / MS, sums[3] = {}, n;

	assert_int_equal(take_all(&hosts[0], &all, true, now, MS), burst / 2);
	assert_int_equal(take_all(&hosts[1], &all, true, now, MS), burst / 4);
	assert_int_equal(take_all(&hosts[2], &all, true, now, MS), burst / 8);
	/* Together they have the rate; one that floods has as much as the others. */
	for (; unit_step < 3000; unit_step++) {
		now += MS;
		n = unit_step % 3;
		sums[n] += take_all(&hosts[n], &all, true, now, MS / 4);
	}
	assert_in_range(sums[0] + sums[1] + sums[2], 11990, 12410);
	for (n = 0; n < 3; n++)
		assert_in_range(sums[n], 3600, 4400);
}

UNIT_MAIN()
