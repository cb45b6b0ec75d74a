// SPDX-License-Identifier: GPL-2.0
/*
 * Paces flows at the egress of a device with fq: a BPF program for tc.
 *
 * The program writes each packet's earliest departure time (EDT) into the packet,
 * and fq keeps the packet until then, without a queue for each flow. A packet
 * departs when the one before it has been sent at the flow's rate. That time is
 * computed when the next packet arrives, so that a new rate applies to it
 * already. A flow that paused may send a burst of BURST: otherwise a sender that
 * is often a little late would never reach its rate.
 *
 * Packets that would wait for longer than ENFORCE_QUEUE are dropped here, and do
 * not delay later ones. Packets dropped by fq, above its flow_limit, would do so,
 * and the flow would get less than its rate: so packets are also dropped here
 * when that many wait, as estimated by the mean length of the flow's packets.
 *
 * A flow's rate ends with its lease, unless slbnd extends it. Flows without an
 * assigned rate share the default class, whose rate is bounded: its packets are
 * paced one after another. A dead slbnd thus leaves no rate in use.
 *
 * A session may leave fields of its flow open. For each kind of session that
 * exists (rates.h), a packet's key is masked and looked up, at most RATES_KINDS
 * times, usually once or twice.
 *
 * Lengths are those on the wire, with link-layer headers, of each segment if the
 * device segments the packet. Later fragments have no ports, and match sessions
 * without ports only. SLBN's control packets are never paced.
 *
 * Loops are unrolled: without CAP_PERFMON, the verifier of Linux 6.1 also follows
 * speculative paths, and does not find the end of a loop.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <fairpath/slbn.h>

#include "enforce.h"
#include "rates.h"

char copying[] SEC("license") = "GPL";

/* Burst of a flow that paused, ns at its rate. */
#define BURST 2000000ULL

/* Parsed VLAN tags, and IPv6 extension headers. */
#define TAGS_MAX 2
#define EXTENSIONS_MAX 6

/* Octets to linearize if the headers are in fragments of the skb. */
#define HEADERS 256

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENFORCE_FLOWS);
	__type(key, struct rates_key);
	__type(value, u32);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ENFORCE_FLOWS);
	__type(key, u32);
	__type(value, struct rates_limit);
} limits SEC(".maps");

/* The last one is that of the default class. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENFORCE_FLOWS + 1);
	__type(key, u32);
	__type(value, struct rates_state);
} states SEC(".maps");

/* Existing kinds of sessions: bit 1 << kind. */
u32 kinds;

/* Packets that fq queues for one flow, with a margin. */
u32 fq_limit;

/* Rate of the default class, bit/s, at least 1. */
u64 unassigned;

/**
 * struct packet - a parsed packet
 * @base: BPF_HDR_START_MAC or BPF_HDR_START_NET
 * @offset: octets from @base to the next header
 * @source: as in struct rates_key
 * @destination: the same
 * @version: of IP
 * @protocol: transport protocol
 * @fragment: not the first fragment
 * @ports: source and destination, or 0
 */
struct packet {
	u32 base;
	u32 offset;
	u64 source[2];
	u64 destination[2];
	u8 version;
	u8 protocol;
	bool fragment;
	__be16 ports[2];
};

/* Read @length octets at @packet->offset. */
static bool load(struct __sk_buff *skb, const struct packet *packet, void *to,
		 u32 length)
{
	u32 headers = skb->len < HEADERS ? skb->len : HEADERS;

	if (!bpf_skb_load_bytes_relative(skb, packet->offset, to, length,
					 packet->base))
		return true;
	/* The packet is too short, or not linear. */
	return !bpf_skb_pull_data(skb, headers) &&
	       !bpf_skb_load_bytes_relative(skb, packet->offset, to, length,
					    packet->base);
}

static bool has_ports(u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
		return true;
	default:
		return false;
	}
}

/* Find the IP header behind VLAN tags. Returns the Ethernet type. */
static __be16 find_ip(struct __sk_buff *skb, struct packet *packet)
{
	__be16 protocol = skb->protocol;
	__be16 tag[2];
	int tags;

	packet->base = BPF_HDR_START_NET;
	packet->offset = 0;
	/* The network header may be at the first tag or behind the last one. */
	if (protocol == bpf_htons(ETH_P_8021Q) ||
	    protocol == bpf_htons(ETH_P_8021AD)) {
		packet->base = BPF_HDR_START_MAC;
		packet->offset = ETH_HLEN;
	}
#pragma unroll
	for (tags = 0; tags < TAGS_MAX; tags++) {
		if (protocol != bpf_htons(ETH_P_8021Q) &&
		    protocol != bpf_htons(ETH_P_8021AD))
			break;
		if (!load(skb, packet, tag, sizeof(tag)))
			return 0;
		protocol = tag[1];
		packet->offset += sizeof(tag);
	}
	return protocol;
}

