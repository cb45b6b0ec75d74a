// SPDX-License-Identifier: GPL-2.0
/*
 * connections_core.h: which connection loses its place in the BPF program's table, and
 * what a host that floods takes from others.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "unit.h"

#include "userspace/slbnd/enforcement/connections_core.h"

#define SECOND 1000000000ULL

/* One set. */
static struct connections_way places[CONNECTIONS_WAYS];

static inline void connections_read(u32 set, u32 n, struct connections_way *way)
{
	assert_int_equal(set, 7);
	*way = places[n];
}

static u32 choose(u64 host, u64 now)
{
	return connections_choose(7, host, now);
}

/* A new connection of a host. Returns its place. */
static u32 add(u64 host, u64 now)
{
	u32 n = choose(host, now);

	if (n < CONNECTIONS_WAYS)
		places[n] =
			(struct connections_way){ .host = host, .last = now };
	return n;
}

static u32 count(u64 host)
{
	u32 n, found = 0;

	for (n = 0; n < CONNECTIONS_WAYS; n++)
		found += places[n].last && places[n].host == host;
	return found;
}

static void clear(void)
{
	memset(places, 0, sizeof(places));
}

UNIT_TEST(free_places_first)
{
	u32 n;

	clear();
	for (n = 0; n < CONNECTIONS_WAYS; n++)
		assert_int_equal(add(1, SECOND + n), n);
	/* Then those that were silent for longest, but not those that were reported. */
	places[0].last = SECOND - 1;
	places[3].last = SECOND;
	places[0].reported = SECOND;
	assert_int_equal(choose(1, 2 * SECOND), 3);
	for (n = 0; n < CONNECTIONS_WAYS; n++)
		places[n].reported = SECOND;
	assert_int_equal(choose(1, 2 * SECOND), 0);
}

UNIT_TEST(flood_replaces_its_own)
{
	u64 now = SECOND;
	u32 n;

	clear();
	add(1, now);
	add(2, now);
	add(2, now);
	for (n = 0; n < 1000; n++)
		add(3, now++);
	assert_int_equal(count(1), 1);
	assert_int_equal(count(2), 2);
	assert_int_equal(count(3), CONNECTIONS_WAYS - 3);
	/* However long others are silent, while they have no more places than it. */
	now += 10 * CONNECTIONS_SILENT;
	for (n = 0; n < 1000; n++)
		add(3, now++);
	assert_int_equal(count(1), 1);
	assert_int_equal(count(2), 2);
}

UNIT_TEST(newcomers_get_their_share)
{
	u64 now = SECOND;
	u32 n, host;

	clear();
	for (n = 0; n < 100; n++)
		add(1, now++);
	for (n = 0; n < 100; n++)
		add(2, now++);
	assert_int_equal(count(1), CONNECTIONS_WAYS / 2);
	assert_int_equal(count(2), CONNECTIONS_WAYS / 2);
	for (host = 3; host <= CONNECTIONS_WAYS; host++)
		for (n = 0; n < 100; n++)
			add(host, now++);
	for (host = 1; host <= CONNECTIONS_WAYS; host++)
		assert_int_equal(count(host), 1);
	/* One host more finds no place, until another is silent. */
	assert_int_equal(add(9, now), CONNECTIONS_WAYS);
	places[0].reported = now;
	for (n = 1; n < CONNECTIONS_WAYS; n++)
		places[n].last = now + CONNECTIONS_SILENT;
	assert_int_equal(add(9, now + CONNECTIONS_SILENT - SECOND),
			 CONNECTIONS_WAYS);
	assert_int_equal(add(9, now + CONNECTIONS_SILENT), 0);
}

/* Nor does one that sends from many addresses keep others from having any. */
UNIT_TEST(spoofed_hosts_do_not_keep_places)
{
	u64 now = SECOND;
	u32 host;

	clear();
	add(1, now);
	places[0].reported = now;
	for (host = 2; host <= CONNECTIONS_WAYS; host++)
		add(host, now + host);
	assert_int_equal(add(9, now + SECOND / 2), CONNECTIONS_WAYS);
	/* The connection with a session keeps its place. */
	assert_int_equal(add(9, now + SECOND + 2), 1);
	assert_int_equal(count(1), 1);
	assert_int_equal(count(2), 0);
}

/* No host loses a place to one that has more than it then, whatever happens. */
UNIT_TEST(random_hosts_take_from_larger_ones)
{
	u32 n, host, others[6];
	u64 now = SECOND;

	clear();
	for (n = 0; n < 300000; n++) {
		u64 newcomer = rnd_in(1, 5);
		u32 place;

		unit_step++;
		for (host = 1; host <= 5; host++)
			others[host] = count(host);
		now += (u64)rnd_in(0, CONNECTIONS_SILENT / 4 / 1000000) *
		       1000000;
		place = add(newcomer, now);
		if (place < CONNECTIONS_WAYS && !rnd_in(0, 3))
			places[place].reported = now;
		for (host = 1; host <= 5; host++)
			if (host != newcomer && count(host) < others[host])
				CHECK(count(newcomer) <= others[host],
				      "%u of %u", count(newcomer),
				      others[host]);
	}
}

/* Connections to consecutive ports have sets as if at random, whatever the secret. */
UNIT_TEST(consecutive_ports_have_different_sets)
{
	enum {
		PORTS = 10,
		SETS = 128,
		SECRETS = 100000
	};
	u64 secret[RATES_SECRET];
	u32 n, port, crowded = 0;

	for (n = 0; n < SECRETS; n++) {
		u32 counts[SETS] = {};

		unit_step++;
		for (port = 0; port < RATES_SECRET; port++)
			secret[port] = rnd();
		for (port = 0; port < PORTS; port++) {
			struct rates_key key = {
				.source[0] = 1,
				.destination[0] = 2,
				.rest = rates_rest(4, IPPROTO_UDP, htons(5000),
						   htons(1000 + port)),
			};

			crowded +=
				++counts[rates_hash(&key, secret) % SETS] == 5;
		}
	}
	/* At random, five of ten are in one set with one secret of a million. */
	CHECK(crowded <= 3, "%u of %u secrets", crowded, SECRETS);
}

/* Also where slbnd starts at 0, as in virtual time. */
UNIT_TEST(reports_are_due)
{
	const u64 second = SECOND;

	assert_true(connections_is_due(0, second, 0, 0, 0));
	assert_true(connections_is_due(0, second, 0, 0, 1));
	assert_true(connections_is_due(second, 3 * second, 2 * second, 0, 1));
	assert_false(connections_is_due(second, 2 * second, 0, 0, 0));
	assert_true(connections_is_due(second, 3 * second, 0, 2 * second, 0));
	assert_false(connections_is_due(second, 3 * second, 0, 2 * second, 1));
	assert_true(connections_is_due(second, second + CONNECTIONS_RETRY, 0, 0,
				       0));
	assert_false(connections_is_due(second, second + CONNECTIONS_RETRY, 0,
					0, 1));
}

UNIT_MAIN()
