/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SipHash, a keyed hash: Aumasson, Bernstein, "SipHash: a fast short-input PRF",
 * 2012, figure 2.1. Names are those of the paper.
 */
#ifndef FAIRPATH_SIP_H
#define FAIRPATH_SIP_H

#include <fairpath/core.h>

static inline u64 fp_rotate_left(u64 x, unsigned int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void fp_sip_init(u64 v[4], const u64 k[2])
{
	v[0] = k[0] ^ 0x736f6d6570736575ULL;
	v[1] = k[1] ^ 0x646f72616e646f6dULL;
	v[2] = k[0] ^ 0x6c7967656e657261ULL;
	v[3] = k[1] ^ 0x7465646279746573ULL;
}

static inline void fp_sip_rounds(u64 v[4], unsigned int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = fp_rotate_left(v[1], 13) ^ v[0];
		v[3] = fp_rotate_left(v[3], 16) ^ v[2];
		v[0] = fp_rotate_left(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = fp_rotate_left(v[1], 17) ^ v[2];
		v[3] = fp_rotate_left(v[3], 21) ^ v[0];
		v[2] = fp_rotate_left(v[2], 32);
	}
}

static inline void fp_sip_compress(u64 v[4], u64 m, unsigned int rounds)
{
	v[3] ^= m;
	fp_sip_rounds(v, rounds);
	v[0] ^= m;
}

static inline u64 fp_sip_finalize(u64 v[4], unsigned int rounds)
{
	v[2] ^= 0xff;
	fp_sip_rounds(v, rounds);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/**
 * fp_siphash13() - SipHash-1-3 of two words
 * @m: the words
 * @k: random key
 *
 * For hash tables, as the kernel's hsiphash(): chosen words neither collide nor
 * reveal the key.
 *
 * Return: the hash.
 */
static inline u64 fp_siphash13(const u64 m[2], const u64 k[2])
{
	u64 v[4];

	fp_sip_init(v, k);
	fp_sip_compress(v, m[0], 1);
	fp_sip_compress(v, m[1], 1);
	/* The last word has the length, 16 octets. */
	fp_sip_compress(v, 16ULL << 56, 1);
	return fp_sip_finalize(v, 3);
}

#endif /* FAIRPATH_SIP_H */
