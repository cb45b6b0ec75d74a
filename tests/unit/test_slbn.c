// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN's tasks in networks, compared with the max-min reference and with the
 * algorithm as printed in the paper.
 */
#include "unit.h"

#include "slbn_net.h"

#define MEGA 1000000ULL
#define UNLIMITED SLBN_RATE_MAX

/* Accepted deviation of rates: the sum of the remainders of divisions. */
#define CLOSE_BITS 64

static u64 random_demand(void)
{
	return one_in(3) ? rnd_in(1, 90) * MEGA + rnd_in(0, 999999) : UNLIMITED;
}

/* Create a random network; every session joins within @spread ns. */
static void make_network(u32 links, u32 sessions, u32 hops, u64 epoch, u32 rows,
			 u64 spread)
{
	u32 n;

	net_clear();
	for (n = 0; n < links; n++)
		net_add_link(rnd_in(100, 1000) * MEGA + rnd_in(0, 999999),
			     rnd_in(1000000, 10000000), epoch, rows);
	for (n = 0; n < sessions; n++) {
		net_add_session(rnd_in(1, hops < links ? hops : links));
		net_schedule(rnd() % spread, NET_JOIN, n)->value =
			random_demand();
	}
}

/* Half of the sessions leave or change their demand within @spread ns. */
static void churn(u64 spread)
{
	u32 n;

	for (n = 0; n < net.session_count; n++) {
		u64 when = net.now + rnd() % spread;

		if (one_in(4))
			net_schedule(when, NET_LEAVE, n);
		else if (one_in(3))
			net_schedule(when, NET_CHANGE, n)->value =
				random_demand();
	}
}

/*
 * Figure 2 as printed, with the corrections listed in slbn_core.h: B of the
 * packet as a set, BF that may fall below zero, no ledgers.
 */
static struct paper_link {
	s64 BF, NR, N;
} paper[NET_LINKS];

static s64 paper_share(const struct paper_link *link, u64 C)
{
	s64 restricted = ((s64)C - link->BF) / link->NR;
	s64 equal = (s64)C / link->N;

	return (s64)C > link->BF && restricted > equal ? restricted : equal;
}

static void paper_process(struct paper_link *link, u64 C,
			  struct slbn_packet *pkt)
{
	bool up = slbn_is_upstream(pkt);
	u8 e = up ? pkt->hop - 1 : pkt->hop;
	bool in_B = pkt->B >> e & 1;
	s64 share;

	pkt->hop = up ? e : e + 1;
	switch (pkt->type) {
	case SLBN_JOIN:
		link->N++;
		link->NR++;
		share = paper_share(link, C);
		if ((s64)pkt->bw > share) {
			pkt->B |= 1ULL << e;
			pkt->bottleneck = e;
		} else {
			link->NR--;
		}
		break;
	case SLBN_PROBE:
	case SLBN_PROBE_ACK:
		if (in_B) {
			pkt->B -= 1ULL << e;
		} else {
			link->BF -= up ? pkt->bw1 : pkt->bw2;
			link->NR++;
		}
		share = paper_share(link, C);
		if (pkt->bottleneck == e || (s64)pkt->bw > share) {
			pkt->B |= 1ULL << e;
			pkt->bw = share;
			pkt->bottleneck = e;
		} else {
			link->BF += pkt->bw1;
			link->NR--;
		}
		break;
	case SLBN_LEAVE:
		if (in_B) {
			pkt->B -= 1ULL << e;
			link->NR--;
		} else {
			link->BF -= pkt->bw1;
		}
		link->N--;
		break;
	default:
		break;
	}
}

static enum slbn_verdict process_both(struct net_link *link, u32 session,
				      struct slbn_packet *pkt,
				      struct slbn_slot *slot, u64 now)
{
	struct paper_link *printed = &paper[link - net.links];
	struct slbn_packet copy = *pkt;

