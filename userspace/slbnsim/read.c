// SPDX-License-Identifier: GPL-2.0
/*
 * Reads topologies and sessions. See read.h.
 *
 * JSON is parsed by yajl, which passes on each value with its position: so the
 * error message of an invalid link has its line. Links may precede the nodes
 * that they connect; they are kept until all is read.
 */
#include "read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "text.h"

/* ------------------------------------------------------------------------ */
/* Topologies                                                               */

enum key {
	KEY_NONE,
	KEY_NODES,
	KEY_LINKS,
	KEY_ABOUT,
	KEY_FROM,
	KEY_TO,
	KEY_RATE,
	KEY_DELAY,
	KEY_DUPLEX,
	KEYS
};

static const char *const keys[KEYS] = {
	"", "nodes", "links", "about", "from", "to", "rate", "delay", "duplex",
};

/* A link's end: a node, or the name of a node that has not been read yet. */
struct end {
	u32 node; /* NET_NONE: not read yet */
	u32 name; /* in reader->names */
};

/* A link of the file. */
struct json_link {
	u32 line;
	struct end from;
	struct end to;
	u64 rate;
	u64 delay;
	bool duplex;
};

enum where {
	OUTSIDE, /* before and after the top object */
	TOP, /* in the top object */
	IN_NODES,
	IN_LINKS,
	IN_LINK,
};

struct reader {
	struct net *net;
	struct text text;
	yajl_handle yajl;
	enum where where;
	enum key key;
	u32 seen; /* keys of the top object, as bits */
	u32 link_seen; /* keys of the link, as bits */
	struct json_link link;
	struct json_link *links;
	u32 link_count;
	u32 link_room;
	struct names names;
};

static u32 here(struct reader *r)
{
	return line_at(&r->text, yajl_get_bytes_consumed(r->yajl));
}

static int unexpected(struct reader *r)
{
	static const char *const wanted[] = {
		[OUTSIDE] = "an object with \"nodes\" and \"links\"",
		[TOP] = "\"nodes\" and \"links\" to be arrays, \"about\" a string",
		[IN_NODES] = "a name",
		[IN_LINKS] = "an object for each link",
		[IN_LINK] = "something else",
	};

	if (r->where == IN_LINK)
		refuse_line(r->text.file, here(r), "\"%s\" has the wrong type",
			    keys[r->key]);
	refuse_line(r->text.file, here(r), "expected %s", wanted[r->where]);
}

static void copy_name(struct reader *r, const unsigned char *text,
		      size_t length, char name[NAME_ROOM])
{
	const char *error = name_error((const char *)text, length);

	if (error)
		refuse_line(r->text.file, here(r), "%s", error);
	memcpy(name, text, length);
	name[length] = '\0';
}

/* The end of a link with that name. */
static struct end find_end(struct reader *r, const char *name)
{
	struct end end = { .node = name_find(&r->net->nodes, name) };

	if (end.node != NET_NONE)
		return end;
	end.name = name_add(&r->names, name);
	if (end.name == NET_NONE)
		end.name = name_find(&r->names, name);
	return end;
}

static int on_string(void *context, const unsigned char *text, size_t length)
{
	struct reader *r = context;
	char name[NAME_ROOM];

	if (r->where == IN_NODES) {
		copy_name(r, text, length, name);
		if (name_add(&r->net->nodes, name) == NET_NONE)
			refuse_line(r->text.file, here(r),
				    "duplicate node '%s'", name);
		return 1;
	}
	/* Ignored: a note for people. */
	if (r->where == TOP && r->key == KEY_ABOUT)
		return 1;
	if (r->where != IN_LINK || (r->key != KEY_FROM && r->key != KEY_TO))
		return unexpected(r);
	copy_name(r, text, length, name);
	if (r->key == KEY_FROM)
		r->link.from = find_end(r, name);
	else
		r->link.to = find_end(r, name);
	return 1;
}

