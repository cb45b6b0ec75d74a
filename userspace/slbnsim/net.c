// SPDX-License-Identifier: GPL-2.0
/*
 * Building a network: names, links, paths.
 *
 * Functions that can be given something impossible return what is wrong with
 * it, in words, or NULL; who called knows in which line of which file it stood.
 */
#include "net.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Lines of a processor's caches, and its larger pages. */
#define LINE 64UL
#define PAGE (2UL << 20)

/**
 * array() - room for so many things, all 0
 * @count: things
 * @size: of a thing
 *
 * What is large is in large pages if the system has them: where events jump about
 * in it, finding the pages takes much of the time.
 *
 * Return: the array, to be freed. Without memory the program ends.
 */
void *array(size_t count, size_t size)
{
	size_t bytes = count * size + 1;
	void *memory;

	if (posix_memalign(&memory, bytes < PAGE ? LINE : PAGE, bytes)) {
		fputs("slbnsim: out of memory\n", stderr);
		exit(1);
	}
	if (bytes >= PAGE)
		madvise(memory, bytes - bytes % PAGE, MADV_HUGEPAGE);
	return memset(memory, 0, bytes);
}

/**
 * more() - room for one more thing
 * @memory: an array that realloc() knows
 * @count: things in it
 * @room: how many there is room for; changed with it
 * @size: of a thing
 *
 * Return: the array, which may have moved. Without memory the program ends.
 */
void *more(void *memory, u32 count, u32 *room, size_t size)
{
	u64 wanted = *room ? 2ULL * *room : 64;

	if (count < *room)
		return memory;
	if (wanted > NET_NONE - 1ULL)
		wanted = NET_NONE - 1;
	memory = wanted > *room ? realloc(memory, wanted * size) : NULL;
	if (!memory) {
		fputs("slbnsim: out of memory\n", stderr);
		exit(1);
	}
	*room = wanted;
	return memory;
}

/* ------------------------------------------------------------------------ */
/* Names                                                                    */

const char *name_of(const struct names *names, u32 number)
{
	return names->text + names->begins[number];
}

/*
 * FNV-1. The last letter is not mixed with the others: names that come one after
 * the other, as they most often do, come to be in one line of a cache.
 */
static u32 hash_of(const char *text)
{
	u64 hash = 14695981039346656037ULL;

	for (; *text; text++)
		hash = hash * 1099511628211ULL ^ (unsigned char)*text;
	return hash ^ hash >> 32;
}

/*
 * Where a name is, or where it would be. A text is far away in memory: one is
 * looked at only if its hash is right.
 */
static struct slot *name_slot(const struct names *names, const char *text,
			      u32 hash)
{
	u32 mask = names->table_size - 1, at = hash & mask;

	while (names->table[at].number &&
	       (names->table[at].hash != hash ||
		strcmp(name_of(names, names->table[at].number - 1), text)))
		at = (at + 1) & mask;
	return &names->table[at];
}

/**
 * name_find() - which is it?
 * @names: where to look
 * @text: the name
 *
 * Files are in order, and so are each link's two ends: most often it is the one
 * after that which was asked for last, or before. Then nothing has to be looked
 * for in a large table.
 *
 * Return: its number, or NET_NONE.
 */
u32 name_find(struct names *names, const char *text)
{
	u32 *latest = names->latest, n, found = NET_NONE;

	for (n = 0; n < 2 && found == NET_NONE; n++) {
		u32 next = latest[n] + 1;

		if (next < names->count && !strcmp(name_of(names, next), text))
			found = next;
	}
	if (found == NET_NONE && names->table_size)
		found = name_slot(names, text, hash_of(text))->number - 1;
	if (found == NET_NONE)
		return NET_NONE;
	/* One that follows the last takes its place. */
	if (found != latest[0] + 1)
		latest[1] = latest[0];
	latest[0] = found;
	return found;
}

static void more_slots(struct names *names)
{
	u32 old_size = names->table_size, n, at;
	struct slot *old = names->table;

	names->table_size = old_size ? 2 * old_size : 64;
	names->table = array(names->table_size, sizeof(*names->table));
	for (n = 0; n < old_size; n++) {
		if (!old[n].number)
			continue;
		at = old[n].hash & (names->table_size - 1);
		while (names->table[at].number)
			at = (at + 1) & (names->table_size - 1);
		names->table[at] = old[n];
	}
	free(old);
}