	assert_int_equal(net_core_process(link, session, pkt, slot, now),
			 SLBN_FORWARD);
	paper_process(printed, link->params.C, &copy);
	CHECK(copy.hop == pkt->hop && copy.bottleneck == pkt->bottleneck &&
		      copy.B == pkt->B && copy.bw == pkt->bw,
	      "type %u hop %u: b %u B %llx bw %llu, printed: %u %llx %llu",
	      pkt->type, pkt->hop, pkt->bottleneck, pkt->B, pkt->bw,
	      copy.bottleneck, copy.B, copy.bw);
	CHECK((u64)printed->BF == link->vars.cur.BF &&
		      (u64)printed->NR == link->vars.cur.NR &&
		      (u64)printed->N == link->vars.cur.N,
	      "BF %llu NR %llu N %llu, printed: %lld %lld %lld",
	      link->vars.cur.BF, link->vars.cur.NR, link->vars.cur.N,
	      printed->BF, printed->NR, printed->N);
	return SLBN_FORWARD;
}

/* Without epoch and memory, each step has the paper's result. */
static void paper_form_matches_the_paper(void **state)
{
	u32 round;

	(void)state;
	for (round = 0; round < 40; round++) {
		make_network(rnd_in(1, 20), rnd_in(1, 100), 7, 0, 0,
			     300 * NET_MS);
		net.process = process_both;
		memset(paper, 0, sizeof(paper));
		net_run(1000 * NET_MS);
		churn(1000 * NET_MS);
		net_run(3000 * NET_MS);
	}
	net_clear();
}

static void expect_exact(const char *when, double part)
{
	struct net_error error = net_error();

	CHECK(error.bits <= CLOSE_BITS || error.part <= part,
	      "%s: %g bit/s, %g of the rate", when, error.bits, error.part);
}

static void expect_empty_links(void)
{
	u32 n;

	for (n = 0; n < net.link_count; n++) {
		const struct slbn_link_vars *vars = &net.links[n].vars;

		CHECK(!(vars->cur.BF | vars->cur.NR | vars->cur.N |
			vars->prev.BF | vars->prev.NR | vars->prev.N),
		      "link %u is not empty", n);
		CHECK(!net.links[n].stats.clamped, "link %u was clamped", n);
	}
}

/* After joins, leaves and changes, rates settle at the max-min reference. */
static void rates_are_max_min(void **state)
{
	u32 round, n;

	(void)state;
	for (round = 0; round < 120; round++) {
		bool ledgers = round % 2;

		make_network(rnd_in(1, 12), rnd_in(1, 60), 6,
			     ledgers ? 1000 * NET_MS : 0, ledgers ? 64 : 0,
			     300 * NET_MS);
		net_run(2500 * NET_MS);
		expect_exact("joined", 0);
		churn(500 * NET_MS);
		net_run(5500 * NET_MS);
		expect_exact("churned", 0);
		for (n = 0; n < net.session_count; n++)
			if (net_counts(&net.sessions[n]))
				net_schedule(net.now, NET_LEAVE, n);
		net_run(8000 * NET_MS);
		expect_empty_links();
	}
	net_clear();
}

/**
 * struct tally - results of many tiny networks
 * @networks: number of networks
 * @moving: networks that never settled
 * @far: networks in @moving with a rate off by more than 1 bit/s per session
 * @bits: largest difference of settled networks, bit/s
 * @per_level: the same, divided by the levels of bottlenecks of the rate
 * @per_session: the same, divided by the number of sessions
 * @moving_bits: largest difference of networks in @moving, except @far, bit/s
 */
struct tally {
	u32 networks;
	u32 moving;
	u32 far;
	double bits;
	double per_level;
	double per_session;
	double moving_bits;
};

