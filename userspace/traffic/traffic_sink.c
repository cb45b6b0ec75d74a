// SPDX-License-Identifier: GPL-2.0
/*
 * fairtraffic's sink: receives flows or packets, and counts
 */
#define _GNU_SOURCE

#include <endian.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fairtraffic.h"

#define BACKLOG 4096
/* The sink is woken for so many bytes, or the end of a flow. */
#define READ_AT_LEAST 262144
#define PACKET_MEMORY (16 << 20)
/* Delays of packets are counted in steps, up to ten seconds. */
#define DELAY_NSEC 50000ULL
#define DELAYS 200000

/* An open connection. */
struct connection {
	struct connection *next, **link;
	int fd;
	uint64_t bytes;
};

struct sink {
	int set;
	int fd; /* listens, or receives packets */
	struct connection *connections;
	uint64_t flows;
	uint64_t bytes;
};

static void send_answer(const struct connection *connection)
{
	struct tcp_info info = {};
	socklen_t size = sizeof(info);
	struct answer answer = { .bytes = htobe64(connection->bytes) };

	if (getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		broken("TCP_INFO: %m");
	answer.segments = htobe64(info.tcpi_data_segs_in);
	/* The empty send buffer has room; the FIN is sent with it. */
	if (send(connection->fd, &answer, sizeof(answer),
		 MSG_NOSIGNAL | MSG_MORE) < 0 &&
	    errno != EPIPE && errno != ECONNRESET)
		broken("answer: %m");
}

static void free_connection(struct connection *connection)
{
	*connection->link = connection->next;
	if (connection->next)
		connection->next->link = connection->link;
	close(connection->fd);
	free(connection);
}

/* Discard received data. Return: true if more may follow. */
static bool read_connection(struct sink *s, struct connection *connection)
{
	for (;;) {
		ssize_t got = recv(connection->fd, payload, sizeof(payload),
				   MSG_TRUNC);

		if (got < 0 && try_again())
			return true;
		/* The source stopped in the middle of the flow. */
		if (got < 0 && errno == ECONNRESET)
			return false;
		if (got < 0)
			broken("receive: %m");
		if (!got) {
			send_answer(connection);
			return false;
		}
		connection->bytes += got;
		s->bytes += got;
	}
}

static void step_connection(struct sink *s, struct connection *connection)
{
	if (!read_connection(s, connection))
		free_connection(connection);
}

static void accept_connections(struct sink *s)
{
	for (;;) {
		struct connection *connection;
		int fd = accept4(s->fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && try_again())
			return;
		if (fd < 0 && errno == ECONNABORTED)
			continue;
		if (fd < 0)
			broken("accept: %m");
		connection = calloc(1, sizeof(*connection));
		if (!connection)
			broken("out of memory");
		connection->fd = fd;
		connection->link = &s->connections;
		connection->next = s->connections;
		if (connection->next)
			connection->next->link = &connection->next;
		s->connections = connection;
		s->flows++;
		watch(s->set, fd, connection);
	}
}

/*
 * Read rarely (READ_AT_LEAST), since each wake-up costs as much as many packets
 * in User-Mode Linux, and set the largest receive buffer at once. The kernel's
 * autotuning grows the buffer as it is read, and newer kernels (7.2) kept the
 * window at 64 KB for a sink that waited for 64 KB.
 */
static void prepare_reading(const struct sink *s)
{
	FILE *file = fopen("/proc/sys/net/ipv4/tcp_rmem", "re");
	int lowest = READ_AT_LEAST;
	int most;

	/* The kernel doubles the value. */
	if (file && fscanf(file, "%*d %*d %d", &most) == 1) {
		most /= 2;
		setsockopt(s->fd, SOL_SOCKET, SO_RCVBUFFORCE, &most,
			   sizeof(most));
	}
	if (file)
		fclose(file);
	setsockopt(s->fd, SOL_SOCKET, SO_RCVLOWAT, &lowest, sizeof(lowest));
}

static void sink_flows(struct sink *s)
{
	struct epoll_event events[MAX_EVENTS];
	int n, count;

	/* Connections inherit the settings. */
	prepare_reading(s);
	if (listen(s->fd, BACKLOG))
		broken("listen: %m");
	watch(s->set, s->fd, NULL);
	while (!stopped) {
		count = wait_for(s->set, events, NSEC_PER_SEC);
		for (n = 0; n < count; n++) {
			if (events[n].data.ptr)
				step_connection(s, events[n].data.ptr);
			else
				accept_connections(s);
		}
	}
	/* Count received but unread data, too. */
	accept_connections(s);
	while (s->connections) {
		read_connection(s, s->connections);
		free_connection(s->connections);
	}
}

/* Packets by their delay, in steps; the last one has all that are longer. */
static uint64_t delays[DELAYS];

static void count_delay(uint64_t delay)
{
	uint64_t step = delay / DELAY_NSEC;

	delays[step < DELAYS ? step : DELAYS - 1]++;
}

/* Steps that have packets. */
static void write_delays(FILE *file)
{
	const char *comma = "";
	size_t n;

	fprintf(file, ",\n \"delay_step_us\": %llu, \"delays\": [",
		DELAY_NSEC / 1000);
	for (n = 0; n < DELAYS; n++) {
		if (!delays[n])
			continue;
		fprintf(file, "%s[%zu, %llu]", comma, n,
			(unsigned long long)delays[n]);
		comma = ", ";
	}
	fputc(']', file);
}

static void read_packets(struct sink *s, struct bins *bins, uint64_t from)
{
	static struct mmsghdr messages[MAX_EVENTS];
	static uint64_t stamps[MAX_EVENTS];
	static struct iovec parts[MAX_EVENTS];
	int n, count;

	for (n = 0; n < MAX_EVENTS; n++) {
		parts[n].iov_base = &stamps[n];
		parts[n].iov_len = sizeof(stamps[n]);
		messages[n].msg_hdr.msg_iov = &parts[n];
		messages[n].msg_hdr.msg_iovlen = 1;
	}
	while ((count = recvmmsg(s->fd, messages, MAX_EVENTS, MSG_TRUNC,
				 NULL)) > 0) {
		uint64_t arrived = now();

		for (n = 0; n < count; n++) {
			uint64_t sent = be64toh(stamps[n]);
			struct bin *bin;

			/* Not from this run's source. */
			if (messages[n].msg_len < MIN_PACKET ||
			    sent > arrived || sent / BIN_NSEC < bins->first)
				continue;
			bin = bin_of(bins, sent);
			bin->packets++;
			bin->delay += arrived - sent;
			if (arrived - sent > bin->longest)
				bin->longest = arrived - sent;
			if (sent >= from)
				count_delay(arrived - sent);
			s->bytes += messages[n].msg_len;
		}
	}
	if (count < 0 && !try_again())
		broken("receive: %m");
}

static void sink_packets(struct sink *s, struct bins *bins, uint64_t from)
{
	struct epoll_event events[MAX_EVENTS];
	int memory = PACKET_MEMORY;

	if (setsockopt(s->fd, SOL_SOCKET, SO_RCVBUFFORCE, &memory,
		       sizeof(memory)))
		setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &memory,
			   sizeof(memory));
	watch(s->set, s->fd, NULL);
	while (!stopped) {
		wait_for(s->set, events, NSEC_PER_SEC);
		read_packets(s, bins, from);
	}
}