/**
 * name_add() - one more
 * @names: where to
 * @text: the name
 *
 * Return: its number, or NET_NONE if it is there already.
 */
u32 name_add(struct names *names, const char *text)
{
	size_t length = strlen(text) + 1;
	u32 hash = hash_of(text);
	struct slot *slot;

	if (2 * names->count >= names->table_size)
		more_slots(names);
	slot = name_slot(names, text, hash);
	if (slot->number)
		return NET_NONE;
	if (names->length + length > names->room) {
		size_t room = 2 * (names->room + length);
		char *bigger = realloc(names->text, room);

		if (!bigger || room > NET_NONE) {
			fputs("slbnsim: out of memory\n", stderr);
			exit(1);
		}
		names->text = bigger;
		names->room = room;
	}
	names->begins = more(names->begins, names->count, &names->begins_room,
			     sizeof(u32));
	memcpy(names->text + names->length, text, length);
	names->begins[names->count] = names->length;
	names->length += length;
	*slot = (struct slot){ .hash = hash, .number = ++names->count };
	return names->count - 1;
}

/* None will be looked for any more. */
static void names_seal(struct names *names)
{
	free(names->table);
	names->table = NULL;
	names->table_size = 0;
}

static void names_free(struct names *names)
{
	free(names->text);
	free(names->begins);
	free(names->table);
}

/* ------------------------------------------------------------------------ */
/* Links                                                                    */

/**
 * net_expect_links() - how many there will be
 * @net: the network, without any
 * @count: links
 *
 * They need not move then.
 */
void net_expect_links(struct net *net, u32 count)
{
	net->links = array(count, sizeof(*net->links));
	net->link_room = count;
}

/**
 * net_add_link() - one more link
 * @net: the network
 * @from: node
 * @to: node
 * @rate: bit/s, 1 to NET_RATE_MAX
 * @delay: ns, at most NET_DELAY_MAX
 *
 * Return: its number.
 */
u32 net_add_link(struct net *net, u32 from, u32 to, u64 rate, u64 delay)
{
	net->links = more(net->links, net->link_count, &net->link_room,
			  sizeof(*net->links));
	net->links[net->link_count] = (struct link){
		.from = from,
		.to = to,
		.back = NET_NONE,
		.rate = rate,
		.delay = delay,
	};
	return net->link_count++;
}

/**
 * net_link_between() - the link from one node to another
 * @net: the network, with its index
 * @from: node
 * @to: node
 *
 * Return: its number, or NET_NONE.
 */
u32 net_link_between(const struct net *net, u32 from, u32 to)
{
	u32 low = net->out[from], high = net->out[from + 1], middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (net->links[net->out_links[middle]].to < to)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < net->out[from + 1] &&
	    net->links[net->out_links[low]].to == to)
		return net->out_links[low];
	return NET_NONE;
}

/*
 * Put links in order of one of their nodes; of the same, they stay as they are.
 * PLACES has for each node where its links begin, and is moved on to where they
 * end.
 */
static void sort_links(const struct net *net, const u32 *from, u32 *to,
		       u32 *places, bool by_to)
{
	u32 n;

	for (n = 0; n < net->link_count; n++) {
		u32 number = from ? from[n] : n;
		const struct link *link = &net->links[number];

		to[places[by_to ? link->to : link->from]++] = number;
	}
}

/* Links by the node that they leave, and then by the node that they lead to. */
static bool index_links(struct net *net)
{
	u32 nodes = net->nodes.count, n;
	u32 *places = calloc(nodes + 2UL, sizeof(u32));
	u32 *by_to = calloc(net->link_count + 1UL, sizeof(u32));

	net->out = calloc(nodes + 2UL, sizeof(u32));
	net->out_links = calloc(net->link_count + 1UL, sizeof(u32));
	if (!places || !by_to || !net->out || !net->out_links) {
		free(places);
		free(by_to);
		return false;
	}
	for (n = 0; n < net->link_count; n++) {
		net->out[net->links[n].from + 1]++;
		places[net->links[n].to + 1]++;
	}
	for (n = 1; n <= nodes; n++) {
		net->out[n] += net->out[n - 1];
		places[n] += places[n - 1];
	}
	sort_links(net, NULL, by_to, places, true);
	memcpy(places, net->out, (nodes + 1UL) * sizeof(u32));
	sort_links(net, by_to, net->out_links, places, false);
	free(places);
	free(by_to);
	return true;
}

