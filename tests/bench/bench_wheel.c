// SPDX-License-Identifier: GPL-2.0
/*
 * What the events to come cost in slbnsim alone: its wheel.h in the hold model.
 *
 * usage: bench_wheel PENDING MEAN EVENTS
 *
 * PENDING events, MEAN ns apart from their successors on average. Thrice as
 * many come before it is measured, so that the first are forgotten; then it says
 * in JSON how long EVENTS took.
 */
#include <stdio.h>
#include <stdlib.h>

#include "userspace/slbnsim/wheel.h"

#include "hold.h"

static struct wheel wheel;

static void hold_events(struct hold *hold, u64 count)
{
	struct wheel_event next;

	while (count-- && wheel_next(&wheel, ~0ULL, &next)) {
		wheel_take(&wheel);
		wheel_add(&wheel, next.time + hold_delay(hold), next.payload);
	}
}

int main(int argc, char **argv)
{
	u64 pending, events, begin, n;
	struct hold hold;

	if (argc != 4) {
		fprintf(stderr, "usage: bench_wheel PENDING MEAN EVENTS\n");
		return 2;
	}
	pending = strtoull(argv[1], NULL, 10);
	hold = hold_begin(strtoull(argv[2], NULL, 10));
	events = strtoull(argv[3], NULL, 10);
	wheel_init(&wheel);
	for (n = 0; n < pending; n++)
		wheel_add(&wheel, hold_delay(&hold), n + 1);
	hold_events(&hold, 3 * pending);
	begin = cpu_time();
	hold_events(&hold, events);
	hold_tell(events, cpu_time() - begin);
	wheel_destroy(&wheel);
	return 0;
}
