// SPDX-License-Identifier: GPL-2.0
/*
 * Explore all states of the model that can be reached, breadth first, so that
 * the trace to a violation is a shortest one.
 *
 *	explore [--rates-only] [NAME...]
 *
 * Without names: lists the configurations. States are kept as 64-bit
 * fingerprints: with 10^7 states, the probability that two have the same one is
 * 3 * 10^-6. Of sessions that differ in nothing but their state, the order is
 * ignored.
 *
 * Exit status: 1 if an invariant is violated, with a trace; 2 for an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "configs.h"
#include "model.h"

#define TEXT 200

/**
 * struct node - how a state was reached first
 * @parent: its node
 * @step: enum step
 * @at: session or link
 */
struct node {
	u32 parent;
	u8 step;
	u8 at;
};

/**
 * struct queue - states, packed, of one distance from the initial state
 * @data: states
 * @nodes: their nodes
 * @count: number of states
 * @room: states for which there is room
 */
struct queue {
	u8 *data;
	u32 *nodes;
	size_t count;
	size_t room;
};

/**
 * struct explorer - states found
 * @m: model
 * @packed: octets of a packed state
 * @table: hash table of fingerprints, 0: free
 * @size: its size, a power of 2
 * @nodes: states in the order in which they were found
 * @count: number of states
 * @room: nodes for which there is room
 * @steps: steps taken
 * @settled: states from which rates became exact
 * @depth: largest distance from the initial state
 * @rates_only: see model_violation()
 */
struct explorer {
	struct model m;
	size_t packed;
	u64 *table;
	size_t size;
	struct node *nodes;
	size_t count;
	size_t room;
	u64 steps;
	u64 settled;
	u32 depth;
	bool rates_only;
};

static void *resize(void *old, size_t count, size_t size)
{
	void *data = realloc(old, count * size);

	if (!data) {
		fprintf(stderr, "explore: out of memory\n");
		exit(2);
	}
	return data;
}

/* --- states ------------------------------------------------------------ */

/* Sort sessions that are alike; names[] follows them. */
static void sort(const struct model *m, struct state *st, int *names)
{
	bool again = true;
	int i;

	while (again) {
		again = false;
		for (i = 1; i < m->sessions; i++) {
			struct session *x = &st->sessions[i];
			struct session saved = *x;
			int name = names[i];

			if (!m->like[i] || memcmp(x - 1, x, sizeof(*x)) <= 0)
				continue;
			*x = x[-1];
			x[-1] = saved;
			names[i] = names[i - 1];
			names[i - 1] = name;
			again = true;
		}
	}
}

/* Copy the parts of a state that are in use, to or from the packed form. */
static size_t copy(const struct model *m, struct state *st, u8 *packed,
		   bool unpack)
{
	const size_t links = m->links * sizeof(struct link);
	const size_t rest = offsetof(struct state, sessions) -
			    offsetof(struct state, losses);
	const size_t fixed = offsetof(struct session, hops);
	size_t at = 0;
	int i;

#define COPY(part, length)                                 \
	do {                                               \
		if (unpack)                                \
			memcpy(part, packed + at, length); \
		else if (packed)                           \
			memcpy(packed + at, part, length); \
		at += length;                              \
	} while (0)

	COPY(st->links, links);
	COPY(&st->losses, rest);
	for (i = 0; i < m->sessions; i++) {
		struct session *x = &st->sessions[i];

		COPY(x, fixed);
		COPY(x->hops, m->hops[i] * sizeof(struct hop));
		COPY(&x->copy,
		     model_has_copies(m->config) ? sizeof(x->copy) : 0);
	}
#undef COPY
	return at;
}

static u64 mix(u64 a, u64 b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (u64)product ^ (u64)(product >> 64);
}

/* As wyhash. */
static u64 fingerprint(const u8 *data, size_t length)
{
	u64 hash = 0x9e3779b97f4a7c15ULL ^ length;

	while (length) {
		u64 words[2] = { 0 };
		size_t part = length < sizeof(words) ? length : sizeof(words);

		memcpy(words, data, part);
		hash = mix(words[0] ^ 0xa0761d6478bd642fULL, words[1] ^ hash);
		data += part;
		length -= part;
	}
	hash = mix(hash ^ 0xe7037ed1a0b428dbULL, 0x8ebc6af09c88c6e3ULL);
	return hash ? hash : 1;
}

/* Add a fingerprint; false if it is known. */
static bool add(struct explorer *e, u64 hash)
{
	size_t old = e->size, i, at;
	u64 *table = e->table;

	if (e->count * 4 >= old * 3) {
		e->size = old ? 2 * old : 1 << 16;
		e->table = calloc(e->size, sizeof(*e->table));
		if (!e->table) {
			fprintf(stderr, "explore: out of memory\n");
			exit(2);
		}
		for (i = 0; i < old; i++) {
			if (!table[i])
				continue;
			at = table[i] & (e->size - 1);
			while (e->table[at])
				at = (at + 1) & (e->size - 1);
			e->table[at] = table[i];
		}
		free(table);
	}
	for (at = hash & (e->size - 1); e->table[at];
	     at = (at + 1) & (e->size - 1))
		if (e->table[at] == hash)
			return false;
	e->table[at] = hash;
	return true;
}

