// SPDX-License-Identifier: GPL-2.0
/*
 * drr_fq_core.h: the papers' fairness bounds, measured on long random runs.
 *
 * "In any interval in which two flows are backlogged" is checked for each pair
 * of flows and all intervals at once: the difference of what the two sent since
 * both became backlogged has a minimum and a maximum, and no interval differs
 * by more than their distance. The bounds are sharp to the byte; each test
 * requires that runs come close to them, which shows that it measures them.
 *
 * DRR: Shreedhar and Varghese prove: after a turn, 0 <= DeficitCounter < Max;
 *	so in m turns a flow sends m Quantum, plus or minus less than Max; so
 *	two flows differ by at most Quantum + 2 Max. In whole bytes and with
 *	each flow's own largest packet, Quantum + Max_f - 1 + Max_g - 1.
 *
 * SCFQ: Golestani's measure of fairness, with weights of 1: Max_f + Max_g. He
 *	proves it without drops. Here packets are dropped from the front and
 *	return their share, and the bound is the same. Let T_f be the starting
 *	tag of flow f's oldest packet. While f stays backlogged, only sending
 *	changes T_f, by the bytes sent. And v - Max_f <= T_f <= v: v is at least
 *	each tag that was sent, and T_f is such a tag or was v itself; on the
 *	other hand, when v was set to a tag F while f was backlogged, F was the
 *	smallest, F <= T_f + Max_f, and T_f never decreases; if f was not
 *	backlogged, it started at that v or a later one. So T_f - T_g is never
 *	above Max_g nor below -Max_f, and changes by at most Max_f + Max_g.
 *
 * RR: two flows differ by one packet.
 *
 * An AQM may drop the packets that are next, so that a larger one is sent than the
 * scheduler compared. DRR: the DeficitCounter is above -Max then, so each flow may
 * be ahead or behind by Max more. SCFQ: F is at most Max of any flow above the
 * smallest tag, so T_f is above v - Max_f - Max. RR does not compare lengths.
 *
 * Limits and drops from the front, of the longest and of random flows, occur
 * throughout.
 */
#include "caller_drr_fq.h"

#include <sanitizer/asan_interface.h>

#define FLOWS 7

/**
 * struct gap - difference of two flows' service since both became backlogged
 * @now: current difference [bytes], for RR [packets]
 * @low: minimum of @now
 * @high: maximum of @now
 */
struct gap {
	s64 now;
	s64 low;
	s64 high;
};

/**
 * struct run - flows and their measurements
 * @c: the core
 * @gaps: by pair of flows
 * @largest: by flow: largest packet since it became backlogged
 * @length: by flow: maximum length of packets
 * @constant: by flow: all packets have the maximum length
 * @length_max: maximum of @length
 * @always: flows never become idle
 * @aqm: packets that are next are dropped at random, and new flows are first
 * @reached: largest gap, in percent of the bound
 * @departures: packets sent
 */
struct run {
	struct caller c;
	struct gap gaps[FLOWS][FLOWS];
	u32 largest[FLOWS];
	u32 length[FLOWS];
	bool constant[FLOWS];
	u32 length_max;
	bool always;
	bool aqm;
	u64 reached;
	u64 departures;
};

static bool backlogged(const struct run *r, u32 number)
{
	return r->c.vars.flows[number].qlen;
}

static u64 gap_allowed(const struct run *r, u32 f, u32 g)
{
	u64 largest = (u64)r->largest[f] + r->largest[g];

	switch (r->c.params.scheduler) {
	case DRR_FQ_DRR:
		return r->c.params.quantum + (largest - 2) * (r->aqm ? 2 : 1);
	case DRR_FQ_SCFQ:
		return largest + (r->aqm ? 2ULL * r->length_max : 0);
	default:
		return 1;
	}
}

static void gap_moves(struct run *r, u32 f, u32 g, s64 by)
{
	struct gap *gap = &r->gaps[f][g];
	u64 allowed = gap_allowed(r, f, g);
	u64 width;

	gap->now += by;
	if (gap->now < gap->low)
		gap->low = gap->now;
	if (gap->now > gap->high)
		gap->high = gap->now;
	width = (u64)(gap->high - gap->low);
	CHECK(width <= allowed, "flows %u, %u: %llu, allowed %llu", f, g, width,
	      allowed);
	r->reached = fp_max64(r->reached, 100 * width / allowed);
}

