/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The keyed hash of the BPF program's tables: multiply-shift (Dietzfelbinger, STACS 1996),
 * and a finalizer.
 *
 * Multiply-shift hashes of consecutive ports or addresses are an arithmetic
 * progression: with one of 200 secrets, five of ten would be in one of 128 sets.
 * The finalizer ends that; it mixes as the last step of MurmurHash3 does.
 */
#ifndef SLBND_HASH_H
#define SLBND_HASH_H

#include <fairpath/core.h>

/* Add 64 bits of a key; @secret: two random words. Begin with another one. */
static inline u64 hash_add(u64 hash, const u64 *secret, u64 bits)
{
	return hash + secret[0] * (u32)bits + secret[1] * (bits >> 32);
}

/* The hash: each of its bits depends on all of the sum, as by MurmurHash3. */
static inline u32 hash_end(u64 hash)
{
	hash *= 0xff51afd7ed558ccdULL;
	hash ^= hash >> 32;
	hash *= 0xc4ceb9fe1a85ec53ULL;
	return hash >> 32;
}

#endif /* SLBND_HASH_H */
