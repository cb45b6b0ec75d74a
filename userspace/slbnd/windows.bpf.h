/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Receive windows in BPF: a part of rates.bpf.c. See window.h for the arithmetic.
 *
 * At egress, behind the pacer, windows_leave() notes SYNs and data of local hosts. At
 * ingress, slbnd_windows() notes SYNs of their peers, and lowers the window in
 * acknowledgements. Both use the connection's tuple as it is on the wire of the uplink:
 * egress is behind NAT, ingress before it.
 *
 * A connection has an entry as long as it has a place in the table of connections
 * (connections.h), which hosts share fairly: a host that floods loses its own entries.
 * A connection without a place is left alone. The SYN of a peer is in "starts" until the
 * host answers it: so SYNs that are not answered, or whose sources are forged, replace
 * each other only.
 */
#ifndef SLBND_WINDOWS_BPF_H
#define SLBND_WINDOWS_BPF_H

#include <linux/tcp.h>

#include "windows.h"

/* In the packet's control block: slbnd_rates has handed it over to slbnd_sent. */
#define HANDED_OVER 0x51bd5e47

/* Options that are read, with each padding. Usually there are up to seven. */
#define OPTIONS_MAX 16

/* Mask of indices into the options: there are up to 40 octets. */
#define OPTIONS_MASK 63

/* Timestamps alone, as most segments have them: two paddings, kind 8, length 10. */
#define ONLY_TIMESTAMPS 0x0101080a

/**
 * struct window_entry - a connection
 * @key: the flow of its data; 0: none
 * @start: its SYNs, until data follow them
 * @window: its window
 */
struct window_entry {
	struct rates_key key;
	struct window_start start;
	struct window window;
};

/* By place in "connections". */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct window_entry);
} windows SEC(".maps");

/* SYNs of peers, by the flow of the data. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WINDOWS_STARTS);
	__type(key, struct rates_key);
	__type(value, struct window_start);
} starts SEC(".maps");

/* By slot of the session; slbnd reads it in its memory. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct window_sharing);
} sharings SEC(".maps");

/* Prefixes whose connections are left alone. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, FLOWS_PREFIXES);
	__type(key, struct rates_prefix);
	__type(value, u32);
} excepted SEC(".maps");

/* Windows are lowered. */
u32 windows_on;

/*
 * Acknowledgements whose window was lowered, connections with a session that are left
 * alone, and how often acknowledgements were found to come another way.
 */
u64 windows_lowered;
u64 windows_unknown;
u64 windows_silent;

/**
 * struct scratch - what is kept of a packet
 * @packet: the packet
 * @tcp: its header
 * @key: the flow of the connection's data
 * @start: of a new connection
 * @data: that leave
 * @ack: that arrives
 * @tcp_valid: @tcp and the options are valid
 * @now: of the packet that leaves, as in struct arrival
 * @departure: the same
 * @missed: the same
 * @rate: of its session, bit/s; 0: none
 * @slot: of its session, or NO_FLOW
 * @place: of its connection, or NO_PLACE
 * @size: octets of its data, with padding
 * @header: offset of its TCP header from the start of the packet's data
 * @segments: of the packet
 * @mss: octets of data of each, if there are several
 * @length: on the wire, octets; of a packet that leaves
 * @is_new: it has no rate, but may leave as new (marks.bpf.h)
 * @exceeds: it is sent above the rate of its session
 * @opens: it is the first one of its connection
 * @at: next option, in @octets
 * @end: of the options
 * @options: of a SYN, as window_option() has them
 * @sacked: right edge of the highest block of SACK
 * @octets: the options; more, so that any index of OPTIONS_MASK is valid
 *
 * In a map, as the stack is too small; and without CAP_PERFMON, the verifier rejects a
 * variable index into the stack, and see struct rates_key.
 */
