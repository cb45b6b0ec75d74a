// SPDX-License-Identifier: GPL-2.0
/*
 * UDP sockets for control packets. See transport.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "transport.h"

/* Packets may arrive while slbnd is busy with its sessions, octets. */
#define RECEIVE_BUFFER (4 << 20)
/* Octets of Ethernet, IP and UDP headers. */
#define HEADERS_V4 (14 + 20 + 8)
#define HEADERS_V6 (14 + 40 + 8)

/*
 * How long a source address is cached, ns. If it is removed from this router
 * earlier, sending fails, and it is looked up again.
 */
#define SOURCE_LIFETIME 1000000000ULL

enum {
	V4,
	V6
};

/* Ancillary data: the local address and device, the mark, and the DSCP with ECN. */
union control {
	struct cmsghdr align;
	u8 octets[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
		  CMSG_SPACE(sizeof(u32)) + CMSG_SPACE(sizeof(int))];
};

static u64 coarse_time(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/*
 * Replies per second to a return address, without a key: as many as an agent begins
 * cycles. Anybody can write a return address into a packet.
 */
#define MAX_REPLIES 10000

static bool set_option(int fd, int level, int option, int value)
{
	return !setsockopt(fd, level, option, &value, sizeof(value));
}

/* Options that affect the route of packets: for all sockets. */
static bool set_class(int fd, int n)
{
	int value = TRANSPORT_DSCP << 2;

	return n == V4 ? set_option(fd, IPPROTO_IP, IP_TOS, value) :
			 set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, value);
}

static int open_socket(int n)
{
	int fd = socket(n == V4 ? AF_INET : AF_INET6,
			SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || set_class(fd, n))
		return fd;
	close(fd);
	return -1;
}

static bool bind_v4(int fd)
{
	const struct sockaddr_in local = {
		.sin_family = AF_INET,
		.sin_port = htons(SLBN_PORT),
	};

	return !bind(fd, (const void *)&local, sizeof(local));
}

static bool bind_v6(int fd)
{
	const struct sockaddr_in6 local = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(SLBN_PORT),
	};

	return set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
	       !bind(fd, (const void *)&local, sizeof(local));
}

static bool prepare_v4(int fd)
{
	return set_option(fd, IPPROTO_IP, IP_TRANSPARENT, 1) &&
	       set_option(fd, IPPROTO_IP, IP_TTL, TRANSPORT_TTL) &&
	       set_option(fd, IPPROTO_IP, IP_PKTINFO, 1) &&
	       set_option(fd, IPPROTO_IP, IP_RECVTOS, 1) &&
	       set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
}

static bool prepare_v6(int fd)
{
	/* By default the flow label is a hash of the ports, unlike the data's. */
	return set_option(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, TRANSPORT_TTL) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) &&
	       set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
			  IPV6_PMTUDISC_DO);
}

static int get_option(int fd, int level, int option)
{
	socklen_t length = sizeof(int);
	int value;

	return getsockopt(fd, level, option, &value, &length) ? -1 : value;
}

/* Is it a socket as bind_v4() and bind_v6() bind them? */
static bool is_bound(int fd, int n)
{
	static const struct in6_addr any;
	struct sockaddr_in6 local = {};
	socklen_t length = sizeof(local);
	const struct sockaddr_in *v4 = (const void *)&local;

	if (get_option(fd, SOL_SOCKET, SO_DOMAIN) !=
		    (n == V4 ? AF_INET : AF_INET6) ||
	    get_option(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_UDP ||
	    getsockname(fd, (void *)&local, &length))
		return false;
	if (n == V4)
		return v4->sin_port == htons(SLBN_PORT) &&
		       v4->sin_addr.s_addr == htonl(INADDR_ANY);
	return local.sin6_port == htons(SLBN_PORT) &&
	       !memcmp(&local.sin6_addr, &any, sizeof(any)) &&
	       get_option(fd, IPPROTO_IPV6, IPV6_V6ONLY) == 1;
}

/*
 * Use a socket that the service manager passes. With SO_REUSEADDR, which systemd's
 * socket units set, another user could bind this port of one address, too.
 */
static bool adopt_socket(struct transport *transport, int fd)
{
	int n;

	for (n = V4; n <= V6; n++) {
		if (transport->fd[n] >= 0 || !is_bound(fd, n))
			continue;
		transport->fd[n] = fd;
		return !fcntl(fd, F_SETFD, FD_CLOEXEC) &&
		       !fcntl(fd, F_SETFL, O_NONBLOCK) &&
		       set_option(fd, SOL_SOCKET, SO_REUSEADDR, 0) &&
		       set_class(fd, n);
	}
	errno = EPROTOTYPE;
	return false;
}

static bool open_family(struct transport *transport, int n)
{
	int fd = transport->fd[n];

	if (fd < 0) {
		fd = open_socket(n);
		transport->fd[n] = fd;
		if (fd < 0)
			return n == V6 && errno == EAFNOSUPPORT;
		if (!(n == V4 ? bind_v4(fd) : bind_v6(fd)))
			return false;
	}
	if (!(n == V4 ? prepare_v4(fd) : prepare_v6(fd)))
		return false;
	/* Exceed the system's limit, if privileged. */
	if (!set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER))
		set_option(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER);
	transport->lookup[n] = open_socket(n);
	return transport->lookup[n] >= 0;
}

