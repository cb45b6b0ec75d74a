// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN's commit in networks: what it promises at each step, the rates at which
 * it settles, and each step compared with a second implementation.
 */
#include "unit.h"

#include "slbn_net.h"

#define EPOCH (1000 * NET_MS)
/* Epoch of links for leases of EPOCH. */
#define EPOCH_FOR_LEASE (EPOCH * 1000 / (1000 - SLBN_LEASE_MARGIN))
/* Rows of memory that never evict an entry of as many sessions as here. */
#define ALL_SESSIONS 1024

/* The number of random networks, of SLBN_NETWORKS or the default. */
static u32 networks(u32 by_default)
{
	const char *text = getenv("SLBN_NETWORKS");

	return text ? (u32)strtoul(text, NULL, 0) : by_default;
}

/* --- a second implementation ------------------------------------------- */

#define MODEL_SESSIONS 64

/**
 * struct model_session - a session at a link
 * @counted: it is counted
 * @epoch: number of the epoch in which it was
 * @in_R: in R
 * @rate: bit/s in BF
 * @held: bit/s in A
 * @weight: weight
 * @seen: the link has processed a packet of it
 * @seq: sequence number of that packet
 * @left: that packet was a Leave
 */
struct model_session {
	bool counted;
	s64 epoch;
	bool in_R;
	s64 rate;
	s64 held;
	s64 weight;
	bool seen;
	u32 seq;
	bool left;
};

/*
 * A link that remembers all its sessions: the sums are computed from them, and
 * there are no ledgers, only sessions of the current and the last epoch.
 */
static struct model_link {
	u64 start;
	struct model_session sessions[MODEL_SESSIONS];
} model[NET_LINKS];

struct model_sums {
	s64 BF, NR, N, A;
};

static struct model_sums model_sum(const struct model_link *link, s64 epoch)
{
	struct model_sums sums = { 0 };
	u32 n;

	for (n = 0; n < MODEL_SESSIONS; n++) {
		const struct model_session *session = &link->sessions[n];

		if (!session->counted || session->epoch < epoch - 1)
			continue;
		sums.N += session->weight;
		sums.NR += session->in_R ? session->weight : 0;
		sums.BF += session->in_R ? 0 : session->rate;
		sums.A += session->held;
	}
	return sums;
}

/* The closest number with 11 significant bits, above or below. */
static s64 model_round(s64 rate, bool up)
{
	s64 step = 1;

	while ((rate + (up ? step - 1 : 0)) / step > 2047)
		step *= 2;
	return (rate + (up ? step - 1 : 0)) / step * step;
}

/* The rise that a packet on its way back is granted; returns what is held. */
static s64 model_grant(const struct slbn_link_params *p, u64 quiet_until,
		       s64 others, struct slbn_packet *pkt, u64 now)
{
	s64 use = (s64)pkt->use;
	s64 room = (s64)p->C - others;
	s64 g = (s64)pkt->g;
	s64 held;

	if (room < use || now < quiet_until)
		room = use;
	g = g < (s64)pkt->bw ? g : (s64)pkt->bw;
	g = g < room ? g : room;
	held = use;
	if (g > use) {
		held = use + model_round(g - use, true);
		if (held > room)
			held = use + model_round(room - use, false);
		g = g < held ? g : held;
	}
	pkt->g = g;
	if (p->epoch && p->epoch / 1000 < pkt->epoch)
		pkt->epoch = p->epoch / 1000;
	return held;
}

/* Returns false if the packet is dropped; *@code is what is held above use. */
static bool model_process(const struct net_link *real, u32 number,
			  struct slbn_packet *pkt, s64 *code, u64 now)
{
	const struct slbn_link_params *p = &real->params;
	struct model_link *link = &model[real - net.links];
	struct model_session *session = &link->sessions[number];
	s64 epoch = p->epoch ? (s64)((now - link->start) / p->epoch) : 0;
	bool up = slbn_is_upstream(pkt);
	u8 hop = up ? pkt->hop - 1 : pkt->hop;
	bool counted = session->counted && session->epoch >= epoch - 1;
	struct model_session before = *session;
	struct model_sums others;
	s64 share, left, w = pkt->weight;

	if (session->seen && (s32)(pkt->seq - session->seq) < 0)
		return false;
	if (p->commit && counted && (s64)pkt->use > session->held)
		return false;
	if (up && !counted && pkt->type != SLBN_LEAVE_ACK)
		return false;
	if (pkt->type == SLBN_LEAVE_ACK &&
	    !(session->left && session->seq == pkt->seq))
		return false;
	pkt->hop = up ? hop : hop + 1;
	if (pkt->type == SLBN_LEAVE_ACK)
		return true;
	session->seen = true;
	session->seq = pkt->seq;
	session->counted = false;
	session->left = pkt->type == SLBN_LEAVE;
	pkt->B &= ~(1ULL << hop);
	*code = 0;
	if (pkt->type == SLBN_LEAVE)
		return true;

