// SPDX-License-Identifier: GPL-2.0
/*
 * dscp.h: every mark means one band and one DSCP, whichever marks are chosen for CS0.
 */
#include "unit.h"

#include <fairpath/dscp.h>

#define MARKS (DSCP_BANDS * DSCP_KEPT)

/* What holds for any two marks. */
static void check(const struct dscp_table *t, u32 new, u32 assigned)
{
	u32 n, band, mark, seen = 0, kept = 0;

	for (n = 0; n < DSCP_COUNT; n++)
		kept += t->restored[t->mark[0][n]] == n;
	assert_int_equal(kept, DSCP_KEPT);
	for (band = 0; band < DSCP_BANDS; band++)
		for (n = 0; n < DSCP_COUNT; n++) {
			mark = t->mark[band][n];
			assert_true(dscp_is_local(mark));
			assert_int_equal(t->band[mark], band);
			assert_true(t->restored[mark] == n ||
				    mark == t->mark[band][0]);
			assert_false(dscp_is_local(t->restored[mark]));
		}
	assert_int_equal(t->mark[0][0], new);
	assert_int_equal(t->mark[1][0], assigned);
	for (n = 0; n < DSCP_COUNT; n++) {
		assert_int_equal(t->band[n] < DSCP_BANDS, dscp_is_local(n));
		if (!dscp_is_local(n))
			assert_int_equal(t->restored[n], n);
		seen += t->band[n] < DSCP_BANDS;
	}
	assert_int_equal(seen, MARKS);
}

UNIT_TEST(each_mark_means_a_band_and_a_dscp)
{
	struct dscp_table t;
	u32 marks[2];

	for (marks[0] = 3; marks[0] < DSCP_COUNT; marks[0] += 4)
		for (marks[1] = 3; marks[1] < DSCP_COUNT; marks[1] += 4) {
			if (marks[0] == marks[1])
				continue;
			dscp_init(&t, marks);
			check(&t, marks[0], marks[1]);
			unit_step++;
		}
	assert_int_equal(unit_step, MARKS * (MARKS - 1));
}

/* As the pages have it. */
UNIT_TEST(the_default_table)
{
	static const u8 rows[][3] = {
		{ 0, 3, 7 },	{ 1, 11, 15 },	{ 8, 19, 23 },	{ 18, 27, 31 },
		{ 34, 35, 39 }, { 46, 43, 47 }, { 40, 51, 55 }, { 45, 59, 63 },
	};
	const u32 marks[] = { 3, 7 };
	struct dscp_table t;
	u32 n;

	dscp_init(&t, marks);
	for (n = 0; n < ARRAY_SIZE(rows); n++) {
		assert_int_equal(t.mark[0][rows[n][0]], rows[n][1]);
		assert_int_equal(t.mark[1][rows[n][0]], rows[n][2]);
	}
	/* What a host sets of them is no DSCP that is kept, nor is CS6. */
	assert_int_equal(t.mark[1][43], 7);
	assert_int_equal(t.mark[1][48], 7);
}

UNIT_TEST(chosen_marks_change_places)
{
	const u32 marks[] = { 7, 43 };
	struct dscp_table t;

	dscp_init(&t, marks);
	assert_int_equal(t.mark[0][0], 7);
	assert_int_equal(t.mark[1][0], 43);
	assert_int_equal(t.mark[0][46], 3);
	assert_int_equal(t.mark[1][46], 47);
}

UNIT_MAIN()
