// SPDX-License-Identifier: GPL-2.0
/*
 * drr_fq_core.h against the reference model: same packets sent and dropped.
 *
 * Each scheduler in lockstep with the model for random events; DRR's decisions
 * at the limits of all ranges, where simulating single turns would take too
 * long, against a formula; limits; and the distribution of hashes.
 * test_drr_fq_fair.c tests the papers' fairness bounds, test_drr_fq_work.c the
 * cost.
 */
#include "caller_drr_fq.h"

/* The core and the model, and the current parameters of random events. */
struct both {
	struct caller c;
	struct model m;
	u32 mix;
	u32 length_max;
	u32 load;
};

static void flow_equal(const struct both *b, u32 number)
{
	const struct drr_fq_vars *v = &b->c.vars;
	const struct drr_fq_flow *flow = &v->flows[number];
	const struct model_flow *model = &b->m.flows[number];
	u64 deficit = 0;

	CHECK(flow->qlen == model->qlen && flow->backlog == model->backlog,
	      "flow %u: %u packets, %u bytes, model %llu, %llu", number,
	      flow->qlen, flow->backlog, model->qlen, model->backlog);
	CHECK(flow->packets == model->sent_packets &&
		      flow->bytes == model->sent_bytes &&
		      flow->drops == model->drops,
	      "flow %u: %u sent, %llu bytes, %u lost, model %llu, %llu, %llu",
	      number, flow->packets, flow->bytes, flow->drops,
	      model->sent_packets, model->sent_bytes, model->drops);
	CHECK(!flow->qlen || flow->hash == model->hash, "flow %u: %x, model %x",
	      number, flow->hash, model->hash);

	if (!flow->qlen || !v->ranked) {
		CHECK(v->longest.position[number] == FP_HEAP_ABSENT, "flow %u",
		      number);
	} else {
		u32 place = v->longest.position[number];

		CHECK(place < v->active, "flow %u: %u", number, place);
		CHECK(v->longest.nodes[place].key >> 32 == model->backlog,
		      "flow %u: %llu, model %llu", number,
		      v->longest.nodes[place].key >> 32, model->backlog);
	}
	if (flow->qlen) {
		deficit = model->deficit;
		if (number != b->m.serving)
			deficit += model->quantum;
	}
	CHECK(!flow->tag || drr_fq_has_order(&b->c.params), "flow %u: %llu",
	      number, flow->tag);
	switch (b->c.params.scheduler) {
	case DRR_FQ_DRR:
		CHECK(flow->deficit == (s64)deficit, "flow %u: %d, model %llu",
		      number, flow->deficit, deficit);
		break;
	case DRR_FQ_SCFQ:
		CHECK(flow->tag == model_start(model),
		      "flow %u: %llu, model %llu", number, flow->tag,
		      model_start(model));
		if (!flow->qlen) {
			CHECK(v->order.position[number] == FP_HEAP_ABSENT,
			      "flow %u", number);
		} else {
			u64 key = v->order.nodes[v->order.position[number]].key;

			CHECK(~key == model->head->tag,
			      "flow %u: %llu, model %llu", number, ~key,
			      model->head->tag);
		}
		break;
	default:
		break;
	}
}

static void totals_equal(const struct both *b)
{
	const struct drr_fq_vars *v = &b->c.vars;
	const struct drr_fq_stats *s = &b->c.stats;
	const struct model *m = &b->m;

	CHECK(v->qlen == m->qlen && v->backlog == m->backlog,
	      "%u packets, %u bytes, model %llu, %llu", v->qlen, v->backlog,
	      m->qlen, m->backlog);
	CHECK(v->active == model_active(m), "%u active, model %u", v->active,
	      model_active(m));
	CHECK(v->longest.count == (v->ranked ? v->active : 0),
	      "%u active, %u in the heap, kept for %u packets", v->active,
	      v->longest.count, v->ranked);
	if (drr_fq_has_order(&b->c.params)) {
		CHECK(v->order.count == v->active, "%u active, %u in order",
		      v->active, v->order.count);
		CHECK(v->v == m->v, "v %llu, model %llu", v->v, m->v);
	} else {
		CHECK(!v->v, "v %llu", v->v);
	}
	CHECK(s->new_flows == m->new_flows && s->collisions == m->collisions &&
		      s->active_max == m->active_max,
	      "new %llu, collisions %llu, most %u, model %llu, %llu, %llu",
	      s->new_flows, s->collisions, s->active_max, m->new_flows,
	      m->collisions, m->active_max);
}

