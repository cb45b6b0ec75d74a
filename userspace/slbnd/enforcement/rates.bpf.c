// SPDX-License-Identifier: GPL-2.0
/*
 * Paces flows at the egress of a device with fq: a BPF program for tc.
 *
 * The program writes each packet's earliest departure time (EDT) into the
 * packet, and fq keeps the packet until then, without a queue for each flow. A
 * packet departs when the one before it has been sent at the flow's rate. That
 * time is computed when the next packet arrives, so a higher rate already
 * applies to the packet before it. A lower rate does not: the packet was
 * admitted at the rate of its time, and 64 kB that were merged (GSO) may take
 * seconds at the new one. A flow that was idle may send a burst of
 * ENFORCE_BURST: otherwise a sender that is often a little late would never
 * reach its rate. After a pause the burst is ENFORCE_FIRST_BURST. slbnd allows
 * a longer one while TCP's slow start has not reached the rate (flows.h), and
 * flows of acknowledgements have a longer one (SMALL_BURST).
 *
 * CoDel (codel.h) keeps the queue of a flow short if the flow responds: it
 * marks or drops packets that wait for longer than a target. A packet's delay
 * is known when it arrives. The packets of a session have one state, whatever
 * their connections. The default class has no CoDel: its packets are mostly the
 * first ones of connections, and its limit is shared by sources.
 *
 * Packets that would wait for longer than a limit (backlog) are dropped here,
 * and do not delay later ones. Packets that fq drops above its flow_limit would
 * delay later ones, and the flow would get less than its rate. So packets are
 * also dropped here when about as many packets wait, as estimated from the mean
 * length of the flow's packets.
 *
 * A flow never sends faster than its rate (MUST 4 of docs/protocol.md), or its
 * ceiling while it has one (ceiling.h). If slbnd sets excess_on, and the flow
 * is not TCP, whose sender slows down, packets above the rate share the default
 * class like packets without a session. Packets that would wait for longer than
 * CoDel's target are sent in what the class does not use (spare.h), at the
 * departure time of the flow's last packet, so that no packet is overtaken.
 *
 * A flow's rate ends with its lease, unless slbnd extends it. All other packets
 * of local hosts share the default class of the device, whose rate is bounded:
 * flows whose session has no rate, flows without a session, later fragments,
 * packets that cannot be parsed, and all that arrive by devices that lead to
 * local hosts (ingress.h). So no rate remains in use after slbnd has died.
 * Packets of other hosts are paced at their own access router, and pass.
 *
 * The default class is a FIFO. Source addresses share it fairly, and the flows
 * of a source share that source's part. A source may have as much backlog in
 * the FIFO as there is free space, and a flow twice as much as its source may
 * still add (dynamic thresholds: Choudhury, Hahne, ToN 1998, with alpha 1 and
 * 2). So a flood leaves room for other sources and for other flows of its host,
 * which lose nothing while they send less than their share. A single flow fills
 * 40 % of the FIFO, many flows of one source fill half: a source that floods
 * with many flows gets 1.5 times as much as one that floods with a single flow.
 * A merged packet (GSO, GRO) waits as long as its last segment would, so that
 * 64 kB do not fill the FIFO at once. Backlogs are counted in hash tables of
 * fixed size with secret hash functions; sources with the same hash share their
 * part, and so do flows.
 *
 * A session may leave fields of its flow open. For each kind of session that
 * exists (rates.h), a packet's key is masked and looked up, at most RATES_KINDS
 * times, usually once or twice.
 *
 * Lengths are those on the wire, with link-layer headers, of each segment if the
 * device segments the packet. Later fragments and packets with more than
 * EXTENSIONS_MAX extension headers have no ports, and match sessions without ports
 * only. SLBN's control packets are not paced, unless a local host sends them. The
 * router's own packets are not, but for those that a stranger can make it send at
 * any rate (is_reflected()), which use the default class.
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
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <fairpath/slbn.h>

#define WINDOW_PART __noinline

#include "connections_core.h"
#include "enforce.h"
#include "ingress.h"
#include "marks.h"
#include "rates.h"
#include "spare.h"

char copying[] SEC("license") = "GPL";

/* How long packets wait without fq, that is, how far a flow may be ahead, ns. */
#define AHEAD 20000000ULL

/* Parsed VLAN tags, and IPv6 extension headers. */
#define TAGS_MAX 2
#define TAG 4
#define EXTENSIONS_MAX 6

/* The longest frame without segments: a usual MTU and the Ethernet header. */
#define FRAME 1514ULL

/*
 * Mean length of a flow of acknowledgements, at most, and its burst, octets. For a
 * round trip after a loss, TCP acknowledges each packet instead of each second one.
 */
#define SMALL 128
#define SMALL_BURST 16384ULL

/* TCP's flags (RFC 9293), and where they are in its header. */
#define TCP_FLAGS 13
#define TCP_FIN 1
#define TCP_PSH 8
#define TCP_SYN 2
#define TCP_RST 4

/* Types of ICMP and ICMPv6, whose headers need those of the C library. */
#define ECHO_REPLY 0
#define ECHO_REPLY_V6 129

/* Beside TCP's flags: an IPv6 packet with an authentication header (AH, RFC 4302). */
#define SEALED 0x100

/* The ECN field of IP (RFC 3168), 0: not ECN-capable. */
#define ECN_MASK 3

/* Octets to linearize if the headers are in fragments of the skb. */
#define HEADERS 256

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct rates_key);
	__type(value, u32);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct rates_limit);
} limits SEC(".maps");

