/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flow detection: joins, changes and leaves sessions for the flows of local hosts.
 *
 * In the paper (NCA 2012, section II) the application joins, changes and leaves.
 * Here hosts do not know SLBN, and slbnd detects their flows by connection
 * tracking (track.h). One direction of a connection between a local and a remote
 * host enters the domain here, that from the local host: slbnd can limit it to a
 * rate, and it gets a session. Traffic between local hosts, or between remote
 * hosts, gets none.
 *
 * Join: when a connection has sent a number of packets and of octets. Most
 * connections never do, and stay in the default class: 80 % of the flows in
 * data centres are below 10 kB (Benson, Akella, Maltz, IMC 2010), 90 % of web
 * objects below TCP's initial window of ten segments (RFC 6928). Time is no
 * criterion, because a host could wait at no cost. Where a BPF program enforces
 * rates, it counts connections, too (counted.h). Otherwise conntrack's counters
 * are read by looking up the connection one round trip after its handshake,
 * when TCP sends its second window, then FLOWS_CHECKS times at growing
 * intervals, and by dumps after that. The session is metered (agent.h) by what
 * the connection sends. Hosts and prefixes have quotas, and silent destinations
 * are avoided (admit.h).
 *
 * Leave: when TCP's sender has finished (FIN, RST) and nothing more is sent;
 * for other protocols after an idle time. A TCP connection is assumed to be
 * dead after TCP_IDLE idle times (conntrack keeps it for days). A flow that
 * sends again joins again.
 *
 * Change: the demand follows use, measured in steps (demand.h). It begins with what
 * the connection has sent; a direction that only acknowledges thus asks for
 * little. With rate enforcement use is measured for all sessions, in each round
 * trip of a flow's start, and reported to clients; sessions that clients joined keep
 * the demand that they asked for.
 *
 * Connections whose events were lost, or that existed before slbnd started, are
 * found by dumps of conntrack's table, twice in each idle time. The table also
 * has connections that ended long ago without FIN: so a connection from a dump
 * joins only by what it sends after that.
 *
 * Restored sessions (state.h) of detected flows continue with the connections that
 * the first dump finds; the others leave then.
 */
#ifndef SLBND_FLOWS_H
#define SLBND_FLOWS_H

#include <sys/queue.h>

#include "../enforcement/enforce.h"
#include "../sessions/agent.h"
#include "admit.h"
#include "select.h"
#include "track.h"

/* Defaults: TCP's initial window, in packets and octets (RFC 6928). */
#define FLOWS_JOIN_PACKETS 10
#define FLOWS_JOIN_BYTES 15000
#define FLOWS_HOST_SESSIONS 1000
#define FLOWS_PREFIX_SESSIONS 20000

/* Demand of a new flow that does not send TCP's data, in multiples of its use. */
#define FLOWS_GROWTH 2

/* Maximum connections, and of a host: those beyond stay in the default class. */
#define FLOWS_CONNECTIONS 262144
#define FLOWS_HOST_CONNECTIONS (FLOWS_CONNECTIONS / 16)

/* Connections or sessions that are processed before packets are again. */
#define FLOWS_SLICE 512

/* Interval of measurements of a flow's start, at least, ns. */
#define FLOWS_FAST_STEP (10 * DEMAND_MS)

/* Look-ups of a new connection that sends little, at growing intervals. */
#define FLOWS_CHECKS 4

/* Queues of look-ups: early ones, 5 to 95 ms after a handshake, and the others. */
#define FLOWS_EARLY_CHECKS 19
#define FLOWS_CHECK_QUEUES (FLOWS_EARLY_CHECKS + FLOWS_CHECKS)
/* That of connections which wait as others of their host ask: the longest early one. */
#define FLOWS_WAITING (FLOWS_EARLY_CHECKS - 1)

struct connection;
struct counted_search;
struct share;

TAILQ_HEAD(flows_queue, connection);

TAILQ_HEAD(flows_starting, detected_flow);

/**
 * struct detected_flow - the connections of one session: one, or those of a pair
 * @flow: of the session; first member, for lookups
 * @list: list of all detected flows
 * @fast: list of those whose session has just begun
 * @starting: it is in that list
 * @connections: number of its connections
 * @session: its session; NULL: a client ended it, or @rejoins
 * @rejoins: no answer came, or its session left for one with another weight
 * @asked_at: when its session began, ns
 * @host: the local host of its first connection
 * @share: the group that divides a weight; NULL: none
 * @shared: list of its members, while there is a session
 * @prefix: number of the prefix that this is in
 * @sender: its address
 * @mark: for the session
 * @counted: bytes of its connections, by conntrack
 * @counted_packets: the same in packets
 * @metered: counters of the session's use when it last got credit for them
 */
struct detected_flow {
	struct slbn_flow flow;

	LIST_ENTRY(detected_flow) list;
	TAILQ_ENTRY(detected_flow) fast;
	bool starting;
	u32 connections;
	struct session *session;
	bool rejoins;
	u64 asked_at;
	struct admit_host *host;
	struct share *share;

