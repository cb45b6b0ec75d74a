/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace of a session: the state of each link on its path.
 *
 * The first copies of the session's Probes ask one hop after the other for its
 * state (SLBN_OPTION_TRACE), at the usual time of its cycles. Retransmissions
 * do not, so if the longer packet does not reach the destination, only one
 * cycle is delayed. A hop that has not replied to TRACE_ROUNDS packets is
 * unanswered.
 *
 * An agent traces one session at a time, so that clients cannot make it allocate
 * memory.
 */
#ifndef SLBND_TRACE_H
#define SLBND_TRACE_H

#include "../../libslbn/protocol.h"
#include <fairpath/slbn/slbn_wire.h>

#define TRACE_ROUNDS 3
/* Time after which a trace ends if its session gets no answers, ns. */
#define TRACE_LIFETIME 30000000000ULL

struct session;

/**
 * struct agent_hop - a hop of a session's path
 * @router: address of its router, as in struct slbn_flow
 * @link: number of its link
 */
struct agent_hop {
	u8 router[16];
	u16 link;
};

/**
 * struct trace - the last trace
 * @id: session; 0: none
 * @until: when it ends, ns
 * @running: it has not ended
 * @asked: the first copy of the packet in flight asked for the state of @at
 * @at: hop that is asked next, or now
 * @rounds: rounds over the hops that are done
 * @hop: where the state of each hop is from
 * @report: states of the hops
 */
struct trace {
	u64 id;
	u64 until;
	bool running;
	bool asked;
	u8 at;
	u8 rounds;
	struct agent_hop hop[SLBN_HOPS_MAX];
	struct slbn_report report[SLBN_HOPS_MAX];
};

int trace_start(struct trace *trace, const struct session *session, u64 now);
void trace_end(struct trace *trace, const struct session *session);
u8 trace_ask(struct trace *trace, const struct session *session);
void trace_answer(struct trace *trace, const struct session *session,
		  const u8 *data, const struct slbn_layout *layout);
bool trace_describe(const struct trace *trace, const struct session *session,
		    u64 now, struct slbn_trace_message *to);

#endif /* SLBND_TRACE_H */
