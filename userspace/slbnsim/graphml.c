// SPDX-License-Identifier: GPL-2.0
/*
 * GraphML to a network. See graphml.h for whose.
 *
 * A link's delay is that of light in glass over the great circle between its
 * ends, and half as much again for the detours of cables: 7.5 us for a kilometre,
 * in whole microseconds, as fairlab's mesh.py has it.
 *
 * Such files describe maps and not networks, so some things in them need a rule:
 *
 *   - a node is called by its label; several of the same label, by that with #
 *     and their ids in the file behind it; one without a label, by its id;
 *   - links between the same two nodes are one, with the sum of their rates and
 *     the least of their delays;
 *   - a link from a node to itself leads nowhere and is left out;
 *   - nodes of other networks (Internal is 0) stay unless it is asked for.
 *
 * What is left out or put together is told on standard error. Nodes without a
 * link stay, too: a session from there is refused where it stands.
 *
 * Unless they say that they are directed, edges lead both ways. Values of other
 * attributes, and what other programs hide in <data>, are passed over. Graphs in
 * graphs, hyperedges and entities are refused: no such network is meant.
 */
#include "graphml.h"

#include <expat.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EARTH_RADIUS_KM 6371
#define US_PER_KM (5 * 1.5)

/* Attributes that are understood. */
enum attribute {
	LABEL,
	LATITUDE,
	LONGITUDE,
	INTERNAL,
	SPEED,
	ATTRIBUTES
};

static const char *const attributes[ATTRIBUTES] = {
	"label", "Latitude", "Longitude", "Internal", "LinkSpeedRaw",
};

/* What the elements that are open now amount to. */
enum place {
	P_FILE,
	P_GRAPHML,
	P_KEY,
	P_DEFAULT,
	P_GRAPH,
	P_NODE,
	P_EDGE,
	P_DATA,
};

struct knot {
	u32 line;
	u32 label; /* its name, in map->labels; NET_NONE without one */
	u32 node; /* in the network; NET_NONE: left out */
	double latitude; /* degrees; NAN: not known */
	double longitude;
	bool inside;
};

struct edge {
	u32 line;
	u32 ends[2]; /* ids, in map->ends */
	double rate; /* NAN: not known */
	bool directed;
};

/* A link as it will be, or a part of it. */
struct part {
	u32 edge;
	u32 from;
	u32 to;
	u64 rate;
	u64 delay;
	bool gone; /* it has become part of another */
};

struct map {
	const char *file;
	const struct zoo *zoo;
	struct net *net;
	XML_Parser xml;
	enum place place;
	enum place above; /* of data: whose it is */
	u32 passed_over; /* elements that are open and mean nothing here */
	bool graph_seen;
	bool directed;
	char keys[ATTRIBUTES][NAME_ROOM]; /* ids; empty: not declared */
	char defaults[ATTRIBUTES][NAME_ROOM];
	char values[ATTRIBUTES][NAME_ROOM];
	u32 given[ATTRIBUTES]; /* line, or 0 */
	enum attribute attribute; /* whose value is read now, or ATTRIBUTES */
	char value[NAME_ROOM];
	u32 value_length;
	struct names ids; /* of nodes, as knots are numbered */
	struct names labels;
	struct names ends;
	struct knot *knots;
	u32 knot_room;
	struct edge *edges;
	u32 edge_count;
	u32 edge_room;
	struct part *parts;
	u32 part_count;
	u32 part_room;
	struct part **sorted; /* by their ends */
	u32 outside; /* nodes left out */
	u32 loops; /* links left out */
	u32 joined; /* links put together with others */
};

static u32 line_now(const struct map *map)
{
	return XML_GetCurrentLineNumber(map->xml);
}

/* Is it called that? Whatever prefix its namespace has. */
static bool is(const char *element, const char *name)
{
	const char *colon = strrchr(element, ':');

	return !strcmp(colon ? colon + 1 : element, name);
}

static const char *find(const char **pairs, const char *name)
{
	for (; *pairs; pairs += 2)
		if (!strcmp(pairs[0], name))
			return pairs[1];
	return NULL;
}

/* An attribute that must be there, as a name. */
static const char *need(struct map *map, const char *element,
			const char **pairs, const char *name)
{
	const char *value = find(pairs, name), *wrong;

	if (!value)
		refuse_line(map->file, line_now(map), "<%s> without %s",
			    element, name);
	wrong = wrong_name(value, strlen(value));
	if (wrong)
		refuse_line(map->file, line_now(map), "%s of <%s>: %s", name,
			    element, wrong);
	return value;
}

