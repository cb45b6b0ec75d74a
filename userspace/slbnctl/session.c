// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl session: joins, changes, ends, lists and watches sessions of slbnd, by
 * libslbn.
 *
 * A session that is joined here outlives slbnctl, except with "hold": then
 * slbnctl prints its rates until interrupted, which ends the session. Session IDs
 * are hexadecimal, and strings in JSON: many JSON readers keep only 53 bits of a
 * number.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/units.h"
#include "session.h"
#include "show.h"

#define DEMAND_SYNTAX "1bit to 1000tbit, or unlimited"
#define WEIGHT_CHANGE \
	"the weight of a session cannot be changed: leave, and join again"
#define ADDRESS_SYNTAX "an IPv4 or IPv6 address"

/**
 * connect_to_slbnd() - connect to the socket given by --socket
 *
 * Return: the connection; NULL: failed, and the error has been printed.
 */
struct slbn *connect_to_slbnd(void)
{
	struct slbn *slbn = slbn_open(slbnd_socket);

	if (!slbn)
		complain("cannot connect to slbnd: %s", strerror(errno));
	return slbn;
}

/**
 * disconnect() - close a connection, and print an error if there was one
 * @slbn: the connection
 * @ret: result of a function of libslbn; negative: an error
 *
 * Return: the exit status.
 */
enum status disconnect(struct slbn *slbn, int ret)
{
	if (ret < 0)
		complain("%s", slbn_reason(slbn));
	slbn_close(slbn);
	return ret < 0 ? STATUS_FAILED : STATUS_OK;
}

/**
 * address_text() - format an address
 * @text: INET6_ADDRSTRLEN bytes
 * @family: AF_INET or AF_INET6; "?" for another one, such as a later slbnd's
 * @address: as in struct slbn_flow
 *
 * Return: @text
 */
const char *address_text(char *text, int family, const __u8 *address)
{
	if (!inet_ntop(family, address, text, INET6_ADDRSTRLEN))
		strcpy(text, "?");
	return text;
}

/**
 * show_address() - print an address
 * @key: its name in JSON
 * @format: with one %s, for text
 * @family: AF_INET or AF_INET6
 * @address: as in struct slbn_flow
 */
void show_address(const char *key, const char *format, int family,
		  const __u8 *address)
{
	char text[INET6_ADDRSTRLEN];

	show_string(key, format, address_text(text, family, address));
}

static void show_protocol(const struct slbn_flow *flow)
{
	const struct protoent *entry;
	char text[UNITS_TEXT];

	if (!flow->protocol)
		return;
	entry = getprotobynumber(flow->protocol);
	snprintf(text, sizeof(text), "%u", flow->protocol);
	show_number("protocol", " %s", flow->protocol,
		    entry ? entry->p_name : text);
	if (flow->source_port)
		show_count("sport", " sport %s", flow->source_port);
	if (flow->destination_port)
		show_count("dport", " dport %s", flow->destination_port);
}

/**
 * device_text() - format a device's name
 * @text: UNITS_TEXT bytes
 * @device: its index; 0: unknown
 *
 * Return: @text
 */
const char *device_text(char *text, unsigned int device)
{
	if (!device)
		strcpy(text, "?");
	else if (!if_indextoname(device, text))
		snprintf(text, UNITS_TEXT, "if%u", device);
	return text;
}

static int put_endpoint(char *text, size_t room, int family,
			const __u8 *address, __u16 port)
{
	const char *open = family == AF_INET6 && port ? "[" : "";
	const char *close = family == AF_INET6 && port ? "]" : "";
	char octets[INET6_ADDRSTRLEN], number[8] = "";

	if (port)
		snprintf(number, sizeof(number), ":%u", port);
	return snprintf(text, room, "%s%s%s%s", open,
			address_text(octets, family, address), close, number);
}

/**
 * flow_text() - format a flow: [PROTOCOL] [SOURCE >] DESTINATION
 * @text: FLOW_TEXT bytes
 * @flow: the flow
 *
 * Return: @text
 */
