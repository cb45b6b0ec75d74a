// SPDX-License-Identifier: GPL-2.0
/*
 * window.h: which windows a sender gets, whatever its acknowledgements say, and what
 * they do to the queue of a pacer, with a model of both.
 */
#include "unit.h"

#include <string.h>

#include "userspace/slbnd/enforcement/window.h"

#define US 1000ULL
#define MS 1000000ULL
#define SECOND 1000000000ULL
#define MEGA 1000000ULL
#define MSS 1448
#define HEADERS 66

/* --- the start of a connection ------------------------------------------- */

#define BOTH (WINDOW_SCALED | WINDOW_SACK)

static u64 syn_options(u64 set, u32 scale, u32 mss)
{
	return set | (u64)scale << WINDOW_SCALE_SHIFT |
	       (u64)mss << WINDOW_MSS_SHIFT;
}

/* A connection that @first opens, with these options of host and peer. */
static bool begin(struct window *window, enum window_end first, u64 host,
		  u64 peer)
{
	enum window_end second =
		first == WINDOW_HOST ? WINDOW_PEER : WINDOW_HOST;
	u64 options[2] = { [WINDOW_HOST] = host, [WINDOW_PEER] = peer };
	struct window_start start = {};

	*window = (struct window){};
	window_syn(&start, first, 7, options[first]);
	assert_true(window_syn_ack(&start, second, 3, 8, options[second]));
	return window_begin(window, &start, 0);
}

UNIT_TEST(scale_needs_both_ends)
{
	u64 with = syn_options(BOTH, 7, 1460), without = WINDOW_SACK;
	enum window_end first;
	struct window window;

	for (first = WINDOW_HOST; first <= WINDOW_PEER; first++) {
		assert_true(begin(&window, first, syn_options(BOTH, 9, 1460),
				  with));
		assert_int_equal(window.scale, 7);
		assert_true(begin(&window, first, without, with));
		assert_int_equal(window.scale, 0);
		assert_true(begin(&window, first, with, without));
		assert_int_equal(window.scale, 0);
		assert_true(window.sack);
		assert_true(begin(&window, first, with, WINDOW_SCALED));
		assert_false(window.sack);
	}
}

UNIT_TEST(some_connections_are_left_alone)
{
	struct window window;

	assert_false(begin(&window, WINDOW_HOST, BOTH | WINDOW_SIGNED, BOTH));
	assert_false(begin(&window, WINDOW_HOST, BOTH, BOTH | WINDOW_SIGNED));
	assert_false(begin(&window, WINDOW_HOST, BOTH, WINDOW_MALFORMED));
	assert_false(begin(&window, WINDOW_PEER, BOTH | WINDOW_MULTIPATH,
			   BOTH | WINDOW_MULTIPATH));
	/* The peer has declined. */
	assert_true(begin(&window, WINDOW_HOST, BOTH | WINDOW_MULTIPATH, BOTH));
}

UNIT_TEST(syns_must_match)
{
	struct window_start start = {};
	struct window window = {};

	assert_false(window_begin(&window, &start, 0));
	window_syn(&start, WINDOW_HOST, ~0U, BOTH);
	assert_false(window_begin(&window, &start, 0));
	/* Forged answers. */
	assert_false(window_syn_ack(&start, WINDOW_PEER, 5, 1,
				    syn_options(BOTH, 14, 1460)));
	assert_false(window_syn_ack(&start, WINDOW_HOST, 5, 0, BOTH));
	assert_false(window_begin(&window, &start, 0));
	assert_true(window_syn_ack(&start, WINDOW_PEER, 5, 0,
				   syn_options(BOTH, 3, 1460)));
	/* Only the first answer counts. */
	assert_false(window_syn_ack(&start, WINDOW_PEER, 5, 0,
				    syn_options(BOTH, 14, 1460)));
	assert_true(window_begin(&window, &start, 0));
	assert_int_equal(window.scale, 3);
}

/* The stream of the one who opened or accepted: a forger does not know its numbers. */
UNIT_TEST(handshakes_count_if_data_follow)
{
	struct window_start start = {};
	enum window_end first;

	assert_false(window_follows(&start, 1));
	for (first = WINDOW_HOST; first <= WINDOW_PEER; first++) {
		bool host = first == WINDOW_HOST;

		window_syn(&start, first, host ? ~0U : 7, BOTH);
		assert_int_equal(window_follows(&start, 0), host);
		window_syn_ack(&start, host ? WINDOW_PEER : WINDOW_HOST,
			       host ? 7 : ~0U, host ? 0 : 8, BOTH);
		assert_true(window_follows(&start, 0));
		/* Fast Open, or the first segment was dropped. */
		assert_true(window_follows(&start, WINDOW_FIRST));
		assert_false(window_follows(&start, WINDOW_FIRST + 1));
		assert_false(window_follows(&start, ~0U));
	}
}

UNIT_TEST(options_are_read)
{
	struct window window;
	u64 set = 0;

	set = window_option(set, 2, 4, 1400);
	set = window_option(set, 3, 3, 20);
	set = window_option(set, 8, 10, 99);
	assert_int_equal(set, syn_options(WINDOW_SCALED, 14, 1400));
	assert_int_equal(window_option(set, 4, 2, 0) ^ set, WINDOW_SACK);
	assert_int_equal(window_option(set, 19, 18, 0) ^ set, WINDOW_SIGNED);
	assert_int_equal(window_option(set, 29, 16, 0) ^ set, WINDOW_SIGNED);
	assert_int_equal(window_option(set, 30, 12, 0) ^ set, WINDOW_MULTIPATH);
	assert_int_equal(window_option(set, 3, 4, 0) ^ set, WINDOW_MALFORMED);
	assert_int_equal(window_option(set, 2, 3, 0) ^ set, WINDOW_MALFORMED);
	/* The segment size is the smaller of both ends', and at least the usual one. */
	begin(&window, WINDOW_HOST, set, syn_options(0, 0, 1000));
	assert_int_equal(window.mss, 1000);
	begin(&window, WINDOW_HOST, set, 0);
	assert_int_equal(window.mss, WINDOW_MSS);
}

/* --- single acknowledgements ---------------------------------------------- */

static bool send_data(struct window *window, u64 now, u64 rate, u32 sequence,
		      u32 length)
{
	struct window_data data = {
		.now = now,
		.ticks = now,
		.departure = now,
		.shared = 1,
		.rate = rate,
		.assigned = rate,
		.sequence = sequence,
		.length = length,
		.mss = fp_min(length, MSS),
		.headers = HEADERS,
	};

	struct window_sharing sharing = {};

	return window_sent(window, &sharing, &data);
}

/* An acknowledgment arrives, as in windows.bpf.h. */
static u32 arrive(struct window *window, u64 now, struct window_ack *ack)
{
	ack->ticks = now;
	if (window_times(window, ack->ack))
		window_sample(window, now);
	return window_ack(window, ack);
}

static u32 acknowledge(struct window *window, u64 now, u32 number, u32 field)
{
	struct window_ack ack = {
		.ack = number,
		.sacked = number,
		.field = field,
	};

	return arrive(window, now, &ack);
}

/* A connection at 20 Mbit/s that has measured 20 ms, with all data acknowledged. */
static void establish(struct window *window, u32 scale, u32 sequence)
{
	u32 n;

	assert_true(begin(window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
			  syn_options(BOTH, scale, 1460)));
	for (n = 0; n < 100; n++)
		send_data(window, SECOND, 20 * MEGA, sequence + n * MSS, MSS);
	acknowledge(window, SECOND + 20 * MS, sequence + 100 * MSS,
		    fp_min(100 * MSS >> scale, 65535));
}

/* The segments of rate * round-trip time, and one. */
UNIT_TEST(window_is_the_rate_times_the_round_trip)
{
	static const u32 scales[] = { 0, 7, 10 };
	struct window window;
	u32 n, field, octets;

	for (n = 0; n < ARRAY_SIZE(scales); n++) {
		u32 scale = scales[n], mss = 100 * MSS, number = ~0U - 40000;

		establish(&window, scale, number);
		number += mss;
		/* What was granted is used first. */
		send_data(&window, SECOND + 21 * MS, 20 * MEGA, number, mss);
		number += mss;
		field = acknowledge(&window, SECOND + 41 * MS, number,
				    65535 >> (scale ? 0 : 1));
		octets = field << scale;
		/* 50000 octets on the wire are 33 segments. */
		assert_in_range(octets, fp_min(32 * MSS, 32767 - 1),
				34 * MSS + (1 << scale));
		assert_int_equal(window.lowered, scale != 0);
	}
}

UNIT_TEST(what_was_granted_is_kept)
{
	struct window window;
	u32 number = 5 + 100 * MSS, right = number + 65535, n;

	establish(&window, 0, 5);
	for (n = 1; n <= 10; n++) {
		send_data(&window, SECOND + 30 * MS, 20 * MEGA, number, MSS);
		number += MSS;
		assert_int_equal(
			acknowledge(&window, SECOND + 50 * MS, number, 65535),
			fp_max(right - number, 34 * MSS));
	}
}

