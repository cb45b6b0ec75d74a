// SPDX-License-Identifier: GPL-2.0
/*
 * slbnsim's wheel.h: events are returned in the order of their times, and
 * events of the same time in the order in which they were added, however far
 * ahead.
 *
 * They are compared with a list that is searched for its first event.
 */
#include "unit.h"

#include <string.h>

#include "userspace/slbnsim/wheel.h"

#define PAGE (1ULL << (WHEEL_SLOT_BITS + WHEEL_PAGE_BITS))
#define ERA (PAGE << WHEEL_ERA_BITS)

struct expected {
	u64 time;
	u64 order;
	u64 what;
};

struct list {
	struct expected *events;
	u32 count;
	u32 room;
	u64 order;
};

static void list_add(struct list *list, u64 time, u64 what)
{
	if (list->count == list->room) {
		list->room = list->room ? 2 * list->room : 64;
		list->events = realloc(list->events,
				       list->room * sizeof(*list->events));
	}
	list->events[list->count++] =
		(struct expected){ time, list->order++, what };
}

static bool is_before(const struct expected *a, const struct expected *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static u32 list_first(const struct list *list)
{
	u32 n, first = 0;

	for (n = 1; n < list->count; n++)
		if (is_before(&list->events[n], &list->events[first]))
			first = n;
	return first;
}

/*
 * Delays of all magnitudes: none, within a slot, of a link, up to the next
 * page.
 */
static u64 ahead(void)
{
	switch (rnd() % 8) {
	case 0:
		return 0;
	case 1:
		return rnd() % (1 << WHEEL_SLOT_BITS);
	case 2:
		return rnd() % 10000000;
	case 3:
		return PAGE - 2000 + rnd() % 4000;
	case 4:
		return rnd() % (10 * PAGE);
	case 5:
		return ERA - 2000 + rnd() % 4000;
	case 6:
		return rnd() % 100 ? rnd() % 20000 : rnd() % (6 * ERA);
	default:
		return (rnd() % 20) << WHEEL_SLOT_BITS;
	}
}

/*
 * wheel_next() is called with a limit; when there is no event until then,
 * events are added from that time on: as joins and leaves are between packets.
 */
UNIT_TEST(random_events)
{
	static struct wheel wheel;
	struct list list = {};
	struct wheel_event got;
	u64 now = 0, what = 1;
	u32 round, n, first;

	wheel_init(&wheel);
	assert_false(wheel_next(&wheel, 0, &got));
	for (round = 0; round < 40000; round++) {
		/* Phases with few pending events, and with some hundreds. */
		u32 adds = rnd() % (round / 2000 % 2 ? 4 : 2);
		u32 takes = rnd() % 3;

		for (n = 0; n < adds; n++, what++) {
			u64 time = now + ahead();

			wheel_add(&wheel, time, what);
			list_add(&list, time, what);
		}
		assert_int_equal(wheel.count, list.count);
		unit_step++;
		for (n = 0; n < takes; n++) {
			u64 until = now + ahead();

			first = list.count ? list_first(&list) : 0;
			if (!list.count || list.events[first].time > until) {
				assert_false(wheel_next(&wheel, until, &got));
				now = until;
				continue;
			}
			assert_true(wheel_next(&wheel, until, &got));
			assert_int_equal(got.time, list.events[first].time);
			assert_int_equal(got.payload, list.events[first].what);
			now = got.time;
			wheel_take(&wheel);
			list.events[first] = list.events[--list.count];
		}
	}
	while (list.count) {
		first = list_first(&list);
		assert_true(wheel_next(&wheel, ~0ULL, &got));
		assert_int_equal(got.payload, list.events[first].what);
		wheel_take(&wheel);
		list.events[first] = list.events[--list.count];
	}
	assert_false(wheel_next(&wheel, ~0ULL, &got));
	wheel_destroy(&wheel);
	free(list.events);
}

/* All bits of the payload, and of times up to 2^50 ns. */
UNIT_TEST(largest_payload)
{
	static struct wheel wheel;
	struct wheel_event got;
	u64 what = (1ULL << WHEEL_PAYLOAD_BITS) - 1;
	u64 time = (1ULL << WHEEL_SLOT_BITS) - 1;

	wheel_init(&wheel);
	for (; time < 1ULL << 50; time = 2 * time + 1) {
		wheel_add(&wheel, time, what);
		wheel_add(&wheel, time, 1);
		assert_false(wheel_next(&wheel, time - 1, &got));
		assert_true(wheel_next(&wheel, time, &got));
		assert_int_equal(got.time, time);
		assert_int_equal(got.payload, what);
		wheel_take(&wheel);
		assert_true(wheel_next(&wheel, time, &got));
		assert_int_equal(got.time, time);
		assert_int_equal(got.payload, 1);
		wheel_take(&wheel);
		unit_step++;
	}
	assert_int_equal(wheel.count, 0);
	wheel_destroy(&wheel);
}

UNIT_TEST(full_slot)
{
	static struct wheel wheel;
	static bool shown[5001];
	struct wheel_event got;
	u64 last = 0, last_what = 0, what;
	u32 n;

	wheel_init(&wheel);
	/* Far more than are sorted by insertion. */
	for (n = 0; n < 5000; n++)
		wheel_add(&wheel, PAGE + rnd() % (1U << WHEEL_SLOT_BITS),
			  n + 1);
	for (n = 0; n < 5000; n++) {
		assert_true(wheel_next(&wheel, ~0ULL, &got));
		assert_true(got.time > last ||
			    (got.time == last && got.payload > last_what));
		last = got.time;
		last_what = got.payload;
		unit_step++;
		/* wheel_ahead() returns each event once, before it is taken. */
		while ((what = wheel_ahead(&wheel, 1, 8))) {
			assert_false(shown[what]);
			shown[what] = true;
		}
		assert_true(shown[got.payload]);
		wheel_take(&wheel);
	}
	assert_false(wheel_next(&wheel, ~0ULL, &got));
	wheel_destroy(&wheel);
}

UNIT_MAIN()