static void all_equal(const struct both *b)
{
	const struct drr_fq_vars *v = &b->c.vars;
	u32 number = v->first, i;

	totals_equal(b);
	for (i = 0; i < b->c.params.flows; i++)
		flow_equal(b, i);
	CHECK((number == DRR_FQ_NONE) == !v->active, "first %u of %u", number,
	      v->active);
	for (i = 0; i < v->active; i++) {
		const struct drr_fq_flow *flow = &v->flows[number];

		CHECK(number == model_in_turn(&b->m, i), "%u-th: %u, model %u",
		      i, number, model_in_turn(&b->m, i));
		CHECK(v->flows[flow->next].prev == number, "%u before %u",
		      number, flow->next);
		number = flow->next;
	}
	CHECK(number == v->first, "after the last %u, not %u", number,
	      v->first);
}

static void drop_longest(struct both *b)
{
	u32 number = drr_fq_longest(&b->c.vars);
	u64 a, z;

	CHECK(number == model_longest(&b->m), "longest: %u, model %u", number,
	      model_longest(&b->m));
	if (number == DRR_FQ_NONE)
		return;
	a = caller_drop(&b->c, number);
	z = model_drop(&b->m, number);
	CHECK(a == z, "packet %llu, model %llu", a, z);
	flow_equal(b, number);
}

/* As the module does after a packet was queued or limits have changed. */
static void shrink(struct both *b)
{
	const struct drr_fq_params *p = &b->c.params;

	while (drr_fq_over_limit(p, b->c.vars.qlen, b->c.vars.backlog)) {
		CHECK(b->m.qlen > p->limit || b->m.backlog > p->limit_bytes,
		      "%llu of %u, %llu of %u", b->m.qlen, p->limit,
		      b->m.backlog, p->limit_bytes);
		drop_longest(b);
	}
	CHECK(b->m.qlen <= p->limit && b->m.backlog <= p->limit_bytes,
	      "%llu of %u, %llu of %u", b->m.qlen, p->limit, b->m.backlog,
	      p->limit_bytes);
}

static u32 random_length(const struct both *b)
{
	static const u32 usual[] = { 64, 576, 1514, 65535 };

	switch (b->mix) {
	case 0:
		return b->length_max;
	case 1:
		return rnd_in(1, b->length_max);
	case 2:
		return rnd_size(1, b->length_max);
	default:
		return fp_min(usual[rnd_in(0, 3)], b->length_max);
	}
}

static void arrive(struct both *b)
{
	u32 last = b->c.params.flows - 1;
	u32 number = rnd_in(0, one_in(2) ? last : fp_min(last, 3));
	u32 hash = one_in(8) ? rnd_in(0, 3) : number;
	u32 length = random_length(b);
	u64 which = caller_arrive(&b->c, number, hash, length);

	model_arrive(&b->m, number, hash, packet_new(which, length));
	flow_equal(b, number);
	shrink(b);
}

static u32 next(struct both *b)
{
	u32 number = caller_next(&b->c);

	CHECK(model_is_next(&b->m, number), "next: %u", number);
	CHECK(caller_next(&b->c) == number, "next: not %u again", number);
	return number;
}

static void serve(struct both *b)
{
	u32 number = next(b);
	u64 a, z;

	if (number == DRR_FQ_NONE)
		return;
	a = caller_send(&b->c, number);
	z = model_send(&b->m, number);
	CHECK(a == z, "packet %llu, model %llu", a, z);
	flow_equal(b, number);
}

static const u32 quanta[] = { 1, 7, 256, 1514, 65536, 1U << 24 };