static void arrive(struct run *r, u32 number)
{
	u32 length = r->constant[number] ? r->length[number] :
					   rnd_size(1, r->length[number]);
	u32 other;

	if (!backlogged(r, number)) {
		r->largest[number] = 0;
		for (other = 0; other < FLOWS; other++) {
			r->gaps[number][other] = (struct gap){ 0 };
			r->gaps[other][number] = (struct gap){ 0 };
		}
	}
	r->largest[number] = fp_max(r->largest[number], length);
	caller_arrive(&r->c, number, number, length);
}

/* Before a packet leaves: queue another if the flow must not become idle. */
static void refill(struct run *r, u32 number)
{
	if (r->always && r->c.vars.flows[number].qlen == 1)
		arrive(r, number);
}

static void shrink(struct run *r)
{
	struct drr_fq_vars *v = &r->c.vars;

	while (drr_fq_over_limit(&r->c.params, v->qlen, v->backlog)) {
		u32 number = drr_fq_longest(v);

		/* Keep the only packet of a flow that must not become idle. */
		if (r->always && v->flows[number].qlen == 1)
			break;
		caller_drop(&r->c, number);
	}
}

/* Returns the sending flow, or DRR_FQ_NONE, and sets the bytes sent. */
static u32 serve(struct run *r, u32 *length)
{
	u32 number = caller_next(&r->c), other;
	s64 amount;

	if (number == DRR_FQ_NONE)
		return number;
	while (r->aqm && one_in(4) && r->c.vars.flows[number].qlen > 1)
		caller_aqm_drop(&r->c, number);
	refill(r, number);
	*length = ((struct packet *)r->c.vars.flows[number].head)->length;
	amount = r->c.params.scheduler == DRR_FQ_RR ? 1 : *length;
	for (other = 0; other < FLOWS; other++) {
		if (other == number || !backlogged(r, other))
			continue;
		gap_moves(r, fp_min(number, other), fp_max(number, other),
			  number < other ? amount : -amount);
	}
	caller_send(&r->c, number);
	r->departures++;
	return number;
}

static void begin(struct run *r, enum drr_fq_scheduler scheduler, bool always)
{
	static const u32 lengths[] = { 64, 576, 1514, 65535, 9000, 1 };
	u32 number, quantum;

	*r = (struct run){ .always = always };
	for (number = 0; number < FLOWS; number++) {
		r->length[number] =
			one_in(2) ?
				lengths[rnd_in(0, ARRAY_SIZE(lengths) - 1)] :
				rnd_size(1, 65535);
		r->constant[number] = one_in(3);
		r->length_max = fp_max(r->length_max, r->length[number]);
	}
	/* Larger than any packet, or so small that rounds pass without one. */
	quantum = one_in(2) ? r->length_max + rnd_size(0, 100000) :
			      rnd_size(1, r->length_max);
	if (one_in(8))
		quantum = 1;
	caller_begin(&r->c, FLOWS, quantum, scheduler);
	r->c.params.limit = rnd_in(FLOWS, 100);
	if (one_in(2))
		r->c.params.limit_bytes = rnd_size(r->length_max, 2000000);
	for (number = 0; always && number < FLOWS; number++)
		arrive(r, number);
}

/* Arrivals, more or fewer than departures, and drops. */
static void arrive_and_drop(struct run *r, bool more)
{
	u32 number, packets = more ? rnd_in(0, 3) : one_in(3);

	while (packets--)
		/* Most packets belong to the first flows. */
		arrive(r, rnd_in(0, rnd_in(0, FLOWS - 1)));
	if (one_in(20)) {
		number = rnd_in(0, FLOWS - 1);
		refill(r, number);
		if (backlogged(r, number))
			caller_drop(&r->c, number);
	}
	shrink(r);
}

typedef void (*check)(const struct run *r, u32 sender);