	others = model_sum(link, epoch);
	left = (s64)p->P - others.BF;
	share = w * (s64)p->P / (others.N + w);
	if (left > 0 && w * left / (others.NR + w) > share)
		share = w * left / (others.NR + w);
	share = share < (s64)p->P ? share : (s64)p->P;
	session->in_R = pkt->bottleneck == hop || (s64)pkt->bw > share;
	if (session->in_R) {
		pkt->B |= 1ULL << hop;
		pkt->bottleneck = hop;
		if (pkt->type != SLBN_JOIN)
			pkt->bw = share;
	}
	session->rate = pkt->bw1;
	session->held = 0;
	if (p->commit) {
		session->held = pkt->use;
		if (up)
			session->held = model_grant(p, real->vars.quiet_until,
						    others.A, pkt, now);
		if (counted && before.seen && before.seq == pkt->seq &&
		    before.held > session->held)
			session->held = before.held;
		*code = session->held - (s64)pkt->use;
	}
	session->counted = true;
	session->epoch = epoch;
	session->weight = w;
	return true;
}

static enum slbn_verdict process_both(struct net_link *link, u32 session,
				      struct slbn_packet *pkt,
				      struct slbn_slot *slot, u64 now)
{
	struct slbn_packet copy = *pkt;
	s64 code = slbn_decode(slot->code);
	enum slbn_verdict verdict =
		net_core_process(link, session, pkt, slot, now);
	bool forward = model_process(link, session, &copy, &code, now);
	const struct slbn_ledger *cur = &link->vars.cur;
	const struct slbn_ledger *prev = &link->vars.prev;
	const struct model_link *other = &model[link - net.links];
	struct model_sums sums = model_sum(
		other, link->params.epoch ? (s64)((now - other->start) /
						  link->params.epoch) :
					    0);

	CHECK((verdict == SLBN_FORWARD) == forward, "verdict %d", verdict);
	if (forward)
		CHECK(copy.hop == pkt->hop && copy.B == pkt->B &&
			      copy.bottleneck == pkt->bottleneck &&
			      copy.bw == pkt->bw && copy.g == pkt->g &&
			      copy.epoch == pkt->epoch &&
			      (u64)code == slbn_decode(slot->code),
		      "type %u hop %u: b %u B %llx bw %llu g %llu code %llu, "
		      "model: %u %llx %llu %llu %lld",
		      pkt->type, pkt->hop, pkt->bottleneck, pkt->B, pkt->bw,
		      pkt->g, slbn_decode(slot->code), copy.bottleneck, copy.B,
		      copy.bw, copy.g, code);
	CHECK(cur->N + prev->N == (u64)sums.N &&
		      cur->NR + prev->NR == (u64)sums.NR &&
		      cur->BF + prev->BF == (u64)sums.BF &&
		      cur->A + prev->A == (u64)sums.A,
	      "A %llu BF %llu NR %llu N %llu, model: %lld %lld %lld %lld",
	      cur->A + prev->A, cur->BF + prev->BF, cur->NR + prev->NR,
	      cur->N + prev->N, sums.A, sums.BF, sums.NR, sums.N);
	return verdict;
}

/* --- networks ------------------------------------------------------------ */

static void draw_settings(void)
{
	static const u32 planned[] = { 1000, 1000, 980, 950, 500 };
	static const u32 weights[] = { 1, 1, 10, SLBN_WEIGHT_MAX };

	net_clear();
	net.commit = true;
	net.planned = planned[rnd_in(0, ARRAY_SIZE(planned) - 1)];
	net.weights = weights[rnd_in(0, ARRAY_SIZE(weights) - 1)];
}

/*
 * A link restarts and grants no rises for an epoch. Its new tags are none that
 * packets still carry (assumption A7 of docs/protocol.md): a random tag was the
 * one of an earlier start in 1 of 182,000 networks.
 */
static void restart_link(struct net_link *link)
{
	slbn_link_init(&link->vars, net.now, net.now + link->params.epoch,
		       link->vars.tag + rnd_in(1000, 2000));
	if (link->vars.memory)
		memset(link->vars.memory, 0,
		       link->params.rows * SLBN_MEMORY_WAYS *
			       sizeof(struct slbn_memory_entry));
	link->held[0] = 0;
	link->held[1] = 0;
	memset(&model[link - net.links], 0, sizeof(*model));
	model[link - net.links].start = net.now;
}

