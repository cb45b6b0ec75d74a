// SPDX-License-Identifier: GPL-2.0
/*
 * ceiling.h: who may send above its rate, up to which one, until when, and what all
 * sessions of a host borrow together.
 */
#include "unit.h"

#include "userspace/slbnd/sessions/ceiling.h"

#define MS 1000000ULL
#define SECOND 1000000000ULL
#define MEGA 1000000ULL

#define CYCLE (20 * MS)
#define RATE (10 * MEGA)
#define SHARE (50 * MEGA)

/* What 10 Mbit/s send in a cycle, octets. */
#define GRANTED (RATE / 8 / 50)

/* A session that has had a first answer, at a time when it had sent nothing. */
struct fixture {
	struct ceiling ceiling;
	struct ceiling_sample sample;
};

static struct fixture begin(void)
{
	struct fixture f = {
		.sample = {
			.now = SECOND,
			.rate = RATE,
			.lease = 2 * SECOND,
			.share = SHARE,
			.complete = true,
			.fresh = true,
			.cycle = CYCLE,
		},
	};

	assert_int_equal(ceiling_wants(&f.ceiling, &f.sample), CEILING_NONE);
	ceiling_set(&f.ceiling, &f.sample, 0);
	f.sample.now += CYCLE;
	return f;
}

/* The ceiling that the answer gives a host's only session; 0: none. */
static u64 answer(struct fixture *f)
{
	enum ceiling_need need = ceiling_wants(&f->ceiling, &f->sample);
	u64 part = 0;

	if (need != CEILING_NONE)
		part = ceiling_part(f->sample.share, need, 0, 1);
	ceiling_set(&f->ceiling, &f->sample, part);
	return f->ceiling.ceiling;
}

static void check(struct fixture *f, u64 ceiling, enum slbn_guard guard)
{
	assert_int_equal(answer(f), ceiling);
	assert_int_equal(f->ceiling.guard, guard);
}

static void send_limited(struct fixture *f, u64 octets)
{
	f->sample.counters.reached += octets;
	f->sample.counters.limited += octets;
}

/* Until its Join is answered, a session has no rate: what it sends is above that. */
UNIT_TEST(first_answer_lends)
{
	struct fixture f = begin();

	f.ceiling = (struct ceiling){};
	f.sample.counters.reached = 80;
	f.sample.counters.escaped = 10;
	assert_int_equal(answer(&f), SHARE);
	f.ceiling = (struct ceiling){};
	f.sample.counters.escaped = 11;
	assert_int_equal(answer(&f), 0);
}

UNIT_TEST(filled_window_borrows)
{
	struct fixture f = begin();

	send_limited(&f, GRANTED);
	check(&f, SHARE, SLBN_GUARD_SHARE);
	assert_int_equal(f.ceiling.until, f.sample.now + 2 * CYCLE);
}

UNIT_TEST(use_above_rate_keeps_ceiling)
{
	struct fixture f = begin();

	/* Not at the edge of the ceiling's window, and above the rate. */
	f.sample.counters.reached += GRANTED + 2;
	assert_int_equal(answer(&f), SHARE);
	f = begin();
	f.sample.counters.reached += GRANTED - 2;
	check(&f, 0, SLBN_GUARD_WINDOW);
}

/* Slow start pauses between its bursts. */
UNIT_TEST(pauses_keep_ceiling)
{
	struct fixture f = begin();
	u32 n;

	send_limited(&f, GRANTED);
	assert_int_equal(answer(&f), SHARE);
	for (n = 0; n < CEILING_PATIENCE; n++) {
		f.sample.now += CYCLE;
		f.sample.counters.reached += n % 2 ? GRANTED / 2 : 0;
		assert_int_equal(answer(&f), SHARE);
		assert_int_equal(f.ceiling.until, f.sample.now + 2 * CYCLE);
	}
	f.sample.now += CYCLE;
	assert_int_equal(answer(&f), 0);
	f.sample.now += CYCLE;
	send_limited(&f, GRANTED);
	assert_int_equal(answer(&f), SHARE);
}

