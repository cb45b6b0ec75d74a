// SPDX-License-Identifier: GPL-2.0
/*
 * slbnsim's maxmin.c: rates are max-min fair, on random networks, while
 * sessions join and leave between computations.
 *
 * They are compared with textbook water filling, which looks at all links and
 * sessions in each step. And each session has its demand, or crosses a
 * bottleneck: a full link on which no session has a larger rate. With weights,
 * rates are compared per unit of weight; with headroom, a link is full earlier.
 */
#include "unit.h"

#include <math.h>
#include <string.h>

#include "userspace/slbnsim/maxmin.h"

#define NODES 12U
#define SESSIONS 40U

static double wanted[SESSIONS];
static u32 headroom;

static bool crosses(const struct net *net, u32 session, u32 link)
{
	const struct session *one = &net->sessions[session];
	u32 hop;

	for (hop = 0; hop < one->hops; hop++)
		if (net->hops[one->path + hop] == link)
			return true;
	return false;
}

/*
 * A link's share for each unit of weight of sessions without a rate; INFINITY
 * without any.
 */
static double share_of(const struct net *net, const bool *present,
		       const bool *done, u32 link)
{
	double left = link_plan(&net->links[link], headroom);
	u32 n, count = 0;

	for (n = 0; n < net->session_count; n++) {
		if (!present[n] || !crosses(net, n, link))
			continue;
		if (done[n])
			left -= wanted[n];
		else
			count += net->sessions[n].weight;
	}
	return count ? left / count : INFINITY;
}

static void fill(const struct net *net, const bool *present)
{
	bool done[SESSIONS];
	u32 left = 0, n, link;

	for (n = 0; n < net->session_count; n++) {
		wanted[n] = 0;
		done[n] = !present[n];
		left += present[n];
	}
	while (left) {
		double least = INFINITY;
		u32 where = NET_NONE, who = NET_NONE;

		for (link = 0; link < net->link_count; link++) {
			double share = share_of(net, present, done, link);

			if (share < least) {
				least = share;
				where = link;
			}
		}
		for (n = 0; n < net->session_count; n++) {
			double limit = (double)net->sessions[n].demand /
				       net->sessions[n].weight;

			if (done[n] || limit > least)
				continue;
			least = limit;
			who = n;
		}
		for (n = 0; n < net->session_count; n++) {
			bool stops = who == NET_NONE ? crosses(net, n, where) :
						       n == who;

			if (done[n] || !stops)
				continue;
			done[n] = true;
			wanted[n] = n == who ? net->sessions[n].demand :
					       least * net->sessions[n].weight;
			left--;
		}
	}
}

static bool alike(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(a, b);
}

/* Is the link full, and SESSION's rate over its weight the largest there? */
static bool is_bottleneck(const struct maxmin *mm, u32 link, u32 session)
{
	const struct session *sessions = mm->net->sessions;
	double sum = 0, most = 0;
	u32 n;

	for (n = 0; n < mm->net->session_count; n++) {
		if (!crosses(mm->net, n, link))
			continue;
		sum += mm->rate[n];
		most = fmax(most, mm->rate[n] / sessions[n].weight);
	}
	return alike(sum, link_plan(&mm->net->links[link], headroom)) &&
	       alike(most, mm->rate[session] / sessions[session].weight);
}

static void check(const struct maxmin *mm, const bool *present)
{
	const struct net *net = mm->net;
	bool found[4 * NODES * NODES] = {};
	u32 n, hop, link;

	for (n = 0; n < net->session_count; n++) {
		const struct session *session = &net->sessions[n];
		bool restricted = !present[n] || mm->rate[n] == session->demand;

		if (!alike(mm->rate[n], wanted[n]))
			fail_msg("session %u: %.17g, not %.17g", n, mm->rate[n],
				 wanted[n]);
		for (hop = 0; present[n] && hop < session->hops; hop++) {
			link = net->hops[session->path + hop];
			if (!mm->is_bottleneck[link] ||
			    !is_bottleneck(mm, link, n))
				continue;
			restricted = true;
			found[link] = true;
		}
		assert_true(restricted);
	}
	for (link = 0; link < net->link_count; link++)
		assert_int_equal(mm->is_bottleneck[link], found[link]);
}

static void draw_net(struct net *net, u32 most_weight)
{
	u32 n, other, which;
	char name[8];

	for (n = 0; n < NODES; n++) {
		snprintf(name, sizeof(name), "n%u", n);
		name_add(&net->nodes, name);
	}
	for (n = 1; n < NODES; n++) {
		/* Few different rates, so that links tie, or many. */
		u64 rate = rnd() % 2 ? 1000 * (1 + rnd() % 3) :
				       1 + rnd() % 1000000;

		other = rnd() % n;
		net_add_link(net, n, other, rate, 1);
		net_add_link(net, other, n, rate, 1);
	}
	assert_null(net_index(net));
	for (n = 0; n < SESSIONS; n++) {
		struct session *session = net_add_session(net);

		session->from = rnd() % NODES;
		session->to = (session->from + 1 + rnd() % (NODES - 1)) % NODES;
		if (rnd() % 3 == 0)
			session->demand = 1 + rnd() % 3000;
		if (most_weight > 1)
			session->weight = 1 + rnd() % most_weight;
	}
	assert_null(net_route(net, &which));
}

static void sessions_join_and_leave(u32 most_weight)
{
	u32 round, turn, n, changes;

	for (round = 0; round < 2000; round++) {
		bool present[SESSIONS] = {};
		struct net net = {};
		struct maxmin mm;

		draw_net(&net, most_weight);
		maxmin_init(&mm, &net, headroom, NULL);
		for (turn = 0; turn < 12; turn++) {
			fill(&net, present);
			maxmin_compute(&mm, present);
			check(&mm, present);
			unit_step++;
			/*
			 * None, one, some, or nearly all sessions join or
			 * leave.
			 */
			changes = rnd() % 4;
			changes = changes == 3 ? 2 * SESSIONS : changes * 3;
			for (n = 0; n < changes; n++)
				present[rnd() % SESSIONS] ^= true;
		}
		maxmin_free(&mm);
		net_free(&net);
	}
}

UNIT_TEST(without_weights)
{
	headroom = 0;
	sessions_join_and_leave(1);
}

UNIT_TEST(with_small_weights)
{
	headroom = 50;
	sessions_join_and_leave(3);
}

UNIT_TEST(with_all_weights)
{
	headroom = 500;
	sessions_join_and_leave(NET_WEIGHT_MAX);
}

UNIT_MAIN()