static void push(struct queue *q, const u8 *packed, size_t length, u32 node)
{
	if (q->count == q->room) {
		q->room = q->room ? q->room * 3 / 2 : 1024;
		q->data = resize(q->data, q->room, length);
		q->nodes = resize(q->nodes, q->room, sizeof(*q->nodes));
	}
	memcpy(q->data + q->count * length, packed, length);
	q->nodes[q->count++] = node;
}

/* --- traces ------------------------------------------------------------ */

static void print_trace(struct explorer *e, u32 node)
{
	struct state st;
	int names[SESSIONS] = { 0, 1, 2 };
	u32 *path = NULL;
	u32 length = 0, n;

	for (n = node; n; n = e->nodes[n].parent) {
		path = resize(path, length + 1, sizeof(*path));
		path[length++] = n;
	}
	model_init(&e->m, e->m.config, &st);
	for (n = 1; n <= length; n++) {
		const struct node *step = &e->nodes[path[length - n]];
		bool session = step->step < ROTATE;
		char who[40];

		snprintf(who, sizeof(who), "%3u. %s %d", n,
			 session ? "session" : "link",
			 session ? names[step->at] : step->at);
		model_step(&e->m, &st, step->step, step->at);
		model_print_step(&e->m, step->step, who);
		model_print_state(&e->m, &st, names);
		sort(&e->m, &st, names);
	}
	free(path);
}

/* Record a state; false if it violates an invariant. */
static bool reach(struct explorer *e, struct state *st, struct node node,
		  struct queue *next)
{
	int names[SESSIONS] = { 0 };
	u8 packed[sizeof(*st)];
	char text[TEXT];
	u64 hash;

	e->steps++;
	sort(&e->m, st, names);
	copy(&e->m, st, packed, false);
	hash = fingerprint(packed, e->packed);
	if (!add(e, hash))
		return true;
	if (e->count == e->room) {
		e->room = e->room ? e->room * 3 / 2 : 1024;
		e->nodes = resize(e->nodes, e->room, sizeof(*e->nodes));
	}
	e->nodes[e->count] = node;
	push(next, packed, e->packed, (u32)e->count++);
	if (model_violation(&e->m, st, e->rates_only, text, sizeof(text))) {
		print_trace(e, (u32)e->count - 1);
		printf("%s: violated: %s\n", e->m.config->name, text);
		return false;
	}
	if (!e->m.config->settle || hash % e->m.config->settle)
		return true;
	e->settled++;
	if (model_does_not_settle(&e->m, st, text, sizeof(text))) {
		print_trace(e, (u32)e->count - 1);
		printf("%s: does not settle: %s\n", e->m.config->name, text);
		return false;
	}
	return true;
}

static bool expand(struct explorer *e, const struct state *from, u32 node,
		   struct queue *next)
{
	int step, at, count;

	for (step = 0; step < STEPS; step++) {
		count = step < ROTATE ? e->m.sessions : e->m.links;
		for (at = 0; at < count; at++) {
			struct state st = *from;
			struct node how = { node, (u8)step, (u8)at };

			if (model_step(&e->m, &st, step, at) &&
			    !reach(e, &st, how, next))
				return false;
		}
	}
	return true;
}

static bool explore(const struct config *config, bool rates_only)
{
	struct explorer e = { .rates_only = rates_only };
	struct queue now = { 0 }, next = { 0 }, swap;
	struct state st;
	clock_t start = clock();
	bool valid;
	size_t i;

	model_init(&e.m, config, &st);
	e.packed = copy(&e.m, &st, NULL, false);
	valid = reach(&e, &st, (struct node){ 0 }, &next);
	while (valid && next.count) {
		swap = now;
		now = next;
		next = swap;
		next.count = 0;
		e.depth++;
		for (i = 0; valid && i < now.count; i++) {
			copy(&e.m, &st, now.data + i * e.packed, true);
			valid = expand(&e, &st, now.nodes[i], &next);
		}
	}
	printf("%s: %zu states, %llu steps, %u deep, %llu settle, %.1f s\n",
	       config->name, e.count, e.steps, e.depth, e.settled,
	       (double)(clock() - start) / CLOCKS_PER_SEC);
	free(e.table);
	free(e.nodes);
	free(now.data);
	free(now.nodes);
	free(next.data);
	free(next.nodes);
	return valid;
}

int main(int argc, char **argv)
{
	const size_t count = sizeof(configs) / sizeof(*configs);
	bool rates_only = argc > 1 && !strcmp(argv[1], "--rates-only");
	int valid = 1, i;
	size_t n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (n = 0; n < count && argc == 1; n++)
		printf("%s %s\n", configs[n].name,
		       configs[n].all ? "all" : "check");
	for (i = 1 + rates_only; i < argc; i++) {
		for (n = 0; n < count; n++)
			if (!strcmp(argv[i], configs[n].name))
				break;
		if (n == count) {
			fprintf(stderr, "explore: no configuration %s\n",
				argv[i]);
			return 2;
		}
		valid &= explore(&configs[n], rates_only);
	}
	return !valid;
}
