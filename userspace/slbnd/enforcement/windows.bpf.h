/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Receive windows in BPF: a part of rates.bpf.c. See window.h for the arithmetic.
 *
 * At egress, behind the pacer, windows_leave() notes SYNs and data of local hosts. At
 * ingress, slbnd_windows() notes SYNs of their peers, and lowers the window in
 * acknowledgements. Both use the connection's tuple as it is on the wire of the uplink:
 * egress is behind NAT, ingress before it.
 *
 * A connection has an entry as long as it has a place in the table of
 * connections (connections.h), which hosts share fairly: a host that floods
 * loses its own entries. A connection without a place is left alone. The SYN of
 * a peer is in "starts" until the host answers it: so SYNs that are not
 * answered, or whose sources are forged, replace only each other.
 */
#ifndef SLBND_WINDOWS_BPF_H
#define SLBND_WINDOWS_BPF_H

#include "windows.h"

/* In the packet's control block: slbnd_rates has handed it over to slbnd_sent. */
#define HANDED_OVER 0x51bd5e47

/* Options that are read, with each padding. Usually there are up to seven. */
#define OPTIONS_MAX 16

/*
 * The options of most segments: timestamps (two paddings, kind 8, length 10), and blocks of
 * SACK behind them (two paddings, kind 5, 2 octets and 8 for each block). The header has
 * 8 words with timestamps, 11 with a block, and 2 more for each other one.
 */
#define STAMPS 0x0101080a
#define BLOCKS 0x01010500

/* Where the TCP header of most packets begins, of IPv4 and of IPv6. */
#define USUAL_V4 (ETH_HLEN + sizeof(struct iphdr))
#define USUAL_V6 (ETH_HLEN + sizeof(struct ipv6hdr))

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

/* The period of the system's timer, ns. */
u64 windows_tick;

/*
 * Connections with a session that are left alone, and how often
 * acknowledgements were found to return by another router. See also struct
 * scratch.
 */
u64 windows_unknown;
u64 windows_silent;

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

/*
 * Copy the TCP header, if it is at a usual offset, in the first part of the packet: by
 * direct access, which takes less time than a helper. Without CAP_PERFMON, the verifier
 * requires constant offsets.
 */
static __always_inline void copy_tcp(struct __sk_buff *skb,
				     struct scratch *scratch, u32 offset)
{
	void *start = (void *)(long)skb->data,
	     *end = (void *)(long)skb->data_end;
	const struct tcphdr *tcp = start + offset;

	if ((void *)(tcp + 1) > end ||
	    scratch->packet.key.rest >> 16 !=
		    rates_rest(0, 0, tcp->source, tcp->dest) >> 16)
		return;
	/* All that is used of it. */
	scratch->tcp.seq = tcp->seq;
	scratch->tcp.ack_seq = tcp->ack_seq;
	tcp_flag_word(&scratch->tcp) = tcp_flag_word(tcp);
	scratch->header = offset;
}

/*
 * Keep the TCP header of the packet in the scratch, too. Packets with AH must not be changed.
 */
static __always_inline void keep_tcp(struct __sk_buff *skb,
				     struct scratch *scratch)
{
	const struct packet *packet = &scratch->packet;
	struct tcphdr *tcp = &scratch->tcp;
	u32 data;

	scratch->tcp_valid = 0;
	if (packet->protocol != IPPROTO_TCP || packet->fragment ||
	    packet->flags & SEALED)
		return;
	scratch->header = 0;
	if (packet->base != BPF_HDR_START_MAC) {
		if (packet->offset == sizeof(struct iphdr))
			copy_tcp(skb, scratch, USUAL_V4);
		else if (packet->offset == sizeof(struct ipv6hdr))
			copy_tcp(skb, scratch, USUAL_V6);
	}
	window_reload();
	if (!scratch->header)
		scratch->header = find_tcp(skb, packet, tcp);
	data = scratch->header + tcp->doff * 4;
	if (!scratch->header || tcp->doff < 5 || skb->len < data)
		return;
	scratch->size = skb->len - data;
	scratch->tcp_valid = 1;
}