static void tally_add(struct tally *tally, struct tiny_result result)
{
	tally->networks++;
	if (!result.settled) {
		tally->moving++;
		if (result.bits > net.session_count)
			tally->far++;
		else
			tally->moving_bits =
				fmax(tally->moving_bits, result.bits);
		return;
	}
	tally->bits = fmax(tally->bits, result.bits);
	tally->per_level = fmax(tally->per_level, result.per_level);
	tally->per_session =
		fmax(tally->per_session, result.bits / net.session_count);
}

static void tally_print(const char *what, const struct tally *tally)
{
	printf("# %-36s %8u %6.2f %7.2f %9.2f %6u %9.2f %4u\n", what,
	       tally->networks, tally->bits, tally->per_level,
	       tally->per_session, tally->moving, tally->moving_bits,
	       tally->far);
}

static void tally_head(void)
{
	printf("# %-36s %8s %6s %7s %9s %6s %9s %4s\n", "", "networks", "bit/s",
	       "a level", "a session", "moving", "by bit/s", "far");
}

/* All networks with these numbers of links and sessions, all join orders. */
static void every_network(struct tally *tally, u32 links, u32 sessions,
			  bool ledgers)
{
	static const u64 capacities[] = { 100, 101, 250 };
	static const u64 asked[] = { UNLIMITED, 33, 50 };
	u32 paths = (1U << links) - 1;
	u64 count = 1, number;
	u32 n, link;

	for (n = 0; n < links; n++)
		count *= ARRAY_SIZE(capacities);
	for (n = 0; n < sessions; n++)
		count *= paths * ARRAY_SIZE(asked);
	for (number = 0; number < count; number++) {
		u64 demands[NET_LINKS];
		u64 rest = number;

		for (n = 0; n < links; n++) {
			tiny_link(n, capacities[rest % ARRAY_SIZE(capacities)],
				  NET_MS, ledgers);
			rest /= ARRAY_SIZE(capacities);
		}
		for (n = 0; n < sessions; n++) {
			struct net_session *session = &net.sessions[n];
			u32 path = rest % paths + 1;

			rest /= paths;
			demands[n] = asked[rest % ARRAY_SIZE(asked)];
			rest /= ARRAY_SIZE(asked);
			session->hops = 0;
			for (link = 0; link < links; link++)
				if (path >> link & 1)
					session->path[session->hops++] = link;
		}
		net.link_count = links;
		net.session_count = sessions;
		tally_add(tally, tiny_run(demands, NET_MS * 3 / 10));
	}
	net.link_count = 0;
}

/* All networks of up to three links and sessions settle within 1 bit/s. */
static void small_networks_settle_within_a_bit(void **state)
{
	static const struct {
		const char *name;
		u64 pause;
		bool ledgers;
	} ways[] = {
		{ "the paper's form, no pause", 0, false },
		{ "the paper's form, random pause", 5 * NET_MS, false },
		{ "ledgers and memory, random pause", 5 * NET_MS, true },
	};
	u32 n, links, sessions;

	(void)state;
	tally_head();
	for (n = 0; n < ARRAY_SIZE(ways); n++) {
		struct tally tally = { 0 };

		net_clear();
		net.pause = ways[n].pause;
		for (links = 1; links <= 3; links++)
			for (sessions = 1; sessions <= 3; sessions++)
				every_network(&tally, links, sessions,
					      ways[n].ledgers);
		tally_print(ways[n].name, &tally);
		assert_int_equal(tally.moving, 0);
		CHECK(tally.bits <= 1, "%s: %g bit/s", ways[n].name,
		      tally.bits);
	}
	net_clear();
}

