/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A session, in parts: the timing of its packets (agent.c), what they may cost, its
 * path, the client that joined it (api.c), and what its flow uses (flows.c).
 */
#ifndef SLBND_SESSION_H
#define SLBND_SESSION_H

#include <sys/queue.h>
#include <sys/types.h>

#include <fairpath/slbn/slbn_core.h>

#include "../../libslbn/protocol.h"
#include "ceiling.h"
#include "demand.h"

struct admit_host;
struct borrow_group;
struct client;
struct detected_flow;

/**
 * struct session_timing - when packets are sent, and how long rates last; times in ns
 * @due: when the packet is sent next
 * @answered_at: when the last answer arrived
 * @cycle: expected time from the last answer to the next one
 * @rtt: smoothed; 0: unknown
 * @longest_rtt: the longest one lately
 * @unmeasured: cycles since an RTT was measured
 * @epoch: that pauses allow for: the shortest one on the path, at most
 *	agent_config.epoch, and at least a part of that
 * @lease: length of leases; 0: not known, or they do not end
 * @early_copies: retransmissions that may be sent without back-off, while the lease
 *	lasts
 * @sent_per_cycle: packets that a cycle needed lately, smoothed, in 1/1024
 * @urgent_cycles: cycles since the rate changed, while the source is urgent
 * @changes_paid: when usual pauses would have started the cycles that changes of the
 *	demand have
 */
struct session_timing {
	u64 due;
	u64 answered_at;
	u64 cycle;
	u64 rtt;
	u64 longest_rtt;
	u32 unmeasured;
	u64 epoch;
	u64 lease;
	u32 early_copies;
	u32 sent_per_cycle;
	u32 urgent_cycles;
	u64 changes_paid;
};

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
 * struct session_budget - what control packets may cost
 * @metered: @credit limits them
 * @resting: the session waits for credit
 * @credit: what it may still send, if @metered
 */
struct session_budget {
	bool metered;
	bool resting;
	struct agent_credit credit;
};

/**
 * struct session_path - the links
 * @length: links, from the last answer
 * @known: those in @hops: @length, or fewer without memory
 * @hops: the links
 * @device: index of the device where the path begins, as far as known: of its
 *	first link if that is on this router, else of the device that received the
 *	last answer; 0: unknown
 * @asked: the packet in flight has a mark of the domain
 * @lost_marks: answers in sequence that say that a mark has not arrived
 */
struct session_path {
	u8 length;
	u8 known;
	struct agent_hop *hops;
	u32 device;
	bool asked;
	u8 lost_marks;
};

/**
 * struct session_owner - who joined the session
 * @client: by its socket; NULL: none, or disconnected
 * @list: of the sessions of @client
 * @uid: of the client
 */
struct session_owner {
	struct client *client;

	LIST_ENTRY(session) list;
	uid_t uid;
};

/**
 * struct borrower - what a session borrows (borrow.h); initially 0
 * @ceiling: its ceiling
 * @group: of its host at its first link; NULL: it borrows nothing
 * @amount: what it borrows at most, bit/s
 */
struct borrower {
	struct ceiling ceiling;
	struct borrow_group *group;
	u64 amount;
};

/**
 * struct session_use - what the session's flow uses
 * @detected: the flow that flows.c detected; NULL: joined by a client
 * @asking: the local host, until an answer arrives; NULL: not counted (admit.h)
 * @demand: measured use of the rate
 * @floor: rate below which the session remains in the default class at its start,
 *	bit/s
 * @place: of the flow in rate enforcement, a hint
 * @bursts: the flow has not used its rate yet: see flows_burst()
 * @share_is_new: the last answer has stated the share, and not an earlier one
 * @borrower: what it borrows
 */
struct session_use {
	struct detected_flow *detected;
	struct admit_host *asking;
	struct demand demand;
	u64 floor;
	u32 place;
	bool bursts;
	bool share_is_new;
	struct borrower borrower;
};

/**
 * struct session - a session
 * @index: in the agent's table
 * @next_free: index of the next free entry; -1: none
 * @in_use: this entry is a session
 * @waiting: its packet is in flight
 * @reported: assigned rate that was last reported, bit/s
 * @event: number of its last event: see api.h
 * @left_at: when agent_leave() was called, ns
 * @cycles: completed cycles
 * @retries: retransmitted packets
 * @flags: SLBN_STAYS, SLBN_DETECTED, SLBN_STALLED, SLBN_OWN_LINK, SLBN_NO_MARKS_SEEN
 * @mark: of its control packets, for the routing table; 0: none
 * @flow: its packets
 * @newer: the next session with the same flow, joined later; NULL: none
 * @older: the one before
 * @timing: when its packets are sent
 * @budget: what they may cost
 * @path: its links
 * @owner: who joined it
 * @use: what its flow uses
 * @source: the source's task
 */
struct session {
	u32 index;
	s32 next_free;
	bool in_use;
	bool waiting;
	u64 reported;
	u64 event;
	u64 left_at;
	u64 cycles;
	u64 retries;
	u32 flags;
	u32 mark;
	struct slbn_flow flow;
	struct session *newer;
	struct session *older;
	struct session_timing timing;
	struct session_budget budget;
	struct session_path path;
	struct session_owner owner;
	struct session_use use;
	struct slbn_source source;
};

/**
 * session_usable_rate() - the rate to limit a session to
 * @session: the session
 *
 * At its start, a flow may get more in the default class than the part of its
 * share that links can assign so far. It leaves that class when it has its
 * share.
 *
 * Return: bit/s; 0: it should remain in the default class.
 */
static inline u64 session_usable_rate(struct session *session)
{
	const struct slbn_source *source = &session->source;
	/* At first a source does not rest, as others must release their rates. */
	bool stated =
		source->share_complete && source->pkt.seq > SLBN_FIRST_CYCLES;
	u64 share = stated ? source->share : 0;

	if (!demand_starts(session->use.floor, source->rate, share,
			   !source->urgent))
		session->use.floor = 0;
	return session->use.floor ? 0 : source->rate;
}

#endif /* SLBND_SESSION_H */