const char *flow_text(char *text, const struct slbn_flow *flow)
{
	static const __u8 any[16];
	const struct protoent *entry = NULL;
	int n = 0;

	if (flow->protocol)
		entry = getprotobynumber(flow->protocol);
	if (entry)
		n = snprintf(text, FLOW_TEXT, "%.16s ", entry->p_name);
	else if (flow->protocol)
		n = snprintf(text, FLOW_TEXT, "%u ", flow->protocol);
	if (flow->source_port || memcmp(flow->source, any, 16)) {
		n += put_endpoint(text + n, FLOW_TEXT - n, flow->family,
				  flow->source, flow->source_port);
		n += snprintf(text + n, FLOW_TEXT - n, " > ");
	}
	put_endpoint(text + n, FLOW_TEXT - n, flow->family, flow->destination,
		     flow->destination_port);
	return text;
}

/* What limits the session, once it is known. */
static void show_bottleneck(const struct slbn_session *session)
{
	char text[UNITS_TEXT];

	if (!session->cycles)
		return;
	if (session->bottleneck == 255) {
		show_string("bottleneck", " bottleneck %s", "demand");
		return;
	}
	show_nested("bottleneck");
	show_count("hop", " bottleneck hop %s", session->bottleneck);
	if (session->link) {
		show_address("router", " %s", session->flow.family,
			     session->router);
		show_count("link", " link %s", session->link);
	}
	if (!session->bottleneck && session->flags & SLBN_OWN_LINK)
		show_string("device", " device %s",
			    device_text(text, session->device));
	show_nested_end();
}

/* Up to which rate it may borrow, and why not further; not if it never does. */
static void show_ceiling(const struct slbn_session *session)
{
	static const char *const guards[] = {
		[SLBN_GUARD_SHARE] = "share",
		[SLBN_GUARD_HOST] = "host",
		[SLBN_GUARD_LINKS] = "links",
		[SLBN_GUARD_WINDOW] = "window",
		[SLBN_GUARD_ESCAPED] = "escaped",
		[SLBN_GUARD_PACER] = "pacer",
		[SLBN_GUARD_ANSWER] = "answer",
	};
	char text[UNITS_TEXT];

	if (!session->guard ||
	    session->guard >= sizeof(guards) / sizeof(*guards))
		return;
	show_number("ceiling", " ceiling %s", session->ceiling,
		    session->ceiling ?
			    units_rate_rounded(text, session->ceiling) :
			    "none");
	show_string("guard", " guard %s", guards[session->guard]);
}

/**
 * show_fields() - print a session, in a line without its end, into an object
 * @session: the session
 */
void show_fields(const struct slbn_session *session)
{
	static const __u8 any[16];
	const struct slbn_flow *flow = &session->flow;
	__u32 flags = session->flags;
	char text[UNITS_TEXT];

	snprintf(text, sizeof(text), "%016llx",
		 (unsigned long long)session->id);
	show_string("id", "%s", text);
	if (memcmp(flow->source, any, sizeof(any)))
		show_address("source", " %s >", flow->family, flow->source);
	show_address("destination", " %s", flow->family, flow->destination);
	show_protocol(flow);
	show_number("demand", " demand %s", session->demand,
		    session->demand == SLBN_UNLIMITED ?
			    "unlimited" :
			    units_rate_rounded(text, session->demand));
	show_count("weight", " weight %s", session->weight);
	show_number("rate", " rate %s", session->rate,
		    units_rate_rounded(text, session->rate));
	if (flags & SLBN_MEASURED)
		show_number("used", " used %s", session->used,
			    units_rate_rounded(text, session->used));
	show_ceiling(session);
	show_bottleneck(session);
	if (session->device)
		show_string("device", " device %s",
			    device_text(text, session->device));
	show_count("hops", " hops %s", session->hops);
	snprintf(text, sizeof(text), "%.3gms", (double)session->rtt / 1e6);
	show_number("rtt", " rtt %s", session->rtt, text);
	show_count("cycles", " cycles %s", session->cycles);
	show_count("retries", " retries %s", session->retries);
	show_flag("stays", flags & SLBN_STAYS,
		  flags & SLBN_STAYS ? " stays" : NULL);
	show_flag("detected", flags & SLBN_DETECTED,
		  flags & SLBN_DETECTED ? " detected" : NULL);
	show_flag("stalled", flags & SLBN_STALLED,
		  flags & SLBN_STALLED ? " stalled" : NULL);
	show_flag("short_lease", flags & SLBN_SHORT_LEASE,
		  flags & SLBN_SHORT_LEASE ? " short_lease" : NULL);
	show_flag("windows", flags & SLBN_WINDOWS,
		  flags & SLBN_WINDOWS ? " windows" : NULL);
	show_flag("acked_elsewhere", flags & SLBN_ACKED_ELSEWHERE,
		  flags & SLBN_ACKED_ELSEWHERE ? " acked_elsewhere" : NULL);
	show_flag("no_marks_seen", flags & SLBN_NO_MARKS_SEEN,
		  flags & SLBN_NO_MARKS_SEEN ? " no_marks_seen" : NULL);
	show_flag("leaving", flags & SLBN_LEAVING,
		  flags & SLBN_LEAVING ? " leaving" : NULL);
}

