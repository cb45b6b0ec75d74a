/* SPDX-License-Identifier: GPL-2.0 */
/*
 * UDP sockets for control packets: batches of packets, and authentication.
 *
 * There is a socket for IPv4 and one for IPv6, bound to SLBN_PORT of all
 * addresses: the routing table selects a session's first link, as it does for
 * its data. Packets are collected, and sent with one system call when there are
 * TRANSPORT_BATCH of them, or by transport_flush(). A packet that cannot be sent
 * is lost like any other: its session retransmits it.
 */
#ifndef SLBND_TRANSPORT_H
#define SLBND_TRANSPORT_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "../common/siphash.h"
#include "../libslbn/libslbn.h"
#include <fairpath/slbn/slbn_wire.h>

#define TRANSPORT_BATCH 64

/**
 * struct transport_peer - the endpoints of a packet
 * @address: the remote endpoint
 * @length: octets of @address
 * @local: our address; 0: selected by the routing table
 * @device: index of the device that received it
 */
struct transport_peer {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	socklen_t length;
	union {
		struct in_addr v4;
		struct in6_addr v6;
	} local;
	u32 device;
};

/**
 * struct transport_slot - a packet in a batch
 * @peer: its endpoints
 * @data: the packet
 * @length: octets of it
 */
struct transport_slot {
	struct transport_peer peer;
	u8 data[SLBN_LENGTH_MAX + 64];
	size_t length;
};

/**
 * struct transport - the sockets
 * @fd: for IPv4 and IPv6; -1: not supported by this system
 * @keyed: packets are authenticated
 * @key: the domain's key
 * @queued: packets in @out
 * @out: batches to send
 */
struct transport {
	int fd[2];
	bool keyed;
	u8 key[SIPHASH_KEY_LENGTH];
	u32 queued[2];
	struct transport_slot out[2][TRANSPORT_BATCH];
};

int transport_open(struct transport *transport);
void transport_close(struct transport *transport);
u32 transport_length(const struct transport *transport,
		     const struct slbn_flow *flow,
		     const struct slbn_packet *pkt);
void transport_send(struct transport *transport, const struct slbn_flow *flow,
		    const struct slbn_packet *pkt,
		    const struct slbn_slot *hops);
void transport_reply(struct transport *transport, u8 *data,
		     const struct slbn_layout *layout,
		     const struct transport_peer *to);
void transport_flush(struct transport *transport);
bool transport_authentic(const struct transport *transport, u8 *data,
			 const struct slbn_layout *layout);
bool transport_receive(struct transport *transport,
		       void (*each)(void *context, u8 *data, size_t length,
				    const struct transport_peer *from),
		       void *context);

#endif /* SLBND_TRANSPORT_H */