/* The first link that leads where one before it does, or NET_NONE. */
static u32 find_second(const struct net *net)
{
	u32 second = NET_NONE, n;

	for (n = 1; n < net->link_count; n++) {
		const struct link *one = &net->links[net->out_links[n - 1]];
		const struct link *other = &net->links[net->out_links[n]];

		if (one->to == other->to && one->from == other->from)
			second = fp_min(second, net->out_links[n]);
	}
	return second;
}

/* A link's other way, which most often is the next link. */
static u32 find_back(const struct net *net, u32 number)
{
	const struct link *link = &net->links[number], *next = link + 1;

	if (number + 1 < net->link_count && next->from == link->to &&
	    next->to == link->from)
		return number + 1;
	return net_link_between(net, link->to, link->from);
}

/**
 * net_index() - find things by their nodes from now on; no more links come
 * @net: the network
 *
 * Return: what is wrong, or NULL.
 */
const char *net_index(struct net *net)
{
	static char reason[512];
	u32 n, back, second;

	free(net->out);
	free(net->out_links);
	if (!index_links(net))
		return "out of memory";
	second = find_second(net);
	if (second != NET_NONE) {
		snprintf(reason, sizeof(reason),
			 "two links from '%.200s' to '%.200s'",
			 name_of(&net->nodes, net->links[second].from),
			 name_of(&net->nodes, net->links[second].to));
		return reason;
	}
	for (n = 0; n < net->link_count; n++) {
		if (net->links[n].back != NET_NONE)
			continue;
		back = find_back(net, n);
		if (back == NET_NONE)
			continue;
		net->links[n].back = back;
		net->links[back].back = n;
	}
	return NULL;
}

/* ------------------------------------------------------------------------ */
/* Sessions and their paths                                                 */

/**
 * net_add_session() - one more session
 * @net: the network
 *
 * Return: it, to be filled in; it may move when another is added.
 */
struct session *net_add_session(struct net *net)
{
	struct session *session;

	net->sessions = more(net->sessions, net->session_count,
			     &net->session_room, sizeof(*net->sessions));
	session = &net->sessions[net->session_count++];
	*session = (struct session){
		.path = NET_NONE,
		.leave = NET_NEVER,
		.demand = NET_RATE_MAX,
	};
	return session;
}

/**
 * net_set_path() - where a session runs
 * @net: the network, with its index
 * @session: the session
 * @links: the links, each beginning where the one before ends
 * @count: how many
 *
 * Return: what is wrong, or NULL.
 */
const char *net_set_path(struct net *net, struct session *session,
			 const u32 *links, u32 count)
{
	static char reason[512];
	u32 n, m;

	if (!count)
		return "a path needs a link";
	if (count > NET_HOPS_MAX)
		return "a path has at most 64 links";
	for (n = 0; n < count; n++) {
		const struct link *link = &net->links[links[n]];

		if (link->back == NET_NONE) {
			snprintf(reason, sizeof(reason),
				 "no link leads back from '%.200s' to '%.200s'",
				 name_of(&net->nodes, link->to),
				 name_of(&net->nodes, link->from));
			return reason;
		}
		for (m = 0; m <= n; m++) {
			if (net->links[links[m]].from != link->to)
				continue;
			snprintf(reason, sizeof(reason),
				 "the path comes to '%.200s' twice",
				 name_of(&net->nodes, link->to));
			return reason;
		}
	}
	session->path = net->hop_count;
	session->hops = count;
	for (n = 0; n < count; n++) {
		net->hops = more(net->hops, net->hop_count, &net->hop_room,
				 sizeof(u32));
		net->hops[net->hop_count++] = links[n];
	}
	return NULL;
}

