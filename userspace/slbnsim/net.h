/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A network and its sessions as plain data: nodes, one-way links, sessions with
 * their paths. sim.h simulates it.
 *
 * Control packets return over the reverse links of their path, so a path only
 * has links that have one.
 *
 * A session without a given path takes the one of the least delay; among equal
 * ones, the first found, which depends on nothing but the order of the links.
 */
#ifndef SLBNSIM_NET_H
#define SLBNSIM_NET_H

#include <stdio.h>

#include <fairpath/core.h>

#include "memory.h"
#include "names.h"

#define NET_NONE (~0U)
#define NET_NEVER (~0ULL)
/* An SLBN packet has tags for as many hops. */
#define NET_HOPS_MAX 64U
#define NET_RATE_MAX 1000000000000ULL
#define NET_WEIGHT_MAX 1000000U
#define NET_DELAY_MAX 10000000000ULL

/**
 * struct link - a one-way link
 * @from: node
 * @to: node
 * @reverse: the link from @to to @from, or NET_NONE
 * @rate: bit/s
 * @delay: ns
 */
struct link {
	u32 from;
	u32 to;
	u32 reverse;
	u64 rate;
	u64 delay;
};

/**
 * struct session - a session's parameters
 * @id: its name, in net->ids
 * @from: node
 * @to: node
 * @path: where its path begins in net->hops
 * @hops: links of its path
 * @silent: it sends no Leave, like one whose agent crashes
 * @moved_from: 1 + the session that it continues on another path; 0: none
 * @weight: its max-min fair rate is in proportion to it, 1 to NET_WEIGHT_MAX
 * @join: ns, or NET_NEVER
 * @leave: ns, or NET_NEVER
 * @demand: bit/s; NET_RATE_MAX: unlimited
 * @bytes: data to send; 0: unlimited
 */
struct session {
	u32 id;
	u32 from;
	u32 to;
	u32 path;
	u8 hops;
	bool silent;
	u32 moved_from;
	u32 weight;
	u64 join;
	u64 leave;
	u64 demand;
	u64 bytes;
};

/**
 * struct net - a network
 * @nodes: names of nodes
 * @ids: names of sessions
 * @links: by number
 * @sessions: by number
 * @hops: the links of all paths
 * @out: by node, its first link in @out_links; one element more than nodes
 * @out_links: links, sorted by the node that they leave, then by the node that
 *	they lead to
 */
struct net {
	struct names nodes;
	struct names ids;
	struct link *links;
	u32 link_count;
	u32 link_room;
	struct session *sessions;
	u32 session_count;
	u32 session_room;
	u32 *hops;
	u32 hop_count;
	u32 hop_room;
	u32 *out;
	u32 *out_links;
};

/**
 * link_plan() - the part of a link's rate that its sessions share
 * @link: the link
 * @headroom: the rest, 1/1000 of the rate
 *
 * Return: bit/s, at least 1.
 */
static inline u64 link_plan(const struct link *link, u32 headroom)
{
	return link->rate - link->rate * headroom / 1000;
}

void net_reserve_links(struct net *net, u32 count);
u32 net_add_link(struct net *net, u32 from, u32 to, u64 rate, u64 delay);
const char *net_index(struct net *net);
u32 net_link_between(const struct net *net, u32 from, u32 to);
struct session *net_add_session(struct net *net);
const char *net_set_path(struct net *net, struct session *session,
			 const u32 *links, u32 count);
const char *net_route(struct net *net, u32 *which);
void net_seal(struct net *net);
void net_free(struct net *net);

#endif /* SLBNSIM_NET_H */