/* Run a network of 2 to 6 links and 2 to 10 sessions, with many ties. */
static void random_tiny_network(struct tally *tally, u64 unit, bool ledgers)
{
	u64 demands[NET_LINKS];
	u64 choice[3];
	bool alike = one_in(2);
	u32 n;

	for (n = 0; n < ARRAY_SIZE(choice); n++)
		choice[n] =
			rnd_in(10, 1000) * unit + (unit > 1 ? rnd() % unit : 0);
	net.link_count = rnd_in(2, 6);
	for (n = 0; n < net.link_count; n++)
		tiny_link(n, choice[rnd_in(0, ARRAY_SIZE(choice) - 1)],
			  alike ? 2 * NET_MS : rnd_in(1000000, 10000000),
			  ledgers);
	memset(net.sessions, 0, 10 * sizeof(*net.sessions));
	net.session_count = 0;
	for (n = rnd_in(2, 10); n; n--) {
		demands[net.session_count] =
			one_in(4) ? choice[0] / rnd_in(2, 8) + 1 : UNLIMITED;
		net_add_session(rnd_in(1, net.link_count));
	}
	tally_add(tally, tiny_run(demands, one_in(2) ? 0 : rnd_in(0, NET_MS)));
	net.link_count = 0;
}

/*
 * How often rates never settle, and their distance to the max-min reference;
 * the environment variable SLBN_NETWORKS is the number of networks. Without a
 * pause two sessions can alternate for ever, see docs/slbn-accuracy.md.
 */
static void tiny_networks_jitter_by_a_few_bits(void **state)
{
	static const struct {
		const char *name;
		u64 unit;
		u64 pause;
		bool ledgers;
	} ways[] = {
		{ "10 to 1000 bit/s, no pause", 1, 0, false },
		{ "10 to 1000 bit/s, random pause", 1, 5 * NET_MS, false },
		{ "10 Mbit/s to 1 Gbit/s, no pause", MEGA, 0, false },
		{ "10 Mbit/s to 1 Gbit/s, random pause", MEGA, 5 * NET_MS,
		  false },
		{ "the same, with ledgers and memory", MEGA, 5 * NET_MS, true },
	};
	const char *text = getenv("SLBN_NETWORKS");
	u32 networks = text ? (u32)strtoul(text, NULL, 0) : 20000;
	u32 n;

	(void)state;
	tally_head();
	for (n = 0; n < ARRAY_SIZE(ways); n++) {
		struct tally tally = { 0 };

		net_clear();
		net.pause = ways[n].pause;
		while (tally.networks < networks)
			random_tiny_network(&tally, ways[n].unit,
					    ways[n].ledgers);
		tally_print(ways[n].name, &tally);
		/* The deviation is the remainders of the divisions. */
		CHECK(tally.per_session < 1, "%s: %g bit/s", ways[n].name,
		      tally.bits);
		if (!ways[n].pause)
			continue;
		CHECK(tally.moving <= networks / 1000 && !tally.far,
		      "%s: %u move, %u are far", ways[n].name, tally.moving,
		      tally.far);
	}
	net_clear();
}

/* Rates that have settled stay correct with continuous losses. */
static void losses_do_not_change_settled_rates(void **state)
{
	static const u32 losses[] = { 1000, 10000, 50000 };
	u32 n, second;

	(void)state;
	for (n = 0; n < ARRAY_SIZE(losses); n++) {
		make_network(40, 300, 7, 1000 * NET_MS, 256, 300 * NET_MS);
		net.loss = losses[n];
		net_run(8000 * NET_MS);
		for (second = 0; second < 10; second++) {
			expect_exact("with losses", 1e-4);
			net_run(net.now + 1000 * NET_MS);
		}
	}
	net_clear();
}

/* The paper's form does not recover from losses: hence the ledgers. */
static void paper_form_does_not_recover_from_losses(void **state)
{
	(void)state;
	make_network(40, 300, 7, 0, 0, 300 * NET_MS);
	net.loss = 10000;
	net_run(8000 * NET_MS);
	net.loss = 0;
	net_run(12000 * NET_MS);
	assert_true(net_error().part > 0.1);
	net_clear();
}

static void kill_sessions(void)
{
	u32 n;

	for (n = 0; n < net.session_count; n += 10)
		net_schedule(net.now, NET_DIE, n);
}

