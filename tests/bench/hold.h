/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hold model: a constant number of pending events, each of which schedules
 * another one. It measures slbnsim's timer wheel and ns-3's schedulers alone,
 * with the same events.
 *
 * Delays are those of a session's control packet: HOPS links downstream, the
 * same upstream, and a pause. The hosts' links take a microsecond, the routers'
 * some milliseconds. They are drawn in random order, since schedulers do not
 * distinguish sessions.
 */
#ifndef HOLD_H
#define HOLD_H

#include <stdio.h>
#include <time.h>

/* Links from source to destination, including the two hosts' links. */
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

/* @mean: mean delay of an event [ns]; the pause is chosen accordingly. */
static inline struct hold hold_begin(unsigned long long mean)
{
	unsigned long long hosts = 4ULL * HOST_DELAY;
	unsigned long long routers =
		(HOPS - 2ULL) * (ROUTER_DELAY_LEAST + ROUTER_DELAY_MOST);
	unsigned long long all = CYCLE * mean, links = hosts + routers;
	struct hold hold = { 1, all > links ? all - links : HOST_DELAY };

	return hold;
}

/* The upper half of xorshift64*. */
static inline unsigned long long hold_random(struct hold *hold)
{
	hold->random ^= hold->random >> 12;
	hold->random ^= hold->random << 25;
	hold->random ^= hold->random >> 27;
	return hold->random * 0x2545f4914f6cdd1dULL >> 32;
}

/* Uniform in @least ... @most. */
static inline unsigned long long hold_between(struct hold *hold,
					      unsigned long long least,
					      unsigned long long most)
{
	return least + (hold_random(hold) * (most - least + 1) >> 32);
}

/* The delay of the next event, ns. */
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

/* Print the result as JSON. */
static inline void hold_print(unsigned long long events, unsigned long long ns)
{
	printf("{\"events\": %llu, \"ns\": %llu}\n", events, ns);
}

#endif /* HOLD_H */
