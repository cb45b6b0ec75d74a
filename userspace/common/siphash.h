/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SipHash-2-4: authenticates short messages by a key of 16 octets.
 *
 * Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012, figure 2.1; the
 * names are theirs. The kernel's siphash() computes the same; its links and our
 * agents authenticate control packets to each other by it.
 */
#ifndef FAIRPATH_SIPHASH_H
#define FAIRPATH_SIPHASH_H

#include <stddef.h>

#include <fairpath/core.h>

#define SIPHASH_KEY_LENGTH 16

/* Octets as a number, the first the lowest, whatever machine this is. */
static inline u64 siphash_word(const u8 *at, size_t length)
{
	u64 word = 0;

	while (length--)
		word = word << 8 | at[length];
	return word;
}

static inline u64 siphash_rotate(u64 x, unsigned int by)
{
	return x << by | x >> (64 - by);
}

static inline void siphash_rounds(u64 v[4], unsigned int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = siphash_rotate(v[1], 13) ^ v[0];
		v[3] = siphash_rotate(v[3], 16) ^ v[2];
		v[0] = siphash_rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = siphash_rotate(v[1], 17) ^ v[2];
		v[3] = siphash_rotate(v[3], 21) ^ v[0];
		v[2] = siphash_rotate(v[2], 32);
	}
}

/**
 * siphash24() - the hash of a message
 * @data: the message
 * @length: octets of it
 * @key: SIPHASH_KEY_LENGTH octets
 *
 * Return: the hash.
 */
static inline u64 siphash24(const u8 *data, size_t length, const u8 *key)
{
	const u64 k0 = siphash_word(key, 8);
	const u64 k1 = siphash_word(key + 8, 8);
	u64 v[4] = {
		k0 ^ 0x736f6d6570736575ULL,
		k1 ^ 0x646f72616e646f6dULL,
		k0 ^ 0x6c7967656e657261ULL,
		k1 ^ 0x7465646279746573ULL,
	};
	const u8 *end = data + (length & ~(size_t)7);
	u64 m;

	for (; data != end; data += 8) {
		m = siphash_word(data, 8);
		v[3] ^= m;
		siphash_rounds(v, 2);
		v[0] ^= m;
	}
	m = (u64)length << 56 | siphash_word(data, length & 7);
	v[3] ^= m;
	siphash_rounds(v, 2);
	v[0] ^= m;
	v[2] ^= 0xff;
	siphash_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif /* FAIRPATH_SIPHASH_H */
