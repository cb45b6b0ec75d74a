// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN sources and destinations for tests.
 *
 *	slbn_peer destination ADDRESS
 *	slbn_peer source ADDRESS SECONDS < sessions
 *	slbn_peer agent [KEY [ID]]
 *
 * A line of sessions is DESTINATION DEMAND JOIN LEAVE: the demand in bit/s (0:
 * no limit), the times in seconds (0: never). At the end it prints for each
 * session, in order, its rate in bit/s as granted and leased, cycles and
 * retransmissions.
 *
 * An agent is source and destination on all addresses of its host, IPv4 and
 * IPv6. It reads commands line by line, so that a test can wait for a state of
 * the network rather than for a time:
 *
 *	join DESTINATION DEMAND [WEIGHT]	sessions are numbered from 0
 *	change SESSION DEMAND
 *	leave SESSION
 *	cycles NUMBER			more cycles for each session, which then
 *					idles; default: no limit
 *	show				each session: rate, cycles, retransmissions,
 *					and busy, idle or gone; then a line with a dot
 *
 *	key ID KEY			add a key; packets with it are accepted
 *	use ID				send with this key; replies keep the
 *					key of their request
 *	retire ID			remove a key
 *
 * KEY, 32 hexadecimal digits, authenticates packets; others are dropped. ID is
 * its number, by default 0.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <uapi/fairpath/slbn_netlink.h>

#include <fairpath/slbn/slbn_wire.h>
#include "userspace/common/siphash.h"

#define MS 1000000ULL
#define RETRY (200 * MS)
#define PAUSE (10 * MS)
/* Instead of PAUSE, while a session is urgent. */
#define URGENT_PAUSE (PAUSE / 20)
#define SESSIONS_MAX 4096

struct session {
	struct slbn_source src;
	struct sockaddr_storage to;
	struct sockaddr_storage own;
	u64 demand, join, leave;
	u64 due;
	u32 weight;
	bool joined, waiting, gone;
	u32 cycles, retries, left;
};

static struct session sessions[SESSIONS_MAX];
static u32 count;
static u32 allowance = ~0U;
static struct slbn_keys keys;
static u8 used_key;

static u64 now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static socklen_t address(const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (void *)out;
	struct sockaddr_in6 *v6 = (void *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(SLBN_PORT);
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1) {
		fprintf(stderr, "%s: not an IP address\n", text);
		exit(2);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(SLBN_PORT);
	return sizeof(*v6);
}

static int open_socket(const char *text)
{
	struct sockaddr_storage own;
	socklen_t length = address(text, &own);
	int fd = socket(own.ss_family, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (void *)&own, length))
		die(text);
	return fd;
}

/* Add an address as it is in an IP header; returns the end. */
static u8 *put_address(u8 *at, const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;

	if (address->ss_family == AF_INET)
		return mempcpy(at, &v4->sin_addr, 4);
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return mempcpy(at, v6->sin6_addr.s6_addr + 12, 4);
	return mempcpy(at, &v6->sin6_addr, 16);
}

/* What the authentication covers; @addresses is a buffer of 32 octets. */
static struct slbn_carrier carrier_of(u8 *addresses,
				      const struct sockaddr_storage *from,
				      const struct sockaddr_storage *to)
{
	u8 *end = put_address(put_address(addresses, from), to);
	const struct slbn_carrier carrier = {
		.addresses = addresses,
		.length = end - addresses,
		.time = keys.count ? (u32)time(NULL) : 0,
	};

	return carrier;
}

/* Set the address that a socket is bound to, or its host's for the session. */
static void find_own_address(int fd, struct session *s)
{
	static const u8 any[16];
	socklen_t length = sizeof(s->own);
	u8 found[16] = { 0 };

	memset(&s->own, 0, sizeof(s->own));
	getsockname(fd, (void *)&s->own, &length);
	put_address(found, &s->own);
	if (memcmp(found, any, sizeof(any)))
		return;
	length = sizeof(s->own);
	fd = socket(s->to.ss_family, SOCK_DGRAM, 0);
	if (fd < 0)
		die("socket");
	if (!connect(fd, (void *)&s->to, sizeof(s->to)))
		getsockname(fd, (void *)&s->own, &length);
	close(fd);
}

