// SPDX-License-Identifier: GPL-2.0
/*
 * Generates networks and sessions.
 *
 * Transit-stub networks: Zegura, Calvert, Bhattacharjee, "How to Model an
 * Internetwork", INFOCOM 1996, as in their program GT-ITM.
 *
 * Transit domains are the nodes of a random graph; so are the routers of each
 * of them, and of each stub domain. In such a graph any two nodes are linked
 * with a given probability; it is drawn again until it is connected. Two
 * neighbouring domains have two links between random routers of each. A stub
 * domain has one link, from one of its routers to its transit router. Sizes of
 * domains vary about their mean by moving one router at a time, so that the sum
 * stays: there are T Nt (1 + K Ns) routers.
 *
 * Rates and delays are those of SLBN's paper: 5 Gbit/s between transit routers,
 * 1 Gbit/s between stub routers, and 1 Gbit/s between the two, which the paper
 * does not say; 1 to 10 ms, uniformly.
 *
 * Random graphs: Waxman, "Routing of multipoint connections", IEEE JSAC 6(9),
 * 1988. Routers are uniformly random points of a square, and two of them at
 * distance d are linked with probability beta exp(-d / (alpha L)), L being the
 * largest possible distance. Here beta follows from the mean degree. Such a
 * graph is rarely connected, and drawing again until it is would change its
 * degrees; so the component of the first router gets the shortest link to
 * another one, until all are connected.
 */
#include "generate.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRANSIT_RATE 5000000000ULL
#define STUB_RATE 1000000000ULL
#define DELAY_LEAST 1000000ULL
#define DELAY_MOST 10000000ULL
/* The most attempts at a connected graph. */
#define DRAWS 1000
/* Moves of a router from a domain to another, for each domain. */
#define MOVES 3

static bool chance(u64 *random, u32 thousandths)
{
	return draw_below(random, 1000) < thousandths;
}

/* ------------------------------------------------------------------------ */
/* Random graphs                                                            */

struct edges {
	u32 (*ends)[2];
	u32 count;
	u32 room;
};

static void add_edge(struct edges *edges, u32 a, u32 b)
{
	edges->ends = grow_array(edges->ends, edges->count, &edges->room,
				 sizeof(*edges->ends));
	edges->ends[edges->count][0] = a;
	edges->ends[edges->count++][1] = b;
}

/* The representative of NODE's component (union-find). */
static u32 root_of(u32 *parents, u32 node)
{
	while (parents[node] != node) {
		parents[node] = parents[parents[node]];
		node = parents[node];
	}
	return node;
}

/* Draw a connected random graph of COUNT nodes. */
static void draw_graph(struct edges *edges, u32 count, u32 thousandths,
		       u64 *random)
{
	u32 *parents = alloc_array(count, sizeof(u32)), parts, a, b, draws = 0;

	do {
		if (draws++ == DRAWS) {
			fprintf(stderr,
				"slbnsim: %u nodes, linked with a probability of %u/1000, are not connected in %u attempts\n",
				count, thousandths, DRAWS);
			exit(2);
		}
		edges->count = 0;
		parts = count;
		for (a = 0; a < count; a++)
			parents[a] = a;
		for (a = 0; a < count; a++) {
			for (b = a + 1; b < count; b++) {
				u32 one, other;

				if (!chance(random, thousandths))
					continue;
				add_edge(edges, a, b);
				one = root_of(parents, a);
				other = root_of(parents, b);
				parts -= one != other;
				parents[one] = other;
			}
		}
	} while (parts > 1);
	free(parents);
}

/* Draw the sizes of COUNT domains. */
static u32 *draw_sizes(u32 count, u32 mean, u64 *random)
{
	u32 *sizes = alloc_array(count, sizeof(u32)), n;

	for (n = 0; n < count; n++)
		sizes[n] = mean;
	for (n = 0; n < MOVES * count; n++) {
		u32 from = draw_below(random, count);
		u32 to = draw_below(random, count);

		if (sizes[from] > 1) {
			sizes[from]--;
			sizes[to]++;
		}
	}
	return sizes;
}