/* Up to a part of the share, whatever was dropped; also with some data. */
UNIT_TEST(acknowledgments_have_a_ceiling)
{
	const u64 most = RATE + SHARE / CEILING_ACKS;
	struct fixture f = begin();
	u32 n;

	f.sample.counters.acks += CEILING_FEW_ACKS;
	assert_int_equal(answer(&f), 0);
	f.sample.now += CYCLE;
	f.sample.counters.acks += CEILING_FEW_ACKS + 1;
	f.sample.counters.dropped++;
	assert_int_equal(answer(&f), most);
	/* Between bursts of them. */
	for (n = 0; n < CEILING_PATIENCE; n++) {
		f.sample.now += CYCLE;
		assert_int_equal(answer(&f), most);
	}
	f.sample.now += CYCLE;
	assert_int_equal(answer(&f), 0);
	/* Who sends data does not get more by it. */
	f.sample.now += CYCLE;
	send_limited(&f, GRANTED);
	f.sample.counters.acks +=
		GRANTED / CEILING_ESCAPED + CEILING_FEW_ACKS + 1;
	assert_int_equal(answer(&f), most);
	f.sample.now += CYCLE;
	send_limited(&f, GRANTED);
	f.sample.counters.acks += GRANTED / CEILING_ESCAPED + CEILING_FEW_ACKS;
	assert_int_equal(answer(&f), SHARE);
}

UNIT_TEST(never_beyond_lease)
{
	struct fixture f = begin();

	send_limited(&f, GRANTED);
	f.sample.lease = f.sample.now + CYCLE;
	assert_int_equal(answer(&f), SHARE);
	assert_int_equal(f.ceiling.until, f.sample.lease);
	f = begin();
	send_limited(&f, GRANTED);
	f.sample.lease = f.sample.now;
	check(&f, 0, SLBN_GUARD_ANSWER);
}

UNIT_TEST(share_below_rate_lends_nothing)
{
	struct fixture f = begin();

	send_limited(&f, GRANTED);
	f.sample.share = RATE;
	check(&f, 0, SLBN_GUARD_SHARE);
	f = begin();
	send_limited(&f, GRANTED);
	f.sample.rate = 0;
	check(&f, 0, SLBN_GUARD_ANSWER);
}

UNIT_TEST(each_link_must_count_itself)
{
	struct fixture f = begin();

	send_limited(&f, GRANTED);
	f.sample.complete = false;
	check(&f, 0, SLBN_GUARD_LINKS);
}

UNIT_TEST(drops_end_borrowing)
{
	struct fixture f = begin();

	send_limited(&f, GRANTED);
	f.sample.counters.dropped++;
	check(&f, 0, SLBN_GUARD_PACER);
	f.sample.now += CYCLE;
	send_limited(&f, GRANTED);
	assert_int_equal(answer(&f), SHARE);
}

UNIT_TEST(reset_counters_begin_anew)
{
	struct fixture f = begin();

	send_limited(&f, GRANTED);
	f.ceiling.before.dropped = 1;
	assert_int_equal(answer(&f), 0);
}

/* Also those who obey in each cycle without a ceiling. */
UNIT_TEST(cheaters_are_barred)
{
	struct fixture f = begin();
	u32 n, with = 0;

	f.sample.lease = ~0ULL;
	send_limited(&f, 8 * GRANTED);
	f.sample.counters.escaped += GRANTED;
	assert_int_equal(answer(&f), SHARE);
	f.sample.now += CYCLE;
	send_limited(&f, 8 * GRANTED);
	f.sample.counters.escaped += GRANTED + 1;
	check(&f, 0, SLBN_GUARD_ESCAPED);
	for (n = 0; n < 49; n++) {
		f.sample.now += CYCLE;
		send_limited(&f, GRANTED);
		check(&f, 0, SLBN_GUARD_ESCAPED);
	}
	f.sample.now += CYCLE;
	send_limited(&f, GRANTED);
	assert_int_equal(answer(&f), SHARE);
	/* It obeys in one cycle, and cheats in the next one. */
	for (n = 0; n < 1000; n++) {
		bool cheats = f.ceiling.ceiling;

		f.sample.now += CYCLE;
		f.sample.counters.escaped += cheats ? 5 * GRANTED : 0;
		send_limited(&f, cheats ? 0 : GRANTED);
		with += !!answer(&f);
	}
	assert_in_range(with, 18, 20);
}

UNIT_TEST(udp_never_borrows)
{
	struct fixture f = begin();
	u32 n;

	for (n = 0; n < 100; n++) {
		f.sample.now += CYCLE;
		f.sample.counters.escaped += 10 * GRANTED;
		check(&f, 0, SLBN_GUARD_ESCAPED);
	}
}