/*
 * Read the next option of the header that is kept. Returns 0 behind the last
 * one. Static, like all functions that get @skb: without BTF, the kernel treats
 * the argument of a function that is not static as any memory.
 */
static __noinline int read_option(struct __sk_buff *skb)
{
	struct scratch *scratch = get_scratch();
	u32 at, left, value, n;

	if (!scratch || scratch->at >= scratch->end)
		return 0;
	at = scratch->at;
	left = scratch->end - at;
	if (bpf_skb_load_bytes(skb, at, &scratch->kind, 1)) {
		scratch->options |= WINDOW_MALFORMED;
		return 0;
	}
	if (!scratch->kind)
		return 0;
	if (scratch->kind == 1) {
		scratch->at = at + 1;
		return 1;
	}
	if (left < 2 || bpf_skb_load_bytes(skb, at + 1, &scratch->octets, 1) ||
	    scratch->octets < 2 || scratch->octets > left) {
		scratch->options |= WINDOW_MALFORMED;
		return 0;
	}
	scratch->at = at + scratch->octets;
	scratch->value = 0;
	if (scratch->octets == 3)
		bpf_skb_load_bytes(skb, at + 2, &scratch->value, 1);
	if (scratch->octets == 4)
		bpf_skb_load_bytes(skb, at + 2, &scratch->value, 2);
	value = bpf_ntohs(scratch->value);
	if (scratch->octets == 3)
		value >>= 8;
	scratch->options = window_option(scratch->options, scratch->kind,
					 scratch->octets, value);
	if (scratch->kind != 5)
		return 1;
		/* The highest right edge of up to four blocks (RFC 2018). */
#pragma unroll
	for (n = 0; n < 4; n++) {
		if (10 + 8 * n > scratch->octets ||
		    bpf_skb_load_bytes(skb, at + 6 + 8 * n, &scratch->edge, 4))
			break;
		if (window_before(scratch->sacked, bpf_ntohl(scratch->edge)))
			scratch->sacked = bpf_ntohl(scratch->edge);
	}
	return 1;
}