/* ------------------------------------------------------------------------ */
/* Networks                                                                 */

static void add_duplex(struct net *net, u32 a, u32 b, u64 rate, u64 delay)
{
	net_add_link(net, a, b, rate, delay);
	net_add_link(net, b, a, rate, delay);
}

static void connect(struct net *net, u32 a, u32 b, u64 rate, u64 *random)
{
	u64 delay =
		DELAY_LEAST + draw_below(random, DELAY_MOST - DELAY_LEAST + 1);

	add_duplex(net, a, b, rate, delay);
}

/* Draw a domain of connected routers. Return: its first node. */
static u32 draw_domain(struct net *net, const char *name, u32 count,
		       u32 thousandths, u64 rate, u64 *random)
{
	struct edges edges = {};
	u32 first = net->nodes.count, n;
	char text[64];

	for (n = 0; n < count; n++) {
		snprintf(text, sizeof(text), "%s.%u", name, n);
		name_add(&net->nodes, text);
	}
	draw_graph(&edges, count, thousandths, random);
	for (n = 0; n < edges.count; n++)
		connect(net, first + edges.ends[n][0], first + edges.ends[n][1],
			rate, random);
	free(edges.ends);
	return first;
}

/* Two links between two domains, or one if both have the same ends. */
static void join_domains(struct net *net, const u32 firsts[2],
			 const u32 sizes[2], u64 *random)
{
	u32 ends[2][2], n;

	for (n = 0; n < 2; n++) {
		ends[n][0] = firsts[0] + draw_below(random, sizes[0]);
		ends[n][1] = firsts[1] + draw_below(random, sizes[1]);
		if (!n || memcmp(ends[0], ends[1], sizeof(*ends)))
			connect(net, ends[n][0], ends[n][1], TRANSIT_RATE,
				random);
	}
}

/* Draw the stub domains of a transit router. */
static void draw_stubs(struct net *net, struct drawn *drawn, u32 router,
		       const struct transit_stub *wanted, const u32 *sizes,
		       u64 *random)
{
	char name[64];
	u32 n, stub, first;

	for (n = 0; n < wanted->stubs; n++) {
		snprintf(name, sizeof(name), "%s.s%u",
			 name_of(&net->nodes, router), n);
		first = draw_domain(net, name, sizes[n], wanted->stub_links,
				    STUB_RATE, random);
		connect(net, router, first + draw_below(random, sizes[n]),
			STUB_RATE, random);
		for (stub = 0; stub < sizes[n]; stub++)
			drawn->stubs[drawn->count++] = first + stub;
	}
}

/**
 * draw_transit_stub() - generate a transit-stub network, without hosts
 * @net: empty; routers are named t0.1, and t0.1.s2.3 in stub domains
 * @wanted: parameters
 * @random: state of the random numbers
 *
 * Return: its stub routers, to be freed.
 */
struct drawn draw_transit_stub(struct net *net,
			       const struct transit_stub *wanted, u64 *random)
{
	u32 domains = wanted->domains, transits = domains * wanted->transit;
	u32 *sizes = draw_sizes(domains, wanted->transit, random);
	u32 *stub_sizes =
		draw_sizes(transits * wanted->stubs, wanted->stub, random);
	u32 *firsts = alloc_array(domains, sizeof(u32)), n, router, at = 0;
	struct edges edges = {};
	struct drawn drawn = {
		.stubs = alloc_array((size_t)transits * wanted->stubs *
					     wanted->stub,
				     sizeof(u32)),
	};
	char name[32];

	for (n = 0; n < domains; n++) {
		snprintf(name, sizeof(name), "t%u", n);
		firsts[n] =
			draw_domain(net, name, sizes[n], wanted->transit_links,
				    TRANSIT_RATE, random);
	}
	draw_graph(&edges, domains, wanted->top_links, random);
	for (n = 0; n < edges.count; n++) {
		const u32 *ends = edges.ends[n];
		const u32 both[2] = { firsts[ends[0]], firsts[ends[1]] };
		const u32 large[2] = { sizes[ends[0]], sizes[ends[1]] };

		join_domains(net, both, large, random);
	}
	for (router = 0; router < transits; router++, at += wanted->stubs)
		draw_stubs(net, &drawn, router, wanted, stub_sizes + at,
			   random);
	free(edges.ends);
	free(firsts);
	free(stub_sizes);
	free(sizes);
	return drawn;
}

