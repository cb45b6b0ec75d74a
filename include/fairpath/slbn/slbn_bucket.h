/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Token bucket that limits the control packets of a link.
 *
 * Tokens are bits. Each nanosecond adds rate / 10^9 of them. Fractions of a
 * bit are kept, so the limit is exact at any rate and packet interval.
 */
#ifndef SLBN_BUCKET_H
#define SLBN_BUCKET_H

#include <fairpath/core.h>

/* Depth, bits: 100 ms of the rate, within these bounds. */
#define SLBN_BUCKET_DEPTH_MIN (64 * 1024ULL)
#define SLBN_BUCKET_DEPTH_MAX 10000000000ULL

#define SLBN_BUCKET_SECOND 1000000000ULL

/**
 * struct slbn_bucket - a token bucket; all zero before the first packet, which
 *	finds it full
 * @tokens: bits
 * @fraction: of a token, in 10^-9 bits
 * @filled: time of the last refill, ns
 * @rate: limit, bit/s
 * @depth: most tokens, bits
 * @full: time in which an empty bucket fills, ns
 */
struct slbn_bucket {
	u64 tokens;
	u64 fraction;
	u64 filled;
	u64 rate;
	u64 depth;
	u64 full;
};

/**
 * slbn_bucket_set_rate() - set the limit of a bucket
 * @b: bucket
 * @rate: limit, bit/s, 1 to 10^12
 */
static inline void slbn_bucket_set_rate(struct slbn_bucket *b, u64 rate)
{
	b->rate = rate;
	b->depth = fp_min64(fp_max64(fp_div(rate, 10), SLBN_BUCKET_DEPTH_MIN),
			    SLBN_BUCKET_DEPTH_MAX);
	b->full = fp_div(b->depth * SLBN_BUCKET_SECOND, rate) + 1;
}

/**
 * slbn_bucket_take() - take the tokens of a packet
 * @b: bucket, after slbn_bucket_set_rate()
 * @bits: length of the packet
 * @now: time, ns; one before that of an earlier call adds no tokens
 *
 * Return: whether there are enough tokens; if not, none are taken.
 */
static inline bool slbn_bucket_take(struct slbn_bucket *b, u32 bits, u64 now)
{
	u64 elapsed = now > b->filled ? now - b->filled : 0;
	u64 earned;

	/* Stop at a full bucket: otherwise the product overflows after 18 ms. */
	elapsed = fp_min64(elapsed, b->full);
	b->fraction += elapsed * b->rate;
	earned = fp_div(b->fraction, SLBN_BUCKET_SECOND);
	b->fraction -= earned * SLBN_BUCKET_SECOND;
	b->tokens = fp_min64(b->tokens + earned, b->depth);
	b->filled = fp_max64(b->filled, now);
	if (b->tokens < bits)
		return false;
	b->tokens -= bits;
	return true;
}

/**
 * slbn_bucket_return() - return the tokens of a packet that was dropped
 * @b: bucket
 * @bits: length of the packet, whose tokens were taken just before
 */
static inline void slbn_bucket_return(struct slbn_bucket *b, u32 bits)
{
	b->tokens += bits;
}

#endif /* SLBN_BUCKET_H */