/* Sessions leave, die and change their demands; links restart. */
static void disturb(bool restarts)
{
	u32 n = rnd_in(0, net.session_count - 1);

	switch (rnd_in(0, restarts ? 4 : 3)) {
	case 0:
		net_schedule(net.now, NET_LEAVE, n);
		break;
	case 1:
		if (one_in(3))
			net_schedule(net.now, NET_DIE, n);
		break;
	case 4:
		restart_link(&net.links[rnd_in(0, net.link_count - 1)]);
		break;
	default:
		if (net.sessions[n].joined)
			net_schedule(net.now, NET_CHANGE, n)->value =
				random_demand();
	}
}

static void leave_all(void)
{
	u32 n;

	for (n = 0; n < net.session_count; n++)
		if (net_counts(&net.sessions[n]))
			net_schedule(net.now, NET_LEAVE, n);
}

/* Every step has the result of the second implementation. */
UNIT_TEST(commit_matches_its_rules)
{
	static const u32 losses[] = { 0, 1000, 10000, 50000 };
	u32 round, n;

	for (round = 0; round < 40; round++) {
		/* Without losses neither ledgers nor memory are needed. */
		bool lossy = round % 2;
		u64 epoch = lossy || one_in(2) ? EPOCH : 0;

		draw_settings();
		net.process = process_both;
		net.loss = lossy ? losses[rnd_in(0, 3)] : 0;
		memset(model, 0, sizeof(model));
		make_network(rnd_in(1, 8), rnd_in(1, 40), 6, epoch,
			     lossy ? ALL_SESSIONS : 0, 1000 * NET_MS);
		for (n = 0; n < 12; n++) {
			net_run(net.now + rnd_in(1, 400) * NET_MS);
			disturb(lossy);
		}
		leave_all();
		net_run(net.now + 2000 * NET_MS);
	}
	net_clear();
}

/*
 * No link is used, nor does more arrive, above its capacity, at any moment: with
 * any loss, too small a memory or none, sessions that join, leave, die and
 * change their demands, and links that restart. With memory, A is at most the
 * capacity, and the sum of what was recorded last. When losses end, rates
 * settle at the weighted max-min reference.
 */
UNIT_TEST(links_are_never_promised_twice)
{
	static const u32 losses[] = { 0, 1000, 10000, 50000, 200000 };
	static const u32 rows[] = { 0, 1, ALL_SESSIONS, ALL_SESSIONS };
	/* With losses, short leases end. They must last two round trips. */
	static const u64 epochs[] = { 300 * NET_MS, 400 * NET_MS, EPOCH };
	u32 rounds = networks(400);
	u64 lapsed = 0, packets = 0;
	u32 round, n;

	for (round = 0; round < rounds; round++) {
		u32 memory = rows[rnd_in(0, ARRAY_SIZE(rows) - 1)];
		bool restarts = one_in(2);
		bool exact;

		draw_settings();
		net.loss = losses[rnd_in(0, ARRAY_SIZE(losses) - 1)];
		/*
		 * A small memory forgets Leaves: their LeaveAcks are dropped,
		 * and they are retransmitted.
		 */
		exact = memory == ALL_SESSIONS ||
			(!net.loss && !restarts && !memory);
		net.checks = exact ? NET_CHECK_ALL :
				     NET_CHECK_RATES | NET_CHECK_HELD;
		/*
		 * A memory makes retransmissions safe that are too early; the
		 * third one would have more slots than the acknowledgment.
		 */
		if (memory == ALL_SESSIONS && !restarts && one_in(2))
			net.retry = rnd_in(71, 140) * NET_MS;
		make_network(rnd_in(1, 8), rnd_in(1, 30), 7, EPOCH, memory,
			     rnd_in(1, 1000) * NET_MS);
		if (one_in(2))
			net.pause = 100 * NET_MS;
		for (n = 0; n < net.link_count; n++)
			net.links[n].params.epoch =
				epochs[net.pause < 100 * NET_MS ? rnd_in(0, 2) :
								  2];
		for (n = 0; n < 10; n++) {
			net_run(net.now + rnd_in(1, 300) * NET_MS);
			disturb(restarts);
		}
		net.loss = 0;
		net_run(net.now + 5000 * NET_MS);
		expect_exact("settled", 1e-4);
		leave_all();
		net_run(net.now + 3000 * NET_MS);
		for (n = 0; n < net.link_count; n++) {
			assert_int_equal(net.links[n].used, 0);
			assert_int_equal(net.links[n].arriving, 0);
			/* Only sources that lie, and reroutes. */
			assert_int_equal(net.links[n].stats.overuse, 0);
			if (!exact)
				net.links[n].stats.clamped = 0;
		}
		expect_empty_links();
		lapsed += net.lapsed;
		packets += net.packets;
	}
	printf("# %u networks, %llu packets, %llu leases ended\n", rounds,
	       packets, lapsed);
	net_clear();
}