/* A random delay, ns. */
static u64 draw_delay(const struct link_params *links, u64 *random)
{
	u64 span = links->delay_max - links->delay_min;

	/* draw_below() has 32 bits; delays may be longer than 2^32 ns. */
	return links->delay_min +
	       (span ? llround(draw_part(random) * span) : 0);
}

static void add_nodes(struct net *net, u32 count)
{
	char name[16];
	u32 n;

	for (n = 0; n < count; n++) {
		snprintf(name, sizeof(name), "n%u", net->nodes.count);
		name_add(&net->nodes, name);
	}
}

/**
 * draw_line() - generate routers in a row
 * @net: empty; routers are named n0, n1, ...
 * @count: routers, 2 or more
 * @links: parameters of links
 * @random: state of the random numbers
 */
void draw_line(struct net *net, u32 count, const struct link_params *links,
	       u64 *random)
{
	u32 n;

	add_nodes(net, count);
	for (n = 1; n < count; n++)
		add_duplex(net, n - 1, n, links->rate,
			   draw_delay(links, random));
}

/**
 * draw_star() - generate routers around one
 * @net: empty; routers are named n0, the central one, n1, ...
 * @count: routers, 2 or more
 * @links: parameters of links
 * @random: state of the random numbers
 */
void draw_star(struct net *net, u32 count, const struct link_params *links,
	       u64 *random)
{
	u32 n;

	add_nodes(net, count);
	for (n = 1; n < count; n++)
		add_duplex(net, 0, n, links->rate, draw_delay(links, random));
}

struct point {
	double x;
	double y;
};

static double distance(const struct point *a, const struct point *b)
{
	return hypot(a->x - b->x, a->y - b->y);
}

static double waxman_weight(const struct point *a, const struct point *b,
			    double alpha)
{
	return exp(-distance(a, b) / (alpha * M_SQRT2));
}

/*
 * Connect the graph: link the first router's component to the nearest router of
 * another one, until all are connected (Prim).
 */
static void connect_all(struct edges *edges, const struct point *points,
			u32 count, u32 *parents)
{
	/* Distance from the component, -1 within it; and its nearest node. */
	double *far = alloc_array(count, sizeof(double));
	u32 *near = alloc_array(count, sizeof(u32));
	u32 *reached = alloc_array(count, sizeof(u32));
	u32 n, node, in, next = 0, root;

	for (n = 0; n < count; n++)
		far[n] = INFINITY;
	for (in = 0, node = 0;;) {
		/* Add NODE's component. */
		root = root_of(parents, node);
		for (n = 0; n < count; n++)
			if (root_of(parents, n) == root)
				reached[in++] = n;
		for (; next < in; next++) {
			far[reached[next]] = -1;
			for (n = 0; n < count; n++) {
				double d = distance(&points[reached[next]],
						    &points[n]);

				if (d >= far[n])
					continue;
				far[n] = d;
				near[n] = reached[next];
			}
		}
		if (in == count)
			break;
		node = NET_NONE;
		for (n = 0; n < count; n++)
			if (far[n] >= 0 &&
			    (node == NET_NONE || far[n] < far[node]))
				node = n;
		add_edge(edges, near[node], node);
	}
	free(far);
	free(near);
	free(reached);
}

/**
 * draw_random() - generate a connected Waxman graph
 * @net: empty; routers are named n0, n1, ...
 * @count: routers, 2 or more
 * @degree: mean number of a router's links
 * @alpha: Waxman's alpha
 * @links: parameters of links; the delay is proportional to the distance
 * @random: state of the random numbers
 */
