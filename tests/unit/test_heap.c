// SPDX-License-Identifier: GPL-2.0
/*
 * heap.h against a linear search for the largest key.
 *
 * Random operations, with the whole heap checked after each; heap sort; the
 * size of the memory; and the alignment of children to cache lines.
 */
#include "unit.h"

#include <string.h>

#include <fairpath/heap.h>

/* For 4, 20 and 1028, there is no padding, so ASan finds any overrun. */
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
	/* The heap must not rely on zeroed memory. */
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

static void set(struct fp_heap *heap, struct model *m, u32 item, u64 key)
{
	fp_heap_set(heap, item, key);
	m->count += !m->in[item];
	m->in[item] = true;
	m->keys[item] = key;
}

static void take(struct fp_heap *heap, struct model *m, u32 item)
{
	fp_heap_remove(heap, item);
	m->count -= m->in[item];
	m->in[item] = false;
}

static void equal(const struct fp_heap *heap, const struct model *m)
{
	u32 top = fp_heap_top(heap);
	u32 item, place;

	CHECK(heap->count == m->count, "%u items, model %u", heap->count,
	      m->count);
	for (place = 1; place < heap->count; place++)
		CHECK(heap->nodes[(place - 1) / FP_HEAP_ARITY].key >=
			      heap->nodes[place].key,
		      "%u of %u", place, heap->count);
	CHECK((top == FP_HEAP_ABSENT) == !m->count, "top %u of %u", top,
	      m->count);
	for (item = 0; item < m->capacity; item++) {
		place = heap->position[item];
		CHECK((place != FP_HEAP_ABSENT) == m->in[item], "item %u",
		      item);
		if (!m->in[item])
			continue;
		CHECK(place < heap->count, "item %u at %u", item, place);
		CHECK(heap->nodes[place].item == item, "item %u at %u: %u",
		      item, place, heap->nodes[place].item);
		CHECK(heap->nodes[place].key == m->keys[item],
		      "item %u: %llu, model %llu", item, heap->nodes[place].key,
		      m->keys[item]);
		CHECK(m->keys[top] >= m->keys[item],
		      "%u (%llu) on top, not %u (%llu)", top, m->keys[top],
		      item, m->keys[item]);
	}
}

/* By @kind: few distinct keys, extremes, small changes, or random keys. */
static u64 random_key(const struct model *m, u32 item, u32 kind)
{
	switch (kind) {
	case 0:
		return rnd_in(0, 3);
	case 1:
		return one_in(2) ? 0 : ~0ULL;
	case 2:
		return m->keys[item] + rnd_in(0, 2) - 1;
	default:
		return rnd();
	}
}

UNIT_TEST(random_operations)
{
	u32 c, round;

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
				u32 item = rnd_in(0, capacity - 1);

				if (round == 4)
					kind = rnd_in(0, 3);
				if (one_in(3 * capacity))
					fill = rnd_in(0, 9);
				if (rnd_in(0, 9) < fill)
					set(&heap, &m, item,
					    random_key(&m, item, kind));
				else if (one_in(2) && m.count)
					take(&heap, &m, fp_heap_top(&heap));
				else
					take(&heap, &m, item);
				equal(&heap, &m);
			}
			end(&m, memory);
		}
	}
}

/* Heap sort, with complements for ascending order. */
UNIT_TEST(full_heap_is_sorted)
{
	u32 c;

	for (c = 0; c < ARRAY_SIZE(capacities); c++) {
		u64 flip = one_in(2) ? 0 : ~0ULL;
		struct fp_heap heap;
		struct model m;
		void *memory;
		u32 item;
		u64 last;

		begin(&heap, &m, &memory, capacities[c]);
		for (item = 0; item < m.capacity; item++, unit_step++)
			set(&heap, &m, item, flip ^ rnd_in(0, m.capacity));
		equal(&heap, &m);

		last = flip ^ m.keys[fp_heap_top(&heap)];
		while ((item = fp_heap_top(&heap)) != FP_HEAP_ABSENT) {
			u64 key = flip ^ m.keys[item];

			CHECK(flip ? key >= last : key <= last,
			      "%llu after %llu", key, last);
			last = key;
			take(&heap, &m, item);
		}
		CHECK(!m.count, "%u left", m.count);
		end(&m, memory);
	}
}

UNIT_TEST(heap_size)
{
	u32 capacity;

	for (; unit_step < 1000000; unit_step++) {
		u64 size, needed;

		capacity = rnd_size(1, 1U << 30);
		size = fp_heap_size(capacity);
		/* Three unused nodes, nodes of 16 bytes, positions. */
		needed = 48 + 20ULL * capacity;
		CHECK(size % 64 == 0 && size >= needed && size - needed < 64,
		      "%u: %llu", capacity, size);
	}
}

UNIT_TEST(children_share_a_cache_line)
{
	struct fp_heap heap;
	struct model m;
	void *memory;
	u32 parent;

	begin(&heap, &m, &memory, 1000);
	for (parent = 0; parent < 200; parent++) {
		uintptr_t first = (uintptr_t)&heap.nodes[4 * parent + 1];
		uintptr_t last = (uintptr_t)(&heap.nodes[4 * parent + 5]) - 1;

		CHECK(first / 64 == last / 64, "children of %u", parent);
	}
	end(&m, memory);
}

UNIT_MAIN()
