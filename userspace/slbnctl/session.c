// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl session: joins, changes, ends, lists and watches the sessions of this
 * router's agent, slbnd, by libslbn.
 *
 * A session that is joined here stays when slbnctl ends, unless it is to be held:
 * then slbnctl tells its rates until it is interrupted, and the session ends with
 * it. Numbers of sessions are hexadecimal, and texts in JSON: some are larger than
 * what other languages keep exactly.
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

#define DEMAND_TAKES "1bit to 1000tbit, or unlimited"
#define ADDRESS_TAKES "an address of IPv4 or IPv6"

/**
 * connect_to_slbnd() - where --socket says
 *
 * Return: the connection; NULL: it has been told why.
 */
struct slbn *connect_to_slbnd(void)
{
	struct slbn *slbn = slbn_open(slbnd_socket);

	if (!slbn)
		complain("slbnd cannot be reached: %s", strerror(errno));
	return slbn;
}

/**
 * finish() - end with what a function of libslbn returned
 * @slbn: the connection
 * @ret: negative: why is told
 *
 * Return: how slbnctl exits.
 */
enum status finish(struct slbn *slbn, int ret)
{
	if (ret < 0)
		complain("%s", slbn_reason(slbn));
	slbn_close(slbn);
	return ret < 0 ? STATUS_REFUSED : STATUS_FINE;
}

static void show_address(const char *key, const char *format, int family,
			 const __u8 *address)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(family, address, text, sizeof(text));
	show_string(key, format, text);
}

static void show_protocol(const struct slbn_flow *flow)
{
	const struct protoent *entry;
	char text[UNITS_TEXT];

	if (!flow->protocol)
		return;
	entry = getprotobynumber(flow->protocol);
	snprintf(text, sizeof(text), "%u", flow->protocol);
	print_number("protocol", " %s", flow->protocol,
		     entry ? entry->p_name : text);
	if (flow->source_port)
		print_count("sport", " sport %s", flow->source_port);
	if (flow->destination_port)
		print_count("dport", " dport %s", flow->destination_port);
}

/**
 * device_text() - what a device is called
 * @text: UNITS_TEXT bytes
 * @device: its index; 0: none is known
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

static int put_end(char *text, size_t room, int family, const __u8 *address,
		   __u16 port)
{
	const char *before = family == AF_INET6 && port ? "[" : "";
	const char *behind = family == AF_INET6 && port ? "]" : "";
	char octets[INET6_ADDRSTRLEN], number[8] = "";

	inet_ntop(family, address, octets, sizeof(octets));
	if (port)
		snprintf(number, sizeof(number), ":%u", port);
	return snprintf(text, room, "%s%s%s%s", before, octets, behind, number);
}

/**
 * flow_text() - a flow in a few words
 * @text: FLOW_TEXT bytes
 * @flow: the flow
 *
 * Return: @text
 */
const char *flow_text(char *text, const struct slbn_flow *flow)
{
	static const __u8 anybody[16];
	const struct protoent *entry = NULL;
	int n = 0;

	if (flow->protocol)
		entry = getprotobynumber(flow->protocol);
	if (entry)
		n = snprintf(text, FLOW_TEXT, "%.16s ", entry->p_name);
	else if (flow->protocol)
		n = snprintf(text, FLOW_TEXT, "%u ", flow->protocol);
	if (flow->source_port || memcmp(flow->source, anybody, 16)) {
		n += put_end(text + n, FLOW_TEXT - n, flow->family,
			     flow->source, flow->source_port);
		n += snprintf(text + n, FLOW_TEXT - n, " > ");
	}
	put_end(text + n, FLOW_TEXT - n, flow->family, flow->destination,
		flow->destination_port);
	return text;
}

/**
 * show_session() - all of it, in a line that does not end, or as an object
 * @session: the session
 */