static void restart_links(void)
{
	u32 n;

	for (n = 0; n < net.link_count; n += 4) {
		struct net_link *link = &net.links[n];

		slbn_link_init(&link->vars, net.now, 0, (u32)rnd());
		memset(link->vars.memory, 0,
		       link->params.rows * SLBN_MEMORY_WAYS *
			       sizeof(struct slbn_memory_entry));
	}
}

static void reroute_sessions(void)
{
	u32 n;

	for (n = 0; n < net.session_count; n += 10) {
		struct net_session *session = &net.sessions[n];
		u32 hop = rnd_in(0, session->hops - 1);
		u32 link = rnd_in(0, net.link_count - 1);
		u32 other;

		for (other = 0; other < session->hops; other++)
			if (session->path[other] == link)
				break;
		if (other == session->hops)
			session->path[hop] = link;
	}
}

static void corrupt_ledgers(void)
{
	u32 n;

	for (n = 0; n < net.link_count; n += 3) {
		struct slbn_ledger *ledger = one_in(2) ?
						     &net.links[n].vars.cur :
						     &net.links[n].vars.prev;

		ledger->BF = one_in(2) ? 0 : rnd() % SLBN_RATE_MAX;
		ledger->NR = rnd_size(0, 1000000);
		ledger->N = rnd_size(0, 1000000);
	}
}

/* Rates are correct two epochs and some cycles after any fault. */
static void rates_recover_from_faults(void **state)
{
	static void (*const faults[])(void) = {
		kill_sessions,
		restart_links,
		reroute_sessions,
		corrupt_ledgers,
	};
	u32 n, round;

	(void)state;
	for (round = 0; round < 6; round++) {
		make_network(rnd_in(8, 40), rnd_in(20, 200), 7, 1000 * NET_MS,
			     256, 300 * NET_MS);
		net_run(3000 * NET_MS);
		for (n = 0; n < ARRAY_SIZE(faults); n++) {
			faults[n]();
			net_run(net.now + 4500 * NET_MS);
			expect_exact("recovered", 0);
		}
	}
	net_clear();
}

static struct slbn_packet random_packet(struct slbn_slot *slots)
{
	struct slbn_packet pkt = {
		.id = { rnd(), rnd() },
		.seq = (u32)rnd(),
		.type = rnd_in(1, SLBN_TYPE_MAX),
		.slots = rnd_in(1, SLBN_HOPS_MAX),
		.again = one_in(2),
		.weight = rnd_size(1, SLBN_WEIGHT_MAX),
		.epoch = (u32)rnd(),
		.bw2 = rnd() % (SLBN_RATE_MAX + 1),
		.bw1 = rnd() % (SLBN_RATE_MAX + 1),
		.bw = rnd() % (SLBN_RATE_MAX + 1),
		.use1 = rnd() % (SLBN_RATE_MAX + 1),
		.use = rnd() % (SLBN_RATE_MAX + 1),
		.g = rnd() % (SLBN_RATE_MAX + 1),
	};
	u32 n;

	pkt.hop = rnd_in(0, pkt.slots);
	pkt.bottleneck = one_in(3) ? SLBN_NO_HOP : rnd_in(0, pkt.slots - 1U);
	pkt.B = rnd() >> (64 - pkt.slots);
	for (n = 0; n < pkt.slots; n++) {
		slots[n].tag = (u16)rnd();
		slots[n].code = (u16)rnd();
	}
	return pkt;
}

/* Parse a copy of exact size: the sanitizer finds reads beyond its end. */
static enum slbn_parse_result parse_copy(const u8 *data, u32 length,
					 struct slbn_packet *pkt,
					 struct slbn_layout *layout)
{
	u8 *copy = malloc(length ? length : 1);
	enum slbn_parse_result result;

	assert_non_null(copy);
	memcpy(copy, data, length);
	result = slbn_parse_packet(length ? copy : copy + 1, length, pkt,
				   layout);
	free(copy);
	return result;
}

