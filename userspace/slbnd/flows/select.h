/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Selection: the options of flow detection, which flows they select, and the session
 * of each.
 */
#ifndef SLBND_SELECT_H
#define SLBND_SELECT_H

#include "../system/prefix.h"
#include "admit.h"

#define FLOWS_PORTS 64
#define FLOWS_WEIGHTS 64

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
 * enum flows_sessions - what has a session
 * @FLOWS_PER_FLOW: each flow
 * @FLOWS_PER_PAIR: each pair of source and destination
 * @FLOWS_PER_SHARE: each pair, with a part of the weight of its host or prefix
 */
enum flows_sessions {
	FLOWS_PER_FLOW,
	FLOWS_PER_PAIR,
	FLOWS_PER_SHARE,
};

/**
 * struct flows_weight - the weight of some flows
 * @prefix: of the local host, if @port and @mark are 0
 * @port: at either end; 0: any
 * @mark: of conntrack; 0: any
 * @weight: 1 to 1000
 */
struct flows_weight {
	struct flows_prefix prefix;
	u16 port;
	u32 mark;
	u32 weight;
};

/**
 * struct flows_config - options
 * @hosts: prefixes of local hosts
 * @host_count: number of @hosts; 0: no flow detection
 * @ports: ports, one of which a flow must have at either end
 * @port_count: number of @ports; 0: any port
 * @only_protocols: detect only @protocols
 * @protocols: by protocol number
 * @sessions: what has a session
 * @share_length: bits of the prefixes that share a weight, of IPv4 and IPv6
 * @weights: weights of flows; the first that matches applies
 * @weight_count: number of @weights
 * @idle: idle time after which a flow ends, ns
 * @initial: initial demand of a flow that sends data, at least, bit/s
 * @join_packets: packets that a connection must have sent to get a session
 * @join_bytes: the same in octets, with IP headers. Both 0: sessions begin with the
 *	first packet, and are not metered
 * @borrow: sessions may send above their rates (borrow.h)
 * @admit: quotas
 */
struct flows_config {
	struct flows_prefix hosts[FLOWS_PREFIXES];
	u32 host_count;
	struct flows_ports ports[FLOWS_PORTS];
	u32 port_count;
	bool only_protocols;
	bool protocols[256];
	enum flows_sessions sessions;
	u8 share_length[2];
	struct flows_weight weights[FLOWS_WEIGHTS];
	u32 weight_count;
	u64 idle;
	u64 initial;
	u32 join_packets;
	u64 join_bytes;
	bool borrow;
	struct admit_config admit;
};

int select_prefix(const struct flows_config *config, u16 family,
		  const u8 *address);
bool select_flow(const struct flows_config *config,
		 const struct slbn_flow *flow, const u8 *sender);
u32 select_weight(const struct flows_config *config,
		  const struct slbn_flow *flow, const u8 *sender, u32 mark);
struct slbn_flow select_session(const struct flows_config *config,
				const struct slbn_flow *flow);

#endif /* SLBND_SELECT_H */