/* Random limits, and a Quantum for which the model's loop ends soon. */
static void other_params(struct both *b)
{
	struct drr_fq_params *p = &b->c.params;
	u64 most;

	do {
		p->quantum = quanta[rnd_in(0, ARRAY_SIZE(quanta) - 1)];
	} while (b->length_max / p->quantum > 70000 / p->flows);
	p->limit = one_in(4) ? ~0U : rnd_size(1, 4 * p->flows + 10);
	most = fp_min64(b->length_max * (3ULL * p->flows + 10),
			DRR_FQ_LIMIT_BYTES_MAX);
	p->limit_bytes = one_in(4) ? DRR_FQ_LIMIT_BYTES_MAX :
				     rnd_size(b->length_max, (u32)most);
}

static void random_event(struct both *b)
{
	u32 number;

	switch (rnd_in(0, 499)) {
	case 0:
		b->load = rnd_in(1, 9);
		b->mix = rnd_in(0, 3);
		break;
	case 1:
		other_params(b);
		shrink(b);
		break;
	case 2:
	case 3:
		number = rnd_in(0, b->c.params.flows - 1);
		if (!b->m.flows[number].qlen)
			break;
		caller_empty(&b->c, number);
		model_empty(&b->m, number);
		flow_equal(b, number);
		break;
	case 4 ... 13:
		drop_longest(b);
		break;
	case 14 ... 23: /* peek */
		next(b);
		break;
	default:
		if (rnd_in(0, 9) < b->load)
			arrive(b);
		else
			serve(b);
	}
}

static void in_lockstep(enum drr_fq_scheduler scheduler)
{
	static const u32 sizes[] = { 1, 2, 3, 17, 1000 };
	static const u32 lengths[] = { 1, 60, 1514, 65535,
				       DRR_FQ_LIMIT_BYTES_MAX };
	u32 round, i;

	for (round = 0; round < 200; round++) {
		u32 flows = sizes[round % ARRAY_SIZE(sizes)];
		u32 often = flows < 100 ? 1 : 100;
		struct both b = { .load = 5, .mix = rnd_in(0, 3) };

		b.length_max = lengths[rnd_in(0, ARRAY_SIZE(lengths) - 1)];
		caller_begin(&b.c, flows, 1, scheduler);
		other_params(&b);
		model_begin(&b.m, &b.c.params);
		for (i = 0; i < 6000 && b.m.turns < 5000000; i++) {
			random_event(&b);
			if (i % often)
				totals_equal(&b);
			else
				all_equal(&b);
			unit_step++;
		}
		while (b.m.qlen)
			serve(&b);
		all_equal(&b);
		next(&b);
		model_end(&b.m);
		caller_end(&b.c);
	}
}

UNIT_TEST(drr_matches_the_paper)
{
	in_lockstep(DRR_FQ_DRR);
}

UNIT_TEST(rr_matches_round_robin)
{
	in_lockstep(DRR_FQ_RR);
}

UNIT_TEST(scfq_matches_the_paper)
{
	in_lockstep(DRR_FQ_SCFQ);
}

/* The heap as it is if each packet updates it. */
static void update_eagerly(struct fp_heap *heap, const struct caller *c,
			   u32 number)
{
	u64 backlog = c->vars.flows[number].backlog;

	if (backlog)
		fp_heap_set(heap, number, backlog << 32 | number);
	else
		fp_heap_remove(heap, number);
}

/*
 * Find the longest queue; compare with the eager heap. If that builds the core's
 * heap, add the number of its flows to @inserted.
 */
static u32 longest_of(struct caller *c, const struct fp_heap *eager,
		      u64 *inserted)
{
	bool built = !c->vars.ranked;
	u32 number = drr_fq_longest(&c->vars);

	if (built)
		*inserted += c->vars.active;
	CHECK(number == fp_heap_top(eager), "%u, not %u", number,
	      fp_heap_top(eager));
	return number;
}

/*
 * Overload and light load in turn, with other limits, so that the core builds and
 * discards its heap: it drops the same packets as with a heap that is always up to
 * date. On average it inserts at most one flow for each packet sent, or each flow
 * that becomes backlogged.
 */