/* Read the options of the header that is kept. */
static __noinline int read_options(struct __sk_buff *skb)
{
	struct scratch *scratch = get_scratch();
	int n;

	if (!scratch)
		return 0;
	scratch->at = scratch->header + sizeof(scratch->tcp);
	scratch->end = scratch->header + scratch->tcp.doff * 4;
	scratch->options = 0;
	scratch->sacked = bpf_ntohl(scratch->tcp.ack_seq);
#pragma unroll
	for (n = 0; n < OPTIONS_MAX; n++)
		if (!read_option(skb))
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
static bool is_excepted(const struct rates_key *flow, const u64 *address)
{
	struct rates_prefix key = {
		.head = rates_prefix_head(flow->rest, 128),
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

/* Note the SYN of a peer that opens a connection. */
static __always_inline void note_peer(struct __sk_buff *skb,
				      struct scratch *scratch)
{
	read_options(skb);
	scratch->start = (struct window_start){};
	window_syn(&scratch->start, WINDOW_PEER, bpf_ntohl(scratch->tcp.seq),
		   scratch->options);
	bpf_map_update_elem(&starts, &scratch->key, &scratch->start, BPF_ANY);
}

/* Time by a clock that is cheap to read: see struct window_data. */
static __always_inline u64 get_ticks(void)
{
	return bpf_jiffies64() * windows_tick;
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

/* Data may be the first ones that follow SYNs. Not static: see get_scratch(). */
__noinline int windows_begin(void)
{
	struct scratch *scratch = get_scratch();
	struct window_entry *entry;
	struct window *window;
	bool known;

	if (!scratch)
		return 0;
	entry = bpf_map_lookup_elem(&windows, &scratch->place);
	if (!entry || !connections_same(&entry->key, &scratch->packet.key) ||
	    !window_follows(&entry->start, bpf_ntohl(scratch->tcp.seq)))
		return 0;
	window = &entry->window;
	*window = (struct window){};
	known = window_begin(window, &entry->start, get_ticks());
	entry->start.seen = 0;
	if (known && !is_excepted(&entry->key, entry->key.source) &&
	    !is_excepted(&entry->key, entry->key.destination))
		return 0;
	window->known = 0;
	/* Without a session it is forgotten, until windows_miss() counts it. */
	if (scratch->slot == NO_FLOW)
		entry->key.rest = 0;
	else
		__sync_fetch_and_add(&windows_unknown, 1);
	return 0;
}

/*
 * Data of a session whose SYNs were not seen, or whose connection is left alone, and had no
 * session before: nothing is kept of others.
 */
__noinline int windows_miss(void)
{
	struct scratch *scratch = get_scratch();
	struct window_entry *entry;

	if (!scratch || scratch->slot == NO_FLOW)
		return 0;
	entry = bpf_map_lookup_elem(&windows, &scratch->place);
	if (!entry)
		return 0;
	take_entry(entry, &scratch->packet.key);
	__sync_fetch_and_add(&windows_unknown, 1);
	return 0;
}

/* Windows do not apply to the packet that is kept. */
static __always_inline void escape(const struct scratch *scratch,
				   struct window_sharing *sharing, bool is_ack)
{
	/* Without a branch: see count(). */
	u32 acks = is_ack ? scratch->length : 0;

	sharing->acks += acks;
	sharing->escaped += scratch->length - acks;
}

/* Note what window_sent() needs of the data that are kept. */
static __always_inline void note_data(struct scratch *scratch)
{
	struct window_data *data = &scratch->data;
	const struct rates_limit *limit;

	data->now = scratch->arrival.now;
	data->ticks = get_ticks();
	data->departure =
		fp_max64(scratch->arrival.departure, scratch->arrival.now);
	data->missed = scratch->arrival.missed;
	data->rate = scratch->arrival.assigned;
	data->sequence = bpf_ntohl(scratch->tcp.seq);
	data->length = scratch->size + scratch->tcp.fin;
	data->octets = scratch->length;
	data->mss = fp_max(scratch->size, 1);
	data->headers = 0;
	if (scratch->length > scratch->size)
		data->headers = scratch->length - scratch->size;
	if (scratch->segments > 1) {
		data->mss = fp_max(scratch->mss, 1);
		data->headers /= scratch->segments;
	}
	window_reload();
	data->shared = scratch->slot != NO_FLOW;
	data->assigned = data->rate;
	limit = bpf_map_lookup_elem(&limits, &scratch->slot);
	if (limit)
		data->assigned = fp_min64(limit->rate, data->rate);
	window_reload();
}

/* The SYN that is kept leaves: note what the first window depends on. */
static __always_inline void note_opening(struct scratch *scratch,
					 struct window_entry *entry, bool again)
{
	const struct window_sharing *sharing;
	u64 rate, share = 0;

	note_data(scratch);
	rate = scratch->data.assigned;
	sharing = bpf_map_lookup_elem(&sharings, &scratch->slot);
	if (sharing)
		rate /= 1 + fp_max(sharing->connections[0],
				   sharing->connections[1]);
	if (marks_on && !rate)
		share = marks_share();
	window_opens_at(&entry->start, again, scratch->data.departure, rate,
			share);
}

/* Note the SYN of a host. */
static __always_inline void note_host(struct __sk_buff *skb,
				      struct scratch *scratch,
				      struct window_entry *entry)
{
	u32 sequence = bpf_ntohl(scratch->tcp.seq);
	u32 ack = bpf_ntohl(scratch->tcp.ack_seq);
	struct window_start *start;
	bool same, again;

	read_options(skb);
	same = connections_same(&entry->key, &scratch->key);
	again = same && window_repeats(&entry->start, sequence);
	if (!scratch->tcp.ack) {
		if (!same)
			take_entry(entry, &scratch->key);
		window_syn(&entry->start, WINDOW_HOST, sequence,
			   scratch->options);
		note_opening(scratch, entry, again);
		return;
	}
	start = bpf_map_lookup_elem(&starts, &scratch->key);
	if (start && window_syn_ack(start, WINDOW_HOST, sequence, ack,
				    scratch->options)) {
		if (!same)
			take_entry(entry, &scratch->key);
		entry->start = *start;
		bpf_map_delete_elem(&starts, &scratch->key);
	} else if (!again) {
		/* Its data find no entry: see windows_miss(). */
		return;
	}
	note_opening(scratch, entry, again);
}

/* Data of a connection leave. Returns whether windows apply to them. */
static __always_inline bool leave(struct scratch *scratch,
				  struct window_sharing *sharing)
{
	struct window_entry *entry;

	entry = bpf_map_lookup_elem(&windows, &scratch->place);
	if (!entry)
		return false;
	if (entry->start.seen) {
		windows_begin();
		entry = bpf_map_lookup_elem(&windows, &scratch->place);
		if (!entry)
			return false;
	}
	if (!connections_same(&entry->key, &scratch->packet.key)) {
		windows_miss();
		return false;
	}
	if (!entry->window.known)
		return false;
	if (window_sent(&entry->window, sharing, &scratch->data))
		__sync_fetch_and_add(&windows_silent, 1);
	return true;
}

/*
 * The packet that is kept leaves a local host; its octets are counted in what the connections
 * of its session share. Not static: see get_scratch().
 */
__noinline int windows_leave(void)
{
	struct scratch *scratch = get_scratch();
	struct window_sharing *sharing;
	const struct tcphdr *tcp;

	if (!scratch)
		return 0;
	tcp = &scratch->tcp;
	if (scratch->tcp_valid)
		note_data(scratch);
	sharing = bpf_map_lookup_elem(&sharings, &scratch->slot);
	if (!sharing)
		sharing = &scratch->unread;
	if (scratch->tcp_valid && (scratch->size || tcp->fin) && !tcp->syn &&
	    leave(scratch, sharing))
		return 0;
	window_reload();
	escape(scratch, sharing,
	       scratch->tcp_valid && !scratch->size && !tcp->fin && !tcp->syn &&
		       !tcp->rst && tcp->ack);
	return 0;
}

/* The SYN that is kept leaves a local host. */
static __noinline int windows_open(struct __sk_buff *skb)
{
	struct scratch *scratch = get_scratch();
	struct window_entry *entry;

	if (!scratch)
		return 0;
	entry = bpf_map_lookup_elem(&windows, &scratch->place);
	if (!entry)
		return 0;
	scratch->key = scratch->packet.key;
	note_host(skb, scratch, entry);
	return 0;
}

/* The pacer drops or marks a packet of the session @slot. Not static: see get_scratch(). */
__noinline int windows_drop(u32 slot)
{
	struct window_sharing *sharing = bpf_map_lookup_elem(&sharings, &slot);

	if (sharing)
		__sync_fetch_and_add(&sharing->dropped, 1);
	return 0;
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
	scratch->segments = count_segments(skb);
	scratch->mss = skb->gso_size;
	keep_tcp(skb, scratch);
	if (scratch->tcp_valid && scratch->tcp.syn)
		windows_open(skb);
	windows_leave();
	return TC_ACT_UNSPEC;
}

/* --- acknowledgements ----------------------------------------------------- */

/* The entry of the connection that is kept; NULL: it has none. */
static __always_inline struct window_entry *find_entry(struct scratch *scratch)
{
	struct window_entry *entry;

	scratch->place = first_place(&scratch->key);
	search_place(&scratch->key, &scratch->place);
	entry = bpf_map_lookup_elem(&windows, &scratch->place);
	if (!entry || !connections_same(&entry->key, &scratch->key))
		return NULL;
	return entry;
}

/* The same for one before the first data. Not static: see get_scratch(). */
__noinline int windows_bound_field(struct window_start *start, u32 scale)
{
	struct scratch *scratch = get_scratch();
	const struct rates_key *key;

	if (!scratch || !start)
		return 0;
	key = &scratch->key;
	if (is_excepted(key, key->source) || is_excepted(key, key->destination))
		return scratch->ack.field;
	return window_bound_field(start, scratch->ack.ack, scratch->ack.field,
				  scale, bpf_ktime_get_ns());
}

/* The data that are timed have been acknowledged. Not static: see get_scratch(). */
__noinline int windows_sample(struct window *window)
{
	if (window)
		window_sample(window, bpf_ktime_get_ns());
	return 0;
}

/*
 * The acknowledgment that is kept arrives. Returns its new window field; if it is the same,
 * leave it alone. Not static: see get_scratch().
 */
__noinline int windows_acknowledge(void)
{
	struct scratch *scratch = get_scratch();
	struct window_entry *entry;
	struct window_ack *ack;
	struct window *window;

	if (!scratch)
		return 0;
	ack = &scratch->ack;
	entry = find_entry(scratch);
	if (!entry)
		return ack->field;
	window = &entry->window;
	/* The window may be that of an earlier connection with the same ports. */
	if (window_follows(&entry->start, ack->ack))
		return windows_bound_field(&entry->start,
					   window_scale(&entry->start));
	if (!window->known)
		return ack->field;
	ack->share = 0;
	if (marks_on && !window->rate)
		ack->share = marks_share();
	ack->ticks = get_ticks();
	/* Reading the clock takes long. */
	if (window_times(window, ack->ack))
		windows_sample(window);
	return window_ack(window, ack);
}

/* --- usual acknowledgments ------------------------------------------------- */

/*
 * Read a TCP header, and keep what windows_acknowledge() needs of it; @length: of the segment.
 * Returns false if it is not a usual one.
 */
static __always_inline bool read_ack(struct scratch *scratch,
				     const struct tcphdr *tcp, u32 length)
{
	struct window_ack *ack = &scratch->ack;
	u32 octets = tcp->doff * 4;

	if (!tcp->ack || tcp->syn || tcp->rst || octets < sizeof(*tcp) ||
	    octets > length)
		return false;
	ack->octets = length - octets;
	ack->ack = bpf_ntohl(tcp->ack_seq);
	ack->sacked = ack->ack;
	ack->field = bpf_ntohs(tcp->window);
	scratch->check = tcp->check;
	scratch->end = octets - sizeof(*tcp);
	return true;
}

/*
 * Read an acknowledgment as most are: behind an Ethernet header, without options of IP, in the
 * first part of the packet. Direct access takes much less time than the helpers; without
 * CAP_PERFMON, the verifier requires constant offsets. Returns false if it is not one.
 *
 * On a device without link-layer headers, this may misread addresses that a
 * sender chose for that purpose. Then the packet is treated as an
 * acknowledgment that any sender could forge, and only that packet is changed.
 */
static __always_inline bool read_usual_v4(struct __sk_buff *skb,
					  struct scratch *scratch)
{
	void *start = (void *)(long)skb->data,
	     *end = (void *)(long)skb->data_end;
	const struct ethhdr *ethernet = start;
	const struct iphdr *ip = start + ETH_HLEN;
	const struct tcphdr *tcp = start + USUAL_V4;
	struct rates_key *key = &scratch->key;
	u32 length;

	if ((void *)(tcp + 1) > end || *(u8 *)ip != 0x45 ||
	    ethernet->h_proto != bpf_htons(ETH_P_IP) ||
	    ip->protocol != IPPROTO_TCP || ip->frag_off & bpf_htons(0x3fff))
		return false;
	length = bpf_ntohs(ip->tot_len) - sizeof(*ip);
	if (!read_ack(scratch, tcp, length))
		return false;
	scratch->header = USUAL_V4;
	key->source[0] = rates_v4(ip->daddr);
	key->source[1] = 0;
	key->destination[0] = rates_v4(ip->saddr);
	key->destination[1] = 0;
	key->rest = rates_rest(4, IPPROTO_TCP, tcp->dest, tcp->source);
	scratch->sum = (u64)ip->saddr + ip->daddr + bpf_htons(length);
	return true;
}

/* The sum of an address's 32-bit words. */
static __always_inline u64 add_words(const __be32 *words)
{
	return (u64)words[0] + words[1] + words[2] + words[3];
}

static __always_inline bool read_usual_v6(struct __sk_buff *skb,
					  struct scratch *scratch)
{
	void *start = (void *)(long)skb->data,
	     *end = (void *)(long)skb->data_end;
	const struct ethhdr *ethernet = start;
	const struct ipv6hdr *ip = start + ETH_HLEN;
	const struct tcphdr *tcp = start + USUAL_V6;
	struct rates_key *key = &scratch->key;
	u32 length;

	if ((void *)(tcp + 1) > end || ip->version != 6 ||
	    ethernet->h_proto != bpf_htons(ETH_P_IPV6) ||
	    ip->nexthdr != IPPROTO_TCP)
		return false;
	length = bpf_ntohs(ip->payload_len);
	if (!read_ack(scratch, tcp, length))
		return false;
	scratch->header = USUAL_V6;
	__builtin_memcpy(key->source, &ip->daddr, sizeof(ip->daddr));
	__builtin_memcpy(key->destination, &ip->saddr, sizeof(ip->saddr));
	key->rest = rates_rest(6, IPPROTO_TCP, tcp->dest, tcp->source);
	scratch->sum = add_words(ip->saddr.in6_u.u6_addr32) +
		       add_words(ip->daddr.in6_u.u6_addr32) + bpf_htons(length);
	return true;
}

static __always_inline void read_edge(struct window_ack *ack, __be32 edge)
{
	u32 sacked = ack->sacked;

	if (window_before(sacked, bpf_ntohl(edge)))
		ack->sacked = bpf_ntohl(edge);
}

/*
 * Read the options of an acknowledgment behind @offset. Returns false if they are not the usual
 * ones.
 */
static __always_inline bool read_stamps(struct __sk_buff *skb,
					struct scratch *scratch, u32 offset)
{
	void *start = (void *)(long)skb->data,
	     *end = (void *)(long)skb->data_end;
	const __be32 *words = start + offset + sizeof(struct tcphdr);
	u32 octets;

	window_reload();
	octets = scratch->end;
	if ((void *)(words + 3) > end || words[0] != bpf_htonl(STAMPS))
		return false;
	if (octets == 12)
		return true;
	/* With one to three blocks: their right edges. */
	if ((void *)(words + 6) > end || octets < 24 || octets & 7 ||
	    words[3] != bpf_htonl(BLOCKS + octets - 14))
		return false;
	read_edge(&scratch->ack, words[5]);
	if (octets == 24)
		return true;
	if ((void *)(words + 8) > end)
		return false;
	read_edge(&scratch->ack, words[7]);
	if (octets == 32)
		return true;
	if ((void *)(words + 10) > end)
		return false;
	read_edge(&scratch->ack, words[9]);
	return true;
}

static __always_inline bool read_usual(struct __sk_buff *skb,
				       struct scratch *scratch)
{
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!read_usual_v4(skb, scratch))
			return false;
		return !scratch->end || read_stamps(skb, scratch, USUAL_V4);
	}
	if (skb->protocol != bpf_htons(ETH_P_IPV6) ||
	    !read_usual_v6(skb, scratch))
		return false;
	return !scratch->end || read_stamps(skb, scratch, USUAL_V6);
}

/* The window could not be written: leave the connection alone. Not static, as others. */
__noinline int give_up(void)
{
	struct scratch *scratch = get_scratch();
	struct window_entry *entry = scratch ? find_entry(scratch) : NULL;

	if (entry)
		entry->window.known = 0;
	return 0;
}

/* Write a window field, with helpers that change any checksum as it must be. */
static __always_inline void set_window(struct __sk_buff *skb,
				       struct scratch *scratch, u16 value)
{
	__be16 before = bpf_htons(scratch->ack.field);
	u32 at = scratch->header + offsetof(struct tcphdr, window);

	scratch->window = bpf_htons(value);
	/* The first helper makes the header writable, so the second one succeeds. */
	if (bpf_l4_csum_replace(skb, at + 2, before, scratch->window, 2) ||
	    bpf_skb_store_bytes(skb, at, &scratch->window, 2, 0))
		give_up();
	else
		scratch->lowered++;
}

/* The same for an acknowledgment that write_window() could not change. */
static __noinline int windows_set(struct __sk_buff *skb, u32 value)
{
	struct scratch *scratch = get_scratch();

	if (scratch)
		set_window(skb, scratch, value);
	return 0;
}

/*
 * Write the window field of the TCP header at @offset by direct access, for which the kernel
 * copies headers that are shared, as it does to forward a packet. Returns false if it
 * cannot.
 */
static __always_inline bool write_window(struct __sk_buff *skb,
					 struct scratch *scratch, u16 value,
					 u32 offset)
{
	void *start = (void *)(long)skb->data,
	     *end = (void *)(long)skb->data_end;
	struct tcphdr *tcp = start + offset;

	if ((void *)(tcp + 1) > end || skb->gso_size ||
	    !window_completed(scratch->check,
			      scratch->sum + bpf_htons(IPPROTO_TCP)))
		return false;
	tcp->check =
		window_checksum(scratch->check, bpf_htons(scratch->ack.field),
				bpf_htons(value));
	tcp->window = bpf_htons(value);
	scratch->lowered++;
	return true;
}

/* The same for any packet that is kept: returns its new window field. */
static __always_inline u32 answer(struct __sk_buff *skb,
				  struct scratch *scratch)
{
	const struct tcphdr *tcp = &scratch->tcp;
	struct window_ack *ack = &scratch->ack;
	struct window_entry *entry;

	ack->field = bpf_ntohs(tcp->window);
	ack->ack = bpf_ntohl(tcp->ack_seq);
	set_back(&scratch->key, &scratch->packet.key);
	if (tcp->syn && !tcp->ack) {
		if (is_for_hosts(&scratch->packet))
			note_peer(skb, scratch);
		return ack->field;
	}
	if (!tcp->ack || tcp->rst)
		return ack->field;
	read_options(skb);
	if (tcp->syn) {
		entry = find_entry(scratch);
		if (!entry || (!window_syn_ack(&entry->start, WINDOW_PEER,
					       bpf_ntohl(tcp->seq), ack->ack,
					       scratch->options) &&
			       !window_answers(&entry->start,
					       bpf_ntohl(tcp->seq), ack->ack)))
			return ack->field;
		return windows_bound_field(&entry->start, 0);
	}
	/* Short frames are padded. */
	ack->octets = scratch->size <= 6 ? 0 : scratch->size;
	ack->sacked = scratch->sacked;
	return windows_acknowledge();
}

/* Any packet arrives. */
static __noinline int windows_arrive(struct __sk_buff *skb)
{
	struct scratch *scratch = get_scratch();
	const struct packet *packet;
	u32 field;

	if (!scratch)
		return 0;
	packet = &scratch->packet;
	read_packet(skb, scratch);
	if (marks_on && packet->key.rest) {
		marks_arrive();
		if (restore_on && dscp_is_local(packet->dscp))
			marks_restore(skb);
	}
	if (!windows_on || !packet->key.rest || packet->protocol != IPPROTO_TCP)
		return 0;
	keep_tcp(skb, scratch);
	if (!scratch->tcp_valid)
		return 0;
	field = answer(skb, scratch);
	if (field != scratch->ack.field)
		set_window(skb, scratch, field);
	return 0;
}

SEC("tc")
int slbnd_windows(struct __sk_buff *skb)
{
	struct scratch *scratch = get_scratch();
	u32 field;

	if (!(windows_on | marks_on) || !scratch)
		return TC_ACT_UNSPEC;
	if (marks_on || !read_usual(skb, scratch)) {
		windows_arrive(skb);
		return TC_ACT_UNSPEC;
	}
	field = windows_acknowledge();
	if (field == scratch->ack.field ||
	    (scratch->header == USUAL_V4 &&
	     write_window(skb, scratch, field, USUAL_V4)) ||
	    (scratch->header == USUAL_V6 &&
	     write_window(skb, scratch, field, USUAL_V6)))
		return TC_ACT_UNSPEC;
	windows_set(skb, field);
	return TC_ACT_UNSPEC;
}

#endif /* SLBND_WINDOWS_BPF_H */