static int on_number(void *context, const char *text, size_t length)
{
	struct reader *r = context;
	char word[64] = "";
	double value;

	if (r->where != IN_LINK || (r->key != KEY_RATE && r->key != KEY_DELAY))
		return unexpected(r);
	if (length < sizeof(word))
		memcpy(word, text, length);
	value = parse_decimal(word);
	if (r->key == KEY_RATE) {
		if (!(value >= 1 && value <= NET_RATE_MAX))
			refuse_line(r->text.file, here(r),
				    "rate %.40s: must be 1 to 1e12 bit/s",
				    word);
		r->link.rate = llround(value);
	} else {
		if (!(value >= 0 && value <= NET_DELAY_MAX / 1e9))
			refuse_line(r->text.file, here(r),
				    "delay %.40s: must be 0 to 10 seconds",
				    word);
		r->link.delay = llround(value * 1e9);
	}
	return 1;
}

static int on_boolean(void *context, int value)
{
	struct reader *r = context;

	if (r->where != IN_LINK || r->key != KEY_DUPLEX)
		return unexpected(r);
	r->link.duplex = value;
	return 1;
}

static int on_null(void *context)
{
	return unexpected(context);
}

static int on_key(void *context, const unsigned char *text, size_t length)
{
	struct reader *r = context;
	bool top = r->where == TOP;
	u32 *seen = top ? &r->seen : &r->link_seen;
	enum key key;

	for (key = top ? KEY_NODES : KEY_FROM; key < (top ? KEY_FROM : KEYS);
	     key++)
		if (strlen(keys[key]) == length &&
		    !memcmp(keys[key], text, length))
			break;
	if (key == (top ? KEY_FROM : KEYS))
		refuse_line(r->text.file, here(r),
			    "unknown key '%.*s'; known are %s",
			    (int)(length < 40 ? length : 40),
			    (const char *)text,
			    top ? "nodes, links, about" :
				  "from, to, rate, delay, duplex");
	if (*seen & 1U << key)
		refuse_line(r->text.file, here(r), "duplicate key \"%s\"",
			    keys[key]);
	*seen |= 1U << key;
	r->key = key;
	return 1;
}

static int on_map(void *context)
{
	struct reader *r = context;

	if (r->where == OUTSIDE && !r->seen) {
		r->where = TOP;
	} else if (r->where == IN_LINKS) {
		r->where = IN_LINK;
		r->link_seen = 0;
		r->link = (struct json_link){ .line = here(r) };
	} else {
		return unexpected(r);
	}
	return 1;
}

static int on_map_end(void *context)
{
	struct reader *r = context;
	enum key key;

	if (r->where == TOP) {
		r->where = OUTSIDE;
		return 1;
	}
	for (key = KEY_FROM; key < KEY_DUPLEX; key++)
		if (!(r->link_seen & 1U << key))
			refuse_line(r->text.file, r->link.line,
				    "the link has no \"%s\"", keys[key]);
	r->links = grow_array(r->links, r->link_count, &r->link_room,
			      sizeof(*r->links));
	r->links[r->link_count++] = r->link;
	r->where = IN_LINKS;
	return 1;
}

static int on_array(void *context)
{
	struct reader *r = context;

	if (r->where != TOP || r->key == KEY_ABOUT)
		return unexpected(r);
	r->where = r->key == KEY_NODES ? IN_NODES : IN_LINKS;
	return 1;
}

static int on_array_end(void *context)
{
	struct reader *r = context;

	r->where = TOP;
	return 1;
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_map_key = on_key,
	.yajl_start_map = on_map,
	.yajl_end_map = on_map_end,
	.yajl_start_array = on_array,
	.yajl_end_array = on_array_end,
};