/* With headroom and weights, after joins, leaves and changes, without losses. */
UNIT_TEST(rates_are_weighted_max_min)
{
	u32 round;

	for (round = 0; round < 60; round++) {
		draw_settings();
		net.checks = NET_CHECK_ALL;
		make_network(rnd_in(1, 12), rnd_in(1, 60), 6,
			     round % 2 ? EPOCH : 0, round % 2 ? 64 : 0,
			     300 * NET_MS);
		net_run(2500 * NET_MS);
		expect_exact("joined", 0);
		churn(500 * NET_MS);
		net_run(5500 * NET_MS);
		expect_exact("churned", 0);
		leave_all();
		net_run(8000 * NET_MS);
		expect_empty_links();
	}
	net_clear();
}

/* A rate that is settled stays, with losses that go on. */
UNIT_TEST(losses_do_not_change_settled_rates)
{
	static const struct {
		u32 loss;
		u64 epoch;
	} ways[] = {
		{ 1000, EPOCH_FOR_LEASE },
		{ 10000, EPOCH_FOR_LEASE },
		/* At 5 % per hop a lease of 1 s ends now and then. */
		{ 50000, 2 * EPOCH_FOR_LEASE },
	};
	u32 n, second;

	for (n = 0; n < ARRAY_SIZE(ways); n++) {
		net_clear();
		net.commit = true;
		net.planned = 950;
		net.checks = NET_CHECK_ALL;
		make_network(20, 120, 7, ways[n].epoch, ALL_SESSIONS,
			     300 * NET_MS);
		net.loss = ways[n].loss;
		net_run(8000 * NET_MS);
		for (second = 0; second < 10; second++) {
			expect_exact("with losses", 1e-4);
			net_run(net.now + 1000 * NET_MS);
		}
		printf("# loss %g %%: %llu leases ended\n", ways[n].loss / 1e4,
		       net.lapsed);
	}
	net_clear();
}

/* What 120 sessions on 20 links use, and what those without a lease could. */
struct starved {
	long double used;
	long double lapsed;
};

static struct starved starve(u32 loss, u32 rows)
{
	long double used = 0, lapsed = 0, fair = 0;
	u32 i;

	net_clear();
	net.commit = true;
	net.planned = 950;
	net.checks = NET_CHECK_RATES | NET_CHECK_HELD;
	make_network(20, 120, 7, EPOCH, rows, 300 * NET_MS);
	net.loss = loss;
	net_run(4000 * NET_MS);
	net_solve();
	while (net.now < 8000 * NET_MS) {
		net_run(net.now + 100 * NET_MS);
		for (i = 0; i < net.session_count; i++) {
			used += net.sessions[i].used;
			fair += net.sessions[i].fair;
			if (!net.sessions[i].used)
				lapsed += net.sessions[i].fair;
		}
	}
	return (struct starved){ used / fair, lapsed / fair };
}

/*
 * Without memory for the sessions of a retry time, each retransmission can leave
 * something in the sums until its ledger is dropped: rates are too low, but
 * links are never promised twice. What 120 sessions on 20 links use of the
 * reference in the mean of seven networks, and at 5 % what those could use whose
 * lease has ended:
 *
 *	loss per hop		0.1 %	1 %	5 %	ended
 *	8 entries of memory	 99 %	95 %	78 %	2.2 %
 *	no memory		100 %	95 %	73 %	1.9 %
 *	memory for all		100 %	100 %	98 %	1.7 %
 *
 * At 5 % single networks with a small memory use from 65 to 85 %, and the mean of
 * seven differs by 2 % from that of others, so there the test has seven networks
 * of its own. The margin of leases is not the reason: without it 75, 72 and 99 %
 * are used, and 1.4, 2.4 and 1.0 % ended. With memory for all, what ended is all
 * that is missing.
 */
UNIT_TEST(small_memory_starves_but_is_safe)
{
	static const u32 losses[] = { 1000, 10000, 50000 };
	static const u32 rows[] = { 2, 0, ALL_SESSIONS };
	u64 random = unit_random;
	u32 n, m, i;

	for (n = 0; n < ARRAY_SIZE(losses); n++) {
		for (m = 0; m < ARRAY_SIZE(rows); m++) {
			bool all = rows[m] == ALL_SESSIONS;
			u32 count = losses[n] == 50000 && !all ? 7 : 1;
			struct starved mean = { 0 };

			for (i = 1; i <= count; i++) {
				struct starved one;

				if (count > 1)
					unit_random = i;
				one = starve(losses[n], rows[m]);
				mean.used += one.used / count;
				mean.lapsed += one.lapsed / count;
			}
			printf("# loss %g %%, %u rows: %.1Lf %%, without a lease %.1Lf %%\n",
			       losses[n] / 1e4, rows[m], 100 * mean.used,
			       100 * mean.lapsed);
			CHECK(mean.lapsed < 0.03L, "%Lg without a lease",
			      mean.lapsed);
			CHECK(all ? mean.used + mean.lapsed > 0.99L :
				    mean.used > (count > 1 ? 0.7L : 0.85L),
			      "%Lg of the reference", mean.used);
		}
	}
	unit_random = random;
	net_clear();
}

