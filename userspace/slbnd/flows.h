/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flows of own hosts: found, given a session, and forgotten.
 *
 * In the paper (NCA 2012, section II) the application joins, changes and leaves.
 * Here hosts know nothing of SLBN, so what they do is read from their packets.
 * Connection tracking (track.h) tells which connections there are. One half of a
 * connection between an own host and another one leaves the domain's edge here,
 * that which the own host sends; it is what we can hold to a rate, and it becomes
 * a session. Traffic between own hosts, and between others, is none of our business.
 *
 * Join: when the half's first packet is seen, with a first demand that does little
 * harm. Leave: TCP when its sender says so (FIN, RST), others when they have sent
 * nothing for some time. TCP that has been silent for much longer is taken for dead
 * (conntrack believes in it for days); as others, it is back when it sends.
 *
 * Change: demand follows use, which is looked at in steps (demand.h). Where packets
 * are counted as they leave, that is done for all sessions, so that it can be told;
 * but what a program has asked for is its own affair.
 *
 * What is missed, because events were lost or slbnd was restarted, is found in
 * conntrack's table, which is read twice in each idle time. But connections that
 * ended while nobody looked stand there, too, for days. So what is found there is
 * a flow when it is seen to send.
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
 * struct flows_prefix - addresses that begin alike
 * @address: as in struct slbn_flow
 * @family: AF_INET or AF_INET6
 * @length: bits that count
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
 * struct flows_config - what the user chooses
 * @hosts: own hosts
 * @host_count: of @hosts; 0: flows are not looked for
 * @ports: one end of a flow must have one of these
 * @port_count: of @ports; 0: any
 * @chosen: only some protocols are wanted
 * @protocols: these
 * @pairs: one session for all flows of a source and a destination
 * @idle: how long a flow may be silent, ns
 * @initial: first demand, bit/s
 */
struct flows_config {
	struct flows_prefix hosts[FLOWS_PREFIXES];
	u32 host_count;
	struct flows_ports ports[FLOWS_PORTS];
	u32 port_count;
	bool chosen;
	bool protocols[256];
	bool pairs;
	u64 idle;
	u64 initial;
};

struct connection;

/**
 * struct found - what has become a session: a flow, or those of a pair
 * @flow: as the session has it; keys are first
 * @list: of all that were found
 * @connections: how many belong to it
 * @session: its session; NULL: somebody has ended that
 * @counted: bytes of its connections, as conntrack has them
 */
struct found {
	struct slbn_flow flow;

	LIST_ENTRY(found) list;
	u32 connections;
	struct session *session;
	u64 counted;
};

/**
 * struct flows - all that was found
 * @config: what the user chooses
 * @agent: who looks after the sessions
 * @enforce: who holds them to their rates; NULL: nobody
 * @track: who tells of connections
 * @open: they are looked for
 * @connections: those of interest
 * @by_half: the same, by their half of interest
 * @found: what has become a session
 * @by_flow: the same, by their flow
 * @round: number of the table that is read, or was last
 * @list_at: when to read the table again, ns
 * @step_at: when to look at what is used, ns
 * @now: while something is told
 */
struct flows {
	struct flows_config config;
	struct agent *agent;
	struct enforce *enforce;
	struct track track;
	bool open;
	LIST_HEAD(, connection) connections;
	void *by_half;
	LIST_HEAD(, found) found;
	void *by_flow;
	u32 round;
	u64 list_at;
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
void flows_serve(struct flows *flows, u64 now);
void flows_gone(struct session *session);
bool flows_know(const struct flows *flows, const struct slbn_flow *flow);

#endif /* SLBND_FLOWS_H */
