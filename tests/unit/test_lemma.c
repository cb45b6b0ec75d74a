// SPDX-License-Identifier: GPL-2.0
/*
 * The lemma of the proof of safety (lemma.h, docs/proof.md) with random states
 * of a link and random packets, and its counterpart for rotations.
 * test_lemma_mistakes.py plants mistakes in the core that this must find.
 */
#include "lemma_random.h"

#define STATES 400000

static const char *const claims[] = {
	[LEMMA_HOLDS] = "holds",
	[LEMMA_DROP_CHANGES] = "a dropped packet changes the link",
	[LEMMA_ACK_CHANGES] = "a LeaveAck changes the ledgers",
	[LEMMA_LEAVE] = "a Leave does not just remove",
	[LEMMA_PREV] = "the previous ledger does not lose x",
	[LEMMA_CUR] = "the current ledger does not gain what the slot says",
	[LEMMA_TAG] = "the slot does not name the current ledger",
	[LEMMA_USE] = "less is held than is in use",
	[LEMMA_DOWN] = "downstream another rate is held than stated",
	[LEMMA_COPY] = "less is held than a reply to a copy granted",
	[LEMMA_GRANT] = "more is granted than held",
	[LEMMA_G] = "g rises",
	[LEMMA_ROOM] = "a rise is held that is not free",
	[LEMMA_QUIET] = "a rise is granted in quiet time",
	[LEMMA_USED_UP] = "the packet states another use",
	[LEMMA_STORED] = "the memory has another record",
};

UNIT_TEST(test_lemma_holds)
{
	u64 in[IN_NUMBERS], out[OUT_NUMBERS];
	u64 verdicts[SLBN_DROP_OVERUSE + 1] = { 0 };
	u64 applies = 0, rises = 0, copies = 0, overflows = 0;
	int n;

	for (; unit_step < STATES; unit_step++) {
		lemma_random(in);
		lemma(in, out);
		if (!out[OUT_APPLIES])
			continue;
		CHECK(!out[OUT_CLAIM], "%s", claims[out[OUT_CLAIM]]);
		applies++;
		verdicts[out[OUT_VERDICT]]++;
		if (out[OUT_VERDICT] != SLBN_FORWARD)
			continue;
		rises += in[IN_TYPE] == SLBN_PROBE_ACK && out[OUT_SLOT_CODE];
		copies += in[IN_TYPE] != SLBN_PROBE_ACK && out[OUT_SLOT_CODE];
		overflows += out[OUT_CUR_A] + out[OUT_PREV_A] < out[OUT_CUR_A];
	}
	/* Each case is tried. */
	assert_in_range(applies, STATES / 2, STATES);
	for (n = SLBN_FORWARD; n <= SLBN_DROP_OVERUSE; n++)
		CHECK(verdicts[n] > 1000, "verdict %d: %llu", n, verdicts[n]);
	CHECK(rises > 1000 && copies > 1000 && overflows > 100,
	      "%llu %llu %llu", rises, copies, overflows);
}

/* The lemma takes slbn_link_rotate() with a result of its division. */
UNIT_TEST(test_rotation_drops_only_the_previous_ledger)
{
	for (; unit_step < STATES; unit_step++) {
		const struct slbn_link_params p = { .epoch = rnd_in(0, 1000) };
		const struct slbn_link_vars before = {
			.cur = { rnd(), rnd(), rnd(), rnd() },
			.prev = { rnd(), rnd(), rnd(), rnd() },
			.epoch_start = rnd_in(1000, 2000),
			.tag = (u16)rnd_in(1, SLBN_TAGS),
			.prev_tag = (u16)rnd_in(0, SLBN_TAGS),
		};
		struct slbn_link_vars v = before;
		u64 now = rnd_in(0, 6000), passed, division;
		u64 in[IN_NUMBERS] = { 0 };
		int n;

		passed =
			now > before.epoch_start ? now - before.epoch_start : 0;
		division = p.epoch ? passed / p.epoch : 0;
		for (n = IN_DIVISIONS; n < IN_ENTRIES; n++)
			in[n] = division;
		lemma_in = in;
		slbn_link_rotate(&p, &v, now);
		if (!division) {
			assert_memory_equal(&v, &before, sizeof(v));
			continue;
		}
		/* What was added less than an epoch ago is in a ledger. */
		CHECK(v.cur.A == 0 && v.cur.N == 0, "%llu", v.cur.A);
		CHECK(v.prev.A == (division == 1 ? before.cur.A : 0), "%llu",
		      v.prev.A);
		CHECK(v.prev_tag == (division == 1 ? before.tag : 0), "%u",
		      v.prev_tag);
		CHECK(v.tag != SLBN_NO_TAG && v.tag != before.tag, "%u", v.tag);
		CHECK(now - v.epoch_start < p.epoch, "%llu", v.epoch_start);
	}
}

UNIT_MAIN()