/**
 * transport_open() - open the sockets
 * @transport: the caller sets its keys; the rest is 0
 * @first: descriptor of the first socket that a service manager passes
 * @count: number of these sockets; an address family without one gets a new one
 *
 * Return: 0, or a positive errno: EPROTOTYPE: one of these is no UDP socket of
 * SLBN_PORT and all addresses, or there are two of a family.
 */
int transport_open(struct transport *transport, int first, int count)
{
	bool opened = true;
	int n;

	/* Fails only on kernels without this system call. */
	if (getrandom(transport->salt, sizeof(transport->salt), 0) !=
	    sizeof(transport->salt))
		abort();
	for (n = V4; n <= V6; n++) {
		transport->fd[n] = -1;
		transport->lookup[n] = -1;
	}
	for (n = first; opened && n < first + count; n++)
		opened = adopt_socket(transport, n);
	for (n = V4; opened && n <= V6; n++)
		opened = open_family(transport, n);
	if (!opened) {
		int error = errno;

		transport_close(transport);
		return error;
	}
	return 0;
}

/*
 * A line of /proc/net/udp has, after a number, both addresses with ports, state, two
 * pairs of queues and timers, retransmissions, and the user ID.
 */
static bool find_owner(const char *path, uid_t *uid)
{
	FILE *file = fopen(path, "re");
	unsigned int port, owner;
	bool found = false;
	char line[256];

	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line,
			       "%*d: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %u",
			       &port, &owner) == 2 &&
			port == SLBN_PORT;
	if (file)
		fclose(file);
	if (found)
		*uid = owner;
	return found;
}

/**
 * transport_find_owner() - whose socket has the port?
 * @uid: set to its user ID
 *
 * Return: false: none has it anymore.
 */
bool transport_find_owner(uid_t *uid)
{
	return find_owner("/proc/net/udp", uid) ||
	       find_owner("/proc/net/udp6", uid);
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
		if (transport->lookup[n] >= 0)
			close(transport->lookup[n]);
		transport->fd[n] = -1;
		transport->lookup[n] = -1;
	}
}

static int add_key(struct slbn_keys *keys, const struct slbn_key *key,
		   bool accept_only)
{
	const struct slbn_key *known = slbn_key_find(keys, key->id);

	if (known) {
		if (memcmp(known->secret, key->secret, sizeof(key->secret)))
			return -EEXIST;
		if (!accept_only && known != &keys->key[keys->count - 1]) {
			keys->key[0] = keys->key[1];
			keys->key[1] = *key;
		}
		return 0;
	}
	if (!slbn_key_add(keys, key))
		return -ENOSPC;
	if (accept_only && keys->count > 1) {
		keys->key[1] = keys->key[0];
		keys->key[0] = *key;
	}
	return 0;
}

/**
 * transport_add_key() - add a key, or sign with it from now on
 * @transport: the sockets
 * @id: its number
 * @secret: SIPHASH_KEY_LENGTH octets
 * @accept_only: accept packets with it, but sign with the present one
 *
 * Return: 0; -EEXIST: another key has this number; -ENOSPC: there are
 * SLBN_KEYS_MAX others.
 */
