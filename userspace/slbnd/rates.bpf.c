// SPDX-License-Identifier: GPL-2.0
/*
 * Holds flows to their rates where they leave: a BPF program for tc, at the
 * egress of a device that has fq behind it.
 *
 * Each packet of a flow may leave when the one before it has been sent at the
 * flow's rate. That time is written into the packet (earliest departure time), and
 * fq keeps the packet until then; it needs no queue of its own for each flow. The
 * time that a packet takes is worked out when the next one comes, so that this one
 * already goes by a rate that is new. Whoever has paused may be ahead by BURST:
 * else a sender that is a little late each time would never come to its rate.
 *
 * What would have to wait for longer than ENFORCE_QUEUE is dropped here, and does
 * not count. fq drops too, when there are more packets in one of its own flows
 * than its flow_limit; those would have been counted, and the flow would get less
 * than its rate. So it is also dropped here if that many are waiting, by the mean
 * length of the flow's packets.
 *
 * A session may leave open most of what makes a flow. For each kind of session
 * that there is (rates.h), the packet's key is reduced to what that kind says and
 * looked up: at most RATES_KINDS times, mostly once or twice.
 *
 * Lengths are those on the wire with link-layer headers, of each segment if the
 * device will cut the packet. Later fragments do not tell their ports and belong
 * to sessions that do not ask for them. SLBN's own packets always pass.
 *
 * Loops are unrolled: without CAP_PERFMON, Linux 6.1 follows where a processor that
 * guesses wrong might go, and never comes to the end of one.
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

/* How much a flow may be ahead of its rate, ns. */
#define BURST 2000000ULL

/* Tags, and headers of IPv6, before what is looked for. */
#define TAGS_MAX 2
#define EXTENSIONS_MAX 6

/* Headers lie within so many octets, if they have to be collected first. */
#define HEADERS 256

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENFORCE_FLOWS);
	__type(key, struct rates_key);
	__type(value, struct rates_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENFORCE_FLOWS);
	__type(key, u32);
	__type(value, struct rates_state);
} states SEC(".maps");

/* Which kinds of sessions there are: 1 << kind. */
u32 kinds;

/* How many packets of a flow fq takes. */
u32 room;

/**
 * struct packet - what is read of a packet
 * @from: what @offset counts from: the start of a header
 * @offset: octets: where to read
 * @source: as in struct rates_key
 * @destination: the same
 * @version: of IP
 * @protocol: behind it
 * @fragment: not the first of several
 * @ports: source and destination, or zeros
 */
struct packet {
	u32 from;
	u32 offset;
	u64 source[2];
	u64 destination[2];
	u8 version;
	u8 protocol;
	bool fragment;
	__be16 ports[2];
};

/* Read what stands at @packet->offset. */
static bool load(struct __sk_buff *skb, const struct packet *packet, void *to,
		 u32 length)
{
	u32 headers = skb->len < HEADERS ? skb->len : HEADERS;

	if (!bpf_skb_load_bytes_relative(skb, packet->offset, to, length,
					 packet->from))
		return true;
	/* The packet may be too short, or in pieces. */
	return !bpf_skb_pull_data(skb, headers) &&
	       !bpf_skb_load_bytes_relative(skb, packet->offset, to, length,
					    packet->from);
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

/* Find the IP header, behind tags. Returns the protocol. */
static __be16 find_ip(struct __sk_buff *skb, struct packet *packet)
{
	__be16 protocol = skb->protocol;
	__be16 tag[2];
	int tags;

	packet->from = BPF_HDR_START_NET;
	packet->offset = 0;
	/* With tags, the network header may be at the first or behind the last. */
	if (protocol == bpf_htons(ETH_P_8021Q) ||
	    protocol == bpf_htons(ETH_P_8021AD)) {
		packet->from = BPF_HDR_START_MAC;
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

/* Returns whether it is IPv4; @packet->offset is moved to what is behind. */
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

/* The same for IPv6. */
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
	/* Behind the header of a later fragment is the middle of something. */
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

/* Read what tells the flow of a packet. Returns whether that can be told. */
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

/* Find the flow of a packet: that which says the most of it. */
static struct rates_flow *find_flow(const struct packet *packet)
{
	u64 rest = rates_rest(packet->version, packet->protocol,
			      packet->ports[0], packet->ports[1]);
	u32 some = kinds;
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
			.rest = rest & rates_said(kind),
		};
		struct rates_flow *flow;

		if (!(some & (1 << kind)))
			continue;
		flow = bpf_map_lookup_elem(&flows, &key);
		if (flow)
			return flow;
	}
	return NULL;
}

/*
 * How long a packet may wait if no more than @room are to, ns. Numbers stay below
 * 2^54: packets are shorter than 2^20 octets.
 */
static u64 longest_wait(u64 rate, u32 mean)
{
	u64 each = room ? rate / room : 0;

	if (!each)
		return ENFORCE_QUEUE;
	return fp_min64(mean * (1000000000ULL * 8 / 16) / each, ENFORCE_QUEUE);
}

/* Write into a packet when it may leave. */
static void depart(struct __sk_buff *skb, u64 departure)
{
	/* Its sender may pace it, too. */
	if (skb->tstamp_type == BPF_SKB_TSTAMP_DELIVERY_MONO &&
	    skb->tstamp >= departure)
		return;
	/* That refuses packets with tags. */
	if (bpf_skb_set_tstamp(skb, departure, BPF_SKB_TSTAMP_DELIVERY_MONO))
		skb->tstamp = departure;
}

SEC("tc")
int slbnd_rates(struct __sk_buff *skb)
{
	const __be16 own = bpf_htons(SLBN_PORT);
	struct packet packet = {};
	struct rates_state *state;
	struct rates_flow *flow;
	u64 now, rate, bits, took = 0, rest = 0, departure, wait = 0;
	u32 length, segments, place;
	bool drop = false;

	if (!kinds || !read_packet(skb, &packet))
		return TC_ACT_UNSPEC;
	if (packet.protocol == IPPROTO_UDP && packet.ports[0] == own &&
	    packet.ports[1] == own)
		return TC_ACT_UNSPEC;
	flow = find_flow(&packet);
	if (!flow)
		return TC_ACT_UNSPEC;
	rate = flow->rate;
	place = flow->place;
	state = bpf_map_lookup_elem(&states, &place);
	if (!state)
		return TC_ACT_UNSPEC;

	length = skb->wire_len;
	segments = skb->gso_segs;
	now = bpf_ktime_get_ns();

	bpf_spin_lock(&state->lock);
	if (rate) {
		/* What is left over from a higher rate is none of this one. */
		bits = state->length * 8000000000ULL +
		       (state->rest < rate ? state->rest : 0);
		took = bits / rate;
		rest = bits % rate;
	}
	departure = state->departure + took;
	if (departure + BURST < now) {
		departure = now - BURST;
		rest = 0;
	}
	if (departure > now) {
		wait = departure - now;
		drop = rate && wait > longest_wait(rate, state->mean);
	}
	if (state->mean)
		state->mean += length - (state->mean >> 4);
	else
		state->mean = length << 4;
	state->last = now;
	if (drop) {
		state->drops++;
	} else {
		state->departure = departure;
		state->length = length;
		state->rest = rest;
		state->bytes += length;
		state->packets += segments ? segments : 1;
	}
	bpf_spin_unlock(&state->lock);

	if (drop)
		return TC_ACT_SHOT;
	if (wait)
		depart(skb, departure);
	return TC_ACT_UNSPEC;
}
