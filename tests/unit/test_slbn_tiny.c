// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN in many small networks, all of them or random ones: whether rates settle,
 * and their distance to the max-min reference.
 */
#include "unit.h"

#include "slbn_net.h"

/* A tiny network has settled when no rate changed for this many cycles. */
#define TINY_QUIET 12
/* If all sessions complete this many cycles before, it never settles. */
#define TINY_CYCLES 400

/**
 * struct tiny_session - state of a session of a tiny network
 * @due: time of its next step, ns
 * @sent: its packet is in flight; otherwise it pauses
 * @pkt: packet
 * @slots: slots of @pkt
 * @cycles: completed cycles
 * @changed: cycle in which its rate changed last
 */
struct tiny_session {
	u64 due;
	bool sent;
	struct slbn_packet pkt;
	struct slbn_slot slots[NET_HOPS];
	u32 cycles;
	u32 changed;
};

/**
 * struct tiny_result - result of a tiny network
 * @settled: all rates are constant
 * @bits: largest difference from the max-min reference, bit/s: when settled, or
 *	in the second half of the run
 * @per_level: largest difference divided by the levels of bottlenecks that the
 *	rate depends on, bit/s
 */
struct tiny_result {
	bool settled;
	double bits;
	double per_level;
};

static void tiny_note(struct tiny_result *result,
		      const struct net_session *session)
{
	double bits = (double)fabsl(session->src.rate - session->fair);

	result->bits = fmax(result->bits, bits);
	/* A demand may be close to a share that differs by as much. */
	result->per_level =
		fmax(result->per_level, bits / fmax(session->depth, 1));
}

/* With commit, a link is never promised twice. */
static void tiny_check(const struct net_link *link)
{
	u64 A = link->vars.cur.A + link->vars.prev.A;

	if (!link->params.commit)
		return;
	CHECK(A <= link->params.C, "A %llu of %llu", A, link->params.C);
	CHECK(link->used <= A, "%llu in use, A %llu", link->used, A);
	assert_int_equal(link->stats.clamped, 0);
}

/* The source uses what its cycle assigns. */
static void tiny_use(struct net_session *session)
{
	u32 hop;

	for (hop = 0; hop < session->hops; hop++) {
		struct net_link *link = &net.links[session->path[hop]];

		link->used += session->src.rate - session->used;
		tiny_check(link);
	}
	session->used = session->src.rate;
}

/* Advance a session to its next hop, end of its path, or cycle. */
static void tiny_step(u32 number, struct tiny_session *t)
{
	struct net_session *session = &net.sessions[number];
	struct net_link *link;
	u64 rate = session->src.rate;
	u8 hop;

	net.now = t->due;
	if (!t->sent) {
		slbn_source_transmit(&session->src, net.now);
		t->pkt = session->src.pkt;
		memcpy(t->slots, session->src.slot, sizeof(t->slots));
		t->sent = true;
	} else if (slbn_is_upstream(&t->pkt) && !t->pkt.hop) {
		assert_int_equal(slbn_source_ack(&session->src, &t->pkt,
						 t->slots, net.now),
				 SLBN_CYCLE_DONE);
		tiny_use(session);
		t->cycles++;
		if (session->src.rate != rate)
			t->changed = t->cycles;
		t->due += net_pause(session);
		t->sent = false;
		return;
	}
	if (!slbn_is_upstream(&t->pkt) && t->pkt.hop == session->hops)
		assert_true(slbn_destination_reply(&t->pkt));
	hop = slbn_current_hop(&t->pkt);
	link = &net.links[session->path[hop]];
	assert_int_equal(
		net.process(link, number, &t->pkt, &t->slots[hop], net.now),
		SLBN_FORWARD);
	tiny_check(link);
	t->due += link->delay;
}