/**
 * show_session() - print a session, in a line without its end, or as an object
 * @session: the session
 */
void show_session(const struct slbn_session *session)
{
	show_begin();
	show_fields(session);
	show_end();
}

static bool read_demand(const char *text, __u64 *demand)
{
	__u64 value = SLBN_UNLIMITED;

	if (strcmp(text, "unlimited") &&
	    (!units_rate(text, &value) || !value || value > SLBN_UNLIMITED)) {
		complain("demand \"%s\": must be " DEMAND_SYNTAX, text);
		return false;
	}
	*demand = value;
	return true;
}

static bool read_weight(const char *text, __u32 *weight)
{
	__u64 value;

	if (!units_count(text, "", &value) || !value ||
	    value > SLBN_MAX_WEIGHT) {
		complain("weight \"%s\": must be 1 to %u", text,
			 SLBN_MAX_WEIGHT);
		return false;
	}
	*weight = value;
	return true;
}

/**
 * read_session_id() - parse the ID of a session
 * @text: its hexadecimal digits
 * @id: set to it
 *
 * Return: false if it is invalid; the error has been printed.
 */
bool read_session_id(const char *text, __u64 *id)
{
	if (!*text || strlen(text) > 16 ||
	    text[strspn(text, "0123456789abcdefABCDEF")]) {
		complain("session \"%s\": must be 1 to 16 hexadecimal digits",
			 text);
		return false;
	}
	*id = strtoull(text, NULL, 16);
	return true;
}

/**
 * read_address() - parse an address
 * @option: for errors
 * @text: the address
 * @family: address family that it must have, or 0; set to its family
 * @address: set, as in struct slbn_flow
 *
 * Return: false if it is invalid; the error has been printed.
 */
bool read_address(const char *option, const char *text, __u16 *family,
		  __u8 *address)
{
	__u16 other = *family;

	*family = AF_INET;
	if (inet_pton(AF_INET, text, address) != 1) {
		*family = AF_INET6;
		if (inet_pton(AF_INET6, text, address) != 1) {
			complain("%s \"%s\": must be " ADDRESS_SYNTAX, option,
				 text);
			return false;
		}
	}
	if (!other || other == *family)
		return true;
	complain("%s \"%s\": must be of the destination's address family",
		 option, text);
	return false;
}

static bool read_protocol(const char *text, __u8 *protocol)
{
	const struct protoent *entry;
	__u64 number;

	if (!units_count(text, "", &number)) {
		entry = getprotobyname(text);
		number = entry ? entry->p_proto : 256;
	}
	*protocol = number;
	if (number && number < 256)
		return true;
	complain("protocol \"%s\": must be a name, such as tcp, or 1 to 255",
		 text);
	return false;
}

static bool read_port(const char *option, const char *text, __u16 *port)
{
	__u64 number;

	if (!units_count(text, "", &number) || !number || number > 65535) {
		complain("%s \"%s\": must be 1 to 65535", option, text);
		return false;
	}
	*port = number;
	return true;
}

