/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events of a run, as payloads of the wheel: a kind, a number (of a session, a
 * link or a front) and a hop.
 */
#ifndef SLBNSIM_EVENT_H
#define SLBNSIM_EVENT_H

#include "sim.h"

enum kind {
	EVENT_NONE, /* so that 0 is no event */
	EVENT_CONTROL, /* a control packet has arrived */
	EVENT_CYCLE, /* a source's pause is over */
	EVENT_TIMER, /* of a link */
	EVENT_SEND, /* a source sends data */
	EVENT_DATA, /* data has arrived */
	EVENT_FRONT, /* fluid has changed */
	EVENT_EMPTY, /* a source has sent all of its fluid */
};

#define KIND_BITS 3U
#define HOP_SHIFT 40U

static inline u64 event(enum kind kind, u64 number, u64 hop)
{
	return kind | number << KIND_BITS | hop << HOP_SHIFT;
}

/* The time between two EVENT_TIMER of a link, ns. */
static inline u64 sim_timer_interval(const struct sim_options *options)
{
	return options->round ? options->round :
				options->algorithm->timer_interval;
}

#endif /* SLBNSIM_EVENT_H */