void draw_random(struct net *net, u32 count, double degree, double alpha,
		 const struct link_params *links, u64 *random)
{
	struct point *points = alloc_array(count, sizeof(*points));
	u32 *parents = alloc_array(count, sizeof(u32)), a, b, n;
	struct edges edges = {};
	double sum = 0, beta;

	add_nodes(net, count);
	for (n = 0; n < count; n++) {
		parents[n] = n;
		points[n].x = draw_part(random);
		points[n].y = draw_part(random);
	}
	for (a = 0; a < count; a++)
		for (b = a + 1; b < count; b++)
			sum += waxman_weight(&points[a], &points[b], alpha);
	beta = degree * count / 2 / sum;
	for (a = 0; a < count; a++) {
		for (b = a + 1; b < count; b++) {
			if (draw_part(random) >
			    beta * waxman_weight(&points[a], &points[b], alpha))
				continue;
			add_edge(&edges, a, b);
			parents[root_of(parents, a)] = root_of(parents, b);
		}
	}
	connect_all(&edges, points, count, parents);
	for (n = 0; n < edges.count; n++) {
		u32 *ends = edges.ends[n];
		double part =
			distance(&points[ends[0]], &points[ends[1]]) / M_SQRT2;
		u64 span = links->delay_max - links->delay_min;

		add_duplex(net, ends[0], ends[1], links->rate,
			   links->delay_min + llround(part * span));
	}
	free(edges.ends);
	free(parents);
	free(points);
}

/* ------------------------------------------------------------------------ */
/* Sessions                                                                 */

/* Add a host for the end of a session. */
static u32 add_host(struct net *net, u32 router,
		    const struct link_params *links, u64 *random)
{
	u32 number = net->nodes.count, host;
	const char *of = name_of(&net->nodes, router);
	int length = strnlen(of, 230);
	char name[256];

	/* No part of a character of UTF-8. */
	while (length && (of[length] & 0xc0) == 0x80)
		length--;
	/* A router of a file may have that name. */
	do {
		snprintf(name, sizeof(name), "%.*s.h%u", length, of, number++);
		host = name_add(&net->nodes, name);
	} while (host == NET_NONE);
	add_duplex(net, host, router, links->rate, draw_delay(links, random));
	return host;
}

static void draw_session(struct net *net, const struct session_params *wanted,
			 u32 from, u32 to, u64 *random)
{
	struct session *session = net_add_session(net);
	char name[16];

	snprintf(name, sizeof(name), "s%u", net->session_count);
	session->id = name_add(&net->ids, name);
	session->from = from;
	session->to = to;
	if (wanted->hosts.rate) {
		session->from = add_host(net, from, &wanted->hosts, random);
		session->to = add_host(net, to, &wanted->hosts, random);
	}
	if (wanted->within)
		session->join = llround(draw_part(random) * wanted->within);
}

/**
 * draw_sessions() - generate sessions between random routers
 * @net: the topology
 * @wanted: parameters
 * @ends: the routers, two or more
 * @end_count: how many
 * @random: state of the random numbers
 */
void draw_sessions(struct net *net, const struct session_params *wanted,
		   const u32 *ends, u32 end_count, u64 *random)
{
	u32 n, from, to;

	for (n = 0; n < wanted->count; n++) {
		from = draw_below(random, end_count);
		to = draw_below(random, end_count - 1);
		to += to >= from;
		draw_session(net, wanted, ends[from], ends[to], random);
	}
}

/**
 * draw_parking_lot() - generate a session over all links of a line, and one
 * over each
 * @net: a network of draw_line()
 * @wanted: parameters, but for their number
 * @random: state of the random numbers
 */
void draw_parking_lot(struct net *net, const struct session_params *wanted,
		      u64 *random)
{
	u32 count = net->nodes.count, n;

	draw_session(net, wanted, 0, count - 1, random);
	for (n = 1; n < count; n++)
		draw_session(net, wanted, n - 1, n, random);
}
