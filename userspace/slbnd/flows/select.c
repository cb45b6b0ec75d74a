// SPDX-License-Identifier: GPL-2.0
/*
 * Selection of flows. See select.h.
 */
#include <netinet/in.h>
#include <string.h>

#include <fairpath/slbn.h>

#include "select.h"

/**
 * select_prefix() - find the prefix of local hosts that an address is in
 * @config: options
 * @family: of the address
 * @address: as in struct slbn_flow
 *
 * Return: its number in @config->hosts; -1: none.
 */
int select_prefix(const struct flows_config *config, u16 family,
		  const u8 *address)
{
	u32 n;

	for (n = 0; n < config->host_count; n++)
		if (prefix_matches(&config->hosts[n], family, address))
			return n;
	return -1;
}

static bool is_local(const struct flows_config *config, u16 family,
		     const u8 *address)
{
	return select_prefix(config, family, address) >= 0;
}

static bool ports_match(const struct flows_config *config,
			const struct slbn_flow *flow)
{
	u32 n;

	for (n = 0; n < config->port_count; n++) {
		const struct flows_ports *ports = &config->ports[n];

		if ((flow->source_port >= ports->first &&
		     flow->source_port <= ports->last) ||
		    (flow->destination_port >= ports->first &&
		     flow->destination_port <= ports->last))
			return true;
	}
	return !config->port_count;
}

static bool is_unicast(const struct slbn_flow *flow)
{
	return flow->destination[0] < (flow->family == AF_INET ? 224 : 255);
}

static bool is_control(const struct slbn_flow *flow)
{
	return flow->protocol == IPPROTO_UDP &&
	       flow->source_port == SLBN_PORT &&
	       flow->destination_port == SLBN_PORT;
}

/**
 * select_flow() - do the options select a flow?
 * @config: options
 * @flow: the flow
 * @sender: address of the host that sends it
 *
 * Return: whether it may have a session.
 */
bool select_flow(const struct flows_config *config,
		 const struct slbn_flow *flow, const u8 *sender)
{
	return is_local(config, flow->family, sender) &&
	       !is_local(config, flow->family, flow->destination) &&
	       is_unicast(flow) && !is_control(flow) &&
	       (!config->only_protocols || config->protocols[flow->protocol]) &&
	       ports_match(config, flow);
}

/**
 * select_session() - the session of a flow
 * @config: options
 * @flow: the flow
 *
 * Return: the flow of the session.
 */
struct slbn_flow select_session(const struct flows_config *config,
				const struct slbn_flow *flow)
{
	struct slbn_flow aggregate = *flow;

	if (config->sessions != FLOWS_PER_FLOW) {
		aggregate.protocol = 0;
		aggregate.source_port = 0;
		aggregate.destination_port = 0;
	}
	return aggregate;
}

/**
 * select_weight() - the weight of a flow
 * @config: options
 * @flow: of the session; a pair has no ports
 * @sender: address of the local host
 * @mark: conntrack's mark
 *
 * Return: the weight, 1 if none is configured.
 */
u32 select_weight(const struct flows_config *config,
		  const struct slbn_flow *flow, const u8 *sender, u32 mark)
{
	u32 n;

	for (n = 0; n < config->weight_count; n++) {
		const struct flows_weight *weight = &config->weights[n];
		bool matches;

		if (weight->port)
			matches = flow->source_port == weight->port ||
				  flow->destination_port == weight->port;
		else if (weight->mark)
			matches = weight->mark == mark;
		else
			matches = prefix_matches(&weight->prefix, flow->family,
						 sender);
		if (matches)
			return weight->weight;
	}
	return 1;
}
