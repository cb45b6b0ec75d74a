/* SPDX-License-Identifier: LGPL-2.1 */
/*
 * libslbn: programs ask slbnd, the agent of this access router, for a rate, and are
 * notified of the rate that SLBN assigns.
 *
 * The API has the four primitives of the paper (NCA 2012, section II): Join, Leave
 * and Change are requests, Rate is an event.
 *
 *	struct slbn *slbn = slbn_open(NULL);
 *	struct slbn_flow flow = { .family = AF_INET, … };
 *	struct slbn_session now;
 *	uint64_t id;
 *
 *	slbn_join(slbn, &flow, 10000000, 1, 0, &id);
 *	while (slbn_next(slbn, -1, &now) == 1)
 *		printf("%llu bit/s\n", (unsigned long long)now.rate);
 *
 * Closing a connection ends its sessions, except those with SLBN_STAYS. A
 * connection must not be used by two threads at the same time. Functions return a
 * negative errno on failure; slbn_reason() explains it.
 */
#ifndef LIBSLBN_H
#define LIBSLBN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A demand above any rate: only links limit the session. */
#define SLBN_UNLIMITED 1000000000000000ULL

/* Largest weight of a session. */
#define SLBN_MAX_WEIGHT 1000000

/* Flags of a session. */
#define SLBN_STAYS 1 /* outlives the connection that joined it */
#define SLBN_DETECTED 2 /* joined by slbnd for a detected flow */
#define SLBN_STALLED 4 /* control packets are not answered, for 2 s or more */
#define SLBN_LEAVING 8 /* it has been ended; its Leave may be in flight */
#define SLBN_MEASURED 16 /* @used is valid */
#define SLBN_OWN_LINK 32 /* its path begins with a link of this router */
#define SLBN_SHORT_LEASE 64 /* leases are shorter than two round trips */
#define SLBN_WINDOWS 128 /* slbnd lowers the windows of its TCP if need be */
#define SLBN_ACKED_ELSEWHERE \
	256 /* it cannot: acknowledgments return another way */
#define SLBN_NO_MARKS_SEEN \
	512 /* answers say that its marks do not arrive ("--marks on") */

/**
 * struct slbn_flow - the packets of a session
 * @source: IPv6 address, or IPv4 address in the first four octets; 0: any
 * @destination: the same, but not 0; the session's path is the route to it
 * @family: AF_INET or AF_INET6
 * @protocol: IPPROTO_TCP and so on; 0: all
 * @source_port: in the host's byte order; 0: all
 * @destination_port: the same
 * @reserved: 0
 */
struct slbn_flow {
	uint8_t source[16];
	uint8_t destination[16];
	uint16_t family;
	uint16_t source_port;
	uint16_t destination_port;
	uint8_t protocol;
	uint8_t reserved;
};

/**
 * enum slbn_guard - what bounds how far a session may send above its rate
 * @SLBN_GUARD_OFF: it never may: "--borrow off", or it is not a detected flow whose
 *	windows slbnd sees
 * @SLBN_GUARD_SHARE: the smallest share that the links of its path have stated
 * @SLBN_GUARD_HOST: the sessions of its host at its first link, which divide one share,
 *	and an eighth of it for acknowledgments
 * @SLBN_GUARD_LINKS: not all links of its path have stated a share
 * @SLBN_GUARD_WINDOW: it did not fill its window, so it needs no more
 * @SLBN_GUARD_ESCAPED: it sent what windows do not reach, in the last second
 * @SLBN_GUARD_PACER: the pacer dropped or marked its packets
 * @SLBN_GUARD_ANSWER: no rate, or no answer with a share for two cycles
 */
enum slbn_guard {
	SLBN_GUARD_OFF,
	SLBN_GUARD_SHARE,
	SLBN_GUARD_HOST,
	SLBN_GUARD_LINKS,
	SLBN_GUARD_WINDOW,
	SLBN_GUARD_ESCAPED,
	SLBN_GUARD_PACER,
	SLBN_GUARD_ANSWER,
};