void show_session(const struct slbn_session *session)
{
	static const __u8 anybody[16];
	const struct slbn_flow *flow = &session->flow;
	__u32 flags = session->flags;
	char text[UNITS_TEXT];

	show_begin();
	snprintf(text, sizeof(text), "%016llx",
		 (unsigned long long)session->id);
	show_string("id", "%s", text);
	if (memcmp(flow->source, anybody, sizeof(anybody)))
		show_address("source", " %s >", flow->family, flow->source);
	show_address("destination", " %s", flow->family, flow->destination);
	show_protocol(flow);
	print_number("demand", " demand %s", session->demand,
		     session->demand == SLBN_UNLIMITED ?
			     "unlimited" :
			     units_rate_rounded(text, session->demand));
	print_number("rate", " rate %s", session->rate,
		     units_rate_rounded(text, session->rate));
	if (flags & SLBN_MEASURED)
		print_number("used", " used %s", session->used,
			     units_rate_rounded(text, session->used));
	if (session->bottleneck != 255)
		print_count("bottleneck", " bottleneck %s",
			    session->bottleneck);
	if (!session->bottleneck && link_known(session->device))
		show_string("link", " link %s",
			    device_text(text, session->device));
	if (session->device)
		show_string("device", " device %s",
			    device_text(text, session->device));
	print_count("hops", " hops %s", session->hops);
	snprintf(text, sizeof(text), "%.3gms", (double)session->rtt / 1e6);
	print_number("rtt", " rtt %s", session->rtt, text);
	print_count("cycles", " cycles %s", session->cycles);
	print_count("retries", " retries %s", session->retries);
	print_flag("stays", flags & SLBN_STAYS,
		   flags & SLBN_STAYS ? " stays" : NULL);
	print_flag("detected", flags & SLBN_DETECTED,
		   flags & SLBN_DETECTED ? " detected" : NULL);
	print_flag("stalled", flags & SLBN_STALLED,
		   flags & SLBN_STALLED ? " stalled" : NULL);
	print_flag("leaving", flags & SLBN_LEAVING,
		   flags & SLBN_LEAVING ? " leaving" : NULL);
	show_end();
}

static bool read_demand(const char *text, __u64 *demand)
{
	__u64 value = SLBN_UNLIMITED;

	if (strcmp(text, "unlimited") &&
	    (!units_rate(text, &value) || !value || value > SLBN_UNLIMITED)) {
		complain("demand \"%s\": must be " DEMAND_TAKES, text);
		return false;
	}
	*demand = value;
	return true;
}

static bool read_id(const char *text, __u64 *id)
{
	if (!*text || strlen(text) > 16 ||
	    text[strspn(text, "0123456789abcdefABCDEF")]) {
		complain("\"%s\" is no number of a session", text);
		return false;
	}
	*id = strtoull(text, NULL, 16);
	return true;
}

