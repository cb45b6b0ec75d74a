// SPDX-License-Identifier: GPL-2.0
/*
 * Links, sessions and given paths. See net.h; route.c finds shortest paths.
 *
 * Functions that may be given invalid input return an error message, or NULL.
 * The caller adds the file and line.
 */
#include "net.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Links                                                                    */

/**
 * net_reserve_links() - allocate links, so that they do not move
 * @net: the network, without links
 * @count: links that will be added
 */
void net_reserve_links(struct net *net, u32 count)
{
	net->links = alloc_array(count, sizeof(*net->links));
	net->link_room = count;
}

/**
 * net_add_link() - add a link
 * @net: the network
 * @from: node
 * @to: node
 * @rate: bit/s, 1 to NET_RATE_MAX
 * @delay: ns, at most NET_DELAY_MAX
 *
 * Return: its number.
 */
u32 net_add_link(struct net *net, u32 from, u32 to, u64 rate, u64 delay)
{
	net->links = grow_array(net->links, net->link_count, &net->link_room,
				sizeof(*net->links));
	net->links[net->link_count] = (struct link){
		.from = from,
		.to = to,
		.reverse = NET_NONE,
		.rate = rate,
		.delay = delay,
	};
	return net->link_count++;
}

/**
 * net_link_between() - the link from one node to another
 * @net: the network, with its index
 * @from: node
 * @to: node
 *
 * Return: its number, or NET_NONE.
 */
u32 net_link_between(const struct net *net, u32 from, u32 to)
{
	u32 low = net->out[from], high = net->out[from + 1], middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (net->links[net->out_links[middle]].to < to)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < net->out[from + 1] &&
	    net->links[net->out_links[low]].to == to)
		return net->out_links[low];
	return NET_NONE;
}

/*
 * A pass of a stable counting sort of links, by one of their nodes. PLACES has,
 * for each node, where its links begin; afterwards, where they end.
 */
static void sort_links(const struct net *net, const u32 *from, u32 *to,
		       u32 *places, bool by_to)
{
	u32 n;

	for (n = 0; n < net->link_count; n++) {
		u32 number = from ? from[n] : n;
		const struct link *link = &net->links[number];

		to[places[by_to ? link->to : link->from]++] = number;
	}
}

/*
 * Sort links by the node that they leave, then by the node that they lead to.
 */
static bool index_links(struct net *net)
{
	u32 nodes = net->nodes.count, n;
	u32 *places = calloc(nodes + 2UL, sizeof(u32));
	u32 *by_to = calloc(net->link_count + 1UL, sizeof(u32));

	net->out = calloc(nodes + 2UL, sizeof(u32));
	net->out_links = calloc(net->link_count + 1UL, sizeof(u32));
	if (!places || !by_to || !net->out || !net->out_links) {
		free(places);
		free(by_to);
		return false;
	}
	for (n = 0; n < net->link_count; n++) {
		net->out[net->links[n].from + 1]++;
		places[net->links[n].to + 1]++;
	}
	for (n = 1; n <= nodes; n++) {
		net->out[n] += net->out[n - 1];
		places[n] += places[n - 1];
	}
	sort_links(net, NULL, by_to, places, true);
	memcpy(places, net->out, (nodes + 1UL) * sizeof(u32));
	sort_links(net, by_to, net->out_links, places, false);
	free(places);
	free(by_to);
	return true;
}

/* The first link that has the same ends as one before it, or NET_NONE. */
static u32 find_duplicate(const struct net *net)
{
	u32 second = NET_NONE, n;

	for (n = 1; n < net->link_count; n++) {
		const struct link *one = &net->links[net->out_links[n - 1]];
		const struct link *other = &net->links[net->out_links[n]];

		if (one->to == other->to && one->from == other->from)
			second = fp_min(second, net->out_links[n]);
	}
	return second;
}

/* The reverse of a link; most often it is the next link. */
static u32 find_reverse(const struct net *net, u32 number)
{
	const struct link *link = &net->links[number], *next = link + 1;

	if (number + 1 < net->link_count && next->from == link->to &&
	    next->to == link->from)
		return number + 1;
	return net_link_between(net, link->to, link->from);
}