/* ------------------------------------------------------------------------ */
/* Values                                                                   */

/* Without white space around it, and with one blank for any in it. */
static void tidy(char *text)
{
	char *from, *to = text;

	for (from = text; *from; from++) {
		if (!strchr(" \t\r\n", *from))
			*to++ = *from;
		else if (to > text && to[-1] != ' ')
			*to++ = ' ';
	}
	if (to > text && to[-1] == ' ')
		to--;
	*to = '\0';
}

static double number_of(const struct map *map, enum attribute which,
			double least, double most, const char *unit)
{
	const char *text = map->values[which];
	double value;

	if (!*text)
		return NAN;
	value = number_in(text);
	if (!(value >= least && value <= most))
		refuse_line(map->file, map->given[which],
			    "%s '%.40s': must be %g to %g%s", attributes[which],
			    text, least, most, unit);
	return value;
}

static void begin_values(struct map *map)
{
	u32 n;

	for (n = 0; n < ATTRIBUTES; n++) {
		strcpy(map->values[n], map->defaults[n]);
		map->given[n] = line_now(map);
	}
}

static void begin_value(struct map *map, enum attribute which)
{
	map->attribute = which;
	map->value_length = 0;
}

static void XMLCALL on_text(void *context, const char *text, int length)
{
	struct map *map = context;

	if (map->attribute == ATTRIBUTES || map->passed_over ||
	    (map->place != P_DATA && map->place != P_DEFAULT))
		return;
	if (map->value_length + length >= NAME_ROOM)
		refuse_line(map->file, line_now(map), "%s is too long",
			    attributes[map->attribute]);
	memcpy(map->value + map->value_length, text, length);
	map->value_length += length;
}

static void end_value(struct map *map, char values[][NAME_ROOM])
{
	enum attribute which = map->attribute;

	if (which == ATTRIBUTES)
		return;
	map->value[map->value_length] = '\0';
	tidy(map->value);
	strcpy(values[which], map->value);
	map->given[which] = line_now(map);
	map->attribute = ATTRIBUTES;
}

/* ------------------------------------------------------------------------ */
/* Elements                                                                 */

static bool is_about(enum attribute which, const char *what)
{
	return !strcmp(what, "all") ||
	       !strcmp(what, which == SPEED ? "edge" : "node");
}

static void begin_key(struct map *map, const char **pairs)
{
	const char *id = need(map, "key", pairs, "id"), *name, *what;
	u32 n;

	name = find(pairs, "attr.name");
	what = find(pairs, "for");
	map->attribute = ATTRIBUTES;
	for (n = 0; n < ATTRIBUTES; n++) {
		if (!strcmp(map->keys[n], id))
			refuse_line(map->file, line_now(map), "two keys '%s'",
				    id);
		if (!name || strcasecmp(name, attributes[n]) ||
		    !is_about(n, what ? what : "all"))
			continue;
		if (*map->keys[n])
			refuse_line(map->file, line_now(map),
				    "two keys are called %s", attributes[n]);
		strcpy(map->keys[n], id);
		begin_value(map, n);
	}
}

static void begin_data(struct map *map, const char **pairs)
{
	const char *key = find(pairs, "key");
	const char *whose = map->above == P_EDGE ? "edge" : "node";
	u32 n;

	map->attribute = ATTRIBUTES;
	for (n = 0; n < ATTRIBUTES; n++)
		if (key && *key && !strcmp(key, map->keys[n]) &&
		    is_about(n, whose))
			begin_value(map, n);
}

static void begin_graph(struct map *map, const char **pairs)
{
	const char *way = find(pairs, "edgedefault");

	if (map->graph_seen)
		refuse_line(map->file, line_now(map), "a second graph");
	map->graph_seen = true;
	if (!way || (strcmp(way, "directed") && strcmp(way, "undirected")))
		refuse_line(map->file, line_now(map),
			    "edgedefault must be directed or undirected");
	map->directed = !strcmp(way, "directed");
}

static void begin_node(struct map *map, const char **pairs)
{
	const char *id = need(map, "node", pairs, "id");
	u32 number;

	map->knots = more(map->knots, map->ids.count, &map->knot_room,
			  sizeof(*map->knots));
	number = name_add(&map->ids, id);
	if (number == NET_NONE)
		refuse_line(map->file, line_now(map), "two nodes '%s'", id);
	map->knots[number] = (struct knot){ .line = line_now(map) };
	begin_values(map);
}

