/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events of a run, as payloads of the wheel: a kind, a number (of a session, a
 * link or a front) and a hop.
 */
#ifndef SLBNSIM_EVENT_H
#define SLBNSIM_EVENT_H

#include "sim.h"

enum event_kind {
	EVENT_NONE, /* no payload is 0 */
	EVENT_CONTROL, /* a control packet has arrived */
	EVENT_DEQUEUE, /* a control packet has left a queue */
	EVENT_CYCLE, /* a source's pause is over */
	EVENT_TIMER, /* a link's timer */
	EVENT_SEND, /* a source sends data */
	EVENT_DATA, /* a data packet has arrived */
	EVENT_FRONT, /* a change of fluid has arrived */
	EVENT_EMPTY, /* a source has sent all of its fluid */
	EVENT_EXPIRE, /* a source's timer */
};

#define KIND_BITS 4U
#define HOP_SHIFT 40U

static inline u64 event(enum event_kind kind, u64 number, u64 hop)
{
	return kind | number << KIND_BITS | hop << HOP_SHIFT;
}

static inline u32 event_kind(u64 what)
{
	return what & ((1U << KIND_BITS) - 1);
}

static inline u32 number_of(u64 what)
{
	return what >> KIND_BITS & NET_NONE;
}

/* Does it concern a session's control packet? */
static inline bool is_control_event(u64 what)
{
	return event_kind(what) == EVENT_CONTROL ||
	       event_kind(what) == EVENT_DEQUEUE ||
	       event_kind(what) == EVENT_CYCLE;
}

/* The time between two EVENT_TIMER of a link, ns. */
static inline u64 sim_timer_interval(const struct sim_options *options)
{
	return options->round ? options->round :
				options->algorithm->timer_interval;
}

#endif /* SLBNSIM_EVENT_H */