int transport_add_key(struct transport *transport, u8 id, const u8 *secret,
		      bool accept_only)
{
	struct slbn_key key = { .id = id };
	int error;

	memcpy(key.secret, secret, sizeof(key.secret));
	error = add_key(&transport->keys, &key, accept_only);
	explicit_bzero(&key, sizeof(key));
	return error;
}

/**
 * transport_retire_key() - remove a key
 * @transport: the sockets
 * @id: its number
 *
 * Return: 0; -ENOENT: there is no such key; -EBUSY: it is the only one.
 */
int transport_retire_key(struct transport *transport, u8 id)
{
	if (!slbn_key_find(&transport->keys, id))
		return -ENOENT;
	return slbn_key_retire(&transport->keys, id) ? 0 : -EBUSY;
}

/*
 * A Leave needs no share. If the path cannot carry the longer packet, a retransmission
 * passes.
 */
static bool asks_for_share(const struct slbn_packet *pkt)
{
	return pkt->type != SLBN_LEAVE && !pkt->again;
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
	       slbn_length(pkt->slots, flow->family == AF_INET ?
					       SLBN_SLOT_LENGTH_V4 :
					       SLBN_SLOT_LENGTH_V6) +
	       (transport->keys.count ? SLBN_OPTION_HEAD + SLBN_AUTH_LENGTH :
					0) +
	       (asks_for_share(pkt) ? SLBN_OPTION_HEAD + SLBN_SHARE_LENGTH : 0);
}

/* Addresses of a packet, source before destination, and the time now. */
struct carrier {
	struct slbn_carrier slbn;
	u8 addresses[2 * sizeof(struct in6_addr)];
};

static const void *remote_address(const struct transport_peer *peer)
{
	return peer->address.any.sa_family == AF_INET ?
		       (const void *)&peer->address.v4.sin_addr :
		       (const void *)&peer->address.v6.sin6_addr;
}

static const struct slbn_carrier *get_carrier(struct carrier *carrier,
					      const struct transport_peer *peer,
					      bool sent)
{
	const void *remote = remote_address(peer);
	const void *local = &peer->local;
	u32 length = peer->address.any.sa_family == AF_INET ? 4 : 16;

	memcpy(carrier->addresses, sent ? local : remote, length);
	memcpy(carrier->addresses + length, sent ? remote : local, length);
	carrier->slbn = (struct slbn_carrier){
		.addresses = carrier->addresses,
		.length = 2 * length,
		.time = coarse_time(CLOCK_REALTIME_COARSE) / 1000000000,
	};
	return &carrier->slbn;
}

/**
 * transport_authentic() - check the authentication of a received packet
 * @transport: the sockets; counts the packet if it must be dropped
 * @data: a packet that slbn_parse_packet() accepted
 * @layout: its layout
 * @from: its endpoints
 * @key: set to its key; NULL: it is not authenticated
 *
 * Return: whether a source of the domain sent it lately; without a key, whether
 * it is not authenticated.
 */
bool transport_authentic(struct transport *transport, u8 *data,
			 const struct slbn_layout *layout,
			 const struct transport_peer *from,
			 const struct slbn_key **key)
{
	struct transport_drops *drops = &transport->drops;
	const struct slbn_carrier *slbn;
	struct carrier carrier;
	const u8 *auth;

	slbn = get_carrier(&carrier, from, false);
	switch (slbn_check_authentication(data, layout, siphash24,
					  &transport->keys, slbn, key)) {
	case SLBN_AUTH_OK:
		return true;
	case SLBN_AUTH_MISSING:
	case SLBN_AUTH_BAD_HASH:
		drops->bad_key++;
		return false;
	case SLBN_AUTH_UNKNOWN_KEY:
		drops->unknown_key++;
		return false;
	case SLBN_AUTH_BAD_TIME:
		auth = slbn_auth_value(data, layout);
		drops->bad_time++;
		drops->clock_difference =
			(s32)(slbn->time -
			      slbn_get32(auth +
					 offsetof(struct slbn_auth, time)));
		return false;
	}
	return false;
}

