// SPDX-License-Identifier: GPL-2.0
/*
 * slbnsim's route.c: paths are the shortest, on random networks: trees, cycles
 * joined by bridges, separate components, one-way links, delays of 0 and ties.
 *
 * They are compared with distances by relaxation of all links (Bellman-Ford).
 */
#include "unit.h"

#include <string.h>

#include "userspace/slbnsim/net.h"

#define NODES 24U

static u64 distance[NODES];

static void find_distances(const struct net *net, u32 from)
{
	bool changed = true;
	u32 n;

	for (n = 0; n < NODES; n++)
		distance[n] = n == from ? 0 : NET_NEVER;
	while (changed) {
		changed = false;
		for (n = 0; n < net->link_count; n++) {
			const struct link *link = &net->links[n];
			u64 far = distance[link->from];

			/* Control packets need the reverse link. */
			if (link->reverse == NET_NONE || far == NET_NEVER ||
			    far + link->delay >= distance[link->to])
				continue;
			distance[link->to] = far + link->delay;
			changed = true;
		}
	}
}

static void add_any_link(struct net *net, bool linked[NODES][NODES], u32 a,
			 u32 b, u32 most)
{
	if (a == b || linked[a][b] || linked[b][a])
		return;
	linked[a][b] = true;
	net_add_link(net, a, b, 1, rnd() % most);
	if (rnd() % 10) {
		linked[b][a] = true;
		net_add_link(net, b, a, 1, rnd() % most);
	}
}

/* NODES nodes, and links: the more, the more cycles. */
static void draw_net(struct net *net)
{
	bool linked[NODES][NODES] = {};
	u32 links = NODES / 2 + rnd() % (2 * NODES), most, n;
	bool tree = rnd() % 2;
	char name[8];

	most = rnd() % 3 ? 1000 : 3;
	for (n = 0; n < NODES; n++) {
		snprintf(name, sizeof(name), "n%u", n);
		name_add(&net->nodes, name);
	}
	/* A node's number is independent of its distance from the root. */
	for (n = 1; n < NODES && tree; n++)
		add_any_link(net, linked, (7 * n) % NODES,
			     (7 * (u32)(rnd() % n)) % NODES, most);
	for (n = tree ? NODES : 0; n < links; n++)
		add_any_link(net, linked, rnd() % NODES, rnd() % NODES, most);
	assert_null(net_index(net));
}

static void check_path(const struct net *net, const struct session *session)
{
	const u32 *hops = &net->hops[session->path];
	u32 node = session->from, hop;
	u64 delay = 0;

	for (hop = 0; hop < session->hops; hop++) {
		assert_int_equal(net->links[hops[hop]].from, node);
		node = net->links[hops[hop]].to;
		delay += net->links[hops[hop]].delay;
	}
	assert_int_equal(node, session->to);
	assert_int_equal(delay, distance[session->to]);
}

UNIT_TEST(random_networks)
{
	u32 round, from, to, n, which, found = 0, missed = 0;

	for (round = 0; round < 3000; round++) {
		struct net net = {};

		draw_net(&net);
		/* Sessions that have a path, routed together. */
		for (from = 0; from < NODES; from++) {
			find_distances(&net, from);
			for (to = 0; to < NODES; to++) {
				struct session *session;

				if (to == from || distance[to] == NET_NEVER ||
				    rnd() % 4)
					continue;
				session = net_add_session(&net);
				session->from = from;
				session->to = to;
			}
		}
		assert_null(net_route(&net, &which));
		for (n = 0; n < net.session_count; n++) {
			find_distances(&net, net.sessions[n].from);
			check_path(&net, &net.sessions[n]);
			unit_step++;
		}
		found += net.session_count;
		/* And a random one, with or without a path. */
		from = rnd() % NODES;
		to = (from + 1 + rnd() % (NODES - 1)) % NODES;
		find_distances(&net, from);
		net_add_session(&net)->from = from;
		net.sessions[net.session_count - 1].to = to;
		if (distance[to] == NET_NEVER) {
			missed++;
			assert_non_null(net_route(&net, &which));
			assert_int_equal(which, net.session_count - 1);
		} else {
			assert_null(net_route(&net, &which));
		}
		net_free(&net);
	}
	assert_true(found > 100000);
	assert_true(missed > 300);
}

UNIT_MAIN()