/* Returns the largest gap, in percent of the bound. */
static u64 measure(enum drr_fq_scheduler scheduler, bool aqm, check each_time)
{
	u64 reached = 0;
	u32 round, i;

	for (round = 0; round < 100; round++) {
		bool more = true;
		struct run r;

		begin(&r, scheduler, round % 2);
		r.aqm = aqm;
		r.c.params.new_first = aqm && scheduler == DRR_FQ_DRR;
		for (i = 0; i < 10000; i++, unit_step++) {
			u32 sender, length;

			if (one_in(1000))
				more = !more;
			if (aqm && scheduler == DRR_FQ_DRR && one_in(100))
				r.c.params.new_first = !r.c.params.new_first;
			arrive_and_drop(&r, more);
			sender = serve(&r, &length);
			if (sender != DRR_FQ_NONE)
				each_time(&r, sender);
		}
		CHECK(r.departures > 2000, "%llu departures", r.departures);
		reached = fp_max64(reached, r.reached);
		caller_end(&r.c);
	}
	print_message("# gaps up to %llu %% of the bound\n", reached);
	return reached;
}

/* Before a flow's turn, its deficit includes that turn's Quantum. */
static void check_deficits(const struct run *r, u32 sender)
{
	u32 quantum = r->c.params.quantum;
	u32 number;

	for (number = 0; number < FLOWS; number++) {
		u32 deficit = r->c.vars.flows[number].deficit;

		if (!backlogged(r, number)) {
			CHECK(!deficit, "flow %u: %u", number, deficit);
			continue;
		}
		CHECK(deficit < quantum + r->largest[number],
		      "flow %u: %u, packets up to %u", number, deficit,
		      r->largest[number]);
		CHECK(number == sender || deficit >= quantum, "flow %u: %u",
		      number, deficit);
	}
}

UNIT_TEST(drr_fairness_bound)
{
	CHECK(measure(DRR_FQ_DRR, false, check_deficits) >= 95,
	      "bound not approached");
}

static void check_tags(const struct run *r, u32 sender)
{
	u64 v = r->c.vars.v;
	u32 number;

	(void)sender;
	for (number = 0; number < FLOWS; number++) {
		u64 tag = r->c.vars.flows[number].tag;

		CHECK(tag <= v, "flow %u: %llu > %llu", number, tag, v);
		CHECK(!backlogged(r, number) || v - tag <= r->largest[number],
		      "flow %u: %llu < %llu - %u", number, tag, v,
		      r->largest[number]);
	}
}

UNIT_TEST(scfq_fairness_bound)
{
	CHECK(measure(DRR_FQ_SCFQ, false, check_tags) >= 95,
	      "bound not approached");
}

/* Bytes that flow @number of @flows sends of 10000 Quanta, see below. */
static u64 share_of_new(u32 flows, u32 backlogged_flows, u32 number)
{
	u32 length = 1000, i;
	struct caller c;
	u64 bytes;

	caller_begin(&c, flows, length, DRR_FQ_DRR);
	c.params.new_first = true;
	for (i = 0; i < flows; i++)
		caller_arrive(&c, i, i, length);
	for (i = 0; i < 10000; i++, unit_step++) {
		u32 next = caller_next(&c);

		/* Backlogged ones have another packet, others get one now. */
		if (next < backlogged_flows)
			caller_arrive(&c, next, next, length);
		caller_send(&c, next);
		if (next >= backlogged_flows)
			caller_arrive(&c, next, next, length);
	}
	bytes = c.vars.flows[number].bytes;
	caller_end(&c);
	return bytes / length;
}

/* A flow whose next packet arrives as soon as one is sent gets no advantage. */
UNIT_TEST(new_flows_get_no_more)
{
	assert_in_range(share_of_new(2, 1, 1), 4900, 5100);
	assert_in_range(share_of_new(11, 10, 10), 900, 920);
	/* A thousand of them take at most half of a flow's share from it. */
	assert_in_range(share_of_new(101, 1, 0), 50, 110);
}

