/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Networks and sessions that are drawn at random, or by a ruler.
 */
#ifndef SLBNSIM_GENERATE_H
#define SLBNSIM_GENERATE_H

#include "net.h"

/**
 * struct transit_stub - a network of two levels, as GT-ITM draws them
 * @domains: transit domains
 * @transit: routers in each of these, on average
 * @stubs: stub domains at each transit router
 * @stub: routers in each of these, on average
 * @top_links: probability that two transit domains have links, 1/1000
 * @transit_links: that two routers of a transit domain have one
 * @stub_links: that two routers of a stub domain have one
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
 * struct drawn - what there is of a network, for those who draw sessions
 * @stubs: its stub routers
 * @count: how many
 */
struct drawn {
	u32 *stubs;
	u32 count;
};

/**
 * struct link_params - what links are like
 * @rate: bit/s
 * @delay_min: ns
 * @delay_max: ns; between the two it is drawn evenly
 */
struct link_params {
	u64 rate;
	u64 delay_min;
	u64 delay_max;
};

/**
 * struct session_params - what sessions are to be like
 * @count: how many
 * @within: they join evenly from 0 until then, ns
 * @hosts: links of the hosts at both their ends; without a rate, there are no
 *         hosts
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