static bool read_address(const char *word, const char *text, __u16 *family,
			 __u8 *address)
{
	__u16 other = *family;

	*family = AF_INET;
	if (inet_pton(AF_INET, text, address) != 1) {
		*family = AF_INET6;
		if (inet_pton(AF_INET6, text, address) != 1) {
			complain("%s \"%s\": must be " ADDRESS_TAKES, word,
				 text);
			return false;
		}
	}
	if (!other || other == *family)
		return true;
	complain("%s \"%s\": must be of the destination's kind", word, text);
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

static bool read_port(const char *word, const char *text, __u16 *port)
{
	__u64 number;

	if (!units_count(text, "", &number) || !number || number > 65535) {
		complain("%s \"%s\": must be 1 to 65535", word, text);
		return false;
	}
	*port = number;
	return true;
}

/**
 * struct wanted - a session to be joined
 * @flow: its packets
 * @demand: bit/s
 * @hold: it ends with slbnctl
 */
struct wanted {
	struct slbn_flow flow;
	__u64 demand;
	bool hold;
};

/* One word, and its value if it has one: how many were read, or 0. */
static int read_word(struct wanted *wanted, int argc, char **argv)
{
	const char *word = argv[0], *value = argc > 1 ? argv[1] : NULL;
	struct slbn_flow *flow = &wanted->flow;
	bool fine;

	if (!strcmp(word, "hold")) {
		wanted->hold = true;
		return 1;
	}
	if (strcmp(word, "demand") && strcmp(word, "source") &&
	    strcmp(word, "protocol") && strcmp(word, "sport") &&
	    strcmp(word, "dport")) {
		complain("what is \"%s\"? See --help", word);
		return 0;
	}
	if (!value) {
		complain("\"%s\" needs a value", word);
		return 0;
	}
	if (!strcmp(word, "demand"))
		fine = read_demand(value, &wanted->demand);
	else if (!strcmp(word, "source"))
		fine = read_address(word, value, &flow->family, flow->source);
	else if (!strcmp(word, "protocol"))
		fine = read_protocol(value, &flow->protocol);
	else if (!strcmp(word, "sport"))
		fine = read_port(word, value, &flow->source_port);
	else
		fine = read_port(word, value, &flow->destination_port);
	return fine ? 2 : 0;
}

/* Tell of @id, or with 0 of all, until it is over or nobody reads. */
static int follow(struct slbn *slbn, __u64 id)
{
	struct slbn_session session;
	int ret;

	end_when_interrupted();
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
	struct wanted wanted = { .demand = SLBN_UNLIMITED };
	struct slbn *slbn;
	uint64_t id;
	int ret;

	if (!argc) {
		complain("which destination? See --help");
		return STATUS_USAGE;
	}
	if (!read_address("destination", *argv, &wanted.flow.family,
			  wanted.flow.destination))
		return STATUS_USAGE;
	for (argc--, argv++; argc; argc -= ret, argv += ret) {
		ret = read_word(&wanted, argc, argv);
		if (!ret)
			return STATUS_USAGE;
	}
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_REFUSED;
	ret = slbn_join(slbn, &wanted.flow, wanted.demand,
			wanted.hold ? 0 : SLBN_STAYS, &id);
	if (!ret && wanted.hold) {
		ret = follow(slbn, id);
	} else if (!ret) {
		char text[UNITS_TEXT];

		snprintf(text, sizeof(text), "%016llx", (unsigned long long)id);
		show_begin();
		show_string("id", "%s", text);
		show_end();
		putchar('\n');
	}
	return finish(slbn, ret);
}

static enum status run_change(int argc, char **argv)
{
	struct slbn *slbn;
	__u64 id, demand;

	if (argc != 3 || strcmp(argv[1], "demand")) {
		complain("which session, and what demand? See --help");
		return STATUS_USAGE;
	}
	if (!read_id(argv[0], &id) || !read_demand(argv[2], &demand))
		return STATUS_USAGE;
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_REFUSED;
	return finish(slbn, slbn_change(slbn, id, demand));
}

static enum status run_leave(int argc, char **argv)
{
	struct slbn *slbn;
	__u64 id;

	if (argc != 1) {
		complain("which session? See --help");
		return STATUS_USAGE;
	}
	if (!read_id(argv[0], &id))
		return STATUS_USAGE;
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_REFUSED;
	return finish(slbn, slbn_leave(slbn, id));
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
		complain("what is \"%s\"? See --help", *argv);
		return STATUS_USAGE;
	}
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_REFUSED;
	if (json)
		putchar('[');
	ret = slbn_list(slbn, show_one, &first);
	if (json)
		puts("]");
	return finish(slbn, ret);
}

static enum status run_watch(int argc, char **argv)
{
	__u64 id = 0;
	struct slbn *slbn;
	int ret;

	if (argc > 1) {
		complain("one session, or all? See --help");
		return STATUS_USAGE;
	}
	if (argc && !read_id(*argv, &id))
		return STATUS_USAGE;
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_REFUSED;
	ret = slbn_watch(slbn);
	if (!ret)
		ret = follow(slbn, id);
	return finish(slbn, ret);
}

const struct command session_commands[] = {
	{
		.word = "join",
		.usage =
			"Usage: slbnctl [OPTION]... session join DESTINATION [demand RATE]\n"
			"         [source ADDRESS] [protocol NAME] [sport PORT] [dport PORT] [hold]\n"
			"\n"
			"Begins a session and shows its number.\n"
			"\n"
			"  demand RATE      what it asks for (unlimited)\n"
			"  source, protocol, sport, dport\n"
			"                   which packets to the destination it is about (all)\n"
			"  hold             tell its rates, and end it when interrupted\n",
		.run = run_join,
	},
	{
		.word = "change",
		.usage =
			"Usage: slbnctl [OPTION]... session change SESSION demand RATE\n"
			"\n"
			"Asks for another rate, " DEMAND_TAKES ".\n",
		.run = run_change,
	},
	{
		.word = "leave",
		.usage = "Usage: slbnctl [OPTION]... session leave SESSION\n"
			 "\n"
			 "Ends a session.\n",
		.run = run_leave,
	},
	{
		.word = "list",
		.usage = "Usage: slbnctl [OPTION]... session list\n"
			 "\n"
			 "Shows all sessions.\n",
		.run = run_list,
	},
	{
		.word = "watch",
		.usage =
			"Usage: slbnctl [OPTION]... session watch [SESSION]\n"
			"\n"
			"Tells when the rate of a session moves, of all or of this one, until\n"
			"interrupted.\n",
		.run = run_watch,
	},
	{},
};
