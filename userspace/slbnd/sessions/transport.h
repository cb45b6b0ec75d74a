/* SPDX-License-Identifier: GPL-2.0 */
/*
 * UDP sockets for control packets: batches of packets, and authentication.
 *
 * There is a socket for IPv4 and one for IPv6, bound to SLBN_PORT of all
 * addresses. A service manager may keep them for the next slbnd, since any user
 * can bind the port while it is free. Packets have the source and destination
 * address of their flow, so that they take the path of its data
 * (IP_TRANSPARENT). They carry our own address, to which the answers return:
 * the source address that the routing table selects for the destination, cached
 * for SOURCE_LIFETIME. It is also the source of packets whose flow has none.
 *
 * Packets are collected, and sent with one system call when there are
 * TRANSPORT_BATCH of them, or by transport_flush(). A packet that cannot be
 * sent counts as lost: its session retransmits it.
 */
#ifndef SLBND_TRANSPORT_H
#define SLBND_TRANSPORT_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "../../common/siphash.h"
#include "../../libslbn/libslbn.h"
#include <fairpath/dscp.h>
#include <fairpath/slbn/slbn_wire.h>

#define TRANSPORT_BATCH 64
/* TTL or hop limit of sent packets. */
#define TRANSPORT_TTL 64
/* DSCP of control packets: network control (RFC 4594), before any data. */
#define TRANSPORT_DSCP 48
/* Cached addresses of each address family. */
#define TRANSPORT_SOURCES 4096

/* An address; which one depends on the address family of its socket. */
union transport_address {
	struct in_addr v4;
	struct in6_addr v6;
};

/**
 * struct transport_peer - the endpoints of a packet
 * @address: the remote endpoint
 * @length: octets of @address
 * @local: our address; 0: selected by the routing table
 * @device: index of the device that received it
 * @dscp: of the packet
 */
struct transport_peer {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	socklen_t length;
	union transport_address local;
	u32 device;
	u8 dscp;
};

/**
 * struct transport_source - our address on the route to a destination
 * @destination: the destination
 * @local: our address
 * @until: when it must be looked up again, ns; 0: never looked up
 */
struct transport_source {
	union transport_address destination;
	union transport_address local;
	u64 until;
};

/**
 * struct transport_drops - received packets that were dropped
 * @bad_key: not authentic, or only one of packet and agent has a key
 * @unknown_key: with a key that the agent does not have
 * @bad_time: authentic, but its time differs from the clock by more than
 *	SLBN_AUTH_WINDOW
 * @clock_difference: our clock minus the time of the last @bad_time packet,
 *	seconds
 * @bad_return: answers that had not passed all links or were not sent to the
 *	address that we wrote into them, and packets without a usable return
 */
struct transport_drops {
	u64 bad_key;
	u64 unknown_key;
	u64 bad_time;
	s64 clock_difference;
	u64 bad_return;
};

/**
 * struct transport_slot - a packet in a batch
 * @peer: its endpoints
 * @mark: of a packet to send, as SO_MARK; 0: none
 * @data: the packet
 * @length: octets of it
 */
struct transport_slot {
	struct transport_peer peer;
	u32 mark;
	u8 data[SLBN_LENGTH_MAX + 64];
	size_t length;
};

/* Return addresses, by hash, whose replies are counted. */
#define TRANSPORT_RETURNS 1024

/**
 * struct transport_return - replies to return addresses of one hash
 * @second: in which they were counted
 * @count: number of replies in it
 */
struct transport_return {
	u64 second;
	u32 count;
};

/**
 * struct transport - the sockets
 * @fd: for IPv4 and IPv6; -1: not supported by this system
 * @lookup: to look up our addresses, for IPv4 and IPv6
 * @keys: the domain's keys; packets are signed with the last one
 * @drops: dropped packets
 * @sent: packets that were sent
 * @unsent: packets that could not be sent: no route, no buffer, or too many replies to
 *	an address
 * @marked: the domain's mark of assigned packets, DSCP; 0: none
 * @salt: key of the hash of @returns
 * @returns: replies, without a key
 * @source: cache of our addresses
 * @queued: packets in @out
 * @out: batches to send
 */
struct transport {
	int fd[2];
	int lookup[2];
	struct slbn_keys keys;
	struct transport_drops drops;
	u64 sent;
	u64 unsent;
	u8 marked;
	u8 salt[16];
	struct transport_return returns[TRANSPORT_RETURNS];
	struct transport_source source[2][TRANSPORT_SOURCES];
	u32 queued[2];
	struct transport_slot out[2][TRANSPORT_BATCH];
};

int transport_open(struct transport *transport, int first, int count);
bool transport_find_owner(uid_t *uid);
void transport_close(struct transport *transport);
u32 transport_length(const struct transport *transport,
		     const struct slbn_flow *flow,
		     const struct slbn_packet *pkt);
void transport_send(struct transport *transport, const struct slbn_flow *flow,
		    u32 mark, u8 dscp, const struct slbn_packet *pkt,
		    const struct slbn_slot *hops, u8 traced);
u64 transport_cookie(const struct transport *transport, int n);
bool transport_is_own(const struct transport *transport, int family,
		      const u8 *address);
bool transport_is_family(const struct slbn_layout *layout,
			 const struct transport_peer *from);
bool transport_is_answer(struct transport *transport, const u8 *data,
			 const struct slbn_layout *layout, u8 hop,
			 const struct transport_peer *from);
void transport_reply(struct transport *transport, u8 *data,
		     const struct slbn_layout *layout, u8 hop,
		     const struct slbn_key *key,
		     const struct transport_peer *to);
void transport_flush(struct transport *transport);
bool transport_authentic(struct transport *transport, u8 *data,
			 const struct slbn_layout *layout,
			 const struct transport_peer *from,
			 const struct slbn_key **key);
int transport_add_key(struct transport *transport, u8 id, const u8 *secret,
		      bool accept_only);
int transport_retire_key(struct transport *transport, u8 id);
bool transport_receive(struct transport *transport,
		       void (*each)(void *context, u8 *data, size_t length,
				    const struct transport_peer *from),
		       void *context);

#endif /* SLBND_TRANSPORT_H */
