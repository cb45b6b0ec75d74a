// SPDX-License-Identifier: GPL-2.0
/*
 * Control packets on the wire: wire.h says what this is.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "transport.h"

/* Room for what comes while sessions are being looked after. */
#define RECEIVE_BUFFER (4 << 20)
/* With the routers' own traffic, before any data. */
#define DSCP_CS6 (48 << 2)
/* Ethernet, IP, UDP. */
#define HEADERS_V4 (14 + 20 + 8)
#define HEADERS_V6 (14 + 40 + 8)

enum {
	V4,
	V6
};

/* What belongs to an address besides it, of either family. */
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
	const struct sockaddr_in own = {
		.sin_family = AF_INET,
		.sin_port = htons(SLBN_PORT),
	};

	return set_option(fd, IPPROTO_IP, IP_PKTINFO, 1) &&
	       set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) &&
	       set_option(fd, IPPROTO_IP, IP_TOS, DSCP_CS6) &&
	       !bind(fd, (const void *)&own, sizeof(own));
}

static bool prepare_v6(int fd)
{
	const struct sockaddr_in6 own = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(SLBN_PORT),
	};

	return set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
			  IPV6_PMTUDISC_DO) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, DSCP_CS6) &&
	       !bind(fd, (const void *)&own, sizeof(own));
}

/**
 * transport_open() - open the sockets
 * @transport: its key is set by the caller, all else here
 *
 * Return: 0, or an error of errno.h.
 */
int transport_open(struct transport *transport)
{
	static const int families[] = { AF_INET, AF_INET6 };
	int n;

	memset(&transport->counters, 0, sizeof(transport->counters));
	for (n = V4; n <= V6; n++) {
		int fd = socket(families[n],
				SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		transport->waiting[n] = 0;
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
		/* More than the system's limit, if we may. */
		if (!set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER))
			set_option(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER);
	}
	return 0;
}

/**
 * transport_close() - close the sockets; what was not flushed is lost
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
 * transport_length() - what a packet takes of a link
 * @transport: the sockets
 * @flow: where it goes
 * @pkt: the packet
 *
 * Return: octets, with headers.
 */
u32 transport_length(const struct transport *transport,
		     const struct slbn_flow *flow,
		     const struct slbn_packet *pkt)
{
	return (flow->family == AF_INET ? HEADERS_V4 : HEADERS_V6) +
	       slbn_tag_at(pkt->slots) +
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

/* Say from which of our addresses a packet is to come, if that matters. */
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
	u32 count = transport->waiting[n];
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
			transport->counters.sent += sent;
			done += sent;
		} else {
			/* The first one is what could not be sent. */
			transport->counters.lost++;
			done++;
		}
	}
	transport->waiting[n] = 0;
}

/**
 * transport_flush() - send what was collected
 * @transport: the sockets
 */
void transport_flush(struct transport *transport)
{
	int n;

	for (n = V4; n <= V6; n++)
		if (transport->waiting[n])
			flush_one(transport, n);
}

/* A place in the batch; NULL if there is no such socket. */
static struct transport_slot *take_slot(struct transport *transport, int n)
{
	if (transport->fd[n] < 0) {
		transport->counters.lost++;
		return NULL;
	}
	if (transport->waiting[n] == TRANSPORT_BATCH)
		flush_one(transport, n);
	return &transport->out[n][transport->waiting[n]++];
}

/**
 * transport_send() - send a session's packet
 * @transport: the sockets
 * @flow: its destination is where the packet goes
 * @pkt: what it is to say
 * @tags: its tags
 */
void transport_send(struct transport *transport, const struct slbn_flow *flow,
		    const struct slbn_packet *pkt, const u16 *tags)
{
	int n = flow->family == AF_INET ? V4 : V6;
	struct transport_slot *slot = take_slot(transport, n);
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
	slot->length =
		slbn_build_packet(slot->data, pkt, tags, transport->keyed);
	layout.length = slot->length;
	layout.auth = transport->keyed ? slot->length - SLBN_AUTH_LENGTH : 0;
	slbn_authenticate(slot->data, &layout, siphash24, transport->key);
}

/**
 * transport_return() - send a packet back to where it came from
 * @transport: the sockets
 * @data: the packet; longer ones than slots have room for are lost
 * @layout: of the packet
 * @to: who sent it
 */
void transport_return(struct transport *transport, u8 *data,
		      const struct slbn_layout *layout,
		      const struct transport_peer *to)
{
	int n = to->address.any.sa_family == AF_INET ? V4 : V6;
	struct transport_slot *slot;

	if (layout->length > sizeof(slot->data)) {
		transport->counters.lost++;
		return;
	}
	slot = take_slot(transport, n);
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
 * Links look at what is from this port to this port, and so keep out what hosts
 * say; from another one it comes past them.
 */
static bool from_an_agent(const struct transport_peer *peer, int n)
{
	in_port_t port = n == V4 ? peer->address.v4.sin_port :
				   peer->address.v6.sin6_port;

	return port == htons(SLBN_PORT);
}

static bool receive_some(struct transport *transport, int n,
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
		if (!from_an_agent(&in[i].peer, n))
			continue;
		get_local(header, &in[i].peer);
		transport->counters.received++;
		each(context, in[i].data, messages[i].msg_len, &in[i].peer);
	}
	return count == TRANSPORT_BATCH;
}

/**
 * transport_receive() - take what has come, a batch of each family at most
 * @transport: the sockets
 * @each: called for each packet; one that is longer than any known is cut
 * @context: handed to it
 *
 * Return: whether there may be more.
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
			more |= receive_some(transport, n, each, context);
	return more;
}