UNIT_TEST(unanswered_cycles_end_it)
{
	struct fixture f = begin();
	u64 until;

	send_limited(&f, GRANTED);
	assert_int_equal(answer(&f), SHARE);
	until = f.ceiling.until;
	/* Answers to retransmissions do not state a share. */
	f.sample.fresh = false;
	f.sample.now += CYCLE;
	f.sample.share = 2 * SHARE;
	send_limited(&f, 5 * GRANTED);
	assert_int_equal(answer(&f), SHARE);
	assert_int_equal(f.ceiling.until, until);
	f.sample.now += CYCLE;
	send_limited(&f, 5 * GRANTED);
	check(&f, 0, SLBN_GUARD_ANSWER);
	/* Nor do they begin one. */
	f.sample.now += CYCLE;
	send_limited(&f, 5 * GRANTED);
	assert_int_equal(answer(&f), 0);
}

UNIT_TEST(borrowed_octets_are_counted)
{
	struct fixture f = begin();

	f.sample.counters.reached += 5 * GRANTED;
	assert_int_equal(ceiling_borrowed(&f.ceiling, &f.sample), 0);
	assert_int_equal(answer(&f), SHARE);
	f.sample.now += CYCLE;
	f.sample.counters.reached += 3 * GRANTED;
	f.sample.counters.escaped += GRANTED;
	assert_int_equal(ceiling_borrowed(&f.ceiling, &f.sample), 3 * GRANTED);
	f = begin();
	send_limited(&f, GRANTED);
	assert_int_equal(answer(&f), SHARE);
	f.sample.now += CYCLE;
	f.sample.counters.reached += GRANTED;
	assert_int_equal(ceiling_borrowed(&f.ceiling, &f.sample), 0);
}

#define SESSIONS 100

/* Sessions of a host get answers in any order; some stop, others begin. */
UNIT_TEST(host_divides_one_share)
{
	u64 borrowed[SESSIONS] = {}, sum = 0, most = 0, part;
	bool member[SESSIONS] = {};
	u32 round, n, members = 0;

	for (round = 0; round < 20000; round++) {
		u32 phase = round / SESSIONS % 4;

		n = round % SESSIONS;
		sum -= borrowed[n];
		members -= member[n];
		borrowed[n] = 0;
		/* Some, then all, then the same again for two cycles. */
		if (phase < 2)
			member[n] = phase || one_in(8);
		if (member[n]) {
			part = ceiling_part(SHARE, CEILING_FOR_DATA, sum,
					    ++members);
			assert_true(part <= SHARE / members);
			borrowed[n] = part;
			sum += part;
		}
		most = fp_max64(most, sum);
		assert_true(sum <= CEILING_MOST * SHARE);
		if (phase >= 2 && n == SESSIONS - 1)
			assert_true(sum <= SHARE);
		if (phase == 3)
			assert_int_equal(borrowed[n], SHARE / SESSIONS);
	}
	assert_true(most > SHARE);
	assert_int_equal(ceiling_part(SHARE, CEILING_FOR_DATA, 0, 1), SHARE);
	assert_int_equal(ceiling_part(SHARE, CEILING_FOR_DATA, SHARE, 4),
			 SHARE / 4);
	assert_int_equal(
		ceiling_part(SHARE, CEILING_FOR_DATA, CEILING_MOST * SHARE, 4),
		0);
	assert_int_equal(ceiling_part(SHARE, CEILING_FOR_ACKS, 0, 4),
			 SHARE / CEILING_ACKS / 4);
}

/* Other sessions of the host leave it a part of the share, or nothing. */
UNIT_TEST(host_is_the_guard)
{
	struct fixture f = begin();

	send_limited(&f, GRANTED);
	assert_true(ceiling_wants(&f.ceiling, &f.sample));
	ceiling_set(&f.ceiling, &f.sample, SHARE / 4);
	assert_int_equal(f.ceiling.ceiling, RATE + SHARE / 4);
	assert_int_equal(f.ceiling.guard, SLBN_GUARD_HOST);
	ceiling_set(&f.ceiling, &f.sample, 0);
	assert_int_equal(f.ceiling.ceiling, 0);
	assert_int_equal(f.ceiling.guard, SLBN_GUARD_HOST);
}

UNIT_MAIN()