/* The place of a destination in the cache. */
static struct transport_source *find_source(struct transport *transport, int n,
					    const struct transport_peer *peer)
{
	const u8 *address = remote_address(peer);
	u32 hash = 0;
	int i;

	for (i = 0; i < (n == V4 ? 4 : 16); i++)
		hash = hash * 31 + address[i];
	return &transport->source[n][hash % TRANSPORT_SOURCES];
}

/* The source address that the routing table selects for a destination. */
static bool look_up_source(int fd, const struct transport_peer *peer,
			   union transport_address *local)
{
	static const struct sockaddr disconnect = { .sa_family = AF_UNSPEC };
	struct transport_peer ours = {};
	socklen_t length = sizeof(ours.address);

	/* A connected socket would keep its address. */
	if (connect(fd, &disconnect, sizeof(disconnect)) ||
	    connect(fd, &peer->address.any, peer->length) ||
	    getsockname(fd, &ours.address.any, &length))
		return false;
	memset(local, 0, sizeof(*local));
	if (ours.address.any.sa_family == AF_INET)
		local->v4 = ours.address.v4.sin_addr;
	else
		local->v6 = ours.address.v6.sin6_addr;
	return true;
}

/* Set the source address of a packet. Returns false if there is no route. */
static bool set_source(struct transport *transport, int n,
		       struct transport_peer *peer)
{
	struct transport_source *source = find_source(transport, n, peer);
	u64 now = coarse_time(CLOCK_MONOTONIC_COARSE);
	u32 length = n == V4 ? 4 : 16;

	if (source->until <= now ||
	    memcmp(&source->destination, remote_address(peer), length)) {
		source->until = 0;
		if (!look_up_source(transport->lookup[n], peer, &source->local))
			return false;
		memcpy(&source->destination, remote_address(peer), length);
		source->until = now + SOURCE_LIFETIME;
	}
	peer->local = source->local;
	return true;
}

static void put_message(struct msghdr *header, int level, int type,
			const void *value, size_t length)
{
	struct cmsghdr *message =
		(void *)((u8 *)header->msg_control + header->msg_controllen);

	header->msg_controllen += CMSG_SPACE(length);
	message->cmsg_level = level;
	message->cmsg_type = type;
	message->cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(message), value, length);
}

