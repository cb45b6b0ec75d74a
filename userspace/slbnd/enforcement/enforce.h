/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rate enforcement: limits flows to their assigned rates at the egress of
 * devices, and counts their packets. The device's qdisc decides how: a BPF
 * program paces packets for fq (edt.h), or htb has a class for each flow (htb.h).
 * All other packets of local hosts share the device's default class, whose rate is
 * bounded. Packets that would wait for longer than a limit are dropped, to bound the queue
 * of unresponsive flows.
 *
 * A session may leave fields of its flow open (struct slbn_flow): the most
 * specific session that matches a packet applies to it.
 */
#ifndef SLBND_ENFORCE_H
#define SLBND_ENFORCE_H

#include <stdbool.h>
#include <stddef.h>

#include <fairpath/core.h>

#include "../../libslbn/libslbn.h"
#include "../sessions/ceiling.h"
#include "../system/prefix.h"
#include "marks.h"
#include "windows.h"

/*
 * Longest time that a packet may wait, by default: CoDel's interval, so that a flow that
 * responds to its first signal loses nothing here; at least and at most, ns.
 */
#define ENFORCE_QUEUE 100000000ULL
#define ENFORCE_QUEUE_MIN 10000000ULL
#define ENFORCE_QUEUE_MAX 1000000000ULL

/*
 * Burst of a flow that was idle, in time at its rate, at least, ns; and of one
 * that was idle for longer than ENFORCE_PAUSE. A flow that was idle for that
 * long is not late, but begins anew, maybe together with many others (incast).
 * With a longer burst, each of them would send two packets at nearly the same
 * time, and a short FIFO would drop some.
 */
#define ENFORCE_BURST 2000000ULL
#define ENFORCE_FIRST_BURST 500000ULL
#define ENFORCE_PAUSE 100000000ULL

/*
 * Rate of the default class: by default, a share of the device's rate, per mille:
 * as much as the headroom that links leave free. If that is unknown, bit/s.
 */
#define ENFORCE_UNASSIGNED_SHARE 50
#define ENFORCE_UNASSIGNED 1000000ULL

/* Maximum number of devices. */
#define ENFORCE_DEVICES 16

/**
 * struct enforce_use - counters of a flow, since it was added
 * @bytes: sent, with headers, without drops
 * @packets: sent
 * @drops: packets dropped because they waited, or would have waited, for too long
 * @marks: packets marked (ECN CE) for the same reason
 * @last: time of its last packet, ns, CLOCK_BOOTTIME; with htb, time when a new
 *	packet was last noticed; 0: none yet
 * @reached: octets of connections whose windows may be lowered (struct window_sharing)
 * @limited: those of them that windows or the pacer held back
 * @elsewhere: octets of connections whose acknowledgments do not arrive here
 */
struct enforce_use {
	u64 bytes;
	u64 packets;
	u64 drops;
	u64 marks;
	u64 last;
	u64 reached;
	u64 limited;
	u64 elsewhere;
};

/**
 * struct enforce_connection - what a connection has sent (connections.h)
 * @flow: its packets as they leave
 * @place: its place in the table
 * @bytes: since it began, was idle, or its sender has finished, with link-layer headers
 * @packets: the same
 * @rtt: time between SYN and the next packet, ns; 0: unknown
 * @began: time of the first packet without SYN, ns; 0: none
 * @last: time of its last packet, ns
 * @ended: its sender has finished (TCP)
 */
struct enforce_connection {
	struct slbn_flow flow;
	u32 place;
	u64 bytes;
	u64 packets;
	u64 rtt;
	u64 began;
	u64 last;
	bool ended;
};

/**
 * struct enforce_sums - counters of all packets since enforce_open()
 * @drops: dropped by the BPF program; not by htb's queues
 * @signals: those of @drops that CoDel dropped
 * @marks: marked (ECN CE)
 * @excess: sent above the rates of their sessions, in default classes
 * @unplaced: of connections that have no place in the table
 * @windows: of windows; the BPF program's, too
 * @bands: of marks of the domain; the BPF program's, too
 */
struct enforce_sums {
	u64 drops;
	u64 signals;
	u64 marks;
	u64 excess;
	u64 unplaced;
	struct windows_sums windows;
	struct marks_sums bands;
};

