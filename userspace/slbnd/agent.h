/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sessions: the source's task for each of them, when its packets are sent, and
 * what comes of the answers.
 *
 * The task itself is that of include/fairpath/slbn/slbn_core.h. Around it stands what a real
 * network needs (docs/protocol.md): of each session at most one packet is on its way,
 * and the same one is sent again until it is answered; between two cycles there
 * is a pause, long enough to keep control packets near a given part of the
 * session's rate and short enough to be seen in each epoch, and random so that
 * sessions do not fall into step.
 *
 * There is no clock and no socket here: times are passed in, ns; packets are
 * handed to wire.h.
 */
#ifndef SLBND_AGENT_H
#define SLBND_AGENT_H

#include <netinet/in.h>

#include <fairpath/heap.h>

#include "../libslbn/protocol.h"
#include "demand.h"
#include <fairpath/slbn/slbn_core.h>
#include "transport.h"

/**
 * struct agent_config - what the user chooses
 * @epoch: of the domain's links, ns: all sessions are to be seen in each
 * @pause: between two cycles, at least, ns
 * @control: of a session's rate that its control packets may take, per mille
 * @hops: longest path that a packet has room for, even
 */
struct agent_config {
	u64 epoch;
	u64 pause;
	u32 control;
	u8 hops;
};

struct found;

/**
 * struct session - a session
 * @number: its place in the agent's table
 * @used: this is one
 * @waiting: its packet is on its way
 * @tries: how often that packet was sent
 * @told: the rate that was told last, bit/s
 * @sent: when its packet was sent first, ns
 * @heard: when the network answered last, ns
 * @rtt: smoothed, ns; 0: not known
 * @cycles: answers
 * @retries: packets that were sent again
 * @owner: who has joined it; NULL: nobody who is still there
 * @uid: of who has joined it
 * @found: what flows.c knows of it; NULL: it was not found by that
 * @flow: which packets it is about
 * @flags: SLBN_STAYS and so on
 * @hops: links on its path, by the last answer
 * @device: index of the device by which that came
 * @use: what its packets use; who sets it, knows (flows.c)
 * @unused: the next place that is free; -1: none
 * @source: its task
 */
struct session {
	u32 number;
	bool used;
	bool waiting;
	u32 tries;
	u64 told;
	u64 sent;
	u64 heard;
	u64 rtt;
	u64 cycles;
	u64 retries;
	void *owner;
	uid_t uid;
	struct found *found;
	struct slbn_flow flow;
	u32 flags;
	u8 hops;
	u32 device;
	struct demand use;
	s32 unused;
	struct slbn_source source;
};

struct agent;

/**
 * struct agent_events - who is told, of what
 * @moved: a session's rate, or what its flags say, is another
 * @gone: a session is over; it is freed when this returns
 */
struct agent_events {
	void (*moved)(struct agent *agent, struct session *session);
	void (*gone)(struct agent *agent, struct session *session);
};

/**
 * struct agent - all sessions
 * @config: what the user chooses
 * @events: who is told
 * @transport: where packets go
 * @sessions: the table
 * @room: places in it
 * @places: those that were ever used
 * @count: sessions in it
 * @unused: a used place that is free again; -1: none
 * @due: when each is to do something, the earliest first (keys are complements)
 * @due_memory: of @due
 * @answers: packets that came and answered one
 * @strays: that did not
 * @turned: that had come here as to their destination
 */
struct agent {
	struct agent_config config;
	const struct agent_events *events;
	struct transport *transport;
	struct session **sessions;
	u32 room;
	u32 places;
	u32 count;
	s32 unused;
	struct fp_heap due;
	void *due_memory;
	u64 answers;
	u64 strays;
	u64 turned;
};

void agent_init(struct agent *agent, const struct agent_config *config,
		const struct agent_events *events, struct transport *transport);
void agent_free(struct agent *agent);
struct session *agent_join(struct agent *agent, const struct slbn_flow *flow,
			   u64 demand, u64 now);
void agent_change(struct agent *agent, struct session *session, u64 demand,
		  u64 now);
void agent_leave(struct agent *agent, struct session *session, u64 now);
struct session *agent_find(const struct agent *agent, u64 id);
void agent_describe(const struct session *session, struct slbn_session *to);
u64 agent_due(const struct agent *agent);
void agent_run(struct agent *agent, u64 now);
void agent_receive(struct agent *agent, u8 *data, size_t length,
		   const struct transport_peer *from, u64 now);

#endif /* SLBND_AGENT_H */