/* A session at 1 Mbit/s may send at 20 Mbit/s: see ceiling.h. */
UNIT_TEST(ceiling_is_granted_as_it_is_filled)
{
	struct window_data data = {
		.now = SECOND + 30 * MS,
		.ticks = SECOND + 30 * MS,
		.departure = SECOND + 30 * MS,
		.shared = 1,
		.rate = 20 * MEGA,
		.assigned = MEGA,
		.mss = MSS,
		.headers = HEADERS,
	};
	struct window_sharing sharing = {};
	u32 number = 100 * MSS, size = 0, n;
	struct window window;

	establish(&window, 7, 0);
	/*
	 * One segment in flight: as without the ceiling. The pacer runs dry, for which the
	 * window is not the reason.
	 */
	data.missed = 10 * MS;
	for (n = 0; n < 100; n++, number += MSS) {
		data.sequence = number;
		data.length = MSS;
		window_sent(&window, &sharing, &data);
		data.now += 20 * MS;
		data.ticks = data.departure = data.now;
		size = acknowledge(&window, data.now, number + MSS, 65535) << 7;
	}
	assert_true(sharing.round > 10);
	assert_in_range(size, 3 * MSS - 127, 4 * MSS);
	data.missed = 0;
	/* It fills its window: twice as much, until it has that of the ceiling. */
	for (n = 0; n < 5; n++) {
		u32 sent = size;

		data.sequence = number;
		data.length = sent;
		window_sent(&window, &sharing, &data);
		number += sent;
		size = acknowledge(&window, data.now + 20 * MS, number, 65535)
		       << 7;
		assert_true(size <= 2 * sent);
	}
	assert_in_range(size, 33 * MSS - 127, 38 * MSS);
}

UNIT_TEST(receivers_window_is_the_limit)
{
	struct window window;

	establish(&window, 7, 0);
	send_data(&window, SECOND + 30 * MS, 20 * MEGA, 100 * MSS, 90 * MSS);
	assert_int_equal(acknowledge(&window, SECOND + 50 * MS, 190 * MSS, 0),
			 0);
	assert_int_equal(acknowledge(&window, SECOND + 50 * MS, 190 * MSS, 1),
			 1);
	assert_int_equal(acknowledge(&window, SECOND + 50 * MS, 190 * MSS, 30),
			 30);
	assert_true(acknowledge(&window, SECOND + 50 * MS, 190 * MSS, 65535) <
		    65535);
}

UNIT_TEST(unknown_is_left_alone)
{
	struct window window;

	/* Nothing was sent yet. */
	begin(&window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
	      syn_options(BOTH, 7, 1460));
	assert_int_equal(acknowledge(&window, SECOND, 0, 65535), 65535);
}

/* --- without a rate ------------------------------------------------------- */

/* Any receiver offers as much at once. */
UNIT_TEST(bound_without_a_rate)
{
	static const u32 scales[] = { 7, 10, 14 };
	struct window window;
	u32 n, field, right, number;

	for (n = 0; n < ARRAY_SIZE(scales); n++) {
		u32 scale = scales[n], lost = (1U << scale) - 1;

		begin(&window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
		      syn_options(BOTH, scale, 1460));
		number = ~0U - 100000;
		send_data(&window, SECOND, 0, number, 10 * MSS);
		number += 10 * MSS;
		field = acknowledge(&window, SECOND + MS, number, 65535);
		assert_int_equal(field << scale, WINDOW_OPEN);
		/* Four times what was in flight; at most what the receiver has. */
		send_data(&window, SECOND + 2 * MS, 0, number, WINDOW_OPEN);
		number += WINDOW_OPEN;
		field = acknowledge(&window, SECOND + 3 * MS, number, 65535);
		assert_in_range(field << scale,
				fp_min(4 * WINDOW_OPEN - lost, 65535 << scale),
				4 * WINDOW_OPEN);
		right = number + (field << scale);
		assert_int_equal(
			acknowledge(&window, SECOND + 3 * MS, number, 9), 9);
		/* What was granted is kept. */
		send_data(&window, SECOND + 4 * MS, 0, number, MSS);
		number += MSS;
		field = acknowledge(&window, 9 * SECOND, number, 65535);
		assert_in_range(field << scale, right - number - lost,
				right - number + lost);
	}
}

/* Octets acknowledged a second ago count no more, even if the clock of 32 bits has wrapped. */
UNIT_TEST(pause_ends_what_was_acknowledged_lately)
{
	static const u64 pauses[] = { SECOND, 40 * 60 * SECOND,
				      70 * 60 * SECOND, 80 * 60 * SECOND };
	u32 n, part, number, field = 0;
	struct window window;
	u64 now;

	for (n = 0; n < ARRAY_SIZE(pauses); n++) {
		begin(&window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
		      syn_options(BOTH, 14, 1460));
		now = SECOND;
		number = 0;
		for (part = 0; part < 2; part++) {
			u64 until = now + 60 * SECOND;

			for (; now < until; now += 20 * MS) {
				send_data(&window, now, 0, number, MSS);
				number += MSS;
				field = acknowledge(&window, now + 10 * MS,
						    number, 65535);
			}
			assert_in_range(field << 14, 1, WINDOW_OPEN);
			now += pauses[n];
		}
	}
}

/* The same if the links of the path have stated a share: what the pacer can hold at it. */
UNIT_TEST(share_bounds_without_a_rate)
{
	static const struct {
		u64 share;
		u32 octets;
	} cases[] = {
		/* Octets of the share in 20 + 25 ms, less headers, and a segment. */
		{ 10 * MEGA, 56250 * 1448ULL / 1514 + 1448 },
		{ 5 * MEGA, 28125 * 1448ULL / 1514 + 1448 },
		/* Slow: what senders begin with. */
		{ 1 * MEGA, WINDOW_BEGIN * 1448 },
		{ 1, WINDOW_BEGIN * 1448 },
		/* Fast: as without a share. */
		{ 900 * MEGA, WINDOW_OPEN },
		{ 0, WINDOW_OPEN },
	};
	static const u32 scales[] = { 7, 10, 14 };
	struct window_ack ack = {};
	struct window window;
	u32 n, scale, number;

	for (n = 0; n < ARRAY_SIZE(cases) * ARRAY_SIZE(scales); n++) {
		u32 octets = cases[n / ARRAY_SIZE(scales)].octets, unit;

		scale = scales[n % ARRAY_SIZE(scales)];
		/* Units of 16 kB are longer than what senders begin with. */
		unit = fp_max(256, 1U << scale);
		begin(&window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
		      syn_options(BOTH, scale, 1460));
		window.rtt[0] = window_time(20 * MS);
		send_data(&window, SECOND, 0, 0, 100 * MSS);
		/* Until all that was granted at first has arrived. */
		number = WINDOW_OPEN;
		ack = (struct window_ack){
			.ticks = SECOND + 20 * MS,
			.ack = number,
			.sacked = number,
			.field = 65535,
			.share = cases[n / ARRAY_SIZE(scales)].share,
		};
		window.right = number;
		window.acked = 1;
		window.ack = number;
		window.from = number;
		window.since = window_time(ack.ticks);
		window.sent = number;
		number = window_ack(&window, &ack) << scale;
		assert_in_range(number, octets - fp_min(unit, octets - 1),
				octets + unit);
	}
}

/* What a rate finds: no more than the bound, also if it is there at the first one. */
UNIT_TEST(first_acknowledgment_grants_little)
{
	struct window window;
	u32 rate, field;

	for (rate = 0; rate < 2; rate++) {
		begin(&window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
		      syn_options(BOTH, 12, 1460));
		send_data(&window, SECOND, rate * MEGA, 0, MSS);
		field = acknowledge(&window, SECOND + 20 * MS, MSS, 65535);
		assert_in_range(field << 12, 1, WINDOW_OPEN);
	}
	/* Those before it came another way, and may have granted more. */
	begin(&window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
	      syn_options(BOTH, 12, 1460));
	send_data(&window, SECOND, 0, 0, MSS);
	send_data(&window, 3 * SECOND, 0, MSS, MSS);
	assert_true(window.silent);
	assert_int_equal(acknowledge(&window, 4 * SECOND, 2 * MSS, 65535),
			 65535);
}

UNIT_TEST(opening_is_bounded)
{
	struct window_start start = {};

	window_syn(&start, WINDOW_PEER, 7, syn_options(BOTH, 12, 1460));
	assert_int_equal(window_bound_field(&start, 4, 65535, 12, SECOND),
			 65535);
	window_syn_ack(&start, WINDOW_HOST, 3, 8, syn_options(BOTH, 7, 1460));
	assert_int_equal(window_bound_field(&start, 4, 5, 12, SECOND), 5);
	assert_int_equal(window_bound_field(&start, 4, 65535, 12, SECOND),
			 WINDOW_OPEN >> 12);
	start.options[WINDOW_HOST] = WINDOW_SACK;
	assert_int_equal(window_bound_field(&start, 4, 65535, 0, SECOND),
			 65535);
	start.options[WINDOW_HOST] = BOTH | WINDOW_SIGNED;
	assert_int_equal(window_bound_field(&start, 4, 65535, 12, SECOND),
			 65535);
}