/* The last ones are those of the default classes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct rates_state);
} states SEC(".maps");

/* By index of the device. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENFORCE_DEVICES);
	__type(key, u64);
	__type(value, struct rates_device);
} devices SEC(".maps");

/* RATES_DEVICE_BUCKETS for each device. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RATES_ALL_BUCKETS);
	__type(key, u32);
	__type(value, struct rates_bucket);
} buckets SEC(".maps");

/* enum rates_owner of source addresses. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RATES_PREFIXES);
	__type(key, struct rates_prefix);
	__type(value, u32);
} prefixes SEC(".maps");

/* Indices of devices that lead to local hosts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, INGRESS_DEVICES);
	__type(key, u32);
	__type(value, u32);
} ingress SEC(".maps");

/* CONNECTIONS_WAYS for each set. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct rates_connection);
} connections SEC(".maps");

/* Of the hash of connections: it must outlive the program, as they do. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rates_secret);
} secret SEC(".maps");

/* struct rates_report. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, CONNECTIONS_RING);
} reports SEC(".maps");

/*
 * The key of maps with one entry. Not on the stack: without CAP_PERFMON, the kernel stops
 * speculation (lfence) at most writes to it, which takes some ns.
 */
const u32 only;

/* Maximum number of flows, from which slbnd sets the sizes of the maps. */
u32 max_flows;

/* Existing kinds of sessions: bit 1 << kind. */
u32 kinds;

/* Packets that fq queues for one flow, with a margin. */
u32 fq_limit;

/* Number of devices without fq. */
u32 any_no_fq;

/*
 * No local hosts are configured: all forwarded packets count as packets of
 * local hosts.
 */
u32 any_host;

/* Secrets of the hash functions of sources and flows, random. */
u64 source_secret[3];
u64 flow_secret[RATES_SECRET];

/* Longest time that a packet may wait, ns. */
u64 backlog;

/* Packets above rates are sent in what default classes leave unused. */
u32 excess_on;

/* Packets are marked, and DSCPs restored (marks.bpf.h). */
u32 marks_on;
u32 restore_on;

/*
 * Packets of flows and default classes that were dropped, those of them that
 * CoDel dropped, those that were marked, and packets of flows that were sent
 * above rates.
 */
u64 dropped;
u64 signalled;
u64 marked;
u64 excess;

/* Sets of connections less one. */
u32 connection_sets;

/* What a connection must have sent to be reported; ~0: none is. */
u64 join_packets;
u64 join_bytes;

/* A connection that was silent for so long begins anew, ns. */
u64 idle_time;

/*
 * Reports before these times were those of an earlier slbnd, or do not count for
 * connections without a session, ns, CLOCK_BOOTTIME.
 */
u64 started;
u64 again;

/* Connections that found no place, and reports that found no room. */
u64 unplaced;
u64 unreported;

/**
 * struct packet - a parsed packet
 * @base: BPF_HDR_START_MAC or BPF_HDR_START_NET
 * @offset: octets from @base to the next header
 * @key: all of it; 0: not IP, or malformed
 * @protocol: transport protocol
 * @fragment: not the first fragment, or there is no transport header
 * @ecn: it may be marked: it has ECN
 * @dscp: its DSCP
 * @flags: of TCP, if read_flags() has added them, and SEALED
 */
struct packet {
	u64 base;
	u64 offset;
	struct rates_key key;
	u64 protocol;
	u64 fragment;
	u64 ecn;
	u64 dscp;
	u64 flags;
};

/**
 * struct arrival - a packet to be paced
 * @now: ns, CLOCK_MONOTONIC, the clock of departure times
 * @boot: ns, CLOCK_BOOTTIME, which does not stop while the system is suspended: links
 *	forget sessions meanwhile (MUST 7 of docs/protocol.md)
 * @length: on the wire, with all segments, octets
 * @packets: segments
 * @longest: how long it may wait, ns; 0: there is no fq to hold it
 * @rate: set to the rate that it is paced at, bit/s
 * @assigned: set to the rate of its session, or its ceiling, bit/s; 0: it has none
 * @departure: set to its departure time, ns
 * @missed: set to how long its flow was idle before it, beyond its burst, ns
 * @ecn: 1: it can be marked
 * @last: its sender may have no other one, enum codel_last; if it cannot be marked
 * @drop: set to 1 if it would wait for too long, or signals congestion
 * @mark: set to 1 if it must be marked instead
 */
struct arrival {
	u64 now;
	u64 boot;
	u64 length;
	u64 packets;
	u64 longest;
	u64 rate;
	u64 assigned;
	u64 departure;
	u64 missed;
	u64 ecn;
	u64 last;
	u64 drop;
	u64 mark;
};

/**
 * struct valid_limit - what of struct rates_limit applies to a packet
 * @rate: the assigned rate, or the ceiling if that is more, bit/s
 * @burst: as there
 * @target: the same
 * @interval: the same
 */
struct valid_limit {
	u64 rate;
	u64 burst;
	u64 target;
	u64 interval;
};

/* What is read of a packet at once. */
union header {
	struct iphdr v4;
	struct ipv6hdr v6;
	struct {
		u8 next;
		u8 length;
		__be16 fragment;
	} extension;
	__be16 words[2];
	__be32 magic;
	u8 flags;
	u8 type;
};