static void begin_edge(struct map *map, const char **pairs)
{
	static const char *const sides[2] = { "source", "target" };
	const char *directed = find(pairs, "directed");
	struct edge *edge;
	u32 side;

	map->edges = more(map->edges, map->edge_count, &map->edge_room,
			  sizeof(*map->edges));
	edge = &map->edges[map->edge_count++];
	*edge = (struct edge){
		.line = line_now(map),
		.directed =
			directed ? !strcmp(directed, "true") : map->directed,
	};
	for (side = 0; side < 2; side++) {
		const char *id = need(map, "edge", pairs, sides[side]);

		edge->ends[side] = name_add(&map->ends, id);
		if (edge->ends[side] == NET_NONE)
			edge->ends[side] = name_find(&map->ends, id);
	}
	begin_values(map);
}

static void XMLCALL on_begin(void *context, const char *name,
			     const char **pairs)
{
	struct map *map = context;

	if (map->passed_over) {
		map->passed_over++;
	} else if (map->place == P_FILE) {
		if (!is(name, "graphml"))
			refuse_line(map->file, line_now(map),
				    "<%.40s>: expected <graphml>", name);
		map->place = P_GRAPHML;
	} else if (map->place != P_DATA && map->place != P_GRAPHML &&
		   (is(name, "hyperedge") || is(name, "graph"))) {
		refuse_line(map->file, line_now(map),
			    "<%.40s> here is too much", name);
	} else if (map->place == P_GRAPHML && is(name, "graph")) {
		begin_graph(map, pairs);
		map->place = P_GRAPH;
	} else if (map->place == P_GRAPHML && is(name, "key")) {
		begin_key(map, pairs);
		map->place = P_KEY;
	} else if (map->place == P_KEY && is(name, "default")) {
		map->value_length = 0;
		map->place = P_DEFAULT;
	} else if (map->place == P_GRAPH && is(name, "node")) {
		begin_node(map, pairs);
		map->place = P_NODE;
	} else if (map->place == P_GRAPH && is(name, "edge")) {
		begin_edge(map, pairs);
		map->place = P_EDGE;
	} else if ((map->place == P_NODE || map->place == P_EDGE) &&
		   is(name, "data")) {
		map->above = map->place;
		begin_data(map, pairs);
		map->place = P_DATA;
	} else {
		map->passed_over++;
	}
}

static void end_node(struct map *map)
{
	struct knot *knot = &map->knots[map->ids.count - 1];
	const char *label = map->values[LABEL];
	double inside = number_of(map, INTERNAL, 0, 1, "");

	knot->latitude = number_of(map, LATITUDE, -90, 90, " degrees");
	knot->longitude = number_of(map, LONGITUDE, -180, 180, " degrees");
	knot->inside = !(inside < 1);
	knot->label = NET_NONE;
	if (!*label)
		return;
	knot->label = name_add(&map->labels, label);
	if (knot->label == NET_NONE)
		knot->label = name_find(&map->labels, label);
}

static void XMLCALL on_end(void *context, const char *name)
{
	struct map *map = context;

	(void)name;
	if (map->passed_over) {
		map->passed_over--;
		return;
	}
	switch (map->place) {
	case P_DEFAULT:
		end_value(map, map->defaults);
		map->place = P_KEY;
		break;
	case P_DATA:
		end_value(map, map->values);
		map->place = map->above;
		break;
	case P_NODE:
		end_node(map);
		map->place = P_GRAPH;
		break;
	case P_EDGE:
		map->edges[map->edge_count - 1].rate =
			number_of(map, SPEED, 1, NET_RATE_MAX, " bit/s");
		map->place = P_GRAPH;
		break;
	case P_KEY:
		map->attribute = ATTRIBUTES;
		map->place = P_GRAPHML;
		break;
	case P_GRAPH:
		map->place = P_GRAPHML;
		break;
	default:
		map->place = P_FILE;
	}
}

/* What an entity stands for may grow without end; no such file has any. */
static void XMLCALL on_entity(void *context, const char *name, int is_parameter,
			      const char *value, int length, const char *base,
			      const char *system, const char *public,
			      const char *notation)
{
	struct map *map = context;

	(void)is_parameter;
	(void)value;
	(void)length;
	(void)base;
	(void)system;
	(void)public;
	(void)notation;
	refuse_line(map->file, line_now(map), "entities ('%.40s') are not read",
		    name);
}