/* A connection opens in a session that has a rate: what the first windows are, octets. */
static u32 open_with(struct window_start *start, enum window_end first,
		     u64 rate, u64 share, u64 rtt, bool again)
{
	u64 host = syn_options(BOTH, 7, 1460),
	    peer = syn_options(BOTH, 13, 1460);

	*start = (struct window_start){};
	if (first == WINDOW_HOST)
		window_syn(start, WINDOW_HOST, 7, host);
	else
		window_syn(start, WINDOW_PEER, 3, peer);
	if (first == WINDOW_PEER)
		assert_true(window_syn_ack(start, WINDOW_HOST, 7, 4, host));
	window_opens_at(start, again, SECOND, rate, share);
	if (first == WINDOW_HOST) {
		assert_true(window_syn_ack(start, WINDOW_PEER, 3, 8, peer));
		return window_bound_field(start, 8, 65535, 0, SECOND + rtt);
	}
	return window_bound_field(start, 8, 65535, 13, SECOND + rtt) << 13;
}

static u32 open_at(struct window_start *start, enum window_end first, u64 rate,
		   u64 rtt, bool again)
{
	return open_with(start, first, rate, 0, rtt, again);
}

UNIT_TEST(share_bounds_the_first_window)
{
	struct window_start start;

	/* 5 Mbit/s in 10 + 25 ms, and a segment. */
	assert_in_range(
		open_with(&start, WINDOW_HOST, 0, 5 * MEGA, 10 * MS, false),
		21875, 23500);
	/* Ten segments; a rate is what counts. */
	assert_int_equal(
		open_with(&start, WINDOW_HOST, 0, MEGA, 10 * MS, false),
		10 * 1460);
	assert_int_equal(open_with(&start, WINDOW_HOST, 5 * MEGA, 50 * MEGA,
				   4 * MS, false),
			 3 * 1460);
	/* Its round trip was not timed. */
	assert_int_equal(open_with(&start, WINDOW_HOST, 0, MEGA, 10 * MS, true),
			 65535);
}

UNIT_TEST(rate_bounds_the_first_window)
{
	struct window_start start;
	struct window window = {};
	u32 field, n;

	/* 20 Mbit/s and 10 ms are 25000 octets, and a segment. */
	field = open_at(&start, WINDOW_HOST, 20 * MEGA, 10 * MS, false);
	assert_in_range(field, 25000, 27000);
	/* It is repeated: what was granted is kept. */
	assert_true(window_answers(&start, 3, 8));
	assert_false(window_answers(&start, 3, 9));
	assert_int_equal(window_bound_field(&start, 8, 65535, 0, 2 * SECOND),
			 field);
	assert_in_range(open_at(&start, WINDOW_PEER, 20 * MEGA, 10 * MS, false),
			25000, 27000 + 8192);
	/* Slow: three segments. Without a rate, or a round-trip time: as they are. */
	assert_int_equal(open_at(&start, WINDOW_HOST, 5 * MEGA, 4 * MS, false),
			 3 * 1460);
	assert_int_equal(open_at(&start, WINDOW_HOST, 0, 10 * MS, false),
			 65535);
	assert_int_equal(open_at(&start, WINDOW_HOST, 20 * MEGA, 10 * MS, true),
			 65535);
	assert_int_equal(
		open_at(&start, WINDOW_HOST, 20 * MEGA, 9 * SECOND, false),
		65535);

	/* The first data: no acknowledgment grants more. */
	open_at(&start, WINDOW_HOST, 5 * MEGA, 4 * MS, false);
	assert_true(window_begin(&window, &start, SECOND));
	for (n = 0; n < 3; n++)
		send_data(&window, SECOND + 4 * MS, 5 * MEGA, 8 + n * 1448,
			  1448);
	field = acknowledge(&window, SECOND + 8 * MS, 8 + 1448, 65535);
	assert_in_range(field << 13, 1, 8192);
}

/*
 * The loop's correction after a round in which each of these waited for 4 ms at @before, when
 * @after applies, octets.
 */
static s32 correct_after(u64 before, u64 after)
{
	struct window_sharing sharing = {};
	struct window_data data = {
		.now = 2 * SECOND,
		.shared = 1,
		.assigned = MEGA,
		.sequence = 100 * MSS,
		.length = MSS,
		.mss = MSS,
		.headers = HEADERS,
	};
	struct window window;
	u32 n;

	establish(&window, 7, 0);
	/* Two rounds of eight: the first one began before them. */
	for (n = 0; n < 17; n++, data.sequence += MSS) {
		data.now += 3 * MS;
		data.ticks = data.now;
		data.departure = data.now + 4 * MS;
		data.rate = n < 16 ? before : after;
		window_sent(&window, &sharing, &data);
	}
	assert_int_equal(sharing.round, 2);
	return window.extra;
}

/* A ceiling begins and ends: what waited is counted by the rate that it waited for. */
UNIT_TEST(loop_counts_octets)
{
	/* 10 kB; half of what 2 Mbit/s need in 20 ms, at most. */
	assert_in_range(-correct_after(20 * MEGA, 2 * MEGA), 2000, 2500);
	/* Less than a segment. */
	assert_int_equal(correct_after(2 * MEGA, 20 * MEGA), 0);
}

/* Two CPUs end the same round: it counts once. */
UNIT_TEST(round_ends_once)
{
	struct window_data data = {
		.now = 2 * SECOND,
		.shared = 1,
		.rate = 20 * MEGA,
		.assigned = 20 * MEGA,
		.sequence = 100 * MSS,
		.length = MSS,
		.mss = MSS,
		.headers = HEADERS,
	};
	struct window_sharing sharing = {}, before;
	struct window window;
	u32 round, n;

	establish(&window, 7, 0);
	for (round = 1; round <= 4; round++) {
		for (n = 0; n < 8; n++, data.sequence += MSS) {
			data.now += 3 * MS;
			data.ticks = data.departure = data.now;
			window_sent(&window, &sharing, &data);
		}
		window_turn(&sharing, data.now);
		before = sharing;
		window_turn(&sharing, data.now + 1);
		assert_memory_equal(&sharing, &before, sizeof(sharing));
		assert_int_equal(sharing.connections[1], round > 1);
		assert_true(sharing.least[1] < WINDOW_WORK_MAX);
	}
	window_sent(&window, &sharing, &data);
	assert_int_equal(window.extra, 0);
	/* Nor does one whose clock is a little behind. */
	sharing.segments = WINDOW_LOOP;
	data.now = data.ticks = sharing.since - 1;
	round = sharing.round;
	window_sent(&window, &sharing, &data);
	assert_int_equal(sharing.round, round);
}

/*
 * Most of a window was in flight, and then nothing for 50 ms: once, by the sender itself (BBR does
 * so each 10 s), or in each round, as what it sends next is on its way from the host.
 */
UNIT_TEST(one_pause_does_not_open_the_window)
{
	struct window_sharing sharing = {
		.missed = { 0, window_work(20 * MEGA, window_time(50 * MS)) },
	};
	struct window window;

	establish(&window, 7, 0);
	window.near = 1;
	window_correct(&window, &sharing);
	/* It is idle in the next round, too, but has little in flight. */
	window.near = 2;
	window_correct(&window, &sharing);
	assert_int_equal(window.extra, 0);
	window.near = 1;
	window_correct(&window, &sharing);
	assert_int_equal(window.extra, 0);
	window.near = 3;
	window_correct(&window, &sharing);
	assert_in_range(window.extra, 4 * MSS, 5 * MSS);
}

#define START_SEGMENTS 40000
/* A segment at 10 Gbit/s, ns. */
#define START_SPACE 1200

/**
 * struct slow_start - a sender in slow start, which no link limits
 * @near: from the host to the router and back, ns
 * @far: from the router to the peer and back, ns
 * @delayed: segments that one acknowledgment is for
 */
struct slow_start {
	u64 near;
	u64 far;
	u32 delayed;
};

/* Its windows always have room for all that it may have in flight. */
static void check_slow_start(const struct slow_start *path)
{
	static u64 left[START_SEGMENTS];
	static u32 grants[START_SEGMENTS + 1];
	u32 first = 10, sent = 0, seen = 0, acked = 0, heard = 0;
	u64 last = MS;
	struct window window;

	begin(&window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
	      syn_options(BOTH, 11, 1460));
	for (;; unit_step++) {
		u32 next = acked + path->delayed, known = heard + path->delayed;
		u64 at, arrives = ~0ULL, acks = ~0ULL, hears = ~0ULL;

		for (; sent < START_SEGMENTS && sent < heard + first + heard;
		     sent++) {
			left[sent] = last;
			last += START_SPACE;
		}
		if (seen < sent)
			arrives = left[seen] + path->near / 2;
		if (next <= sent)
			acks = left[next - 1] + path->near / 2 + path->far;
		if (known <= acked)
			hears = left[known - 1] + path->near + path->far;
		at = fp_min64(arrives, fp_min64(acks, hears));
		if (at == ~0ULL)
			return;
		if (at == arrives) {
			send_data(&window, at, 0, seen++ * MSS, MSS);
		} else if (at == acks) {
			acked = next;
			grants[acked] =
				acknowledge(&window, at, acked * MSS, 65535);
		} else {
			heard = known;
			last = fp_max64(last, at);
			/* In flight may be as much again as was acknowledged. */
			CHECK(grants[heard] << 11 >=
				      fp_min((first + heard) * MSS,
					     65535U << 11),
			      "%u of %u after %u", grants[heard] << 11,
			      (first + heard) * MSS, heard * MSS);
		}
	}
}