/**
 * struct scratch - what is kept of a packet
 * @lowered: acknowledgements whose window was lowered; slbnd reads it
 * @packet: the packet
 * @tcp: its header
 * @key: the flow of the connection's data
 * @start: of a new connection
 * @data: that leave
 * @unread: of packets without a session, which share nothing: without CAP_PERFMON, the verifier
 *	of Linux 6.1 follows the paths of a pointer that is NULL behind each comparison
 * @ack: that arrives
 * @tcp_valid: @tcp and the options are valid
 * @arrival: of the packet that leaves
 * @limit: of its session
 * @match: fields of it, to find its session
 * @prefix: of its source
 * @read: a header of it, or a part of one
 * @report: of its connection
 * @index: of its device
 * @from: of the device that it came by
 * @class_n: state of the default class
 * @source_n: bucket of its source
 * @flow_n: bucket of its flow
 * @slot: of its session, or NO_FLOW
 * @place: of its connection, or NO_PLACE
 * @size: octets of its data, with padding
 * @header: offset of its TCP header from the start of the packet's data
 * @window: new window field of an acknowledgment, as in the packet
 * @check: its checksum
 * @sum: the sum of its pseudo header, but for the protocol
 * @segments: of the packet
 * @mss: octets of data of each, if there are several
 * @length: on the wire, octets; of a packet that leaves
 * @is_new: it has no rate, but may leave as new (marks.bpf.h)
 * @exceeds: it is sent above the rate of its session
 * @opens: it is the first one of its connection
 * @at: offset of the next option
 * @end: of the options
 * @options: of a SYN, as window_option() has them
 * @sacked: right edge of the highest block of SACK
 * @kind: of an option
 * @octets: in it
 * @value: the same
 * @edge: the same
 *
 * In a map, as the stack is too small, and without CAP_PERFMON, the kernel
 * stops speculation (lfence) at most writes to it. The verifier does not follow
 * values in a map; for values on the stack it would check all later code for
 * each state that a packet may have.
 */
struct scratch {
	u64 lowered;
	struct packet packet;
	struct tcphdr tcp;
	struct rates_key key;
	struct window_start start;
	struct window_data data;
	struct window_sharing unread;
	struct window_ack ack;
	struct arrival arrival;
	struct valid_limit limit;
	struct rates_key match;
	struct rates_prefix prefix;
	union header read;
	struct rates_report report;
	u64 index;
	u32 from;
	u32 class_n;
	u32 source_n;
	u32 flow_n;
	u32 slot;
	u32 place;
	u32 size;
	u32 header;
	__be16 window;
	u16 check;
	u64 sum;
	u32 tcp_valid;
	u32 segments;
	u32 mss;
	u32 length;
	u32 is_new;
	u32 exceeds;
	u32 opens;
	u32 at;
	u32 end;
	u32 sacked;
	u64 options;
	u8 kind;
	u8 octets;
	__be16 value;
	__be32 edge;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/*
 * Functions that are not static call this again: the verifier checks each of them once, by
 * itself, and not in each state of its callers.
 */
static __always_inline struct scratch *get_scratch(void)
{
	return bpf_map_lookup_elem(&scratches, &only);
}

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

/* Is it the Ethernet type of a VLAN tag? */
static __always_inline bool is_tag(__be16 protocol)
{
	return protocol == bpf_htons(ETH_P_8021Q) ||
	       protocol == bpf_htons(ETH_P_8021AD);
}

/* Find the IP header behind VLAN tags, each read into @tag. Returns the Ethernet type. */
static __always_inline __be16 find_ip(struct __sk_buff *skb,
				      struct packet *packet, __be16 *tag)
{
	__be16 protocol = skb->protocol;
	int tags;

	packet->base = BPF_HDR_START_NET;
	packet->offset = 0;
	/* The network header may be at the first tag or behind the last one. */
	if (is_tag(protocol)) {
		packet->base = BPF_HDR_START_MAC;
		packet->offset = ETH_HLEN;
	}
#pragma unroll
	for (tags = 0; tags < TAGS_MAX; tags++) {
		if (!is_tag(protocol))
			break;
		if (!load(skb, packet, tag, TAG))
			return 0;
		protocol = tag[1];
		packet->offset += TAG;
	}
	return protocol;
}

/* Parse an IPv4 header, and skip it. Returns whether it is valid. */
static __always_inline bool read_v4(struct __sk_buff *skb,
				    struct scratch *scratch)
{
	struct packet *packet = &scratch->packet;
	const struct iphdr *ip = &scratch->read.v4;

	if (!load(skb, packet, &scratch->read, sizeof(*ip)) ||
	    ip->version != 4 || ip->ihl < 5)
		return false;
	packet->key.source[0] = rates_v4(ip->saddr);
	packet->key.destination[0] = rates_v4(ip->daddr);
	packet->key.rest = rates_rest(4, 0, 0, 0);
	packet->protocol = ip->protocol;
	packet->ecn = ip->tos & ECN_MASK;
	packet->dscp = ip->tos >> 2;
	packet->fragment = ip->frag_off & bpf_htons(0x1fff);
	packet->offset += ip->ihl * 4;
	return true;
}

/* The same for IPv6, with extension headers. */
static __always_inline bool read_v6(struct __sk_buff *skb,
				    struct scratch *scratch)
{
	struct packet *packet = &scratch->packet;
	union header *read = &scratch->read;
	int n;

	if (!load(skb, packet, read, sizeof(read->v6)) || read->v6.version != 6)
		return false;
	__builtin_memcpy(packet->key.source, &read->v6.saddr,
			 sizeof(read->v6.saddr));
	__builtin_memcpy(packet->key.destination, &read->v6.daddr,
			 sizeof(read->v6.daddr));
	packet->key.rest = rates_rest(6, 0, 0, 0);
	packet->protocol = read->v6.nexthdr;
	packet->ecn = read->v6.flow_lbl[0] >> 4 & ECN_MASK;
	packet->dscp = read->v6.priority << 2 | read->v6.flow_lbl[0] >> 6;
	packet->offset += sizeof(read->v6);
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
		if (!load(skb, packet, read, sizeof(read->extension))) {
			packet->fragment = true;
			break;
		}
		if (packet->protocol == IPPROTO_AH)
			packet->flags = SEALED;
		if (packet->protocol == IPPROTO_AH)
			octets = (read->extension.length + 2) * 4;
		else if (packet->protocol != IPPROTO_FRAGMENT)
			octets = (read->extension.length + 1) * 8;
		else
			packet->fragment =
				read->extension.fragment & bpf_htons(0xfff8);
		packet->protocol = read->extension.next;
		packet->offset += octets;
	}
	return true;
}