/**
 * struct enforce_config - options of the default class and of packets above rates
 * @unassigned: its rate, bit/s; 0: @unassigned_share applies
 * @unassigned_share: its rate as a share of the device's, per mille
 * @backlog: longest time that a packet may wait, ns, ENFORCE_QUEUE_MIN to
 *	ENFORCE_QUEUE_MAX. With htb it applies to classes that are set later
 * @excess: packets above their session's rate share what default classes leave unused,
 *	except those of TCP; not with htb
 * @hosts: prefixes of local hosts
 * @host_count: number of @hosts; 0: unknown, so all hosts are local
 * @flows: maximum number of flows, from enforce_open() on
 * @connections: the size of the table of connections (connections.h), from
 *	enforce_open() on
 * @pins: where the maps of the BPF program are pinned, from enforce_open() on; NULL:
 *	nowhere
 * @windows: of windows of TCP; not with htb
 * @marks: of marks of the domain; not with htb
 */
struct enforce_config {
	u64 unassigned;
	u32 unassigned_share;
	u64 backlog;
	bool excess;
	const struct flows_prefix *hosts;
	u32 host_count;
	u32 flows;
	u32 connections;
	const char *pins;
	struct windows_config windows;
	struct marks_config marks;
};

/**
 * enum enforce_end - what remains when enforcement stops
 * @ENFORCE_REMOVE: nothing: packets are not limited
 * @ENFORCE_DEFAULT_CLASS: all packets of local hosts share the default class, as the
 *	sessions have left
 * @ENFORCE_HAND_OVER: flows and their rates, until the leases end, for the next slbnd
 */
enum enforce_end {
	ENFORCE_REMOVE,
	ENFORCE_DEFAULT_CLASS,
	ENFORCE_HAND_OVER,
};

/**
 * struct enforce_limit - the limit of a flow
 * @rate: bit/s; 0: none, use the default class
 * @lease: time at which @rate ends, ns, CLOCK_BOOTTIME; ~0: never. With htb the
 *	caller must set 0 then
 * @ceiling: it may send at this rate until @until, if that is more than @rate, bit/s.
 *	With htb this and all below are ignored
 * @until: ns, CLOCK_BOOTTIME, at most @lease; 0: there is no ceiling
 * @burst: depth of its token bucket, as time at @rate, ns; at least ENFORCE_BURST, at
 *	most ENFORCE_QUEUE apply
 * @rtt: round-trip time of its path, ns, for CoDel; 0: unknown
 */
struct enforce_limit {
	u64 rate;
	u64 lease;
	u64 ceiling;
	u64 until;
	u64 burst;
	u64 rtt;
};

struct enforce;

/**
 * enforce_open() - start, and check the devices
 * @devices: their names
 * @count: 1 to ENFORCE_DEVICES
 * @config: options
 *
 * Return: the state; NULL: no memory.
 */
struct enforce *enforce_open(const char *const *devices, size_t count,
			     const struct enforce_config *config);

/**
 * enforce_clean_others() - detach the program of an earlier slbnd from other devices
 * @devices: names of the devices where rates are to be enforced
 * @count: number of @devices
 */
void enforce_clean_others(const char *const *devices, size_t count);

/**
 * enforce_check() - adapt to the devices, qdiscs and addresses that exist now
 * @enforce: from enforce_open()
 *
 * Each device should have fq or htb at its root, or below slbn. With another qdisc
 * its packets are dropped rather than delayed; if it is missing, or the BPF program
 * cannot be attached, it is ignored.
 *
 * Return: whether all flows must be set again.
 */
bool enforce_check(struct enforce *enforce);

/**
 * enforce_problem() - what is wrong with a device
 * @enforce: from enforce_open()
 * @n: number of the device, in the order of enforce_open()
 *
 * Return: one line; NULL: nothing.
 */
const char *enforce_problem(const struct enforce *enforce, u32 n);

/**
 * enforce_working() - count devices without a problem
 * @enforce: from enforce_open()
 *
 * Return: their number.
 */
u32 enforce_working(const struct enforce *enforce);

/**
 * enforce_counts() - are packets counted on a device?
 * @enforce: from enforce_open()
 *
 * Without a suitable qdisc they are, too, if the BPF program is attached.
 *
 * Return: whether enforce_read() has the use of flows.
 */
bool enforce_counts(const struct enforce *enforce);

/**
 * enforce_sees_connections() - are connections counted in the BPF program?
 * @enforce: from enforce_open()
 *
 * Return: whether it runs on a device, and no device has htb.
 */
bool enforce_sees_connections(const struct enforce *enforce);

/**
 * enforce_set_joins() - set what a connection must have sent to be reported
 * @enforce: from enforce_open(); ignored without the BPF program
 * @packets: as on the wire; ~0: none is reported
 * @bytes: with link-layer headers
 * @idle: a connection that was silent for so long begins anew, ns
 */
void enforce_set_joins(struct enforce *enforce, u64 packets, u64 bytes,
		       u64 idle);

