/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CoDel (RFC 8289): decides which packets signal congestion, by the time that each
 * waits.
 *
 * When the delay has been above a target for an interval, a packet signals
 * congestion. As long as the delay stays above the target, further packets
 * signal, each interval / sqrt(count) after the one before (section 3.3). If
 * the delay exceeds the target again soon afterwards, the state resumes with
 * the count that was reached before.
 *
 * CoDel decides when a packet leaves the queue. A pacer knows that time, and thus
 * the delay, when the packet arrives: it is the time @now here.
 *
 * A sender detects the loss of the last packet that it has by a time-out only,
 * which takes 200 ms or more. So the last packet of a connection is not
 * dropped. If a packet may be the sender's last one, the packet after it
 * signals instead, if there is one before the queue is empty. A sender that
 * marks all packets as last gets the queue that the pacer permits.
 *
 * The BPF program (rates.bpf.c) and the unit test compile this file. No clock, no
 * locks: the caller serializes the packets of a queue.
 */
#ifndef SLBND_CODEL_H
#define SLBND_CODEL_H

#include <fairpath/core.h>

/* Sections 4.3 and 4.4, ns: for round trips of up to some 100 ms, and 5 % of it. */
#define CODEL_INTERVAL 100000000ULL
#define CODEL_TARGET 5000000ULL

/* The longest interval, ns: products fit into 64 bits. */
#define CODEL_INTERVAL_MAX ((1ULL << 32) - 1)

/* The count is resumed within so many intervals. */
#define CODEL_RESUME 16

/* Of @signalling: the packet that signalled was not dropped, so the next one is. */
#define CODEL_OWES 2U

/**
 * enum codel_last - may a packet be the last one that its sender has?
 * @CODEL_NOT_LAST: others follow
 * @CODEL_MAYBE_LAST: others may follow
 * @CODEL_LAST: none follows
 */
enum codel_last {
	CODEL_NOT_LAST,
	CODEL_MAYBE_LAST,
	CODEL_LAST,
};

/**
 * struct codel - state of a queue; initially 0
 * @above: when the delay will have been above the target for an interval, ns;
 *	0: it is below
 * @next: time of the next signal, ns
 * @count: signals since the delay has been above, which set their rate
 * @resumed: @count at the first of them
 * @inverse: 1 / sqrt(@count), in 2^-32
 * @signalling: not 0 since the first of them, until the delay is below the target
 */
struct codel {
	u64 above;
	u64 next;
	u32 count;
	u32 resumed;
	u32 inverse;
	u32 signalling;
};

/*
 * Approximate 1 / sqrt(count) by Newton's method, without divisions, from a value
 * that is not too high: that of the count before, or of a higher one. After three
 * steps it is 2 % off for a count of 2, and less for others.
 */
static inline void codel_invert(struct codel *codel)
{
	u32 inverse = codel->inverse;
	int step;

#pragma GCC unroll 3
	for (step = 0; step < 3; step++) {
		u64 square = ((u64)inverse * inverse) >> 32;
		u64 factor = (3ULL << 32) - codel->count * square;

		/* Half of the product, without overflow. */
		inverse = ((factor >> 2) * inverse) >> 31;
	}
	codel->inverse = inverse;
}

/* The time between signals, ns. */
static inline u64 codel_spacing(const struct codel *codel, u64 interval)
{
	return (interval * codel->inverse) >> 32;
}

/* The first signal: with the rate of the last ones if those were recent. */
static inline void codel_begin(struct codel *codel, u64 now, u64 interval)
{
	u32 added = codel->count - codel->resumed;

	if (added > 1 && now < codel->next + CODEL_RESUME * interval) {
		codel->count = added;
		codel_invert(codel);
	} else {
		codel->count = 1;
		codel->inverse = ~0U;
	}
	codel->resumed = codel->count;
	codel->signalling = 1;
	codel->next = now + codel_spacing(codel, interval);
}

/**
 * codel_signals() - must a packet signal congestion?
 * @codel: state of its queue
 * @now: when it leaves the queue, ns; not before the packets ahead of it
 * @delay: since its arrival, ns
 * @target: acceptable delay, ns; at least the time that a packet takes
 * @interval: about the longest round trip, ns, at most CODEL_INTERVAL_MAX
 *
 * Return: whether to mark the packet, or to drop it if it has no ECN.
 */
static inline bool codel_signals(struct codel *codel, u64 now, u64 delay,
				 u64 target, u64 interval)
{
	if (delay < target) {
		codel->above = 0;
		codel->signalling = 0;
		return false;
	}
	if (!codel->above) {
		codel->above = now + interval;
		return false;
	}
	if (!codel->signalling) {
		if (now < codel->above)
			return false;
		codel_begin(codel, now, interval);
		return true;
	}
	if (now < codel->next)
		return false;
	codel->count++;
	codel_invert(codel);
	codel->next += codel_spacing(codel, interval);
	return true;
}

/**
 * codel_drops() - must a packet that has no ECN be dropped?
 * @codel: state of its queue
 * @now: see codel_signals()
 * @delay: see codel_signals()
 * @target: see codel_signals()
 * @interval: see codel_signals()
 * @last: whether it is its sender's last one, enum codel_last
 *
 * Return: whether to drop it.
 */
static inline bool codel_drops(struct codel *codel, u64 now, u64 delay,
			       u64 target, u64 interval, u64 last)
{
	bool signals = codel_signals(codel, now, delay, target, interval);
	bool owes = codel->signalling & CODEL_OWES;

	if (!signals && !owes)
		return false;
	if (last == CODEL_LAST || (last && !owes)) {
		codel->signalling |= CODEL_OWES;
		return false;
	}
	codel->signalling &= ~CODEL_OWES;
	return true;
}

#endif /* SLBND_CODEL_H */
