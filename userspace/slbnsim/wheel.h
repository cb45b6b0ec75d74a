/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A timer wheel: pending events, sorted by time, and events of the same time in
 * the order in which they were added. So runs are reproducible.
 *
 * Time is divided into slots of 2 us, 8192 of which are a page, 128 of which
 * are an era. An event of the current page or the next is in the list of its
 * slot; one of the current era or the next in the list of its page; others in a
 * list of far events. When a page begins, the list of the page after it is
 * distributed to the slots, and likewise for eras and pages. So an event is
 * touched at most four times, however many are pending: when it is added,
 * distributed, sorted with the others of its slot, and taken.
 *
 * All lists are first in, first out, and so is their distribution: an event
 * that is added to a list directly was added after all that are distributed to
 * it. So a stable sort of a slot by time is enough, when it becomes the current
 * one. From then on the next events are known, and their memory can be
 * prefetched.
 *
 * In a slot, an event is one word: the time within the slot, and the payload.
 * Lists consist of blocks of eight words, a cache line. The links between
 * blocks are in an array of their own, so that all blocks of a list can be
 * prefetched at once.
 */
#ifndef SLBNSIM_WHEEL_H
#define SLBNSIM_WHEEL_H

#include <stdlib.h>
#include <string.h>

#include <fairpath/core.h>

#define WHEEL_SLOT_BITS 11U /* ns */
#define WHEEL_PAGE_BITS 13U /* slots */
#define WHEEL_ERA_BITS 7U /* pages */
/* The current page and the next; the current era and the next. */
#define WHEEL_SLOTS (2U << WHEEL_PAGE_BITS)
#define WHEEL_PAGES (2U << WHEEL_ERA_BITS)
/* The bits of an event's word without its time. */
#define WHEEL_PAYLOAD_BITS (64U - WHEEL_SLOT_BITS)
#define WHEEL_BLOCK 8U /* words */
#define WHEEL_NONE (~0U)

struct wheel_event {
	u64 time; /* ns */
	u64 payload;
};

struct wheel_block {
	u64 words[WHEEL_BLOCK];
};

/* A list of words in blocks, each of which is full but for the last. */
struct wheel_list {
	u32 last;
	u32 count; /* words */
};

/* An array of words. */
struct wheel_words {
	u64 *words;
	u32 count;
	u32 room;
};

/**
 * struct wheel - pending events
 * @slot: the current slot's number: time >> WHEEL_SLOT_BITS
 * @page: the current page's number: slot >> WHEEL_PAGE_BITS
 * @count: pending events
 * @near: of these, those in other slots than the current one
 * @paged: of these, those in pages
 * @slots: events of a slot, as words
 * @busy: a bit for each slot that has events
 * @pages: events of a page, as pairs of time and payload
 * @far: all later events, as pairs
 * @blocks: the lists' memory
 * @before: by block, the block before it in its list, or the next free one
 * @block_count: blocks in use or free
 * @block_room: blocks allocated
 * @free: the first free block
 * @now: the current slot's events, sorted
 * @now_at: the first of these that was not taken
 * @sorted: buffer for sorting
 * @dealt: buffer for distributing a list
 * @ahead: how far each stage of wheel_ahead() has advanced in @now
 */
struct wheel {
	u64 slot;
	u64 page;
	u64 count;
	u64 near;
	u64 paged;
	struct wheel_list slots[WHEEL_SLOTS];
	u64 busy[WHEEL_SLOTS / 64];
	struct wheel_list pages[WHEEL_PAGES];
	struct wheel_list far;
	struct wheel_block *blocks;
	u32 *before;
	u32 block_count;
	u32 block_room;
	u32 free;
	struct wheel_words now;
	u32 now_at;
	struct wheel_words sorted;
	struct wheel_words dealt;
	u32 ahead[4];
};

static inline void *wheel_grow(void *memory, u32 *room, u64 wanted, size_t size)
{
	u64 most = fp_max64(wanted, 2ULL * *room);

	memory = wanted < WHEEL_NONE ? realloc(memory, most * size) : NULL;
	if (!memory)
		abort(); /* out of memory, or of block numbers */
	*room = most < WHEEL_NONE ? most : WHEEL_NONE;
	return memory;
}

/**
 * wheel_init() - an empty wheel, at time 0
 * @w: set up
 */
static inline void wheel_init(struct wheel *w)
{
	memset(w, 0, sizeof(*w));
	w->free = WHEEL_NONE;
}

static inline void wheel_destroy(struct wheel *w)
{
	free(w->blocks);
	free(w->before);
	free(w->now.words);
	free(w->sorted.words);
	free(w->dealt.words);
}

/* ------------------------------------------------------------------------ */
/* Lists                                                                    */

/* Blocks are aligned to cache lines. */
static inline void wheel_grow_blocks(struct wheel *w)
{
	u64 room = w->block_room ? 2ULL * w->block_room : 256;
	u64 size = room * sizeof(struct wheel_block);
	struct wheel_block *blocks = NULL;

	if (room < WHEEL_NONE)
		blocks = aligned_alloc(sizeof(struct wheel_block), size);
	if (!blocks)
		abort(); /* out of memory, or of block numbers */
	if (w->block_count)
		memcpy(blocks, w->blocks, w->block_count * sizeof(*blocks));
	free(w->blocks);
	w->blocks = blocks;
	w->before =
		wheel_grow(w->before, &w->block_room, room, sizeof(*w->before));
}

