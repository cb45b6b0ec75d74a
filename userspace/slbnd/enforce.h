/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Holding flows to their rates where they leave by a device. What stands on the
 * device decides how: a BPF program and fq behind it (edt.h), or htb (htb.h). What
 * would have to wait for longer than ENFORCE_QUEUE is dropped, so that the queue of
 * a flow that does not listen is bounded; and what a flow sends is counted.
 *
 * A session's flow may leave open what it does not care for (struct slbn_flow):
 * among sessions that fit, a packet belongs to that which says the most.
 */
#ifndef SLBND_ENFORCE_H
#define SLBND_ENFORCE_H

#include <stdbool.h>
#include <stddef.h>

#include <fairpath/core.h>

#include "../libslbn/libslbn.h"

/* How long a packet may wait for its time, ns. */
#define ENFORCE_QUEUE 100000000ULL

/* Flows that can be held at one time. */
#define ENFORCE_FLOWS 65536

/* Devices that flows leave by. */
#define ENFORCE_DEVICES 16

/**
 * struct enforce_use - what a flow did since it was first set
 * @bytes: sent, with headers, dropped ones not counted
 * @packets: the same
 * @drops: packets that would have had to wait for too long
 * @last: when it last sent, or with htb, was seen to have sent, ns,
 *	CLOCK_MONOTONIC; 0: never
 */
struct enforce_use {
	u64 bytes;
	u64 packets;
	u64 drops;
	u64 last;
};

struct enforce;

/**
 * enforce_open() - begin to hold flows that leave by some devices
 * @devices: their names
 * @count: how many, 1 to ENFORCE_DEVICES
 * @reason: set if it fails: a line for a person
 * @room: of @reason
 *
 * Each device must have fq or htb where its data packets pass: as its root, or as
 * the data class of slbn.
 *
 * Return: what the others take; NULL if it cannot be: nothing has changed.
 */
struct enforce *enforce_open(const char *const *devices, size_t count,
			     char *reason, size_t room);

/**
 * enforce_close() - hold no flows any more, and leave devices as they were found
 * @enforce: or NULL
 */
void enforce_close(struct enforce *enforce);

/**
 * enforce_set() - hold a flow to a rate
 * @enforce: what enforce_open() gave
 * @flow: the flow
 * @rate: bit/s; 0: it is not held, but counted
 *
 * Return: 0; -ENOSPC if there are too many, or another error.
 */
int enforce_set(struct enforce *enforce, const struct slbn_flow *flow,
		u64 rate);

/**
 * enforce_remove() - forget a flow
 * @enforce: what enforce_open() gave
 * @flow: the flow; nothing happens if it is not known
 */
void enforce_remove(struct enforce *enforce, const struct slbn_flow *flow);

/**
 * enforce_read() - what a flow has done
 * @enforce: what enforce_open() gave
 * @flow: the flow
 * @use: set
 *
 * Return: whether it is known.
 */
bool enforce_read(struct enforce *enforce, const struct slbn_flow *flow,
		  struct enforce_use *use);

#endif /* SLBND_ENFORCE_H */