/**
 * struct slbn_session - the state of a session
 * @id: its ID at slbnd
 * @demand: the largest rate that it asks for, bit/s
 * @rate: assigned rate, bit/s; 0: none yet, or its lease has ended
 * @cycles: completed cycles of Probe and ProbeAck
 * @retries: retransmitted control packets
 * @rtt: smoothed round-trip time of control packets, ns; 0: unknown
 * @flow: its packets
 * @flags: SLBN_STAYS, SLBN_DETECTED, SLBN_STALLED, SLBN_LEAVING, SLBN_MEASURED,
 *	SLBN_OWN_LINK, SLBN_SHORT_LEASE, SLBN_WINDOWS, SLBN_ACKED_ELSEWHERE,
 *	SLBN_NO_MARKS_SEEN
 * @hops: links on its path
 * @bottleneck: hop of its bottleneck, from 0; 255: its demand limits it
 * @link: number of its bottleneck in @router; 0: its demand limits it, or unknown
 * @used: rate of its packets in the last measurement, bit/s; with SLBN_MEASURED
 * @device: index of a device in slbnd's network namespace; with SLBN_OWN_LINK: of
 *	the first link; otherwise of the device that receives the answers, where the
 *	path begins unless routes are asymmetric; 0: unknown
 * @weight: of the session
 * @router: address of the router of its bottleneck, as in struct slbn_flow; 0 if
 *	@link is
 * @ceiling: up to which rate it may send now, above the assigned one, bit/s; 0: not
 *	above it
 * @guard: enum slbn_guard: what bounds @ceiling
 * @reserved: 0
 */
struct slbn_session {
	uint64_t id;
	uint64_t demand;
	uint64_t rate;
	uint64_t cycles;
	uint64_t retries;
	uint64_t rtt;
	struct slbn_flow flow;
	uint32_t flags;
	uint8_t hops;
	uint8_t bottleneck;
	uint16_t link;
	uint64_t used;
	uint32_t device;
	uint32_t weight;
	uint8_t router[16];
	uint64_t ceiling;
	uint32_t guard;
	uint32_t reserved;
};

/**
 * struct slbn_hop - a hop of a session's path
 * @router: address of its router, as in struct slbn_flow
 * @family: AF_INET or AF_INET6
 * @link: number of its link in that router
 */
struct slbn_hop {
	uint8_t router[16];
	uint16_t family;
	uint16_t link;
};

/* slbn_traced.gap if the hop before it has not answered. */
#define SLBN_GAP_UNKNOWN 255

/**
 * struct slbn_traced - the state of a hop of a session's path
 * @router: address of its router, as in struct slbn_flow
 * @family: AF_INET or AF_INET6
 * @link: number of its link in that router
 * @hop: the hop, from 0
 * @answered: 0: the link has not answered, and the fields below are 0
 * @ttl: TTL or hop limit with which it sent the control packet
 * @gap: routers before it that did not process the packet, by its TTL, behind the
 *	hop before; or SLBN_GAP_UNKNOWN
 * @reserved: 0
 * @backlog: octets that waited in the queues of its device
 * @capacity: bit/s
 * @share: fair share of a session of weight 1, bit/s
 * @weights: sum of the weights of its sessions
 * @held: rate that they hold, bit/s
 */
struct slbn_traced {
	uint8_t router[16];
	uint16_t family;
	uint16_t link;
	uint8_t hop;
	uint8_t answered;
	uint8_t ttl;
	uint8_t gap;
	uint32_t reserved;
	uint32_t backlog;
	uint64_t capacity;
	uint64_t share;
	uint64_t weights;
	uint64_t held;
};

/* Keys of an agent at a time, and octets of one. */
#define SLBN_AGENT_KEYS 2

