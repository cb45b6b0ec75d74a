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
 * Join: at the first packet of the direction, with a small initial demand. Leave:
 * when TCP's sender has finished (FIN, RST); for other protocols after an idle
 * time. TCP is taken for dead after TCP_IDLE idle times (conntrack keeps it for
 * days). A flow that sends again joins again.
 *
 * Change: the demand follows use, measured in steps (demand.h). With rate
 * enforcement use is measured for all sessions, and reported to clients; sessions
 * that clients joined keep the demand that they asked for.
 *
 * Connections whose events were lost, or that existed before slbnd started, are
 * found by dumps of conntrack's table, twice in each idle time. The table also
 * has connections that ended long ago without FIN: so a connection from a dump
 * joins only when its counter increases.
 */
#ifndef SLBND_FLOWS_H
#define SLBND_FLOWS_H

#include <sys/queue.h>

#include "agent.h"
#include "enforce.h"
#include "track.h"

#define FLOWS_PREFIXES 64
#define FLOWS_PORTS 64

/**
 * struct flows_prefix - an address prefix
 * @address: as in struct slbn_flow
 * @family: AF_INET or AF_INET6
 * @length: bits
 */
struct flows_prefix {
	u8 address[16];
	u16 family;
	u8 length;
};

/**
 * struct flows_ports - a range of ports
 * @first: the lowest
 * @last: the highest
 */
struct flows_ports {
	u16 first;
	u16 last;
};

/**
 * struct flows_config - options
 * @hosts: prefixes of local hosts
 * @host_count: number of @hosts; 0: no flow detection
 * @ports: ports, one of which a flow must have at either end
 * @port_count: number of @ports; 0: any port
 * @only_protocols: detect only @protocols
 * @protocols: by protocol number
 * @pairs: one session for all flows of a source and a destination
 * @idle: idle time after which a flow ends, ns
 * @initial: initial demand, bit/s
 */
struct flows_config {
	struct flows_prefix hosts[FLOWS_PREFIXES];
	u32 host_count;
	struct flows_ports ports[FLOWS_PORTS];
	u32 port_count;
	bool only_protocols;
	bool protocols[256];
	bool pairs;
	u64 idle;
	u64 initial;
};

struct connection;

/**
 * struct detected_flow - the connections of one session: one, or those of a pair
 * @flow: of the session; first member, for lookups
 * @list: list of all detected flows
 * @connections: number of its connections
 * @session: its session; NULL: a client ended it
 * @counted: bytes of its connections, by conntrack
 */
struct detected_flow {
	struct slbn_flow flow;

	LIST_ENTRY(detected_flow) list;
	u32 connections;
	struct session *session;
	u64 counted;
};

/**
 * struct flows - flow detection
 * @config: options
 * @agent: the sessions
 * @enforce: rate enforcement; NULL: none
 * @track: connection tracking
 * @open: flow detection is active
 * @connections: connections of local hosts that the options select
 * @by_direction: tree of the same, by direction from the local host
 * @detected: detected flows
 * @by_flow: tree of the same, by flow
 * @dump: number of the current or last dump
 * @dump_at: when the next dump is due, ns
 * @step_at: when the next measurement of use is due, ns
 * @now: time during callbacks, ns
 */
struct flows {
	struct flows_config config;
	struct agent *agent;
	struct enforce *enforce;
	struct track track;
	bool open;
	LIST_HEAD(, connection) connections;
	void *by_direction;
	LIST_HEAD(, detected_flow) detected;
	void *by_flow;
	u32 dump;
	u64 dump_at;
	u64 step_at;
	u64 now;
};

void flows_init(struct flows *flows, struct agent *agent,
		struct enforce *enforce);
int flows_open(struct flows *flows, const struct flows_config *config, u64 now);
void flows_close(struct flows *flows, u64 now);
void flows_configure(struct flows *flows, const struct flows_config *config,
		     u64 now);
u64 flows_due(const struct flows *flows);
void flows_run(struct flows *flows, u64 now);
void flows_receive(struct flows *flows, u64 now);
void flows_session_ended(struct session *session);
bool flows_has_session(const struct flows *flows, const struct slbn_flow *flow);

#endif /* SLBND_FLOWS_H */