/*
 * A large network is a tree at its edges: hosts have one link, and so has many a
 * domain of routers to the rest. A path that comes back over such a link is not
 * a shortest one. So the network is cut at its bridges (Tarjan, "A note on
 * finding the bridges of a graph", 1974). What is left are parts, which hang on
 * each other as a tree; each but the first has a top, where its bridge leads up.
 * A path climbs from both ends to the part that they have in common: in each
 * part on its way the path to or from the top is the same for all. Only in the
 * common part is there something to look for, with one search for all sessions
 * that come to it at the same node. Transit-stub networks have a tenth of their
 * routers there, and no hosts.
 *
 * Where there are many sessions there are many hosts, all over memory for who
 * comes from their routers. So the walk that finds bridges leaves out those that
 * are known to have one, and paths are put together in the order of sessions,
 * which most often is that of their hosts.
 */
struct road {
	u32 link;
	u32 to;
	u64 there; /* delays, ns */
	u64 back;
};

/**
 * struct site - where a node is
 * @top: the top of its part
 * @first_top: the top of the first part of all that it is joined to
 * @depth: of a top, parts above it
 * @up: the next link on the shortest path to the top; of a top, the bridge to
 *      the part above
 * @down: the last link on the shortest path from the top; of a top, the bridge
 *        from above
 */
struct site {
	u32 top;
	u32 first_top;
	u32 depth;
	u32 up;
	u32 down;
};

/**
 * struct ways - how to get about in a network
 * @sites: by node
 * @first: by node, its first road in @roads; one more than nodes
 * @roads: links inside of parts
 */
struct ways {
	struct site *sites;
	u32 *first;
	struct road *roads;
};

/* What the search for shortest paths in a part from one node knows. */
struct search {
	u64 *distance; /* by node; NET_NEVER: not seen */
	u32 *via; /* by node, the last link */
	u32 *heap; /* nodes, nearest first */
	u32 *where; /* by node, its place there */
	u32 count;
	u32 *seen; /* nodes */
	u32 seen_count;
};

static u32 *numbers(size_t count)
{
	u32 *memory = calloc(count + 1, sizeof(u32));

	if (!memory) {
		fputs("slbnsim: out of memory\n", stderr);
		exit(1);
	}
	return memory;
}

/*
 * Which nodes have nothing but a bridge: one link, to a node before them. So the
 * first of nodes that are joined is never one. Of others, UP is not known yet.
 */
static void find_ends(const struct net *net, struct ways *w)
{
	u32 node;

	memset(w->sites, 0xff, net->nodes.count * sizeof(*w->sites));
	for (node = 0; node < net->nodes.count; node++) {
		u32 first = net->out[node], number;

		if (net->out[node + 1] - first != 1)
			continue;
		number = net->out_links[first];
		if (net->links[number].back == NET_NONE ||
		    net->links[number].to > node)
			continue;
		w->sites[node].up = number;
		w->sites[node].down = net->links[number].back;
	}
}

static bool is_road(const struct ways *w, const struct link *link)
{
	return link->back != NET_NONE && w->sites[link->from].up == NET_NONE &&
	       w->sites[link->to].up == NET_NONE;
}

/* All links there and back, but for those of ends. */
static void find_roads(const struct net *net, struct ways *w)
{
	/* Where the next road of the node before goes; at last, its end. */
	u32 *at = w->first + 1, n;

	for (n = 0; n < net->link_count; n++)
		if (is_road(w, &net->links[n]))
			at[net->links[n].from + 1]++;
	for (n = 0; n < net->nodes.count; n++)
		at[n + 1] += at[n];
	for (n = 0; n < net->link_count; n++) {
		const struct link *link = &net->links[n];

		if (is_road(w, link))
			w->roads[at[link->from]++] = (struct road){
				.link = n,
				.to = link->to,
				.there = link->delay,
				.back = net->links[link->back].delay,
			};
	}
}

/*
 * Walk along all roads, depth first: who is seen from below again has another
 * way there. Each node's parent is at the other end of its DOWN.
 */
