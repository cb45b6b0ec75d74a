/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sessions: runs the source's task of each, sends its control packets, and
 * processes the answers.
 *
 * The task itself is in <fairpath/slbn/slbn_core.h>. The agent adds what a real
 * network needs (docs/protocol.md). Each session has at most one packet in flight,
 * which is retransmitted until it is answered, with exponential back-off and
 * jitter. Between two cycles it pauses: long
 * enough to keep control packets near a given fraction of the session's share,
 * short enough that links see it at least twice in each epoch, and random so that
 * sessions do not synchronize, and longer after retransmissions: when links drop
 * control packets, sources do not send more. While the rate is on its way to the share, pauses
 * are short.
 *
 * The assigned rate ends with its lease, an epoch of the links, less a margin, after
 * the packet was sent whose answer assigned it: the agent reports and enforces a rate
 * of 0 then. Leases go on while the system is suspended, so all times are those of
 * CLOCK_BOOTTIME.
 *
 * A metered session sends no more control packets, and no more octets of them, than
 * its flow has sent: agent_credit() reports the flow's packets. Without credit the
 * session rests: it sends nothing, its rate ends with its lease, and links forget
 * it. It continues when it has credit for WAKE_PACKETS (agent.c). So a host cannot
 * make this router send more than it sends itself.
 *
 * The agent has no clock and no socket: times are parameters, ns; packets are sent
 * by transport.h.
 */
#ifndef SLBND_AGENT_H
#define SLBND_AGENT_H

#include <netinet/in.h>
#include <sys/queue.h>

#include <fairpath/heap.h>
#include <fairpath/slbn/slbn_core.h>

#include "../libslbn/protocol.h"
#include "borrow.h"
#include "demand.h"
#include "trace.h"
#include "transport.h"

/* Shortest epoch that pauses allow for, whatever an answer says, ns. */
#define AGENT_MIN_EPOCH 10000000ULL

/* Default of agent_config.max_sessions. */
#define AGENT_SESSIONS 65536

/**
 * struct agent_config - options
 * @epoch: of the domain's links, ns; links should see each session in each epoch
 * @pause: minimum time between two cycles, ns
 * @control: fraction of a session's share for its control packets, per mille
 * @hops: most slots of a packet
 * @margin: part of an epoch by which leases end earlier, per mille, at most
 *	SLBN_LEASE_MARGIN_MAX
 * @max_sessions: maximum number of sessions
 */
struct agent_config {
	u64 epoch;
	u64 pause;
	u32 control;
	u8 hops;
	u16 margin;
	u32 max_sessions;
};

struct client;
struct detected_flow;
struct state;
struct state_record;

/**
 * struct agent_credit - what a metered session may still send
 * @packets: control packets
 * @octets: octets of them, with all headers
 */
struct agent_credit {
	u64 packets;
	u64 octets;
};

/**
 * struct session - a session
 * @index: in the agent's table
 * @in_use: this entry is a session
 * @waiting: its packet is in flight
 * @reported: assigned rate that was last reported, bit/s
 * @event: number of its last event: see api.h
 * @due: when its packet is sent next, ns
 * @answered_at: when the last answer arrived, ns
 * @rtt: smoothed, ns; 0: unknown
 * @longest_rtt: the longest one lately, ns
 * @unmeasured: cycles since an RTT was measured
 * @epoch: shortest one on its path, at most agent_config.epoch, ns
 * @lease: length of its leases, ns; 0: not known, or they do not end
 * @early_copies: retransmissions that it may send without back-off, while its lease
 *	lasts
 * @sent_per_cycle: packets that a cycle needed lately, smoothed, in 1/1024
 * @urgent_cycles: cycles since the rate changed, while the source is urgent
 * @cycles: completed cycles
 * @retries: retransmitted packets
 * @metered: @credit limits it
 * @resting: it waits for credit
 * @credit: what it may still send, if @metered
 * @floor: rate below which the session remains in the default class at its start,
 *	bit/s
 * @left_at: when agent_leave() was called, ns
 * @owner: the client that joined it; NULL: none, or disconnected
 * @owned: list of the sessions of @owner
 * @uid: of the client that joined it
 * @detected: the flow that flows.c detected; NULL: joined by a client
 * @flow: its packets
 * @newer: the next session with the same flow, joined later; NULL: none
 * @older: the one before
 * @mark: of its control packets, for the routing table; 0: none
 * @flags: SLBN_STAYS, SLBN_DETECTED, SLBN_STALLED, SLBN_OWN_LINK, SLBN_NO_MARKS_SEEN
 * @asked: its packet in flight has a mark
 * @lost_marks: answers in sequence that say that a mark has not arrived
 * @hops: links on its path, from the last answer
 * @known: hops in @path: @hops, or fewer without memory
 * @path: the hops
 * @device: index of the device where its path begins, as far as known: of its
 *	first link if that is on this router, else of the device that received the
 *	last answer; 0: unknown
 * @use: measured use of its rate, by flows.c
 * @place: of its flow in rate enforcement, a hint
 * @bursts: its flow has not used its rate yet: see flows_burst()
 * @cycle: expected time from the last answer to the next one, ns
 * @share_is_new: the last answer has stated the share, and not an earlier one
 * @borrower: what it borrows (borrow.h)
 * @next_free: index of the next free entry; -1: none
 * @source: the source's task
 */
