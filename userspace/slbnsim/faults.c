// SPDX-License-Identifier: GPL-2.0
/*
 * Each session that is present crashes with the same probability.
 *
 * A session whose path crosses the link that fails, in either direction
 * (packets return over the reverse links), leaves at that time, and another one
 * with the same ends and demand joins, on the shortest path without that link.
 * Normally the source is notified: it sends a Leave on the old path, which gets
 * as far as the failed link, and joins on the new one. With --silent its
 * packets just take the new path, as when routers reroute them: it continues
 * with its state, and the links of the old path are not notified (@moved_from
 * in struct session).
 *
 * The busiest link is the one that most paths cross, of those whose sessions
 * can all be rerouted.
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

/* Session NUMBER continues from TIME on as another session, without a path. */
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
		return "a rerouted session's name, with a ' appended, is taken";
	next->join = time;
	next->path = NET_NONE;
	next->moved_from = silent ? number + 1 : 0;
	session->leave = time;
	session->silent = silent;
	return NULL;
}

/*
 * Route the sessions without a path, so that they avoid a link. Return: whether
 * all have such a path.
 */
static bool route_without(struct net *net, u32 link)
{
	u32 back = net->links[link].reverse, which, n;
	bool found;

	/* The search ignores links without a reverse. */
	net->links[link].reverse = NET_NONE;
	net->links[back].reverse = NET_NONE;
	found = !net_route(net, &which);
	net->links[link].reverse = back;
	net->links[back].reverse = link;
	/* If the link is a host's only one, paths end before it. */
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

/*
 * Can all sessions that cross a link be rerouted? This tries it, and undoes it.
 */
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
		/* Nor its reverse. */
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
	const char *error;

	if (!strcmp(faults->cut, FAULTS_BUSIEST)) {
		*link = busiest(net, faults->cut_at);
		if (*link == NET_NONE)
			return "no link whose sessions can all be rerouted";
	} else {
		*link = link_named(net, faults->cut);
		if (*link == NET_NONE)
			return "no such link";
		if (net->links[*link].reverse == NET_NONE)
			return "it has no reverse link";
	}
	for (n = 0; n < sessions; n++) {
		struct session *session = &net->sessions[n];

		if (session->leave <= faults->cut_at ||
		    !crosses(net, session, *link))
			continue;
		if (session->join >= faults->cut_at) {
			/* It joins on the new path. */
			session->path = NET_NONE;
			continue;
		}
		if (session->bytes)
			return "a session with bytes cannot be rerouted";
		error = move_session(net, n, faults->cut_at, faults->silent);
		if (error)
			return error;
	}
	if (!route_without(net, *link))
		return "a session on it has no other path";
	return NULL;
}

/**
 * faults_apply() - change the sessions of a network as faults do
 * @net: the network, with paths of all sessions
 * @faults: the faults
 * @seed: of the choice of sessions that crash
 * @link: set to the link that fails, or NET_NONE
 *
 * Return: an error message, or NULL.
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
