// SPDX-License-Identifier: GPL-2.0
/*
 * UDP sockets for control packets. See transport.h.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "transport.h"

/* Packets may arrive while slbnd is busy with its sessions, octets. */
#define RECEIVE_BUFFER (4 << 20)
/* Network control traffic (RFC 4594), before any data. */
#define DSCP_CS6 (48 << 2)
/* Octets of Ethernet, IP and UDP headers. */
#define HEADERS_V4 (14 + 20 + 8)
#define HEADERS_V6 (14 + 40 + 8)

enum {
	V4,
	V6
};

/* Ancillary data: the local address and device. */
union control {
	struct cmsghdr align;
	u8 v4[CMSG_SPACE(sizeof(struct in_pktinfo))];
	u8 v6[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

static bool set_option(int fd, int level, int option, int value)
{
	return !setsockopt(fd, level, option, &value, sizeof(value));
}

static bool prepare_v4(int fd)
{
	const struct sockaddr_in local = {
		.sin_family = AF_INET,
		.sin_port = htons(SLBN_PORT),
	};

	return set_option(fd, IPPROTO_IP, IP_PKTINFO, 1) &&
	       set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) &&
	       set_option(fd, IPPROTO_IP, IP_TOS, DSCP_CS6) &&
	       !bind(fd, (const void *)&local, sizeof(local));
}

static bool prepare_v6(int fd)
{
	const struct sockaddr_in6 local = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(SLBN_PORT),
	};

	return set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
			  IPV6_PMTUDISC_DO) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, DSCP_CS6) &&
	       !bind(fd, (const void *)&local, sizeof(local));
}

/**
 * transport_open() - open the sockets
 * @transport: the caller sets its key
 *
 * Return: 0, or a positive errno.
 */
int transport_open(struct transport *transport)
{
	static const int families[] = { AF_INET, AF_INET6 };
	int n;

	for (n = V4; n <= V6; n++) {
		int fd = socket(families[n],
				SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		transport->queued[n] = 0;
		transport->fd[n] = fd;
		if (fd < 0 && n == V6 && errno == EAFNOSUPPORT)
			continue;
		if (fd < 0 || !(n == V4 ? prepare_v4(fd) : prepare_v6(fd))) {
			int error = errno;

			if (n == V4)
				transport->fd[V6] = -1;
			transport_close(transport);
			return error;
		}
		/* Above the system's limit, if privileged. */
		if (!set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER))
			set_option(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER);
	}
	return 0;
}

/**
 * transport_close() - close the sockets; queued packets are lost
 * @transport: the sockets
 */
void transport_close(struct transport *transport)
{
	int n;

	for (n = V4; n <= V6; n++) {
		if (transport->fd[n] >= 0)
			close(transport->fd[n]);
		transport->fd[n] = -1;
	}
}

/**
 * transport_length() - the length of a packet on the wire
 * @transport: the sockets
 * @flow: its destination
 * @pkt: the packet
 *
 * Return: octets, with Ethernet, IP and UDP headers.
 */
u32 transport_length(const struct transport *transport,
		     const struct slbn_flow *flow,
		     const struct slbn_packet *pkt)
{
	return (flow->family == AF_INET ? HEADERS_V4 : HEADERS_V6) +
	       slbn_length(pkt->slots) +
	       (transport->keyed ? SLBN_OPTION_HEAD + SLBN_AUTH_LENGTH : 0);
}

/**
 * transport_authentic() - check the authentication of a received packet
 * @transport: the sockets
 * @data: a packet that slbn_parse_packet() accepted
 * @layout: its layout
 *
 * Return: whether a router of the domain sent it; without a key, whether it is
 * not authenticated.
 */
bool transport_authentic(const struct transport *transport, u8 *data,
			 const struct slbn_layout *layout)
{
	return slbn_is_authentic(data, layout, siphash24,
				 transport->keyed ? transport->key : NULL);
}