/* Set an address as it is in an IP header, in the form of its socket. */
static void set_address(struct sockaddr_storage *out, const u8 *address,
			u32 length)
{
	struct sockaddr_in *v4 = (void *)out;
	struct sockaddr_in6 *v6 = (void *)out;

	if (out->ss_family == AF_INET) {
		memcpy(&v4->sin_addr, address, sizeof(v4->sin_addr));
		return;
	}
	memset(&v6->sin6_addr, 0, sizeof(v6->sin6_addr));
	if (length == 4)
		memset(v6->sin6_addr.s6_addr + 10, 0xff, 2);
	memcpy(v6->sin6_addr.s6_addr + 16 - length, address, length);
	v6->sin6_scope_id = 0;
}

/* Each system call costs much in virtual time, so a packet needs few. */
static void send_packet(int fd, struct session *s, u64 t)
{
	const struct slbn_key *key = slbn_key_find(&keys, used_key);
	u8 data[SLBN_LENGTH_MAX], addresses[32], origin[16];
	struct slbn_carrier carrier;
	struct slbn_layout layout;

	/* The route may have changed if the last packet was not answered. */
	if (s->waiting || !s->own.ss_family)
		find_own_address(fd, s);
	slbn_source_transmit(&s->src, t);
	slbn_build_packet(data, &s->src.pkt, s->src.slot, origin,
			  put_address(origin, &s->own) - origin == 16, key,
			  &layout);
	if (key) {
		carrier = carrier_of(addresses, &s->own, &s->to);
		slbn_authenticate(data, &layout, siphash24, key, &carrier);
	}
	sendto(fd, data, layout.length, 0, (void *)&s->to, sizeof(s->to));
	s->due = t + RETRY;
	s->waiting = true;
}

/* Process the acknowledgment of a session. */
static void receive_ack(const struct slbn_packet *pkt, const u8 *data,
			const struct slbn_layout *layout, u64 t)
{
	u32 n = pkt->id[1] & 0xffffffff;
	struct slbn_slot slot[SLBN_HOPS_MAX];
	struct session *s;
	u8 hop;

	/* Links have yet to process it. */
	if (pkt->hop)
		return;
	if (n >= count)
		return;
	s = &sessions[n];
	for (hop = 0; hop < pkt->slots; hop++)
		slot[hop] = slbn_get_slot(data, layout, hop);
	switch (slbn_source_ack(&s->src, pkt, slot, t)) {
	case SLBN_CYCLE_DONE:
		s->cycles++;
		s->waiting = false;
		s->due = t + (s->src.urgent ? rand() % URGENT_PAUSE :
					      PAUSE / 2 + rand() % PAUSE);
		/* The limit may have been set during its last cycle. */
		if (s->left && s->left != ~0U)
			s->left--;
		break;
	case SLBN_SESSION_OVER:
		s->waiting = false;
		s->gone = true;
		break;
	default:
		break;
	}
}

/**
 * struct datagram - a received datagram
 * @from: its source, then the destination of its reply
 * @to: its destination, if the socket is an agent's
 * @data: its payload
 * @header: of recvmsg() and, for a reply from @to to @from, sendmsg()
 * @content: for @header
 * @control: for @header
 */
struct datagram {
	struct sockaddr_storage from, to;
	u8 data[2048];
	struct msghdr header;
	struct iovec content;
	_Alignas(struct cmsghdr) u8 control[256];
};

static bool receive_datagram(int fd, struct datagram *d, ssize_t *length)
{
	struct sockaddr_in6 *to = (void *)&d->to;
	struct cmsghdr *found;

	memset(&d->to, 0, sizeof(d->to));
	d->content.iov_base = d->data;
	d->content.iov_len = sizeof(d->data);
	d->header.msg_name = &d->from;
	d->header.msg_namelen = sizeof(d->from);
	d->header.msg_iov = &d->content;
	d->header.msg_iovlen = 1;
	d->header.msg_control = d->control;
	d->header.msg_controllen = sizeof(d->control);
	*length = recvmsg(fd, &d->header, MSG_DONTWAIT);
	if (*length < 0)
		return false;
	found = CMSG_FIRSTHDR(&d->header);
	if (found && found->cmsg_level == IPPROTO_IPV6 &&
	    found->cmsg_type == IPV6_PKTINFO) {
		struct in6_pktinfo *info = (void *)CMSG_DATA(found);

		to->sin6_family = AF_INET6;
		to->sin6_addr = info->ipi6_addr;
		/* The reply may leave by another device. */
		info->ipi6_ifindex = 0;
	}
	return true;
}

