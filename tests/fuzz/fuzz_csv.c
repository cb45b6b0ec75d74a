// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzes slbnsim's reader of sessions with arbitrary bytes, on a small network.
 * Sessions that it accepts have valid paths, and are the same after writing and
 * reading them again, but for paths, which are not written.
 */
#include "fuzz_reader.h"

/*
 * A line a - b - c - d, a detour by e, a one-way link to g, and an isolated h.
 */
static void build(struct net *net)
{
	static const char *const names[] = {
		"a", "b", "c", "d", "e, \"f\"", "g", "h",
	};
	static const u8 ends[][2] = {
		{ 0, 1 }, { 1, 2 }, { 2, 3 }, { 0, 4 }, { 4, 3 },
	};
	u32 n;

	for (n = 0; n < sizeof(names) / sizeof(*names); n++)
		name_add(&net->nodes, names[n]);
	for (n = 0; n < sizeof(ends) / sizeof(*ends); n++) {
		net_add_link(net, ends[n][0], ends[n][1], 1000000, 1000 * n);
		net_add_link(net, ends[n][1], ends[n][0], 1000000, 1000 * n);
	}
	net_add_link(net, 0, 5, 1000000, 1000);
	HOLDS(!net_index(net));
}

static void read_it(struct net *net)
{
	build(net);
	read_sessions(net, "input");
}

static void check_path(const struct net *net, const struct session *session)
{
	const u32 *hops = net->hops + session->path;
	u32 at = session->from, seen = 1U << at, n;

	HOLDS(session->hops && session->hops <= NET_HOPS_MAX);
	HOLDS(session->path + session->hops <= net->hop_count);
	for (n = 0; n < session->hops; n++) {
		const struct link *link = &net->links[hops[n]];

		HOLDS(link->from == at && link->reverse != NET_NONE);
		at = link->to;
		HOLDS(!(seen & 1U << at));
		seen |= 1U << at;
	}
	HOLDS(at == session->to && at != session->from);
}

/* Seconds as doubles have some digits only. */
static bool same_time(u64 a, u64 b)
{
	return a > b ? a - b <= a >> 50 : b - a <= b >> 50;
}

static bool same_sessions(const struct net *a, const struct net *b)
{
	u32 n;

	if (a->session_count != b->session_count ||
	    (a->ids.count && !same_names(&a->ids, &b->ids)))
		return false;
	for (n = 0; n < a->session_count; n++) {
		const struct session *one = &a->sessions[n];
		const struct session *other = &b->sessions[n];

		if (one->id != other->id || one->from != other->from ||
		    one->to != other->to || one->demand != other->demand ||
		    one->bytes != other->bytes ||
		    one->weight != other->weight ||
		    !same_time(one->join, other->join) ||
		    !same_time(one->leave, other->leave))
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct net net = {}, again = {};
	u32 n;

	if (!accepts(&net, data, size, read_it))
		return 0;
	check_names(&net.ids);
	for (n = 0; n < net.session_count; n++) {
		const struct session *session = &net.sessions[n];

		check_path(&net, session);
		HOLDS(session->demand && session->demand <= NET_RATE_MAX);
		HOLDS(session->join == NET_NEVER ||
		      session->join < session->leave);
	}
	check_again(&net, &again, read_it, write_sessions, same_sessions);
	return 0;
}