/* The line of the second of two links with the same ends. */
static u32 line_of_duplicate(const struct reader *r)
{
	const struct net *net = r->net;
	u32 n, at = 0, link;

	for (n = 0; n < r->link_count; n++) {
		for (link = 0; link < 1U + r->links[n].duplex; link++, at++)
			if (net_link_between(net, net->links[at].from,
					     net->links[at].to) != at)
				return r->links[n].line;
	}
	return 1;
}

/* The node of a link's end, after all nodes were read. */
static u32 node_at(const struct reader *r, const struct json_link *link,
		   const struct end *end)
{
	const char *name;
	u32 node;

	if (end->node != NET_NONE)
		return end->node;
	name = name_of(&r->names, end->name);
	node = name_find(&r->net->nodes, name);
	if (node == NET_NONE)
		refuse_line(r->text.file, link->line, "no node '%s'", name);
	return node;
}

static void build_links(struct reader *r)
{
	const char *file = r->text.file, *error;
	u32 count = r->link_count, n;

	for (n = 0; n < r->link_count; n++)
		count += r->links[n].duplex;
	net_reserve_links(r->net, count);
	for (n = 0; n < r->link_count; n++) {
		const struct json_link *link = &r->links[n];
		u32 from = node_at(r, link, &link->from);
		u32 to = node_at(r, link, &link->to);

		if (from == to)
			refuse_line(file, link->line,
				    "a link from '%s' to itself",
				    name_of(&r->net->nodes, from));
		net_add_link(r->net, from, to, link->rate, link->delay);
		if (link->duplex)
			net_add_link(r->net, to, from, link->rate, link->delay);
	}
	error = net_index(r->net);
	if (error)
		refuse_line(file, line_of_duplicate(r), "%s", error);
}

static void read_json(struct net *net, struct text text)
{
	struct reader r = { .net = net, .text = text };
	const unsigned char *data = (const unsigned char *)r.text.data;
	const char *file = text.file;
	yajl_status status;
	size_t at;

	r.yajl = yajl_alloc(&callbacks, NULL, &r);
	if (!r.yajl)
		refuse_line(file, 1, "out of memory");
	status = yajl_parse(r.yajl, data, r.text.length);
	at = yajl_get_bytes_consumed(r.yajl);
	if (status == yajl_status_ok) {
		status = yajl_complete_parse(r.yajl);
		at = r.text.length;
	}
	if (status != yajl_status_ok) {
		unsigned char *why = yajl_get_error(r.yajl, 0, NULL, 0);

		why[strcspn((char *)why, "\n")] = '\0';
		refuse_line(file, line_at(&r.text, at), "%s", why);
	}
	yajl_free(r.yajl);
	if (!(r.seen & 1U << KEY_NODES) || !(r.seen & 1U << KEY_LINKS))
		refuse_line(file, line_at(&r.text, r.text.length),
			    "a topology needs \"nodes\" and \"links\"");
	build_links(&r);
	free(r.links);
	free(r.names.text);
	free(r.names.offsets);
	free(r.names.table);
}

/**
 * read_topology() - read nodes and links
 * @net: empty
 * @file: its name; "-": standard input
 */
void read_topology(struct net *net, const char *file)
{
	struct text text = read_text(file);

	if (text.data[strspn(text.data, " \t\r\n")] == '<')
		refuse_line(file, 1,
			    "not JSON; convert GraphML with slbnsim-graphml");
	read_json(net, text);
	free(text.data);
}

/* ------------------------------------------------------------------------ */
/* Sessions                                                                 */

enum column {
	COLUMN_ID,
	COLUMN_SOURCE,
	COLUMN_DESTINATION,
	COLUMN_JOIN,
	COLUMN_LEAVE,
	COLUMN_DEMAND,
	COLUMN_BYTES,
	COLUMN_PATH, /* this one and those below are optional */
	COLUMN_WEIGHT,
	COLUMNS
};

static const char *const columns[COLUMNS] = {
	"id",	  "source", "destination", "join",   "leave",
	"demand", "bytes",  "path",	   "weight",
};