/* Thousands of sessions on one link settle; roundings do not add up. */
UNIT_TEST(thousands_of_sessions_settle)
{
	static const u32 weights[] = { 1, 10, SLBN_WEIGHT_MAX };
	u32 n, i;

	for (n = 0; n < ARRAY_SIZE(weights); n++) {
		struct net_error error;
		u64 settled;

		net_clear();
		net.commit = true;
		net.weights = weights[n];
		net.pause = 50 * NET_MS;
		net.checks = NET_CHECK_RATES | NET_CHECK_HELD | NET_CHECK_A |
			     NET_CHECK_SUM;
		net_add_link(10000 * MEGA + 7, 5 * NET_MS, 0, 0);
		for (i = 0; i < NET_SESSIONS; i++) {
			net_add_session(1);
			net_schedule(rnd() % (500 * NET_MS), NET_JOIN, i)
				->value = UNLIMITED;
		}
		net_run(2000 * NET_MS);
		error = net_error();
		settled = net.settled;
		printf("# weights to %u: %g bit/s, settled at %llu ms\n",
		       weights[n], error.bits, settled / NET_MS);
		/* All are restricted by one division. */
		assert_true(error.bits < 1);
		leave_all();
		net_run(net.now + 1000 * NET_MS);
		expect_empty_links();
	}
	net_clear();
}

/* Move a session to another path; its data is there at once. */
static void reroute(struct net_session *session, const u32 *path, u32 hops)
{
	u64 rate = session->used;
	u64 held = rate;
	u32 hop;

	for (hop = 0; hop < session->hops; hop++) {
		struct net_link *link = &net.links[session->path[hop]];

		held = fp_max64(held, session->held[hop]);
		link->used -= rate;
		link->arriving -= session->arriving[hop];
		session->arriving[hop] = 0;
	}
	for (hop = 0; hop < hops; hop++) {
		struct net_link *link = &net.links[path[hop]];

		/* A grant of the old path may be on its way. */
		link->limit += held;
		if (hop >= session->hops || session->path[hop] != path[hop])
			session->tag[hop] = SLBN_NO_TAG;
		session->path[hop] = path[hop];
	}
	for (; hop < NET_HOPS; hop++)
		session->tag[hop] = SLBN_NO_TAG;
	session->hops = hops;
	session->version++;
	session->used = 0;
	net_set_rate(session);
}

/*
 * Sessions are rerouted while they send, to paths of other lengths: links
 * exceed their capacity by at most what they held, and not when rates have
 * settled again; and rates settle at the reference of the new paths.
 */
UNIT_TEST(reroutes_exceed_by_the_moved_rates)
{
	u32 round, n;

	for (round = 0; round < 40; round++) {
		draw_settings();
		net.checks = NET_CHECK_RATES | NET_CHECK_HELD | NET_CHECK_A;
		make_network(rnd_in(3, 10), rnd_in(5, 40), 6, EPOCH,
			     ALL_SESSIONS, 300 * NET_MS);
		net_run(rnd_in(300, 2000) * NET_MS);
		for (n = 0; n < net.session_count; n += 5) {
			struct net_session *session = &net.sessions[n];
			u32 other = net.session_count;

			/* A path like that of a session which does not exist. */
			net_add_session(rnd_in(1, fp_min(net.link_count, 6U)));
			net.session_count--;
			reroute(session, net.sessions[other].path,
				net.sessions[other].hops);
			memset(&net.sessions[other], 0, sizeof(*session));
			net_run(net.now + rnd_in(0, 50) * NET_MS);
		}
		net_run(net.now + 5000 * NET_MS);
		for (n = 0; n < net.link_count; n++) {
			net.links[n].limit = net.links[n].params.C;
			CHECK(net.links[n].used <= net.links[n].limit &&
				      net.links[n].arriving <=
					      net.links[n].limit,
			      "link %u: %llu in use", n, net.links[n].used);
		}
		expect_exact("rerouted", 1e-4);
		leave_all();
		net_run(net.now + 4000 * NET_MS);
		expect_empty_links();
	}
	net_clear();
}

