// SPDX-License-Identifier: GPL-2.0
/*
 * The core of SLBN, driven by lines of text, for test_against_core.py.
 *
 * It reads commands on stdin and answers each with one line. Packets are octets
 * in hexadecimal, as they are on the wire: UDP payloads with IPv4 addresses. Links
 * and sources are numbers; times are in ns, rates in bit/s.
 *
 *	link N C P COMMIT EPOCH ROWS KEY0 KEY1 NOW QUIET_UNTIL RANDOM NUMBER ADDRESS
 *						ok
 *	process N NOW PACKET			its verdict, the packet
 *	sums N					of both ledgers: BF NR N A
 *	hash N ID0 ID1				hash of a session at a link
 *	source N ID0 ID1 D WEIGHT SLOTS		ok
 *	send N NOW ADDRESS			the packet
 *	receive N NOW PACKET			event, rate, lease
 *	change N D | leave N			ok
 *	reply PACKET				the destination's reply
 *
 * Requires valid commands: an unknown one ends it with status 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fairpath/slbn/slbn_wire.h>

#define OBJECTS 64U
#define ROWS_MAX 4096U

static struct link {
	struct slbn_link_params p;
	struct slbn_link_vars v;
	struct slbn_link_stats s;
	struct slbn_memory_entry memory[ROWS_MAX * SLBN_MEMORY_WAYS];
	u32 number;
	u8 address[4];
} links[OBJECTS];

static struct slbn_source sources[OBJECTS];

static void fail(const char *why)
{
	fprintf(stderr, "core: %s\n", why);
	exit(1);
}

static char *word(void)
{
	char *text = strtok(NULL, "\n ");

	if (!text)
		fail("the command is too short");
	return text;
}

static u64 number(void)
{
	return strtoull(word(), NULL, 10);
}

static u32 object(void)
{
	u64 n = number();

	if (n >= OBJECTS)
		fail("no such link or source");
	return n;
}

static u32 octets(u8 *data, u32 room)
{
	const char *text = word();
	u32 length = strlen(text) / 2, n;

	if (length > room)
		fail("the packet is too long");
	for (n = 0; n < length; n++)
		if (sscanf(text + 2 * n, "%2hhx", &data[n]) != 1)
			fail("a packet is not hexadecimal");
	return length;
}

static void print_octets(const u8 *data, u32 length)
{
	while (length--)
		printf("%02x", *data++);
	putchar('\n');
}

static void set_link(void)
{
	struct link *link = &links[object()];
	u64 now, quiet_until;

	memset(link, 0, sizeof(*link));
	link->p.C = number();
	link->p.P = number();
	link->p.commit = number();
	link->p.epoch = number();
	link->p.rows = number();
	if (link->p.rows > ROWS_MAX)
		fail("too many rows");
	link->p.hash_key[0] = number();
	link->p.hash_key[1] = number();
	link->v.memory = link->memory;
	now = number();
	quiet_until = number();
	slbn_link_init(&link->v, now, quiet_until, number());
	link->number = number();
	octets(link->address, sizeof(link->address));
	puts("ok");
}

static void process(void)
{
	struct link *link = &links[object()];
	struct slbn_slot slot = { .tag = SLBN_NO_TAG };
	u8 data[SLBN_LENGTH_MAX];
	struct slbn_layout layout;
	enum slbn_verdict verdict;
	struct slbn_packet pkt;
	u64 now = number();
	u32 given = octets(data, sizeof(data));
	bool down;
	u8 hop;

	if (slbn_parse_packet(data, given, &pkt, &layout) != SLBN_PARSE_OK) {
		puts("malformed");
		return;
	}
	down = !slbn_is_upstream(&pkt);
	hop = slbn_current_hop(&pkt);
	if (hop < pkt.slots)
		slot = slbn_get_slot(data, &layout, hop);
	verdict = slbn_link_process(&link->p, &link->v, &link->s, &pkt, &slot,
				    now);
	if (verdict != SLBN_FORWARD) {
		printf("dropped %d\n", verdict);
		return;
	}
	slbn_set_slot(data, &layout, hop, slot);
	if (down)
		slbn_set_return(data, &layout, pkt.hop, link->number,
				link->address);
	slbn_update_packet(data, &pkt);
	slbn_update_share(data, &layout, &pkt);
	printf("forward ");
	print_octets(data, layout.length);
}

static void print_sums(void)
{
	const struct slbn_link_vars *v = &links[object()].v;

	printf("%llu %llu %llu %llu\n",
	       (unsigned long long)(v->cur.BF + v->prev.BF),
	       (unsigned long long)(v->cur.NR + v->prev.NR),
	       (unsigned long long)(v->cur.N + v->prev.N),
	       (unsigned long long)(v->cur.A + v->prev.A));
}

static void print_hash(void)
{
	const struct link *link = &links[object()];
	struct slbn_packet pkt = { 0 };

	pkt.id[0] = number();
	pkt.id[1] = number();
	printf("%llu\n", (unsigned long long)slbn_session_hash(&link->p, &pkt));
}

static void set_source(void)
{
	struct slbn_source *source = &sources[object()];
	u64 id[2], D;
	u32 weight;

	id[0] = number();
	id[1] = number();
	D = number();
	weight = number();
	slbn_source_join(source, id, D, weight, number());
	puts("ok");
}

static void send_packet(void)
{
	struct slbn_source *source = &sources[object()];
	u8 data[SLBN_LENGTH_MAX], address[4];
	struct slbn_layout layout;

	slbn_source_transmit(source, number());
	octets(address, sizeof(address));
	slbn_build_packet(data, &source->pkt, source->slot, address, false,
			  false, &layout);
	if (source->pkt.type != SLBN_LEAVE && !source->pkt.again)
		slbn_add_share(data, &layout, &source->pkt);
	print_octets(data, layout.length);
}

static void receive_packet(void)
{
	struct slbn_source *source = &sources[object()];
	struct slbn_slot slots[SLBN_HOPS_MAX];
	u8 data[SLBN_LENGTH_MAX];
	struct slbn_layout layout;
	struct slbn_packet pkt;
	u64 now = number();
	u32 given = octets(data, sizeof(data));
	int event;
	u8 hop;

	if (slbn_parse_packet(data, given, &pkt, &layout) != SLBN_PARSE_OK) {
		puts("malformed");
		return;
	}
	for (hop = 0; hop < pkt.slots; hop++)
		slots[hop] = slbn_get_slot(data, &layout, hop);
	event = slbn_source_ack(source, &pkt, slots, now);
	printf("%d %llu %llu\n", event, (unsigned long long)source->rate,
	       (unsigned long long)source->lease);
}

static void reply(void)
{
	u8 data[SLBN_LENGTH_MAX];
	struct slbn_layout layout;
	struct slbn_packet pkt;
	u32 given = octets(data, sizeof(data));

	if (slbn_parse_packet(data, given, &pkt, &layout) != SLBN_PARSE_OK ||
	    !slbn_destination_reply(&pkt)) {
		puts("malformed");
		return;
	}
	slbn_wire_clear_slots(data, &layout, &pkt);
	slbn_update_packet(data, &pkt);
	print_octets(data, layout.length);
}

static void execute(const char *command)
{
	if (!strcmp(command, "link")) {
		set_link();
	} else if (!strcmp(command, "process")) {
		process();
	} else if (!strcmp(command, "sums")) {
		print_sums();
	} else if (!strcmp(command, "hash")) {
		print_hash();
	} else if (!strcmp(command, "source")) {
		set_source();
	} else if (!strcmp(command, "send")) {
		send_packet();
	} else if (!strcmp(command, "receive")) {
		receive_packet();
	} else if (!strcmp(command, "change")) {
		u32 n = object();

		slbn_source_change(&sources[n], number());
		puts("ok");
	} else if (!strcmp(command, "leave")) {
		slbn_source_leave(&sources[object()]);
		puts("ok");
	} else if (!strcmp(command, "reply")) {
		reply();
	} else {
		fail("unknown command");
	}
}

int main(void)
{
	static char line[2 * SLBN_LENGTH_MAX + 256];

	while (fgets(line, sizeof(line), stdin)) {
		const char *command = strtok(line, "\n ");

		if (command)
			execute(command);
		fflush(stdout);
	}
	return 0;
}
