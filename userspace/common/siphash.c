// SPDX-License-Identifier: GPL-2.0
/*
 * SipHash-2-4: Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012.
 */
#include <stddef.h>

#include <fairpath/sip.h>

#include "siphash.h"

/* A little-endian number of at most 8 octets. */
static u64 get_word(const u8 *at, size_t length)
{
	u64 word = 0;

	while (length--)
		word = word << 8 | at[length];
	return word;
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
	const u64 k[2] = { get_word(key, 8), get_word((const u8 *)key + 8, 8) };
	const u8 *data = message;
	const u8 *end = data + (length & ~7U);
	u64 v[4];

	fp_sip_init(v, k);
	for (; data != end; data += 8)
		fp_sip_compress(v, get_word(data, 8), 2);
	fp_sip_compress(v, (u64)length << 56 | get_word(data, length & 7), 2);
	return fp_sip_finalize(v, 4);
}
