// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN's core without commit, headroom, epoch and memory, compared with the
 * tasks of the paper: figures 1 (source) and 2 (link) line by line, and the
 * destination, which the paper has in words.
 *
 * Both run on the same random networks. Each step calls one task of both, of a
 * random session: a request of its user, or the task that its packet is at. So
 * packets of different sessions interleave in any order. After each call, the
 * state of source and link, the packet and the rate are the same.
 *
 * Numbers are integers ("three integer variables"), so divisions round down.
 * Corrections to the printed tasks; a test shows that the core has each:
 *
 * 1. JOIN_COUNTS_ITSELF: line 5 of figure 2 divides by NR + 1. With NR, the
 *    first session in R divides by zero.
 * 2. DEMAND_IS_A_LINK: in line 22 of figure 1 the demand D is a link above hop 0,
 *    whose number is -1, as at the Join. As printed, a link keeps a session in R
 *    that only D restricts, and a session at b = -1 never grows after a Change.
 *
 * The core differs from the tasks where it cannot change a rate that they
 * assign: a lower demand and a Leave apply to the rate at once, not after the
 * cycle; a Leave is acknowledged; and its B loses the hops that it has passed.
 */
#include "unit.h"

#include <string.h>

#include <fairpath/slbn/slbn_core.h>

#define CALLS 1000000
#define CALLS_PER_NETWORK 10000
#define LINKS 20
#define SESSIONS 60
#define HOPS 8
#define NOWHERE -1

enum {
	JOIN_COUNTS_ITSELF = 1,
	DEMAND_IS_A_LINK = 2,
	ALL_CORRECTIONS = 3,
};

static unsigned int corrections;

/* (s, bw'', bw', bw, B, b); hop e is bit e of B. */
struct printed_packet {
	enum {
		Join,
		Probe,
		ProbeAck,
		Leave
	} type;
	s64 bw2, bw1, bw;
	u64 B;
	int b;
};

struct printed_source {
	s64 D;
	bool pendLeave;
	s64 Rate;
};

struct printed_link {
	s64 C;
	s64 BF, NR, N;
};

/* Without a session in R, the first term has no bound. */
static s64 share_of(const struct printed_link *l, s64 NR)
{
	s64 equal = l->C / l->N;

	if (!NR)
		return l->C > l->BF ? INT64_MAX : equal;
	return (l->C - l->BF) / NR > equal ? (l->C - l->BF) / NR : equal;
}

static s64 min_of(s64 a, s64 b)
{
	return a < b ? a : b;
}

/* Figure 1, lines 4 to 7. */
static void printed_join(struct printed_source *src, s64 r,
			 struct printed_packet *pkt)
{
	src->D = r;
	src->pendLeave = false;
	*pkt = (struct printed_packet){ Join, 0, 0, src->D, 0, -1 };
}

/* Figure 1, lines 17 to 24. */
static void printed_source_ack(struct printed_source *src,
			       struct printed_packet *pkt)
{
	s64 bw2 = pkt->bw1, bw1 = pkt->bw, bw = min_of(pkt->bw, src->D);

	if (src->pendLeave) {
		pkt->type = Leave;
		return;
	}
	src->Rate = pkt->bw;
	if (corrections & DEMAND_IS_A_LINK) {
		src->Rate = bw;
		bw1 = bw;
		if (pkt->b == -1 || pkt->bw >= src->D) {
			pkt->b = -1;
			bw = src->D;
		}
	}
	pkt->type = Probe;
	pkt->bw2 = bw2;
	pkt->bw1 = bw1;
	pkt->bw = bw;
}

/* Figure 2, lines 4 to 10. */
static void printed_link_join(struct printed_link *l, int e,
			      struct printed_packet *pkt)
{
	s64 shBW;

	l->N = l->N + 1;
	shBW = share_of(l,
			corrections & JOIN_COUNTS_ITSELF ? l->NR + 1 : l->NR);
	if (pkt->bw > shBW) {
		pkt->B |= 1ULL << e;
		pkt->b = e;
		l->NR = l->NR + 1;
	}
}

/* Figure 2, lines 12 to 25, and 27 to 40, which differ in @before. */
static void printed_link_probe(struct printed_link *l, int e,
			       struct printed_packet *pkt, s64 before)
{
	s64 shBW;

	if (pkt->B & 1ULL << e) {
		pkt->B &= ~(1ULL << e);
	} else {
		l->BF = l->BF - before;
		l->NR = l->NR + 1;
	}
	CHECK(l->NR > 0 && l->BF >= 0, "NR %lld BF %lld", l->NR, l->BF);
	shBW = share_of(l, l->NR);
	if (e == pkt->b || pkt->bw > shBW) {
		pkt->B |= 1ULL << e;
		pkt->bw = shBW;
		pkt->b = e;
	} else {
		l->BF = l->BF + pkt->bw1;
		l->NR = l->NR - 1;
	}
}

