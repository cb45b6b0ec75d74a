// SPDX-License-Identifier: GPL-2.0
/*
 * A domain of links and sources of two versions, in all combinations:
 *
 *	a --- 100 Mbit/s --- 40 Mbit/s --- destination
 *	b --- 100 Mbit/s ----------------- destination
 *
 * Rates must be max-min fair in each: 40 and 60 Mbit/s. The destination is of the
 * version of a. What the source may believe of the share is checked as well, and
 * that replies are as long as their requests.
 */
#include <stdio.h>
#include <stdlib.h>

#include "node.h"

#define MEGA 1000000ULL
#define MS 1000000ULL
#define OCTETS 4096

#define CHECK(condition)                                                   \
	do {                                                               \
		if (!(condition)) {                                        \
			printf("links %s %s, sources %s %s: failed: %s\n", \
			       name(first), name(second), name(of_a),      \
			       name(of_b), #condition);                    \
			exit(1);                                           \
		}                                                          \
	} while (0)

static const struct version *first, *second, *of_a, *of_b;

static const char *name(const struct version *version)
{
	return version == &after ? "after" : "before";
}

/* A cycle over one or two links. */
static void cycle(const struct version *of, void *source, void **link, int hops,
		  uint64_t now)
{
	const struct version *versions[2] = { first, second };
	static uint8_t data[OCTETS];
	size_t length = of->send(source, data, now);
	int hop;

	for (hop = 0; hop < hops; hop++)
		CHECK(versions[hop]->process(link[hop], data, length, now));
	CHECK(of_a->reply(data, length));
	for (hop = hops - 1; hop >= 0; hop--)
		CHECK(versions[hop]->process(link[hop], data, length, now));
	CHECK(of->receive(source, data, length, now));
}

static void run(void)
{
	void *link[2] = { first->add_link(100 * MEGA, 1),
			  second->add_link(40 * MEGA, 2) };
	void *a = of_a->add_source(1), *b = of_b->add_source(2);
	uint64_t share;
	int n;

	/* Over two rotations of the ledgers. */
	for (n = 0; n < 250; n++) {
		cycle(of_a, a, link, 2, 10 * n * MS);
		cycle(of_b, b, link, 1, (10 * n + 5) * MS);
	}
	CHECK(of_a->rate(a) == 40 * MEGA);
	CHECK(of_b->rate(b) == 60 * MEGA);

	share = of_a->share(a);
	CHECK(of_a->complete(a) ==
	      (of_a == &after && first == &after && second == &after));
	if (of_a == &before || (first == &before && second == &before))
		CHECK(share == 0);
	else if (second == &after)
		CHECK(share == 40 * MEGA);
	else
		/* Of the first link only, so too high: what a would get there. */
		CHECK(share == 50 * MEGA);
	CHECK(of_b->complete(b) == (of_b == &after && first == &after));
	CHECK(of_b->share(b) == (of_b->complete(b) ? 60 * MEGA : 0));
	free(link[0]);
	free(link[1]);
	free(a);
	free(b);
}

int main(void)
{
	static const struct version *const versions[2] = { &before, &after };
	int n;

	for (n = 0; n < 16; n++) {
		first = versions[n & 1];
		second = versions[n >> 1 & 1];
		of_a = versions[n >> 2 & 1];
		of_b = versions[n >> 3 & 1];
		run();
	}
	printf("16 domains\n");
	return 0;
}