/*
 * The capacity of links falls while they are used: what was held before is the
 * limit until the plan has brought it down, and A only falls meanwhile.
 */
UNIT_TEST(lower_capacity_is_reached_from_above)
{
	u64 longest = 0;
	u32 round, n;
	u64 start;

	for (round = 0; round < 40; round++) {
		draw_settings();
		net.loss = one_in(2) ? 10000 : 0;
		net.checks = NET_CHECK_ALL;
		make_network(rnd_in(1, 8), rnd_in(1, 40), 6, EPOCH,
			     ALL_SESSIONS, 300 * NET_MS);
		net_run(rnd_in(100, 2000) * NET_MS);
		for (n = 0; n < net.link_count; n += rnd_in(1, 3)) {
			struct net_link *link = &net.links[n];
			u64 A = link->vars.cur.A + link->vars.prev.A;

			link->params.C /= rnd_in(2, 10);
			link->params.P = link->params.C;
			link->limit = fp_max64(link->params.C, A);
		}
		start = net.now;
		while (net.now < start + 3000 * NET_MS) {
			bool over = false;

			net_run(net.now + 10 * NET_MS);
			for (n = 0; n < net.link_count; n++) {
				struct net_link *link = &net.links[n];
				u64 A = link->vars.cur.A + link->vars.prev.A;

				/* It only falls. */
				link->limit =
					fp_max64(link->params.C,
						 fp_min64(A, link->limit));
				over |= A > link->params.C;
			}
			if (over)
				longest = fp_max64(longest, net.now - start);
		}
		net.loss = 0;
		net_run(net.now + 3000 * NET_MS);
		expect_exact("lowered", 1e-4);
	}
	printf("# below the new capacity after %llu ms\n", longest / NET_MS);
	assert_true(longest < 2000 * NET_MS);
	net_clear();
}

/* One link, and the packet of a session that processes it at once. */
static enum slbn_source_event round_trip(struct slbn_source *src, u64 now)
{
	struct net_link *link = &net.links[0];
	struct slbn_slot slots[SLBN_HOPS_MAX];
	struct slbn_packet pkt;

	slbn_source_transmit(src, now);
	pkt = src->pkt;
	memcpy(slots, src->slot, sizeof(slots));
	net_core_process(link, 0, &pkt, &slots[0], now);
	slbn_destination_reply(&pkt);
	net_core_process(link, 0, &pkt, &slots[0], now);
	return slbn_source_ack(src, &pkt, slots, now);
}

/*
 * A lease ends while its packet is retransmitted, and others take the room: the
 * acknowledgment, which is in time for the packet's own lease, assigns nothing.
 */
UNIT_TEST(late_retransmission_claims_nothing)
{
	const u64 ids[2][2] = { { 1 }, { 2 } };
	struct slbn_source a, b;
	u32 rows;

	for (rows = 0; rows < 2; rows++) {
		net_clear();
		net.commit = true;
		net_add_link(100 * MEGA, NET_MS, EPOCH, rows);
		slbn_source_join(&a, ids[0], UNLIMITED, 1, 4);
		slbn_source_join(&b, ids[1], UNLIMITED, 1, 4);
		round_trip(&a, 990 * NET_MS);
		assert_true(a.rate > 99 * MEGA);
		assert_int_equal(a.lease, 1865 * NET_MS);
		/* This one is lost. */
		slbn_source_transmit(&a, 1800 * NET_MS);
		assert_false(slbn_source_expire(&a, 1864 * NET_MS));
		assert_true(slbn_source_expire(&a, 1865 * NET_MS));
		round_trip(&b, 2100 * NET_MS);
		round_trip(&b, 2110 * NET_MS);
		assert_int_equal(b.rate, 100 * MEGA);
		assert_int_equal(round_trip(&a, 2200 * NET_MS),
				 SLBN_CYCLE_DONE);
		assert_int_equal(a.rate, 0);
		assert_true(a.urgent && a.lease > 2200 * NET_MS);
		round_trip(&b, 2210 * NET_MS);
		round_trip(&b, 2220 * NET_MS);
		round_trip(&a, 2230 * NET_MS);
		round_trip(&a, 2240 * NET_MS);
		assert_int_equal(a.rate, 50 * MEGA);
		assert_int_equal(b.rate, 50 * MEGA);
	}
	net_clear();
}