/* Figure 2, lines 42 to 50. */
static void printed_link_leave(struct printed_link *l, int e,
			       const struct printed_packet *pkt)
{
	if (pkt->B & 1ULL << e)
		l->NR = l->NR - 1;
	else
		l->BF = l->BF - pkt->bw1;
	l->N = l->N - 1;
}

static void printed_link_process(struct printed_link *l, int e,
				 struct printed_packet *pkt)
{
	switch (pkt->type) {
	case Join:
		printed_link_join(l, e, pkt);
		break;
	case Probe:
		printed_link_probe(l, e, pkt, pkt->bw2);
		break;
	case ProbeAck:
		printed_link_probe(l, e, pkt, pkt->bw1);
		break;
	case Leave:
		printed_link_leave(l, e, pkt);
		break;
	}
}

/**
 * struct both - a session in the core and in the paper's tasks
 * @hops: length of @path
 * @path: links
 * @at: hop, or @hops for the destination, whose task is next on the way down; on
 *	the way back, NOWHERE for the source
 * @up: the packet is on its way back
 * @active: it has a packet in the network
 * @core: core's source
 * @core_packet: core's packet
 * @slot: its slots
 * @source: paper's source
 * @packet: paper's packet
 */
struct both {
	int hops;
	int path[HOPS];
	int at;
	bool up;
	bool active;
	struct slbn_source core;
	struct slbn_packet core_packet;
	struct slbn_slot slot[HOPS];
	struct printed_source source;
	struct printed_packet packet;
};

static struct {
	int links, sessions;
	struct slbn_link_params params[LINKS];
	struct slbn_link_vars vars[LINKS];
	struct slbn_link_stats stats[LINKS];
	struct printed_link link[LINKS];
	struct both session[SESSIONS];
} nets;

/* From a few bit/s, with many ties, to the largest capacity. */
static u64 random_rate(u64 largest)
{
	return 1 + rnd() % (largest >> rnd_in(0, 4));
}

static void random_network(void)
{
	static const u64 largest[] = { 16, 1000, 1000000000, 1000000000000 };
	u64 most = largest[rnd_in(0, ARRAY_SIZE(largest) - 1)];
	int n, hop;

	memset(&nets, 0, sizeof(nets));
	nets.links = rnd_in(1, LINKS);
	nets.sessions = rnd_in(1, SESSIONS);
	for (n = 0; n < nets.links; n++) {
		u64 C = random_rate(most);

		nets.params[n].C = C;
		nets.params[n].P = C;
		slbn_link_init(&nets.vars[n], 0, 0, (u32)rnd());
		nets.link[n].C = (s64)C;
	}
	for (n = 0; n < nets.sessions; n++) {
		struct both *one = &nets.session[n];
		int first = rnd_in(0, nets.links - 1);

		/* Different links, in any order of any two of them. */
		one->hops = rnd_in(1, nets.links < HOPS ? nets.links : HOPS);
		for (hop = 0; hop < one->hops; hop++)
			one->path[hop] = (first + hop) % nets.links;
		for (hop = one->hops - 1; hop > 0; hop--) {
			int other = rnd_in(0, hop), link = one->path[hop];

			one->path[hop] = one->path[other];
			one->path[other] = link;
		}
	}
}

static u64 random_demand(const struct both *one)
{
	u64 C = nets.params[one->path[0]].C;

	return one_in(3) ? SLBN_RATE_MAX : 1 + rnd() % (2 * C);
}

static void down(struct both *one)
{
	slbn_source_transmit(&one->core, 0);
	one->core_packet = one->core.pkt;
	memcpy(one->slot, one->core.slot, sizeof(one->slot));
	one->up = false;
	one->at = 0;
}

static void call_join(struct both *one)
{
	const u64 id[2] = { rnd(), rnd() };
	u64 r = random_demand(one);

	slbn_source_join(&one->core, id, r, 1, HOPS);
	printed_join(&one->source, (s64)r, &one->packet);
	one->active = true;
	down(one);
}

static void call_change(struct both *one)
{
	u64 r = random_demand(one);

	slbn_source_change(&one->core, r);
	one->source.D = (s64)r;
}

static void call_leave(struct both *one)
{
	slbn_source_leave(&one->core);
	one->source.pendLeave = true;
}