/* Select the local address of a packet, unless the routing table is to. */
static void put_local(struct msghdr *header, union control *control,
		      const struct transport_slot *slot, int n)
{
	const struct transport_peer *peer = &slot->peer;
	struct cmsghdr *message;

	if (n == V4 ? !peer->local.v4.s_addr :
		      IN6_IS_ADDR_UNSPECIFIED(&peer->local.v6))
		return;
	memset(control, 0, sizeof(*control));
	header->msg_control = control;
	header->msg_controllen =
		n == V4 ? sizeof(control->v4) : sizeof(control->v6);
	message = CMSG_FIRSTHDR(header);
	if (n == V4) {
		struct in_pktinfo info = { .ipi_spec_dst = peer->local.v4 };

		message->cmsg_level = IPPROTO_IP;
		message->cmsg_type = IP_PKTINFO;
		message->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(message), &info, sizeof(info));
	} else {
		struct in6_pktinfo info = { .ipi6_addr = peer->local.v6 };

		message->cmsg_level = IPPROTO_IPV6;
		message->cmsg_type = IPV6_PKTINFO;
		message->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(message), &info, sizeof(info));
	}
}

static void flush_one(struct transport *transport, int n)
{
	struct mmsghdr messages[TRANSPORT_BATCH] = {};
	union control control[TRANSPORT_BATCH];
	struct iovec data[TRANSPORT_BATCH];
	u32 count = transport->queued[n];
	u32 done = 0;
	u32 i;

	for (i = 0; i < count; i++) {
		struct transport_slot *slot = &transport->out[n][i];
		struct msghdr *header = &messages[i].msg_hdr;

		data[i].iov_base = slot->data;
		data[i].iov_len = slot->length;
		header->msg_name = &slot->peer.address;
		header->msg_namelen = slot->peer.length;
		header->msg_iov = &data[i];
		header->msg_iovlen = 1;
		put_local(header, &control[i], slot, n);
	}
	while (done < count) {
		int sent = sendmmsg(transport->fd[n], messages + done,
				    count - done, 0);

		if (sent > 0) {
			done += sent;
		} else {
			/* sendmmsg() fails if the first packet does: skip it. */
			done++;
		}
	}
	transport->queued[n] = 0;
}

/**
 * transport_flush() - send the queued packets
 * @transport: the sockets
 */
void transport_flush(struct transport *transport)
{
	int n;

	for (n = V4; n <= V6; n++)
		if (transport->queued[n])
			flush_one(transport, n);
}

/* A free slot of a batch; NULL: there is no such socket. */
static struct transport_slot *allocate_slot(struct transport *transport, int n)
{
	if (transport->fd[n] < 0)
		return NULL;
	if (transport->queued[n] == TRANSPORT_BATCH)
		flush_one(transport, n);
	return &transport->out[n][transport->queued[n]++];
}

/**
 * transport_send() - queue a packet of a session
 * @transport: the sockets
 * @flow: its destination is that of the packet
 * @pkt: the packet
 * @hops: its slots, pkt->slots of them
 */
void transport_send(struct transport *transport, const struct slbn_flow *flow,
		    const struct slbn_packet *pkt, const struct slbn_slot *hops)
{
	int n = flow->family == AF_INET ? V4 : V6;
	struct transport_slot *slot = allocate_slot(transport, n);
	struct slbn_layout layout;

	if (!slot)
		return;
	memset(&slot->peer, 0, sizeof(slot->peer));
	if (n == V4) {
		slot->peer.address.v4.sin_family = AF_INET;
		slot->peer.address.v4.sin_port = htons(SLBN_PORT);
		memcpy(&slot->peer.address.v4.sin_addr, flow->destination, 4);
		slot->peer.length = sizeof(slot->peer.address.v4);
	} else {
		slot->peer.address.v6.sin6_family = AF_INET6;
		slot->peer.address.v6.sin6_port = htons(SLBN_PORT);
		memcpy(&slot->peer.address.v6.sin6_addr, flow->destination, 16);
		slot->peer.length = sizeof(slot->peer.address.v6);
	}
	slbn_build_packet(slot->data, pkt, hops, transport->keyed, &layout);
	slot->length = layout.length;
	slbn_authenticate(slot->data, &layout, siphash24, transport->key);
}

