// SPDX-License-Identifier: GPL-2.0
/*
 * Reads topologies and sessions. See read.h.
 *
 * JSON's punctuation, numbers and keys are read here, value after value: so the
 * error message of an invalid link has its line, nothing but the links is kept,
 * and no file makes a deep recursion, as a topology has no other arrays and
 * objects than its own. json-c decodes strings with escapes. Links may precede
 * the nodes that they connect; they are kept until all is read.
 */
#include "read.h"

#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* ------------------------------------------------------------------------ */
/* Topologies                                                               */

enum key {
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
	"nodes", "links", "about", "from", "to", "rate", "delay", "duplex",
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

struct reader {
	struct net *net;
	struct text text;
	size_t at; /* the next byte */
	char *decoded; /* the last string with escapes */
	struct json_link *links;
	u32 link_count;
	u32 link_room;
	struct names names;
};

static u32 here(struct reader *r)
{
	return line_at(&r->text, r->at);
}

static void expected(struct reader *r, const char *what)
{
	refuse_line(r->text.file, here(r), "%sexpected %s",
		    r->at == r->text.length ? "the file ends: " : "", what);
}

/* The next byte that is not white space; 0 at the end. */
static char next(struct reader *r)
{
	r->at += strspn(r->text.data + r->at, " \t\r\n");
	return r->text.data[r->at];
}

static bool take(struct reader *r, char letter)
{
	bool found = next(r) == letter;

	r->at += found;
	return found;
}

static void need(struct reader *r, char letter, const char *what)
{
	if (!take(r, letter))
		expected(r, what);
}

/* Whether an array or object has one more element, before which a comma was. */
static bool more(struct reader *r, bool first, char end)
{
	if (take(r, end))
		return false;
	if (!first)
		need(r, ',', end == ']' ? "',' or ']'" : "',' or '}'");
	return true;
}

/* Decode the string of @length bytes at @from, quotes included. */
static void decode(struct reader *r, const char *from, size_t *length)
{
	struct json_tokener *tokener = json_tokener_new_ex(1);
	struct json_object *string;

	if (!tokener)
		out_of_memory();
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	string = json_tokener_parse_ex(tokener, from, *length);
	json_tokener_free(tokener);
	if (!string)
		refuse_line(r->text.file, here(r), "invalid escape in string");
	*length = json_object_get_string_len(string);
	free(r->decoded);
	r->decoded = alloc_array(*length, 1);
	memcpy(r->decoded, json_object_get_string(string), *length);
	json_object_put(string);
}

/* The next string: @length bytes, valid until the next one. */
static const char *read_string(struct reader *r, size_t *length,
			       const char *what)
{
	size_t from, at;
	bool escapes = false;

	if (next(r) != '"')
		expected(r, what);
	from = r->at + 1;
	for (at = from; r->text.data[at] != '"'; at++) {
		if ((unsigned char)r->text.data[at] < 0x20)
			break;
		if (r->text.data[at] == '\\') {
			escapes = true;
			at += r->text.data[at + 1] == '"' ||
			      r->text.data[at + 1] == '\\';
		}
	}
	r->at = at;
	if (r->text.data[at] != '"') {
		if (at == r->text.length)
			expected(r, "'\"' after a string");
		refuse_line(r->text.file, here(r),
			    "control character in a string");
	}
	r->at++;
	*length = at - from;
	if (!escapes)
		return r->text.data + from;
	*length += 2;
	decode(r, r->text.data + from - 1, length);
	return r->decoded;
}

/* The next string as the name of a node. */
static void read_name(struct reader *r, const char *what, char name[NAME_ROOM])
{
	size_t length;
	const char *text = read_string(r, &length, what);
	const char *error = name_error(text, length);

	if (error)
		refuse_line(r->text.file, here(r), "%s", error);
	memcpy(name, text, length);
	name[length] = '\0';
}

/* The next key, of @first to @end - 1; @seen has those before as bits. */
static enum key read_key(struct reader *r, enum key first, enum key end,
			 const char *known, u32 *seen)
{
	size_t length;
	const char *text = read_string(r, &length, "a key in quotes");
	enum key key;

	for (key = first; key < end; key++)
		if (strlen(keys[key]) == length &&
		    !memcmp(keys[key], text, length))
			break;
	if (key == end)
		refuse_line(r->text.file, here(r),
			    "unknown key '%.*s'; known are %s",
			    (int)(length < 40 ? length : 40), text, known);
	if (*seen & 1U << key)
		refuse_line(r->text.file, here(r), "duplicate key \"%s\"",
			    keys[key]);
	*seen |= 1U << key;
	need(r, ':', "':' after a key");
	return key;
}

static void wrong_type(struct reader *r, enum key which)
{
	size_t end = r->at + strcspn(r->text.data + r->at, ",]} \t\r\n");

	if (end == r->text.length) {
		r->at = end;
		expected(r, "a value");
	}
	refuse_line(r->text.file, here(r), "\"%s\" has the wrong type",
		    keys[which]);
}

/* The bytes of the number at @text (RFC 8259); 0 if there is none. */
static size_t number_length(const char *text)
{
	static const char digits[] = "0123456789";
	const char *at = text + (*text == '-');
	size_t count = *at == '0' ? 1 : strspn(at, digits);

	if (!count)
		return 0;
	at += count;
	if (*at == '.') {
		count = strspn(at + 1, digits);
		if (!count)
			return 0;
		at += 1 + count;
	}
	if (*at == 'e' || *at == 'E') {
		at += 1 + (at[1] == '+' || at[1] == '-');
		count = strspn(at, digits);
		if (!count)
			return 0;
		at += count;
	}
	return at - text;
}

/* A number, of which @word has the beginning if it is too long. */
static double read_number(struct reader *r, enum key which, char word[64])
{
	size_t length;

	next(r);
	length = number_length(r->text.data + r->at);
	if (!length)
		wrong_type(r, which);
	memcpy(word, r->text.data + r->at, fp_min(length, (size_t)63));
	word[fp_min(length, (size_t)63)] = '\0';
	r->at += length;
	return length < 64 ? parse_decimal(word) : NAN;
}

static bool read_boolean(struct reader *r, enum key which)
{
	bool value = next(r) == 't';
	const char *word = value ? "true" : "false";

	if (strncmp(r->text.data + r->at, word, strlen(word)))
		wrong_type(r, which);
	r->at += strlen(word);
	return value;
}

/* The end of a link with the name that is read next. */
static struct end read_end(struct reader *r, enum key which)
{
	char name[NAME_ROOM];
	struct end end;