/* ------------------------------------------------------------------------ */
/* The network                                                              */

/* Nodes get their names. */
static void name_nodes(struct map *map)
{
	u32 *alike = calloc(map->labels.count + 1UL, sizeof(u32)), n;
	char name[2 * NAME_ROOM];

	if (!alike)
		refuse_line(map->file, 1, "out of memory");
	for (n = 0; n < map->ids.count; n++) {
		struct knot *knot = &map->knots[n];

		knot->node = NET_NONE;
		if (map->zoo->inside && !knot->inside)
			map->outside++;
		else if (knot->label != NET_NONE)
			alike[knot->label]++;
	}
	for (n = 0; n < map->ids.count; n++) {
		struct knot *knot = &map->knots[n];
		const char *id = name_of(&map->ids, n), *wrong;

		if (map->zoo->inside && !knot->inside)
			continue;
		if (knot->label == NET_NONE)
			snprintf(name, sizeof(name), "%s", id);
		else if (alike[knot->label] == 1)
			snprintf(name, sizeof(name), "%s",
				 name_of(&map->labels, knot->label));
		else
			snprintf(name, sizeof(name), "%s#%s",
				 name_of(&map->labels, knot->label), id);
		wrong = wrong_name(name, strlen(name));
		if (wrong)
			refuse_line(map->file, knot->line, "%s", wrong);
		knot->node = name_add(&map->net->nodes, name);
		if (knot->node == NET_NONE)
			refuse_line(map->file, knot->line,
				    "two nodes would be called '%.200s'", name);
	}
	free(alike);
}

static double radians(double degrees)
{
	return degrees * M_PI / 180;
}

/* Light takes so long along the great circle, ns. */
static u64 delay_between(const struct knot *a, const struct knot *b)
{
	double cosine = sin(radians(a->latitude)) * sin(radians(b->latitude)) +
			cos(radians(a->latitude)) * cos(radians(b->latitude)) *
				cos(radians(a->longitude - b->longitude));
	double km = EARTH_RADIUS_KM * acos(fmax(-1, fmin(1, cosine)));

	return 1000ULL * llrint(km * US_PER_KM);
}

static bool is_placed(const struct knot *knot)
{
	return !isnan(knot->latitude) && !isnan(knot->longitude);
}

static void add_part(struct map *map, const struct edge *edge, u32 from, u32 to,
		     u64 rate, u64 delay)
{
	map->parts = more(map->parts, map->part_count, &map->part_room,
			  sizeof(*map->parts));
	map->parts[map->part_count++] = (struct part){
		.edge = edge - map->edges,
		.from = from,
		.to = to,
		.rate = rate,
		.delay = delay,
	};
}

static const char no_speed[] =
	"the link from '%.99s' to '%.99s' has no speed (LinkSpeedRaw): needs --link-rate%s";
static const char no_length[] =
	"the link from '%.99s' to '%.99s' has no length (where is '%.99s'?): needs --link-delay%s";
static const char too_fast[] =
	"the links from '%.99s' to '%.99s' have more than 1e12 bit/s together";

static void take_edge(struct map *map, const struct edge *edge)
{
	const struct zoo *zoo = map->zoo;
	const struct knot *knots[2];
	const char *names[2], *hint;
	u64 rate, delay;
	u32 side, which;

	for (side = 0; side < 2; side++) {
		const char *id = name_of(&map->ends, edge->ends[side]);

		which = name_find(&map->ids, id);
		if (which == NET_NONE)
			refuse_line(map->file, edge->line, "no node '%s'", id);
		knots[side] = &map->knots[which];
	}
	if (knots[0]->node == NET_NONE || knots[1]->node == NET_NONE)
		return;
	if (knots[0] == knots[1]) {
		map->loops++;
		return;
	}
	for (side = 0; side < 2; side++)
		names[side] = name_of(&map->net->nodes, knots[side]->node);
	hint = knots[0]->inside && knots[1]->inside ?
		       "" :
		       ", or --inside, for it leads to another network";
	if (isnan(edge->rate) && !zoo->rate)
		refuse_line(map->file, edge->line, no_speed, names[0], names[1],
			    hint);
	rate = isnan(edge->rate) ? zoo->rate : (u64)llround(edge->rate);
	delay = zoo->delay;
	if (is_placed(knots[0]) && is_placed(knots[1]))
		delay = delay_between(knots[0], knots[1]);
	if (delay == NET_NEVER)
		refuse_line(map->file, edge->line, no_length, names[0],
			    names[1], names[is_placed(knots[0])], hint);
	add_part(map, edge, knots[0]->node, knots[1]->node, rate, delay);
	if (!edge->directed)
		add_part(map, edge, knots[1]->node, knots[0]->node, rate,
			 delay);
}

