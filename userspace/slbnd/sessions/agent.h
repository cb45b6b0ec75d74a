/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sessions: runs the source's task of each, sends its control packets, and
 * processes the answers.
 *
 * The task itself is in <fairpath/slbn/slbn_core.h>. The agent adds what a real
 * network needs (docs/protocol.md). Each session has at most one packet in
 * flight, which is retransmitted until it is answered, with exponential
 * back-off and jitter. Between two cycles it pauses: long enough to keep
 * control packets near a given fraction of the session's share, but short
 * enough that links see it at least twice in each epoch. Pauses are random, so
 * that sessions do not synchronize, and longer after retransmissions: when
 * links drop control packets, sources do not send more. While the rate is on
 * its way to the share, pauses are short.
 *
 * The assigned rate ends with its lease, which lasts an epoch of the links less
 * a margin and begins when the packet is sent whose answer assigns the rate.
 * When it ends, the agent reports and enforces a rate of 0. Leases go on while
 * the system is suspended, so all times are those of CLOCK_BOOTTIME.
 *
 * A metered session sends no more control packets, and no more octets of them,
 * than its flow has sent: agent_credit() reports the flow's packets. Without
 * credit the session rests: it sends nothing, its rate ends with its lease, and
 * links forget it. It continues when it has credit for WAKE_PACKETS (agent.c).
 * So a host cannot make this router send more than the host itself sends.
 *
 * The agent has no clock and no socket: times are parameters, ns; packets are sent
 * by transport.h.
 */
#ifndef SLBND_AGENT_H
#define SLBND_AGENT_H

#include <fairpath/heap.h>

#include "session.h"
#include "trace.h"
#include "transport.h"

/*
 * Shortest epoch that pauses allow for, whatever an answer says: this part of
 * agent_config.epoch, and at least so many ns.
 */
#define AGENT_EPOCH_PART 2
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

struct state;
struct state_record;

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

/* Is there no place for another session? */
static inline bool agent_is_full(const struct agent *agent)
{
	return agent->count >= agent->config.max_sessions;
}

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
u64 agent_due(const struct agent *agent);
void agent_run(struct agent *agent, u64 now);
void agent_receive(struct agent *agent, u8 *data, size_t length,
		   const struct transport_peer *from, u64 now);

#endif /* SLBND_AGENT_H */