struct scratch {
	struct packet packet;
	struct tcphdr tcp;
	struct rates_key key;
	struct window_start start;
	struct window_data data;
	struct window_ack ack;
	u64 now;
	u64 departure;
	u64 missed;
	u64 rate;
	u64 slot;
	u64 place;
	u32 size;
	u32 header;
	u32 tcp_valid;
	u32 segments;
	u32 mss;
	u32 length;
	u32 is_new;
	u32 exceeds;
	u32 opens;
	u32 at;
	u32 end;
	u64 options;
	u8 octets[OPTIONS_MASK + 1];
	u32 sacked;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct scratch *get_scratch(void)
{
	/* 64 bits: see struct rates_key. */
	const u64 only = 0;

	return bpf_map_lookup_elem(&scratches, &only);
}

/* --- headers -------------------------------------------------------------- */

/* Read a TCP header at an offset from the start of the packet's data. */
static bool load_tcp(struct __sk_buff *skb, const struct packet *packet,
		     u32 offset, struct tcphdr *tcp)
{
	/* Its ports show that it is the one that was parsed. */
	return !bpf_skb_load_bytes(skb, offset, tcp, sizeof(*tcp)) &&
	       packet->key.rest >> 16 ==
		       rates_rest(0, 0, tcp->source, tcp->dest) >> 16;
}

/*
 * Read the TCP header. Returns its offset from the start of the packet's data, which begin
 * with the link-layer header, if the device has one; 0: not found.
 */
static u32 find_tcp(struct __sk_buff *skb, const struct packet *packet,
		    struct tcphdr *tcp)
{
	u32 offset = packet->offset;

	if (packet->base != BPF_HDR_START_MAC &&
	    load_tcp(skb, packet, ETH_HLEN + offset, tcp))
		return ETH_HLEN + offset;
	return load_tcp(skb, packet, offset, tcp) ? offset : 0;
}

/* Keep the options, which begin at an offset, in the scratch. Returns false on failure. */
static __always_inline bool keep_options(struct __sk_buff *skb, u32 offset,
					 struct scratch *scratch)
{
	u32 length = scratch->end;
	int n;

