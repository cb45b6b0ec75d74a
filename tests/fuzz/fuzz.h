/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the fuzzers. libFuzzer calls LLVMFuzzerTestOneInput() with any
 * octets. HOLDS() checks invariants; the address and undefined-behaviour
 * sanitizers find other errors.
 *
 * Operations and numbers are drawn from the octets one after the other; the run
 * ends with the octets.
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
 * struct octets - rest of the input
 * @at: next octet
 * @left: number of octets
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

/* Draw a number from @from to @to, from as few octets as it needs. */
static inline u64 draw(struct octets *in, u64 from, u64 to)
{
	u64 span = to - from;
	u64 value = 0;
	u64 rest;

	for (rest = span; rest; rest >>= 8)
		value = value << 8 | draw8(in);
	return span == ~0ULL ? value : from + value % (span + 1);
}

/* Draw a rate of any magnitude, including 0 and SLBN_RATE_MAX. */
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
		/* Small and round: different sums become equal. */
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
	       a->again == b->again && a->weight == b->weight &&
	       a->epoch == b->epoch && a->B == b->B && a->bw2 == b->bw2 &&
	       a->bw1 == b->bw1 && a->bw == b->bw && a->use1 == b->use1 &&
	       a->use == b->use && a->g == b->g;
}

static inline bool same_layout(const struct slbn_layout *a,
			       const struct slbn_layout *b)
{
	return a->length == b->length && a->slot_length == b->slot_length &&
	       a->auth == b->auth && a->trace == b->trace;
}

/* Whether a packet is valid: building and parsing it returns the same. */
static inline bool is_valid(const struct slbn_packet *pkt,
			    const struct slbn_slot *slots)
{
	static const u8 origin[4] = { 10, 0, 0, 1 };
	u8 data[SLBN_LENGTH_MAX];
	struct slbn_layout built, layout;
	struct slbn_packet parsed;

	slbn_build_packet(data, pkt, slots, origin, false, false, &built);
	return slbn_parse_packet(data, built.length, &parsed, &layout) ==
		       SLBN_PARSE_OK &&
	       same_layout(&layout, &built) && same_packet(&parsed, pkt);
}

#endif /* FUZZ_H */