/*
 * Split a line into its fields in place, and remove quotes. Return: the number
 * of fields, at most COLUMNS + 1; 0: a quote is not closed.
 */
static u32 split_fields(char *line, char *fields[COLUMNS + 1])
{
	u32 count = 0;
	char *to;

	for (;;) {
		bool quoted = *line == '"';

		line += quoted;
		to = line;
		fields[count++] = to;
		while (*line && (quoted || *line != ',')) {
			if (quoted && *line == '"') {
				if (line[1] != '"') {
					quoted = false;
					line++;
					continue;
				}
				line++;
			}
			*to++ = *line++;
		}
		if (quoted || !*line || count > COLUMNS) {
			*to = '\0';
			return quoted ? 0 : count;
		}
		*to = '\0';
		line++;
	}
}

static u64 parse_seconds(const char *file, u32 line, enum column column,
			 const char *text)
{
	double value;

	if (!*text)
		return NET_NEVER;
	value = parse_decimal(text);
	if (!(value >= 0 && value <= 1e9))
		refuse_line(file, line, "%s '%.40s': must be 0 to 1e9 seconds",
			    columns[column], text);
	return llround(value * 1e9);
}

static u32 parse_weight(const char *file, u32 line, const char *text)
{
	double value = parse_decimal(text);

	if (!(value >= 1 && value <= NET_WEIGHT_MAX) || value != floor(value))
		refuse_line(file, line,
			    "weight '%.40s': must be a whole number, 1 to %u",
			    text, NET_WEIGHT_MAX);
	return value;
}

static u32 find_node(struct net *net, const char *file, u32 line,
		     const char *name)
{
	u32 node = name_find(&net->nodes, name);

	if (node == NET_NONE)
		refuse_line(file, line, "no node '%.200s'", name);
	return node;
}

static void parse_path(struct net *net, struct session *session,
		       const char *file, u32 line, char *text)
{
	u32 links[NET_HOPS_MAX + 1], count = 0, from = NET_NONE, to;
	const char *error;
	char *name;

	while ((name = strsep(&text, ">"))) {
		to = find_node(net, file, line, name);
		if (from == NET_NONE && to != session->from)
			refuse_line(file, line,
				    "the path does not begin at '%s'",
				    name_of(&net->nodes, session->from));
		if (from != NET_NONE) {
			if (count > NET_HOPS_MAX)
				break;
			links[count] = net_link_between(net, from, to);
			if (links[count++] == NET_NONE)
				refuse_line(file, line,
					    "no link from '%s' to '%s'",
					    name_of(&net->nodes, from),
					    name_of(&net->nodes, to));
		}
		from = to;
	}
	if (from != session->to && count <= NET_HOPS_MAX)
		refuse_line(file, line, "the path does not end at '%s'",
			    name_of(&net->nodes, session->to));
	error = net_set_path(net, session, links, count);
	if (error)
		refuse_line(file, line, "%s", error);
}

