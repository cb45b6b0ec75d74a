/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The events to come, in the order of their times; of one time, in the order in
 * which they were added. So a run is the same each time.
 *
 * Time is cut into slots of two microseconds, 8192 of which are a page, 128 of
 * which are an era. An event of this page or the next is put in the list of its
 * slot; one of this era or the next in the list of its page, and one further
 * away in a list for all of these. When a page begins, the list of the one
 * behind it is dealt out to the slots, and so it is with eras and pages. So an
 * event is touched at most four times, however many there are: when it is
 * added, dealt out, put in order with the few others of its slot, and taken.
 *
 * All lists are first in, first out, and so is their dealing out: whoever comes
 * to a list directly was added after all that are dealt out to it. So it is
 * enough to sort a slot by time, stably, when its turn has come. By then it is
 * known what comes next for quite a while, and memory can be fetched beforehand.
 *
 * In a slot, an event is one word: the time in its slot, and what it is. Lists
 * are of lines of eight words. Which line follows which is told elsewhere, so
 * that a list's lines can be asked for all at once.
 */
#ifndef SLBNSIM_WHEEL_H
#define SLBNSIM_WHEEL_H

#include <stdlib.h>
#include <string.h>

#include <fairpath/core.h>

#define WHEEL_SLOT_BITS 11U /* ns */
#define WHEEL_PAGE_BITS 13U /* slots */
#define WHEEL_ERA_BITS 7U /* pages */
/* This page and the next, this era and the next. */
#define WHEEL_SLOTS (2U << WHEEL_PAGE_BITS)
#define WHEEL_PAGES (2U << WHEEL_ERA_BITS)
/* What is left of an event's word, for who adds it. */
#define WHEEL_PAYLOAD_BITS (64U - WHEEL_SLOT_BITS)
#define WHEEL_LINE 8U /* words */
#define WHEEL_NONE (~0U)

struct wheel_event {
	u64 time; /* ns */
	u64 payload;
};

struct wheel_line {
	u64 words[WHEEL_LINE];
};

/* Words in lines, each full but for the last. */
struct wheel_list {
	u32 last;
	u32 count; /* words */
};

/* Words in a row. */
struct wheel_words {
	u64 *words;
	u32 count;
	u32 room;
};

/**
 * struct wheel - events to come
 * @slot: the current slot's number: time >> WHEEL_SLOT_BITS
 * @page: the current page's: slot >> WHEEL_PAGE_BITS
 * @count: events to come
 * @near: of these, those in slots but the current
 * @paged: of these, those in pages
 * @slots: lists of events
 * @busy: a bit for each slot that has any
 * @pages: lists of times and events
 * @far: the same
 * @lines: what lists are made of
 * @before: by line, the one before it in its list; or the next that is free
 * @line_count: lines so far
 * @line_room: for so many there is memory
 * @free: a line that is free
 * @now: the current slot's events, in order
 * @now_at: the first of these that has not been taken
 * @sorted: used while they are put in order
 * @dealt: used while a list is dealt out
 * @ahead: how far wheel_ahead() has come in @now
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
	struct wheel_line *lines;
	u32 *before;
	u32 line_count;
	u32 line_room;
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
		abort(); /* out of memory, or of numbers */
	*room = most < WHEEL_NONE ? most : WHEEL_NONE;
	return memory;
}

/**
 * wheel_init() - no events, at time 0
 * @w: all of it is set
 */
static inline void wheel_init(struct wheel *w)
{
	memset(w, 0, sizeof(*w));
	w->free = WHEEL_NONE;
}

static inline void wheel_destroy(struct wheel *w)
{
	free(w->lines);
	free(w->before);
	free(w->now.words);
	free(w->sorted.words);
	free(w->dealt.words);
}

/* ------------------------------------------------------------------------ */
/* Lists                                                                    */

