/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An indexed 4-ary max-heap: find the item with the largest key.
 *
 * Items are numbers below the heap's capacity, each in the heap at most once.
 * A key can be changed at any time in O(log n), because the heap records the
 * position of each item. For a min-heap, store complements (~key).
 *
 * The four children of a node fill one cache line of 64 bytes, since node 0 is
 * at the end of the first line: a level costs one line, where two levels of a
 * binary heap cost two.
 *
 * The caller allocates fp_heap_size() bytes, uninitialized, cache-aligned for
 * speed.
 */
#ifndef FAIRPATH_HEAP_H
#define FAIRPATH_HEAP_H

#include <fairpath/core.h>

#define FP_HEAP_ARITY 4U
#define FP_HEAP_ABSENT (~0U)

struct fp_heap_node {
	u64 key;
	u32 item;
	u32 unused;
};

/**
 * struct fp_heap - a heap
 * @nodes: the nodes, the largest key first
 * @position: by item, its index in @nodes, or FP_HEAP_ABSENT
 * @count: number of nodes in use
 */
struct fp_heap {
	struct fp_heap_node *nodes;
	u32 *position;
	u32 count;
};

/* Unused nodes before node 0, so that its children start a cache line. */
#define FP_HEAP_LEAD (FP_HEAP_ARITY - 1)

/**
 * fp_heap_size() - compute the memory that a heap needs
 * @capacity: number of items, at most 2^29
 *
 * Return: size [bytes], a multiple of 64.
 */
static inline u64 fp_heap_size(u32 capacity)
{
	u64 size =
		((u64)capacity + FP_HEAP_LEAD) * sizeof(struct fp_heap_node) +
		(u64)capacity * sizeof(u32);

	return (size + 63) & ~63ULL;
}

/**
 * fp_heap_init() - initialize an empty heap
 * @heap: the heap
 * @memory: fp_heap_size(@capacity) bytes
 * @capacity: number of items
 */
static inline void fp_heap_init(struct fp_heap *heap, void *memory,
				u32 capacity)
{
	struct fp_heap_node *nodes = memory;
	u32 item;

	heap->nodes = nodes + FP_HEAP_LEAD;
	heap->position = (u32 *)(heap->nodes + capacity);
	heap->count = 0;
	for (item = 0; item < capacity; item++)
		heap->position[item] = FP_HEAP_ABSENT;
}

/**
 * fp_heap_top() - find the item with the largest key
 * @heap: the heap
 *
 * Return: an item with the largest key, or FP_HEAP_ABSENT if the heap is empty.
 */
static inline u32 fp_heap_top(const struct fp_heap *heap)
{
	return heap->count ? heap->nodes[0].item : FP_HEAP_ABSENT;
}

static inline void fp_heap_put(struct fp_heap *heap, u32 place, u64 key,
			       u32 item)
{
	heap->nodes[place].key = key;
	heap->nodes[place].item = item;
	heap->position[item] = place;
}

/* Store @item at @place or at an ancestor of it, moving smaller keys down. */
static inline void fp_heap_rise(struct fp_heap *heap, u32 place, u64 key,
				u32 item)
{
	while (place) {
		u32 parent = (place - 1) / FP_HEAP_ARITY;
		const struct fp_heap_node *node = &heap->nodes[parent];

		if (node->key >= key)
			break;
		fp_heap_put(heap, place, node->key, node->item);
		place = parent;
	}
	fp_heap_put(heap, place, key, item);
}

/* Store @item at @place or at a descendant of it, moving larger keys up. */
static inline void fp_heap_sink(struct fp_heap *heap, u32 place, u64 key,
				u32 item)
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
			    heap->nodes[best].item);
		place = best;
	}
	fp_heap_put(heap, place, key, item);
}

/**
 * fp_heap_set() - insert an item, or change its key
 * @heap: the heap
 * @item: the item, below the capacity
 * @key: its new key
 */
static inline void fp_heap_set(struct fp_heap *heap, u32 item, u64 key)
{
	u32 place = heap->position[item];

	if (place == FP_HEAP_ABSENT)
		fp_heap_rise(heap, heap->count++, key, item);
	else if (key >= heap->nodes[place].key)
		fp_heap_rise(heap, place, key, item);
	else
		fp_heap_sink(heap, place, key, item);
}

/**
 * fp_heap_remove() - remove an item
 * @heap: the heap
 * @item: the item; no effect if it is not in the heap
 */
static inline void fp_heap_remove(struct fp_heap *heap, u32 item)
{
	u32 place = heap->position[item];
	const struct fp_heap_node *last;
	u64 removed;

	if (place == FP_HEAP_ABSENT)
		return;
	removed = heap->nodes[place].key;
	heap->position[item] = FP_HEAP_ABSENT;
	last = &heap->nodes[--heap->count];
	if (place == heap->count)
		return;
	if (last->key >= removed)
		fp_heap_rise(heap, place, last->key, last->item);
	else
		fp_heap_sink(heap, place, last->key, last->item);
}

/* Remove all items, in O(n). */
static inline void fp_heap_clear(struct fp_heap *heap)
{
	while (heap->count)
		heap->position[heap->nodes[--heap->count].item] =
			FP_HEAP_ABSENT;
}

#endif /* FAIRPATH_HEAP_H */
