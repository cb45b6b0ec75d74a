/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which place of its set a new connection takes (connections.h).
 *
 * Places are shared as by max-min fairness: a new connection takes a place of
 * the host that has the most places, if that host has at least two more than
 * the connection's own host, and otherwise a place of its own host. One more is
 * enough if the place was silent for CONNECTIONS_SILENT, or
 * CONNECTIONS_SILENT_UNREPORTED if its connection was never reported and no
 * session matches it. So a host never loses a place to a host that would then
 * have more places. Of a host's places, connections that were never reported
 * are replaced first, and those that were silent for longer before others.
 *
 * The includer defines connections_read(). Functions that are not static are verified
 * once, not for each state of their callers; and the verifier follows all branches.
 */
#ifndef SLBND_CONNECTIONS_CORE_H
#define SLBND_CONNECTIONS_CORE_H

#include "connections.h"

#ifdef __bpf__
#define CONNECTIONS_APART __noinline
#else
#define CONNECTIONS_APART static inline
#endif

/**
 * struct connections_way - what decides who loses a place
 * @host: of the connection, connections_host()
 * @last: time of its last packet, ns; 0: the place is free
 * @reported: 0: it was never reported, and no session matches it
 */
struct connections_way {
	u64 host;
	u64 last;
	u64 reported;
};

/* Read place @n of a set. */
static inline void connections_read(u32 set, u32 n,
				    struct connections_way *way);

/* 1 if equal, otherwise 0, without a branch: the verifier follows each one. */
static inline u64 connections_equal(u64 a, u64 b)
{
	u64 difference = a ^ b, negative = -difference;

	/* The compiler must not see what the next line computes. */
	asm("" : "+r"(negative));
	return ((difference | negative) >> 63) ^ 1;
}

/* The number of places that a host has in a set. */
CONNECTIONS_APART u64 connections_places(u32 set, u64 host)
{
	struct connections_way way;
	u64 count = 0;
	u32 n;

#pragma GCC unroll 8
	for (n = 0; n < CONNECTIONS_WAYS; n++) {
		connections_read(set, n, &way);
		count += connections_equal(way.host, host);
	}
	return count;
}

/*
 * The priority with which place @n is taken for @host, which has @own places;
 * 0: it may not be taken. From the highest bit: bit 63 if the place is free
 * (the first free place is taken); how many places its host has; whether its
 * host is @host; whether it was never reported; for how long it was silent; and
 * @n.
 */
CONNECTIONS_APART u64 connections_score(u32 set, u64 n, u64 host, u64 own,
					u64 now)
{
	struct connections_way way;
	u64 is_own, is_silent, places, silent;

	connections_read(set, n, &way);
	if (!way.last)
		return 1ULL << 63 | (CONNECTIONS_WAYS - n) << 3 | n;
	is_own = connections_equal(way.host, host);
	places = connections_places(set, way.host);
	silent = fp_min64(now - fp_min64(now, way.last), (1ULL << 54) - 1);
	is_silent = silent >= (way.reported ? CONNECTIONS_SILENT :
					      CONNECTIONS_SILENT_UNREPORTED);
	if (!is_own && places + is_silent < own + 2)
		return 0;
	return (places * 2 + is_own) << 58 | (u64)!way.reported << 57 |
	       silent << 3 | n;
}

/* The larger one. */
CONNECTIONS_APART u64 connections_better(u64 a, u64 b)
{
	return fp_max64(a, b);
}

/**
 * connections_choose() - choose the place of a new connection
 * @set: its set, for connections_read()
 * @host: its host
 * @now: ns, on the clock of the places
 *
 * Return: number of the place; CONNECTIONS_WAYS: none, as other hosts have the places, at
 * most one more than @host.
 */
static inline u32 connections_choose(u32 set, u64 host, u64 now)
{
	u64 own = connections_places(set, host), best = 0, score;
	u32 n;

#pragma GCC unroll 8
	for (n = 0; n < CONNECTIONS_WAYS; n++) {
		score = connections_score(set, n, host, own, now);
		best = connections_better(best, score);
	}
	return best ? best & (CONNECTIONS_WAYS - 1) : CONNECTIONS_WAYS;
}

/**
 * connections_is_due() - must a connection that sent enough be reported?
 * @reported: when it was reported, ns; 0: never
 * @now: ns, on the same clock
 * @started: when slbnd started
 * @again: when slbnd asked for reports again
 * @assigned: not 0: a session matches it
 *
 * Clocks may begin at 0, as in virtual time: so 0 is compared apart from @started.
 */
static inline bool connections_is_due(u64 reported, u64 now, u64 started,
				      u64 again, u64 assigned)
{
	if (!reported || reported < started)
		return true;
	return !assigned &&
	       (reported < again || now - reported >= CONNECTIONS_RETRY);
}

#endif /* SLBND_CONNECTIONS_CORE_H */