/**
 * transport_reply() - queue a packet to the sender of a received one
 * @transport: the sockets
 * @data: the packet; dropped if it is longer than a slot
 * @layout: its layout
 * @to: the endpoints of the received packet
 */
void transport_reply(struct transport *transport, u8 *data,
		     const struct slbn_layout *layout,
		     const struct transport_peer *to)
{
	int n = to->address.any.sa_family == AF_INET ? V4 : V6;
	struct transport_slot *slot;

	if (layout->length > sizeof(slot->data))
		return;
	slot = allocate_slot(transport, n);
	if (!slot)
		return;
	slbn_authenticate(data, layout, siphash24, transport->key);
	slot->peer = *to;
	memcpy(slot->data, data, layout->length);
	slot->length = layout->length;
}

static void get_local(struct msghdr *header, struct transport_peer *peer)
{
	struct cmsghdr *message;

	memset(&peer->local, 0, sizeof(peer->local));
	peer->device = 0;
	for (message = CMSG_FIRSTHDR(header); message;
	     message = CMSG_NXTHDR(header, message)) {
		if (message->cmsg_level == IPPROTO_IP &&
		    message->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(message), sizeof(info));
			peer->local.v4 = info.ipi_spec_dst;
			peer->device = info.ipi_ifindex;
		} else if (message->cmsg_level == IPPROTO_IPV6 &&
			   message->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(message), sizeof(info));
			peer->local.v6 = info.ipi6_addr;
			peer->device = info.ipi6_ifindex;
		}
	}
}

/*
 * Links process, and at the edge drop, packets from SLBN_PORT to SLBN_PORT only:
 * packets from other ports may come from hosts.
 */
static bool is_from_slbn_port(const struct transport_peer *peer, int n)
{
	in_port_t port = n == V4 ? peer->address.v4.sin_port :
				   peer->address.v6.sin6_port;

	return port == htons(SLBN_PORT);
}

static bool receive_batch(struct transport *transport, int n,
			  void (*each)(void *context, u8 *data, size_t length,
				       const struct transport_peer *from),
			  void *context)
{
	static struct transport_slot in[TRANSPORT_BATCH];
	struct mmsghdr messages[TRANSPORT_BATCH] = {};
	union control control[TRANSPORT_BATCH];
	struct iovec data[TRANSPORT_BATCH];
	int count;
	int i;

	for (i = 0; i < TRANSPORT_BATCH; i++) {
		struct msghdr *header = &messages[i].msg_hdr;

		data[i].iov_base = in[i].data;
		data[i].iov_len = sizeof(in[i].data);
		header->msg_name = &in[i].peer.address;
		header->msg_namelen = sizeof(in[i].peer.address);
		header->msg_iov = &data[i];
		header->msg_iovlen = 1;
		header->msg_control = &control[i];
		header->msg_controllen = sizeof(control[i]);
	}
	count = recvmmsg(transport->fd[n], messages, TRANSPORT_BATCH, 0, NULL);
	for (i = 0; i < count; i++) {
		struct msghdr *header = &messages[i].msg_hdr;

		in[i].peer.length = header->msg_namelen;
		if (!is_from_slbn_port(&in[i].peer, n))
			continue;
		get_local(header, &in[i].peer);
		each(context, in[i].data, messages[i].msg_len, &in[i].peer);
	}
	return count == TRANSPORT_BATCH;
}

/**
 * transport_receive() - receive at most one batch of each address family
 * @transport: the sockets
 * @each: called for each packet, truncated to the size of a slot
 * @context: passed to @each
 *
 * Return: whether more packets may be waiting.
 */
bool transport_receive(struct transport *transport,
		       void (*each)(void *context, u8 *data, size_t length,
				    const struct transport_peer *from),
		       void *context)
{
	bool more = false;
	int n;

	for (n = V4; n <= V6; n++)
		if (transport->fd[n] >= 0)
			more |= receive_batch(transport, n, each, context);
	return more;
}