/**
 * struct join - a session to be joined
 * @flow: its flow
 * @demand: bit/s
 * @weight: 1 to SLBN_MAX_WEIGHT
 * @hold: end it with slbnctl
 */
struct join {
	struct slbn_flow flow;
	__u64 demand;
	__u32 weight;
	bool hold;
};

/* Parse an option and its value. Returns the arguments consumed, 0: invalid. */
static int read_option(struct join *join, int argc, char **argv)
{
	const char *option = argv[0], *value = argc > 1 ? argv[1] : NULL;
	struct slbn_flow *flow = &join->flow;
	bool fine;

	if (!strcmp(option, "hold")) {
		join->hold = true;
		return 1;
	}
	if (strcmp(option, "demand") && strcmp(option, "weight") &&
	    strcmp(option, "source") && strcmp(option, "protocol") &&
	    strcmp(option, "sport") && strcmp(option, "dport")) {
		complain("unknown option \"%s\"; see --help", option);
		return 0;
	}
	if (!value) {
		complain("\"%s\" needs a value", option);
		return 0;
	}
	if (!strcmp(option, "demand"))
		fine = read_demand(value, &join->demand);
	else if (!strcmp(option, "weight"))
		fine = read_weight(value, &join->weight);
	else if (!strcmp(option, "source"))
		fine = read_address(option, value, &flow->family, flow->source);
	else if (!strcmp(option, "protocol"))
		fine = read_protocol(value, &flow->protocol);
	else if (!strcmp(option, "sport"))
		fine = read_port(option, value, &flow->source_port);
	else
		fine = read_port(option, value, &flow->destination_port);
	return fine ? 2 : 0;
}

/* Print changes of session @id (0: all) until it ends or output fails. */
static int print_changes(struct slbn *slbn, __u64 id)
{
	struct slbn_session session;
	int ret;

	exit_on_signal();
	while ((ret = slbn_next(slbn, -1, &session)) == 1) {
		if (id && session.id != id)
			continue;
		show_session(&session);
		putchar('\n');
		if (fflush(stdout))
			break;
		if (id && session.flags & SLBN_LEAVING && !session.rate)
			break;
	}
	return ret;
}

static enum status run_join(int argc, char **argv)
{
	struct join join = { .demand = SLBN_UNLIMITED, .weight = 1 };
	struct slbn *slbn;
	uint64_t id;
	int ret;

	if (!argc) {
		complain("join takes a destination; see --help");
		return STATUS_USAGE;
	}
	if (!read_address("destination", *argv, &join.flow.family,
			  join.flow.destination))
		return STATUS_USAGE;
	for (argc--, argv++; argc; argc -= ret, argv += ret) {
		ret = read_option(&join, argc, argv);
		if (!ret)
			return STATUS_USAGE;
	}
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_FAILED;
	ret = slbn_join(slbn, &join.flow, join.demand, join.weight,
			join.hold ? 0 : SLBN_STAYS, &id);
	if (!ret && join.hold) {
		ret = print_changes(slbn, id);
	} else if (!ret) {
		char text[UNITS_TEXT];

		snprintf(text, sizeof(text), "%016llx", (unsigned long long)id);
		show_begin();
		show_string("id", "%s", text);
		show_end();
		putchar('\n');
	}
	return disconnect(slbn, ret);
}

static enum status run_change(int argc, char **argv)
{
	struct slbn *slbn;
	__u64 id, demand;

	if (argc > 1 && !strcmp(argv[1], "weight")) {
		complain("%s", WEIGHT_CHANGE);
		return STATUS_USAGE;
	}
	if (argc != 3 || strcmp(argv[1], "demand")) {
		complain("change takes SESSION demand RATE; see --help");
		return STATUS_USAGE;
	}
	if (!read_session_id(argv[0], &id) || !read_demand(argv[2], &demand))
		return STATUS_USAGE;
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_FAILED;
	return disconnect(slbn, slbn_change(slbn, id, demand));
}

static enum status run_leave(int argc, char **argv)
{
	struct slbn *slbn;
	__u64 id;