UNIT_TEST(slow_start_is_never_limited)
{
	static const struct slow_start paths[] = {
		{ 100 * US, 200 * US, 2 },
		{ 100 * US, 20 * MS, 1 },
		{ 2 * MS, 100 * MS, 2 },
		{ 1 * MS, 300 * MS, 10 },
		/* A satellite; acknowledgments that are thinned. */
		{ 1 * MS, 600 * MS, 5 },
		{ 40 * MS, 600 * MS, 2 },
		/* The host is farther from the router than the peer is. */
		{ 20 * MS, 1 * MS, 2 },
		{ 100 * MS, 1 * MS, 5 },
		{ 200 * MS, 20 * MS, 2 },
	};
	u32 n;

	for (n = 0; n < ARRAY_SIZE(paths); n++)
		check_slow_start(&paths[n]);
}

/* One that comes late, or after a forged one of data in flight. */
UNIT_TEST(old_acknowledgments_grant_nothing_new)
{
	struct window window;
	u32 field, right;

	establish(&window, 7, 0);
	send_data(&window, SECOND + 30 * MS, 20 * MEGA, 100 * MSS, 90 * MSS);
	field = acknowledge(&window, SECOND + 50 * MS, 190 * MSS, 65535);
	right = 190 * MSS + (field << 7);
	field = acknowledge(&window, SECOND + 50 * MS, 150 * MSS, 65535);
	assert_in_range(150 * MSS + (field << 7), right - 127, right + 127);
	assert_int_equal(acknowledge(&window, SECOND + 50 * MS, 150 * MSS, 5),
			 5);
}

UNIT_TEST(forged_numbers_change_nothing)
{
	struct window window, before;
	u32 n;

	establish(&window, 7, 0);
	send_data(&window, SECOND + 30 * MS, 20 * MEGA, 100 * MSS, 90 * MSS);
	before = window;
	for (n = 0; n < 1000; n++) {
		u32 number = 190 * MSS + 1 + rnd_size(0, (1U << 31) - 2);

		unit_step++;
		assert_int_equal(acknowledge(&window, SECOND, number, 9), 9);
		number = 100 * MSS - 1 - rnd_size(0, (1U << 31) - 200 * MSS);
		assert_int_equal(acknowledge(&window, SECOND, number, 9), 9);
		assert_memory_equal(&window, &before, sizeof(window));
	}
}

/* Three segments behind a lost one: the sender may send three more. */
UNIT_TEST(loss_does_not_stop_the_sender)
{
	struct window_ack ack = {};
	struct window window;
	u32 sack, n, first = 0;

	for (sack = 0; sack < 2; sack++) {
		u32 number = 200 * MSS;

		establish(&window, 7, 0);
		window.sack = sack;
		send_data(&window, SECOND + 30 * MS, 20 * MEGA, 100 * MSS,
			  100 * MSS);
		ack.field = 65535;
		ack.ack = ack.sacked = number;
		arrive(&window, SECOND + 50 * MS, &ack);
		send_data(&window, SECOND + 60 * MS, 20 * MEGA, number,
			  33 * MSS);
		for (n = 0; n < 4; n++) {
			u32 field;

			ack.sacked = number + (n && sack ? (n + 1) * MSS : 0);
			field = arrive(&window, SECOND + 50 * MS, &ack);
			first = n ? first : field;
			assert_in_range(field << 7,
					(first << 7) + n * MSS - 127,
					(first << 7) + (n + 1) * MSS + 127);
		}
		/* A block of data that were not sent, and one below: ignored. */
		ack.sacked = window.sent + 1;
		assert_true(arrive(&window, SECOND + 50 * MS, &ack) < 65535);
		ack.sacked = number - MSS;
		assert_true(arrive(&window, SECOND + 50 * MS, &ack) < 65535);
	}
}

UNIT_TEST(small_segments_get_room_for_full_ones)
{
	struct window window;
	u32 n, field = 0;

	begin(&window, WINDOW_HOST, syn_options(BOTH, 0, 1460),
	      syn_options(BOTH, 0, 1460));
	for (n = 0; n < 1000; n++) {
		send_data(&window, SECOND + n * MS, MEGA / 10, n * 20, 20);
		field = acknowledge(&window, SECOND + n * MS + 100 * US,
				    n * 20 + 20, 65535);
	}
	/* The first one granted 65535 octets. */
	assert_in_range(field, WINDOW_SEGMENTS * 1460, 65535);
	assert_int_equal(window.mss, 1460);
}

/*
 * A connection sends @count full segments of @before octets, and then of @after, at 1 Mbit/s; its
 * window, octets.
 */
static u32 change_segments(u32 before, u32 after, u32 count, u32 *mss)
{
	struct window_sharing sharing = {};
	struct window_data data = {
		.now = SECOND,
		.shared = 1,
		.rate = MEGA,
		.assigned = MEGA,
		.headers = HEADERS,
	};
	u32 n, field = 0, flight = 0;
	struct window window;

	begin(&window, WINDOW_HOST, syn_options(BOTH, 7, 8960),
	      syn_options(BOTH, 7, 8960));
	window.opened = 1;
	window.right = 4 * before;
	for (n = 0; n < 2 * count; n++) {
		data.length = n < count ? before : after;
		/* Senders split a segment that is longer than the window. */
		data.length = fp_min64(data.length, window.right - window.ack);
		data.mss = data.length;
		while (flight + data.length <= window.right - window.ack) {
			data.ticks = data.now;
			data.departure = data.now;
			window_sent(&window, &sharing, &data);
			data.sequence += data.length;
			flight += data.length;
		}
		data.now += fp_max64(10 * MS, flight * 8000);
		field = acknowledge(&window, data.now, data.sequence, 65535);
		flight = 0;
	}
	*mss = window.mss;
	return field << 7;
}

/* A path's MTU changes: the least window is of the segments that there are. */
UNIT_TEST(segments_become_shorter)
{
	u32 size, mss;

	size = change_segments(8948, 8948, 50, &mss);
	assert_int_equal(mss, 8948);
	assert_in_range(size, 3 * 8948 - 127, 4 * 8948);
	size = change_segments(8948, 1448, 50, &mss);
	assert_int_equal(mss, 1448);
	assert_in_range(size, 3 * 1448 - 127, 4 * 1448);
	/* And longer again; and shorter from the start on. */
	size = change_segments(1448, 8948, 50, &mss);
	assert_int_equal(mss, 8948);
	size = change_segments(1448, 1448, 50, &mss);
	assert_int_equal(mss, 1448);
	/* Less than any path has. */
	size = change_segments(8948, 100, 50, &mss);
	assert_int_equal(mss, WINDOW_MSS);
}

/* Who sends little at a time has room for a full segment nevertheless. */
UNIT_TEST(small_segments_are_not_full)
{
	struct window_sharing sharing = {};
	struct window_data data = {
		.now = SECOND,
		.shared = 1,
		.rate = MEGA,
		.assigned = MEGA,
		.length = 100,
		.mss = 100,
		.headers = HEADERS,
	};
	struct window window;
	u32 n;

	establish(&window, 7, 0);
	data.sequence = 100 * MSS;
	for (n = 0; n < 1000; n++) {
		data.now += 5 * MS;
		data.ticks = data.departure = data.now;
		window_sent(&window, &sharing, &data);
		data.sequence += 100;
		acknowledge(&window, data.now + MS, data.sequence, 65535);
	}
	assert_true(sharing.round > 100);
	assert_int_equal(window.mss, MSS);
}

/* Words of a segment, and where these fields are. */
#define SEGMENT_WORDS 20
#define WINDOW 7
#define CHECKSUM 8

static u32 add_segment(const u16 *words, u64 pseudo)
{
	u64 sum = window_fold(pseudo);
	u32 n;

	for (n = 0; n < SEGMENT_WORDS; n++)
		sum += words[n];
	return window_fold(sum);
}

/* Random segments: the sum of all words, with their checksum, is 0 (RFC 1071). */
UNIT_TEST(checksums_remain_valid)
{
	u16 words[SEGMENT_WORDS], before, after, partial;
	u32 number, n, sum;
	u64 pseudo;

	for (number = 0; number < 100000; number++, unit_step++) {
		pseudo = rnd() & 0xffffffffffULL;
		for (n = 0; n < SEGMENT_WORDS; n++)
			words[n] = one_in(4) ? 0 : rnd();
		before = words[WINDOW];
		after = one_in(8) ? 0 : one_in(8) ? 0xffff : rnd();
		partial = window_fold(pseudo);
		CHECK(!window_completed(partial, pseudo), "%x", partial);
		/* Zero has two forms. */
		if (!partial || partial == 0xffff)
			CHECK(!window_completed(~partial, pseudo), "%x",
			      partial);
		CHECK(window_completed(partial ^ 1, pseudo), "%x", partial);
		words[CHECKSUM] = 0;
		words[CHECKSUM] = window_checksum(~add_segment(words, pseudo),
						  before, after);
		words[WINDOW] = after;
		sum = add_segment(words, pseudo);
		CHECK(!sum || sum == 0xffff, "%x", sum);
	}
}

UNIT_TEST(silence_is_noticed_once)
{
	struct window window;
	u32 n, count = 0;

	establish(&window, 7, 0);
	for (n = 0; n < 100; n++)
		count += send_data(&window, SECOND * 2 + n * 100 * MS,
				   20 * MEGA, (100 + n) * MSS, MSS);
	assert_int_equal(count, 1);
	assert_true(window.silent);
	acknowledge(&window, 20 * SECOND, 150 * MSS, 1000);
	assert_false(window.silent);
}