/* Parse an IPv4 header, and skip it. Returns whether it is valid. */
static bool read_v4(struct __sk_buff *skb, struct packet *packet)
{
	struct iphdr ip;

	if (!load(skb, packet, &ip, sizeof(ip)) || ip.version != 4 ||
	    ip.ihl < 5)
		return false;
	packet->source[0] = ip.saddr;
	packet->destination[0] = ip.daddr;
	packet->version = 4;
	packet->protocol = ip.protocol;
	packet->fragment = ip.frag_off & bpf_htons(0x1fff);
	packet->offset += ip.ihl * 4;
	return true;
}

/* The same for IPv6, with extension headers. */
static bool read_v6(struct __sk_buff *skb, struct packet *packet)
{
	struct {
		u8 next;
		u8 length;
		__be16 fragment;
	} extension;
	struct ipv6hdr ip;
	int n;

	if (!load(skb, packet, &ip, sizeof(ip)) || ip.version != 6)
		return false;
	__builtin_memcpy(packet->source, &ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(packet->destination, &ip.daddr, sizeof(ip.daddr));
	packet->version = 6;
	packet->protocol = ip.nexthdr;
	packet->offset += sizeof(ip);
	/* A later fragment has no headers behind the fragment header. */
#pragma unroll
	for (n = 0; n < EXTENSIONS_MAX; n++) {
		u32 octets = 8;

		if (packet->fragment)
			break;
		if (packet->protocol != IPPROTO_HOPOPTS &&
		    packet->protocol != IPPROTO_ROUTING &&
		    packet->protocol != IPPROTO_DSTOPTS &&
		    packet->protocol != IPPROTO_FRAGMENT &&
		    packet->protocol != IPPROTO_AH)
			break;
		if (!load(skb, packet, &extension, sizeof(extension)))
			return false;
		if (packet->protocol == IPPROTO_AH)
			octets = (extension.length + 2) * 4;
		else if (packet->protocol != IPPROTO_FRAGMENT)
			octets = (extension.length + 1) * 8;
		else
			packet->fragment =
				extension.fragment & bpf_htons(0xfff8);
		packet->protocol = extension.next;
		packet->offset += octets;
	}
	return true;
}

/* Parse a packet. Returns whether it is IP and valid. */
static bool read_packet(struct __sk_buff *skb, struct packet *packet)
{
	__be16 ports[2];

	switch (find_ip(skb, packet)) {
	case bpf_htons(ETH_P_IP):
		if (!read_v4(skb, packet))
			return false;
		break;
	case bpf_htons(ETH_P_IPV6):
		if (!read_v6(skb, packet))
			return false;
		break;
	default:
		return false;
	}
	if (!packet->fragment && has_ports(packet->protocol) &&
	    load(skb, packet, ports, sizeof(ports))) {
		packet->ports[0] = ports[0];
		packet->ports[1] = ports[1];
	}
	return true;
}

/* Find the slot of the most specific flow that matches a packet. */
static const u32 *find_flow(const struct packet *packet)
{
	u64 rest = rates_rest(packet->version, packet->protocol,
			      packet->ports[0], packet->ports[1]);
	u32 existing = kinds;
	int n;

#pragma unroll
	for (n = 0; n < RATES_KINDS; n++) {
		int kind = rates_kind(n);
		bool source = kind & RATES_SOURCE;
		struct rates_key key = {
			.source[0] = source ? packet->source[0] : 0,
			.source[1] = source ? packet->source[1] : 0,
			.destination[0] = packet->destination[0],
			.destination[1] = packet->destination[1],
			.rest = rest & rates_mask(kind),
		};
		const u32 *slot;

		if (!(existing & (1 << kind)))
			continue;
		slot = bpf_map_lookup_elem(&flows, &key);
		if (slot)
			return slot;
	}
	return NULL;
}

/*
 * The longest time that a packet may wait so that at most fq_limit packets do, ns.
 * Products stay below 2^54: packets are shorter than 2^20 octets.
 */
static u64 max_wait(u64 rate, u32 mean)
{
	u64 share = fq_limit ? rate / fq_limit : 0;

	if (!share)
		return ENFORCE_QUEUE;
	return fp_min64(mean * (1000000000ULL * 8 / 16) / share, ENFORCE_QUEUE);
}

/* Write the departure time into a packet. */
static void set_departure(struct __sk_buff *skb, u64 departure)
{
	/* The sender may have paced it to a later time. */
	if (skb->tstamp_type == BPF_SKB_TSTAMP_DELIVERY_MONO &&
	    skb->tstamp >= departure)
		return;
	/* The helper rejects packets with VLAN tags. */
	if (bpf_skb_set_tstamp(skb, departure, BPF_SKB_TSTAMP_DELIVERY_MONO))
		skb->tstamp = departure;
}

/* The rate that a flow may use now; 0: none. */
static u64 valid_rate(u32 slot, u64 now)
{
	const struct rates_limit *limit = bpf_map_lookup_elem(&limits, &slot);

	if (!limit || now >= limit->lease)
		return 0;
	barrier();
	return limit->rate;
}

/**
 * struct arrival - a packet to be paced
 * @now: ns
 * @length: on the wire, with all segments, octets
 * @packets: segments
 * @departure: set to its departure time, ns
 * @drop: set to 1 if it would wait for too long
 *
 * All fields are 64 bits: see struct rates_key.
 */
struct arrival {
	u64 now;
	u64 length;
	u64 packets;
	u64 departure;
	u64 drop;
};

/*
 * Update the counters; the caller holds the lock. Without branches, which the
 * compiler merges to pointer arithmetic that the verifier rejects without
 * CAP_PERFMON.
 */
static __always_inline void count(struct rates_state *state,
				  const struct arrival *arrival)
{
	u64 sent = arrival->drop - 1;

	if (state->mean)
		state->mean += arrival->length - (state->mean >> 4);
	else
		state->mean = arrival->length << 4;
	state->last = arrival->now;
	state->drops += arrival->drop;
	state->packets += arrival->packets & sent;
	state->bytes += arrival->length & sent;
	if (!arrival->drop) {
		state->departure = arrival->departure;
		state->length = arrival->length;
	}
}

/* Set the departure time of a packet by the packets before it. */
static __always_inline void pace(struct rates_state *state, u64 rate,
				 struct arrival *arrival)
{
	u64 now = arrival->now, bits, departure, remainder;

	bpf_spin_lock(&state->lock);
	/* A remainder of a higher rate is not valid for this one. */
	bits = state->length * 8000000000ULL +
	       (state->remainder < rate ? state->remainder : 0);
	departure = state->departure + bits / rate;
	remainder = bits % rate;
	if (departure + BURST < now) {
		departure = now - BURST;
		remainder = 0;
	}
	arrival->departure = departure;
	arrival->drop = departure > now &&
			departure - now > max_wait(rate, state->mean);
	if (!arrival->drop)
		state->remainder = remainder;
	count(state, arrival);
	bpf_spin_unlock(&state->lock);
}

/*
 * Count a packet of a flow that the default class has paced. It departs after
 * the flow's packets before it, which may have had an assigned rate.
 */
static __always_inline void follow(struct rates_state *state,
				   struct arrival *arrival)
{
	bpf_spin_lock(&state->lock);
	arrival->departure = fp_max64(arrival->departure, state->departure);
	count(state, arrival);
	bpf_spin_unlock(&state->lock);
}

SEC("tc")
int slbnd_rates(struct __sk_buff *skb)
{
	const __be16 slbn = bpf_htons(SLBN_PORT);
	static const u32 shared = RATES_DEFAULT;
	struct rates_state *state, *class;
	struct packet packet = {};
	struct arrival arrival;
	const u32 *flow;
	u32 slot;
	u64 rate;

	if (!kinds || !read_packet(skb, &packet))
		return TC_ACT_UNSPEC;
	if (packet.protocol == IPPROTO_UDP && packet.ports[0] == slbn &&
	    packet.ports[1] == slbn)
		return TC_ACT_UNSPEC;
	flow = find_flow(&packet);
	if (!flow)
		return TC_ACT_UNSPEC;
	slot = *flow;
	state = bpf_map_lookup_elem(&states, &slot);
	class = bpf_map_lookup_elem(&states, &shared);
	if (!state || !class)
		return TC_ACT_UNSPEC;

	arrival.now = bpf_ktime_get_ns();
	arrival.length = skb->wire_len;
	arrival.packets = skb->gso_segs ?: 1;
	rate = valid_rate(slot, arrival.now);
	if (rate) {
		pace(state, rate, &arrival);
	} else {
		pace(class, unassigned, &arrival);
		follow(state, &arrival);
	}
	if (arrival.drop)
		return TC_ACT_SHOT;
	if (arrival.departure > arrival.now)
		set_departure(skb, arrival.departure);
	return TC_ACT_UNSPEC;
}
