/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A network and what is to happen on it, as plain data: nodes, links from one
 * to another, sessions with their paths. Nothing here moves; sim.h does that.
 *
 * A link is one-way. Control packets come back over the links that lead the
 * other way, so a session's path can only have links with such a twin.
 *
 * Where no path is given it is the shortest by delay; of several, the one that
 * is found first, which depends on nothing but the order of the links.
 */
#ifndef SLBNSIM_NET_H
#define SLBNSIM_NET_H

#include <stdio.h>

#include <fairpath/core.h>

#define NET_NONE (~0U)
#define NET_NEVER (~0ULL)
/* As many hops as a packet of SLBN can have tags for. */
#define NET_HOPS_MAX 64U
#define NET_RATE_MAX 1000000000000ULL
#define NET_DELAY_MAX 10000000000ULL

/**
 * struct link - a wire, one way
 * @from: node
 * @to: node
 * @back: the link the other way, or NET_NONE
 * @rate: bit/s
 * @delay: ns
 */
struct link {
	u32 from;
	u32 to;
	u32 back;
	u64 rate;
	u64 delay;
};

/**
 * struct session - what is asked for
 * @id: its name: where it begins in @names
 * @from: node
 * @to: node
 * @path: its first link, in net->hops
 * @hops: how many links
 * @silent: it leaves without a word, as one whose agent dies does
 * @was: 1 + the session that it was on another path, and goes on from; 0: none
 * @join: when, ns
 * @leave: when, ns, or NET_NEVER
 * @demand: bit/s, NET_RATE_MAX if it is not limited
 * @bytes: how much it has to send; 0: no end
 */
struct session {
	u32 id;
	u32 from;
	u32 to;
	u32 path;
	u8 hops;
	bool silent;
	u32 was;
	u64 join;
	u64 leave;
	u64 demand;
	u64 bytes;
};

/* Where a name may be found. */
struct slot {
	u32 hash;
	u32 number; /* + 1; 0: nothing is here */
};

/* Names of one kind, each once; and which of them a text is. */
struct names {
	char *text; /* all of them, each with its 0 */
	size_t length;
	size_t room;
	u32 *begins; /* by number */
	u32 count;
	u32 begins_room;
	struct slot *table; /* open addressing */
	u32 table_size; /* power of 2 */
	u32 latest[2]; /* that were found, the last first */
};

/**
 * struct net - all of it
 * @nodes: their names
 * @ids: of sessions
 * @links: by number
 * @sessions: by number
 * @hops: links of all paths
 * @out: by node, its first link in @out_links; one more than nodes
 * @out_links: links by the node that they leave, and then by the node that they
 *	lead to
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

void *array(size_t count, size_t size);
void *more(void *memory, u32 count, u32 *room, size_t size);

const char *name_of(const struct names *names, u32 number);
u32 name_find(struct names *names, const char *text);
u32 name_add(struct names *names, const char *text);

void net_expect_links(struct net *net, u32 count);
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