static void parse_session(struct net *net, const char *file, u32 line,
			  char *fields[], u32 *lines)
{
	struct session *session = net_add_session(net);
	const char *error =
		name_error(fields[COLUMN_ID], strlen(fields[COLUMN_ID]));
	double value;

	if (error)
		refuse_line(file, line, "id: %s", error);
	session->id = name_add(&net->ids, fields[COLUMN_ID]);
	if (session->id == NET_NONE)
		refuse_line(file, line,
			    "duplicate session '%s', first in line %u",
			    fields[COLUMN_ID],
			    lines[name_find(&net->ids, fields[COLUMN_ID])]);
	session->from = find_node(net, file, line, fields[COLUMN_SOURCE]);
	session->to = find_node(net, file, line, fields[COLUMN_DESTINATION]);
	if (session->from == session->to)
		refuse_line(file, line, "a session from '%s' to itself",
			    fields[COLUMN_SOURCE]);
	session->join =
		parse_seconds(file, line, COLUMN_JOIN, fields[COLUMN_JOIN]);
	session->leave =
		parse_seconds(file, line, COLUMN_LEAVE, fields[COLUMN_LEAVE]);
	if (session->leave <= session->join && session->join != NET_NEVER)
		refuse_line(file, line, "leave must be after join");
	if (*fields[COLUMN_DEMAND]) {
		value = parse_decimal(fields[COLUMN_DEMAND]);
		if (!(value >= 1 && value <= NET_RATE_MAX))
			refuse_line(file, line,
				    "demand '%.40s': must be 1 to 1e12 bit/s",
				    fields[COLUMN_DEMAND]);
		session->demand = llround(value);
	}
	if (*fields[COLUMN_BYTES]) {
		value = parse_decimal(fields[COLUMN_BYTES]);
		if (!(value >= 1 && value <= 1e15))
			refuse_line(file, line,
				    "bytes '%.40s': must be 1 to 1e15",
				    fields[COLUMN_BYTES]);
		session->bytes = llround(value);
	}
	if (fields[COLUMN_WEIGHT] && *fields[COLUMN_WEIGHT])
		session->weight =
			parse_weight(file, line, fields[COLUMN_WEIGHT]);
	if (fields[COLUMN_PATH] && *fields[COLUMN_PATH])
		parse_path(net, session, file, line, fields[COLUMN_PATH]);
}

static const char bad_header[] =
	"the first line must be id,source,destination,join,leave,demand,bytes[,path][,weight]";

/* Parse the first line: the column of each field. */
static void parse_header(const char *file, char *fields[], u32 count,
			 enum column order[])
{
	bool seen[COLUMNS] = {};
	enum column column;
	u32 n;

	for (n = 0; n < count && n < COLUMNS; n++) {
		column = fp_min(n, (u32)COLUMN_PATH);
		while (column < COLUMNS &&
		       (seen[column] || strcmp(fields[n], columns[column])))
			column++;
		/* The first columns are in order. */
		if (column == COLUMNS || (n < COLUMN_PATH && column != n))
			break;
		seen[column] = true;
		order[n] = column;
	}
	if (n != count || n < COLUMN_PATH)
		refuse_line(file, 1, bad_header);
}

/**
 * read_sessions() - read sessions
 * @net: with its topology
 * @file: its name; "-": standard input
 *
 * Sessions without a path get the shortest one.
 */
void read_sessions(struct net *net, const char *file)
{
	struct text text = read_text(file);
	char *fields[COLUMNS + 1], *values[COLUMNS] = {}, *rest = text.data;
	u32 line = 0, wanted = 0, count, room = 0, which = 0, *lines = NULL, n;
	enum column order[COLUMNS];
	const char *error;
	char *row;

	if (strlen(text.data) != text.length)
		refuse_line(file, line_at(&text, strlen(text.data)),
			    "NUL byte");
	while ((row = strsep(&rest, "\n"))) {
		size_t length = strlen(row);

		line++;
		if (length && row[length - 1] == '\r')
			row[length - 1] = '\0';
		if (!*row)
			continue;
		count = split_fields(row, fields);
		if (!count)
			refuse_line(file, line, "unterminated quote");
		if (!wanted) {
			parse_header(file, fields, count, order);
			wanted = count;
			continue;
		}
		if (count > COLUMNS)
			refuse_line(file, line, "more than %u fields", COLUMNS);
		if (count != wanted)
			refuse_line(file, line, "%u fields, expected %u", count,
				    wanted);
		lines = grow_array(lines, net->session_count, &room,
				   sizeof(u32));
		lines[net->session_count] = line;
		for (n = 0; n < count; n++)
			values[order[n]] = fields[n];
		parse_session(net, file, line, values, lines);
	}
	if (!wanted)
		refuse_line(file, 1, bad_header);
	error = net_route(net, &which);
	if (error)
		refuse_line(file, lines ? lines[which] : 1, "%s", error);
	free(lines);
	free(text.data);
}