/* MUST 5 of docs/protocol.md: where a clock steps back, no ledger is dropped. */
UNIT_TEST(clock_that_steps_back_drops_nothing)
{
	struct slbn_source src;
	const u64 id[2] = { 1 };
	struct net_link *link;

	net_clear();
	net.commit = true;
	net_add_link(100 * MEGA, NET_MS, EPOCH, ALL_SESSIONS);
	link = &net.links[0];
	slbn_source_join(&src, id, UNLIMITED, 1, 4);
	/* The second epoch begins at 1 s. */
	round_trip(&src, 1500 * NET_MS);
	assert_int_equal(link->vars.cur.N, 1);
	slbn_link_rotate(&link->params, &link->vars, 900 * NET_MS);
	assert_int_equal(link->vars.cur.N, 1);
	assert_true(link->vars.cur.A > 99 * MEGA);
	slbn_link_rotate(&link->params, &link->vars, 2000 * NET_MS);
	assert_int_equal(link->vars.cur.N, 0);
	assert_int_equal(link->vars.prev.N, 1);
	net_clear();
}

/*
 * A link restarts with a shorter epoch than that of the leases which it granted
 * before: no session gets what others still use, as it is quiet until then (MUST 8
 * of docs/protocol.md).
 */
UNIT_TEST(quiet_link_waits_for_leases_of_before)
{
	struct net_link *link = &net.links[0];

	net_clear();
	net.commit = true;
	net.checks = NET_CHECK_RATES;
	net.pause = EPOCH;
	net_add_link(100 * MEGA, NET_MS, 4 * EPOCH, ALL_SESSIONS);
	net_add_session(1);
	net_add_session(1);
	net_schedule(0, NET_JOIN, 0)->value = UNLIMITED;
	net_run(5 * EPOCH);
	assert_true(net.sessions[0].src.rate > 99 * MEGA);
	/* Its next packet is in half a second or more. */
	while (net.sessions[0].src.tries ||
	       net.sessions[0].src.lease < net.now + 3 * EPOCH)
		net_run(net.now + NET_MS / 10);
	restart_link(link);
	link->params.epoch = EPOCH / 5;
	link->vars.quiet_until = net.now + 4 * EPOCH;
	net.pause = 5 * NET_MS;
	net_schedule(net.now + EPOCH / 5, NET_JOIN, 1)->value = UNLIMITED;
	net_run(net.now + 6 * EPOCH);
	expect_exact("after the quiet time", 0);
	net_clear();
}

/*
 * The agent of a source dies, and a queue on its path grows before its lease ends:
 * what was sent last takes longer than what was sent first. The margin of the lease
 * covers it: that data arrives before a link forgets the session and grants its
 * rate to another one (MUST 11 of docs/protocol.md).
 *
 *	a --- link 0, the queue --- link 1 --- destination
 *	b ------------------------- link 1 --- destination
 */
UNIT_TEST(growing_queue_delays_no_data_beyond_the_lease)
{
	static const u64 grown[] = { 0, 20, 50, 100 };
	struct net_session *a = &net.sessions[0], *b = &net.sessions[1];
	u32 n;

	for (n = 0; n < ARRAY_SIZE(grown); n++) {
		net_clear();
		net.commit = true;
		net.checks = NET_CHECK_RATES;
		net_add_link(1000 * MEGA, NET_MS, EPOCH, ALL_SESSIONS);
		net_add_link(100 * MEGA, NET_MS, EPOCH, ALL_SESSIONS);
		net.session_count = 2;
		a->weight = 1;
		a->hops = 2;
		a->path[1] = 1;
		b->weight = 1;
		b->hops = 1;
		b->path[0] = 1;
		net_schedule(0, NET_JOIN, 0)->value = UNLIMITED;
		/* Link 1 forgets what it held in this epoch at 2 s. */
		net_run(EPOCH - 10 * NET_MS);
		while (a->src.tries)
			net_run(net.now + NET_MS / 10);
		assert_true(net.now < EPOCH && a->src.rate > 99 * MEGA);
		a->dead = true;
		net_run(a->src.lease - NET_MS);
		assert_true(a->used > 99 * MEGA);
		net.links[0].delay += grown[n] * NET_MS;
		net_schedule(net.now, NET_JOIN, 1)->value = UNLIMITED;
		net_run(2 * EPOCH - 1);
		assert_int_equal(a->used, 0);
		assert_int_equal(b->src.rate, 0);
		net_run(2 * EPOCH + 50 * NET_MS);
		assert_true(b->src.rate > 99 * MEGA);
	}
	net_clear();
}

/*
 * A source states a higher use than it was granted: a link that remembers it
 * drops the packet in either direction, so the source gets no further rate.
 */
