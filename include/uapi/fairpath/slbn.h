/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * SLBN control packets on the wire. The protocol is that of Mozo, Lopez-Presa
 * and Fernandez Anta, "SLBN: A Scalable Max-min Fair Algorithm for Rate-Based
 * Explicit Congestion Control" (NCA 2012); the encoding is fairpath's.
 *
 * A control packet is the payload of a UDP datagram over IPv4 or IPv6 from port
 * SLBN_PORT to port SLBN_PORT. Numbers are in network byte order, rates in
 * bit/s.
 *
 *	packet  = header return *slot *option
 *	header  = struct slbn_header, 96 octets
 *	return  = link:16 address
 *	slot    = tag:16 code:16 return
 *	option  = type:8 length:8 value:length*8
 *
 * header.length is the length of the whole packet; octets that follow it in the
 * datagram are ignored. There are header.slots slots, of header.slot_length
 * octets, one for each hop, from hop 0. A slot's tag is the ledger in which the
 * link at that hop counts the session, or 0. Its code is the rate that the link
 * holds above header.use, which the next packet carries as use1: 5 bits of
 * exponent e and 11 bits of mantissa m, m * 2^e bit/s. The source copies tags
 * and codes of an acknowledgment to its next packet.
 *
 * The way back is recorded. The first return is the source's: link 0 and its
 * address, of the same family as the packet. A link that processes a packet
 * downstream writes its number in its router and an address of the router into
 * the return of its slot. The reply is sent to the last return; the link there
 * processes it and sends it to the return before.
 *
 * Links update packets in flight, so datagrams must be neither fragmented nor
 * merged (GSO); links drop such packets. They drop packets of other versions,
 * too: a session that a link does not count has no rate there. Version 1, which
 * had no commit, forwards packets of other versions as data.
 *
 * Options allow extensions: a receiver skips unknown options, a link leaves
 * them unchanged. Three options are defined besides padding, each at most once:
 *
 *	SLBN_OPTION_AUTH  struct slbn_auth. The hash is SipHash-2-4 over the
 *	                  packet, in which the hash is replaced by that of the
 *	                  source and destination address of the IP packet
 *	SLBN_OPTION_TRACE struct slbn_trace. The link at the hop that it names writes
 *	                  its state into a downstream packet; the reply keeps it
 *	SLBN_OPTION_SHARE struct slbn_share. On the way back, each link that knows the
 *	                  option lowers the share to its own, and counts itself
 *
 * These fields may change in flight: type (the destination, or the edge link
 * before it, turns a Join or Probe into a ProbeAck, and a Leave into a
 * LeaveAck), hop, bottleneck, epoch, B, bw, g, the slot of the hop that
 * processes the packet, the hash in SLBN_OPTION_AUTH, SLBN_OPTION_TRACE, and on
 * the way back SLBN_OPTION_SHARE.
 */
#ifndef _UAPI_FAIRPATH_SLBN_H
#define _UAPI_FAIRPATH_SLBN_H

#include <linux/types.h>

/* UDP port, of the range for private use; not registered. */
#define SLBN_PORT 49470

/* "SLBN" */
#define SLBN_MAGIC 0x534c424e
#define SLBN_VERSION 2

/* Maximal number of links of a path: B has a bit for each hop. */
#define SLBN_HOPS_MAX 64
#define SLBN_HOPS_DEFAULT 32

/* Octets of a slot in packets over IPv4 and IPv6. */
#define SLBN_SLOT_LENGTH_V4 10
#define SLBN_SLOT_LENGTH_V6 22

/* Largest rate in a packet, bit/s; as the demand it means no limit. */
#define SLBN_RATE_MAX 1000000000000000ULL

/* Largest weight of a session; the smallest is 1. */
#define SLBN_WEIGHT_MAX 1000000

/* header.flags: the packet was transmitted before. */
#define SLBN_FLAG_AGAIN 0x01

/* header.epoch if no link on the path has an epoch. */
#define SLBN_NO_EPOCH 0xffffffff

/* Largest difference of an authenticated packet's time to the clock, seconds. */
#define SLBN_AUTH_WINDOW 10

/* header.bottleneck if no hop but only the demand restricts the session. */
#define SLBN_NO_HOP 255

/**
 * enum slbn_type - packet types
 * @SLBN_JOIN: downstream: add a session and measure its rate
 * @SLBN_PROBE: downstream: measure a session's rate
 * @SLBN_PROBE_ACK: upstream: reply to Join and Probe
 * @SLBN_LEAVE: downstream: remove a session
 * @SLBN_LEAVE_ACK: upstream: reply to Leave
 */
enum slbn_type {
	SLBN_JOIN = 1,
	SLBN_PROBE,
	SLBN_PROBE_ACK,
	SLBN_LEAVE,
	SLBN_LEAVE_ACK,
	__SLBN_TYPE_MAX,
};

#define SLBN_TYPE_MAX (__SLBN_TYPE_MAX - 1)

