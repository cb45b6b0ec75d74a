// SPDX-License-Identifier: GPL-2.0
/*
 * Trace of a session. See trace.h.
 */
#include <errno.h>
#include <string.h>

#include "agent.h"

static bool is_of(const struct trace *trace, const struct session *session)
{
	return trace->id == session->source.pkt.id[1];
}

static bool is_running(const struct trace *trace, u64 now)
{
	return trace->running && now < trace->until;
}

/**
 * trace_start() - start to trace a session
 * @trace: the agent's trace
 * @session: the session
 * @now: ns
 *
 * A trace of this session that is running continues.
 *
 * Return: 0; -EBUSY: another session is being traced.
 */
int trace_start(struct trace *trace, const struct session *session, u64 now)
{
	if (is_running(trace, now))
		return is_of(trace, session) ? 0 : -EBUSY;
	*trace = (struct trace){
		.id = session->source.pkt.id[1],
		.until = now + TRACE_LIFETIME,
		.running = true,
	};
	return 0;
}

/**
 * trace_end() - a session ends, and its trace
 * @trace: the agent's trace
 * @session: the session
 */
void trace_end(struct trace *trace, const struct session *session)
{
	if (is_of(trace, session))
		trace->running = false;
}

/* Is the state of a hop known, and has the path not changed there? */
static bool is_known(const struct trace *trace, const struct session *session,
		     u8 hop)
{
	return trace->report[hop].filled &&
	       !memcmp(&trace->hop[hop], &session->path.hops[hop],
		       sizeof(trace->hop[hop]));
}

/* Find the next hop to ask; without any, the trace ends. */
static void find_next(struct trace *trace, const struct session *session)
{
	for (; trace->rounds < TRACE_ROUNDS; trace->rounds++) {
		for (; trace->at < session->path.known; trace->at++)
			if (!is_known(trace, session, trace->at))
				return;
		trace->at = 0;
	}
	trace->running = false;
}

/**
 * trace_ask() - which hop is the session's next packet to ask for its state?
 * @trace: the agent's trace
 * @session: a session that is about to send its packet, after
 *	slbn_source_transmit()
 *
 * Return: the hop; SLBN_NO_HOP: none.
 */
u8 trace_ask(struct trace *trace, const struct session *session)
{
	if (!trace->running || !is_of(trace, session) ||
	    session->source.pkt.type != SLBN_PROBE ||
	    session->source.tries > 1 || trace->at >= session->path.known)
		return SLBN_NO_HOP;
	trace->asked = true;
	return trace->at;
}

/**
 * trace_answer() - process the answer to a packet
 * @trace: the agent's trace
 * @session: its session, with the path that it recorded
 * @data: the answer
 * @layout: its layout
 */
void trace_answer(struct trace *trace, const struct session *session,
		  const u8 *data, const struct slbn_layout *layout)
{
	struct slbn_report report = {};

	if (!trace->running || !is_of(trace, session))
		return;
	if (layout->trace)
		report = slbn_read_trace(data, layout);
	if (report.filled && report.hop < session->path.known) {
		trace->report[report.hop] = report;
		trace->hop[report.hop] = session->path.hops[report.hop];
	}
	trace->at += trace->asked;
	trace->asked = false;
	find_next(trace, session);
}

/* Routers between a hop and the one before it. */
static u8 get_gap(const struct trace *trace, const struct session *session,
		  u8 hop)
{
	u8 ttl = trace->report[hop].ttl, before = TRANSPORT_TTL;

	/* This router, which sent the packet, did not decrement its TTL. */
	if (hop) {
		if (!is_known(trace, session, hop - 1))
			return SLBN_GAP_UNKNOWN;
		/* The router of this hop did. Bridges do not. */
		before = trace->report[hop - 1].ttl;
		before -= before > ttl;
	}
	return before > ttl ? before - ttl : 0;
}

/**
 * trace_describe() - describe a hop for clients
 * @trace: the agent's trace
 * @session: the session
 * @now: ns
 * @to: its @hop is set by the caller, the rest by this function
 *
 * Return: false if this session is not the last one that was traced.
 */
bool trace_describe(const struct trace *trace, const struct session *session,
		    u64 now, struct slbn_trace_message *to)
{
	struct slbn_traced *traced = &to->traced;
	u8 hop = to->hop;

	if (!is_of(trace, session))
		return false;
	*to = (struct slbn_trace_message){
		.id = trace->id,
		.hop = hop,
		.hops = session->path.known,
		.running = is_running(trace, now),
	};
	if (hop >= session->path.known)
		return true;
	traced->family = session->flow.family;
	traced->link = session->path.hops[hop].link;
	traced->hop = hop;
	traced->gap = SLBN_GAP_UNKNOWN;
	memcpy(traced->router, session->path.hops[hop].router,
	       sizeof(traced->router));
	if (is_known(trace, session, hop)) {
		const struct slbn_report *report = &trace->report[hop];

		traced->answered = 1;
		traced->gap = get_gap(trace, session, hop);
		traced->ttl = report->ttl;
		traced->backlog = report->backlog;
		traced->capacity = report->capacity;
		traced->share = report->share;
		traced->weights = report->weights;
		traced->held = report->held;
	}
	return true;
}