/* Octets of its version. */
#define SLBN_AGENT_VERSION 16
#define SLBN_SECRET 16

/* Flag of slbn_add_key(). */
#define SLBN_ACCEPT_ONLY 1 /* accept packets with the key, but do not use it */

/**
 * enum slbn_detection - whether an agent detects flows
 * @SLBN_DETECTION_OFF: no local hosts are configured
 * @SLBN_DETECTION_ON: it does
 * @SLBN_DETECTION_FAILED: connection tracking is not available
 */
enum slbn_detection {
	SLBN_DETECTION_OFF,
	SLBN_DETECTION_ON,
	SLBN_DETECTION_FAILED,
};

/**
 * struct slbn_status - the state of an agent
 * @sessions: its sessions
 * @bad_key: packets that were dropped as they were not authentic, or as only one
 *	of packet and agent had a key
 * @unknown_key: the same, with a key that the agent does not have
 * @bad_time: the same, authentic, but their time differed from the agent's clock by
 *	more than 10 s: clocks are wrong, or the packets were replayed
 * @clock_difference: the agent's clock minus the time of the last @bad_time packet,
 *	seconds
 * @bad_return: dropped answers that had not passed all links on their way back, or
 *	were sent to a wrong address, and dropped packets without a usable return
 * @keys: number of keys; 0: packets are not authenticated
 * @key: their numbers; packets are authenticated with the last one
 * @reserved: 0
 * @sent: control packets that it has sent, replies to other agents included
 * @unsent: those that it could not send: no route, no buffer, or too many replies to
 *	one address
 * @received: received packets that were of the format of control packets
 * @malformed: received packets that were not
 * @stale: answers that no session waited for
 * @cycles: completed cycles of Probe and ProbeAck
 * @retries: retransmitted control packets
 * @events_lost: how often events of connection tracking were lost; a dump of its
 *	table replaced them
 * @devices: number of devices on which rates are to be enforced
 * @enforced: number of those where they are
 * @detection: enum slbn_detection
 * @clients: connections to its socket, this one included
 * @paced_drops: data packets that its BPF program dropped: they would have waited
 *	for too long, or waited for longer than CoDel's target
 * @paced_marks: data packets that it marked (ECN CE) instead
 * @short_leases: sessions with SLBN_SHORT_LEASE: a link on their paths has too short
 *	an epoch for the round-trip time
 * @silent: destinations that do not answer: their flows get no session
 * @connections: connections of local hosts that it keeps
 * @refused: how often it had no place for another one, all in all or of one host
 * @table_entries: entries of conntrack's table; 0: unknown
 * @table_most: maximum of them; 0: unknown
 * @windows_lowered: acknowledgements whose receive window it lowered
 * @windows_unknown: connections with a session whose windows it leaves alone: it did not
 *	see their SYNs, or they are signed, of MPTCP, or excepted
 * @windows_silent: how often it found that the acknowledgements of a connection do not
 *	pass this router
 * @version: of the agent, NUL-terminated; empty: before 0.2
 * @paced_codel: data packets of @paced_drops that CoDel dropped
 * @paced_excess: data packets that it sent above the rates of their sessions
 * @borrowers: sessions that may send above their rates now ("--borrow on")
 * @borrowed_octets: sent up to the ceilings of sessions, above their rates, with
 *	link-layer headers
 * @marked_new: data packets that it marked as new ("--marks on"), GSO ones as one
 * @marked_assigned: data packets that it marked as assigned
 * @marks_cleared: data packets with a mark that was not theirs, which it cleared
 * @marks_refused: data packets that would have been new, but their host has sent too much
 * @epoch: of the domain's links, as it is configured, ns; 0: not known
 * @marks_restored: packets for local hosts whose DSCP it restored
 * @no_marks_seen: sessions with SLBN_NO_MARKS_SEEN
 *
 * Counters begin with 0 when the agent starts.
 */