/**
 * enum slbn_option - option types
 * @SLBN_OPTION_PAD: padding, of any length
 * @SLBN_OPTION_AUTH: authenticates the packet to the next hop
 * @SLBN_OPTION_TRACE: state of a link on the path
 * @SLBN_OPTION_SHARE: smallest fair share of the links on the path
 */
enum slbn_option {
	SLBN_OPTION_PAD,
	SLBN_OPTION_AUTH,
	SLBN_OPTION_TRACE,
	SLBN_OPTION_SHARE,
};

/**
 * struct slbn_header - fixed part of a packet
 * @magic: SLBN_MAGIC
 * @version: SLBN_VERSION
 * @type: enum slbn_type
 * @length: length of the packet with slots and options, octets
 * @seq: sequence number, incremented modulo 2^32 for each new packet of the
 *	session; retransmissions and replies keep it
 * @hop: number of the next link downstream: links passed on the way down, less
 *	those passed on the way back; at most @slots
 * @slots: hops that have a slot, 1 to SLBN_HOPS_MAX
 * @slot_length: octets of a slot, SLBN_SLOT_LENGTH_V4 or SLBN_SLOT_LENGTH_V6 as
 *	the packet's IP version
 * @bottleneck: the paper's b: hop that set @bw last, less than @slots, or
 *	SLBN_NO_HOP
 * @flags: SLBN_FLAG_*; others are sent as 0 and ignored when received
 * @weight: of the session, 1 to SLBN_WEIGHT_MAX; the same in all its packets
 * @epoch: shortest epoch of the links passed on the way back, us, or
 *	SLBN_NO_EPOCH, which the destination sets; ignored downstream
 * @id: session, 128 random bits
 * @B: set of the hops that restrict the session, bit n for hop n; no bits from
 *	@slots on
 * @bw2: the paper's bw'': rate in BF of hops not in @B that the packet has yet
 *	to reach on its way down
 * @bw1: the paper's bw': rate in BF of hops not in @B that it has passed
 * @bw: the paper's bw: candidate for the session's rate in this cycle
 * @use1: @use of the previous cycle, on which the codes of a downstream packet
 *	are based
 * @use: rate in use at the source, which it does not exceed before the cycle is
 *	done
 * @g: rate that the links passed on the way back have granted; the destination
 *	sets it to SLBN_RATE_MAX; ignored downstream
 */
struct slbn_header {
	__be32 magic;
	__u8 version;
	__u8 type;
	__be16 length;
	__be32 seq;
	__u8 hop;
	__u8 slots;
	__u8 slot_length;
	__u8 bottleneck;
	__u8 flags;
	__u8 weight[3];
	__be32 epoch;
	__u8 id[16];
	__be64 B;
	__be64 bw2;
	__be64 bw1;
	__be64 bw;
	__be64 use1;
	__be64 use;
	__be64 g;
};

/**
 * struct slbn_auth - value of SLBN_OPTION_AUTH
 * @key: number of the key, of the source's choice; links and the reply keep it
 * @reserved: sent as 0, ignored
 * @time: when the source sent the packet: seconds of its real-time clock, modulo
 *	2^32; links and the reply keep it
 * @hash: keyed hash of addresses and packet
 */
struct slbn_auth {
	__u8 key;
	__u8 reserved;
	__u8 time[4];
	__u8 hash[8];
};

/* trace.flags: a link has written its state. */
#define SLBN_TRACE_FILLED 0x01

/**
 * struct slbn_trace - value of SLBN_OPTION_TRACE
 * @hop: hop whose link writes the other fields, which the source sends as 0
 * @flags: SLBN_TRACE_FILLED; others are sent as 0 and ignored when received
 * @ttl: TTL or hop limit with which the link sends the packet
 * @reserved: 0, ignored
 * @backlog: octets that wait in the queues of the link's device, at most 2^32 - 1
 * @capacity: of the link, bit/s
 * @share: fair share of a session of weight 1, bit/s
 * @weights: sum of the weights of the link's sessions
 * @held: rate that they hold, bit/s
 */
struct slbn_trace {
	__u8 hop;
	__u8 flags;
	__u8 ttl;
	__u8 reserved;
	__u8 backlog[4];
	__u8 capacity[8];
	__u8 share[8];
	__u8 weights[8];
	__u8 held[8];
};

/**
 * struct slbn_share - value of SLBN_OPTION_SHARE
 * @links: links that lowered @share, or found it lower, on the way back; the source
 *	sends 0. If it is not the number of links on the path, @share is too high
 * @bands: of these, those that keep new, assigned and unassigned traffic apart;
 *	the source sends 0
 * @reserved: sent as 0, ignored
 * @share: smallest fair share of the session at these links, bit/s, at most
 *	SLBN_RATE_MAX, which the source sends
 */
struct slbn_share {
	__u8 links;
	__u8 bands;
	__u8 reserved[6];
	__u8 share[8];
};

#endif /* _UAPI_FAIRPATH_SLBN_H */