	if (next(r) != '"')
		wrong_type(r, which);
	read_name(r, "a name", name);
	end = (struct end){ .node = name_find(&r->net->nodes, name) };
	if (end.node != NET_NONE)
		return end;
	end.name = name_add(&r->names, name);
	if (end.name == NET_NONE)
		end.name = name_find(&r->names, name);
	return end;
}

static u64 read_rate(struct reader *r)
{
	char word[64];
	double value = read_number(r, KEY_RATE, word);

	if (!(value >= 1 && value <= NET_RATE_MAX))
		refuse_line(r->text.file, here(r),
			    "rate %.40s: must be 1 to 1e12 bit/s", word);
	return llround(value);
}

static u64 read_delay(struct reader *r)
{
	char word[64];
	double value = read_number(r, KEY_DELAY, word);

	if (!(value >= 0 && value <= NET_DELAY_MAX / 1e9))
		refuse_line(r->text.file, here(r),
			    "delay %.40s: must be 0 to 10 seconds", word);
	return llround(value * 1e9);
}

static void read_link(struct reader *r)
{
	struct json_link link = {};
	bool first = true;
	u32 seen = 0;
	enum key key;

	need(r, '{', "an object for each link");
	link.line = here(r);
	for (; more(r, first, '}'); first = false) {
		key = read_key(r, KEY_FROM, KEYS,
			       "from, to, rate, delay, duplex", &seen);
		switch (key) {
		case KEY_FROM:
			link.from = read_end(r, key);
			break;
		case KEY_TO:
			link.to = read_end(r, key);
			break;
		case KEY_RATE:
			link.rate = read_rate(r);
			break;
		case KEY_DELAY:
			link.delay = read_delay(r);
			break;
		default:
			link.duplex = read_boolean(r, key);
		}
	}
	for (key = KEY_FROM; key < KEY_DUPLEX; key++)
		if (!(seen & 1U << key))
			refuse_line(r->text.file, link.line,
				    "the link has no \"%s\"", keys[key]);
	r->links = grow_array(r->links, r->link_count, &r->link_room,
			      sizeof(*r->links));
	r->links[r->link_count++] = link;
}

static void read_node(struct reader *r)
{
	char name[NAME_ROOM];

	read_name(r, "a name", name);
	if (name_add(&r->net->nodes, name) == NET_NONE)
		refuse_line(r->text.file, here(r), "duplicate node '%s'", name);
}

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
	static const char types[] =
		"\"nodes\" and \"links\" to be arrays, \"about\" a string";
	struct reader r = { .net = net, .text = text };
	bool first_key = true, first;
	u32 seen = 0;
	size_t length;
	enum key key;

	r.at = utf8_error(text.data, text.length);
	if (r.at < text.length)
		refuse_line(text.file, here(&r), "not UTF-8");
	r.at = 0;
	need(&r, '{', "an object with \"nodes\" and \"links\"");
	for (; more(&r, first_key, '}'); first_key = false) {
		key = read_key(&r, KEY_NODES, KEY_FROM, "nodes, links, about",
			       &seen);
		if (key == KEY_ABOUT) {
			/* Ignored: a note for people. */
			read_string(&r, &length, types);
			continue;
		}
		need(&r, '[', types);
		for (first = true; more(&r, first, ']'); first = false)
			(key == KEY_NODES ? read_node : read_link)(&r);
	}
	if (next(&r) || r.at < text.length)
		refuse_line(text.file, here(&r),
			    "expected the end of the file");
	if (!(seen & 1U << KEY_NODES) || !(seen & 1U << KEY_LINKS))
		refuse_line(text.file, here(&r),
			    "a topology needs \"nodes\" and \"links\"");
	build_links(&r);
	free(r.decoded);
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
