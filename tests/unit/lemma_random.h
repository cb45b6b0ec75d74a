/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers for the lemma (lemma.h): of all magnitudes, with tags, hashes
 * and sequence numbers that often match, so that each claim is tried.
 */
#ifndef LEMMA_RANDOM_H
#define LEMMA_RANDOM_H

#include "unit.h"

#include "lemma.h"

/* Up to @max: often an end, or few bits. */
static u64 lemma_size(u64 max)
{
	u64 size = rnd() >> rnd_in(0, 63);

	switch (rnd_in(0, 7)) {
	case 0:
		return 0;
	case 1:
		return max;
	case 2:
		size = rnd_in(0, 4096);
		break;
	case 3:
		return max - (size < max ? size : max);
	default:
		break;
	}
	return max == ~0ULL ? size : size % (max + 1);
}

static u16 lemma_code(void)
{
	return (u16)lemma_size(SLBN_CODE_MAX);
}

static void lemma_random_entry(const u64 in[], u64 *entry)
{
	static const int distances[] = { 0, 0, 1, -1 };

	entry[ENTRY_SESSION] = in[IN_HASH] + !one_in(3);
	entry[ENTRY_RATE] = lemma_size(SLBN_RATE_MAX);
	entry[ENTRY_HELD] = one_in(2) ? lemma_size(in[IN_C]) :
					in[IN_USE] + slbn_decode(lemma_code());
	entry[ENTRY_SEQ] = (u32)(in[IN_SEQ] - distances[rnd_in(0, 3)]);
	entry[ENTRY_TAG] = one_in(2) ? in[IN_TAG] :
			   one_in(2) ? in[IN_PREV_TAG] :
				       rnd_in(0, 3);
	entry[ENTRY_IN_R] = rnd_in(0, 1);
	entry[ENTRY_USED] = !one_in(4);
	entry[ENTRY_ORIGIN] = rnd_in(SLBN_OF_FIRST, SLBN_OF_REPLY);
}

static void lemma_random(u64 in[IN_NUMBERS])
{
	u64 sums = one_in(8) ? ~0ULL : 0;
	int n;

	in[IN_C] = 1000 + lemma_size(SLBN_RATE_MAX - 1000);
	in[IN_P] = lemma_size(in[IN_C]);
	in[IN_ROWS] = rnd_in(0, 1);
	in[IN_NOW] = rnd_in(0, 100);
	in[IN_QUIET_UNTIL] = one_in(4) ? rnd_in(0, 200) : 0;
	in[IN_TAG] = rnd_in(2, SLBN_TAGS);
	in[IN_PREV_TAG] = one_in(4) ? 0 : in[IN_TAG] - 1;
	for (n = IN_CUR_BF; n <= IN_PREV_A; n++)
		in[n] = lemma_size(sums ? sums : 2 * in[IN_C]);
	in[IN_CUR_A] = lemma_size(sums ? sums : in[IN_C]);
	in[IN_SEQ] = (u32)lemma_size(0xffffffff);
	in[IN_TYPE] = rnd_in(SLBN_JOIN, SLBN_LEAVE_ACK);
	in[IN_SLOTS] = rnd_in(1, SLBN_HOPS_MAX);
	in[IN_HOP] = rnd_in(0, SLBN_HOPS_MAX);
	in[IN_BOTTLENECK] = one_in(2) ? SLBN_NO_HOP : rnd_in(0, 255);
	in[IN_AGAIN] = rnd_in(0, 1);
	in[IN_WEIGHT] = 1 + lemma_size(SLBN_WEIGHT_MAX - 1);
	in[IN_EPOCH] = SLBN_NO_EPOCH;
	in[IN_B] = rnd();
	for (n = IN_BW2; n <= IN_SHARE; n++)
		in[n] = lemma_size(one_in(4) ? SLBN_RATE_MAX : in[IN_C]);
	in[IN_SLOT_CODE] = lemma_code();
	in[IN_HASH] = rnd();
	in[IN_SLOT_TAG] = slbn_mask_tag(
		one_in(2) ? in[IN_TAG] : in[IN_PREV_TAG], in[IN_HASH]);
	if (one_in(4))
		in[IN_SLOT_TAG] = rnd_in(0, SLBN_TAGS);
	for (n = IN_DIVISIONS; n < IN_ENTRIES; n++)
		in[n] = lemma_size(one_in(8) ? ~0ULL : 2 * in[IN_C]);
	for (n = IN_ENTRIES; n < IN_NUMBERS; n += ENTRY_NUMBERS)
		lemma_random_entry(in, &in[n]);
}

#endif /* LEMMA_RANDOM_H */
