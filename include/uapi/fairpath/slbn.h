/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * SLBN on the wire: control packets of the protocol of Mozo, Lopez-Presa and
 * Fernandez Anta (NCA 2012), as fairpath's links, agents and simulator speak it.
 *
 * A control packet is a UDP datagram over IPv4 or IPv6 from port SLBN_PORT to
 * port SLBN_PORT that begins with the magic. All numbers are in network byte
 * order; rates are bit/s. It may be neither fragmented nor merged with others,
 * since links rewrite it on its way. Links take one of another version for data,
 * but at an edge.
 *
 *	packet  = header tags *option
 *	header  = struct slbn_header, 72 octets
 *	tags    = slots * 2 octets; slots is even
 *	option  = type:8 length:8 value:length*8
 *
 * header.length is that of the whole packet: what follows it in the datagram is
 * no part of it. Options are for later versions to add: a reader skips those
 * that it does not know, a link leaves them as they are. One is defined,
 *
 *	SLBN_OPTION_AUTH  length 8: SipHash-2-4 by the key of the domain over the
 *	                  packet, these 8 octets taken as zeros
 *
 * Which fields may change on the way: type (a Join or Probe becomes a ProbeAck
 * where the destination, or the link before it, turns it round, a Leave becomes
 * a LeaveAck), hop, bottleneck, B, bw, the tag of the hop that is passed, and the value
 * of SLBN_OPTION_AUTH.
 */
#ifndef _UAPI_FAIRPATH_SLBN_H
#define _UAPI_FAIRPATH_SLBN_H

#include <linux/types.h>

/* Of the range for private use: nobody has registered SLBN. */
#define SLBN_PORT 49470

#define SLBN_MAGIC 0x534c424e
#define SLBN_VERSION 1

/* B has a bit for each hop. */
#define SLBN_HOPS_MAX 64
#define SLBN_HOPS_DEFAULT 32

/* No rate may be larger, bit/s; as a demand it means: without limit. */
#define SLBN_RATE_MAX 1000000000000000ULL

/* As header.bottleneck: no hop restricts the session, only its demand does. */
#define SLBN_NO_HOP 255

/**
 * enum slbn_type - types of packets
 * @SLBN_JOIN: down: a session comes
 * @SLBN_PROBE: down: what is its rate?
 * @SLBN_PROBE_ACK: up: the answer to either
 * @SLBN_LEAVE: down: the session goes
 * @SLBN_LEAVE_ACK: up: its Leave has reached the end
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
 * enum slbn_option - types of options
 * @SLBN_OPTION_PAD: padding, of any length
 * @SLBN_OPTION_AUTH: authenticates the packet to the next hop
 */
enum slbn_option {
	SLBN_OPTION_PAD,
	SLBN_OPTION_AUTH,
};

/**
 * struct slbn_header - the fixed part of a packet
 * @magic: SLBN_MAGIC
 * @version: SLBN_VERSION
 * @type: enum slbn_type
 * @length: octets of the packet, options included
 * @seq: grows by one with each new packet of the session, modulo 2^32; a packet
 *	that is sent again keeps it, and so does an answer
 * @hop: links passed on the way down and not yet passed again on the way up:
 *	the number of the next hop down
 * @slots: hops for which there are tags, 2 to SLBN_HOPS_MAX, even
 * @bottleneck: the paper's b: hop that set bw last, or SLBN_NO_HOP
 * @reserved: 0; not looked at
 * @id: the session, 128 random bits
 * @bw2: the paper's bw'': what hops that are not in B have in their BF before
 *	the packet reaches them on its way down
 * @bw1: bw': what they have there once it has passed
 * @bw: the rate of the running cycle so far
 * @demand: what the session asks for
 * @B: the set of hops that restrict the session: 1 << hop
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