/**
 * net_index() - index links by their nodes; no more links may be added
 * @net: the network
 *
 * Return: an error message, or NULL.
 */
const char *net_index(struct net *net)
{
	static char reason[512];
	u32 n, back, second;

	free(net->out);
	free(net->out_links);
	if (!index_links(net))
		return "out of memory";
	second = find_duplicate(net);
	if (second != NET_NONE) {
		snprintf(reason, sizeof(reason),
			 "duplicate link from '%.200s' to '%.200s'",
			 name_of(&net->nodes, net->links[second].from),
			 name_of(&net->nodes, net->links[second].to));
		return reason;
	}
	for (n = 0; n < net->link_count; n++) {
		if (net->links[n].reverse != NET_NONE)
			continue;
		back = find_reverse(net, n);
		if (back == NET_NONE)
			continue;
		net->links[n].reverse = back;
		net->links[back].reverse = n;
	}
	return NULL;
}

/* ------------------------------------------------------------------------ */
/* Sessions and their paths                                                 */

/**
 * net_add_session() - add a session
 * @net: the network
 *
 * Return: the session, to be filled in. It moves when another one is added.
 */
struct session *net_add_session(struct net *net)
{
	struct session *session;

	net->sessions = grow_array(net->sessions, net->session_count,
				   &net->session_room, sizeof(*net->sessions));
	session = &net->sessions[net->session_count++];
	*session = (struct session){
		.path = NET_NONE,
		.leave = NET_NEVER,
		.demand = NET_RATE_MAX,
		.weight = 1,
	};
	return session;
}

/**
 * net_set_path() - set the path of a session
 * @net: the network, with its index
 * @session: the session
 * @links: its links, each of which begins where the one before ends
 * @count: how many
 *
 * Return: an error message, or NULL.
 */
const char *net_set_path(struct net *net, struct session *session,
			 const u32 *links, u32 count)
{
	static char reason[512];
	u32 n, m;

	if (!count)
		return "a path needs at least one link";
	if (count > NET_HOPS_MAX)
		return "a path has at most 64 links";
	for (n = 0; n < count; n++) {
		const struct link *link = &net->links[links[n]];

		if (link->reverse == NET_NONE) {
			snprintf(reason, sizeof(reason),
				 "no reverse link from '%.200s' to '%.200s'",
				 name_of(&net->nodes, link->to),
				 name_of(&net->nodes, link->from));
			return reason;
		}
		for (m = 0; m <= n; m++) {
			if (net->links[links[m]].from != link->to)
				continue;
			snprintf(reason, sizeof(reason),
				 "the path crosses '%.200s' twice",
				 name_of(&net->nodes, link->to));
			return reason;
		}
	}
	session->path = net->hop_count;
	session->hops = count;
	for (n = 0; n < count; n++) {
		net->hops = grow_array(net->hops, net->hop_count,
				       &net->hop_room, sizeof(u32));
		net->hops[net->hop_count++] = links[n];
	}
	return NULL;
}

/**
 * net_seal() - free the indices; the network is complete
 * @net: the network, with paths of all sessions
 *
 * The indices are a tenth of a run's memory. Links are aligned so that a link
 * and its reverse share a cache line.
 */
void net_seal(struct net *net)
{
	struct link *links = net->links;

	if (links && (size_t)links % CACHE_LINE) {
		net_reserve_links(net, net->link_count);
		memcpy(net->links, links, net->link_count * sizeof(*links));
		free(links);
	}
	names_seal(&net->nodes);
	names_seal(&net->ids);
	free(net->out);
	free(net->out_links);
	net->out = NULL;
	net->out_links = NULL;
}

void net_free(struct net *net)
{
	names_free(&net->nodes);
	names_free(&net->ids);
	free(net->links);
	free(net->sessions);
	free(net->hops);
	free(net->out);
	free(net->out_links);
}