static inline u32 wheel_new_block(struct wheel *w)
{
	u32 block = w->free;

	if (block != WHEEL_NONE) {
		w->free = w->before[block];
		return block;
	}
	if (w->block_count == w->block_room)
		wheel_grow_blocks(w);
	return w->block_count++;
}

static inline void wheel_push(struct wheel *w, struct wheel_list *list,
			      u64 word)
{
	u32 at = list->count++ % WHEEL_BLOCK;

	if (!at) {
		u32 block = wheel_new_block(w);

		w->before[block] = list->last;
		list->last = block;
	}
	w->blocks[list->last].words[at] = word;
}

static inline void wheel_make_room(struct wheel_words *to, u32 count)
{
	if (count > to->room)
		to->words = wheel_grow(to->words, &to->room, count,
				       sizeof(*to->words));
}

/* Move a list's words into an array. */
static inline void wheel_drain(struct wheel *w, struct wheel_list *list,
			       struct wheel_words *to)
{
	u32 left = list->count, block, before;

	wheel_make_room(to, left);
	to->count = left;
	for (block = list->last; left; block = before) {
		u32 words = (left - 1) % WHEEL_BLOCK + 1;

		left -= words;
		memcpy(&to->words[left], w->blocks[block].words,
		       words * sizeof(u64));
		before = w->before[block];
		w->before[block] = w->free;
		w->free = block;
	}
	list->count = 0;
}

/* ------------------------------------------------------------------------ */
/* Adding                                                                   */

/*
 * Add to the current slot, which is sorted, behind all events that are not
 * later.
 */
static inline void wheel_insert_now(struct wheel *w, u64 word)
{
	u32 at = w->now.count++;

	wheel_make_room(&w->now, w->now.count);
	for (; at > w->now_at && w->now.words[at - 1] >> WHEEL_PAYLOAD_BITS >
					 word >> WHEEL_PAYLOAD_BITS;
	     at--)
		w->now.words[at] = w->now.words[at - 1];
	w->now.words[at] = word;
}

/* Add to the list where it belongs now. */
static inline void wheel_put(struct wheel *w, u64 time, u64 payload)
{
	u64 slot = time >> WHEEL_SLOT_BITS, page = slot >> WHEEL_PAGE_BITS;
	u64 word = time << WHEEL_PAYLOAD_BITS | payload;
	struct wheel_list *list;
	u32 at;

	if (slot <= w->slot) {
		wheel_insert_now(w, word);
	} else if (page <= w->page + 1) {
		at = slot % WHEEL_SLOTS;
		wheel_push(w, &w->slots[at], word);
		w->busy[at / 64] |= 1ULL << at % 64;
		w->near++;
	} else {
		list = &w->far;
		if (page >> WHEEL_ERA_BITS <= (w->page >> WHEEL_ERA_BITS) + 1) {
			list = &w->pages[page % WHEEL_PAGES];
			w->paged++;
		}
		wheel_push(w, list, time);
		wheel_push(w, list, payload);
	}
}

/**
 * wheel_add() - add an event
 * @w: the wheel
 * @time: ns, not before the latest @until or event of wheel_next()
 * @payload: not 0, below 2^WHEEL_PAYLOAD_BITS
 */
static inline void wheel_add(struct wheel *w, u64 time, u64 payload)
{
	w->count++;
	wheel_put(w, time, payload);
}

/* ------------------------------------------------------------------------ */
/* Taking                                                                   */

static inline void wheel_redistribute(struct wheel *w, struct wheel_list *list)
{
	u32 n;

	wheel_drain(w, list, &w->dealt);
	for (n = 0; n < w->dealt.count; n += 2)
		wheel_put(w, w->dealt.words[n], w->dealt.words[n + 1]);
}

/* Advance to the next page, or almost to LAST if no slot or page has events. */
static inline void wheel_advance_page(struct wheel *w, u64 last)
{
	struct wheel_list *next;

	if (!w->near && !w->paged)
		w->page = fp_min64(last - 1, w->page | (WHEEL_PAGES / 2 - 1));
	w->page++;
	if (!(w->page % (WHEEL_PAGES / 2)))
		wheel_redistribute(w, &w->far);
	next = &w->pages[(w->page + 1) % WHEEL_PAGES];
	w->paged -= next->count / 2;
	wheel_redistribute(w, next);
}

/* The next slot that has events; there is one, in this page or the next. */
static inline u64 wheel_next_slot(const struct wheel *w, u64 slot)
{
	u32 from = (slot + 1) % WHEEL_SLOTS;
	u32 word = from / 64;
	u64 bits = w->busy[word] & (~0ULL << from % 64);
	u32 found;

	while (!bits) {
		word = (word + 1) % (WHEEL_SLOTS / 64);
		bits = w->busy[word];
	}
	found = word * 64 + __builtin_ctzll(bits);
	return slot + 1 + ((found - from) % WHEEL_SLOTS);
}

