// SPDX-License-Identifier: GPL-2.0
/*
 * Speaks SLBN for tests: many sources in one process, or a destination.
 *
 *	slbn_peer destination ADDRESS
 *	slbn_peer source ADDRESS SECONDS < sessions
 *
 * A line of sessions is DESTINATION DEMAND JOIN LEAVE: the rate in bit/s (0: no
 * limit), the times in seconds (0: never). At the end each session's rate is
 * printed, in the order of the lines: bit/s, cycles and packets sent again.
 */
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

#include "sch_slbn/slbn_wire.h"

#define MS 1000000ULL
#define RETRY (200 * MS)
#define PAUSE (10 * MS)
#define SESSIONS_MAX 4096

struct session {
	struct slbn_source src;
	struct sockaddr_storage to;
	u64 demand, join, leave;
	u64 due;
	bool joined, waiting, gone;
	u32 cycles, retries;
};

static struct session sessions[SESSIONS_MAX];
static u32 count;

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
		fprintf(stderr, "%s: no address\n", text);
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

static void destination(const char *text)
{
	int fd = open_socket(text);

	for (;;) {
		u8 data[2048];
		struct sockaddr_storage from;
		socklen_t length = sizeof(from);
		struct slbn_packet pkt;
		struct slbn_layout layout;
		ssize_t got = recvfrom(fd, data, sizeof(data), 0, (void *)&from,
				       &length);

		if (got < 0)
			die("recvfrom");
		if (slbn_read(data, got, &pkt, &layout) != SLBN_SOUND ||
		    !slbn_destination_answer(&pkt))
			continue;
		slbn_rewrite(data, &pkt);
		sendto(fd, data, layout.length, 0, (void *)&from, length);
	}
}

static void send_packet(int fd, struct session *s)
{
	u8 data[SLBN_LENGTH_MAX];
	u32 length = slbn_write(data, &s->src.pkt, s->src.tags, false);

	sendto(fd, data, length, 0, (void *)&s->to, sizeof(s->to));
	s->due = now() + RETRY;
	s->waiting = true;
}

static void receive(int fd)
{
	u8 data[2048];
	u16 tags[SLBN_HOPS_MAX];
	struct slbn_packet pkt;
	struct slbn_layout layout;
	ssize_t got;
	u32 n;
	u8 hop;

	while ((got = recv(fd, data, sizeof(data), MSG_DONTWAIT)) >= 0) {
		if (slbn_read(data, got, &pkt, &layout) != SLBN_SOUND)
			continue;
		for (hop = 0; hop < pkt.room; hop++)
			tags[hop] = slbn_read_tag(data, hop);
		n = pkt.id[1] & 0xffffffff;
		if (n >= count)
			continue;
		switch (slbn_source_answer(&sessions[n].src, &pkt, tags)) {
		case SLBN_CYCLE:
			sessions[n].cycles++;
			sessions[n].waiting = false;
			sessions[n].due = now() + PAUSE / 2 + rand() % PAUSE;
			break;
		case SLBN_GONE:
			sessions[n].gone = true;
			break;
		default:
			break;
		}
	}
}

static void source(const char *text, double seconds)
{
	int fd = open_socket(text);
	u64 start = now(), end = start + (u64)(seconds * 1e9);
	char to[64];
	double demand, join, leave;
	u32 n;

	while (scanf("%63s %lf %lf %lf", to, &demand, &join, &leave) == 4) {
		struct session *s = &sessions[count++];

		address(to, &s->to);
		s->demand = demand ? (u64)demand : SLBN_RATE_MAX;
		s->join = start + (u64)(join * 1e9);
		s->leave = leave ? start + (u64)(leave * 1e9) : ~0ULL;
	}
	while (now() < end) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };

		poll(&wait, 1, 1);
		receive(fd);
		for (n = 0; n < count; n++) {
			struct session *s = &sessions[n];
			u64 t = now();

			if (s->gone)
				continue;
			if (!s->joined && t >= s->join) {
				u64 id[2];

				if (getrandom(id, sizeof(id), 0) < 0)
					die("getrandom");
				id[1] = (id[1] & ~0xffffffffULL) | n;
				slbn_source_join(&s->src, id, s->demand,
						 SLBN_HOPS_DEFAULT);
				s->joined = true;
				send_packet(fd, s);
			} else if (s->joined && t >= s->due) {
				s->retries += s->waiting;
				send_packet(fd, s);
			}
			if (t >= s->leave)
				slbn_source_leave(&s->src);
		}
	}
	for (n = 0; n < count; n++)
		printf("%llu %u %u%s\n", sessions[n].src.rate,
		       sessions[n].cycles, sessions[n].retries,
		       sessions[n].gone ? " gone" : "");
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "destination"))
		destination(argv[2]);
	else if (argc == 4 && !strcmp(argv[1], "source"))
		source(argv[2], atof(argv[3]));
	fprintf(stderr,
		"usage: slbn_peer destination ADDRESS | source ADDRESS SECONDS\n");
	return argc == 4 ? 0 : 2;
}