/* As keep-alive, video and RPC: nothing is outstanding in the pauses. */
UNIT_TEST(pause_is_no_silence)
{
	struct window_sharing sharing = {};
	struct window_data data = {
		.shared = 1,
		.rate = 20 * MEGA,
		.assigned = 20 * MEGA,
		.sequence = 100 * MSS,
		.length = MSS,
		.mss = MSS,
		.headers = HEADERS,
		.octets = MSS + HEADERS,
	};
	u64 now = SECOND + 20 * MS, octets = 0;
	struct window window;
	u32 burst, n;

	establish(&window, 7, 0);
	for (burst = 0; burst < 6; burst++, now += 20 * MS) {
		now += burst == 5 ? 45 * 60 * SECOND : 2 * SECOND;
		for (n = 0; n < 10; n++, now += 100 * US) {
			data.now = data.ticks = now;
			/* One burst waits for longer in the pacer. */
			data.departure = now + (burst == 4 ? 2 * SECOND : 0);
			assert_false(window_sent(&window, &sharing, &data));
			data.sequence += MSS;
			octets += data.octets;
		}
		now += burst == 4 ? 2 * SECOND : 0;
		acknowledge(&window, now + 20 * MS, data.sequence, 65535);
	}
	assert_int_equal(sharing.reached, octets);
	assert_int_equal(sharing.escaped, 0);
	assert_int_equal(sharing.elsewhere, 0);
}

/* Their acknowledgments return another way from a pause on, or from the start. */
UNIT_TEST(silence_is_noticed_in_a_second)
{
	struct window window;
	u32 number, paused, n;

	for (paused = 0; paused < 2; paused++) {
		number = 100 * MSS;
		establish(&window, 7, 0);
		if (!paused)
			begin(&window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
			      syn_options(BOTH, 7, 1460));
		for (n = 0; n <= 100; n++, number += MSS)
			assert_false(send_data(&window,
					       9 * SECOND + n * 10 * MS,
					       20 * MEGA, number, MSS));
		assert_true(send_data(&window, 10 * SECOND + 10 * MS, 20 * MEGA,
				      number, MSS));
		assert_true(window.silent);
	}
}

UNIT_TEST(round_trips_are_forgotten)
{
	struct window window;
	u64 now = SECOND;
	u32 number = 100 * MSS, n;

	establish(&window, 7, 0);
	for (n = 0; n < 250; n++, now += 100 * MS) {
		/* A retransmission is not timed. */
		send_data(&window, now, 20 * MEGA, number, MSS);
		number += MSS;
		send_data(&window, now + 59 * MS, 20 * MEGA, number - MSS, MSS);
		acknowledge(&window, now + 60 * MS, number, 1000);
		assert_in_range(window_rtt(&window), window_time(20 * MS) - 1,
				window_time(60 * MS) + 1);
	}
	assert_in_range(window_rtt(&window), window_time(60 * MS) - 1,
			window_time(60 * MS) + 1);
}

/* The loop does not make room for a queue at a link, unless it lasts, or is none. */
UNIT_TEST(queues_at_links_drain)
{
	/* Two round trips, and whether the window grows from the second on, and after 1 s. */
	static const struct {
		u64 first, second;
		bool grows, later;
	} cases[] = {
		{ 20 * MS, 22 * MS, true, true },
		{ 22 * MS, 30 * MS, true, true },
		{ 30 * MS, 22 * MS, true, true },
		{ 30 * MS, 24 * MS, false, true },
		{ 39 * MS, 39 * MS, false, true },
		{ 42 * MS, 42 * MS, true, true },
	};
	u32 n;

	for (n = 0; n < ARRAY_SIZE(cases); n++) {
		struct window_sharing sharing = { .since = 2 * SECOND };
		struct window window;
		s32 before;

		establish(&window, 7, 0);
		window.limited = 1;
		window.pending = window_time(SECOND);
		window_sample(&window, SECOND + cases[n].first);
		window.pending = window_time(SECOND);
		window_sample(&window, SECOND + cases[n].second);
		sharing.missed[1] = 10000 * WINDOW_WORK;
		before = window.extra;
		window_correct(&window, &sharing);
		assert_int_equal(window.extra > before, cases[n].grows);
		before = window.extra;
		sharing.since += WINDOW_DRAIN - 2 * MS;
		window_correct(&window, &sharing);
		if (!cases[n].grows)
			assert_int_equal(window.extra, before);
		window.extra = 0;
		sharing.since += 4 * MS;
		window_correct(&window, &sharing);
		assert_int_equal(window.extra > 0, cases[n].later);
	}
}

/* --- random connections --------------------------------------------------- */

/* What a random connection must keep: see window.h. */
struct walk {
	struct window window;
	struct window_sharing sharing;
	u64 now;
	u32 next; /* to be sent */
	u32 una; /* lowest octet not acknowledged */
	u32 granted; /* the highest right edge that the sender saw */
	bool any;
};

static void walk_ack(struct walk *walk)
{
	struct window *window = &walk->window;
	u32 unit = 1U << window->scale, flight = walk->next - walk->una;
	u32 number = walk->una + rnd_size(0, flight), field, offered, before;
	struct window_ack ack = {
		.ack = number,
		.sacked = number + rnd_size(0, walk->next - number),
		.field = rnd_size(0, 65535),
		.octets = rnd_size(0, 1),
		.share = one_in(2) ? 0 : 1ULL << rnd_size(0, 40),
	};
	bool forged = one_in(10);
	u32 floor;

	if (forged)
		ack.ack = one_in(2) ? walk->next + 1 + rnd_size(0, 1U << 30) :
				      walk->una - 1 - rnd_size(0, 1U << 30);
	if (one_in(3))
		ack.sacked = ack.ack + rnd_size(0, 1U << 31);
	if (!window->sending)
		return;
	/* Without an acknowledgement, an old number is not known as old. */
	if (forged && !walk->any)
		return;
	field = arrive(window, walk->now, &ack);
	CHECK(field <= ack.field, "%u above %llu", field, ack.field);
	before = walk->granted - ack.ack;
	if (forged) {
		/*
		 * An old one has what was granted; both may have been rounded, by up to a
		 * unit and half of one.
		 */
		CHECK(field == ack.field ||
			      (window_before(ack.ack, walk->una) &&
			       (field << window->scale) + unit + unit / 2 >
				       before),
		      "%u", field);
		return;
	}
	offered = (u32)ack.field << window->scale;
	floor = fp_min(offered, WINDOW_LEAST * window->mss);
	CHECK((field << window->scale) + unit > floor || field == ack.field,
	      "%u of %u", field, offered);
	/* A sender whose window is closed for good would only probe. */
	CHECK(field || !ack.field, "0 of %u", offered);
	/* Back by less than a unit, unless the receiver itself moved it back. */
	CHECK(!walk->any || (s32)before < 0 || field == ack.field ||
		      (field << window->scale) + unit > before,
	      "%u of %u, granted %u", field, offered, before);
	if (!walk->any ||
	    window_before(walk->granted, number + (field << window->scale)))
		walk->granted = number + (field << window->scale);
	walk->any = true;
	walk->una = number;
}

static void walk_send(struct walk *walk)
{
	u32 length = rnd_size(1, 65000), mss = rnd_size(1, MSS);
	bool again = one_in(10) && walk->next != walk->una;
	struct window_data data = {
		.now = walk->now,
		.ticks = walk->now,
		.departure = walk->now + rnd_size(0, 100 * MS),
		.missed = one_in(2) ? 0 : rnd_size(0, 1U << 31),
		.shared = 1,
		.rate = one_in(20) ? 0 : 1ULL << rnd_size(0, 50),
		.sequence = again ? walk->una : walk->next,
		.length =
			again ? fp_min(length, walk->next - walk->una) : length,
		.mss = one_in(2) ? MSS : mss,
		.headers = HEADERS,
	};

	if (walk->next - walk->una > 1U << 29)
		return;
	window_sent(&walk->window, &walk->sharing, &data);
	if (!again)
		walk->next += length;
}

UNIT_TEST(random_walks_keep_the_rules)
{
	u32 number, n;

	for (number = 0; number < 2000; number++) {
		struct walk walk = {};

		begin(&walk.window, WINDOW_PEER,
		      syn_options(WINDOW_SCALED | rnd_in(0, 3), 7,
				  rnd_size(0, 9000)),
		      syn_options(BOTH, rnd_in(0, 14), 1460));
		walk.now = rnd() >> 20;
		/* Often close to the end of the sequence numbers. */
		walk.next = walk.una =
			one_in(2) ? ~0U - rnd_size(0, 1 << 20) : (u32)rnd();
		for (n = 0; n < 300; n++, unit_step++) {
			walk.now += rnd_size(1, 1U << 30);
			if (one_in(2))
				walk_send(&walk);
			else
				walk_ack(&walk);
		}
	}
}

/* --- a pacer -------------------------------------------------------------- */

#define SIM_CONNECTIONS 40
#define SIM_EVENTS 16384
/* What small connections send, octets, and how often, ns. */
#define SIM_SMALL 100
#define SIM_PAUSE (15 * MS)

