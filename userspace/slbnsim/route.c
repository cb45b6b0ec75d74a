// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "net.h"

/*
 * Shortest paths by delay, for all sessions together.
 *
 * Large networks are trees at their edges: hosts have one link, and stub
 * domains often have one link to the rest. No shortest path crosses such a link
 * twice. So the network is split at its bridges (Tarjan, "A note on finding the
 * bridges of a graph", 1974) into components, which form trees. Each component
 * but the first of a tree has a root, the node at the bridge to its parent
 * component.
 *
 * A path climbs from both ends to the component that they have in common.
 * Within the components on the way, the paths to and from the root are the same
 * for all sessions. Only in the common component is there a search, one for all
 * sessions that enter it at the same node. In transit-stub networks that
 * component has a tenth of the routers, and no hosts.
 *
 * With many sessions there are many hosts, scattered in memory as seen from
 * their routers. So the walk that finds bridges skips leaves, which are known
 * to hang on one, and paths are assembled in the order of the sessions, which
 * most often is that of their hosts.
 */
struct arc {
	u32 link;
	u32 to;
	u64 delay; /* ns */
	u64 reverse; /* delay of the reverse link, ns */
};

/**
 * struct place - a node's place in the tree of components
 * @root: the root of its component
 * @first_root: the root of the first component of its tree
 * @depth: of a root, the number of components above it
 * @up: the next link on the shortest path to the root; of a root, the bridge to
 *	the parent component
 * @down: the last link on the shortest path from the root; of a root, the
 *	bridge from the parent component
 */
struct place {
	u32 root;
	u32 first_root;
	u32 depth;
	u32 up;
	u32 down;
};

/**
 * struct topology - the network without bridges
 * @places: by node
 * @first: by node, its first arc in @arcs; one element more than nodes
 * @arcs: links within components
 */
struct topology {
	struct place *places;
	u32 *first;
	struct arc *arcs;
};

/* The state of Dijkstra's algorithm, within a component, from one node. */
struct search {
	u64 *distance; /* by node; NET_NEVER: not reached */
	u32 *via; /* by node, the last link of its path */
	u32 *heap; /* nodes; a 4-ary heap by distance */
	u32 *where; /* by node, its index in the heap */
	u32 count;
	u32 *seen; /* nodes that were reached */
	u32 seen_count;
};

/*
 * Find leaves: nodes with a single link, to a node with a smaller number, so
 * that the first node of a tree is never one. UP of all other nodes is unset.
 */
static void find_leaves(const struct net *net, struct topology *t)
{
	u32 node;

	memset(t->places, 0xff, net->nodes.count * sizeof(*t->places));
	for (node = 0; node < net->nodes.count; node++) {
		u32 first = net->out[node], number;

		if (net->out[node + 1] - first != 1)
			continue;
		number = net->out_links[first];
		if (net->links[number].reverse == NET_NONE ||
		    net->links[number].to > node)
			continue;
		t->places[node].up = number;
		t->places[node].down = net->links[number].reverse;
	}
}

static bool is_arc(const struct topology *t, const struct link *link)
{
	return link->reverse != NET_NONE &&
	       t->places[link->from].up == NET_NONE &&
	       t->places[link->to].up == NET_NONE;
}

/* All links that have a reverse, without those of leaves. */
static void find_arcs(const struct net *net, struct topology *t)
{
	/* The insertion point of the previous node; finally, its end. */
	u32 *at = t->first + 1, n;

	for (n = 0; n < net->link_count; n++)
		if (is_arc(t, &net->links[n]))
			at[net->links[n].from + 1]++;
	for (n = 0; n < net->nodes.count; n++)
		at[n + 1] += at[n];
	for (n = 0; n < net->link_count; n++) {
		const struct link *link = &net->links[n];

		if (is_arc(t, link))
			t->arcs[at[link->from]++] = (struct arc){
				.link = n,
				.to = link->to,
				.delay = link->delay,
				.reverse = net->links[link->reverse].delay,
			};
	}
}

/*
 * Depth-first search for bridges: the link from a node's parent is not a bridge
 * if the search finds another way from below to the parent or above it. A
 * node's parent is at the other end of its DOWN.
 */