static void built_packets_parse_to_the_same(void **state)
{
	(void)state;
	for (; unit_step < 200000; unit_step++) {
		struct slbn_slot slots[SLBN_HOPS_MAX];
		u8 data[SLBN_LENGTH_MAX];
		bool auth = one_in(2);
		struct slbn_packet pkt = random_packet(slots);
		struct slbn_packet got = { .seq = 0 };
		struct slbn_layout layout;
		struct slbn_layout built;
		u32 length;
		u8 hop;

		slbn_build_packet(data, &pkt, slots, auth, &built);
		length = built.length;
		assert_int_equal(length, 96 + 4 * pkt.slots + 16 * auth);
		assert_int_equal(parse_copy(data, length, &got, &layout),
				 SLBN_PARSE_OK);
		assert_memory_equal(got.id, pkt.id, sizeof(pkt.id));
		assert_true(got.seq == pkt.seq && got.type == pkt.type &&
			    got.hop == pkt.hop && got.slots == pkt.slots &&
			    got.bottleneck == pkt.bottleneck &&
			    got.B == pkt.B && got.bw2 == pkt.bw2 &&
			    got.bw1 == pkt.bw1 && got.bw == pkt.bw &&
			    got.again == pkt.again &&
			    got.weight == pkt.weight &&
			    got.epoch == pkt.epoch && got.use1 == pkt.use1 &&
			    got.use == pkt.use && got.g == pkt.g);
		assert_int_equal(layout.length, length);
		assert_int_equal(layout.auth, auth ? length - 8 : 0);
		assert_memory_equal(&layout, &built, sizeof(layout));
		for (hop = 0; hop < pkt.slots; hop++) {
			struct slbn_slot slot =
				slbn_get_slot(data, &layout, hop);

			assert_memory_equal(&slot, &slots[hop], sizeof(slot));
		}
	}
}

/* Truncated, extended and changed packets: rejected, or in all ranges. */
static void parsed_packets_are_in_range(void **state)
{
	u32 valid = 0;

	(void)state;
	for (; unit_step < 1000000; unit_step++) {
		struct slbn_slot slots[SLBN_HOPS_MAX];
		u8 data[SLBN_LENGTH_MAX + 64];
		struct slbn_packet pkt = random_packet(slots);
		struct slbn_layout layout;
		u32 changes = rnd_in(0, 3);
		u32 length;

		slbn_build_packet(data, &pkt, slots, one_in(2), &layout);
		length = layout.length;
		while (length < sizeof(data) && one_in(2))
			data[length++] = (u8)rnd();
		if (one_in(2))
			slbn_put16(data + SLBN_AT(length), (u16)length);
		while (changes--)
			data[rnd_in(0, length - 1)] = (u8)rnd_size(0, 255);
		if (one_in(4))
			length = rnd_in(0, length);
		if (parse_copy(data, length, &pkt, &layout) != SLBN_PARSE_OK)
			continue;
		valid++;
		assert_in_range(pkt.type, 1, SLBN_TYPE_MAX);
		assert_in_range(pkt.slots, 1, SLBN_HOPS_MAX);
		assert_true(pkt.hop <= pkt.slots);
		assert_in_range(pkt.weight, 1, SLBN_WEIGHT_MAX);
		assert_true(pkt.bottleneck < pkt.slots ||
			    pkt.bottleneck == SLBN_NO_HOP);
		assert_true(pkt.slots == 64 || pkt.B >> pkt.slots == 0);
		assert_true(pkt.use1 <= SLBN_RATE_MAX &&
			    pkt.use <= SLBN_RATE_MAX && pkt.g <= SLBN_RATE_MAX);
		assert_true(pkt.bw <= SLBN_RATE_MAX &&
			    pkt.bw1 <= SLBN_RATE_MAX &&
			    pkt.bw2 <= SLBN_RATE_MAX);
		assert_true(layout.length <= length);
		assert_true(layout.auth + 8 <= layout.length);
	}
	assert_in_range(valid, 100000, 900000);
}

