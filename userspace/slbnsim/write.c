// SPDX-License-Identifier: GPL-2.0
/*
 * Writes topologies and sessions, for read.h. Reading them again gives the same
 * in the same order, bit for bit: rates are whole bit/s, and seconds have nine
 * decimals.
 *
 * Names have no control characters, so only quotes need an escape.
 */
#include "write.h"

#include <string.h>

#define NS_PER_S 1000000000ULL

static void put_json(FILE *to, const char *text)
{
	putc('"', to);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', to);
		putc(*text, to);
	}
	putc('"', to);
}

static void put_csv(FILE *to, const char *text)
{
	if (!text[strcspn(text, ",\"")]) {
		fputs(text, to);
		return;
	}
	putc('"', to);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', to);
		putc(*text, to);
	}
	putc('"', to);
}

static void put_seconds(FILE *to, u64 time)
{
	fprintf(to, "%llu.%09llu", (unsigned long long)(time / NS_PER_S),
		(unsigned long long)(time % NS_PER_S));
}

/* Is the next link its reverse, with the same rate and delay? */
static bool is_duplex(const struct net *net, u32 number)
{
	const struct link *there = &net->links[number], *back = there + 1;

	return number + 1 < net->link_count && there->from == back->to &&
	       there->to == back->from && there->rate == back->rate &&
	       there->delay == back->delay;
}

static void put_link(FILE *to, const struct net *net, const struct link *link)
{
	fputs("{\"from\": ", to);
	put_json(to, name_of(&net->nodes, link->from));
	fputs(", \"to\": ", to);
	put_json(to, name_of(&net->nodes, link->to));
	fprintf(to, ", \"rate\": %llu, \"delay\": ",
		(unsigned long long)link->rate);
	put_seconds(to, link->delay);
}

/**
 * write_topology() - write nodes and links as JSON
 * @net: the network
 * @to: the file; the caller checks it for errors
 * @about: a line about it, without control characters
 */
void write_topology(const struct net *net, FILE *to, const char *about)
{
	bool duplex;
	u32 n;

	fputs("{\n\"about\": ", to);
	put_json(to, about);
	fputs(",\n\"nodes\": [", to);
	for (n = 0; n < net->nodes.count; n++) {
		fputs(n ? ",\n" : "\n", to);
		put_json(to, name_of(&net->nodes, n));
	}
	fputs("\n],\n\"links\": [", to);
	for (n = 0; n < net->link_count; n++) {
		fputs(n ? ",\n" : "\n", to);
		put_link(to, net, &net->links[n]);
		duplex = is_duplex(net, n);
		fputs(duplex ? ", \"duplex\": true}" : "}", to);
		n += duplex;
	}
	fputs("\n]\n}\n", to);
}

static bool has_weights(const struct net *net)
{
	u32 n;

	for (n = 0; n < net->session_count; n++)
		if (net->sessions[n].weight != 1)
			return true;
	return false;
}

/**
 * write_sessions() - write sessions as CSV, without their paths; with weights
 *	if there are others than 1
 * @net: the network
 * @to: the file; the caller checks it for errors
 */
void write_sessions(const struct net *net, FILE *to)
{
	bool weights = has_weights(net);
	u32 n;

	fputs("id,source,destination,join,leave,demand,bytes", to);
	fputs(weights ? ",weight\n" : "\n", to);
	for (n = 0; n < net->session_count; n++) {
		const struct session *session = &net->sessions[n];

		put_csv(to, name_of(&net->ids, session->id));
		putc(',', to);
		put_csv(to, name_of(&net->nodes, session->from));
		putc(',', to);
		put_csv(to, name_of(&net->nodes, session->to));
		putc(',', to);
		if (session->join != NET_NEVER)
			put_seconds(to, session->join);
		putc(',', to);
		if (session->leave != NET_NEVER)
			put_seconds(to, session->leave);
		putc(',', to);
		if (session->demand != NET_RATE_MAX)
			fprintf(to, "%llu",
				(unsigned long long)session->demand);
		putc(',', to);
		if (session->bytes)
			fprintf(to, "%llu", (unsigned long long)session->bytes);
		if (weights)
			fprintf(to, ",%u", session->weight);
		putc('\n', to);
	}
}