static void find_components(const struct net *net, struct topology *t)
{
	u32 nodes = net->nodes.count, count = 0, n, node, root;
	u32 *seen = alloc_u32(nodes), *low = alloc_u32(nodes);
	u32 *at = alloc_u32(nodes), *order = alloc_u32(nodes);

	memcpy(at, t->first, nodes * sizeof(u32));
	for (root = 0; root < nodes; root++) {
		if (seen[root] || t->places[root].up != NET_NONE)
			continue;
		order[count++] = root;
		seen[root] = count;
		low[root] = count;
		node = root;
		while (node != root || at[node] < t->first[node + 1]) {
			const struct arc *arc;

			if (at[node] == t->first[node + 1]) {
				n = net->links[t->places[node].down].from;
				low[n] = fp_min(low[n], low[node]);
				node = n;
				continue;
			}
			arc = &t->arcs[at[node]++];
			if (net->links[arc->link].reverse ==
			    t->places[node].down)
				continue;
			if (seen[arc->to]) {
				low[node] = fp_min(low[node], seen[arc->to]);
				continue;
			}
			node = arc->to;
			t->places[node].down = arc->link;
			order[count++] = node;
			seen[node] = count;
			low[node] = count;
		}
	}
	for (node = 0; node < nodes; node++)
		if (!seen[node])
			order[count++] = node;
	for (n = 0; n < nodes; n++) {
		struct place *place = &t->places[order[n]], *parent;

		node = order[n];
		place->root = node;
		if (place->down == NET_NONE) {
			place->first_root = node;
			place->depth = 0;
			continue;
		}
		parent = &t->places[net->links[place->down].from];
		place->first_root = parent->first_root;
		if (low[node] < seen[node]) {
			place->root = parent->root;
			continue;
		}
		place->depth = t->places[parent->root].depth + 1;
		place->up = net->links[place->down].reverse;
	}
	free(seen);
	free(low);
	free(at);
	free(order);
}

/* Remove bridges from the arcs. */
static void drop_bridges(const struct net *net, struct topology *t)
{
	u32 nodes = net->nodes.count, count = 0, at = 0, node;

	for (node = 0; node < nodes; node++) {
		t->first[node] = count;
		for (; at < t->first[node + 1]; at++)
			if (t->places[t->arcs[at].to].root ==
			    t->places[node].root)
				t->arcs[count++] = t->arcs[at];
	}
	t->first[nodes] = count;
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

static u32 pop_nearest(struct search *s)
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

/*
 * Shortest paths from a node to all others of its component; BACKWARDS: to it.
 */
static void find_distances(const struct topology *t, struct search *s, u32 from,
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
		u32 node = pop_nearest(s);

		for (n = t->first[node]; n < t->first[node + 1]; n++) {
			const struct arc *arc = &t->arcs[n];
			u64 far = s->distance[node] +
				  (backwards ? arc->reverse : arc->delay);

			if (far >= s->distance[arc->to])
				continue;
			if (s->distance[arc->to] == NET_NEVER) {
				s->seen[s->seen_count++] = arc->to;
				s->where[arc->to] = s->count;
				s->heap[s->count++] = arc->to;
			}
			s->distance[arc->to] = far;
			s->via[arc->to] = arc->link;
			sift_up(s, s->where[arc->to]);
		}
	}
}

/* The shortest paths between each component's root and its other nodes. */
static void find_root_paths(const struct net *net, struct topology *t,
			    struct search *s)
{
	u32 root, n;

	for (root = 0; root < net->nodes.count; root++) {
		if (t->places[root].root != root ||
		    t->first[root] == t->first[root + 1])
			continue;
		find_distances(t, s, root, false);
		for (n = 1; n < s->seen_count; n++)
			t->places[s->seen[n]].down = s->via[s->seen[n]];
		find_distances(t, s, root, true);
		for (n = 1; n < s->seen_count; n++)
			t->places[s->seen[n]].up =
				net->links[s->via[s->seen[n]]].reverse;
	}
}

/* A path that is being assembled from both ends. */
struct partial_path {
	u32 head; /* the node that was reached from the source */
	u32 tail; /* the node that was reached from the destination */
	u32 head_links[NET_HOPS_MAX]; /* from the source to the head */
	u32 head_count;
	u32 tail_links[NET_HOPS_MAX]; /* from the destination to the tail */
	u32 tail_count;
};

static void append_link(const struct net *net, struct partial_path *c, u32 link)
{
	c->head_links[c->head_count++] = link;
	c->head = net->links[link].to;
}

static void prepend_link(const struct net *net, struct partial_path *c,
			 u32 link)
{
	c->tail_links[c->tail_count++] = link;
	c->tail = net->links[link].from;
}

static const char too_long[] = "the shortest path has more than 64 links";

/* Climb from both ends to their common component. */
static const char *climb(const struct net *net, const struct topology *t,
			 const struct session *session, struct partial_path *c)
{
	static char reason[512];

	c->head = session->from;
	c->tail = session->to;
	c->head_count = 0;
	c->tail_count = 0;
	if (t->places[c->head].first_root != t->places[c->tail].first_root) {
		snprintf(reason, sizeof(reason),
			 "no path from '%.200s' to '%.200s'",
			 name_of(&net->nodes, session->from),
			 name_of(&net->nodes, session->to));
		return reason;
	}
	while (t->places[c->head].root != t->places[c->tail].root) {
		u32 one = t->places[c->head].root,
		    other = t->places[c->tail].root;

		if (c->head_count + c->tail_count == NET_HOPS_MAX)
			return too_long;
		if (t->places[one].depth >= t->places[other].depth)
			append_link(net, c, t->places[c->head].up);
		else
			prepend_link(net, c, t->places[c->tail].down);
	}
	return NULL;
}