struct slbn_status {
	uint64_t sessions;
	uint64_t bad_key;
	uint64_t unknown_key;
	uint64_t bad_time;
	int64_t clock_difference;
	uint8_t keys;
	uint8_t key[SLBN_AGENT_KEYS];
	uint8_t reserved;
	uint32_t borrowers;
	uint64_t bad_return;
	uint64_t sent;
	uint64_t unsent;
	uint64_t received;
	uint64_t malformed;
	uint64_t stale;
	uint64_t cycles;
	uint64_t retries;
	uint64_t events_lost;
	uint32_t devices;
	uint32_t enforced;
	uint32_t detection;
	uint32_t clients;
	uint64_t paced_drops;
	uint64_t paced_marks;
	uint64_t short_leases;
	uint32_t silent;
	uint32_t connections;
	uint64_t refused;
	uint32_t table_entries;
	uint32_t table_most;
	uint64_t windows_lowered;
	uint64_t windows_unknown;
	uint64_t windows_silent;
	char version[SLBN_AGENT_VERSION];
	uint64_t paced_codel;
	uint64_t paced_excess;
	uint64_t borrowed_octets;
	uint64_t marked_new;
	uint64_t marked_assigned;
	uint64_t marks_cleared;
	uint64_t marks_refused;
	uint64_t epoch;
	uint64_t marks_restored;
	uint64_t no_marks_seen;
};

struct slbn;

/**
 * slbn_open() - connect to slbnd
 * @path: its socket; NULL: the default, /run/slbnd/socket
 *
 * Return: the connection; NULL with errno set.
 */
struct slbn *slbn_open(const char *path);

/**
 * slbn_close() - close a connection, and end its sessions
 * @slbn: the connection, or NULL
 */
void slbn_close(struct slbn *slbn);

/**
 * slbn_reason() - explain the last error
 * @slbn: the connection
 *
 * Return: one line about the last function that failed; never NULL.
 */
const char *slbn_reason(const struct slbn *slbn);

/**
 * slbn_join() - start a session
 * @slbn: the connection
 * @flow: its packets; a destination is required
 * @demand: bit/s, 1 to SLBN_UNLIMITED
 * @weight: 1 to SLBN_MAX_WEIGHT: where links limit them, sessions get rates in
 *	proportion to their weights. It cannot be changed: leave and join instead
 * @flags: 0 or SLBN_STAYS
 * @id: set to its ID
 *
 * slbn_next() reports the assigned rate.
 *
 * Return: 0 or a negative errno; -ERANGE: demand or weight out of range.
 */
int slbn_join(struct slbn *slbn, const struct slbn_flow *flow, uint64_t demand,
	      uint32_t weight, uint32_t flags, uint64_t *id);

/**
 * slbn_change() - change the demand of a session
 * @slbn: the connection
 * @id: the session
 * @demand: bit/s, 1 to SLBN_UNLIMITED
 *
 * A rate above the demand falls at once.
 *
 * Return: 0 or a negative errno; -ENOENT: no such session; -EPERM: it belongs to
 * another user.
 */
int slbn_change(struct slbn *slbn, uint64_t id, uint64_t demand);

/**
 * slbn_leave() - end a session
 * @slbn: the connection
 * @id: the session
 *
 * Return: 0 or a negative errno; -ENOENT: no such session; -EPERM: it belongs to
 * another user.
 */
int slbn_leave(struct slbn *slbn, uint64_t id);

/**
 * slbn_watch() - subscribe to events of all sessions
 * @slbn: the connection
 *
 * Without it, a connection gets events of its own sessions only.
 *
 * Return: 0 or a negative errno.
 */
int slbn_watch(struct slbn *slbn);

/**
 * slbn_list() - list all sessions
 * @slbn: the connection
 * @each: called for each session
 * @context: passed to @each
 *
 * Return: 0 or a negative errno.
 */