static void receive(int fd, u64 t)
{
	static struct datagram d;
	const struct slbn_key *key;
	struct slbn_carrier carrier;
	struct slbn_layout layout = {};
	struct slbn_packet pkt = {};
	u8 addresses[32];
	const u8 *next;
	ssize_t length;

	while (receive_datagram(fd, &d, &length)) {
		carrier = carrier_of(addresses, &d.from, &d.to);
		if (slbn_parse_packet(d.data, length, &pkt, &layout) !=
			    SLBN_PARSE_OK ||
		    slbn_check_authentication(d.data, &layout, siphash24, &keys,
					      &carrier, &key) != SLBN_AUTH_OK)
			continue;
		if (!slbn_destination_reply(&pkt)) {
			receive_ack(&pkt, d.data, &layout, t);
			continue;
		}
		slbn_wire_clear_slots(d.data, &layout, &pkt);
		slbn_update_packet(d.data, &pkt);
		slbn_get_return(d.data, &layout, pkt.hop, &next);
		set_address(&d.from, next,
			    layout.slot_length == SLBN_SLOT_LENGTH_V6 ? 16 : 4);
		carrier = carrier_of(addresses, &d.to, &d.from);
		slbn_update_hash(d.data, &layout, siphash24, key, &carrier);
		d.content.iov_len = layout.length;
		sendmsg(fd, &d.header, 0);
	}
}

static void destination(const char *text)
{
	int fd = open_socket(text);

	for (;;) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };

		poll(&wait, 1, -1);
		receive(fd, now());
	}
}

static void join_session(int fd, struct session *s, u64 t)
{
	u64 id[2];

	if (getrandom(id, sizeof(id), 0) < 0)
		die("getrandom");
	id[1] = (id[1] & ~0xffffffffULL) | (u32)(s - sessions);
	slbn_source_join(&s->src, id, s->demand, s->weight, SLBN_HOPS_DEFAULT);
	s->joined = true;
	s->left = allowance;
	send_packet(fd, s, t);
}

/* Whether the session has a packet in flight or to send. */
static bool is_busy(const struct session *s)
{
	return !s->gone &&
	       (s->waiting || s->left || s->src.pkt.type == SLBN_LEAVE);
}

/* Send the packets that are due at @t; returns the time of the next. */
static u64 tick(int fd, u64 t)
{
	u64 next = ~0ULL;
	u32 n;

	for (n = 0; n < count; n++) {
		struct session *s = &sessions[n];

		if (s->gone)
			continue;
		if (!s->joined && t >= s->join) {
			join_session(fd, s, t);
		} else if (s->joined && t >= s->due && is_busy(s)) {
			s->retries += s->waiting;
			send_packet(fd, s, t);
		}
		if (t >= s->leave)
			slbn_source_leave(&s->src);
		else
			next = fp_min64(next, s->leave);
		slbn_source_expire(&s->src, t);
		if (s->src.rate)
			next = fp_min64(next, s->src.lease);
		if (!s->joined)
			next = fp_min64(next, s->join);
		else if (is_busy(s))
			next = fp_min64(next, s->due);
	}
	return next;
}

/* The timeout of poll(2) [ms] until then, at most a second. */
static int time_until(u64 then, u64 t)
{
	/* Rounded up, to not poll with 0 in the last millisecond. */
	t = then > t ? then - t + MS - 1 : 0;
	return fp_min64(fp_div(t, MS), 1000);
}

static void show(void)
{
	u32 n;

	for (n = 0; n < count; n++) {
		const struct session *s = &sessions[n];
		const char *how = is_busy(s) ? "busy" : "idle";

		printf("%llu %u %u %s\n", s->src.rate, s->cycles, s->retries,
		       s->gone ? "gone" : how);
	}
}

static u64 demand_rate(double demand)
{
	return demand ? (u64)demand : SLBN_RATE_MAX;
}