static __always_inline void read_flags(struct __sk_buff *skb,
				       struct scratch *scratch)
{
	struct packet *packet = &scratch->packet;

	packet->offset += TCP_FLAGS;
	if (load(skb, packet, &scratch->read, sizeof(scratch->read.flags)))
		packet->flags |= scratch->read.flags;
	packet->offset -= TCP_FLAGS;
}

/* Parse a packet. */
static __always_inline void read_packet(struct __sk_buff *skb,
					struct scratch *scratch)
{
	struct packet *packet = &scratch->packet;
	__be16 *ports = scratch->read.words;

	*packet = (struct packet){};
	switch (find_ip(skb, packet, ports)) {
	case bpf_htons(ETH_P_IP):
		if (!read_v4(skb, scratch))
			return;
		break;
	case bpf_htons(ETH_P_IPV6):
		if (!read_v6(skb, scratch))
			return;
		break;
	default:
		return;
	}
	window_reload();
	if (packet->fragment || !has_ports(packet->protocol) ||
	    !load(skb, packet, ports, sizeof(scratch->read.words))) {
		ports[0] = 0;
		ports[1] = 0;
	}
	packet->key.rest |= rates_rest(0, packet->protocol, ports[0], ports[1]);
	window_reload();
}

/* Does this router forward the packet? Its own have no ingress device. */
static bool is_forwarded(const struct __sk_buff *skb)
{
	return skb->ingress_ifindex;
}

/* Did it arrive by a device that leads to local hosts? */
static __always_inline bool is_from_hosts(const struct __sk_buff *skb,
					  struct scratch *scratch)
{
	scratch->from = skb->ingress_ifindex;
	return scratch->from && bpf_map_lookup_elem(&ingress, &scratch->from);
}

/*
 * Is it a packet of a local host? Hosts may send with any source address, so the
 * device counts, too. Forwarded packets with an address of this router have a
 * translated source. The source of forwarded packets that are not IP is unknown, so
 * they are taken for a host's.
 */
static __always_inline bool is_local(const struct __sk_buff *skb,
				     struct scratch *scratch)
{
	const struct rates_key *key = &scratch->packet.key;
	struct rates_prefix *prefix = &scratch->prefix;
	const u32 *owner;

	if (!key->rest)
		return is_forwarded(skb);
	prefix->head = rates_prefix_head(key->rest, 128);
	prefix->address[0] = key->source[0];
	prefix->address[1] = key->source[1];
	owner = bpf_map_lookup_elem(&prefixes, prefix);
	if (!owner)
		return is_forwarded(skb) &&
		       (any_host || is_from_hosts(skb, scratch));
	return *owner == RATES_HOST || is_forwarded(skb);
}

/* Ports of SLBN's control packets. */
static bool is_control(const struct packet *packet)
{
	const __be16 slbn = bpf_htons(SLBN_PORT);

	return packet->key.rest >> 8 ==
	       rates_rest(0, IPPROTO_UDP, slbn, slbn) >> 8;
}

/* Does a packet with these ports begin as SLBN's do? */
static __always_inline bool has_magic(struct __sk_buff *skb,
				      struct scratch *scratch)
{
	struct packet *packet = &scratch->packet;

	packet->offset += sizeof(struct udphdr);
	return load(skb, packet, &scratch->read, sizeof(scratch->read.magic)) &&
	       scratch->read.magic == bpf_htonl(SLBN_MAGIC);
}

/* No slot. */
#define NO_FLOW ~0U

/* Find the slot of the most specific flow that matches a packet. */
static __always_inline u32 find_flow(struct scratch *scratch)
{
	const struct rates_key *key = &scratch->packet.key;
	struct rates_key *match = &scratch->match;
	int n;

#pragma unroll
	for (n = 0; n < RATES_KINDS; n++) {
		int kind = rates_kind(n);
		const u32 *slot;

		if (!(kinds & (1 << kind)))
			continue;
		window_reload();
		match->source[0] = kind & RATES_SOURCE ? key->source[0] : 0;
		match->source[1] = kind & RATES_SOURCE ? key->source[1] : 0;
		match->destination[0] = key->destination[0];
		match->destination[1] = key->destination[1];
		match->rest = key->rest & rates_mask(kind);
		slot = bpf_map_lookup_elem(&flows, match);
		if (slot)
			return *slot;
	}
	return NO_FLOW;
}

/*
 * The longest time that a packet may wait so that at most fq_limit packets do, ns.
 * Products stay below 2^54: packets are shorter than 2^20 octets.
 */