/* Select the source address, the mark and the DSCP of a packet. */
static void put_control(struct msghdr *header, union control *control,
			const struct transport_slot *slot, int n)
{
	const struct transport_peer *peer = &slot->peer;
	const struct in_pktinfo v4 = { .ipi_spec_dst = peer->local.v4 };
	const struct in6_pktinfo v6 = { .ipi6_addr = peer->local.v6 };
	const int class = peer->dscp << 2;

	memset(control, 0, sizeof(*control));
	header->msg_control = control;
	if (n == V4)
		put_message(header, IPPROTO_IP, IP_PKTINFO, &v4, sizeof(v4));
	else
		put_message(header, IPPROTO_IPV6, IPV6_PKTINFO, &v6,
			    sizeof(v6));
	if (slot->mark)
		put_message(header, SOL_SOCKET, SO_MARK, &slot->mark,
			    sizeof(slot->mark));
	if (peer->dscp != TRANSPORT_DSCP)
		put_message(header, n == V4 ? IPPROTO_IP : IPPROTO_IPV6,
			    n == V4 ? IP_TOS : IPV6_TCLASS, &class,
			    sizeof(class));
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
		put_control(header, &control[i], slot, n);
	}
	while (done < count) {
		int sent = sendmmsg(transport->fd[n], messages + done,
				    count - done, 0);

		if (sent > 0) {
			done += sent;
			transport->sent += sent;
		} else {
			/*
			 * sendmmsg() fails if the first packet does: skip it.
			 * The route may have changed, and the source with it.
			 */
			find_source(transport, n, &transport->out[n][done].peer)
				->until = 0;
			done++;
			transport->unsent++;
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

/* A free slot of a batch. */
static struct transport_slot *allocate_slot(struct transport *transport, int n)
{
	if (transport->queued[n] == TRANSPORT_BATCH)
		flush_one(transport, n);
	return &transport->out[n][transport->queued[n]++];
}

static void set_address(struct transport_peer *peer, int n, const u8 *address)
{
	memset(&peer->address, 0, sizeof(peer->address));
	if (n == V4) {
		peer->address.v4.sin_family = AF_INET;
		peer->address.v4.sin_port = htons(SLBN_PORT);
		memcpy(&peer->address.v4.sin_addr, address, 4);
		peer->length = sizeof(peer->address.v4);
	} else {
		peer->address.v6.sin6_family = AF_INET6;
		peer->address.v6.sin6_port = htons(SLBN_PORT);
		memcpy(&peer->address.v6.sin6_addr, address, 16);
		peer->length = sizeof(peer->address.v6);
	}
}

/**
 * transport_send() - queue a packet of a session
 * @transport: the sockets
 * @flow: its source and destination are those of the packet; without a source it
 *	is our own address
 * @mark: of the packet, for the routing table; 0: none
 * @dscp: of the packet, usually TRANSPORT_DSCP
 * @pkt: the packet
 * @hops: its slots, pkt->slots of them
 * @traced: hop whose link is to report its state; SLBN_NO_HOP: none
 */
void transport_send(struct transport *transport, const struct slbn_flow *flow,
		    u32 mark, u8 dscp, const struct slbn_packet *pkt,
		    const struct slbn_slot *hops, u8 traced)
{
	static const u8 any[sizeof(flow->source)];
	int n = flow->family == AF_INET ? V4 : V6;
	const struct slbn_keys *keys = &transport->keys;
	struct transport_peer peer = { .dscp = dscp };
	union transport_address origin;
	struct transport_slot *slot;
	struct slbn_layout layout;
	struct carrier carrier;

	set_address(&peer, n, flow->destination);
	if (transport->fd[n] < 0 || !set_source(transport, n, &peer)) {
		transport->unsent++;
		return;
	}
	origin = peer.local;
	if (memcmp(flow->source, any, sizeof(any)))
		memcpy(&peer.local, flow->source, sizeof(peer.local));
	slot = allocate_slot(transport, n);
	slot->peer = peer;
	slot->mark = mark;
	slbn_build_packet(slot->data, pkt, hops, (const u8 *)&origin, n == V6,
			  keys->count, &layout);
	if (asks_for_share(pkt))
		slbn_add_share(slot->data, &layout, pkt);
	if (traced != SLBN_NO_HOP)
		slbn_add_trace(slot->data, &layout, traced);
	slot->length = layout.length;
	if (keys->count)
		slbn_authenticate(slot->data, &layout, siphash24,
				  &keys->key[keys->count - 1],
				  get_carrier(&carrier, &peer, true));
}

/**
 * transport_cookie() - identify a socket
 * @transport: the sockets
 * @n: 0: for IPv4, 1: for IPv6
 *
 * Return: a number that no other socket has; 0: there is none.
 */
u64 transport_cookie(const struct transport *transport, int n)
{
	u64 cookie = 0;
	socklen_t length = sizeof(cookie);

	if (transport->fd[n] >= 0 && getsockopt(transport->fd[n], SOL_SOCKET,
						SO_COOKIE, &cookie, &length))
		return 0;
	return cookie;
}

/* Can a router have this address, and can a packet be sent to it? */
static bool is_usable(int n, const u8 *address)
{
	struct in6_addr v6;

	if (n == V4)
		return *address && *address != 127 && *address < 224;
	memcpy(&v6, address, sizeof(v6));
	return !IN6_IS_ADDR_UNSPECIFIED(&v6) && !IN6_IS_ADDR_LOOPBACK(&v6) &&
	       !IN6_IS_ADDR_MULTICAST(&v6) && !IN6_IS_ADDR_LINKLOCAL(&v6) &&
	       !IN6_IS_ADDR_V4MAPPED(&v6);
}

/* Have too many replies been sent to this address, or to others with its hash? */
static bool is_flooded(struct transport *transport, int n, const u8 *address)
{
	struct transport_return *entry;
	u64 second, hash;

	if (transport->keys.count)
		return false;
	second = coarse_time(CLOCK_MONOTONIC_COARSE) / 1000000000;
	hash = siphash24(address, n == V4 ? 4 : 16, transport->salt);
	entry = &transport->returns[hash % TRANSPORT_RETURNS];
	if (entry->second != second)
		*entry = (struct transport_return){ .second = second };
	return ++entry->count > MAX_REPLIES;
}

/**
 * transport_reply() - queue the reply to a received packet
 * @transport: the sockets; counts the packet if its return is not usable
 * @data: the reply; dropped if it is longer than a slot
 * @layout: its layout
 * @hop: its hop
 * @key: its key; NULL: it is not authenticated
 * @to: the endpoints of the received packet
 *
 * It is sent to the last link on the path, or without any to the source. Its
 * DSCP is that of the received packet. If that is a mark of the domain, the
 * reply has the usual DSCP instead, which reports that the mark has arrived:
 * links would clear marks on what routers send.
 */
void transport_reply(struct transport *transport, u8 *data,
		     const struct slbn_layout *layout, u8 hop,
		     const struct slbn_key *key,
		     const struct transport_peer *to)
{
	int n = to->address.any.sa_family == AF_INET ? V4 : V6;
	struct transport_slot *slot;
	struct carrier carrier;
	const u8 *address;

	slbn_get_return(data, layout, hop, &address);
	if (!is_usable(n, address)) {
		transport->drops.bad_return++;
		return;
	}
	if (layout->length > sizeof(slot->data))
		return;
	if (is_flooded(transport, n, address)) {
		transport->unsent++;
		return;
	}
	slot = allocate_slot(transport, n);
	slot->peer = *to;
	if (dscp_is_local(to->dscp))
		slot->peer.dscp = TRANSPORT_DSCP;
	slot->mark = 0;
	set_address(&slot->peer, n, address);
	if (key)
		slbn_update_hash(data, layout, siphash24, key,
				 get_carrier(&carrier, &slot->peer, true));
	memcpy(slot->data, data, layout->length);
	slot->length = layout->length;
}

/**
 * transport_is_own() - is an address one of this router?
 * @transport: the sockets
 * @family: AF_INET or AF_INET6
 * @address: the address
 *
 * Return: whether packets to it have it as their source.
 */
bool transport_is_own(const struct transport *transport, int family,
		      const u8 *address)
{
	int n = family == AF_INET ? V4 : V6;
	struct transport_peer peer = {};

	set_address(&peer, n, address);
	return look_up_source(transport->lookup[n], &peer, &peer.local) &&
	       !memcmp(&peer.local, address, n == V4 ? 4 : 16);
}

/**
 * transport_is_family() - does a packet have addresses of its IP version?
 * @layout: its layout
 * @from: its endpoints
 *
 * Return: whether it has; if not, it is malformed.
 */
bool transport_is_family(const struct slbn_layout *layout,
			 const struct transport_peer *from)
{
	return layout->slot_length == (from->address.any.sa_family == AF_INET ?
					       SLBN_SLOT_LENGTH_V4 :
					       SLBN_SLOT_LENGTH_V6);
}

/**
 * transport_is_answer() - has a packet returned to its source?
 * @transport: the sockets; counts the packet if it has not
 * @data: an upstream packet
 * @layout: its layout
 * @hop: its hop
 * @from: its endpoints
 *
 * Return: whether all links have processed it, and it was sent to the address
 * that we wrote into it.
 */
bool transport_is_answer(struct transport *transport, const u8 *data,
			 const struct slbn_layout *layout, u8 hop,
			 const struct transport_peer *from)
{
	size_t length = from->address.any.sa_family == AF_INET ? 4 : 16;
	const u8 *address;

	if (!hop && !slbn_get_return(data, layout, 0, &address) &&
	    !memcmp(address, &from->local, length))
		return true;
	transport->drops.bad_return++;
	return false;
}

static void get_local(struct msghdr *header, struct transport_peer *peer)
{
	struct cmsghdr *message;

	memset(&peer->local, 0, sizeof(peer->local));
	peer->device = 0;
	peer->dscp = 0;
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
		} else if (message->cmsg_level == IPPROTO_IP &&
			   message->cmsg_type == IP_TOS) {
			peer->dscp = *CMSG_DATA(message) >> 2;
		} else if (message->cmsg_level == IPPROTO_IPV6 &&
			   message->cmsg_type == IPV6_TCLASS) {
			int class;

			memcpy(&class, CMSG_DATA(message), sizeof(class));
			peer->dscp = class >> 2;
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