/* New flows are next, in the order of their arrival, and have a burst. */
UNIT_TEST(new_flows_are_first)
{
	const u32 quantum = 1000;
	u32 first, i, burst = 0;
	struct caller c;

	caller_begin(&c, 300, quantum, DRR_FQ_DRR);
	c.params.new_first = true;
	for (i = 0; i < 1000; i++)
		caller_arrive(&c, i % 10, i % 10, quantum);
	for (i = 0; i < 500; i++)
		caller_send(&c, caller_next(&c));
	first = c.vars.first;
	for (i = 10; i < 300; i++)
		caller_arrive(&c, i, i, quantum);
	for (; caller_next(&c) == 10 + burst; burst++)
		caller_send(&c, 10 + burst);
	assert_int_equal(burst, DRR_FQ_NEW_BURST);
	CHECK(caller_next(&c) == c.vars.flows[first].next ||
		      caller_next(&c) == first,
	      "%u", caller_next(&c));
	assert_int_equal(c.vars.new_credit, 0);
	caller_end(&c);

	/* What a new flow does not send is returned. */
	caller_begin(&c, 3, quantum, DRR_FQ_DRR);
	c.params.new_first = true;
	caller_arrive(&c, 0, 0, quantum);
	assert_int_equal(c.vars.new_credit, (DRR_FQ_NEW_BURST - 1) * quantum);
	caller_arrive(&c, 1, 1, 60);
	caller_send(&c, caller_next(&c));
	caller_send(&c, caller_next(&c));
	assert_int_equal(c.vars.new_credit,
			 DRR_FQ_NEW_BURST * quantum - quantum - 60);
	caller_end(&c);
}

static void check_nothing(const struct run *r, u32 sender)
{
	(void)r;
	(void)sender;
}

/* A deficit is above -Max, with the Quantum of the next turn. */
static void check_debts(const struct run *r, u32 sender)
{
	s64 quantum = r->c.params.quantum;
	u32 number;

	for (number = 0; number < FLOWS; number++) {
		s64 deficit = r->c.vars.flows[number].deficit;
		s64 largest = r->largest[number];

		CHECK(backlogged(r, number) || !deficit, "flow %u: %lld",
		      number, deficit);
		CHECK(!deficit || (deficit > -largest &&
				   deficit < quantum + largest),
		      "flow %u: %lld, packets up to %lld, quantum %lld", number,
		      deficit, largest, quantum);
		CHECK(number == sender || !backlogged(r, number) ||
			      deficit > quantum - largest,
		      "flow %u: %lld", number, deficit);
	}
}

UNIT_TEST(rr_fairness_bound)
{
	CHECK(measure(DRR_FQ_RR, false, check_nothing) == 100,
	      "not round robin");
}

/* Those of DRR are sharp; SCFQ exceeds its bound without an AQM, 50 %. */
UNIT_TEST(fairness_bounds_with_aqm)
{
	CHECK(measure(DRR_FQ_DRR, true, check_debts) >= 95,
	      "bound not approached");
	CHECK(measure(DRR_FQ_SCFQ, true, check_nothing) > 50,
	      "bound not approached");
	CHECK(measure(DRR_FQ_RR, true, check_nothing) == 100,
	      "not round robin");
}

/*
 * If flows are always backlogged, each round adds a Quantum to each flow: bytes
 * sent plus deficit differ by at most one Quantum. If each flow can send in
 * each turn, consecutive departures of a flow are a turn; and each flow sends m
 * Quantum in m turns, plus or minus less than Max.
 */
UNIT_TEST(drr_round_by_round)
{
	u32 round, i;

	for (round = 0; round < 60; round++) {
		u64 sent[FLOWS] = { 0 }, turns[FLOWS] = { 0 };
		u32 sender, length, last = DRR_FQ_NONE, number, quantum;
		bool seen;
		struct run r;

		begin(&r, DRR_FQ_DRR, true);
		quantum = r.c.params.quantum;
		seen = quantum >= r.length_max;
		for (i = 0; i < 10000; i++, unit_step++) {
			u64 least = ~0ULL, most = 0;

			arrive_and_drop(&r, true);
			sender = serve(&r, &length);
			if (sender != last) {
				turns[sender]++;
				if (seen && last != DRR_FQ_NONE) {
					u64 due = turns[last] * quantum;

					CHECK(sent[last] + r.largest[last] >
							      due &&
						      sent[last] <
							      due + r.largest[last],
					      "flow %u: %llu, due %llu", last,
					      sent[last], due);
				}
			}
			last = sender;
			sent[sender] += length;

			for (number = 0; number < FLOWS; number++) {
				u64 had = sent[number] +
					  r.c.vars.flows[number].deficit;

				CHECK(had % quantum == 0,
				      "flow %u: %llu of %u each", number, had,
				      quantum);
				least = fp_min64(least, had / quantum);
				most = fp_max64(most, had / quantum);
			}
			CHECK(most - least <= 1, "%llu to %llu turns", least,
			      most);
			for (number = 0; seen && number < FLOWS; number++)
				CHECK(turns[number] + 1 >= turns[sender] &&
					      turns[number] <=
						      turns[sender] + 1,
				      "flow %u: %llu turns, %u: %llu", number,
				      turns[number], sender, turns[sender]);
		}
		caller_end(&r.c);
	}
}