	LIST_ENTRY(detected_flow) shared;
	u32 prefix;
	u8 sender[16];
	u32 mark;
	u64 counted;
	u64 counted_packets;
	struct agent_credit metered;
};

/**
 * struct flows - flow detection
 * @config: options
 * @agent: the sessions
 * @enforce: rate enforcement; NULL: none
 * @track: connection tracking
 * @admit: quotas, and silent destinations
 * @shares: tree of groups that divide a weight (share.h)
 * @open: flow detection is active
 * @counted: the BPF program counts connections
 * @was_counted: it did so until the dump that is due: connections may have no ID
 * @search: look-ups of counted connections in progress; NULL: none
 * @orphan: the next session to look for a connection of, if @restored
 * @orphans_until: restored sessions that cannot be looked up wait until then, ns
 * @connections: connections of local hosts that the options select
 * @count: number of them
 * @refused: how often there was no place for another one
 * @by_direction: tree of the same, by direction from the local host
 * @checks: connections that are looked up next, by the interval before the look-up
 * @detected: detected flows
 * @by_flow: tree of the same, by flow
 * @starting: detected flows whose session has just begun
 * @fast_at: when their use is measured next, ns
 * @restored: there may be restored sessions without a connection
 * @events_lost: how often events of connection tracking were lost
 * @dump: number of the current or last dump
 * @dump_at: when the next dump is due, ns
 * @dumped_at: when the last dump began, ns
 * @sweep: the next connection to compare with the last dump; NULL: done
 * @step_at: when the next measurement of use is due, ns
 * @step_index: index of the next session or flow to measure; 0: done
 * @step_batches: it is that of enforce_read_batch()
 * @now: time during callbacks, ns
 */
struct flows {
	struct flows_config config;
	struct agent *agent;
	struct enforce *enforce;
	struct track track;
	struct admit admit;
	void *shares;
	bool open;
	bool counted;
	bool was_counted;
	struct counted_search *search;
	u32 orphan;
	u64 orphans_until;
	LIST_HEAD(, connection) connections;
	u32 count;
	u64 refused;
	void *by_direction;
	struct flows_queue checks[FLOWS_CHECK_QUEUES];
	LIST_HEAD(, detected_flow) detected;
	void *by_flow;
	struct flows_starting starting;
	u64 fast_at;
	bool restored;
	u64 events_lost;
	u32 dump;
	u64 dump_at;
	u64 dumped_at;
	struct connection *sweep;
	u64 step_at;
	u32 step_index;
	bool step_batches;
	u64 now;
};

/* What a counter has counted since it was last read. */
static inline u64 counted_since(u64 *counter, u64 now)
{
	u64 before = *counter;

	*counter = now;
	/* Other programs may reset conntrack's counters. */
	return now >= before ? now - before : now;
}

static inline void end_start(struct flows *flows,
			     struct detected_flow *detected)
{
	if (detected->starting)
		TAILQ_REMOVE(&flows->starting, detected, fast);
	detected->starting = false;
}

/* May a session borrow what it does not ask for? All links must state their share. */
static inline bool flows_can_borrow(const struct flows *flows,
				    const struct session *session)
{
	return flows->config.borrow &&
	       (!session->cycles || session->source.share_complete);
}

/*
 * Demand of a new flow, in multiples of its use. Acknowledgments grow as fast
 * as the data, but a share that they do not use is not available to others
 * until it is returned. The protocol may be unknown (0).
 */
static inline u32 flows_growth(u8 protocol, u64 packets, u64 octets,
			       bool borrows)
{
	return protocol == IPPROTO_TCP && demand_has_data(packets, octets) ?
		       demand_growth(borrows) :
		       FLOWS_GROWTH;
}

/*
 * The burst of a session, ns: at its start half a round trip. In slow start TCP
 * sends a window at once in each round trip; if its packets were spread over
 * more than half of the round trip, HyStart would interpret that as the
 * bottleneck.
 */
static inline u64 flows_burst(const struct session *session)
{
	return session->use.bursts ? session->timing.rtt / 2 : 0;
}

void flows_measure(struct flows *flows);
void flows_measure_tracked(struct flows *flows);
void flows_init(struct flows *flows, struct agent *agent,
		struct enforce *enforce);
int flows_open(struct flows *flows, const struct flows_config *config, u64 now);
void flows_close(struct flows *flows, u64 now);
void flows_configure(struct flows *flows, const struct flows_config *config,
		     u64 now);
u64 flows_due(const struct flows *flows);
void flows_run(struct flows *flows, u64 now);
void flows_receive(struct flows *flows, u64 now);
bool flows_enforce(struct flows *flows, struct enforce *enforce, u64 now);
void flows_receive_reports(struct flows *flows, struct enforce *enforce,
			   u64 now);
void flows_restored(struct flows *flows, u64 now);
void flows_answered(struct flows *flows, struct session *session, u64 now);
void flows_session_ended(struct flows *flows, struct session *session);

#endif /* SLBND_FLOWS_H */
