// SPDX-License-Identifier: GPL-2.0
/*
 * heap.h and drr_fq_core.h: the cost of operations, in basic blocks.
 *
 * Blocks do not depend on the machine's load, unlike time: the compiler calls a
 * function in each basic block of this program (-fsanitize-coverage=trace-pc in
 * the Makefile). A block is a few instructions; comparing a child in a heap
 * takes two. The limit for an operation is a number of blocks plus another for
 * each level of a heap, about twice the measured cost; a search through a
 * million flows would take a million.
 */
#include <string.h>

#include "unit.h"

#include <sch_drr_fq/drr_fq_core.h>

/* Volatile: incremented by code that the compiler inserts. */
static volatile u64 blocks;

void __sanitizer_cov_trace_pc(void);

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
	blocks++;
}

/* Set @most to the maximum of itself and the blocks of @statement. */
#define COST(most, statement)                           \
	do {                                            \
		u64 before = blocks;                    \
		statement;                              \
		most = fp_max64(most, blocks - before); \
		unit_step++;                            \
	} while (0)

static const u32 sizes[] = { 1,	    10,	    100,     1000,
			     10000, 100000, 1000000, DRR_FQ_FLOWS_MAX };

/* Number of levels of a heap. */
static u32 levels_of(u32 count)
{
	u32 levels = 1, end;

	for (end = 1; end < count; end = end * FP_HEAP_ARITY + 1)
		levels++;
	return levels;
}

static void within(const char *what, u32 size, u64 most, u64 allowed)
{
	if (size == DRR_FQ_FLOWS_MAX)
		print_message("# %s: %llu of %llu blocks\n", what, most,
			      allowed);
	CHECK(most && most <= allowed, "%u %s: %llu, allowed %llu", size, what,
	      most, allowed);
}

UNIT_TEST(heap_cost)
{
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u32 size = sizes[i], levels = levels_of(size), item;
		u64 rise = 0, sink = 0, gone = 0, back = 0, any = 0;
		void *memory = malloc(fp_heap_size(size));
		struct fp_heap heap;

		fp_heap_init(&heap, memory, size);
		for (item = 0; item < size; item++)
			fp_heap_set(&heap, item, rnd());
		for (k = 0; k < 2000; k++) {
			/* Bottom to top, then top to bottom. */
			item = heap.nodes[heap.count - 1].item;
			COST(rise, fp_heap_set(&heap, item, ~0ULL - k));
			item = fp_heap_top(&heap);
			COST(sink, fp_heap_set(&heap, item, k));
			item = fp_heap_top(&heap);
			COST(gone, fp_heap_remove(&heap, item));
			COST(back, fp_heap_set(&heap, item, rnd()));
			item = rnd_in(0, size - 1);
			COST(any, fp_heap_set(&heap, item, rnd()));
			COST(any, fp_heap_remove(&heap, item));
			fp_heap_set(&heap, item, rnd());
		}
		within("rise", size, rise, 10 + 6 * levels);
		within("sink", size, sink, 10 + 20 * levels);
		within("remove", size, gone, 10 + 20 * levels);
		within("come back", size, back, 10 + 6 * levels);
		within("any", size, any, 10 + 20 * levels);
		free(memory);
	}
}

static u32 length_of(const struct drr_fq_flow *flow)
{
	return *(const u32 *)flow->head;
}

/* The core does not access packets, so one length per flow suffices. */
static const u32 lengths[] = { 64, 576, 1000, 1514 };

UNIT_TEST(core_cost)
{
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(sizes) * 3; i++) {
		u32 size = sizes[i / 3], levels = levels_of(size);
		u64 arrive = 0, next = 0, send = 0, drop = 0, find = 0;
		u64 build = 0, discard = 0, *most;
		u64 heaps = i % 3 == DRR_FQ_SCFQ ? 2 : 1;
		struct drr_fq_params p = { .limit = ~0U,
					   .limit_bytes = ~0U,
					   .flows = size,
					   .quantum = 1514,
					   .scheduler = i % 3 };
		struct drr_fq_stats s = { 0 };
		struct drr_fq_vars v;
		void *table = calloc(1, drr_fq_table_size(&p));
		u32 number, length;

		drr_fq_table_init(&p, &v, table);
		for (number = 0; number < size; number++) {
			length = number % ARRAY_SIZE(lengths);
			v.flows[number].head = (void *)&lengths[length];
			length = lengths[length];
			COST(arrive,
			     drr_fq_arrive(&p, &v, &s, number, 0, length));
		}
		/* Arrivals at backlogged flows and at empty ones. */
		for (k = 0; k < 10000; k++) {
			number = rnd_in(0, size - 1);
			length = length_of(&v.flows[number]);
			COST(arrive,
			     drr_fq_arrive(&p, &v, &s, number, 0, length));

			COST(next, number = drr_fq_next(&p, &v, length_of));
			CHECK(number < size, "%u of %u", number, size);
			length = length_of(&v.flows[number]);
			most = v.ranked == 1 ? &discard : &send;
			COST(*most,
			     drr_fq_sent(&p, &v, number, length, length_of));

			most = v.ranked ? &find : &build;
			COST(*most, number = drr_fq_longest(&v));
			if (number == DRR_FQ_NONE || one_in(2))
				continue;
			length = length_of(&v.flows[number]);
			COST(drop,
			     drr_fq_dropped(&p, &v, number, length, length_of));
		}
		within("arrive", size, arrive, 20 + heaps * 6 * levels);
		within("next", size, next, 20);
		/* With one flow, each packet that is sent discards the heap. */
		if (size > 1)
			within("find", size, find, 10);
		/* On average, a flow is inserted and removed once per packet. */
		within("build", size, build, size * (20ULL + 6 * levels));
		if (discard)
			within("discard", size, discard,
			       size * 10ULL + 20 + heaps * 20 * levels);
		within("send", size, send, 20 + heaps * 20 * levels);
		within("drop", size, drop, 20 + heaps * 20 * levels);
		free(table);
	}
}

UNIT_MAIN()
