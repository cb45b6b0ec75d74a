/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rate enforcement: limits flows to their assigned rates at the egress of
 * devices, and counts their packets. The device's qdisc decides how: a BPF
 * program paces packets for fq (edt.h), or htb has a class for each flow (htb.h).
 * Flows without an assigned rate are limited, too: with fq they share the default
 * class, with htb each gets its rate. Packets that would wait for longer than
 * ENFORCE_QUEUE are dropped, to bound the queue of unresponsive flows.
 *
 * A session may leave fields of its flow open (struct slbn_flow): the most
 * specific session that matches a packet applies to it.
 */
#ifndef SLBND_ENFORCE_H
#define SLBND_ENFORCE_H

#include <stdbool.h>
#include <stddef.h>

#include <fairpath/core.h>

#include "../libslbn/libslbn.h"

/* Longest time that a packet may wait, ns. */
#define ENFORCE_QUEUE 100000000ULL

/* Rate of the default class, unless configured, bit/s. */
#define ENFORCE_UNASSIGNED 1000000ULL

/* Maximum number of flows. */
#define ENFORCE_FLOWS 65536

/* Maximum number of devices. */
#define ENFORCE_DEVICES 16

/**
 * struct enforce_use - counters of a flow, since it was added
 * @bytes: sent, with headers, without drops
 * @packets: sent
 * @drops: packets dropped because they would have waited for too long
 * @last: time of its last packet, ns, CLOCK_MONOTONIC; with htb, time when a new
 *	packet was last noticed; 0: none yet
 */
struct enforce_use {
	u64 bytes;
	u64 packets;
	u64 drops;
	u64 last;
};

struct enforce;

/**
 * enforce_open() - prepare devices
 * @devices: their names
 * @count: 1 to ENFORCE_DEVICES
 * @reason: buffer for an error message, one line
 * @size: size of @reason
 *
 * Each device must have fq or htb at its root, or below slbn.
 *
 * Return: the state; NULL: failed, and nothing has changed.
 */
struct enforce *enforce_open(const char *const *devices, size_t count,
			     char *reason, size_t size);

/**
 * enforce_close() - stop, and restore the devices' qdiscs
 * @enforce: from enforce_open(), or NULL
 */
void enforce_close(struct enforce *enforce);

/**
 * enforce_set_unassigned() - set the rate of the default class
 * @enforce: from enforce_open(), or NULL
 * @rate: bit/s, at least 1
 *
 * With htb it applies to flows that are set later.
 */
void enforce_set_unassigned(struct enforce *enforce, u64 rate);

/**
 * enforce_set() - set the rate of a flow
 * @enforce: from enforce_open()
 * @flow: the flow
 * @rate: bit/s; 0: none, use the default class
 * @lease: time at which @rate ends, ns, CLOCK_MONOTONIC; ~0: never. With htb the
 *	caller must set 0 then
 *
 * Return: 0; -ENOSPC: too many flows; or another negative errno.
 */
int enforce_set(struct enforce *enforce, const struct slbn_flow *flow, u64 rate,
		u64 lease);

/**
 * enforce_remove() - remove a flow
 * @enforce: from enforce_open()
 * @flow: the flow; ignored if unknown
 */
void enforce_remove(struct enforce *enforce, const struct slbn_flow *flow);

/**
 * enforce_read() - read the counters of a flow
 * @enforce: from enforce_open()
 * @flow: the flow
 * @use: set to them
 *
 * Return: whether the flow is known.
 */
bool enforce_read(struct enforce *enforce, const struct slbn_flow *flow,
		  struct enforce_use *use);

#endif /* SLBND_ENFORCE_H */