UNIT_TEST(overuse_is_dropped)
{
	const u64 id[2] = { 1 };
	struct slbn_link_stats *stats;
	struct slbn_slot slot, was;
	struct slbn_packet pkt, lie;
	struct slbn_ledger before;
	struct slbn_source src;
	struct net_link *link;
	u32 n;

	net_clear();
	net.commit = true;
	net_add_link(100 * MEGA, NET_MS, EPOCH, 1);
	link = &net.links[0];
	stats = &link->stats;
	slbn_source_join(&src, id, 30 * MEGA, 1, 4);
	round_trip(&src, 0);
	assert_int_equal(src.rate, 30 * MEGA);
	slbn_source_transmit(&src, NET_MS);
	for (n = 0; n < 2; n++) {
		before = link->vars.cur;
		slot = src.slot[0];
		pkt = src.pkt;
		if (n) {
			net_core_process(link, 0, &pkt, &slot, NET_MS);
			slbn_destination_reply(&pkt);
			before = link->vars.cur;
		}
		lie = pkt;
		was = slot;
		/* What was granted may have been rounded up. */
		lie.use = 31 * MEGA;
		pkt = lie;
		assert_int_equal(net_core_process(link, 0, &lie, &slot, NET_MS),
				 SLBN_DROP_OVERUSE);
		assert_int_equal(stats->overuse, n + 1);
		assert_memory_equal(&lie, &pkt, sizeof(pkt));
		assert_memory_equal(&slot, &was, sizeof(slot));
		assert_memory_equal(&link->vars.cur, &before, sizeof(before));
	}
	/* Its ledger has ended, so the link does not know it any more. */
	lie = src.pkt;
	lie.use = 31 * MEGA;
	slot = src.slot[0];
	assert_int_equal(
		net_core_process(link, 0, &lie, &slot, 2 * EPOCH + NET_MS),
		SLBN_FORWARD);
	assert_int_equal(stats->overuse, 2);
	net_clear();
}

/*
 * Retransmissions come too early, and the memory has forgotten most sessions: it
 * is no less safe than none, and drops no packet as overuse.
 */
UNIT_TEST(early_copies_do_not_mislead_a_small_memory)
{
	u32 rounds = networks(120);
	u32 round, n;

	for (round = 0; round < rounds; round++) {
		bool restarts = one_in(3);

		draw_settings();
		net.checks = NET_CHECK_RATES;
		net.retry = rnd_in(10, 60) * NET_MS;
		make_network(rnd_in(1, 6), rnd_in(1, 30), 5, EPOCH,
			     restarts ? ALL_SESSIONS : rnd_in(1, 2),
			     1000 * NET_MS);
		for (n = 0; n < 10; n++) {
			net_run(net.now + rnd_in(1, 300) * NET_MS);
			disturb(restarts);
		}
		net_run(net.now + 1000 * NET_MS);
		for (n = 0; n < net.link_count; n++)
			assert_int_equal(net.links[n].stats.overuse, 0);
	}
	net_clear();
}

/* A link, and a session that is counted in its current ledger. */
static struct slbn_packet counted_at(struct net_link *link, u64 number,
				     struct slbn_slot *slot)
{
	struct slbn_packet pkt = {
		.id = { number, ~number },
		.type = SLBN_JOIN,
		.slots = 4,
		.bottleneck = SLBN_NO_HOP,
		.weight = 1,
		.bw = MEGA,
	};

	assert_int_equal(net_core_process(link, 0, &pkt, slot, 0),
			 SLBN_FORWARD);
	pkt.type = SLBN_PROBE;
	pkt.hop = 0;
	pkt.seq = 1;
	return pkt;
}

/*
 * Two links whose ledgers have the same tag: of the sessions that move from one to
 * the other, the second one takes one in 65,535 for its own, not all.
 */
UNIT_TEST(equal_tags_mislead_few_sessions)
{
	static const u32 sessions = 1000000;
	struct net_link *from, *to;
	u32 n;

	net_clear();
	net_add_link(100 * MEGA, NET_MS, 0, 0);
	net_add_link(100 * MEGA, NET_MS, 0, 0);
	from = &net.links[0];
	to = &net.links[1];
	to->vars.tag = from->vars.tag;
	for (n = 0; n < sessions; n++) {
		struct slbn_slot slot = { .tag = SLBN_NO_TAG };
		struct slbn_packet pkt = counted_at(from, n, &slot);
		u64 hash = slbn_session_hash(&from->params, &pkt);

		assert_int_not_equal(slot.tag, SLBN_NO_TAG);
		assert_int_equal(slbn_unmask_tag(slot.tag, hash),
				 from->vars.tag);
		net_core_process(to, 0, &pkt, &slot, 0);
	}
	n = sessions - to->stats.new_sessions;
	printf("# %u of %u sessions misled the link\n", n, sessions);
	/* 15 are expected; 1 to 40 with a probability of 1 - 10^-6. */
	assert_in_range(n, 1, 40);
	net_clear();
}

UNIT_MAIN()
