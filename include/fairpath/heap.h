/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A heap over numbered things: which of them has the largest key?
 *
 * Each thing is a number below the heap's capacity and is in the heap at most
 * once. Its key can be set again at any time, in O(log n) steps, because the
 * heap remembers where each thing stands. A smallest key is had by storing
 * complements (~key).
 *
 * A node has four children. They fill one cache line of 64 bytes, since node 0
 * is put at the end of the first line; so a step down costs one line where a
 * binary heap's two steps cost two.
 *
 * The memory is the caller's: fp_heap_size() bytes, aligned to a cache line if
 * speed matters, of any content.
 */
#ifndef FAIRPATH_HEAP_H
#define FAIRPATH_HEAP_H

#include <fairpath/core.h>

#define FP_HEAP_ARITY 4U
#define FP_HEAP_ABSENT (~0U)

struct fp_heap_node {
	u64 key;
	u32 thing;
	u32 unused;
};

/**
 * struct fp_heap - a heap
 * @nodes: the heap proper, the largest key first
 * @where: for each thing its place in @nodes, or FP_HEAP_ABSENT
 * @count: nodes in use
 */
struct fp_heap {
	struct fp_heap_node *nodes;
	u32 *where;
	u32 count;
};

/* Before node 0, so that its children start a cache line. */
#define FP_HEAP_LEAD (FP_HEAP_ARITY - 1)

/**
 * fp_heap_size() - the memory that a heap needs
 * @capacity: how many things there are, at most 2^29
 *
 * Return: bytes, a multiple of 64.
 */
static inline u64 fp_heap_size(u32 capacity)
{
	u64 size =
		((u64)capacity + FP_HEAP_LEAD) * sizeof(struct fp_heap_node) +
		(u64)capacity * sizeof(u32);

	return (size + 63) & ~63ULL;
}

/**
 * fp_heap_init() - make an empty heap
 * @heap: the heap
 * @memory: fp_heap_size(@capacity) bytes
 * @capacity: how many things there are
 */
static inline void fp_heap_init(struct fp_heap *heap, void *memory,
				u32 capacity)
{
	struct fp_heap_node *nodes = memory;
	u32 thing;

	heap->nodes = nodes + FP_HEAP_LEAD;
	heap->where = (u32 *)(heap->nodes + capacity);
	heap->count = 0;
	for (thing = 0; thing < capacity; thing++)
		heap->where[thing] = FP_HEAP_ABSENT;
}

/**
 * fp_heap_top() - the thing with the largest key
 * @heap: the heap
 *
 * Return: one of those with the largest key, or FP_HEAP_ABSENT if it is empty.
 */
static inline u32 fp_heap_top(const struct fp_heap *heap)
{
	return heap->count ? heap->nodes[0].thing : FP_HEAP_ABSENT;
}

static inline void fp_heap_put(struct fp_heap *heap, u32 place, u64 key,
			       u32 thing)
{
	heap->nodes[place].key = key;
	heap->nodes[place].thing = thing;
	heap->where[thing] = place;
}

/* Let larger keys sink below @place until @key fits there. */
static inline void fp_heap_rise(struct fp_heap *heap, u32 place, u64 key,
				u32 thing)
{
	while (place) {
		u32 parent = (place - 1) / FP_HEAP_ARITY;
		const struct fp_heap_node *node = &heap->nodes[parent];

		if (node->key >= key)
			break;
		fp_heap_put(heap, place, node->key, node->thing);
		place = parent;
	}
	fp_heap_put(heap, place, key, thing);
}

static inline void fp_heap_sink(struct fp_heap *heap, u32 place, u64 key,
				u32 thing)
{
	for (;;) {
		u32 child = place * FP_HEAP_ARITY + 1;
		u32 end = fp_min(child + FP_HEAP_ARITY, heap->count);
		u32 best = child;

		if (child >= heap->count)
			break;
		while (++child < end)
			if (heap->nodes[child].key > heap->nodes[best].key)
				best = child;
		if (heap->nodes[best].key <= key)
			break;
		fp_heap_put(heap, place, heap->nodes[best].key,
			    heap->nodes[best].thing);
		place = best;
	}
	fp_heap_put(heap, place, key, thing);
}

/**
 * fp_heap_set() - put a thing into the heap, or change its key
 * @heap: the heap
 * @thing: its number, below the capacity
 * @key: its key from now on
 */
static inline void fp_heap_set(struct fp_heap *heap, u32 thing, u64 key)
{
	u32 place = heap->where[thing];

	if (place == FP_HEAP_ABSENT)
		fp_heap_rise(heap, heap->count++, key, thing);
	else if (key >= heap->nodes[place].key)
		fp_heap_rise(heap, place, key, thing);
	else
		fp_heap_sink(heap, place, key, thing);
}

/**
 * fp_heap_remove() - take a thing out of the heap
 * @heap: the heap
 * @thing: its number; nothing happens if it is not in the heap
 */
static inline void fp_heap_remove(struct fp_heap *heap, u32 thing)
{
	u32 place = heap->where[thing];
	const struct fp_heap_node *last;
	u64 gone;

	if (place == FP_HEAP_ABSENT)
		return;
	gone = heap->nodes[place].key;
	heap->where[thing] = FP_HEAP_ABSENT;
	last = &heap->nodes[--heap->count];
	if (place == heap->count)
		return;
	if (last->key >= gone)
		fp_heap_rise(heap, place, last->key, last->thing);
	else
		fp_heap_sink(heap, place, last->key, last->thing);
}

#endif /* FAIRPATH_HEAP_H */
