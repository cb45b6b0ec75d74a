// SPDX-License-Identifier: GPL-2.0
/*
 * heap.h: the largest of an array of keys, found by looking at all of them.
 *
 * Any operations in any order, with the whole heap looked at after each; what
 * comes off the top of a full heap is sorted; and the memory is as large as it
 * says, holds what it must, and has its children where they share a line.
 */
#include "unit.h"

#include <string.h>

#include <fairpath/heap.h>

/* 4, 20 and 1028: no byte is left over, so that one beyond is not ours. */
static const u32 capacities[] = {
	1, 2, 3, 4, 5, 6, 17, 20, 21, 22, 1000, 1028
};

struct model {
	u64 *keys;
	bool *in;
	u32 capacity;
	u32 count;
};

static void begin(struct fp_heap *heap, struct model *m, void **memory,
		  u32 capacity)
{
	size_t size = fp_heap_size(capacity), i;

	*memory = aligned_alloc(64, size);
	/* Of any content. */
	for (i = 0; i < size; i++)
		((u8 *)*memory)[i] = (u8)rnd();
	fp_heap_init(heap, *memory, capacity);
	m->keys = calloc(capacity, sizeof(*m->keys));
	m->in = calloc(capacity, sizeof(*m->in));
	m->capacity = capacity;
	m->count = 0;
}

static void end(struct model *m, void *memory)
{
	free(m->in);
	free(m->keys);
	free(memory);
}

static void set(struct fp_heap *heap, struct model *m, u32 thing, u64 key)
{
	fp_heap_set(heap, thing, key);
	m->count += !m->in[thing];
	m->in[thing] = true;
	m->keys[thing] = key;
}

static void take(struct fp_heap *heap, struct model *m, u32 thing)
{
	fp_heap_remove(heap, thing);
	m->count -= m->in[thing];
	m->in[thing] = false;
}

static void equal(const struct fp_heap *heap, const struct model *m)
{
	u32 top = fp_heap_top(heap);
	u32 thing, place;

	CHECK(heap->count == m->count, "%u things, model %u", heap->count,
	      m->count);
	for (place = 1; place < heap->count; place++)
		CHECK(heap->nodes[(place - 1) / FP_HEAP_ARITY].key >=
			      heap->nodes[place].key,
		      "%u of %u", place, heap->count);
	CHECK((top == FP_HEAP_ABSENT) == !m->count, "top %u of %u", top,
	      m->count);
	for (thing = 0; thing < m->capacity; thing++) {
		place = heap->where[thing];
		CHECK((place != FP_HEAP_ABSENT) == m->in[thing], "thing %u",
		      thing);
		if (!m->in[thing])
			continue;
		CHECK(place < heap->count, "thing %u at %u", thing, place);
		CHECK(heap->nodes[place].thing == thing, "thing %u at %u: %u",
		      thing, place, heap->nodes[place].thing);
		CHECK(heap->nodes[place].key == m->keys[thing],
		      "thing %u: %llu, model %llu", thing,
		      heap->nodes[place].key, m->keys[thing]);
		CHECK(m->keys[top] >= m->keys[thing],
		      "%u (%llu) on top, not %u (%llu)", top, m->keys[top],
		      thing, m->keys[thing]);
	}
}

/* Few keys, so that most are equal; the ends; any; and a little off. */
static u64 any_key(const struct model *m, u32 thing, u32 kind)
{
	switch (kind) {
	case 0:
		return rnd_in(0, 3);
	case 1:
		return one_in(2) ? 0 : ~0ULL;
	case 2:
		return m->keys[thing] + rnd_in(0, 2) - 1;
	default:
		return rnd();
	}
}

static void any_operations(void **state)
{
	u32 c, round;

	(void)state;
	for (c = 0; c < ARRAY_SIZE(capacities); c++) {
		u32 capacity = capacities[c];
		u64 steps = capacity < 100 ? 40000 : 10000;

		for (round = 0; round < 5; round++) {
			struct fp_heap heap;
			struct model m;
			void *memory;
			u32 kind = round < 4 ? round : 0, fill = 5;
			u64 last;

			begin(&heap, &m, &memory, capacity);
			equal(&heap, &m);
			for (last = unit_step + steps; unit_step < last;
			     unit_step++) {
				u32 thing = rnd_in(0, capacity - 1);

				if (round == 4)
					kind = rnd_in(0, 3);
				if (one_in(3 * capacity))
					fill = rnd_in(0, 9);
				if (rnd_in(0, 9) < fill)
					set(&heap, &m, thing,
					    any_key(&m, thing, kind));
				else if (one_in(2) && m.count)
					take(&heap, &m, fp_heap_top(&heap));
				else
					take(&heap, &m, thing);
				equal(&heap, &m);
			}
			end(&m, memory);
		}
	}
}

/* With each thing in it, and complements for the smallest first. */
static void full_heap_is_sorted(void **state)
{
	u32 c;

	(void)state;
	for (c = 0; c < ARRAY_SIZE(capacities); c++) {
		u64 flip = one_in(2) ? 0 : ~0ULL;
		struct fp_heap heap;
		struct model m;
		void *memory;
		u32 thing;
		u64 last;

		begin(&heap, &m, &memory, capacities[c]);
		for (thing = 0; thing < m.capacity; thing++, unit_step++)
			set(&heap, &m, thing, flip ^ rnd_in(0, m.capacity));
		equal(&heap, &m);

		last = flip ^ m.keys[fp_heap_top(&heap)];
		while ((thing = fp_heap_top(&heap)) != FP_HEAP_ABSENT) {
			u64 key = flip ^ m.keys[thing];

			CHECK(flip ? key >= last : key <= last,
			      "%llu after %llu", key, last);
			last = key;
			take(&heap, &m, thing);
		}
		CHECK(!m.count, "%u left", m.count);
		end(&m, memory);
	}
}

static void size_is_what_it_needs(void **state)
{
	u32 capacity;

	(void)state;
	for (; unit_step < 1000000; unit_step++) {
		u64 size, needed;

		capacity = rnd_size(1, 1U << 30);
		size = fp_heap_size(capacity);
		/* Three nodes that are not used, nodes of 16 bytes, places. */
		needed = 48 + 20ULL * capacity;
		CHECK(size % 64 == 0 && size >= needed && size - needed < 64,
		      "%u: %llu", capacity, size);
	}
}

static void children_share_a_cache_line(void **state)
{
	struct fp_heap heap;
	struct model m;
	void *memory;
	u32 parent;

	(void)state;
	begin(&heap, &m, &memory, 1000);
	for (parent = 0; parent < 200; parent++) {
		uintptr_t first = (uintptr_t)&heap.nodes[4 * parent + 1];
		uintptr_t last = (uintptr_t)(&heap.nodes[4 * parent + 5]) - 1;

		CHECK(first / 64 == last / 64, "children of %u", parent);
	}
	end(&m, memory);
}

static const struct CMUnitTest tests[] = {
	UNIT_TEST(any_operations),
	UNIT_TEST(full_heap_is_sorted),
	UNIT_TEST(size_is_what_it_needs),
	UNIT_TEST(children_share_a_cache_line),
};

UNIT_MAIN(tests)
