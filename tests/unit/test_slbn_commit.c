// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN's commit in networks: what it promises at each step, the rates at which
 * it settles, and each step compared with a second implementation.
 */
#include "unit.h"

#include "slbn_net.h"

#define EPOCH (1000 * NET_MS)
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
	if (up && !counted && pkt->type != SLBN_LEAVE_ACK)
		return false;
	pkt->hop = up ? hop : hop + 1;
	if (pkt->type == SLBN_LEAVE_ACK)
		return true;
	session->seen = true;
	session->seq = pkt->seq;
	session->counted = false;
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

/* A link restarts and grants no rises for an epoch. */
static void restart_link(struct net_link *link)
{
	slbn_link_init(&link->vars, net.now, net.now + link->params.epoch,
		       (u32)rnd());
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
static void commit_matches_its_rules(void **state)
{
	static const u32 losses[] = { 0, 1000, 10000, 50000 };
	u32 round, n;

	(void)state;
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
static void links_are_never_promised_twice(void **state)
{
	static const u32 losses[] = { 0, 0, 1000, 10000, 50000 };
	static const u32 rows[] = { 0, 1, ALL_SESSIONS, ALL_SESSIONS };
	u32 rounds = networks(250);
	u64 lapsed = 0, packets = 0;
	u32 round, n;

	(void)state;
	for (round = 0; round < rounds; round++) {
		u32 memory = rows[rnd_in(0, ARRAY_SIZE(rows) - 1)];
		bool restarts = one_in(2);
		bool exact;

		draw_settings();
		net.loss = losses[rnd_in(0, ARRAY_SIZE(losses) - 1)];
		exact = memory == ALL_SESSIONS || (!net.loss && !restarts);
		net.checks = exact ? NET_CHECK_ALL :
				     NET_CHECK_RATES | NET_CHECK_HELD;
		make_network(rnd_in(1, 8), rnd_in(1, 30), 7, EPOCH, memory,
			     rnd_in(1, 1000) * NET_MS);
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
static void rates_are_weighted_max_min(void **state)
{
	u32 round;

	(void)state;
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

static const struct CMUnitTest tests[] = {
	UNIT_TEST(commit_matches_its_rules),
	UNIT_TEST(links_are_never_promised_twice),
	UNIT_TEST(rates_are_weighted_max_min),
};

UNIT_MAIN(tests)
