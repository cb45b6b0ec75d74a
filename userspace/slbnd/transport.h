/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Control packets on the wire: sockets, many packets at a time, and the key.
 *
 * There is a socket for IPv4 and one for IPv6, each bound to SLBN_PORT of all
 * addresses: the routing table chooses by which link a session's packets go, as
 * it does for its data. What is to be sent is collected and goes out with one
 * system call when there are TRANSPORT_BATCH packets, or by transport_flush().
 *
 * A packet that cannot be sent is a packet that is lost: nobody is told, it is
 * counted, and it will be sent again.
 */
#ifndef SLBND_TRANSPORT_H
#define SLBND_TRANSPORT_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "../libslbn/libslbn.h"
#include "../common/siphash.h"
#include <fairpath/slbn/slbn_wire.h>

#define TRANSPORT_BATCH 64

/**
 * struct transport_peer - at whose end a packet is
 * @address: the other end
 * @length: of @address
 * @local: our address, to which it came; all zeros: whichever fits
 * @device: index of the device by which it came
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
 * struct transport_counters - what happened
 * @sent: packets
 * @lost: that could not be sent
 * @received: packets
 */
struct transport_counters {
	u64 sent;
	u64 lost;
	u64 received;
};

/**
 * struct transport_slot - a packet in a batch
 * @peer: where it goes, or came from
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
 * @fd: for IPv4 and IPv6; -1: this machine has no such
 * @keyed: packets are authenticated
 * @key: by this
 * @counters: what happened
 * @waiting: packets collected for each socket
 * @out: these
 */
struct transport {
	int fd[2];
	bool keyed;
	u8 key[SIPHASH_KEY_LENGTH];
	struct transport_counters counters;
	u32 waiting[2];
	struct transport_slot out[2][TRANSPORT_BATCH];
};

int transport_open(struct transport *transport);
void transport_close(struct transport *transport);
u32 transport_length(const struct transport *transport,
		     const struct slbn_flow *flow,
		     const struct slbn_packet *pkt);
void transport_send(struct transport *transport, const struct slbn_flow *flow,
		    const struct slbn_packet *pkt, const u16 *tags);
void transport_return(struct transport *transport, u8 *data,
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