	if (argc != 1) {
		complain("leave takes one session; see --help");
		return STATUS_USAGE;
	}
	if (!read_session_id(argv[0], &id))
		return STATUS_USAGE;
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_FAILED;
	return disconnect(slbn, slbn_leave(slbn, id));
}

static void show_one(const struct slbn_session *session, void *context)
{
	bool *first = context;

	if (json && !*first)
		putchar(',');
	*first = false;
	show_session(session);
	if (!json)
		putchar('\n');
}

static enum status run_list(int argc, char **argv)
{
	bool first = true;
	struct slbn *slbn;
	int ret;

	if (argc) {
		complain("list takes no argument \"%s\"; see --help", *argv);
		return STATUS_USAGE;
	}
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_FAILED;
	if (json)
		putchar('[');
	ret = slbn_list(slbn, show_one, &first);
	if (json)
		puts("]");
	return disconnect(slbn, ret);
}

static enum status run_watch(int argc, char **argv)
{
	__u64 id = 0;
	struct slbn *slbn;
	int ret;

	if (argc > 1) {
		complain("watch takes at most one session; see --help");
		return STATUS_USAGE;
	}
	if (argc && !read_session_id(*argv, &id))
		return STATUS_USAGE;
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_FAILED;
	ret = slbn_watch(slbn);
	if (!ret)
		ret = print_changes(slbn, id);
	return disconnect(slbn, ret);
}

const struct command session_commands[] = {
	{
		.name = "join",
		.usage =
			"Usage: slbnctl [OPTION]... session join DESTINATION [demand RATE]\n"
			"         [weight NUMBER] [source ADDRESS] [protocol NAME] [sport PORT]\n"
			"         [dport PORT] [hold]\n"
			"\n"
			"Start a session and print its ID.\n"
			"\n"
			"  demand RATE      largest rate that it asks for (unlimited)\n"
			"  weight NUMBER    its share of links, relative to that of others (1)\n"
			"  source, protocol, sport, dport\n"
			"                   limit it to these packets to the destination (all)\n"
			"  hold             print its rates, and end it when interrupted\n",
		.run = run_join,
	},
	{
		.name = "change",
		.usage =
			"Usage: slbnctl [OPTION]... session change SESSION demand RATE\n"
			"\n"
			"Change the demand of a session to " DEMAND_SYNTAX ".\n"
			"A weight cannot be changed: leave, and join again.\n",
		.run = run_change,
	},
	{
		.name = "leave",
		.usage = "Usage: slbnctl [OPTION]... session leave SESSION\n"
			 "\n"
			 "End a session.\n",
		.run = run_leave,
	},
	{
		.name = "list",
		.usage = "Usage: slbnctl [OPTION]... session list\n"
			 "\n"
			 "Show all sessions.\n",
		.run = run_list,
	},
	{
		.name = "show",
		.usage =
			"Usage: slbnctl [OPTION]... session show SESSION|DESTINATION\n"
			"\n"
			"Show a session and its path: of each hop the router's address and the number of\n"
			"the link there.\n",
		.run = run_session_show,
	},
	{
		.name = "trace",
		.usage =
			"Usage: slbnctl [OPTION]... session trace SESSION|DESTINATION [timeout TIME]\n"
			"\n"
			"Show the state of each link on a session's path: capacity, fair share, sum of the\n"
			"sessions' weights, rate that they hold, backlog of its device, and the time to\n"
			"send it; which one is the bottleneck; and routers that do not take part in SLBN.\n"
			"Links answer one after the other, in the session's next control packets.\n"
			"\n"
			"  timeout TIME  how long to wait; 1ms to 600s (10s)\n"
			"\n"
			"Exit status 1 if a link does not answer.\n",
		.run = run_session_trace,
	},
	{
		.name = "watch",
		.usage =
			"Usage: slbnctl [OPTION]... session watch [SESSION]\n"
			"\n"
			"Print each change of the assigned rate of all sessions, or of this one, until\n"
			"interrupted.\n",
		.run = run_watch,
	},
	{},
};
