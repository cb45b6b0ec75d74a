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
 *	packet  = header tags *option
 *	header  = struct slbn_header, 72 octets
 *	tags    = slots * 2 octets; slots is even
 *	option  = type:8 length:8 value:length*8
 *
 * header.length is the length of the whole packet; octets that follow it in the
 * datagram are ignored. tags has 16 bits for each hop, from hop 0: the ledger
 * in which the link at that hop counts the session, or 0. The source copies the
 * tags of an acknowledgment to its next packet.
 *
 * Links update packets in flight, so datagrams must be neither fragmented nor
 * merged (GSO); links drop such packets. A link forwards packets of an unknown
 * version as data, unless they come from hosts at an edge, which it drops.
 *
 * Options allow extensions: a receiver skips unknown options, a link leaves
 * them unchanged. One option is defined besides padding:
 *
 *	SLBN_OPTION_AUTH  length 8: SipHash-2-4 with the domain's key over the
 *	                  packet, with these 8 octets set to zero; at most once
 *
 * These fields may change in flight: type (the destination, or the edge link
 * before it, turns a Join or Probe into a ProbeAck, and a Leave into a
 * LeaveAck), hop, bottleneck, B, bw, the tag of the hop that processes the
 * packet, and the value of SLBN_OPTION_AUTH.
 */
#ifndef _UAPI_FAIRPATH_SLBN_H
#define _UAPI_FAIRPATH_SLBN_H

#include <linux/types.h>

/* UDP port, of the range for private use; not registered. */
#define SLBN_PORT 49470

/* "SLBN" */
#define SLBN_MAGIC 0x534c424e
#define SLBN_VERSION 1

/* Maximal number of links of a path: B has a bit for each hop. */
#define SLBN_HOPS_MAX 64
#define SLBN_HOPS_DEFAULT 32

/* Largest rate in a packet, bit/s; as the demand it means no limit. */
#define SLBN_RATE_MAX 1000000000000000ULL

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
 */
enum slbn_option {
	SLBN_OPTION_PAD,
	SLBN_OPTION_AUTH,
};

/**
 * struct slbn_header - fixed part of a packet
 * @magic: SLBN_MAGIC
 * @version: SLBN_VERSION
 * @type: enum slbn_type
 * @length: length of the packet with tags and options, octets
 * @seq: sequence number, incremented modulo 2^32 for each new packet of the
 *	session; retransmissions and replies keep it
 * @hop: number of the next link downstream: links passed on the way down, less
 *	those passed on the way back; at most @slots
 * @slots: hops that have a tag, 2 to SLBN_HOPS_MAX, even
 * @bottleneck: the paper's b: hop that set @bw last, less than @slots, or
 *	SLBN_NO_HOP
 * @reserved: sent as 0, ignored when received
 * @id: session, 128 random bits
 * @bw2: the paper's bw'': rate in BF of hops not in @B that the packet has yet
 *	to reach on its way down
 * @bw1: the paper's bw': rate in BF of hops not in @B that it has passed
 * @bw: the paper's bw: candidate for the session's rate in this cycle
 * @demand: largest rate that the session asks for, at least 1
 * @B: set of the hops that restrict the session, bit n for hop n; no bits from
 *	@slots on
 */
struct slbn_header {
	__be32 magic;
	__u8 version;
	__u8 type;
	__be16 length;
	__be32 seq;
	__u8 hop;
	__u8 slots;
	__u8 bottleneck;
	__u8 reserved;
	__u8 id[16];
	__be64 bw2;
	__be64 bw1;
	__be64 bw;
	__be64 demand;
	__be64 B;
};

#endif /* _UAPI_FAIRPATH_SLBN_H */