static __always_inline u64 max_wait(u64 rate, u32 mean, u64 longest)
{
	u64 share = fq_limit ? rate / fq_limit : 0;

	if (!share)
		return longest;
	return fp_min64(mean * (1000000000ULL * 8 / 16) / share, longest);
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

/* Read the limit of a flow. Returns whether it has a rate that it may use at @boot. */
static __always_inline bool read_limit(const u32 *slot, u64 boot,
				       struct valid_limit *valid)
{
	const struct rates_limit *limit = bpf_map_lookup_elem(&limits, slot);
	u64 until;

	if (!limit || boot >= limit->lease)
		return false;
	until = limit->until;
	barrier();
	valid->burst = limit->burst;
	valid->target = limit->target;
	valid->interval = limit->interval;
	valid->rate = limit->rate;
	if (!valid->rate)
		return false;
	if (boot < until)
		valid->rate = fp_max64(valid->rate, limit->ceiling);
	return true;
}

/*
 * Mark a packet with VLAN tags in front of its IP header, where the kernel's helper does
 * not find it. Returns 0 if it cannot be marked.
 */
static __noinline int set_ce_tagged(struct __sk_buff *skb)
{
	u32 at = ETH_HLEN + TAG;
	__be16 protocol, old, new;

	if (bpf_skb_load_bytes(skb, at - 2, &protocol, 2))
		return 0;
	if (is_tag(protocol)) {
		at += TAG;
		if (bpf_skb_load_bytes(skb, at - 2, &protocol, 2))
			return 0;
	}
	/* The ECN field is in the first 16 bits of both headers. */
	if (bpf_skb_load_bytes(skb, at, &old, sizeof(old)))
		return 0;
	if (protocol != bpf_htons(ETH_P_IP)) {
		new = old | bpf_htons(ECN_MASK << 4);
		return !bpf_skb_store_bytes(skb, at, &new, sizeof(new), 0);
	}
	new = old | bpf_htons(ECN_MASK);
	return !bpf_l3_csum_replace(skb, at + offsetof(struct iphdr, check),
				    old, new, sizeof(new)) &&
	       !bpf_skb_store_bytes(skb, at, &new, sizeof(new), 0);
}

/* Mark a packet. Returns false if it cannot be. */
static bool set_ce(struct __sk_buff *skb)
{
	u32 headers = skb->len < HEADERS ? skb->len : HEADERS;

	if (is_tag(skb->protocol))
		return set_ce_tagged(skb);
	/* Its headers may be shared with a packet socket's copy. */
	return bpf_skb_ecn_set_ce(skb) ||
	       (!bpf_skb_pull_data(skb, headers) && bpf_skb_ecn_set_ce(skb));
}

/*
 * Update the counters; the caller holds the lock. There are no branches,
 * because the compiler would merge them to pointer arithmetic that the verifier
 * rejects without CAP_PERFMON.
 */
static __always_inline void count(struct rates_state *state,
				  const struct arrival *arrival)
{
	u64 sent = arrival->drop - 1;

	if (state->mean)
		state->mean += arrival->length - (state->mean >> 4);
	else
		state->mean = arrival->length << 4;
	state->last = arrival->boot;
	state->drops += arrival->drop;
	state->marks += arrival->mark;
	state->packets += arrival->packets & sent;
	state->bytes += arrival->length & sent;
	if (!arrival->drop) {
		state->departure = arrival->departure;
		state->length = arrival->length;
		state->rate = arrival->rate;
	}
}

/* Depth of a flow's token bucket, as time at its rate, ns. */
static __always_inline u64 get_burst(const struct rates_state *state,
				     const struct valid_limit *limit)
{
	u64 burst;

	if (!state->mean || state->mean >> 4 > SMALL)
		return limit->burst;
	burst = fp_min64(SMALL_BURST * 8000000000ULL / limit->rate,
			 ENFORCE_QUEUE);
	return fp_max64(burst, limit->burst);
}

/*
 * CoDel's target for a packet that waits, ns. Two full packets, or one as long
 * as the last one, may always wait, so that the flow is not idle.
 */
static __always_inline u64 get_target(const struct rates_state *state,
				      const struct valid_limit *limit, u64 wait)
{
	if (wait < limit->target)
		return limit->target;
	return fp_max64(limit->target, fp_max64(2 * FRAME, state->length) *
					       8000000000ULL / limit->rate);
}

/* Does a packet signal congestion? */
static __always_inline bool signals(struct rates_state *state,
				    const struct valid_limit *limit,
				    const struct arrival *arrival, u64 wait)
{
	return codel_drops(&state->codel, arrival->departure, wait,
			   get_target(state, limit, wait), limit->interval,
			   arrival->last);
}

/* Set the departure time of a packet by the packets before it. */
static __always_inline void pace(struct rates_state *state,
				 const struct valid_limit *limit,
				 struct arrival *arrival)
{
	u64 now = arrival->now, rate = limit->rate, signal = 0;
	u64 burst, last, bits, departure, remainder, wait;

	arrival->rate = rate;
	bpf_spin_lock(&state->lock);
	burst = get_burst(state, limit);
	last = fp_max64(rate, state->rate);
	/* A remainder of a higher rate is not valid for this one. */
	bits = state->length * 8000000000ULL +
	       (state->remainder < last ? state->remainder : 0);
	departure = state->departure + bits / last;
	remainder = bits % last;
	if (departure + burst < now) {
		arrival->missed = now - burst - departure;
		if (burst == ENFORCE_BURST && arrival->missed > ENFORCE_PAUSE)
			burst = ENFORCE_FIRST_BURST;
		departure = now - burst;
		remainder = 0;
	}
	arrival->departure = departure;
	wait = departure > now ? departure - now : 0;
	arrival->drop =
		wait > max_wait(rate, state->mean, arrival->longest ?: AHEAD);
	/* Without fq, packets do not wait. */
	if (!arrival->drop && arrival->longest &&
	    signals(state, limit, arrival, wait)) {
		signal = !arrival->ecn;
		arrival->mark = arrival->ecn;
		arrival->drop = !arrival->ecn;
	}
	if (!arrival->drop)
		state->remainder = remainder;
	count(state, arrival);
	bpf_spin_unlock(&state->lock);
	if (signal)
		__sync_fetch_and_add(&signalled, 1);
}

/* Drop a packet that pace() counted as sent and marked, but that cannot be marked. */
static __always_inline void drop_unmarked(struct rates_state *state,
					  struct arrival *arrival)
{
	arrival->drop = 1;
	arrival->mark = 0;
	bpf_spin_lock(&state->lock);
	state->marks--;
	state->drops++;
	state->packets -= arrival->packets;
	state->bytes -= arrival->length;
	bpf_spin_unlock(&state->lock);
	__sync_fetch_and_add(&signalled, 1);
}

/* Time that a source's backlog in the default class takes to be sent, ns. */
static __always_inline u64 get_backlog(const struct rates_bucket *bucket,
				       u64 now)
{
	if (bucket->finish <= now)
		return 0;
	/* Assume that its packets are spread evenly over the queue. */
	return bucket->backlog * (bucket->finish - now) /
	       (bucket->finish - bucket->updated);
}

/* How long a packet of the default class takes, ns, rounded up. */
static __always_inline u64 get_duration(u64 length, u64 rate)
{
	return (length * 8000000000ULL + rate - 1) / rate;
}

/* Count a packet that was added to a backlog, as in struct rates_bucket. */
static __always_inline void add_backlog(struct rates_bucket *bucket,
					u64 backlog, u64 now, u64 finish)
{
	bucket->backlog = backlog;
	bucket->updated = now;
	bucket->finish = finish;
}

/* Set the departure time of a packet in the default class. */
static __always_inline void pace_shared(struct rates_state *class,
					struct rates_bucket *source,
					struct rates_bucket *flow,
					const struct rates_device *device,
					struct arrival *arrival)
{
	u64 rate = device->rate, burst = device->burst;
	u64 length = arrival->length;
	u64 duration = get_duration(length, rate);
	/* How much later than the first segment the last one departs. */
	u64 later = get_duration(length - fp_min64(length, FRAME), rate);
	u64 now = arrival->now, limit, departure, finish, wait;
	u64 of_source, of_flow;

	arrival->rate = rate;
	bpf_spin_lock(&class->lock);
	/* Another CPU may have been here with a later time. */
	now = fp_max64(now, fp_max64(source->updated, flow->updated));
	departure = class->departure + get_duration(class->length, rate);
	if (departure + burst < now)
		departure = now - burst;
	wait = departure + later > now ? departure + later - now : 0;
	limit = max_wait(rate, class->mean, arrival->longest ?: AHEAD);
	of_source = get_backlog(source, now);
	of_flow = get_backlog(flow, now);
	arrival->departure = departure;
	arrival->drop = wait + of_source + of_flow / 2 > limit;
	if (!arrival->drop) {
		finish = departure + duration;
		add_backlog(source, of_source + duration, now, finish);
		add_backlog(flow, of_flow + duration, now, finish);
	}
	count(class, arrival);
	bpf_spin_unlock(&class->lock);
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

/*
 * The bucket of a packet's source: its IPv4 address, or the first 64 bits of its IPv6
 * address.
 */
static __always_inline u32 source_bucket(const struct packet *packet)
{
	u64 hash = hash_add(source_secret[0], source_secret + 1,
			    packet->key.source[0]);

	return hash_end(hash) % RATES_SOURCES;
}

/* The bucket of a packet's flow: addresses, protocol and ports. */
static __always_inline u32 flow_bucket(const struct packet *packet)
{
	return RATES_SOURCES +
	       rates_hash(&packet->key, flow_secret) % RATES_FLOWS;
}

/* How long a packet may wait; 0: without fq packets are only dropped. */
static __always_inline u64 longest_wait(struct scratch *scratch)
{
	const struct rates_device *device;

	if (!any_no_fq)
		return backlog;
	device = bpf_map_lookup_elem(&devices, &scratch->index);
	return device && device->no_fq ? 0 : backlog;
}

/*
 * Pace the packet that is kept by the default class; sets @arrival.drop if there is none. Not
 * inlined: the verifier of Linux 6.1 follows speculative paths, in which a state that is not
 * used would be NULL.
 */
static __noinline int pace_unassigned(const struct __sk_buff *skb)
{
	struct scratch *scratch = get_scratch();
	struct rates_bucket *source, *flow;
	const struct rates_device *device;
	struct rates_state *class;
	struct arrival *arrival;

	if (!scratch)
		return 0;
	arrival = &scratch->arrival;
	/* New traffic may use idle capacity from its first packet on. */
	arrival->departure = arrival->now;
	if (marks_on &&
	    marks_enter(skb->ifindex, arrival->now, arrival->length, 0))
		return 0;
	arrival->drop = 1;
	device = bpf_map_lookup_elem(&devices, &scratch->index);
	if (!device)
		return 0;
	scratch->class_n = max_flows + device->number;
	scratch->source_n = source_bucket(&scratch->packet) +
			    device->number * RATES_DEVICE_BUCKETS;
	scratch->flow_n = flow_bucket(&scratch->packet) +
			  device->number * RATES_DEVICE_BUCKETS;
	window_reload();
	class = bpf_map_lookup_elem(&states, &scratch->class_n);
	source = bpf_map_lookup_elem(&buckets, &scratch->source_n);
	flow = bpf_map_lookup_elem(&buckets, &scratch->flow_n);
	if (class && source && flow)
		pace_shared(class, source, flow, device, arrival);
	return 0;
}

/*
 * When the packet after the last one of a flow would depart, ns: without the lock, as pace()
 * decides.
 */
static __always_inline u64 estimate_departure(const struct rates_state *state,
					      const struct valid_limit *limit)
{
	return state->departure + state->length * 8000000000ULL /
					  fp_max64(limit->rate, state->rate);
}

/*
 * Send a packet of a flow that would wait for longer than CoDel's target in what the
 * default class leaves unused, with the last packet of its flow. Returns 0 if it must be
 * paced. Not inlined, as pace_unassigned().
 */
static __noinline int pace_excess(void)
{
	struct scratch *scratch = get_scratch();
	const struct rates_device *device;
	struct rates_state *state, *class;
	const struct valid_limit *limit;
	u64 now, next, duration, rate;
	struct arrival *arrival;

	if (!scratch)
		return 0;
	limit = &scratch->limit;
	arrival = &scratch->arrival;
	now = arrival->now;
	state = bpf_map_lookup_elem(&states, &scratch->slot);
	device = bpf_map_lookup_elem(&devices, &scratch->index);
	if (!state || !device || device->no_fq || !limit->rate)
		return 0;
	next = estimate_departure(state, limit);
	if (next < now || next - now < get_target(state, limit, next - now))
		return 0;
	scratch->class_n = max_flows + device->number;
	class = bpf_map_lookup_elem(&states, &scratch->class_n);
	if (!class)
		return 0;
	rate = device->rate;
	duration = get_duration(arrival->length, rate);
	bpf_spin_lock(&class->lock);
	next = class->departure + get_duration(class->length, rate);
	next = spare_departure(next, now, device->burst, duration);
	if (next) {
		arrival->departure = next;
		arrival->rate = rate;
		count(class, arrival);
	}
	bpf_spin_unlock(&class->lock);
	if (!next)
		return 0;
	bpf_spin_lock(&state->lock);
	arrival->departure = fp_max64(now, state->departure);
	state->last = arrival->boot;
	state->packets += arrival->packets;
	state->bytes += arrival->length;
	bpf_spin_unlock(&state->lock);
	__sync_fetch_and_add(&excess, 1);
	if (marks_on)
		marks_exceed();
	return 1;
}

/*
 * Does the router send this packet in answer to one that anyone may have sent, with
 * any source address, and without a limit of the kernel? These are echo replies with
 * their later fragments, and the RSTs for segments without a connection.
 */
static __always_inline bool is_reflected(struct __sk_buff *skb,
					 struct scratch *scratch)
{
	struct packet *packet = &scratch->packet;
	u8 reply = ECHO_REPLY;

	if (is_forwarded(skb))
		return false;
	if (packet->protocol == IPPROTO_TCP)
		return packet->flags & TCP_RST;
	if (packet->protocol == IPPROTO_ICMPV6)
		reply = ECHO_REPLY_V6;
	else if (packet->protocol != IPPROTO_ICMP)
		return false;
	return packet->fragment ||
	       (load(skb, packet, &scratch->read, sizeof(scratch->read.type)) &&
		scratch->read.type == reply);
}

/* Does a packet without a session pass unlimited? */
static __always_inline bool is_exempt(struct __sk_buff *skb,
				      struct scratch *scratch)
{
	bool local = is_local(skb, scratch);

	if (!is_control(&scratch->packet))
		return !local;
	/* slbnd sends with the addresses of hosts. */
	return !local || !is_forwarded(skb) ||
	       (any_host && has_magic(skb, scratch));
}

/* --- connections ---------------------------------------------------------- */

/* No place in the table. */
#define NO_PLACE ~0U

/* The first place of a connection's set. */
static __always_inline u32 first_place(const struct rates_key *key)
{
	const struct rates_secret *hashed;

	hashed = bpf_map_lookup_elem(&secret, &only);
	if (!hashed)
		return 0;
	return (rates_hash(key, hashed->words) & connection_sets) *
	       CONNECTIONS_WAYS;
}

/*
 * Find the place of a connection, whose set begins at @place, and set it; NO_PLACE: it has
 * none.
 */
static __always_inline void search_place(const struct rates_key *key,
					 u32 *place)
{
	int n;

#pragma unroll
	for (n = 0; n < CONNECTIONS_WAYS; n++, ++*place) {
		const struct rates_connection *connection;

		connection = bpf_map_lookup_elem(&connections, place);
		if (!connection || !connection->last)
			break;
		if (connections_same(&connection->key, key))
			return;
	}
	*place = NO_PLACE;
}

static __always_inline void connections_read(u32 set, u32 n,
					     struct connections_way *way)
{
	const struct rates_connection *connection;
	u32 place = set + n;

	*way = (struct connections_way){};
	connection = bpf_map_lookup_elem(&connections, &place);
	if (!connection)
		return;
	way->host = connections_host(&connection->key);
	way->last = connection->last;
	way->reported = connection->reported | connection->assigned;
}

/* Choose the place of a new connection of @host, whose set begins at @first. */
__noinline u32 choose_place(u64 host, u32 first, u64 now)
{
	u32 n = connections_choose(first, host, now);

	return n < CONNECTIONS_WAYS ? first + n : NO_PLACE;
}

/* Begin to count a connection, in a place that may have been another one's. */
static __always_inline void take_place(struct rates_connection *connection,
				       const struct rates_key *key, u64 now)
{
	connection->key = *key;
	connection->ended = 0;
	connection->assigned = 0;
	connection->bytes = 0;
	connection->packets = 0;
	connection->opened = 0;
	connection->began = 0;
	connection->last = now;
	connection->reported = 0;
}

/*
 * Segments of a packet. Of those that another system has merged (tap, virtio), the kernel
 * does not count them before Linux 6.19.
 */
static __always_inline u32 count_segments(const struct __sk_buff *skb)
{
	u32 segments = skb->gso_segs, size = skb->gso_size;

	if (!segments && size)
		segments = (skb->len + size - 1) / size;
	return segments ?: 1;
}

#include "windows.bpf.h"

/* Count a packet. Returns whether slbnd gets a report; the caller holds the lock. */
static __always_inline bool count_sent(struct rates_connection *connection,
				       const struct scratch *scratch)
{
	const struct arrival *arrival = &scratch->arrival;
	/* Another CPU may have been here with a later time. */
	u64 now = fp_max64(arrival->boot, connection->last);
	u64 silent = now - connection->last;
	u64 reported = connection->reported;
	u64 flags = scratch->packet.flags;
	bool ends, joins;

	if (flags & TCP_SYN || silent >= idle_time) {
		connection->ended = 0;
		connection->bytes = 0;
		connection->packets = 0;
		connection->opened = flags & TCP_SYN ? now : 0;
		connection->began = 0;
		reported = 0;
	}
	if (!connection->began && !(flags & TCP_SYN))
		connection->began = now;
	connection->bytes += arrival->length;
	connection->packets += arrival->packets;
	connection->last = now;
	connection->assigned = scratch->slot != NO_FLOW;
	ends = flags & (TCP_FIN | TCP_RST) && !connection->ended;
	if (ends) {
		/* What it sent before it finished needs no session anymore. */
		connection->ended = 1;
		connection->bytes = 0;
		connection->packets = 0;
	}
	joins = connection->packets >= join_packets &&
		connection->bytes >= join_bytes &&
		connections_is_due(reported, now, started, again,
				   scratch->slot != NO_FLOW);
	if (joins || (ends && reported)) {
		connection->reported = now;
		return true;
	}
	connection->reported = reported;
	return false;
}

/*
 * Count the packet that is kept, and report its connection to slbnd if it has sent enough, or
 * ends. Notes its place; NO_PLACE: none. Not static: see get_scratch().
 */
__noinline int count_connection(void)
{
	struct scratch *scratch = get_scratch();
	struct rates_connection *connection;
	const struct rates_key *key;
	bool known, due = false;
	u32 first;

	if (!scratch)
		return 0;
	key = &scratch->packet.key;
	first = first_place(key);
	scratch->place = first;
	search_place(key, &scratch->place);
	known = scratch->place != NO_PLACE;
	if (!known)
		scratch->place = choose_place(connections_host(key), first,
					      scratch->arrival.boot);
	connection = bpf_map_lookup_elem(&connections, &scratch->place);
	if (!connection) {
		__sync_fetch_and_add(&unplaced, 1);
		scratch->place = NO_PLACE;
		return 0;
	}
	if (!known)
		forget_window(scratch->place);
	bpf_spin_lock(&connection->lock);
	if (!known)
		take_place(connection, key, scratch->arrival.boot);
	/* Another connection may have taken the place meanwhile. */
	if (connections_same(&connection->key, key))
		due = count_sent(connection, scratch);
	bpf_spin_unlock(&connection->lock);
	if (!due)
		return 0;
	scratch->report.key = *key;
	scratch->report.index = scratch->place;
	if (bpf_ringbuf_output(&reports, &scratch->report,
			       sizeof(scratch->report), 0)) {
		/* A later packet tries again. */
		connection->reported = 0;
		__sync_fetch_and_add(&unreported, 1);
	}
	return 0;
}

/* Note when a packet arrives, and what it is. */
static __always_inline void note_arrival(struct __sk_buff *skb,
					 struct scratch *scratch)
{
	struct arrival *arrival = &scratch->arrival;

	arrival->now = bpf_ktime_get_ns();
	arrival->boot = bpf_ktime_get_boot_ns();
	arrival->length = skb->wire_len;
	arrival->packets = count_segments(skb);
	scratch->index = skb->ifindex;
	arrival->longest = longest_wait(scratch);
	arrival->rate = 0;
	arrival->assigned = 0;
	arrival->departure = 0;
	arrival->missed = 0;
	arrival->ecn = !!scratch->packet.ecn;
	arrival->last = CODEL_NOT_LAST;
	if (scratch->packet.flags & TCP_FIN && !arrival->ecn)
		arrival->last = CODEL_LAST;
	else if (scratch->packet.flags & TCP_PSH && !arrival->ecn)
		arrival->last = CODEL_MAYBE_LAST;
	arrival->drop = 0;
	arrival->mark = 0;
	scratch->place = NO_PLACE;
	scratch->is_new = 0;
	scratch->exceeds = 0;
	scratch->opens = 0;
}

/* Pace the packet that is kept. Returns false if its session has no state. */
static __always_inline bool pace_packet(struct __sk_buff *skb,
					struct scratch *scratch)
{
	struct arrival *arrival = &scratch->arrival;
	struct rates_state *state;

	if (scratch->slot == NO_FLOW) {
		pace_unassigned(skb);
		return true;
	}
	state = bpf_map_lookup_elem(&states, &scratch->slot);
	if (!state)
		return false;
	if (!read_limit(&scratch->slot, arrival->boot, &scratch->limit)) {
		pace_unassigned(skb);
		follow(state, arrival);
		return true;
	}
	arrival->assigned = scratch->limit.rate;
	if (!excess_on || scratch->packet.protocol == IPPROTO_TCP ||
	    !pace_excess())
		pace(state, &scratch->limit, arrival);
	if (arrival->mark && !set_ce(skb))
		drop_unmarked(state, arrival);
	return true;
}

SEC("tc")
int slbnd_rates(struct __sk_buff *skb)
{
	struct scratch *scratch = get_scratch();
	struct arrival *arrival;
	struct packet *packet;
	bool reflected;

	if (!scratch)
		return TC_ACT_SHOT;
	packet = &scratch->packet;
	arrival = &scratch->arrival;
	read_packet(skb, scratch);
	if (packet->protocol == IPPROTO_TCP && !packet->fragment)
		read_flags(skb, scratch);
	window_reload();
	scratch->slot = NO_FLOW;
	if (packet->key.rest && !is_control(packet))
		scratch->slot = find_flow(scratch);
	window_reload();
	reflected = scratch->slot == NO_FLOW && is_reflected(skb, scratch);
	if (scratch->slot == NO_FLOW && !reflected && is_exempt(skb, scratch))
		return TC_ACT_UNSPEC;
	note_arrival(skb, scratch);
	window_reload();
	if (packet->key.rest && !packet->fragment && !reflected)
		count_connection();
	if (!pace_packet(skb, scratch))
		return TC_ACT_SHOT;
	window_reload();
	if (windows_on && (arrival->drop | arrival->mark))
		windows_drop(scratch->slot);
	if (arrival->drop) {
		__sync_fetch_and_add(&dropped, 1);
		return TC_ACT_SHOT;
	}
	if (arrival->mark)
		__sync_fetch_and_add(&marked, 1);
	if (arrival->departure > arrival->now)
		set_departure(skb, arrival->departure);
	/* To slbnd_sent, the next program at egress. */
	if (windows_on | marks_on)
		skb->cb[0] = HANDED_OVER;
	return TC_ACT_UNSPEC;
}