/* Packets dropped because the socket buffer was full. */
static uint32_t no_room(const struct sink *s)
{
	uint32_t memory[SK_MEMINFO_VARS] = {};
	socklen_t size = sizeof(memory);

	if (getsockopt(s->fd, SOL_SOCKET, SO_MEMINFO, memory, &size))
		broken("SO_MEMINFO: %m");
	return memory[SK_MEMINFO_DROPS];
}

void sink(const struct options *o)
{
	FILE *file = open_output(o->output);
	struct sockaddr_in address = address_of(o);
	struct sink s = { .set = new_set() };
	struct bins bins = {};
	uint64_t start = now();
	int yes = 1;

	prepare();
	bins.first = start / BIN_NSEC;
	s.fd = new_socket(o->kind == FLOWS ? SOCK_STREAM : SOCK_DGRAM);
	setsockopt(s.fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(s.fd, (struct sockaddr *)&address, sizeof(address)))
		broken("port %u: %m", o->port);
	if (o->kind == FLOWS)
		sink_flows(&s);
	else
		sink_packets(&s, &bins, o->delays_from * NSEC_PER_SEC);

	write_head(file, o, "sink", start);
	fprintf(file, ",\n \"bytes\": %llu", (unsigned long long)s.bytes);
	if (o->kind == FLOWS) {
		fprintf(file, ", \"flows\": %llu", (unsigned long long)s.flows);
	} else {
		fprintf(file, ", \"no_room\": %u", no_room(&s));
		write_bins(file, &bins, true);
		write_delays(file);
	}
	fputs("}\n", file);
	close_output(o->output, file);
	free(bins.bin);
	close(s.fd);
	close(s.set);
}