/* Returns whether both are the same. */
static bool call_source_ack(struct both *one)
{
	enum slbn_source_event event =
		slbn_source_ack(&one->core, &one->core_packet, one->slot, 0);
	bool leaving = one->source.pendLeave;

	if (event == SLBN_SESSION_OVER) {
		one->active = false;
		return one->packet.type == Leave;
	}
	printed_source_ack(&one->source, &one->packet);
	down(one);
	return event == SLBN_CYCLE_DONE &&
	       (leaving || (u64)one->source.Rate == one->core.rate);
}

static bool call_link(struct both *one)
{
	int n = one->path[one->at];
	struct printed_link *printed = &nets.link[n];
	const struct slbn_ledger *core = &nets.vars[n].cur;

	assert_int_equal(slbn_link_process(&nets.params[n], &nets.vars[n],
					   &nets.stats[n], &one->core_packet,
					   &one->slot[one->at], 0),
			 SLBN_FORWARD);
	/* The paper's destination has dropped the Leave. */
	if (one->core_packet.type != SLBN_LEAVE_ACK)
		printed_link_process(printed, one->at, &one->packet);
	one->at += one->up ? -1 : 1;
	return (u64)printed->BF == core->BF && (u64)printed->NR == core->NR &&
	       (u64)printed->N == core->N;
}

static bool call_destination(struct both *one)
{
	if (one->packet.type != Leave)
		one->packet.type = ProbeAck;
	one->up = true;
	one->at = one->hops - 1;
	return slbn_destination_reply(&one->core_packet);
}

static bool same_packet(const struct both *one)
{
	static const enum slbn_type types[] = {
		[Join] = SLBN_JOIN,
		[Probe] = SLBN_PROBE,
		[ProbeAck] = SLBN_PROBE_ACK,
		[Leave] = SLBN_LEAVE,
	};
	const struct printed_packet *printed = &one->packet;
	const struct slbn_packet *core = &one->core_packet;
	int b = core->bottleneck == SLBN_NO_HOP ? -1 : core->bottleneck;

	if (core->type == SLBN_LEAVE_ACK || !one->active)
		return true;
	/* No task reads a Leave's bw, or its B of hops that it has passed. */
	if (core->type == SLBN_LEAVE)
		return printed->type == Leave &&
		       core->bw1 == (u64)printed->bw1 &&
		       core->B >> one->at == printed->B >> one->at;
	return core->type == types[printed->type] &&
	       core->bw2 == (u64)printed->bw2 &&
	       core->bw1 == (u64)printed->bw1 && core->bw == (u64)printed->bw &&
	       core->B == printed->B && b == printed->b;
}

/* Call a random task of a random session; return whether both are the same. */
static bool random_call(void)
{
	struct both *one = &nets.session[rnd_in(0, nets.sessions - 1)];
	bool same = true;

	unit_step++;
	if (!one->active)
		call_join(one);
	else if (!one->source.pendLeave && one_in(100))
		call_change(one);
	else if (!one->source.pendLeave && one_in(400))
		call_leave(one);
	else if (one->at == NOWHERE)
		same = call_source_ack(one);
	else if (one->at == one->hops)
		same = call_destination(one);
	else
		same = call_link(one);
	return same && same_packet(one);
}

/* Let all sessions leave, in turn; the links are then empty. */
static void drain(void)
{
	int n;

	for (n = 0; n < nets.sessions; n++) {
		struct both *one = &nets.session[n];

		if (one->active && !one->source.pendLeave)
			call_leave(one);
		while (one->active) {
			bool same = one->at == NOWHERE ? call_source_ack(one) :
				    one->at == one->hops ?
							 call_destination(one) :
							 call_link(one);

			unit_step++;
			CHECK(same && same_packet(one), "session %d leaves", n);
		}
	}
	for (n = 0; n < nets.links; n++)
		CHECK(!nets.link[n].BF && !nets.link[n].NR && !nets.link[n].N,
		      "link %d is not empty", n);
}

/* 10^6 calls of tasks have the same effect in the core and in the paper. */
UNIT_TEST(paper_form_is_the_paper)
{
	u64 next;

	corrections = ALL_CORRECTIONS;
	while (unit_step < CALLS) {
		random_network();
		for (next = unit_step + CALLS_PER_NETWORK; unit_step < next;)
			CHECK(random_call(), "core and paper differ");
		drain();
	}
}

/* Without any one of the corrections, there are differences. */
UNIT_TEST(core_has_each_correction)
{
	unsigned int without;

	for (without = 1; without < ALL_CORRECTIONS; without <<= 1) {
		u64 last = unit_step + CALLS;

		corrections = ALL_CORRECTIONS & ~without;
		random_network();
		do {
			CHECK(unit_step < last, "correction %u", without);
			if (unit_step % 1000 == 0)
				random_network();
		} while (random_call());
	}
}

UNIT_MAIN()