	/* A timestamp or a block of SACK, with their padding. */
#pragma unroll
	for (n = 0; n < 3; n++) {
		if (length < 12U * (n + 1))
			break;
		if (bpf_skb_load_bytes(skb, offset + 12 * n,
				       scratch->octets + 12 * n, 12))
			return false;
	}
#pragma unroll
	for (n = 0; n < 10; n++) {
		if (length < 4U * (n + 1))
			break;
		if (4U * n >= length / 12 * 12 &&
		    bpf_skb_load_bytes(skb, offset + 4 * n,
				       scratch->octets + 4 * n, 4))
			return false;
	}
	return true;
}

/*
 * Keep the TCP header of the packet in the scratch, too, with its options if it is a SYN, or if
 * @options is set. Packets with AH must not be changed.
 */
static __noinline int keep_tcp(struct __sk_buff *skb, struct scratch *scratch,
			       u32 options)
{
	const struct packet *packet = &scratch->packet;
	struct tcphdr *tcp = &scratch->tcp;
	u32 data;

	scratch->tcp_valid = 0;
	if (packet->protocol != IPPROTO_TCP || packet->fragment ||
	    packet->flags & SEALED)
		return 0;
	scratch->header = find_tcp(skb, packet, tcp);
	data = scratch->header + tcp->doff * 4;
	if (!scratch->header || tcp->doff < 5 || skb->len < data)
		return 0;
	scratch->segments = skb->gso_segs ?: 1;
	scratch->mss = skb->gso_size;
	scratch->size = skb->len - data;
	scratch->end = tcp->doff * 4 - sizeof(*tcp);
	if ((tcp->syn || options) &&
	    !keep_options(skb, scratch->header + sizeof(*tcp), scratch))
		return 0;
	scratch->tcp_valid = 1;
	return 0;
}

static __always_inline u32 octet(const struct scratch *scratch, u32 at)
{
	return scratch->octets[at & OPTIONS_MASK];
}

static __always_inline u32 word(const struct scratch *scratch, u32 at)
{
	return octet(scratch, at) << 24 | octet(scratch, at + 1) << 16 |
	       octet(scratch, at + 2) << 8 | octet(scratch, at + 3);
}

/*
 * Read the next option in the scratch. Not static: the verifier checks such a function
 * once, not for each state of its caller. Returns 0 behind the last one.
 */
__noinline int read_option(void)
{
	struct scratch *scratch = get_scratch();
	u32 at, kind, length, value = 0, edge, n;

	if (!scratch || scratch->at >= scratch->end)
		return 0;
	at = scratch->at;
	kind = octet(scratch, at);
	if (!kind)
		return 0;
	if (kind == 1) {
		scratch->at = at + 1;
		return 1;
	}
	length = octet(scratch, at + 1);
	if (length < 2 || at + length > scratch->end) {
		scratch->options |= WINDOW_MALFORMED;
		return 0;
	}
	scratch->at = at + length;
	if (kind == 2)
		value = octet(scratch, at + 2) << 8 | octet(scratch, at + 3);
	if (kind == 3)
		value = octet(scratch, at + 2);
	scratch->options = window_option(scratch->options, kind, length, value);
	if (kind != 5)
		return 1;
		/* The highest right edge of up to four blocks (RFC 2018). */
#pragma unroll
	for (n = 0; n < 4; n++) {
		edge = word(scratch, at + 6 + 8 * n);
		if (10 + 8 * n <= length &&
		    window_before(scratch->sacked, edge))
			scratch->sacked = edge;
	}
	return 1;
}

/* Read the options of the header that is kept. */
__noinline int read_options(void)
{
	struct scratch *scratch = get_scratch();
	int n;

	if (!scratch)
		return 0;
	scratch->at = 0;
	scratch->options = 0;
	scratch->sacked = bpf_ntohl(scratch->tcp.ack_seq);
#pragma unroll
	for (n = 0; n < OPTIONS_MAX; n++)
		if (!read_option())
			return 0;
	scratch->options |= WINDOW_MALFORMED;
	return 0;
}

/* The flow of the data that a packet acknowledges: its own, back. */
static __always_inline void set_back(struct rates_key *key,
				     const struct rates_key *from)
{
	u64 rest = from->rest;

	key->source[0] = from->destination[0];
	key->source[1] = from->destination[1];
	key->destination[0] = from->source[0];
	key->destination[1] = from->source[1];
	key->rest = rates_rest(rest, rest >> 8, rest >> 32, rest >> 16);
}

/* Does an address belong to a prefix whose connections are left alone? */
static bool is_excepted(const struct packet *packet, const u64 *address)
{
	struct rates_prefix key = {
		.head = rates_prefix_head(packet->key.rest, 128),
		.address[0] = address[0],
		.address[1] = address[1],
	};

	return bpf_map_lookup_elem(&excepted, &key);
}

/* --- SYNs ----------------------------------------------------------------- */

/* Another connection takes a place. */
static __always_inline void forget_window(u32 place)
{
	struct window_entry *entry = bpf_map_lookup_elem(&windows, &place);

	if (entry)
		entry->key.rest = 0;
}

/* Begin with a connection at a place that may have been another one's. */
static __always_inline void take_entry(struct window_entry *entry,
				       const struct rates_key *key)
{
	entry->key = *key;
	entry->start = (struct window_start){};
	entry->window = (struct window){};
}

/* Note the SYN of a host. */
static __always_inline void note_host(struct scratch *scratch,
				      struct window_entry *entry)
{
	u32 sequence = bpf_ntohl(scratch->tcp.seq);
	u32 ack = bpf_ntohl(scratch->tcp.ack_seq);
	struct window_start *start;

