// SPDX-License-Identifier: GPL-2.0
/*
 * Who dies is drawn: each session that is there, with the same probability.
 *
 * A session whose path crosses a link that is cut, either way, since its packets
 * come back there, leaves at that moment, and another one joins with the same
 * ends and the same demand, on the shortest path without that link. Either it
 * is told, and says goodbye on the old path, as far as that still goes, and joins
 * on the new one as any session does. Or its packets just take another path, as
 * when routers do that by themselves: then it goes on with what it knows, and
 * nobody tells the links of the old path (struct session's @was).
 *
 * If it is to be the busiest link, it is the one that most paths cross of those
 * that can be done without.
 */
#include "faults.h"

#include <stdlib.h>
#include <string.h>

#include "random.h"

#define MILLION 1000000ULL

static bool is_present(const struct session *session, u64 time)
{
	return session->join <= time && session->leave > time;
}

static void crash_sessions(struct net *net, const struct crash *crash,
			   u64 *random)
{
	u32 n;

	for (n = 0; n < net->session_count; n++) {
		struct session *session = &net->sessions[n];

		if (!is_present(session, crash->time) ||
		    draw_below(random, MILLION) >= crash->part)
			continue;
		session->leave = crash->time;
		session->silent = true;
	}
}

static bool crosses(const struct net *net, const struct session *session,
		    u32 link)
{
	const u32 *hops = &net->hops[session->path];
	u32 hop;

	for (hop = 0; hop < session->hops; hop++)
		if (hops[hop] == link || hops[hop] == net->links[link].reverse)
			return true;
	return false;
}

/* Session NUMBER goes on from TIME on, as another one that has no path yet. */
static const char *move_session(struct net *net, u32 number, u64 time,
				bool silent)
{
	struct session *next = net_add_session(net);
	struct session *session = &net->sessions[number];
	char name[300];

	*next = *session;
	snprintf(name, sizeof(name), "%.255s'",
		 name_of(&net->ids, session->id));
	next->id = name_add(&net->ids, name);
	if (next->id == NET_NONE)
		return "the name of a session that moves, with a ', is taken";
	next->join = time;
	next->path = NET_NONE;
	next->moved_from = silent ? number + 1 : 0;
	session->leave = time;
	session->silent = silent;
	return NULL;
}

/* Are there, for sessions that have none, paths that do not cross a link? */
static bool route_without(struct net *net, u32 link)
{
	u32 back = net->links[link].reverse, which, n;
	bool found;

	/* To the search, links without one that leads back are no links. */
	net->links[link].reverse = NET_NONE;
	net->links[back].reverse = NET_NONE;
	found = !net_route(net, &which);
	net->links[link].reverse = back;
	net->links[back].reverse = link;
	/* If it is a host's only one, paths end before it. */
	for (n = 0; n < net->session_count && found; n++) {
		const struct session *session = &net->sessions[n];
		u32 last = net->hops[session->path + session->hops - 1];

		found = net->links[last].to == session->to;
	}
	return found;
}

static u64 *count_crossing(const struct net *net, u64 time)
{
	u64 *count = calloc(net->link_count + 1UL, sizeof(u64));
	u32 n, hop;

	for (n = 0; count && n < net->session_count; n++) {
		const struct session *session = &net->sessions[n];

		if (!is_present(session, time))
			continue;
		for (hop = 0; hop < session->hops; hop++)
			count[net->hops[session->path + hop]]++;
	}
	return count;
}

/* Can all sessions that cross it do without? Tries it, and takes it back. */
static bool is_dispensable(struct net *net, u32 link)
{
	u32 sessions = net->session_count, hops = net->hop_count, n;
	bool can;

	for (n = 0; n < sessions; n++) {
		struct session *next;

		if (!crosses(net, &net->sessions[n], link))
			continue;
		next = net_add_session(net);
		*next = net->sessions[n];
		next->path = NET_NONE;
	}
	can = route_without(net, link);
	net->session_count = sessions;
	net->hop_count = hops;
	return can;
}

static u32 busiest(struct net *net, u64 time)
{
	u64 *count = count_crossing(net, time);
	u32 n, best;

	if (!count)
		return NET_NONE;
	for (;;) {
		best = NET_NONE;
		for (n = 0; n < net->link_count; n++)
			if (count[n] &&
			    (best == NET_NONE || count[n] > count[best]))
				best = n;
		if (best == NET_NONE || is_dispensable(net, best))
			break;
		/* Nor the other way. */
		count[best] = 0;
		count[net->links[best].reverse] = 0;
	}
	free(count);
	return best;
}

static u32 link_named(struct net *net, const char *text)
{
	const char *arrow = strchr(text, '>');
	char name[256] = "";
	u32 from, to;

	if (!arrow || (size_t)(arrow - text) >= sizeof(name))
		return NET_NONE;
	memcpy(name, text, arrow - text);
	from = name_find(&net->nodes, name);
	to = name_find(&net->nodes, arrow + 1);
	if (from == NET_NONE || to == NET_NONE)
		return NET_NONE;
	return net_link_between(net, from, to);
}

static const char *cut(struct net *net, const struct faults *faults, u32 *link)
{
	u32 sessions = net->session_count, n;
	const char *wrong;

	if (!strcmp(faults->cut, FAULTS_BUSIEST)) {
		*link = busiest(net, faults->cut_at);
		if (*link == NET_NONE)
			return "no link can be done without";
	} else {
		*link = link_named(net, faults->cut);
		if (*link == NET_NONE)
			return "there is no such link";
		if (net->links[*link].reverse == NET_NONE)
			return "no link leads back";
	}
	for (n = 0; n < sessions; n++) {
		struct session *session = &net->sessions[n];

		if (session->leave <= faults->cut_at ||
		    !crosses(net, session, *link))
			continue;
		if (session->join >= faults->cut_at) {
			/* It finds the new path when it joins. */
			session->path = NET_NONE;
			continue;
		}
		if (session->bytes)
			return "a session that moves cannot have an end";
		wrong = move_session(net, n, faults->cut_at, faults->silent);
		if (wrong)
			return wrong;
	}
	if (!route_without(net, *link))
		return "a session there has no other path";
	return NULL;
}

/**
 * faults_apply() - write into a network what goes wrong there
 * @net: the network, with paths of all sessions
 * @trouble: what was asked for
 * @seed: decides who dies
 * @link: set to the link that is cut, or NET_NONE
 *
 * Return: what is wrong, or NULL.
 */
const char *faults_apply(struct net *net, const struct faults *faults, u64 seed,
			 u32 *link)
{
	u64 random = ~seed;
	u32 n;

	*link = NET_NONE;
	for (n = 0; n < faults->crash_count; n++)
		crash_sessions(net, &faults->crashes[n], &random);
	return faults->cut ? cut(net, faults, link) : NULL;
}
