/* SPDX-License-Identifier: GPL-2.0 */
/* Generates networks and sessions. */
#ifndef SLBNSIM_GENERATE_H
#define SLBNSIM_GENERATE_H

#include "net.h"

/**
 * struct transit_stub - parameters of a transit-stub network (GT-ITM)
 * @domains: transit domains
 * @transit: mean number of routers in each
 * @stubs: stub domains at each transit router
 * @stub: mean number of routers in each
 * @top_links: probability that two transit domains are linked, 1/1000
 * @transit_links: probability that two routers of a transit domain are linked
 * @stub_links: probability that two routers of a stub domain are linked
 */
struct transit_stub {
	u32 domains;
	u32 transit;
	u32 stubs;
	u32 stub;
	u32 top_links;
	u32 transit_links;
	u32 stub_links;
};

/**
 * struct drawn - the routers at which sessions may begin and end
 * @stubs: stub routers, or leaves
 * @count: how many
 */
struct drawn {
	u32 *stubs;
	u32 count;
};

/**
 * struct link_params - parameters of links
 * @rate: bit/s
 * @delay_min: ns
 * @delay_max: ns; delays are uniform between the two
 */
struct link_params {
	u64 rate;
	u64 delay_min;
	u64 delay_max;
};

/**
 * struct session_params - parameters of sessions
 * @count: how many
 * @within: they join from 0 until then, uniformly, ns
 * @hosts: links of the hosts at both ends; rate 0: no hosts
 */
struct session_params {
	u32 count;
	u64 within;
	struct link_params hosts;
};

struct drawn draw_transit_stub(struct net *net,
			       const struct transit_stub *wanted, u64 *random);
void draw_line(struct net *net, u32 count, const struct link_params *links,
	       u64 *random);
void draw_star(struct net *net, u32 count, const struct link_params *links,
	       u64 *random);
void draw_random(struct net *net, u32 count, double degree, double alpha,
		 const struct link_params *links, u64 *random);
void draw_sessions(struct net *net, const struct session_params *wanted,
		   const u32 *ends, u32 end_count, u64 *random);
void draw_parking_lot(struct net *net, const struct session_params *wanted,
		      u64 *random);

#endif /* SLBNSIM_GENERATE_H */