struct session {
	u32 index;
	bool in_use;
	bool waiting;
	u64 reported;
	u64 event;
	u64 due;
	u64 answered_at;
	u64 rtt;
	u64 longest_rtt;
	u32 unmeasured;
	u64 epoch;
	u64 lease;
	u32 early_copies;
	u32 sent_per_cycle;
	u32 urgent_cycles;
	u64 cycles;
	u64 retries;
	bool metered;
	bool resting;
	struct agent_credit credit;
	u64 floor;
	u64 left_at;
	struct client *owner;

	LIST_ENTRY(session) owned;
	uid_t uid;
	struct detected_flow *detected;
	struct slbn_flow flow;
	struct session *newer;
	struct session *older;
	u32 mark;
	u32 flags;
	bool asked;
	u8 lost_marks;
	u8 hops;
	u8 known;
	struct agent_hop *path;
	u32 device;
	struct demand use;
	u32 place;
	bool bursts;
	u64 cycle;
	bool share_is_new;
	struct borrower borrower;
	s32 next_free;
	struct slbn_source source;
};

struct agent;

/**
 * struct agent_callbacks - notifications
 * @limit: limit a session to its rate until its lease ends: it joined, was
 *	answered, or its rate fell
 * @answered: an answer to a session has arrived, before @limit. The session is
 *	leaving, or its next cycle is planned
 * @changed: a session's assigned rate, SLBN_STALLED or SLBN_NO_MARKS_SEEN changed
 * @ended: a session ended; it is freed afterwards. A metered session ends without
 *	agent_leave() if its Join is not answered
 */
struct agent_callbacks {
	void (*limit)(struct agent *agent, struct session *session);
	void (*answered)(struct agent *agent, struct session *session, u64 now);
	void (*changed)(struct agent *agent, struct session *session);
	void (*ended)(struct agent *agent, struct session *session);
};

/**
 * struct agent_counters - counters of all sessions
 * @received: received packets that could be parsed
 * @malformed: received packets that could not
 * @stale: answers that no session waited for
 * @cycles: completed cycles
 * @retries: retransmitted packets
 */
struct agent_counters {
	u64 received;
	u64 malformed;
	u64 stale;
	u64 cycles;
	u64 retries;
};

/**
 * struct agent - all sessions
 * @config: options
 * @callbacks: notifications
 * @transport: the sockets
 * @state: the state file; NULL: none
 * @sessions: table of sessions
 * @allocated: size of the table
 * @entries: entries of it that were ever used
 * @count: sessions in it
 * @first_free: index of a free entry below @entries; -1: none
 * @by_flow: tree of the newest session of each flow
 * @counters: of all sessions
 * @timers: when each session's next packet is due or its lease ends, the earliest
 *	first (keys are complements)
 * @timers_memory: memory of @timers
 * @trace: the last trace of a session
 */
struct agent {
	struct agent_config config;
	const struct agent_callbacks *callbacks;
	struct transport *transport;
	struct state *state;
	struct session **sessions;
	u32 allocated;
	u32 entries;
	u32 count;
	s32 first_free;
	void *by_flow;
	struct agent_counters counters;
	struct fp_heap timers;
	void *timers_memory;
	struct trace trace;
};

void agent_init(struct agent *agent, const struct agent_config *config,
		const struct agent_callbacks *callbacks,
		struct transport *transport);
void agent_free(struct agent *agent);
struct session *agent_join(struct agent *agent, const struct slbn_flow *flow,
			   u32 mark, u64 demand, u32 weight,
			   const struct agent_credit *credit, u64 now);
struct session *agent_restore(struct agent *agent, u32 index,
			      const struct state_record *record, u64 now);
void agent_change(struct agent *agent, struct session *session, u64 demand,
		  u64 now);
void agent_leave(struct agent *agent, struct session *session, u64 now);
void agent_credit(struct agent *agent, struct session *session,
		  const struct agent_credit *earned, u64 now);
struct session *agent_find(const struct agent *agent, u64 id);
struct session *agent_find_flow(const struct agent *agent,
				const struct slbn_flow *flow);
void agent_describe(const struct session *session, struct slbn_session *to);
u32 agent_short_leases(const struct agent *agent);
u32 agent_no_marks_seen(const struct agent *agent);
u64 agent_usable_rate(struct session *session);
u64 agent_due(const struct agent *agent);
void agent_run(struct agent *agent, u64 now);
void agent_receive(struct agent *agent, u8 *data, size_t length,
		   const struct transport_peer *from, u64 now);

#endif /* SLBND_AGENT_H */
