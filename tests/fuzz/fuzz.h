/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the fuzzers have in common: they are libFuzzer's, a function that is
 * given octets and must come back, whatever they are. What has to hold is said
 * by HOLDS(); beyond that the address and undefined-behaviour sanitizers look.
 *
 * Where octets are to become operations and numbers they are drawn one after
 * the other; when they are at an end, so is the run.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fairpath/slbn/slbn_wire.h>

#define HOLDS(condition)                                              \
	do {                                                          \
		if (!(condition)) {                                   \
			fprintf(stderr, "%s:%d: does not hold: %s\n", \
				__FILE__, __LINE__, #condition);      \
			abort();                                      \
		}                                                     \
	} while (0)

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

/**
 * struct octets - what is left of the input
 * @at: the next one
 * @left: how many there are
 */
struct octets {
	const u8 *at;
	size_t left;
};

static inline u8 draw8(struct octets *from)
{
	if (!from->left)
		return 0;
	from->left--;
	return *from->at++;
}

static inline u64 draw64(struct octets *from)
{
	u64 value = 0;
	int i;

	for (i = 0; i < 8; i++)
		value = value << 8 | draw8(from);
	return value;
}

/* Any of from ... to, chosen by as many octets as that takes. */
static inline u64 draw(struct octets *in, u64 from, u64 to)
{
	u64 span = to - from;
	u64 value = 0;
	u64 rest;

	for (rest = span; rest; rest >>= 8)
		value = value << 8 | draw8(in);
	return span == ~0ULL ? value : from + value % (span + 1);
}

/* A rate: of all magnitudes, 0 and the largest among them. */
static inline u64 draw_rate(struct octets *in)
{
	u8 size = draw8(in);

	switch (size % 8) {
	case 0:
		return 0;
	case 1:
		return SLBN_RATE_MAX;
	case 2:
	case 3:
		/* Round and small: sums of few come out even. */
		return 1000 * (size / 8U);
	default:
		return draw(in, 0, SLBN_RATE_MAX) >> (size / 8 * 2 % 50);
	}
}

static inline bool same_packet(const struct slbn_packet *a,
			       const struct slbn_packet *b)
{
	return a->id[0] == b->id[0] && a->id[1] == b->id[1] &&
	       a->seq == b->seq && a->type == b->type && a->hop == b->hop &&
	       a->slots == b->slots && a->bottleneck == b->bottleneck &&
	       a->B == b->B && a->bw2 == b->bw2 && a->bw1 == b->bw1 &&
	       a->bw == b->bw && a->demand == b->demand;
}

/* It can be sent, and says the same when it is read. */
static inline bool travels(const struct slbn_packet *pkt, const u16 *tags)
{
	u8 data[SLBN_LENGTH_MAX];
	struct slbn_layout layout;
	struct slbn_packet again;
	u32 length = slbn_build_packet(data, pkt, tags, false);

	return slbn_parse_packet(data, length, &again, &layout) ==
		       SLBN_PARSE_OK &&
	       layout.length == length && same_packet(&again, pkt);
}

#endif /* FUZZ_H */