/**
 * struct segment - the part of a session's path in the common component
 * @head: its first node
 * @tail: its last node
 * @room: the most links that it may have
 * @first: where its links begin in the list, in reverse order
 */
struct segment {
	u32 head;
	u32 tail;
	u32 room;
	u32 first;
};

/* The links of all segments. */
struct link_list {
	u32 *links;
	u32 count;
	u32 room;
};

/* Sort the sessions without a path by the first node of their segments. */
static u32 sort_segments(const struct net *net, const struct segment *segments,
			 u32 *order)
{
	u32 nodes = net->nodes.count, *at = alloc_u32(nodes + 1UL), n;

	for (n = 0; n < net->session_count; n++)
		if (net->sessions[n].path == NET_NONE)
			at[segments[n].head + 1]++;
	for (n = 0; n < nodes; n++)
		at[n + 1] += at[n];
	for (n = 0; n < net->session_count; n++)
		if (net->sessions[n].path == NET_NONE)
			order[at[segments[n].head]++] = n;
	n = at[nodes];
	free(at);
	return n;
}

/* Collect a segment's links; the search started at its head. */
static const char *find_segment(const struct net *net, const struct search *s,
				struct segment *segment, struct link_list *m)
{
	u32 node, link;

	segment->first = m->count;
	for (node = segment->tail; (link = s->via[node]) != NET_NONE;
	     node = net->links[link].from) {
		if (m->count - segment->first == segment->room)
			return too_long;
		m->links =
			grow_array(m->links, m->count, &m->room, sizeof(u32));
		m->links[m->count++] = link;
	}
	return NULL;
}

/* Append the segment and the links from the destination. */
static const char *join_path(struct net *net, const struct link_list *m,
			     u32 first, struct session *session,
			     struct partial_path *c)
{
	while (c->tail != c->head)
		prepend_link(net, c, m->links[first++]);
	while (c->tail_count)
		c->head_links[c->head_count++] = c->tail_links[--c->tail_count];
	return net_set_path(net, session, c->head_links, c->head_count);
}

/**
 * net_route() - give each session without a path the shortest one
 * @net: the network, with its index
 * @which: set to the session that has no path, if there is an error
 *
 * Return: an error message, or NULL.
 */
const char *net_route(struct net *net, u32 *which)
{
	u32 nodes = net->nodes.count, *order, count, n, at;
	const char *error = NULL;
	struct link_list m = {};
	struct segment *segments;
	struct partial_path c;
	struct topology t = {
		.places = alloc_array(nodes, sizeof(*t.places)),
		.first = alloc_u32(nodes + 1UL),
		.arcs = malloc((net->link_count + 1UL) * sizeof(*t.arcs)),
	};
	struct search s = {
		.distance = malloc((nodes + 1UL) * sizeof(u64)),
		.via = alloc_u32(nodes),
		.heap = alloc_u32(nodes),
		.where = alloc_u32(nodes),
		.seen = alloc_u32(nodes),
	};

	order = alloc_u32(net->session_count);
	segments = malloc((net->session_count + 1UL) * sizeof(*segments));
	if (!t.arcs || !s.distance || !segments) {
		error = "out of memory";
		goto out;
	}
	memset(s.distance, 0xff, nodes * sizeof(u64));
	find_leaves(net, &t);
	find_arcs(net, &t);
	find_components(net, &t);
	drop_bridges(net, &t);
	find_root_paths(net, &t, &s);
	for (n = net->session_count; n-- && !error;) {
		if (net->sessions[n].path != NET_NONE)
			continue;
		*which = n;
		error = climb(net, &t, &net->sessions[n], &c);
		segments[n].head = c.head;
		segments[n].tail = c.tail;
		segments[n].room = NET_HOPS_MAX - c.head_count - c.tail_count;
	}
	count = error ? 0 : sort_segments(net, segments, order);
	for (at = 0; at < count && !error; at++) {
		struct segment *segment = &segments[order[at]];

		if (!at || segment->head != segments[order[at - 1]].head)
			find_distances(&t, &s, segment->head, false);
		*which = order[at];
		error = find_segment(net, &s, segment, &m);
	}
	for (n = 0; n < net->session_count && !error; n++) {
		if (net->sessions[n].path != NET_NONE)
			continue;
		*which = n;
		climb(net, &t, &net->sessions[n], &c);
		error = join_path(net, &m, segments[n].first, &net->sessions[n],
				  &c);
	}
out:
	free(t.places);
	free(t.first);
	free(t.arcs);
	free(s.distance);
	free(s.via);
	free(s.heap);
	free(s.where);
	free(s.seen);
	free(order);
	free(segments);
	free(m.links);
	return error;
}
