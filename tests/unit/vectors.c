// SPDX-License-Identifier: GPL-2.0
/*
 * Prints packets of each type, authenticated and not: test_foreign.py compares
 * them between machines of other word sizes and byte orders.
 */
#include <stdio.h>
#include <string.h>

#include <fairpath/slbn/slbn_core.h>
#include <fairpath/slbn/slbn_wire.h>

#include "userspace/common/siphash.c"

static u64 next(void)
{
	static u64 state = 20040307;

	/* Knuth's MMIX. */
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return state >> 11;
}

static void print(const u8 *data, u32 length)
{
	u32 i;

	for (i = 0; i < length; i++)
		printf("%02x", data[i]);
	printf("\n");
}

static void build(u8 type, u8 slots, bool v6)
{
	struct slbn_slot slot[SLBN_HOPS_MAX];
	u8 data[SLBN_LENGTH_MAX] = {}, octets[32];
	struct slbn_packet pkt = { .type = type, .slots = slots };
	struct slbn_key key = { .id = type };
	struct slbn_carrier carrier = {
		.addresses = octets,
		.length = v6 ? 32 : 8,
	};
	struct slbn_layout layout;
	u32 i;

	for (i = 0; i < sizeof(octets); i++)
		octets[i] = (u8)next();
	memcpy(key.secret, octets + 16, sizeof(key.secret));
	pkt.id[0] = next();
	pkt.id[1] = next();
	pkt.seq = (u32)next();
	pkt.weight = 1 + (u32)(next() % SLBN_WEIGHT_MAX);
	pkt.epoch = (u32)next();
	pkt.bottleneck = SLBN_NO_HOP;
	pkt.B = next();
	pkt.bw2 = next() % SLBN_RATE_MAX;
	pkt.bw1 = next() % SLBN_RATE_MAX;
	pkt.bw = next() % SLBN_RATE_MAX;
	pkt.use1 = next() % SLBN_RATE_MAX;
	pkt.use = next() % SLBN_RATE_MAX;
	pkt.g = next() % SLBN_RATE_MAX;
	for (i = 0; i < slots; i++) {
		slot[i].tag = (u16)next();
		slot[i].code = slbn_encode_down(next());
	}
	slbn_build_packet(data, &pkt, slot, octets, v6, true, &layout);
	slbn_authenticate(data, &layout, siphash24, &key, &carrier);
	print(data, layout.length);
}

int main(void)
{
	u8 type, slots;

	for (type = 1; type <= SLBN_TYPE_MAX; type++) {
		for (slots = 1; slots <= SLBN_HOPS_MAX; slots *= 2) {
			build(type, slots, false);
			build(type, slots, true);
		}
	}
	return 0;
}
