/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sends packets above the rates of their sessions in what a default class
 * leaves unused.
 *
 * The default class is a token bucket: what it did not use, it may send in a
 * burst. Its own packets come first: a packet above a rate is sent in it only
 * if no packet of the class waits, and half of the burst remains, for the first
 * packets of connections. So these packets never delay those of the class, and
 * get no more than its rate.
 *
 * The BPF program (rates.bpf.c) and the unit test compile this file. No clock, no locks:
 * the caller serializes the packets of a class.
 */
#ifndef SLBND_SPARE_H
#define SLBND_SPARE_H

#include <fairpath/core.h>

/**
 * spare_departure() - when a packet departs in what a default class leaves
 * @next: when the class has sent its packets so far, ns; in the past if none waits
 * @now: ns
 * @burst: depth of the token bucket, as time at its rate, ns
 * @duration: of the packet at the rate of the class, ns
 *
 * Return: when the class begins to send it, from which @next follows; 0: it has no room.
 */
static inline u64 spare_departure(u64 next, u64 now, u64 burst, u64 duration)
{
	u64 most = fp_max64(next, now > burst ? now - burst : 0);

	return most + burst / 2 + duration <= now ? fp_max64(most, 1) : 0;
}

#endif /* SLBND_SPARE_H */