/* Initialize a link of a tiny network. */
static void tiny_link(u32 number, u64 capacity, u64 delay, u64 epoch)
{
	static struct slbn_memory_entry memory[NET_LINKS][SLBN_MEMORY_WAYS];
	struct net_link *link = &net.links[number];

	link->params.C = capacity;
	link->params.P = capacity;
	link->params.commit = net.commit;
	link->params.epoch = epoch;
	link->params.rows = epoch ? 1 : 0;
	memset(&link->stats, 0, sizeof(link->stats));
	memset(memory[number], 0, sizeof(memory[number]));
	slbn_link_init(&link->vars, 0, 0, (u32)rnd());
	link->vars.memory = memory[number];
	link->delay = delay;
	link->used = 0;
}

/*
 * Run the sessions of net, which have only paths, until all rates have
 * settled or never will. They join in order, @apart ns after each other, with
 * these demands.
 */
static struct tiny_result tiny_run(const u64 *demands, u64 apart)
{
	struct tiny_session tiny[NET_LINKS] = { 0 };
	struct tiny_result result = { .settled = false };
	u32 least, quiet, n;

	assert_true(net.session_count <= ARRAY_SIZE(tiny));
	for (n = 0; n < net.session_count; n++) {
		const u64 id[2] = { n, 0 };

		slbn_source_join(&net.sessions[n].src, id, demands[n],
				 net.sessions[n].weight, NET_HOPS);
		net.sessions[n].joined = true;
		net.sessions[n].used = 0;
		tiny[n].due = n * apart;
	}
	net_solve();
	do {
		u32 next = 0;

		for (n = 1; n < net.session_count; n++)
			if (tiny[n].due < tiny[next].due)
				next = n;
		tiny_step(next, &tiny[next]);
		unit_step++;
		if (tiny[next].sent)
			continue;
		if (tiny[next].cycles > TINY_CYCLES / 2)
			tiny_note(&result, &net.sessions[next]);
		least = ~0U;
		quiet = ~0U;
		for (n = 0; n < net.session_count; n++) {
			least = fp_min64(least, tiny[n].cycles);
			quiet = fp_min64(quiet,
					 tiny[n].cycles - tiny[n].changed);
		}
		result.settled = quiet >= TINY_QUIET;
		if (result.settled || least >= TINY_CYCLES)
			break;
	} while (true);
	if (result.settled) {
		result.bits = 0;
		result.per_level = 0;
		for (n = 0; n < net.session_count; n++)
			tiny_note(&result, &net.sessions[n]);
	}
	return result;
}

/**
 * struct way - form of the algorithm
 * @name: what is printed
 * @unit: random capacities are 10 to 1000 times this, bit/s
 * @pause: mean pause, ns
 * @epoch: of all links, ns; with one, links have memory
 * @commit: links limit rises
 * @weights: sessions have weights
 */
struct way {
	const char *name;
	u64 unit;
	u64 pause;
	u64 epoch;
	bool commit;
	bool weights;
};

static const u32 weights[] = { 1, 2, 3, 7 };

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

/*
 * All networks with these numbers of links and sessions, all join orders. If
 * links times sessions are 6 or more, weights are random.
 */