UNIT_TEST(drops_do_not_depend_on_when_the_heap_is_built)
{
	static const u32 sizes[] = { 1, 2, 17, 300, 3000 };
	u32 i, k, builds = 0, drops = 0;

	for (i = 0; i < 4 * ARRAY_SIZE(sizes); i++) {
		u32 flows = sizes[i % ARRAY_SIZE(sizes)], load = 50, number;
		void *memory = aligned_alloc(64, fp_heap_size(flows));
		u64 inserted = 0, sent = 0;
		struct fp_heap eager;
		struct caller c;

		fp_heap_init(&eager, memory, flows);
		caller_begin(&c, flows, 1514, i % __DRR_FQ_SCHEDULERS);
		for (k = 0; k < 50000; k++, unit_step++) {
			bool ranked = c.vars.ranked;

			if (one_in(2000)) {
				load = rnd_in(0, 100);
				c.params.limit = rnd_size(1, 2 * flows + 100);
			}
			number = rnd_in(0, flows - 1);
			if (rnd_in(0, 99) < load) {
				caller_arrive(&c, number, 0,
					      100 * rnd_in(1, 15));
			} else {
				number = caller_next(&c);
				if (number == DRR_FQ_NONE)
					continue;
				caller_send(&c, number);
				sent++;
			}
			update_eagerly(&eager, &c, number);
			while (drr_fq_over_limit(&c.params, c.vars.qlen,
						 c.vars.backlog)) {
				number = longest_of(&c, &eager, &inserted);
				caller_drop(&c, number);
				update_eagerly(&eager, &c, number);
				drops++;
			}
			/* As for statistics: without a drop. */
			if (one_in(1000))
				longest_of(&c, &eager, &inserted);
			builds += !ranked && c.vars.ranked;
			CHECK(inserted <= c.stats.new_flows + sent,
			      "%llu inserted, %llu new, %llu sent", inserted,
			      c.stats.new_flows, sent);
		}
		caller_end(&c);
		free(memory);
	}
	CHECK(builds > 1000 && drops > 10 * builds, "%u built, %u dropped",
	      builds, drops);
}

/* Rounds until a flow can send: the number of Quanta that it needs. */
static u64 rounds_until_send(const struct caller *c, u32 number)
{
	const struct drr_fq_flow *flow = &c->vars.flows[number];
	s64 quantum = c->params.quantum;
	s64 head = ((const struct packet *)flow->head)->length;

	if (head <= flow->deficit)
		return 0;
	return (head - flow->deficit + quantum - 1) / quantum;
}

/*
 * Extreme lengths and Quanta. Next is the flow that needs the fewest rounds
 * until it can send; among equals, the first in the ring from the current turn.
 * Flows before it in the ring have received one Quantum more than those after.
 */
UNIT_TEST(drr_at_range_limits)
{
	static const u32 ends[] = { 1, 2, 3, 1514, (1U << 24) - 1, 1U << 24 };
	u32 round, i;

	for (round = 0; round < 4000; round++) {
		u32 flows = rnd_in(1, 5);
		struct caller c;

		caller_begin(&c, flows, 1, DRR_FQ_DRR);
		for (i = 0; i < 100; i++, unit_step++) {
			u64 want[5], rounds = ~0ULL, wait;
			u32 number = rnd_in(0, flows - 1), winner, next, k;
			bool before = true;

			c.params.quantum =
				ends[rnd_in(0, ARRAY_SIZE(ends) - 1)];
			caller_arrive(&c, number, 0,
				      rnd_size(1, DRR_FQ_LIMIT_BYTES_MAX));
			while (drr_fq_over_limit(&c.params, c.vars.qlen,
						 c.vars.backlog))
				caller_drop(&c, drr_fq_longest(&c.vars));
			if (one_in(3) || !c.vars.active)
				continue;

			winner = c.vars.first;
			number = c.vars.first;
			for (k = 0; k < c.vars.active; k++) {
				wait = rounds_until_send(&c, number);
				if (wait < rounds) {
					rounds = wait;
					winner = number;
				}
				number = c.vars.flows[number].next;
			}
			for (k = 0; k < c.vars.active; k++) {
				before = before && number != winner;
				want[number] =
					c.vars.flows[number].deficit +
					(rounds + before) * c.params.quantum;
				number = c.vars.flows[number].next;
			}
			next = caller_next(&c);
			CHECK(next == winner, "%u, not %u", next, winner);
			for (k = 0; k < c.vars.active; k++) {
				CHECK((u64)c.vars.flows[number].deficit ==
					      want[number],
				      "flow %u: %d, not %llu", number,
				      c.vars.flows[number].deficit,
				      want[number]);
				number = c.vars.flows[number].next;
			}
			caller_send(&c, next);
		}
		caller_end(&c);
	}
}