/**
 * enforce_expire() - remove flows of an earlier slbnd without a session
 * @enforce: from enforce_open()
 * @now: ns, CLOCK_BOOTTIME; those whose lease is over
 *
 * Return: when to call it again, ns; ~0: never.
 */
u64 enforce_expire(struct enforce *enforce, u64 now);

/**
 * enforce_report_again() - report connections without a session at their next packet
 * @enforce: from enforce_open()
 * @now: ns, CLOCK_BOOTTIME
 */
void enforce_report_again(struct enforce *enforce, u64 now);

/**
 * enforce_reports_fd() - a file descriptor to poll for reports
 * @enforce: from enforce_open()
 *
 * Return: it; -1: there is none.
 */
int enforce_reports_fd(const struct enforce *enforce);

/* A connection has sent enough for a session, or its sender has finished. */
typedef void enforce_reported(void *context,
			      const struct enforce_connection *connection);

/**
 * enforce_receive() - process some hundred reports of connections
 * @enforce: from enforce_open()
 * @reported: called for each
 * @context: passed to @reported
 */
void enforce_receive(struct enforce *enforce, enforce_reported *reported,
		     void *context);

/**
 * enforce_read_connection() - read what a connection has sent
 * @enforce: from enforce_open()
 * @connection: @flow and @place are used; the others are set
 *
 * Return: false: it has lost its place.
 */
bool enforce_read_connection(const struct enforce *enforce,
			     struct enforce_connection *connection);

/**
 * enforce_probe() - check a device without changing it
 * @name: its name
 * @problem: buffer for what is wrong, one line
 * @size: size of @problem
 *
 * Return: whether its packets can be paced.
 */
bool enforce_probe(const char *name, char *problem, size_t size);

/**
 * enforce_close() - stop
 * @enforce: from enforce_open(), or NULL
 * @end: what remains
 */
void enforce_close(struct enforce *enforce, enum enforce_end end);

/**
 * enforce_configure() - change the default class
 * @enforce: from enforce_open()
 * @config: options
 *
 * It also does what enforce_check() does.
 *
 * Return: whether all flows must be set again.
 */
bool enforce_configure(struct enforce *enforce,
		       const struct enforce_config *config);

/**
 * enforce_set() - set the limit of a flow
 * @enforce: from enforce_open()
 * @flow: the flow
 * @wanted: its limit
 * @hint: where it was found before, for the next time; initially any number
 *
 * Return: 0; -ENOSPC: too many flows; or another negative errno.
 */
int enforce_set(struct enforce *enforce, const struct slbn_flow *flow,
		const struct enforce_limit *wanted, u32 *hint);

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
 * @hint: as for enforce_set()
 * @use: set to them
 *
 * Return: whether the flow is known.
 */
bool enforce_read(struct enforce *enforce, const struct slbn_flow *flow,
		  u32 *hint, struct enforce_use *use);

/**
 * enforce_read_counters() - read what a ceiling depends on
 * @enforce: from enforce_open()
 * @flow: the flow
 * @hint: as for enforce_set()
 * @counters: set to it
 *
 * It reads memory only.
 *
 * Return: whether the flow is known to the BPF program.
 */
bool enforce_read_counters(const struct enforce *enforce,
			   const struct slbn_flow *flow, u32 *hint,
			   struct ceiling_counters *counters);

/**
 * enforce_set_share() - note a share that the links of a flow's path have stated
 * @enforce: from enforce_open()
 * @flow: its source and destination count
 * @share: bit/s
 * @until: when it is not known anymore, ns, CLOCK_BOOTTIME
 */
void enforce_set_share(struct enforce *enforce, const struct slbn_flow *flow,
		       u64 share, u64 until);

/**
 * enforce_read_sums() - read the counters of dropped and marked packets
 * @enforce: from enforce_open()
 *
 * Return: them.
 */
struct enforce_sums enforce_read_sums(const struct enforce *enforce);

/**
 * enforce_has_batches() - should enforce_read_batch() be used?
 * @enforce: from enforce_open()
 *
 * Return: false: there are few flows, or htb is in use; use enforce_read().
 */
bool enforce_has_batches(const struct enforce *enforce);

/**
 * enforce_read_batch() - read the counters of many flows
 * @enforce: from enforce_open()
 * @first: 0, or the result of the last call
 * @found: called for each flow
 * @context: passed to @found
 *
 * Reads hundreds of flows with a system call. That is faster than enforce_read() if
 * an eighth of the possible flows exist.
 *
 * Return: @first of the next call; 0: these were the last flows.
 */
u32 enforce_read_batch(const struct enforce *enforce, u32 first,
		       void (*found)(void *context,
				     const struct slbn_flow *flow,
				     const struct enforce_use *use),
		       void *context);

#endif /* SLBND_ENFORCE_H */