static void find_parts(const struct net *net, struct ways *w)
{
	u32 nodes = net->nodes.count, count = 0, n, node, root;
	u32 *seen = numbers(nodes), *low = numbers(nodes);
	u32 *at = numbers(nodes), *order = numbers(nodes);

	memcpy(at, w->first, nodes * sizeof(u32));
	for (root = 0; root < nodes; root++) {
		if (seen[root] || w->sites[root].up != NET_NONE)
			continue;
		order[count++] = root;
		seen[root] = count;
		low[root] = count;
		node = root;
		while (node != root || at[node] < w->first[node + 1]) {
			const struct road *road;

			if (at[node] == w->first[node + 1]) {
				n = net->links[w->sites[node].down].from;
				low[n] = fp_min(low[n], low[node]);
				node = n;
				continue;
			}
			road = &w->roads[at[node]++];
			if (net->links[road->link].back == w->sites[node].down)
				continue;
			if (seen[road->to]) {
				low[node] = fp_min(low[node], seen[road->to]);
				continue;
			}
			node = road->to;
			w->sites[node].down = road->link;
			order[count++] = node;
			seen[node] = count;
			low[node] = count;
		}
	}
	for (node = 0; node < nodes; node++)
		if (!seen[node])
			order[count++] = node;
	for (n = 0; n < nodes; n++) {
		struct site *site = &w->sites[order[n]], *parent;

		node = order[n];
		site->top = node;
		if (site->down == NET_NONE) {
			site->first_top = node;
			site->depth = 0;
			continue;
		}
		parent = &w->sites[net->links[site->down].from];
		site->first_top = parent->first_top;
		if (low[node] < seen[node]) {
			site->top = parent->top;
			continue;
		}
		site->depth = w->sites[parent->top].depth + 1;
		site->up = net->links[site->down].back;
	}
	free(seen);
	free(low);
	free(at);
	free(order);
}

/* Bridges are not for searches. */
static void leave_bridges(const struct net *net, struct ways *w)
{
	u32 nodes = net->nodes.count, count = 0, at = 0, node;

	for (node = 0; node < nodes; node++) {
		w->first[node] = count;
		for (; at < w->first[node + 1]; at++)
			if (w->sites[w->roads[at].to].top == w->sites[node].top)
				w->roads[count++] = w->roads[at];
	}
	w->first[nodes] = count;
}

static void sift_up(struct search *s, u32 at)
{
	u32 node = s->heap[at], parent;

	for (; at; at = parent) {
		parent = (at - 1) / 4;
		if (s->distance[s->heap[parent]] <= s->distance[node])
			break;
		s->heap[at] = s->heap[parent];
		s->where[s->heap[at]] = at;
	}
	s->heap[at] = node;
	s->where[node] = at;
}

static u32 take_nearest(struct search *s)
{
	u32 nearest = s->heap[0], last = s->heap[--s->count], at = 0, child, n;

	for (;;) {
		u32 first = 4 * at + 1;

		if (first >= s->count)
			break;
		child = first;
		for (n = first + 1; n < first + 4 && n < s->count; n++)
			if (s->distance[s->heap[n]] <
			    s->distance[s->heap[child]])
				child = n;
		if (s->distance[s->heap[child]] >= s->distance[last])
			break;
		s->heap[at] = s->heap[child];
		s->where[s->heap[at]] = at;
		at = child;
	}
	s->heap[at] = last;
	s->where[last] = at;
	return nearest;
}

/* Shortest paths from a node to all others of its part; or BACKWARDS, to it. */
static void search_from(const struct ways *w, struct search *s, u32 from,
			bool backwards)
{
	u32 n;

	while (s->seen_count)
		s->distance[s->seen[--s->seen_count]] = NET_NEVER;
	s->distance[from] = 0;
	s->via[from] = NET_NONE;
	s->heap[0] = from;
	s->where[from] = 0;
	s->count = 1;
	s->seen[s->seen_count++] = from;
	while (s->count) {
		u32 node = take_nearest(s);

		for (n = w->first[node]; n < w->first[node + 1]; n++) {
			const struct road *road = &w->roads[n];
			u64 far = s->distance[node] +
				  (backwards ? road->back : road->there);

			if (far >= s->distance[road->to])
				continue;
			if (s->distance[road->to] == NET_NEVER) {
				s->seen[s->seen_count++] = road->to;
				s->where[road->to] = s->count;
				s->heap[s->count++] = road->to;
			}
			s->distance[road->to] = far;
			s->via[road->to] = road->link;
			sift_up(s, s->where[road->to]);
		}
	}
}