UNIT_TEST(over_limit)
{
	for (; unit_step < 1000000; unit_step++) {
		struct drr_fq_params p = {
			.limit = rnd_size(1, ~0U),
			.limit_bytes = rnd_size(1, DRR_FQ_LIMIT_BYTES_MAX),
		};
		u32 qlen = p.limit - 1 + rnd_in(0, p.limit == ~0U ? 1 : 2);
		u32 backlog = p.limit_bytes - 1 + rnd_in(0, 2);

		CHECK(drr_fq_over_limit(&p, qlen, backlog) ==
			      (qlen > p.limit || backlog > p.limit_bytes),
		      "%u of %u, %u of %u", qlen, p.limit, backlog,
		      p.limit_bytes);
	}
}

/*
 * The mapping is monotonic, so the first hash of each flow determines the
 * number of hashes per flow.
 */
UNIT_TEST(hashes_are_uniform)
{
	static const u32 sizes[] = { 1,	   2,	  3,	   1000,
				     1024, 65537, 1048575, DRR_FQ_FLOWS_MAX };
	const u64 hashes = 1ULL << 32;
	u32 i, number;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct drr_fq_params p = { .flows = sizes[i] };
		u64 first = 0, end;

		CHECK(drr_fq_flow_of(&p, 0) == 0, "of %u", p.flows);
		CHECK(drr_fq_flow_of(&p, ~0U) == p.flows - 1, "of %u", p.flows);
		for (number = 0; number < p.flows; number++, unit_step++) {
			end = first + hashes / p.flows;
			if (end < hashes &&
			    drr_fq_flow_of(&p, (u32)end) == number)
				end++;
			CHECK(drr_fq_flow_of(&p, (u32)first) == number,
			      "%llx: not %u of %u", first, number, p.flows);
			CHECK(drr_fq_flow_of(&p, (u32)(end - 1)) == number,
			      "%llx: not %u of %u", end - 1, number, p.flows);
			first = end;
		}
		CHECK(first == hashes, "%llu hashes of %u flows", first,
		      p.flows);
		for (number = 0; number < 100000; number++, unit_step++) {
			u32 a = (u32)rnd(), b = rnd_in(a, ~0U);

			CHECK(drr_fq_flow_of(&p, a) <= drr_fq_flow_of(&p, b),
			      "%x, %x of %u", a, b, p.flows);
		}
	}
}

/* All queues and heaps in use at once, in memory of exactly that size. */
UNIT_TEST(table_size)
{
	static const u32 sizes[] = { 1, 2, 3, 4, 20, 36, 100, 1000, 1028 };
	u32 i, number, scheduler;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (scheduler = 0; scheduler <= DRR_FQ_SCHEDULER_MAX;
		     scheduler++) {
			/*
			 * 64 bytes for the queue, a cache line (on 64-bit
			 * machines), 20 for each heap.
			 */
			bool lines = sizeof(void *) == 8;
			u64 queue = lines ? 64 : sizeof(struct drr_fq_flow);
			u64 each = queue + (scheduler == DRR_FQ_SCFQ ? 40 : 20);
			u32 turns = 0;
			struct caller c;
			u64 size;

			caller_begin(&c, sizes[i], 1514, scheduler);
			size = drr_fq_table_size(&c.params);
			CHECK(size >= each * sizes[i] &&
				      size - each * sizes[i] < 256,
			      "%llu for %u flows", size, sizes[i]);
			CHECK(!lines || size % 64 == 0, "%llu for %u flows",
			      size, sizes[i]);
			CHECK(!lines || (uintptr_t)&c.vars.longest.nodes[1] %
							64 ==
						0,
			      "longest of %u", sizes[i]);
			CHECK(!lines || scheduler != DRR_FQ_SCFQ ||
				      (uintptr_t)&c.vars.order.nodes[1] % 64 ==
					      0,
			      "order of %u", sizes[i]);
			for (number = 0; number < sizes[i]; number++) {
				CHECK(!c.vars.flows[number].qlen, "flow %u",
				      number);
				caller_arrive(&c, number, 0, 1514);
			}
			CHECK(c.vars.active == sizes[i], "%u of %u",
			      c.vars.active, sizes[i]);
			for (; c.vars.active; turns++, unit_step++)
				caller_send(&c, caller_next(&c));
			CHECK(turns == sizes[i], "%u of %u", turns, sizes[i]);
			caller_end(&c);
		}
	}
}