/* Lines are those of a processor's caches, and begin where these do. */
static inline void wheel_grow_lines(struct wheel *w)
{
	u64 room = w->line_room ? 2ULL * w->line_room : 256;
	u64 size = room * sizeof(struct wheel_line);
	struct wheel_line *lines = NULL;

	if (room < WHEEL_NONE)
		lines = aligned_alloc(sizeof(struct wheel_line), size);
	if (!lines)
		abort(); /* out of memory, or of numbers */
	if (w->line_count)
		memcpy(lines, w->lines, w->line_count * sizeof(*lines));
	free(w->lines);
	w->lines = lines;
	w->before =
		wheel_grow(w->before, &w->line_room, room, sizeof(*w->before));
}

static inline u32 wheel_new_line(struct wheel *w)
{
	u32 line = w->free;

	if (line != WHEEL_NONE) {
		w->free = w->before[line];
		return line;
	}
	if (w->line_count == w->line_room)
		wheel_grow_lines(w);
	return w->line_count++;
}

static inline void wheel_push(struct wheel *w, struct wheel_list *list,
			      u64 word)
{
	u32 at = list->count++ % WHEEL_LINE;

	if (!at) {
		u32 line = wheel_new_line(w);

		w->before[line] = list->last;
		list->last = line;
	}
	w->lines[list->last].words[at] = word;
}

static inline void wheel_make_room(struct wheel_words *to, u32 count)
{
	if (count > to->room)
		to->words = wheel_grow(to->words, &to->room, count,
				       sizeof(*to->words));
}

/* All that is in a list, in a row; it is empty then. */
static inline void wheel_drain(struct wheel *w, struct wheel_list *list,
			       struct wheel_words *to)
{
	u32 left = list->count, line, before;

	wheel_make_room(to, left);
	to->count = left;
	for (line = list->last; left; line = before) {
		u32 words = (left - 1) % WHEEL_LINE + 1;

		left -= words;
		memcpy(&to->words[left], w->lines[line].words,
		       words * sizeof(u64));
		before = w->before[line];
		w->before[line] = w->free;
		w->free = line;
	}
	list->count = 0;
}

/* ------------------------------------------------------------------------ */
/* Adding                                                                   */

/* Into the current slot, which is in order already: behind all not later. */
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

/* Where it belongs, as things stand. */
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
 * wheel_add() - something is to happen
 * @w: the wheel
 * @time: when, ns, not before the latest that wheel_next() was asked about or
 *	has told
 * @payload: payload; not 0, below 2^WHEEL_PAYLOAD_BITS
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

/* Go on to the next page, or if nothing happens for long, nearly to LAST. */
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

/* The next slot that has events; some has, and it is in this page or the next. */
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

/* By a few bits of their times, from bit SHIFT on; those alike as they were. */
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

/* It will be wanted soon. */
static inline void wheel_fetch(const struct wheel *w,
			       const struct wheel_list *list)
{
	u32 line = list->last, n;

	for (n = 0; n < list->count; n += WHEEL_LINE) {
		__builtin_prefetch(&w->lines[line]);
		line = w->before[line];
	}
}

/* Go on to the next slot that has events, if it begins until then. */
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
		/* Nothing is left in pages before. */
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
 * wheel_next() - the next event
 * @w: the wheel
 * @until: if it is not later than this, ns; not before what was asked before
 * @event: set to it
 *
 * Return: whether there is one. It is to be taken with wheel_take().
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
 * wheel_take() - take what wheel_next() has shown
 * @w: the wheel
 */
static inline void wheel_take(struct wheel *w)
{
	w->now_at++;
	w->count--;
}

/**
 * wheel_ahead() - an event that will come soon
 * @w: the wheel
 * @who: 0 to 3: who asks
 * @places: at most so many after the next
 *
 * Each is shown once to each, but for some that come late, and so are not.
 *
 * Return: what it is, or 0 if there is none.
 */
static inline u64 wheel_ahead(struct wheel *w, u32 who, u32 places)
{
	u32 at = w->ahead[who];

	if (at >= w->now.count || at > w->now_at + places)
		return 0;
	w->ahead[who]++;
	return w->now.words[at] & ((1ULL << WHEEL_PAYLOAD_BITS) - 1);
}

#endif /* SLBNSIM_WHEEL_H */