/**
 * struct path - what the model of a path has
 * @rate: assigned to the session, bit/s
 * @rtt: round-trip time without queues, ns
 * @jitter: added to it, at most, at random, ns
 * @delayed: segments that one acknowledgement is for
 * @scale: of the receiver's window
 * @connections: of the session
 * @burst: segments that a sender merges
 * @route: the round-trip time after half of the time, ns; 0: the same
 * @application: what each sender's application writes, bit/s on the wire; 0: anything
 * @nodelay: senders have TCP_NODELAY
 * @transit: how long data and acknowledgments take between host and router, ns: a part of
 *	@rtt
 * @reads: the receivers' applications read once in so long, ns; 0: at once. Then most
 *	acknowledgments are sent
 */
struct path {
	u64 rate;
	u64 rtt;
	u64 jitter;
	u32 delayed;
	u32 scale;
	u32 connections;
	u32 burst;
	u64 route;
	u64 application;
	bool nodelay;
	u64 transit;
	u64 reads;
};

/**
 * struct sim_connection - a sender and its receiver
 * @small: the end of the last short segment
 * @rare: it sends SIM_SMALL octets each SIM_PAUSE
 * @sent: octets on the wire, since the start of the observation
 */
struct sim_connection {
	struct window window;
	bool rare;
	u64 sent;
	u32 next;
	u32 una;
	u32 right;
	u32 small;
	u32 received;
	u32 unacked;
};

/*
 * Data that end at @number arrive at the router or the receiver, whose application reads;
 * an acknowledgment of @number arrives at the router, or at the sender, which may send @length more;
 * a small connection sends.
 */
enum sim_kind {
	SIM_SENT,
	SIM_DATA,
	SIM_READ,
	SIM_ACK,
	SIM_GRANT,
	SIM_RARE,
};

struct sim_event {
	u64 at;
	u32 connection;
	u32 number;
	u32 length;
	enum sim_kind kind;
};

struct sim {
	const struct path *path;
	u32 small; /* connections behind those of the path, which are rare */
	struct sim_connection connections[SIM_CONNECTIONS];
	struct window_sharing sharing;
	struct sim_event events[SIM_EVENTS];
	u32 event_count;
	u64 now;
	u64 departure; /* of the last segment */
	u64 length;
	u64 sent; /* octets on the wire, since the start of the observation */
	u64 since;
	u64 waits[256]; /* by 1/4 ms */
	u64 packets;
	u64 segments;
	u64 longest; /* wait, ns */
};

/* The receiver's window: four times what the path needs, and 64 kB. */
static u32 sim_field(const struct path *path)
{
	u64 octets = path->rate / 8 * fp_max64(path->rtt, path->route) / SECOND;

	return fp_min((4 * octets + 65536) >> path->scale, 65535);
}

static void sim_add(struct sim *sim, u64 at, u32 connection, u32 number,
		    u32 length, enum sim_kind kind)
{
	assert_true(sim->event_count < SIM_EVENTS);
	sim->events[sim->event_count++] =
		(struct sim_event){ at, connection, number, length, kind };
}

static struct sim_event sim_next(struct sim *sim)
{
	struct sim_event next;
	u32 n, best = 0;

	for (n = 1; n < sim->event_count; n++)
		if (sim->events[n].at < sim->events[best].at)
			best = n;
	next = sim->events[best];
	/* In order, as equal times are. */
	sim->event_count--;
	for (n = best; n < sim->event_count; n++)
		sim->events[n] = sim->events[n + 1];
	return next;
}

/* As pace() of rates.bpf.c: up to 2 ms are made up for. */
static void sim_pass(struct sim *sim, u32 number, u32 end, u32 octets)
{
	struct sim_connection *to = &sim->connections[number];
	const struct path *path = sim->path;
	u64 departure = sim->departure + sim->length * 8 * SECOND / path->rate;
	u64 burst = 2 * MS, rtt, missed = 0;
	u32 segments = (octets + MSS - 1) / MSS, left, n;
	struct window_data data;

	if (departure + burst < sim->now) {
		missed = sim->now - burst - departure;
		departure = sim->now - burst;
	}
	data = (struct window_data){
		.now = sim->now,
		.ticks = sim->now,
		.departure = fp_max64(departure, sim->now),
		.missed = missed,
		.shared = 1,
		.rate = path->rate,
		.assigned = path->rate,
		.sequence = end - octets,
		.length = octets,
		.mss = fp_min(octets, MSS),
		.headers = HEADERS,
		.octets = octets + segments * HEADERS,
	};
	window_sent(&to->window, &sim->sharing, &data);
	sim->departure = departure;
	sim->length = data.octets;
	rtt = path->route && sim->now > 10 * SECOND ? path->route : path->rtt;
	for (left = octets; left; left -= fp_min(left, MSS))
		sim_add(sim,
			data.departure + (rtt - path->transit) / 2 +
				(path->jitter ? rnd() % path->jitter : 0),
			number, end - left + fp_min(left, MSS), 0, SIM_DATA);
	if (!sim->since)
		return;
	sim->sent += sim->length;
	to->sent += sim->length;
	sim->segments += segments;
	sim->packets++;
	sim->longest = fp_max64(sim->longest, data.departure - sim->now);
	n = fp_min64((data.departure - sim->now) / (MS / 4), 255);
	sim->waits[n]++;
}

/* What the application of a sender has written, octets. */
static u32 sim_written(const struct sim *sim)
{
	u64 rate = sim->path->application;

	return rate ? (sim->now - SECOND) / 8 * rate / SECOND * MSS /
			       (MSS + HEADERS) :
		      1U << 31;
}

static void sim_send(struct sim *sim, u32 number, u32 octets)
{
	struct sim_connection *from = &sim->connections[number];
	const struct path *path = sim->path;

	from->next += octets;
	if (path->transit)
		sim_add(sim, sim->now + path->transit / 2, number, from->next,
			octets, SIM_SENT);
	else
		sim_pass(sim, number, from->next, octets);
}

/*
 * The sender fills its window, @burst segments at once. As Linux does, it splits a segment
 * that does not fit, if no other short one is on its way or if it has TCP_NODELAY.
 */
static void sim_fill(struct sim *sim, u32 number)
{
	struct sim_connection *from = &sim->connections[number];
	const struct path *path = sim->path;
	u32 burst = path->burst * MSS, written = sim_written(sim);
	u32 room;

	if (from->rare)
		return;
	while ((s32)(from->right - from->next) >= (s32)burst &&
	       from->next + burst <= written)
		sim_send(sim, number, burst);
	room = from->right - from->next;
	if ((s32)room <= 0 || room >= MSS || burst > MSS ||
	    from->next + burst > written ||
	    (!path->nodelay && window_before(from->una, from->small)))
		return;
	sim_send(sim, number, room);
	from->small = from->next;
}

static u32 sim_count(const struct sim *sim)
{
	return sim->path->connections + sim->small;
}

/* Applications write 20 times in a round trip, which is an event of no connection. */
static void sim_write(struct sim *sim)
{
	u32 n;

	for (n = 0; n < sim_count(sim); n++)
		sim_fill(sim, n);
	sim_add(sim, sim->now + sim->path->rtt / 20, n, 0, 0, SIM_SENT);
}

/* The receivers' delayed acknowledgements, after 40 ms without a segment. */
static void sim_timeout(struct sim *sim)
{
	u32 n;

	for (n = 0; n < sim_count(sim); n++) {
		sim->connections[n].unacked = 0;
		sim_add(sim, sim->now + 40 * MS, n,
			sim->connections[n].received, 0, SIM_ACK);
	}
}

static void sim_grant(struct sim *sim, u32 number, u32 una, u32 room)
{
	struct sim_connection *from = &sim->connections[number];

	from->una = una;
	from->right = una + room;
	sim_fill(sim, number);
}

/* An acknowledgment passes the router. */
static void sim_lower(struct sim *sim, u32 number, u32 una)
{
	struct window *window = &sim->connections[number].window;
	const struct path *path = sim->path;
	u32 room;

	room = acknowledge(window, sim->now, una, sim_field(path))
	       << path->scale;
	if (path->transit)
		sim_add(sim, sim->now + path->transit / 2, number, una, room,
			SIM_GRANT);
	else
		sim_grant(sim, number, una, room);
}

static void sim_acknowledge(struct sim *sim, const struct sim_event *event)
{
	struct sim_connection *to = &sim->connections[event->connection];
	const struct path *path = sim->path;

	if (!to->unacked)
		return;
	to->unacked = 0;
	sim_add(sim, event->at + (path->rtt - path->transit) / 2,
		event->connection, to->received, 0, SIM_ACK);
}

static void sim_receive(struct sim *sim, const struct sim_event *event)
{
	struct sim_connection *to = &sim->connections[event->connection];
	const struct path *path = sim->path;

	if (path->reads && !to->unacked)
		sim_add(sim, (event->at / path->reads + 1) * path->reads,
			event->connection, 0, 0, SIM_READ);
	to->unacked += event->number - to->received;
	to->received = event->number;
	/* Linux acknowledges at once if the window that it offers has not become smaller. */
	if (path->reads ? !one_in(8) :
	    to->rare	? false :
			  to->unacked <= (path->delayed - 1) * MSS)
		return;
	sim_acknowledge(sim, event);
}

