// SPDX-License-Identifier: GPL-2.0
/*
 * SipHash-2-4: Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012,
 * figure 2.1. Names are those of the paper.
 */
#include <stddef.h>

#include "siphash.h"

/* A little-endian number of at most 8 octets. */
static u64 get_word(const u8 *at, size_t length)
{
	u64 word = 0;

	while (length--)
		word = word << 8 | at[length];
	return word;
}

static u64 rotate_left(u64 x, unsigned int bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_rounds(u64 v[4], unsigned int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate_left(v[1], 13) ^ v[0];
		v[3] = rotate_left(v[3], 16) ^ v[2];
		v[0] = rotate_left(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate_left(v[1], 17) ^ v[2];
		v[3] = rotate_left(v[3], 21) ^ v[0];
		v[2] = rotate_left(v[2], 32);
	}
}

/**
 * siphash24() - hash a message
 * @message: the message; any alignment
 * @length: octets of it
 * @key: SIPHASH_KEY_LENGTH octets
 *
 * Return: the hash.
 */
u64 siphash24(const void *message, u32 length, const void *key)
{
	const u64 k0 = get_word(key, 8);
	const u64 k1 = get_word((const u8 *)key + 8, 8);
	u64 v[4] = {
		k0 ^ 0x736f6d6570736575ULL,
		k1 ^ 0x646f72616e646f6dULL,
		k0 ^ 0x6c7967656e657261ULL,
		k1 ^ 0x7465646279746573ULL,
	};
	const u8 *data = message;
	const u8 *end = data + (length & ~7U);
	u64 m;

	for (; data != end; data += 8) {
		m = get_word(data, 8);
		v[3] ^= m;
		sip_rounds(v, 2);
		v[0] ^= m;
	}
	m = (u64)length << 56 | get_word(data, length & 7);
	v[3] ^= m;
	sip_rounds(v, 2);
	v[0] ^= m;
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