static void source(const char *text, double seconds)
{
	int fd = open_socket(text);
	u64 t = now(), start = t, end = start + (u64)(seconds * 1e9), next = 0;
	char to[64];
	double demand, join, leave;

	while (scanf("%63s %lf %lf %lf", to, &demand, &join, &leave) == 4) {
		struct session *s = &sessions[count++];

		address(to, &s->to);
		s->demand = demand_rate(demand);
		s->weight = 1;
		s->join = start + (u64)(join * 1e9);
		s->leave = leave ? start + (u64)(leave * 1e9) : ~0ULL;
	}
	while (t < end) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };

		poll(&wait, 1, time_until(fp_min64(next, end), t));
		t = now();
		receive(fd, t);
		next = tick(fd, t);
	}
	show();
}

/* IPv4 addresses are mapped to IPv6: one socket for both. */
static void destination_of(const char *text, struct sockaddr_storage *to)
{
	char mapped[80];

	snprintf(mapped, sizeof(mapped), "%s%s",
		 strchr(text, ':') ? "" : "::ffff:", text);
	address(mapped, to);
}

static void add_key(u8 id, const char *digits)
{
	struct slbn_key key = { .id = id };
	u8 *octets = (void *)key.secret;
	u32 n;

	for (n = 0; n < SLBN_KEY_LENGTH; n++)
		if (sscanf(digits + 2 * n, "%2hhx", &octets[n]) != 1)
			die("key");
	if (!slbn_key_add(&keys, &key))
		die("too many keys");
}

static void run_command(int fd, const char *line, u64 t)
{
	struct session *s = &sessions[count];
	char to[64], digits[33];
	u32 weight = 1;
	double demand;
	u32 n;

	if (sscanf(line, "join %63s %lf %u", to, &demand, &weight) >= 2 &&
	    count < SESSIONS_MAX) {
		destination_of(to, &s->to);
		s->demand = demand_rate(demand);
		s->weight = weight;
		s->leave = ~0ULL;
		count++;
		join_session(fd, s, t);
	} else if (sscanf(line, "change %u %lf", &n, &demand) == 2 &&
		   n < count) {
		slbn_source_change(&sessions[n].src, demand_rate(demand));
	} else if (sscanf(line, "leave %u", &n) == 1 && n < count) {
		slbn_source_leave(&sessions[n].src);
	} else if (sscanf(line, "cycles %u", &allowance) == 1) {
		for (n = 0; n < count; n++)
			sessions[n].left = allowance;
	} else if (sscanf(line, "key %u %32s", &n, digits) == 2) {
		add_key(n, digits);
	} else if (sscanf(line, "use %u", &n) == 1 && slbn_key_find(&keys, n)) {
		used_key = n;
	} else if (sscanf(line, "retire %u", &n) == 1 &&
		   slbn_key_retire(&keys, n)) {
		return;
	} else if (!strcmp(line, "show\n")) {
		show();
		printf(".\n");
		fflush(stdout);
	} else {
		fprintf(stderr, "unknown command: %s", line);
		exit(2);
	}
}

static void agent(const char *digits, const char *id)
{
	const struct sockaddr_in6 any = { .sin6_family = AF_INET6,
					  .sin6_port = htons(SLBN_PORT) };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	u64 next = 0, t = now();
	int one = 1;

	if (fd < 0 || bind(fd, (void *)&any, sizeof(any)) ||
	    setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one)))
		die("bind");
	if (digits) {
		used_key = id ? atoi(id) : 0;
		add_key(used_key, digits);
	}
	setvbuf(stdin, NULL, _IONBF, 0);
	for (;;) {
		struct pollfd wait[] = { { .fd = fd, .events = POLLIN },
					 { .fd = 0, .events = POLLIN } };
		char line[128];

		poll(wait, 2, time_until(next, t));
		t = now();
		receive(fd, t);
		if (wait[1].revents) {
			if (!fgets(line, sizeof(line), stdin))
				return;
			run_command(fd, line, t);
		}
		next = tick(fd, t);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "destination"))
		destination(argv[2]);
	else if (argc == 4 && !strcmp(argv[1], "source"))
		source(argv[2], atof(argv[3]));
	else if (argc >= 2 && argc <= 4 && !strcmp(argv[1], "agent"))
		agent(argv[2], argc == 4 ? argv[3] : NULL);
	else
		fprintf(stderr,
			"usage: slbn_peer destination ADDRESS | source ADDRESS SECONDS | agent [KEY [ID]]\n");
	return argc < 2 || argc > 4 ? 2 : 0;
}