static void sim_event(struct sim *sim, const struct sim_event *event)
{
	u32 number = event->connection;

	switch (event->kind) {
	case SIM_SENT:
		sim_pass(sim, number, event->number, event->length);
		return;
	case SIM_DATA:
		sim_receive(sim, event);
		return;
	case SIM_READ:
		sim_acknowledge(sim, event);
		return;
	case SIM_ACK:
		sim_lower(sim, number, event->number);
		return;
	case SIM_GRANT:
		sim_grant(sim, number, event->number, event->length);
		return;
	case SIM_RARE:
		if (!sim->connections[number].rare)
			return;
		sim_send(sim, number, SIM_SMALL);
		sim_add(sim, event->at + SIM_PAUSE, number, 0, 0, SIM_RARE);
	}
}

static void sim_run(struct sim *sim, u64 until)
{
	while (sim->now < until) {
		struct sim_event event;

		if (!sim->event_count)
			sim_timeout(sim);
		event = sim_next(sim);
		sim->now = fp_max64(sim->now, event.at);
		unit_step++;
		if (event.connection == sim_count(sim))
			sim_write(sim);
		else
			sim_event(sim, &event);
	}
}

static void sim_open(struct sim *sim, u32 n)
{
	struct sim_connection *each = &sim->connections[n];

	begin(&each->window, WINDOW_HOST, syn_options(BOTH, 7, 1460),
	      syn_options(WINDOW_SCALED, sim->path->scale, 1460));
	each->right = 20 * MSS;
}

static void sim_begin_with(struct sim *sim, const struct path *path, u32 small)
{
	u32 n;

	*sim = (struct sim){ .path = path, .now = SECOND, .small = small };
	for (n = 0; n < sim_count(sim); n++) {
		sim_open(sim, n);
		if (n < path->connections) {
			sim_fill(sim, n);
			continue;
		}
		sim->connections[n].rare = true;
		sim_add(sim, sim->now + n * SIM_PAUSE / SIM_CONNECTIONS, n, 0,
			0, SIM_RARE);
	}
	if (path->application)
		sim_write(sim);
}

static void sim_begin(struct sim *sim, const struct path *path)
{
	sim_begin_with(sim, path, 0);
}

/*
 * Run for 4 s: the part of the rate that is used, percentiles of the wait, ns, and mean length
 * of segments, octets on the wire.
 */
static double sim_observe(struct sim *sim, u64 *median, u64 *most, double *mean)
{
	u64 sum = 0;
	u32 n;

	sim->since = sim->now;
	sim_run(sim, sim->since + 4 * SECOND);
	*mean = (double)sim->sent / sim->segments;
	*median = *most = ~0ULL;
	for (n = 0; n < ARRAY_SIZE(sim->waits); n++) {
		sum += sim->waits[n];
		if (*median == ~0ULL && sum * 2 >= sim->packets)
			*median = n * (MS / 4);
		if (*most == ~0ULL && sum * 100 >= sim->packets * 99)
			*most = n * (MS / 4);
	}
	return (double)sim->sent * 8 * SECOND / (sim->now - sim->since) /
	       sim->path->rate;
}

/* The same of a path that has settled. */
static double sim_path(const struct path *path, u64 *median, u64 *most,
		       double *mean)
{
	static struct sim sim;

	sim_begin(&sim, path);
	sim_run(&sim, path->route ? 16 * SECOND : 8 * SECOND);
	return sim_observe(&sim, median, most, mean);
}

/*
 * The rate is used, segments are whole, and few wait: by the time of a segment's length.
 * A merged burst, an acknowledgement of many and jitter need that much more.
 */
UNIT_TEST(pacer_is_short_and_full)
{
	static const struct path paths[] = {
		{ 20 * MEGA, 20 * MS, 0, 1, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 0, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 40 * MS, 0, 2, 12, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 40 * MS, 0, 2, 14, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 8, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 200 * MEGA, 40 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 200 * MEGA, 40 * MS, 0, 16, 7, 1, 8, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 2 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 2 * MS, 0, 2, 10, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 10, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 1 * MS, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 2 * MS, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 10 * MS, 0 },
		{ 200 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 5 * MS, 0 },
		{ 5 * MEGA, 100 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 5 * MEGA, 2 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 1 * MEGA, 10 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 1 * MEGA, 10 * MS, 0, 2, 8, 1, 1, 0, 0, 0, 0, 0 },
		{ 1 * MEGA, 10 * MS, 0, 2, 9, 1, 1, 0, 0, 0, 0, 0 },
		{ 1 * MEGA, 10 * MS, 0, 2, 10, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 8, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 9, 1, 1, 0, 0, 0, 0, 0 },
		{ 1 * MEGA, 100 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 100 * MEGA, 1 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 5 * MS, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 60 * MS, 0, 0, 0, 0 },
		{ 20 * MEGA, 60 * MS, 0, 2, 7, 1, 1, 20 * MS, 0, 0, 0, 0 },
		{ 20 * MEGA, 40 * MS, 0, 2, 7, 4, 1, 0, 0, 0, 0, 0 },
		{ 50 * MEGA, 40 * MS, 0, 2, 7, 8, 1, 0, 0, 0, 0, 0 },
	};
	u32 n;

	for (n = 0; n < 2 * ARRAY_SIZE(paths); n++) {
		struct path path = paths[n / 2];
		u64 segment = (MSS + HEADERS) * 8 * SECOND / path.rate;
		/* The least window is longer than some paths. */
		u32 queued = path.rtt < WINDOW_LEAST * segment ? 3 : 2;
		u64 median, most;
		double used, mean;

		path.nodelay = n % 2;
		used = sim_path(&path, &median, &most, &mean);
		/* Bounds in segments; waits are counted in steps of 1/4 ms. */
		print_message(
			"# %4llu Mbit/s %3llu ms, %2u segments, scale %2u, %u connections: %.3f, %5.2f %5.2f ms, segment %.2f ms, mean %.0f octets\n",
			path.rate / MEGA, path.rtt / MS, path.delayed,
			path.scale, path.connections, used, median / 1e6,
			most / 1e6, segment / 1e6, mean);
		CHECK(used > 0.99 && used < 1.01, "path %u: %g", n, used);
		CHECK(median <= fp_max(queued, path.delayed / 2) * segment +
					path.jitter,
		      "path %u: %llu", n, median);
		CHECK(most <= (path.connections + path.delayed + 1) * segment +
				      path.jitter,
		      "path %u: %llu", n, most);
		/* A unit of 4 kB or more is not a multiple of segments. */
		if (path.scale <= 10)
			CHECK(mean > 0.95 * (MSS + HEADERS), "path %u: %g", n,
			      mean);
	}
}

/* What the largest of the senders that have more sent, as a multiple of the smallest. */
static double sim_unequal(const struct sim *sim)
{
	u64 least = ~0ULL, most = 0;
	u32 n;

	for (n = 0; n < sim_count(sim); n++) {
		if (sim->connections[n].rare)
			continue;
		least = fp_min64(least, sim->connections[n].sent);
		most = fp_max64(most, sim->connections[n].sent);
	}
	return (double)most / least;
}

/*
 * Small connections leave the rest to those that have more, which share it as without them, and
 * their packets wait as long.
 */
UNIT_TEST(small_ones_leave_the_rest)
{
	static const struct path paths[] = {
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 10, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 2, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 40 * MS, 0, 2, 7, 4, 1, 0, 0, 0, 0, 0 },
		{ 10 * MEGA, 100 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 50 * MEGA, 5 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 2 * MS, 0 },
		{ 20 * MEGA, 40 * MS, 0, 2, 7, 3, 1, 0, 0, 0, 20 * MS, 0 },
		{ 20 * MEGA, 20 * MS, 5 * MS, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 200 * MEGA, 40 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 200 * MEGA, 40 * MS, 0, 16, 7, 2, 8, 0, 0, 0, 0, 0 },
	};
	static const u32 small[] = { 0, 3, 10, 30 };
	static struct sim sim;
	u32 n;

	for (n = 0; n < ARRAY_SIZE(paths) * ARRAY_SIZE(small); n++) {
		const struct path *path = &paths[n / ARRAY_SIZE(small)];
		u64 segment = (MSS + HEADERS) * 8 * SECOND / path->rate;
		u32 others = small[n % ARRAY_SIZE(small)];
		double used, mean, unequal;
		/* They may send at the same time. */
		u64 together = others * (SIM_SMALL + HEADERS) * 8 * SECOND /
			       path->rate;
		u64 median, most;

		sim_begin_with(&sim, path, others);
		sim_run(&sim, 8 * SECOND);
		used = sim_observe(&sim, &median, &most, &mean);
		unequal = sim_unequal(&sim);
		print_message(
			"# %3llu Mbit/s %3llu ms, %u connections and %2u: %.3f, %5.2f %5.2f ms, segment %.2f ms, unequal by %.2f\n",
			path->rate / MEGA, path->rtt / MS, path->connections,
			others, used, median / 1e6, most / 1e6, segment / 1e6,
			unequal);
		CHECK(used > 0.97 && used < 1.01, "path %u: %g", n, used);
		CHECK(median <= fp_max(2, path->delayed / 2) * segment +
					path->jitter + together / 2,
		      "path %u: %llu", n, median);
		CHECK(most <= (path->connections + path->delayed + 1) *
					      segment +
				      path->jitter + together + MS / 4,
		      "path %u: %llu", n, most);
		CHECK(unequal < 1.7, "path %u: %g", n, unequal);
	}
}

/*
 * One connection has filled its window for some time. Another one or all of the others, which
 * were small, or open now, have more from now on. For how long does a packet wait, at most, ns?
 */