/* The shortest paths between each part's nodes and its top. */
static void find_climbs(const struct net *net, struct ways *w, struct search *s)
{
	u32 top, n;

	for (top = 0; top < net->nodes.count; top++) {
		if (w->sites[top].top != top ||
		    w->first[top] == w->first[top + 1])
			continue;
		search_from(w, s, top, false);
		for (n = 1; n < s->seen_count; n++)
			w->sites[s->seen[n]].down = s->via[s->seen[n]];
		search_from(w, s, top, true);
		for (n = 1; n < s->seen_count; n++)
			w->sites[s->seen[n]].up =
				net->links[s->via[s->seen[n]]].back;
	}
}

/* A path that is being made, from both ends. */
struct climb {
	u32 head; /* a node: so far from the source, */
	u32 tail; /* and this far from the destination */
	u32 ahead[NET_HOPS_MAX]; /* links from the source */
	u32 ahead_count;
	u32 behind[NET_HOPS_MAX]; /* and from the destination, backwards */
	u32 behind_count;
};

static void step_ahead(const struct net *net, struct climb *c, u32 link)
{
	c->ahead[c->ahead_count++] = link;
	c->head = net->links[link].to;
}

static void step_behind(const struct net *net, struct climb *c, u32 link)
{
	c->behind[c->behind_count++] = link;
	c->tail = net->links[link].from;
}

static const char too_long[] = "the shortest path has more than 64 links";

/* Climb from both ends, until both are in one part. */
static const char *climb(const struct net *net, const struct ways *w,
			 const struct session *session, struct climb *c)
{
	static char reason[512];

	c->head = session->from;
	c->tail = session->to;
	c->ahead_count = 0;
	c->behind_count = 0;
	if (w->sites[c->head].first_top != w->sites[c->tail].first_top) {
		snprintf(reason, sizeof(reason),
			 "no path from '%.200s' to '%.200s'",
			 name_of(&net->nodes, session->from),
			 name_of(&net->nodes, session->to));
		return reason;
	}
	while (w->sites[c->head].top != w->sites[c->tail].top) {
		u32 one = w->sites[c->head].top, other = w->sites[c->tail].top;

		if (c->ahead_count + c->behind_count == NET_HOPS_MAX)
			return too_long;
		if (w->sites[one].depth >= w->sites[other].depth)
			step_ahead(net, c, w->sites[c->head].up);
		else
			step_behind(net, c, w->sites[c->tail].down);
	}
	return NULL;
}

/**
 * struct trip - a session's way through the common part
 * @head: the node where it begins
 * @tail: and where it ends
 * @room: most links that it may have
 * @middle: where these begin, the last first
 */
struct trip {
	u32 head;
	u32 tail;
	u32 room;
	u32 middle;
};

/* Links of all trips. */
struct middles {
	u32 *links;
	u32 count;
	u32 room;
};

/* Sessions that have no path, by the node where their trips begin. */
static u32 sort_trips(const struct net *net, const struct trip *trips,
		      u32 *order)
{
	u32 nodes = net->nodes.count, *at = numbers(nodes + 1UL), n;

	for (n = 0; n < net->session_count; n++)
		if (net->sessions[n].path == NET_NONE)
			at[trips[n].head + 1]++;
	for (n = 0; n < nodes; n++)
		at[n + 1] += at[n];
	for (n = 0; n < net->session_count; n++)
		if (net->sessions[n].path == NET_NONE)
			order[at[trips[n].head]++] = n;
	n = at[nodes];
	free(at);
	return n;
}

/* A trip's links, once the search from where it begins knows them. */
static const char *cross(const struct net *net, const struct search *s,
			 struct trip *trip, struct middles *m)
{
	u32 node, link;