#define WHEEL_LOW_BITS 5U

/*
 * A pass of a stable counting sort, by BITS bits of the time from bit SHIFT on.
 */
static inline void wheel_sort_by(const struct wheel_words *from, u64 *to,
				 u32 shift, u32 bits)
{
	u32 ends[1U << (WHEEL_SLOT_BITS - WHEEL_LOW_BITS)] = {};
	u32 mask = (1U << bits) - 1, n, sum = 0;

	for (n = 0; n < from->count; n++)
		ends[from->words[n] >> shift & mask]++;
	for (n = 0; n <= mask; n++) {
		sum += ends[n];
		ends[n] = sum - ends[n];
	}
	for (n = 0; n < from->count; n++)
		to[ends[from->words[n] >> shift & mask]++] = from->words[n];
}

static inline void wheel_sort(struct wheel *w)
{
	u64 *words = w->now.words;
	u32 at, to;

	if (w->now.count > 16) {
		wheel_make_room(&w->sorted, w->now.count);
		w->sorted.count = w->now.count;
		wheel_sort_by(&w->now, w->sorted.words, WHEEL_PAYLOAD_BITS,
			      WHEEL_LOW_BITS);
		wheel_sort_by(&w->sorted, words,
			      WHEEL_PAYLOAD_BITS + WHEEL_LOW_BITS,
			      WHEEL_SLOT_BITS - WHEEL_LOW_BITS);
		return;
	}
	for (at = 1; at < w->now.count; at++) {
		u64 word = words[at];

		for (to = at; to && words[to - 1] >> WHEEL_PAYLOAD_BITS >
					    word >> WHEEL_PAYLOAD_BITS;
		     to--)
			words[to] = words[to - 1];
		words[to] = word;
	}
}

/* Prefetch a list. */
static inline void wheel_fetch(const struct wheel *w,
			       const struct wheel_list *list)
{
	u32 block = list->last, n;

	for (n = 0; n < list->count; n += WHEEL_BLOCK) {
		__builtin_prefetch(&w->blocks[block]);
		block = w->before[block];
	}
}

/* Advance to the next slot that has events, if it begins by UNTIL. */
static inline bool wheel_advance(struct wheel *w, u64 until)
{
	u64 last = until >> WHEEL_SLOT_BITS, slot = ~0ULL;
	u32 at;

	for (;;) {
		if (w->near)
			slot = wheel_next_slot(w, w->slot);
		if (w->near && slot >> WHEEL_PAGE_BITS == w->page)
			break;
		if (w->page >= last >> WHEEL_PAGE_BITS)
			return false;
		wheel_advance_page(w, last >> WHEEL_PAGE_BITS);
		/* Earlier pages are empty. */
		w->slot = fp_max64(w->slot, (w->page << WHEEL_PAGE_BITS) - 1);
	}
	if (slot > last)
		return false;
	at = slot % WHEEL_SLOTS;
	w->slot = slot;
	w->near -= w->slots[at].count;
	w->busy[at / 64] &= ~(1ULL << at % 64);
	wheel_drain(w, &w->slots[at], &w->now);
	w->now_at = 0;
	memset(w->ahead, 0, sizeof(w->ahead));
	wheel_sort(w);
	if (w->near)
		wheel_fetch(w,
			    &w->slots[wheel_next_slot(w, slot) % WHEEL_SLOTS]);
	return true;
}

/**
 * wheel_next() - look at the next event
 * @w: the wheel
 * @until: ignore later ones, ns; not before that of the previous call
 * @event: set to it
 *
 * Return: whether there is one. wheel_take() removes it.
 */
static inline bool wheel_next(struct wheel *w, u64 until,
			      struct wheel_event *event)
{
	u64 word;

	if (w->now_at == w->now.count &&
	    (!w->count || !wheel_advance(w, until)))
		return false;
	word = w->now.words[w->now_at];
	event->time = w->slot << WHEEL_SLOT_BITS | word >> WHEEL_PAYLOAD_BITS;
	event->payload = word & ((1ULL << WHEEL_PAYLOAD_BITS) - 1);
	return event->time <= until;
}

/**
 * wheel_take() - remove the event of wheel_next()
 * @w: the wheel
 */
static inline void wheel_take(struct wheel *w)
{
	w->now_at++;
	w->count--;
}

/**
 * wheel_ahead() - the payload of an event that will come soon
 * @w: the wheel
 * @stage: of the caller's prefetching, 0 to 3
 * @places: how many events ahead, at most
 *
 * Each event is returned once for each stage, unless it is added late.
 *
 * Return: the payload, or 0.
 */
static inline u64 wheel_ahead(struct wheel *w, u32 stage, u32 places)
{
	u32 at = w->ahead[stage];

	if (at >= w->now.count || at > w->now_at + places)
		return 0;
	w->ahead[stage]++;
	return w->now.words[at] & ((1ULL << WHEEL_PAYLOAD_BITS) - 1);
}

#endif /* SLBNSIM_WHEEL_H */