int slbn_list(struct slbn *slbn,
	      void (*each)(const struct slbn_session *session, void *context),
	      void *context);

/**
 * slbn_get_hop() - get a hop of a session's path
 * @slbn: the connection
 * @id: the session
 * @hop: the hop, from 0
 * @to: set to the hop, as the last answer reported it
 *
 * Return: 0 or a negative errno; -ENOENT: no such session, or its path has no such
 * hop.
 */
int slbn_get_hop(struct slbn *slbn, uint64_t id, uint8_t hop,
		 struct slbn_hop *to);

/**
 * slbn_get_share() - get the smallest fair share of a session on its path
 * @slbn: the connection
 * @id: the session
 * @share: set to the smallest share that links have stated, bit/s: what the session
 *	would get with a higher demand, or more; 0: none has
 *
 * Return: 1: all links of the path have stated theirs; 0: links of an earlier
 * version have not, so the share may be too high; or a negative errno; -ENOENT: no
 * such session.
 */
int slbn_get_share(struct slbn *slbn, uint64_t id, uint64_t *share);

/**
 * slbn_trace() - get the state of each link on a session's path
 * @slbn: the connection
 * @id: the session
 * @timeout: how long to wait for the links, ms
 * @each: called for each hop, in order
 * @context: passed to @each
 *
 * The links answer one after the other, in the session's usual control packets: one
 * in each cycle. Rates do not depend on it. A link that has not answered three
 * times, or before the timeout, is reported as not answered.
 *
 * Return: 0 or a negative errno; -EBUSY: another session is being traced; -ENOENT:
 * no such session.
 */
int slbn_trace(struct slbn *slbn, uint64_t id, int timeout,
	       void (*each)(const struct slbn_traced *traced, void *context),
	       void *context);

/**
 * slbn_add_key() - add a key that authenticates control packets; only for root
 * @slbn: the connection
 * @number: of the key
 * @secret: SLBN_SECRET octets
 * @flags: 0: packets are authenticated with this key from now on, also if it was
 *	added before; SLBN_ACCEPT_ONLY: packets with it are accepted
 *
 * Return: 0 or a negative errno; -EEXIST: another key has this number; -ENOSPC:
 * there are SLBN_AGENT_KEYS others; -EPERM: the user is not root.
 */
int slbn_add_key(struct slbn *slbn, uint8_t number, const uint8_t *secret,
		 uint32_t flags);

/**
 * slbn_retire_key() - remove a key; only for root
 * @slbn: the connection
 * @number: of the key
 *
 * Return: 0 or a negative errno; -ENOENT: no such key; -EBUSY: it is the only one;
 * -EPERM: the user is not root.
 */
int slbn_retire_key(struct slbn *slbn, uint8_t number);

/**
 * slbn_get_status() - get the state of the agent
 * @slbn: the connection
 * @status: set
 *
 * Return: 0 or a negative errno.
 */
int slbn_get_status(struct slbn *slbn, struct slbn_status *status);

/**
 * slbn_fd() - the file descriptor to poll
 * @slbn: the connection
 *
 * When it is readable, slbn_next() may return an event. Events that arrive during
 * a request are queued: call slbn_next() before the first poll, and after each
 * request, until it returns 0.
 *
 * Return: the file descriptor, which belongs to the connection.
 */
int slbn_fd(const struct slbn *slbn);

/**
 * slbn_next() - wait for the next event
 * @slbn: the connection
 * @timeout: ms; 0: do not wait; -1: without a timeout
 * @session: set to the state of the session; when a session has ended, its rate is
 *	0 and it has SLBN_LEAVING
 *
 * Return: 1; 0: timeout; or a negative errno; -EINTR: a signal was caught.
 */
int slbn_next(struct slbn *slbn, int timeout, struct slbn_session *session);

#ifdef __cplusplus
}
#endif

#endif /* LIBSLBN_H */