/*
 * Number of packets read per decision. If no packet is larger than the Quantum:
 * the one that ends a turn and the first of the next turn, and another if the
 * same flow is next. With any smaller Quantum: at most three per backlogged
 * flow, and that of the first flow once more: rounds are skipped only if it
 * cannot send after a whole one.
 */
UNIT_TEST(drr_work_per_decision)
{
	u32 round, i, most = 0;

	for (round = 0; round < 60; round++) {
		bool more = true;
		struct run r;

		begin(&r, DRR_FQ_DRR, false);
		for (i = 0; i < 10000; i++, unit_step++) {
			u64 before, reads;
			u32 active, length;

			if (one_in(1000))
				more = !more;
			arrive_and_drop(&r, more);
			active = r.c.vars.active;
			before = length_reads;
			caller_next(&r.c);
			reads = length_reads - before;
			CHECK(reads <= 3 * active + 1, "%llu of %u", reads,
			      active);
			if (active > 1)
				most = fp_max(most, 10 * (u32)reads / active);
			if (r.c.params.quantum >= r.length_max)
				CHECK(reads <= 2 || (reads == 3 && active == 1),
				      "%llu of %u", reads, active);
			serve(&r, &length);
		}
		caller_end(&r.c);
	}
	CHECK(most >= 25, "never more than %u tenths", most);
}

#define SEEN 100000
#define STAY 100

static void poison(const void *from, size_t size)
{
	__asan_poison_memory_region(from, size);
}

static void allow(const void *from, size_t size)
{
	__asan_unpoison_memory_region(from, size);
}

/*
 * After 100,000 flows were active and 100 stay backlogged, the memory of the
 * others and of the heaps beyond 100 is poisoned: no access is allowed.
 */
UNIT_TEST(idle_flows_are_not_accessed)
{
	u32 scheduler, number, i;

	for (scheduler = 0; scheduler <= DRR_FQ_SCHEDULER_MAX; scheduler++) {
		const struct fp_heap *heaps[2];
		struct drr_fq_vars *v;
		u32 stay[STAY];
		struct caller c;

		caller_begin(&c, SEEN, 1514, scheduler);
		v = &c.vars;
		for (number = 0; number < SEEN; number++)
			caller_arrive(&c, number, 0, rnd_in(64, 1514));
		CHECK(v->active == SEEN, "%u", v->active);
		while (v->active > STAY)
			caller_send(&c, caller_next(&c));

		number = v->first;
		for (i = 0; i < STAY; i++, number = v->flows[number].next)
			stay[i] = number;
		CHECK(number == v->first, "more than %u", STAY);

		poison(c.table, drr_fq_table_size(&c.params));
		heaps[0] = &v->longest;
		heaps[1] = drr_fq_has_order(&c.params) ? &v->order : heaps[0];
		for (i = 0; i < STAY; i++) {
			u32 pair = stay[i] & ~1U;

			allow(&v->flows[stay[i]], sizeof(v->flows[0]));
			/* ASan's granularity is eight bytes. */
			allow(&heaps[0]->position[pair], 8);
			allow(&heaps[1]->position[pair], 8);
		}
		allow(heaps[0]->nodes, STAY * sizeof(struct fp_heap_node));
		allow(heaps[1]->nodes, STAY * sizeof(struct fp_heap_node));

		for (i = 0; i < 100000; i++, unit_step++) {
			number = stay[rnd_in(0, STAY - 1)];
			caller_arrive(&c, number, 0, rnd_in(64, 9000));
			if (one_in(2))
				caller_drop(&c, drr_fq_longest(v));
			else
				caller_send(&c, caller_next(&c));
			CHECK(v->active <= STAY, "%u", v->active);
		}
		CHECK(v->active > STAY / 2, "%u", v->active);
		allow(c.table, drr_fq_table_size(&c.params));
		caller_end(&c);
	}
}

UNIT_MAIN()
