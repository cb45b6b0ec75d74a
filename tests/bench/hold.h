/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hold model: so many events are pending, and each that comes schedules
 * one. What slbnsim's wheel and ns-3's schedulers cost alone is measured with
 * the same events.
 *
 * They are those of a session's control packet: over HOPS links down, over the
 * same back, and a pause. The links at its two ends take a microsecond, routers'
 * some milliseconds. They are drawn by chance, for a scheduler does not know
 * whose an event is.
 */
#ifndef HOLD_H
#define HOLD_H

#include <stdio.h>
#include <time.h>

/* Links from a source to its destination, of which two are hosts'. */
#define HOPS 7U
#define CYCLE (2U * HOPS + 1U) /* events */

/* ns */
#define HOST_DELAY 1000U
#define ROUTER_DELAY_LEAST 1000000U
#define ROUTER_DELAY_MOST 8000000U

struct hold {
	unsigned long long random;
	unsigned long long pause; /* mean, ns */
};

/* Events are MEAN ns apart, on average; the pause is what is left for it. */
static inline struct hold hold_begin(unsigned long long mean)
{
	unsigned long long hosts = 4ULL * HOST_DELAY;
	unsigned long long routers =
		(HOPS - 2ULL) * (ROUTER_DELAY_LEAST + ROUTER_DELAY_MOST);
	unsigned long long all = CYCLE * mean, links = hosts + routers;
	struct hold hold = { 1, all > links ? all - links : HOST_DELAY };

	return hold;
}

/* xorshift64*, but for its last steps: the upper half is random enough. */
static inline unsigned long long hold_random(struct hold *hold)
{
	hold->random ^= hold->random >> 12;
	hold->random ^= hold->random << 25;
	hold->random ^= hold->random >> 27;
	return hold->random * 0x2545f4914f6cdd1dULL >> 32;
}

/* From @least to @most, these included. */
static inline unsigned long long hold_between(struct hold *hold,
					      unsigned long long least,
					      unsigned long long most)
{
	return least + (hold_random(hold) * (most - least + 1) >> 32);
}

/* How long after this event its successor is, ns. */
static inline unsigned long long hold_delay(struct hold *hold)
{
	unsigned long long which = hold_between(hold, 0, CYCLE - 1);

	if (which < 4)
		return HOST_DELAY;
	if (which < CYCLE - 1)
		return hold_between(hold, ROUTER_DELAY_LEAST,
				    ROUTER_DELAY_MOST);
	return hold_between(hold, hold->pause / 2, hold->pause * 3 / 2);
}

/* CPU time so far, ns. */
static inline unsigned long long cpu_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* In JSON. */
static inline void hold_tell(unsigned long long events, unsigned long long ns)
{
	printf("{\"events\": %llu, \"ns\": %llu}\n", events, ns);
}

#endif /* HOLD_H */