static u64 sim_grow(struct sim *sim, const struct path *path, u32 others,
		    u32 count, bool opens)
{
	u32 n;

	sim_begin_with(sim, path, opens ? 0 : others);
	sim->small = others;
	for (n = path->connections; n < sim_count(sim); n++) {
		if (opens)
			sim_open(sim, n);
		/* As in windows.bpf.h, the SYN's window is that of the session. */
		sim->connections[n].right = WINDOW_LEAST * MSS;
		sim->connections[n].window.right = WINDOW_LEAST * MSS;
		sim->connections[n].window.opened = 1;
	}
	sim->small = opens ? 0 : others;
	sim_run(sim, 8 * SECOND);
	sim->small = others;
	sim->longest = 0;
	sim->since = sim->now;
	for (n = 1; n <= count; n++) {
		sim->connections[n].rare = false;
		sim_fill(sim, n);
	}
	sim_run(sim, sim->now + SECOND);
	return sim->longest;
}

/* They may build no longer queue than as many new ones, and get their share. */
UNIT_TEST(small_ones_may_grow)
{
	static const struct path paths[] = {
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 100 * MEGA, 40 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
	};
	static const u32 small[] = { 1, 3, 10, 30 };
	static struct sim sim;
	u32 n, each;

	for (n = 0; n < ARRAY_SIZE(paths) * ARRAY_SIZE(small); n++) {
		const struct path *path = &paths[n / ARRAY_SIZE(small)];
		u32 others = small[n % ARRAY_SIZE(small)];
		u64 one, all, opened;
		double unequal;

		opened = sim_grow(&sim, path, others, others, true);
		all = sim_grow(&sim, path, others, others, false);
		one = sim_grow(&sim, path, others, 1, false);
		for (each = 0; each < sim_count(&sim); each++)
			sim.connections[each].sent = 0;
		sim_run(&sim, sim.now + 2 * SECOND);
		unequal = sim_unequal(&sim);
		print_message(
			"# %3llu Mbit/s, %2u others: waits of %5.2f ms; if all grow, %5.2f, and if all are new, %5.2f; unequal by %.2f\n",
			path->rate / MEGA, others, one / 1e6, all / 1e6,
			opened / 1e6, unequal);
		CHECK(all <= opened + opened / 10, "path %u: %llu, %llu", n,
		      all, opened);
		CHECK(one <= opened + opened / 10, "path %u: %llu", n, one);
		CHECK(unequal < 2.5, "path %u: %g", n, unequal);
	}
}

/* Receivers that read in steps, longer than the round trip. */
static const struct path steps[] = {
	{ 4 * MEGA, 1 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 10 * MS },
	{ 4 * MEGA, 1 * MS, 0, 2, 10, 1, 1, 0, 0, 0, 0, 10 * MS },
	{ 4 * MEGA, 1 * MS, 0, 2, 7, 2, 1, 0, 0, 0, 0, 10 * MS },
	{ 20 * MEGA, 1 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 10 * MS },
	{ 20 * MEGA, 5 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 20 * MS },
	{ 100 * MEGA, 2 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 5 * MS },
	{ 10 * MEGA, 1 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 40 * MS },
};

/*
 * Some acknowledgments come at once, most after a step. Most of the rate is used, and packets
 * wait for a step more, at most.
 */
UNIT_TEST(receivers_may_read_in_steps)
{
	static const double least[] = { .96, .95, .98, .83, .85, .95, .68 };
	u32 n;

	for (n = 0; n < ARRAY_SIZE(steps); n++) {
		const struct path *path = &steps[n];
		u64 segment = (MSS + HEADERS) * 8 * SECOND / path->rate;
		u64 median, most;
		double used, mean;

		used = sim_path(path, &median, &most, &mean);
		print_message(
			"# %4llu Mbit/s %3llu ms, reads each %2llu ms: %.3f, %5.2f %5.2f ms, segment %.2f ms\n",
			path->rate / MEGA, path->rtt / MS, path->reads / MS,
			used, median / 1e6, most / 1e6, segment / 1e6);
		CHECK(used > least[n] && used < 1.01, "path %u: %g", n, used);
		CHECK(most <= path->reads + 4 * segment, "path %u: %llu", n,
		      most);
	}
}

/* Who pretends to read slowly, and then does not, has the queue of others. */
UNIT_TEST(slow_readers_keep_nothing)
{
	static struct sim sim;
	u32 n;

	for (n = 0; n < ARRAY_SIZE(steps); n++) {
		struct path path = steps[n];
		u64 segment = (MSS + HEADERS) * 8 * SECOND / path.rate;
		u64 median, most;
		double used, mean;

		sim_begin(&sim, &path);
		sim_run(&sim, 8 * SECOND);
		path.reads = 0;
		sim_run(&sim, sim.now + SECOND);
		used = sim_observe(&sim, &median, &most, &mean);
		print_message(
			"# %4llu Mbit/s %3llu ms, no longer: %.3f, %5.2f %5.2f ms, segment %.2f ms\n",
			path.rate / MEGA, path.rtt / MS, used, median / 1e6,
			most / 1e6, segment / 1e6);
		CHECK(used < 1.01, "path %u: %g", n, used);
		CHECK(most <= (path.connections + path.delayed + 1) * segment,
		      "path %u: %llu", n, most);
	}
}

/*
 * Of senders that have more, at least three quarters of what they send is counted as
 * limited; of applications that write less than the rate, less than the eighth at which
 * demand.h takes them for such. At 97 % of a rate whose window has eight segments,
 * these fluctuate by more than the rest: see DEMAND_CAUTION.
 */
UNIT_TEST(who_wants_more_is_counted)
{
	static const struct path greedy[] = {
		{ 20 * MEGA, 20 * MS, 0, 1, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 8, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 40 * MS, 0, 2, 14, 1, 1, 0, 0, 0, 0, 0 },
		{ 200 * MEGA, 40 * MS, 0, 16, 7, 1, 8, 0, 0, 0, 0, 0 },
		{ 1 * MEGA, 100 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 100 * MEGA, 1 * MS, 0, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 5 * MS, 2, 7, 1, 1, 0, 0, 0, 0, 0 },
		{ 20 * MEGA, 20 * MS, 0, 2, 7, 1, 1, 60 * MS, 0, 0, 0, 0 },
		{ 20 * MEGA, 60 * MS, 0, 2, 7, 1, 1, 20 * MS, 0, 0, 0, 0 },
		{ 20 * MEGA, 40 * MS, 0, 2, 7, 4, 1, 0, 0, 0, 0, 0 },
		{ 50 * MEGA, 40 * MS, 0, 2, 7, 8, 1, 0, 0, 0, 0, 0 },
	};
	static const u32 percent[] = { 2, 10, 50, 80, 90, 97, 0 };
	static struct sim sim;
	u32 n, i;

	for (n = 0; n < ARRAY_SIZE(greedy); n++) {
		for (i = 0; i < ARRAY_SIZE(percent); i++) {
			struct path path = greedy[n];
			u64 reached, limited;
			double part;

			path.application =
				path.rate / 100 * percent[i] / path.connections;
			sim_begin(&sim, &path);
			sim_run(&sim, path.route ? 16 * SECOND : 4 * SECOND);
			sim.since = sim.now;
			reached = sim.sharing.reached;
			limited = sim.sharing.limited;
			sim_run(&sim, sim.since + 2 * SECOND);
			reached = sim.sharing.reached - reached;
			limited = sim.sharing.limited - limited;
			part = (double)limited / reached;
			print_message("# path %u, %u %%: %.3f\n", n, percent[i],
				      part);
			CHECK(reached == sim.sent, "path %u, %u %%", n,
			      percent[i]);
			if (percent[i] == 97 && path.rate == MEGA)
				continue;
			if (percent[i])
				CHECK(part < 1. / 8, "path %u, %u %%: %g", n,
				      percent[i], part);
			else
				CHECK(part > 0.75, "path %u: %g", n, part);
		}
	}
}

/* A sender beyond its window, and one whose acknowledgments are not seen. */
UNIT_TEST(what_windows_do_not_reach_is_counted)
{
	struct window_sharing sharing = {};
	struct window_data data = {
		.now = SECOND + 21 * MS,
		.ticks = SECOND + 21 * MS,
		.departure = SECOND + 21 * MS,
		.shared = 1,
		.rate = 20 * MEGA,
		.length = MSS,
		.mss = MSS,
		.headers = HEADERS,
		.octets = 1000,
	};
	struct window window;

	establish(&window, 7, 5);
	data.sequence = window.right - MSS;
	window_sent(&window, &sharing, &data);
	assert_int_equal(sharing.reached, 1000);
	assert_int_equal(sharing.escaped, 0);
	/* A unit and a segment ahead are no offence. */
	data.sequence = window.right + 128;
	window_sent(&window, &sharing, &data);
	assert_int_equal(sharing.reached, 2000);
	data.sequence++;
	window_sent(&window, &sharing, &data);
	assert_int_equal(sharing.reached, 2000);
	assert_int_equal(sharing.escaped, 1000);
	data.sequence = window.right - MSS;
	data.now += 2 * SECOND;
	data.ticks = data.now;
	data.departure = data.now;
	window_sent(&window, &sharing, &data);
	assert_true(window.silent);
	data.sequence += MSS;
	window_sent(&window, &sharing, &data);
	assert_int_equal(sharing.escaped, 2000);
}

UNIT_MAIN()