static int by_ends(const void *a, const void *b)
{
	const struct part *one = *(const struct part *const *)a;
	const struct part *other = *(const struct part *const *)b;

	if (one->from != other->from)
		return one->from < other->from ? -1 : 1;
	if (one->to != other->to)
		return one->to < other->to ? -1 : 1;
	return one < other ? -1 : one > other;
}

/* Links that lead the same way become the first of them. */
static void put_together(struct map *map)
{
	struct part *first = NULL, *part;
	u32 n, last = NET_NONE; /* edge that was seen to go */

	map->sorted = calloc(map->part_count + 1UL, sizeof(struct part *));
	if (!map->sorted)
		refuse_line(map->file, 1, "out of memory");
	for (n = 0; n < map->part_count; n++)
		map->sorted[n] = &map->parts[n];
	qsort(map->sorted, map->part_count, sizeof(struct part *), by_ends);
	for (n = 0; n < map->part_count; n++) {
		part = map->sorted[n];
		if (!first || first->from != part->from ||
		    first->to != part->to) {
			first = part;
			continue;
		}
		part->gone = true;
		first->rate += part->rate;
		first->delay = fp_min64(first->delay, part->delay);
		if (first->rate > NET_RATE_MAX)
			refuse_line(map->file, map->edges[part->edge].line,
				    too_fast,
				    name_of(&map->net->nodes, part->from),
				    name_of(&map->net->nodes, part->to));
	}
	for (n = 0; n < map->part_count; n++) {
		part = &map->parts[n];
		if (!part->gone)
			net_add_link(map->net, part->from, part->to, part->rate,
				     part->delay);
		else if (last != part->edge)
			map->joined++;
		if (part->gone)
			last = part->edge;
	}
}

static void tell(const struct map *map)
{
	if (map->zoo->quiet || !(map->joined || map->loops || map->outside))
		return;
	fprintf(stderr,
		"slbnsim: %s: put together with others between the same nodes: %u links; left out: %u links from a node to itself, %u nodes of other networks\n",
		map->file, map->joined, map->loops, map->outside);
}

static void free_names(struct names *names)
{
	free(names->text);
	free(names->begins);
	free(names->table);
}

/**
 * read_graphml() - a network from the Topology Zoo
 * @net: empty
 * @text: the file
 * @zoo: what it does not say itself
 */
void read_graphml(struct net *net, const struct text *text,
		  const struct zoo *zoo)
{
	struct map map = {
		.file = text->file,
		.zoo = zoo,
		.net = net,
		.attribute = ATTRIBUTES,
	};
	const char *wrong;
	u32 n;

	map.xml = XML_ParserCreate(NULL);
	if (!map.xml)
		refuse_line(map.file, 1, "out of memory");
	XML_SetUserData(map.xml, &map);
	XML_SetElementHandler(map.xml, on_begin, on_end);
	XML_SetCharacterDataHandler(map.xml, on_text);
	XML_SetEntityDeclHandler(map.xml, on_entity);
	if (XML_Parse(map.xml, text->data, text->length, XML_TRUE) !=
	    XML_STATUS_OK)
		refuse_line(map.file, line_now(&map), "%s",
			    XML_ErrorString(XML_GetErrorCode(map.xml)));
	if (!map.graph_seen)
		refuse_line(map.file, line_now(&map),
			    "there is no <graph> in it");
	XML_ParserFree(map.xml);
	name_nodes(&map);
	for (n = 0; n < map.edge_count; n++)
		take_edge(&map, &map.edges[n]);
	put_together(&map);
	wrong = net_index(net);
	if (wrong)
		refuse_line(map.file, 1, "%s", wrong);
	tell(&map);
	free_names(&map.ids);
	free_names(&map.labels);
	free_names(&map.ends);
	free(map.knots);
	free(map.edges);
	free(map.parts);
	free(map.sorted);
}