static void every_network(struct tally *tally, u32 links, u32 sessions,
			  const struct way *way)
{
	static const u64 capacities[] = { 100, 101, 250 };
	static const u64 asked[] = { UNLIMITED, 33, 50 };
	u32 paths = (1U << links) - 1;
	bool all_weights = way->weights && links * sessions < 6;
	u64 count = 1, number;
	u32 n, link;

	for (n = 0; n < links; n++)
		count *= ARRAY_SIZE(capacities);
	for (n = 0; n < sessions; n++)
		count *= paths * ARRAY_SIZE(asked) *
			 (all_weights ? ARRAY_SIZE(weights) : 1);
	for (number = 0; number < count; number++) {
		u64 demands[NET_LINKS];
		u64 rest = number;

		for (n = 0; n < links; n++) {
			tiny_link(n, capacities[rest % ARRAY_SIZE(capacities)],
				  NET_MS, way->epoch);
			rest /= ARRAY_SIZE(capacities);
		}
		for (n = 0; n < sessions; n++) {
			struct net_session *session = &net.sessions[n];
			u32 path = rest % paths + 1;

			rest /= paths;
			demands[n] = asked[rest % ARRAY_SIZE(asked)];
			rest /= ARRAY_SIZE(asked);
			session->weight = 1;
			if (all_weights) {
				session->weight =
					weights[rest % ARRAY_SIZE(weights)];
				rest /= ARRAY_SIZE(weights);
			} else if (way->weights) {
				session->weight = weights[rnd_in(0, 3)];
			}
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
UNIT_TEST(small_networks_settle_within_a_bit)
{
	static const struct way ways[] = {
		{ "the paper's form, no pause", 0, 0, 0, false, false },
		{ "the paper's form, random pause", 0, 5 * NET_MS, 0, false,
		  false },
		{ "ledgers and memory, random pause", 0, 5 * NET_MS,
		  100 * NET_MS, false, false },
		{ "commit, random pause", 0, 5 * NET_MS, 1000 * NET_MS, true,
		  false },
		{ "commit, weights 1, 2, 3, 7", 0, 5 * NET_MS, 1000 * NET_MS,
		  true, true },
	};
	u32 n, links, sessions;

	tally_head();
	for (n = 0; n < ARRAY_SIZE(ways); n++) {
		struct tally tally = { 0 };

		net_clear();
		net.pause = ways[n].pause;
		net.commit = ways[n].commit;
		for (links = 1; links <= 3; links++)
			for (sessions = 1; sessions <= 3; sessions++)
				every_network(&tally, links, sessions,
					      &ways[n]);
		tally_print(ways[n].name, &tally);
		assert_int_equal(tally.moving, 0);
		CHECK(tally.bits <= 1, "%s: %g bit/s", ways[n].name,
		      tally.bits);
	}
	net_clear();
}

/* Run a network of 2 to 6 links and 2 to 10 sessions, with many ties. */
static void random_tiny_network(struct tally *tally, const struct way *way)
{
	u64 unit = way->unit;
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
			  way->epoch);
	memset(net.sessions, 0, 10 * sizeof(*net.sessions));
	net.session_count = 0;
	for (n = rnd_in(2, 10); n; n--) {
		demands[net.session_count] =
			one_in(4) ? choice[0] / rnd_in(2, 8) + 1 : UNLIMITED;
		net_add_session(rnd_in(1, net.link_count));
		if (way->weights)
			net.sessions[net.session_count - 1].weight =
				weights[rnd_in(0, 3)];
	}
	tally_add(tally, tiny_run(demands, one_in(2) ? 0 : rnd_in(0, NET_MS)));
	net.link_count = 0;
}

/*
 * How often rates never settle, and their distance to the max-min reference;
 * the environment variable SLBN_NETWORKS is the number of networks. Without a
 * pause two sessions can alternate for ever, see docs/slbn-accuracy.md.
 */
UNIT_TEST(tiny_networks_jitter_by_a_few_bits)
{
	static const struct way ways[] = {
		{ "10 to 1000 bit/s, no pause", 1, 0, 0, false, false },
		{ "10 to 1000 bit/s, random pause", 1, 5 * NET_MS, 0, false,
		  false },
		{ "10 Mbit/s to 1 Gbit/s, no pause", MEGA, 0, 0, false, false },
		{ "10 Mbit/s to 1 Gbit/s, random pause", MEGA, 5 * NET_MS, 0,
		  false, false },
		{ "the same, with ledgers and memory", MEGA, 5 * NET_MS,
		  100 * NET_MS, false, false },
		{ "the same, with commit", MEGA, 5 * NET_MS, 1000 * NET_MS,
		  true, false },
		{ "the same, weights 1, 2, 3, 7", MEGA, 5 * NET_MS,
		  1000 * NET_MS, true, true },
	};
	const char *text = getenv("SLBN_NETWORKS");
	u32 networks = text ? (u32)strtoul(text, NULL, 0) : 20000;
	u32 n;

	tally_head();
	for (n = 0; n < ARRAY_SIZE(ways); n++) {
		struct tally tally = { 0 };

		net_clear();
		net.pause = ways[n].pause;
		net.commit = ways[n].commit;
		while (tally.networks < networks)
			random_tiny_network(&tally, &ways[n]);
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

UNIT_MAIN()
