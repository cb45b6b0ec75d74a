// SPDX-License-Identifier: GPL-2.0
/*
 * Bounds of a link's resources: the rate of control packets (token bucket), and
 * the memory, whose rows must not be selectable by session IDs.
 */
#include "unit.h"

#include <fairpath/slbn/slbn_bucket.h>
#include <fairpath/slbn/slbn_core.h>

#define SECOND 1000000000ULL

/* Bits accepted from packets of @bits, @gap(n) ns apart, in @duration. */
static u64 accepted(struct slbn_bucket *bucket, u32 bits, u64 start,
		    u64 duration, u64 (*gap)(u64 mean), u64 mean)
{
	u64 now, sum = 0;

	for (now = start; now < start + duration; now += gap(mean), unit_step++)
		if (slbn_bucket_take(bucket, bits, now))
			sum += bits;
	return sum;
}

static u64 constant_gap(u64 mean)
{
	return mean;
}

static u64 random_gap(u64 mean)
{
	return rnd_in(0, 2 * mean);
}

/* 5 % of 1 Mbit/s: each gap earns less than a bit. */
UNIT_TEST(test_bucket_is_exact_on_slow_links)
{
	struct slbn_bucket bucket = { 0 };
	const u64 rate = 50000;
	u64 sum, start = 1700000000 * SECOND;

	slbn_bucket_set_rate(&bucket, rate);
	assert_true(slbn_bucket_take(&bucket, 65536, start));
	assert_false(slbn_bucket_take(&bucket, 1, start));
	sum = accepted(&bucket, 1800, start, 60 * SECOND, constant_gap, 15000);
	CHECK(sum <= 60 * rate && sum + 1800 > 60 * rate, "%llu", sum);
}

/* Packets that are dropped later do not count. */
UNIT_TEST(test_bucket_takes_tokens_back)
{
	struct slbn_bucket bucket = { 0 };
	const u64 start = 1700000000 * SECOND;
	u32 n;

	slbn_bucket_set_rate(&bucket, 50000);
	for (n = 0; n < 1000; n++) {
		assert_true(slbn_bucket_take(&bucket, 65536, start));
		slbn_bucket_return(&bucket, 65536);
	}
	assert_true(slbn_bucket_take(&bucket, 65536, start));
	assert_false(slbn_bucket_take(&bucket, 1, start));
}

/* More packets than the limit, of random gaps, from 64 kbit/s to 100 Gbit/s. */
UNIT_TEST(test_bucket_passes_its_rate)
{
	for (int n = 0; n < 300; n++) {
		u64 rate = 64000 * (u64)rnd_size(1, 1562500);
		u32 bits = rnd_size(672, 8 * 1514);
		u64 mean = bits * SECOND / rate / rnd_in(2, 6) + 1;
		u64 duration = 2000 * (mean + 1);
		struct slbn_bucket bucket = { .filled = rnd() >> 2 };
		u64 sum, limit;

		slbn_bucket_set_rate(&bucket, rate);
		sum = accepted(&bucket, bits, bucket.filled, duration,
			       random_gap, mean);
		limit = (u64)((unsigned __int128)rate * duration / SECOND);
		CHECK(sum <= limit, "%llu: %llu", rate, sum);
		/* The last gaps, and the packet that has not enough tokens. */
		limit -= (u64)((unsigned __int128)rate * 2 * mean / SECOND);
		CHECK(sum + bits >= limit, "%llu: %llu", rate, sum);
	}
}

UNIT_TEST(test_bucket_is_as_deep_as_100_ms)
{
	static const struct {
		u64 rate, depth;
	} expected[] = {
		{ 1, 65536 },
		{ 655360, 65536 },
		{ 655370, 65537 },
		{ 50000000000, 5000000000 },
		{ 1000000000000, 10000000000 },
	};

	for (size_t n = 0; n < ARRAY_SIZE(expected); n++) {
		u64 rate = expected[n].rate, left = expected[n].depth;
		struct slbn_bucket bucket = { 0 };
		u32 bits;

		slbn_bucket_set_rate(&bucket, rate);
		/* Idle for centuries. */
		for (; left; left -= bits) {
			bits = fp_min64(left, 1U << 31);
			CHECK(slbn_bucket_take(&bucket, bits, 1ULL << 63),
			      "%llu: %llu left", rate, left);
		}
		assert_false(slbn_bucket_take(&bucket, 1, 1ULL << 63));
		/* An earlier time earns nothing. */
		assert_false(slbn_bucket_take(&bucket, 1, 5));
		assert_true(
			slbn_bucket_take(&bucket, 1, (1ULL << 63) + SECOND));
	}
}

/* The function of CPython's hash() of bytes, with a key of 0. */
UNIT_TEST(test_siphash13_of_known_words)
{
	static const u64 m[2] = { 1, 2 }, k[2] = { 0, 0 };

	assert_int_equal(fp_siphash13(m, k), 0xfb058313e6201d48);
}

#define ROWS (1U << 18)
#define CHOSEN 16384U

/*
 * Rows of CHOSEN sessions: how many are in the fullest row, and how many would
 * be evicted from theirs.
 */
static void count_rows(const u64 (*id)[2], u32 *fullest, u32 *evicted)
{
	static struct slbn_memory_entry memory[1];
	struct slbn_link_params p = { .rows = ROWS };
	struct slbn_link_vars v = { .memory = memory };
	u8 *used = calloc(ROWS, 1);
	u32 n;

	assert_non_null(used);
	p.hash_key[0] = rnd();
	p.hash_key[1] = rnd();
	*fullest = 0;
	*evicted = 0;
	for (n = 0; n < CHOSEN; n++) {
		const struct slbn_packet pkt = { .id = { id[n][0], id[n][1] } };
		u64 at = slbn_memory_row(&p, &v, slbn_session_hash(&p, &pkt)) -
			 memory;

		assert_true(at < ROWS * SLBN_MEMORY_WAYS);
		*evicted += used[at / SLBN_MEMORY_WAYS]++ >= SLBN_MEMORY_WAYS;
		*fullest = fp_max(*fullest, used[at / SLBN_MEMORY_WAYS]);
	}
	free(used);
}

/*
 * IDs that differ in 14 adjacent bits, at any position, spread over the rows as
 * random ones: of 16,384 in 2^18 rows, a row has 5 or more with a probability
 * of 0.2, and 8 with 10^-9.
 */
UNIT_TEST(test_chosen_sessions_spread_over_the_rows)
{
	u64(*id)[2] = calloc(CHOSEN, sizeof(*id));
	u32 word, shift, n, fullest, evicted;
	u64 base[2] = { rnd(), rnd() };

	assert_non_null(id);
	for (word = 0; word < 2; word++) {
		for (shift = 0; shift <= 50; shift++, unit_step++) {
			for (n = 0; n < CHOSEN; n++) {
				id[n][0] = base[0];
				id[n][1] = base[1];
				id[n][word] ^= (u64)n << shift;
			}
			count_rows(id, &fullest, &evicted);
			CHECK(fullest < 8 && evicted < 8,
			      "word %u from bit %u: %u in a row, %u evicted",
			      word, shift, fullest, evicted);
		}
	}
	free(id);
}

UNIT_MAIN()
