// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN's tasks in networks, compared with the max-min reference.
 */
#include "unit.h"

#include "slbn_net.h"

/* After joins, leaves and changes, rates settle at the max-min reference. */
UNIT_TEST(rates_are_max_min)
{
	u32 round, n;

	for (round = 0; round < 120; round++) {
		bool ledgers = round % 2;

		net_clear();
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

/* Rates that have settled stay correct with continuous losses. */
UNIT_TEST(losses_do_not_change_settled_rates)
{
	static const u32 losses[] = { 1000, 10000, 50000 };
	u32 n, second;

	for (n = 0; n < ARRAY_SIZE(losses); n++) {
		net_clear();
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
UNIT_TEST(paper_form_does_not_recover_from_losses)
{
	net_clear();
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

		slbn_link_init(&link->vars, net.now,
			       net.now + link->params.epoch, (u32)rnd());
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
		if (net.commit)
			ledger->A = one_in(2) ? 0 : rnd() % SLBN_RATE_MAX;
	}
}

/* Rates are correct two epochs and some cycles after any fault. */
UNIT_TEST(rates_recover_from_faults)
{
	static void (*const faults[])(void) = {
		kill_sessions,
		restart_links,
		reroute_sessions,
		corrupt_ledgers,
	};
	u32 n, round;

	for (round = 0; round < 6; round++) {
		net_clear();
		net.commit = round % 2;
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

/* The tag of the current ledger for a session. */
static u16 mask_tag_at(const struct slbn_link_params *p,
		       const struct slbn_link_vars *v,
		       const struct slbn_packet *pkt)
{
	return slbn_mask_tag(v->tag, slbn_session_hash(p, pkt));
}

/* The share stays in range with any valid packets, and then recovers. */
UNIT_TEST(links_recover_from_forged_packets)
{
	u32 round, n;

	for (round = 0; round < 4; round++) {
		net_clear();
		net.commit = round % 2;
		make_network(6, 30, 4, 1000 * NET_MS, 64, 100 * NET_MS);
		net_run(1500 * NET_MS);
		for (n = 0; n < 100000; n++, unit_step++) {
			struct net_link *link =
				&net.links[rnd_in(0, net.link_count - 1)];
			struct slbn_slot slots[SLBN_HOPS_MAX];
			struct slbn_packet pkt = random_packet(slots);
			struct slbn_slot slot = slots[0];

			if (one_in(4))
				pkt.id[0] = pkt.id[1] = rnd_in(0, 99);
			if (one_in(2))
				slot.tag = mask_tag_at(&link->params,
						       &link->vars, &pkt);
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

static void check_exceeds(const struct slbn_link_params *p,
			  const struct slbn_link_vars *v, u64 rate)
{
	CHECK(slbn_link_share_exceeds(p, v, rate) ==
		      (slbn_link_share(p, v, 1) > rate),
	      "share %llu, rate %llu", slbn_link_share(p, v, 1), rate);
}

/* Any sums, also those of errors, and rates next to the share. */
UNIT_TEST(share_exceeds_what_it_is_above)
{
	u32 n;

	for (n = 0; n < 300000; n++, unit_step++) {
		const struct slbn_link_params p = { .P = rnd() >>
							 rnd_in(24, 63) };
		const struct slbn_link_vars v = {
			.cur = { .BF = rnd() >> rnd_in(0, 63),
				 .NR = rnd() >> rnd_in(0, 63),
				 .N = rnd() >> rnd_in(0, 63) },
			.prev = { .BF = rnd() >> rnd_in(0, 63),
				  .NR = rnd() >> rnd_in(0, 63),
				  .N = rnd() >> rnd_in(0, 63) },
		};
		u64 share = slbn_link_share(&p, &v, 1);

		check_exceeds(&p, &v, share);
		check_exceeds(&p, &v, share + 1);
		if (share)
			check_exceeds(&p, &v, share - 1);
		check_exceeds(&p, &v, rnd() >> rnd_in(1, 63));
	}
}

/* 10^6 sessions of 1 Tbit/s each join and leave without an overflow. */
UNIT_TEST(million_sessions_do_not_overflow)
{
	const struct slbn_link_params p = {
		.C = 1000000000000ULL,
		.P = 1000000000000ULL,
	};
	struct slbn_link_stats s = { 0 };
	struct slbn_link_vars v = { .memory = NULL };
	u32 n;

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
		assert_int_equal(slot.tag, mask_tag_at(&p, &v, &pkt));
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
		struct slbn_slot slot = { .tag = mask_tag_at(&p, &v, &pkt) };

		slbn_link_process(&p, &v, &s, &pkt, &slot, 0);
	}
	assert_true(!v.cur.BF && !v.cur.NR && !v.cur.N && !s.clamped);
}

/* Sums over both ledgers, which packets that lie may make this large. */
UNIT_TEST(sums_of_both_ledgers_do_not_overflow)
{
	const struct slbn_link_params p = { .C = 1000 * MEGA, .P = 900 * MEGA };
	const u64 sums[] = { 5, ~0ULL - 5, ~0ULL };
	u32 n, m;

	for (n = 0; n < ARRAY_SIZE(sums); n++)
		for (m = !n; m < ARRAY_SIZE(sums); m++) {
			const struct slbn_link_vars v = {
				.cur = { sums[n], 1, 10, sums[n] },
				.prev = { sums[m], 0, 0, sums[m] },
			};

			assert_int_equal(slbn_link_share(&p, &v, 1), 90 * MEGA);
			assert_int_equal(slbn_link_room(&p, &v), 0);
		}
}

UNIT_MAIN()
