// SPDX-License-Identifier: GPL-2.0
/*
 * Measures slbnsim's timer wheel (wheel.h) in the hold model.
 *
 * usage: bench_wheel PENDING MEAN EVENTS
 *
 * PENDING events, each with a mean delay of MEAN ns. After a warm-up of three
 * times as many events, it prints the CPU time of EVENTS as JSON.
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
	hold_print(events, cpu_time() - begin);
	wheel_destroy(&wheel);
	return 0;
}