	trip->middle = m->count;
	for (node = trip->tail; (link = s->via[node]) != NET_NONE;
	     node = net->links[link].from) {
		if (m->count - trip->middle == trip->room)
			return too_long;
		m->links = more(m->links, m->count, &m->room, sizeof(u32));
		m->links[m->count++] = link;
	}
	return NULL;
}

/* All of a path, now that its middle is known. */
static const char *finish(struct net *net, const struct middles *m, u32 middle,
			  struct session *session, struct climb *c)
{
	while (c->tail != c->head)
		step_behind(net, c, m->links[middle++]);
	while (c->behind_count)
		c->ahead[c->ahead_count++] = c->behind[--c->behind_count];
	return net_set_path(net, session, c->ahead, c->ahead_count);
}

/**
 * net_route() - give each session that has no path the shortest
 * @net: the network, with its index
 * @which: set to the session that has none, if there is one
 *
 * Return: what is wrong, or NULL.
 */
const char *net_route(struct net *net, u32 *which)
{
	u32 nodes = net->nodes.count, *order, count, n, at;
	const char *wrong = NULL;
	struct middles m = {};
	struct trip *trips;
	struct climb c;
	struct ways w = {
		.sites = array(nodes, sizeof(*w.sites)),
		.first = numbers(nodes + 1UL),
		.roads = malloc((net->link_count + 1UL) * sizeof(*w.roads)),
	};
	struct search s = {
		.distance = malloc((nodes + 1UL) * sizeof(u64)),
		.via = numbers(nodes),
		.heap = numbers(nodes),
		.where = numbers(nodes),
		.seen = numbers(nodes),
	};

	order = numbers(net->session_count);
	trips = malloc((net->session_count + 1UL) * sizeof(*trips));
	if (!w.roads || !s.distance || !trips) {
		wrong = "out of memory";
		goto out;
	}
	memset(s.distance, 0xff, nodes * sizeof(u64));
	find_ends(net, &w);
	find_roads(net, &w);
	find_parts(net, &w);
	leave_bridges(net, &w);
	find_climbs(net, &w, &s);
	for (n = net->session_count; n-- && !wrong;) {
		if (net->sessions[n].path != NET_NONE)
			continue;
		*which = n;
		wrong = climb(net, &w, &net->sessions[n], &c);
		trips[n].head = c.head;
		trips[n].tail = c.tail;
		trips[n].room = NET_HOPS_MAX - c.ahead_count - c.behind_count;
	}
	count = wrong ? 0 : sort_trips(net, trips, order);
	for (at = 0; at < count && !wrong; at++) {
		struct trip *trip = &trips[order[at]];

		if (!at || trip->head != trips[order[at - 1]].head)
			search_from(&w, &s, trip->head, false);
		*which = order[at];
		wrong = cross(net, &s, trip, &m);
	}
	for (n = 0; n < net->session_count && !wrong; n++) {
		if (net->sessions[n].path != NET_NONE)
			continue;
		*which = n;
		climb(net, &w, &net->sessions[n], &c);
		wrong = finish(net, &m, trips[n].middle, &net->sessions[n], &c);
	}
out:
	free(w.sites);
	free(w.first);
	free(w.roads);
	free(s.distance);
	free(s.via);
	free(s.heap);
	free(s.where);
	free(s.seen);
	free(order);
	free(trips);
	free(m.links);
	return wrong;
}

/**
 * net_seal() - all is there, and nothing will be looked for any more
 * @net: the network, with paths of all sessions
 *
 * What names and links are found by is a tenth of what a run takes. And a link's
 * two ways come to be in one line of a cache.
 */
void net_seal(struct net *net)
{
	struct link *links = net->links;

	if (links && (size_t)links % LINE) {
		net_expect_links(net, net->link_count);
		memcpy(net->links, links, net->link_count * sizeof(*links));
		free(links);
	}
	names_seal(&net->nodes);
	names_seal(&net->ids);
	free(net->out);
	free(net->out_links);
	net->out = NULL;
	net->out_links = NULL;
}

void net_free(struct net *net)
{
	names_free(&net->nodes);
	names_free(&net->ids);
	free(net->links);
	free(net->sessions);
	free(net->hops);
	free(net->out);
	free(net->out_links);
}