static u32 band_length;

static u32 band_head(const struct drr_fq_flow *queue)
{
	assert_true(queue->qlen > 0);
	return band_length;
}

/*
 * With a full band and a backlogged flow, the band sends first while it has
 * credit; in any interval it sends at most a burst and an eighth of what the
 * flow sends, and, over a long time, not much less.
 */
UNIT_TEST(band_is_first_and_bounded)
{
	const s64 burst = DRR_FQ_BAND_BURST;

	while (unit_step < 2000000) {
		u32 largest = rnd_size(1, 1514), i;
		s64 excess = 0, lowest = 0;
		u64 band = 0, flow = 0;
		struct drr_fq_band b;

		drr_fq_band_init(&b);
		for (i = 0; i < 20000; i++, unit_step++) {
			while (drr_fq_band_has_room(&b, largest))
				drr_fq_band_arrive(&b, largest);
			band_length = largest;
			if (drr_fq_band_is_next(&b, 1, band_head)) {
				assert_true(b.credit >=
					    largest * DRR_FQ_BAND_SHARE);
				drr_fq_band_sent(&b, 1, largest);
				band += largest;
				excess += (s64)largest * DRR_FQ_BAND_SHARE;
			} else {
				u32 length = rnd_size(1, 65536);

				assert_true(b.credit <
					    largest * DRR_FQ_BAND_SHARE);
				drr_fq_band_earn(&b, length);
				flow += length;
				excess -= length;
			}
			lowest = excess < lowest ? excess : lowest;
			CHECK(excess - lowest <= burst * DRR_FQ_BAND_SHARE,
			      "%lld/8 bytes more than an eighth",
			      (long long)(excess - lowest));
		}
		assert_true(band * DRR_FQ_BAND_SHARE >= flow / 2);
	}
}

/* Without backlogged flows, it sends without credit, which is kept. */
UNIT_TEST(band_is_free_when_idle)
{
	struct drr_fq_band b;
	u32 i;

	drr_fq_band_init(&b);
	band_length = 1500;
	assert_false(drr_fq_band_is_next(&b, 0, band_head));
	assert_true(drr_fq_band_has_room(&b, DRR_FQ_BAND_BURST));
	assert_false(drr_fq_band_has_room(&b, DRR_FQ_BAND_BURST + 1));
	assert_false(drr_fq_band_has_room(&b, ~0U));
	for (i = 0; i < 1000; i++) {
		drr_fq_band_arrive(&b, 1500);
		assert_true(drr_fq_band_is_next(&b, 0, band_head));
		drr_fq_band_sent(&b, 0, 1500);
	}
	assert_int_equal(b.credit, DRR_FQ_BAND_BURST * DRR_FQ_BAND_SHARE);
	assert_int_equal(b.queue.packets, 1000);
	assert_int_equal(b.queue.backlog + b.queue.qlen, 0);
	drr_fq_band_earn(&b, ~0U >> 1);
	assert_int_equal(b.credit, DRR_FQ_BAND_BURST * DRR_FQ_BAND_SHARE);
}

UNIT_MAIN()