	read_options();
	if (!connections_same(&entry->key, &scratch->key))
		take_entry(entry, &scratch->key);
	if (!scratch->tcp.ack) {
		window_syn(&entry->start, WINDOW_HOST, sequence,
			   scratch->options);
		return;
	}
	start = bpf_map_lookup_elem(&starts, &scratch->key);
	if (!start || !window_syn_ack(start, WINDOW_HOST, sequence, ack,
				      scratch->options))
		return;
	entry->start = *start;
	bpf_map_delete_elem(&starts, &scratch->key);
}

/* Note the SYN of a peer that opens a connection. */
static __always_inline void note_peer(struct scratch *scratch)
{
	read_options();
	scratch->start = (struct window_start){};
	window_syn(&scratch->start, WINDOW_PEER, bpf_ntohl(scratch->tcp.seq),
		   scratch->options);
	bpf_map_update_elem(&starts, &scratch->key, &scratch->start, BPF_ANY);
}

/* Is a packet for a local host, or for an address that is translated to one's? */
static bool is_for_hosts(const struct packet *packet)
{
	struct rates_prefix key = {
		.head = rates_prefix_head(packet->key.rest, 128),
		.address[0] = packet->key.destination[0],
		.address[1] = packet->key.destination[1],
	};

	return any_host || bpf_map_lookup_elem(&prefixes, &key);
}

/* --- data ----------------------------------------------------------------- */

/*
 * Find the window of a connection that sends data; NULL: it is left alone. If it has no
 * session either, nothing is kept of it.
 */
static __always_inline struct window *
sending_window(const struct scratch *scratch, struct window_entry *entry)
{
	const struct packet *packet = &scratch->packet;
	u32 sequence = bpf_ntohl(scratch->tcp.seq);
	struct window *window = &entry->window;
	bool known;

	if (!connections_same(&entry->key, &scratch->key)) {
		if (scratch->slot == NO_FLOW)
			return NULL;
		take_entry(entry, &scratch->key);
		__sync_fetch_and_add(&windows_unknown, 1);
		return NULL;
	}
	if (window_follows(&entry->start, sequence)) {
		*window = (struct window){};
		known = window_begin(window, &entry->start, scratch->now);
		if (!known || is_excepted(packet, packet->key.source) ||
		    is_excepted(packet, packet->key.destination)) {
			window->known = 0;
			__sync_fetch_and_add(&windows_unknown, 1);
		}
		entry->start.seen = 0;
	}
	return window->known ? window : NULL;
}

/*
 * The packet that is kept leaves a local host. Returns whether it is counted in what the
 * connections of its session share. Not static: see read_option().
 */
__noinline int windows_leave(void)
{
	struct scratch *scratch = get_scratch();
	const struct rates_limit *limit;
	struct window_sharing *sharing;
	struct window_entry *entry;
	const struct tcphdr *tcp;
	struct window_data *data;
	struct window *window;
	u32 octets, slot, place;

	if (!scratch)
		return 0;
	tcp = &scratch->tcp;
	octets = scratch->size;
	slot = scratch->slot;
	place = scratch->place;
	entry = bpf_map_lookup_elem(&windows, &place);
	if (!entry || (!octets && !tcp->fin && !tcp->syn))
		return 0;
	scratch->key = scratch->packet.key;
	if (tcp->syn) {
		note_host(scratch, entry);
		return 0;
	}
	window = sending_window(scratch, entry);
	if (!window)
		return 0;
	sharing = bpf_map_lookup_elem(&sharings, &slot);
	data = &scratch->data;
	data->now = scratch->now;
	data->departure = fp_max64(scratch->departure, scratch->now);
	data->missed = scratch->missed;
	data->rate = sharing ? scratch->rate : 0;
	limit = bpf_map_lookup_elem(&limits, &slot);
	data->assigned = data->rate;
	if (limit)
		data->assigned = fp_min64(limit->rate, data->rate);
	data->sequence = bpf_ntohl(tcp->seq);
	data->length = octets + tcp->fin;
	data->octets = scratch->length;
	data->mss = fp_max(scratch->segments > 1 ? scratch->mss : octets, 1);
	data->headers = 0;
	if (scratch->length > octets && scratch->segments)
		data->headers = (scratch->length - octets) / scratch->segments;
	if (window_sent(window, sharing, data))
		__sync_fetch_and_add(&windows_silent, 1);
	return 1;
}

/* Is the packet that is kept TCP's, without data? */
static __always_inline bool is_pure_ack(const struct scratch *scratch)
{
	const struct tcphdr *tcp = &scratch->tcp;

	return scratch->tcp_valid && !scratch->size && tcp->ack && !tcp->syn &&
	       !tcp->fin && !tcp->rst;
}

/* Windows do not reach the packet that is kept. Not static: see read_option(). */
__noinline int windows_escape(void)
{
	struct scratch *scratch = get_scratch();
	struct window_sharing *sharing;
	u32 slot, acks;

	if (!scratch)
		return 0;
	slot = scratch->slot;
	sharing = bpf_map_lookup_elem(&sharings, &slot);
	if (!sharing)
		return 0;
	/* Without a branch: see count(). */
	acks = is_pure_ack(scratch) ? scratch->length : 0;
	sharing->acks += acks;
	sharing->escaped += scratch->length - acks;
	return 0;
}

/* The pacer drops or marks a packet of the session @slot. Not static: see read_option(). */
__noinline int windows_drop(u32 slot)
{
	struct window_sharing *sharing = bpf_map_lookup_elem(&sharings, &slot);

	if (sharing)
		__sync_fetch_and_add(&sharing->dropped, 1);
	return 0;
}

/*
 * Hand a packet over to slbnd_sent, the next program at egress, in two steps: what is kept
 * until the end of slbnd_rates, the verifier of Linux 6.1 distinguishes, and would not find
 * its end.
 */
static __always_inline void hand_packet(const struct packet *packet)
{
	struct scratch *scratch = get_scratch();

	if (!scratch)
		return;
	scratch->packet = *packet;
	scratch->place = NO_PLACE;
	scratch->is_new = 0;
	scratch->exceeds = 0;
	scratch->opens = 0;
}

static __always_inline void hand_place(u32 place)
{
	struct scratch *scratch = get_scratch();

	if (scratch)
		scratch->place = place;
}

static __always_inline void hand_over(struct __sk_buff *skb,
				      const struct arrival *arrival, u32 slot)
{
	struct scratch *scratch = get_scratch();

	if (!scratch)
		return;
	scratch->now = arrival->now;
	scratch->departure = arrival->departure;
	scratch->missed = arrival->missed;
	scratch->rate = arrival->assigned;
	scratch->slot = slot;
	skb->cb[0] = HANDED_OVER;
}

#include "marks.bpf.h"

SEC("tc")
int slbnd_sent(struct __sk_buff *skb)
{
	struct scratch *scratch = get_scratch();
	bool handed = skb->cb[0] == HANDED_OVER;

	if (!(windows_on | marks_on) || !scratch)
		return TC_ACT_UNSPEC;
	if (handed) {
		scratch->length = skb->wire_len;
		skb->cb[0] = 0;
	}
	if (marks_on && !marks_leave(skb, scratch, handed))
		return TC_ACT_SHOT;
	if (!windows_on || !handed)
		return TC_ACT_UNSPEC;
	keep_tcp(skb, scratch, false);
	if (!scratch->tcp_valid || !windows_leave())
		windows_escape();
	return TC_ACT_UNSPEC;
}

/* --- acknowledgements ----------------------------------------------------- */

/* Write a window field. Returns false if the packet is as it was. */
static bool set_window(struct __sk_buff *skb, u32 offset,
		       const struct tcphdr *tcp, u16 value)
{
	__be16 field = bpf_htons(value);

	/* The first helper makes the header writable, so the second one succeeds. */
	return !bpf_l4_csum_replace(skb,
				    offset + offsetof(struct tcphdr, check),
				    tcp->window, field, sizeof(field)) &&
	       !bpf_skb_store_bytes(skb,
				    offset + offsetof(struct tcphdr, window),
				    &field, sizeof(field), 0);
}

/* The entry of a connection; NULL: it has none. */
static __always_inline struct window_entry *
find_entry(const struct rates_key *key)
{
	struct window_entry *entry;
	u32 place = find_place(key, first_place(key));

	entry = bpf_map_lookup_elem(&windows, &place);
	return entry && connections_same(&entry->key, key) ? entry : NULL;
}

/* The same for an acknowledgment before the first data. Not static: see read_option(). */
__noinline int windows_open(const struct window_entry *entry)
{
	struct scratch *scratch = get_scratch();
	const struct packet *packet;

	if (!scratch || !entry)
		return 0;
	packet = &scratch->packet;
	if (is_excepted(packet, packet->key.source) ||
	    is_excepted(packet, packet->key.destination))
		return scratch->ack.field;
	return window_opening(&entry->start, scratch->ack.field);
}

/*
 * The packet that is kept arrives. Returns its new window field; if it is the same, leave
 * it alone. Not static: see read_option().
 */
__noinline int windows_arrive(void)
{
	struct scratch *scratch = get_scratch();
	const struct packet *packet;
	struct window_entry *entry;
	const struct tcphdr *tcp;
	struct window_ack *ack;
	struct window *window;

	if (!scratch)
		return 0;
	packet = &scratch->packet;
	tcp = &scratch->tcp;
	ack = &scratch->ack;
	ack->field = bpf_ntohs(tcp->window);
	set_back(&scratch->key, &packet->key);
	ack->ack = bpf_ntohl(tcp->ack_seq);
	if (tcp->syn && !tcp->ack) {
		if (is_for_hosts(packet))
			note_peer(scratch);
		return ack->field;
	}
	if (!tcp->ack || tcp->rst)
		return ack->field;
	entry = find_entry(&scratch->key);
	if (!entry)
		return ack->field;
	if (tcp->syn) {
		read_options();
		window_syn_ack(&entry->start, WINDOW_PEER, bpf_ntohl(tcp->seq),
			       ack->ack, scratch->options);
		return ack->field;
	}
	window = &entry->window;
	/* The window may be that of an earlier connection with the same ports. */
	if (window_follows(&entry->start, ack->ack))
		return windows_open(entry);
	if (!window->known)
		return ack->field;
	/* The exact time is the most expensive part. */
	ack->now = window_times(window, ack->ack) ? bpf_ktime_get_ns() :
						    bpf_ktime_get_coarse_ns();
	/* Short frames are padded. */
	ack->pure = scratch->size <= 6;
	ack->sacked = ack->ack;
	if (window->sack && scratch->end &&
	    !(scratch->end == 12 &&
	      *(__be32 *)scratch->octets == bpf_htonl(ONLY_TIMESTAMPS))) {
		read_options();
		ack->sacked = scratch->sacked;
	}
	return window_ack(window, ack);
}

/* The window could not be written: leave the connection alone. */
static __noinline int give_up(const struct rates_key *key)
{
	struct window_entry *entry = find_entry(key);

	if (entry)
		entry->window.known = 0;
	return 0;
}

SEC("tc")
int slbnd_windows(struct __sk_buff *skb)
{
	struct scratch *scratch = get_scratch();
	struct packet *packet;
	u32 field;

	if (!(windows_on | marks_on) || !scratch)
		return TC_ACT_UNSPEC;
	/* Not on the stack: see struct rates_key. */
	packet = &scratch->packet;
	*packet = (struct packet){};
	read_packet(skb, packet);
	if (marks_on && packet->key.rest)
		marks_arrive();
	if (!windows_on || !packet->key.rest || packet->protocol != IPPROTO_TCP)
		return TC_ACT_UNSPEC;
	keep_tcp(skb, scratch, true);
	if (!scratch->tcp_valid)
		return TC_ACT_UNSPEC;
	field = windows_arrive();
	if (field == bpf_ntohs(scratch->tcp.window))
		return TC_ACT_UNSPEC;
	if (set_window(skb, scratch->header, &scratch->tcp, field))
		__sync_fetch_and_add(&windows_lowered, 1);
	else
		give_up(&scratch->key);
	return TC_ACT_UNSPEC;
}

#endif /* SLBND_WINDOWS_BPF_H */