/* The share stays in range with any valid packets, and then recovers. */
static void links_recover_from_forged_packets(void **state)
{
	u32 round, n;

	(void)state;
	for (round = 0; round < 4; round++) {
		make_network(6, 30, 4, 1000 * NET_MS, 64, 100 * NET_MS);
		net_run(1500 * NET_MS);
		for (n = 0; n < 100000; n++, unit_step++) {
			struct net_link *link =
				&net.links[rnd_in(0, net.link_count - 1)];
			struct slbn_slot slots[SLBN_HOPS_MAX];
			struct slbn_packet pkt = random_packet(slots);
			struct slbn_slot slot = slots[0];

			if (one_in(2))
				slot.tag = link->vars.tag;
			if (one_in(4))
				pkt.id[0] = pkt.id[1] = rnd_in(0, 99);
			slbn_link_process(&link->params, &link->vars,
					  &link->stats, &pkt, &slot, net.now);
			assert_true(slbn_link_share(&link->params, &link->vars,
						    pkt.weight) <=
				    link->params.P);
		}
		net_run(net.now + 4500 * NET_MS);
		expect_exact("after forgery", 0);
	}
	net_clear();
}

/* 10^6 sessions of 1 Tbit/s each join and leave without an overflow. */
static void million_sessions_do_not_overflow(void **state)
{
	const struct slbn_link_params p = {
		.C = 1000000000000ULL,
		.P = 1000000000000ULL,
	};
	struct slbn_link_stats s = { 0 };
	struct slbn_link_vars v = { .memory = NULL };
	u32 n;

	(void)state;
	slbn_link_init(&v, 0, 0, 1);
	for (n = 0; n < 1000000; n++, unit_step++) {
		struct slbn_packet pkt = {
			.id = { n, 0 },
			.type = SLBN_PROBE,
			.slots = 2,
			.bottleneck = SLBN_NO_HOP,
			.bw1 = p.C,
			.bw = 0,
			.weight = 1,
		};
		struct slbn_slot slot = { .tag = SLBN_NO_TAG };

		assert_int_equal(slbn_link_process(&p, &v, &s, &pkt, &slot, 0),
				 SLBN_FORWARD);
		assert_int_equal(slot.tag, v.tag);
	}
	assert_int_equal(v.cur.BF, 1000000 * p.C);
	assert_int_equal(slbn_link_share(&p, &v, 1), 1000000);
	for (n = 0; n < 1000000; n++, unit_step++) {
		struct slbn_packet pkt = {
			.id = { n, 0 },
			.type = SLBN_LEAVE,
			.slots = 2,
			.bottleneck = SLBN_NO_HOP,
			.bw1 = p.C,
			.weight = 1,
		};
		struct slbn_slot slot = { .tag = v.tag };

		slbn_link_process(&p, &v, &s, &pkt, &slot, 0);
	}
	assert_true(!v.cur.BF && !v.cur.NR && !v.cur.N && !s.clamped);
}

static const struct CMUnitTest tests[] = {
	UNIT_TEST(paper_form_matches_the_paper),
	UNIT_TEST(rates_are_max_min),
	UNIT_TEST(small_networks_settle_within_a_bit),
	UNIT_TEST(tiny_networks_jitter_by_a_few_bits),
	UNIT_TEST(losses_do_not_change_settled_rates),
	UNIT_TEST(paper_form_does_not_recover_from_losses),
	UNIT_TEST(rates_recover_from_faults),
	UNIT_TEST(built_packets_parse_to_the_same),
	UNIT_TEST(parsed_packets_are_in_range),
	UNIT_TEST(links_recover_from_forged_packets),
	UNIT_TEST(million_sessions_do_not_overflow),
};

UNIT_MAIN(tests)
