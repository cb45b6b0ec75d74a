// SPDX-License-Identifier: GPL-2.0
/*
 * fairtraffic - many short flows, or single packets, at random times
 *
 *	fairtraffic sink   --port 5000 --output sink.json
 *	fairtraffic source --to 10.0.0.2 --port 5000 --load 25000000
 *			   --mean 100000 --peak 1000000 --output source.json
 *
 * The background of Roberts and Augé, "Fair queueing and congestion control"
 * (2005): what else is on a link where a few flows would take all that they
 * get. It comes in two kinds.
 *
 * flows: TCP connections arrive as a Poisson process, each with so many bytes
 * to send, exponential or Pareto, and a peak rate that TCP keeps by itself
 * (SO_MAX_PACING_RATE; the kernel lets the first ten segments of a connection
 * go unpaced, which a qdisc like fq with maxrate can cure). The source sends
 * and half-closes; the sink counts, and when it has everything answers with
 * how many bytes and data segments came. So the source knows of each flow when
 * it was complete, and exactly how many segments the network lost.
 *
 * packets: UDP packets of one size arrive as a Poisson process. Each belongs to
 * one of many flows, drawn at random and told apart by their source ports:
 * what many flows far below their fair share look like. Both ends count by
 * when a packet was sent, in bins of 0.1 s, so what is missing at the sink was
 * lost. Packets carry that time; both ends must share a clock, that is, a
 * kernel.
 *
 * Load counts what the user sends, without any headers. The seed decides when
 * what arrives (draw.h); `fairtraffic plan` prints it. The source reports how
 * late it was for its own plan, since a machine that cannot keep up offers
 * something else than was asked for.
 *
 * One thread and one epoll set; few system calls for each flow, for these are
 * dear in the emulated machines where this runs: a wait to the nanosecond
 * instead of a timer, the last segment and the FIN in one packet, a sink that
 * is woken for 64 KB and not for each segment.
 *
 * Both ends run until SIGTERM or SIGINT, the source at most for --time, and
 * then write one JSON document. Exit status: 0, 1 if something broke (a flow
 * that fails breaks the whole: a background with holes is none), 2 for
 * arguments that make no sense.
 */
#define _GNU_SOURCE

#include <endian.h>
#include <getopt.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROGRAM "fairtraffic"

#include "common.h"
#include "draw.h"

#define VERSION "1"

#define BIN_NSEC (NSEC_PER_SEC / 10)

#define MAX_EVENTS 64
#define BACKLOG 4096
/* The sink reads when so much has come, or the end. */
#define READ_AT_LEAST 262144
#define PACKET_MEMORY (16 << 20)
/* A packet must hold the time, and fit into one of IPv4's. */
#define MIN_PACKET 8
#define MAX_PACKET 65507
#define MAX_PORTS 4096

enum kind {
	FLOWS,
	PACKETS
};

static const char *const kinds[] = { "flows", "packets" };

/* What the command line says. Rates in bit/s, sizes in bytes. */
struct options {
	enum kind kind;
	struct in_addr address;
	uint16_t port;
	double load;
	double mean;
	double shape; /* of Pareto's distribution; 0: exponential */
	double peak; /* 0: none */
	uint64_t seed;
	double seconds; /* 0: until a signal */
	unsigned int ports;
	const char *output;
};

/* Shared by all sends and receives: nobody looks at what is in it. */
static char nothing[256 << 10];

/* ------------------------------------------------------------------------ */
/* Waiting                                                                  */

static int new_set(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC);

	if (set < 0)
		broken("epoll: %m");
	return set;
}

/* Events until TIME has passed [ns]; none if it has, or a signal came. */
static int wait_for(int set, struct epoll_event *events, uint64_t time)
{
	struct timespec timeout = {
		.tv_sec = time / NSEC_PER_SEC,
		.tv_nsec = time % NSEC_PER_SEC,
	};
	int count =
		epoll_pwait2(set, events, MAX_EVENTS, &timeout, &while_waiting);

	if (count < 0 && errno != EINTR)
		broken("epoll: %m");
	return count < 0 ? 0 : count;
}

/* What arrives is looked at when it does, each change once. */
static void watch(int set, int fd, void *what)
{
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
		.data.ptr = what,
	};

	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		broken("epoll: %m");
}

static int new_socket(int type)
{
	int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		broken("socket: %m");
	return fd;
}

static bool try_again(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static struct sockaddr_in address_of(const struct options *o)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr = o->address,
		.sin_port = htons(o->port),
	};
}

/* ------------------------------------------------------------------------ */
/* Packets counted by when they were sent                                   */

struct bin {
	uint64_t packets;
	uint64_t delay; /* of all of them [ns] */
	uint64_t longest;
};

struct bins {
	uint64_t first; /* the number of the first: its time / BIN_NSEC */
	struct bin *bin;
	size_t count;
};

static struct bin *bin_of(struct bins *bins, uint64_t sent)
{
	uint64_t index = sent / BIN_NSEC - bins->first;

	while (bins->count <= index) {
		bins->bin = grow(bins->bin, bins->count, sizeof(*bins->bin));
		memset(&bins->bin[bins->count++], 0, sizeof(*bins->bin));
	}
	return &bins->bin[index];
}

/* ------------------------------------------------------------------------ */
/* The result: one JSON document                                            */

static FILE *open_output(const struct options *o)
{
	FILE *file = o->output ? fopen(o->output, "we") : stdout;

	if (!file)
		refuse("%s: %m", o->output);
	return file;
}

static void close_output(const struct options *o, FILE *file)
{
	if (ferror(file) | fclose(file))
		broken("%s: %m", o->output ?: "stdout");
}

static void write_head(FILE *file, const struct options *o, const char *role,
		       uint64_t began)
{
	fprintf(file,
		"{\"fairtraffic\": \"" VERSION "\", \"role\": \"%s\","
		" \"kind\": \"%s\",\n \"began\": %.6f, \"ended\": %.6f",
		role, kinds[o->kind], began * 1e-9, now() * 1e-9);
}

static void write_plan(FILE *file, const struct options *o)
{
	fprintf(file,
		",\n \"load\": %.0f, \"mean\": %.0f, \"shape\": %g,"
		" \"peak\": %.0f, \"seed\": %llu",
		o->load, o->mean, o->shape, o->peak,
		(unsigned long long)o->seed);
}

static void write_bins(FILE *file, const struct bins *bins, bool delays)
{
	size_t n;

	fprintf(file, ",\n \"bin\": %g, \"first_bin\": %llu,\n \"bins\": [",
		BIN_NSEC * 1e-9, (unsigned long long)bins->first);
	for (n = 0; n < bins->count; n++) {
		const struct bin *bin = &bins->bin[n];

		fprintf(file, "%s[%llu", n ? ", " : "",
			(unsigned long long)bin->packets);
		if (delays)
			fprintf(file, ", %llu, %llu",
				(unsigned long long)bin->delay / 1000,
				(unsigned long long)bin->longest / 1000);
		fputc(']', file);
	}
	fputc(']', file);
}

/* ------------------------------------------------------------------------ */
/* How late the source is for its plan                                      */

struct lateness {
	uint64_t events;
	uint64_t total; /* ns */
	uint64_t most;
};

static void note_lateness(struct lateness *late, uint64_t time)
{
	late->events++;
	late->total += time;
	if (time > late->most)
		late->most = time;
}

static void write_lateness(FILE *file, const struct lateness *late)
{
	fprintf(file, ",\n \"late_mean_us\": %llu, \"late_max_us\": %llu",
		late->events ? (unsigned long long)(late->total / late->events /
						    1000) :
			       0ULL,
		(unsigned long long)late->most / 1000);
}

/* ------------------------------------------------------------------------ */
/* Source of flows                                                          */

/* What is known of a flow. Times in ns from the beginning. */
struct record {
	uint64_t due;
	uint64_t began;
	uint64_t size;
	uint64_t took; /* until its answer was here; 0: in progress */
	uint32_t segments; /* data, sent, first or again */
	uint32_t retransmits;
	uint32_t arrived; /* data segments */
};

/* A flow in progress. */
struct flow {
	struct flow *next, **link;
	size_t record;
	uint64_t left; /* to be sent */
	int fd;
	bool all_sent;
	struct answer answer;
	size_t answered; /* bytes of the answer that have come */
};

struct source {
	const struct options *o;
	int set;
	uint64_t start;
	struct arrivals arrivals;
	struct lateness late;
	struct flow *flows;
	struct record *records;
	size_t count;
};

/* The time of this source. */
static uint64_t elapsed(const struct source *s)
{
	return now() - s->start;
}

static void look_up(const struct flow *flow, struct record *record)
{
	struct tcp_info info = {};
	socklen_t size = sizeof(info);

	if (getsockopt(flow->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		broken("TCP_INFO: %m");
	record->segments = info.tcpi_data_segs_out;
	record->retransmits = info.tcpi_total_retrans;
}

static void drop_flow(struct flow *flow)
{
	*flow->link = flow->next;
	if (flow->next)
		flow->next->link = flow->link;
	close(flow->fd);
	free(flow);
}

/* Send what TCP takes; with the last of it goes the FIN. */
static void send_more(const struct source *s, struct flow *flow)
{
	while (flow->left) {
		bool last = flow->left <= sizeof(nothing);
		ssize_t sent = send(flow->fd, nothing,
				    last ? flow->left : sizeof(nothing),
				    MSG_NOSIGNAL | MSG_MORE);

		if (sent < 0 && (try_again() || errno == ENOTCONN))
			return;
		if (sent < 0)
			broken("flow %zu of %llu bytes: %m", flow->record + 1,
			       (unsigned long long)s->records[flow->record]
				       .size);
		flow->left -= sent;
	}
	if (!flow->all_sent && shutdown(flow->fd, SHUT_WR))
		broken("flow %zu: shutdown: %m", flow->record + 1);
	flow->all_sent = true;
}

/* Read the answer. Return: is the flow complete? */
static bool read_answer(const struct source *s, struct flow *flow)
{
	const struct record *record = &s->records[flow->record];
	char *answer = (char *)&flow->answer;

	while (flow->answered < sizeof(flow->answer)) {
		ssize_t got = recv(flow->fd, answer + flow->answered,
				   sizeof(flow->answer) - flow->answered, 0);

		if (got < 0 && (try_again() || errno == ENOTCONN))
			return false;
		if (got <= 0)
			broken("flow %zu of %llu bytes: %s", flow->record + 1,
			       (unsigned long long)record->size,
			       got ? strerror(errno) :
				     "the sink closed before its end");
		flow->answered += got;
	}
	if (be64toh(flow->answer.bytes) != record->size)
		broken("flow %zu of %llu bytes: the sink got %llu",
		       flow->record + 1, (unsigned long long)record->size,
		       (unsigned long long)be64toh(flow->answer.bytes));
	return true;
}

static void step_flow(struct source *s, struct flow *flow)
{
	struct record *record = &s->records[flow->record];

	send_more(s, flow);
	if (!read_answer(s, flow))
		return;
	record->took = elapsed(s) - record->began;
	record->arrived = be64toh(flow->answer.segments);
	look_up(flow, record);
	drop_flow(flow);
}

static void start_flow(struct source *s)
{
	struct sockaddr_in to = address_of(s->o);
	struct flow *flow = calloc(1, sizeof(*flow));
	struct record *record;
	unsigned long pace = s->o->peak / 8;

	if (!flow)
		broken("out of memory");
	s->records = grow(s->records, s->count, sizeof(*s->records));
	record = &s->records[s->count];
	memset(record, 0, sizeof(*record));
	record->due = arrivals_due(&s->arrivals);
	record->size = arrivals_take(&s->arrivals);
	record->began = elapsed(s);
	note_lateness(&s->late, record->began - record->due);

	flow->record = s->count++;
	flow->left = record->size;
	flow->fd = new_socket(SOCK_STREAM);
	flow->link = &s->flows;
	flow->next = s->flows;
	if (flow->next)
		flow->next->link = &flow->next;
	s->flows = flow;

	if (pace && setsockopt(flow->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &pace,
			       sizeof(pace)))
		broken("SO_MAX_PACING_RATE: %m");
	if (connect(flow->fd, (struct sockaddr *)&to, sizeof(to)) &&
	    errno != EINPROGRESS)
		broken("connect: %m");
	watch(s->set, flow->fd, flow);
}

/* How long this source may sleep: till the next arrival, or its own end. */
static uint64_t until_due(const struct source *s, uint64_t time)
{
	uint64_t due = arrivals_due(&s->arrivals);
	uint64_t last = s->o->seconds * NSEC_PER_SEC;

	if (last && last < due)
		due = last;
	return due > time ? due - time : 0;
}

static bool is_over(const struct source *s, uint64_t time)
{
	return stopped ||
	       (s->o->seconds && time >= s->o->seconds * NSEC_PER_SEC);
}

static void write_flows(FILE *file, const struct source *s)
{
	size_t n;

	fputs(",\n \"columns\": [\"start_us\", \"bytes\", \"took_us\","
	      " \"segments\", \"retransmits\", \"lost\"],\n \"flows\": [",
	      file);
	for (n = 0; n < s->count; n++) {
		const struct record *r = &s->records[n];

		fprintf(file, "%s\n  [%llu, %llu, ", n ? "," : "",
			(unsigned long long)r->began / 1000,
			(unsigned long long)r->size);
		if (r->took)
			fprintf(file, "%llu, %u, %u, %d]",
				(unsigned long long)r->took / 1000, r->segments,
				r->retransmits,
				(int)(r->segments - r->arrived));
		else
			fprintf(file, "null, %u, %u, null]", r->segments,
				r->retransmits);
	}
	fputs("\n ]", file);
}

static void run_flows(struct source *s)
{
	struct epoll_event events[MAX_EVENTS];
	uint64_t time;
	int n, count;

	while (!is_over(s, time = elapsed(s))) {
		while (arrivals_due(&s->arrivals) <= time && !is_over(s, time))
			start_flow(s);
		count = wait_for(s->set, events, until_due(s, elapsed(s)));
		for (n = 0; n < count; n++)
			step_flow(s, events[n].data.ptr);
	}
}

/* Those in progress end now and here, and not by and by in the kernel. */
static void abort_flows(struct source *s)
{
	struct linger at_once = { .l_onoff = 1 };

	while (s->flows) {
		look_up(s->flows, &s->records[s->flows->record]);
		setsockopt(s->flows->fd, SOL_SOCKET, SO_LINGER, &at_once,
			   sizeof(at_once));
		drop_flow(s->flows);
	}
}

/* ------------------------------------------------------------------------ */
/* Source of packets                                                        */

static void run_packets(struct source *s, struct bins *bins)
{
	struct sockaddr_in to = address_of(s->o);
	struct draw which = draw_start(s->o->seed, 2);
	struct epoll_event events[MAX_EVENTS];
	int *sockets = calloc(s->o->ports, sizeof(*sockets));
	uint64_t time;
	unsigned int n;

	if (!sockets)
		broken("out of memory");
	for (n = 0; n < s->o->ports; n++) {
		sockets[n] = new_socket(SOCK_DGRAM);
		if (connect(sockets[n], (struct sockaddr *)&to, sizeof(to)))
			broken("connect: %m");
	}
	while (!is_over(s, time = elapsed(s))) {
		while (arrivals_due(&s->arrivals) <= time) {
			uint64_t sent = now();
			uint64_t stamp = htobe64(sent);
			uint64_t due = arrivals_due(&s->arrivals);
			size_t size = arrivals_take(&s->arrivals);

			note_lateness(&s->late, sent - s->start - due);
			memcpy(nothing, &stamp, sizeof(stamp));
			n = draw_below(&which, s->o->ports);
			if (send(sockets[n], nothing, size, 0) < 0)
				broken("packet %llu: %m",
				       (unsigned long long)s->late.events);
			bin_of(bins, sent)->packets++;
		}
		wait_for(s->set, events, until_due(s, elapsed(s)));
	}
	for (n = 0; n < s->o->ports; n++)
		close(sockets[n]);
	free(sockets);
}

/* ------------------------------------------------------------------------ */
/* The source                                                               */

static void start_arrivals(struct arrivals *arrivals, const struct options *o)
{
	arrivals_start(arrivals, o->seed, o->load / 8, o->mean,
		       o->kind == PACKETS ? -1 : o->shape);
}

static void source(const struct options *o)
{
	FILE *file = open_output(o);
	struct source s = { .o = o };
	struct bins bins = {};

	prepare();
	s.set = new_set();
	start_arrivals(&s.arrivals, o);
	s.start = now();
	bins.first = s.start / BIN_NSEC;
	if (o->kind == FLOWS)
		run_flows(&s);
	else
		run_packets(&s, &bins);

	write_head(file, o, "source", s.start);
	write_plan(file, o);
	write_lateness(file, &s.late);
	if (o->kind == FLOWS) {
		abort_flows(&s);
		write_flows(file, &s);
	} else {
		write_bins(file, &bins, false);
	}
	fputs("}\n", file);
	close_output(o, file);
	free(s.records);
	free(bins.bin);
	close(s.set);
}

/* When what arrives, without doing it. */
static void plan(const struct options *o)
{
	FILE *file = open_output(o);
	struct arrivals arrivals;

	start_arrivals(&arrivals, o);
	fputs("nanoseconds,bytes\n", file);
	while (arrivals_due(&arrivals) < o->seconds * NSEC_PER_SEC) {
		uint64_t due = arrivals_due(&arrivals);

		fprintf(file, "%llu,%llu\n", (unsigned long long)due,
			(unsigned long long)arrivals_take(&arrivals));
	}
	close_output(o, file);
}

/* ------------------------------------------------------------------------ */
/* Sink of flows                                                            */

/* A connection that has not ended. */
struct visitor {
	struct visitor *next, **link;
	int fd;
	uint64_t bytes;
};

struct sink {
	int set;
	int fd; /* listens, or receives packets */
	struct visitor *visitors;
	uint64_t flows;
	uint64_t bytes;
};

static void answer_visitor(const struct visitor *visitor)
{
	struct tcp_info info = {};
	socklen_t size = sizeof(info);
	struct answer answer = { .bytes = htobe64(visitor->bytes) };

	if (getsockopt(visitor->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		broken("TCP_INFO: %m");
	answer.segments = htobe64(info.tcpi_data_segs_in);
	/* So little always fits; the FIN goes with it. */
	if (send(visitor->fd, &answer, sizeof(answer),
		 MSG_NOSIGNAL | MSG_MORE) < 0 &&
	    errno != EPIPE && errno != ECONNRESET)
		broken("answer: %m");
}

static void drop_visitor(struct visitor *visitor)
{
	*visitor->link = visitor->next;
	if (visitor->next)
		visitor->next->link = visitor->link;
	close(visitor->fd);
	free(visitor);
}

/* Take what has come, without copying it. Return: is there more to come? */
static bool read_visitor(struct sink *s, struct visitor *visitor)
{
	for (;;) {
		ssize_t got =
			recv(visitor->fd, nothing, sizeof(nothing), MSG_TRUNC);

		if (got < 0 && try_again())
			return true;
		/* The source stopped in the middle of it. */
		if (got < 0 && errno == ECONNRESET)
			return false;
		if (got < 0)
			broken("receive: %m");
		if (!got) {
			answer_visitor(visitor);
			return false;
		}
		visitor->bytes += got;
		s->bytes += got;
	}
}

static void step_visitor(struct sink *s, struct visitor *visitor)
{
	if (!read_visitor(s, visitor))
		drop_visitor(visitor);
}

static void accept_visitors(struct sink *s)
{
	for (;;) {
		struct visitor *visitor;
		int fd = accept4(s->fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && try_again())
			return;
		if (fd < 0 && errno == ECONNABORTED)
			continue;
		if (fd < 0)
			broken("accept: %m");
		visitor = calloc(1, sizeof(*visitor));
		if (!visitor)
			broken("out of memory");
		visitor->fd = fd;
		visitor->link = &s->visitors;
		visitor->next = s->visitors;
		if (visitor->next)
			visitor->next->link = &visitor->next;
		s->visitors = visitor;
		s->flows++;
		watch(s->set, fd, visitor);
	}
}

/*
 * Read seldom, and have the largest receive buffer from the beginning. The
 * kernel makes buffers larger as they are read from, and newer ones (7.2) take
 * a sink that lets 64 KB wait for one that needs no more: the window then stays
 * at that, whatever the sender could. (Seen so; now 256 KB wait, since each
 * waking costs as much as many packets in a kernel that is a program.)
 */
static void prepare_reading(const struct sink *s)
{
	FILE *file = fopen("/proc/sys/net/ipv4/tcp_rmem", "re");
	int lowest = READ_AT_LEAST;
	int most;

	/* Half of it, as the kernel doubles what it is told. */
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

	/* Connections inherit it. */
	prepare_reading(s);
	if (listen(s->fd, BACKLOG))
		broken("listen: %m");
	watch(s->set, s->fd, NULL);
	while (!stopped) {
		count = wait_for(s->set, events, NSEC_PER_SEC);
		for (n = 0; n < count; n++) {
			if (events[n].data.ptr)
				step_visitor(s, events[n].data.ptr);
			else
				accept_visitors(s);
		}
	}
	/* What has come and not been read. */
	accept_visitors(s);
	while (s->visitors) {
		read_visitor(s, s->visitors);
		drop_visitor(s->visitors);
	}
}

/* ------------------------------------------------------------------------ */
/* Sink of packets                                                          */

static void read_packets(struct sink *s, struct bins *bins)
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

			/* Somebody else's. */
			if (messages[n].msg_len < MIN_PACKET ||
			    sent > arrived || sent / BIN_NSEC < bins->first)
				continue;
			bin = bin_of(bins, sent);
			bin->packets++;
			bin->delay += arrived - sent;
			if (arrived - sent > bin->longest)
				bin->longest = arrived - sent;
			s->bytes += messages[n].msg_len;
		}
	}
	if (count < 0 && !try_again())
		broken("receive: %m");
}

static void sink_packets(struct sink *s, struct bins *bins)
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
		read_packets(s, bins);
	}
}

/* How many packets came for which the socket had no room. */
static uint32_t no_room(const struct sink *s)
{
	uint32_t memory[SK_MEMINFO_VARS] = {};
	socklen_t size = sizeof(memory);

	if (getsockopt(s->fd, SOL_SOCKET, SO_MEMINFO, memory, &size))
		broken("SO_MEMINFO: %m");
	return memory[SK_MEMINFO_DROPS];
}

/* ------------------------------------------------------------------------ */
/* The sink                                                                 */

static void sink(const struct options *o)
{
	FILE *file = open_output(o);
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
		sink_packets(&s, &bins);

	write_head(file, o, "sink", start);
	fprintf(file, ",\n \"bytes\": %llu", (unsigned long long)s.bytes);
	if (o->kind == FLOWS) {
		fprintf(file, ", \"flows\": %llu", (unsigned long long)s.flows);
	} else {
		fprintf(file, ", \"no_room\": %u", no_room(&s));
		write_bins(file, &bins, true);
	}
	fputs("}\n", file);
	close_output(o, file);
	free(bins.bin);
	close(s.fd);
	close(s.set);
}

/* ------------------------------------------------------------------------ */
/* The command line                                                         */

static const char usage[] =
	"usage: fairtraffic source --to ADDRESS --port N --load BITS --mean BYTES [OPTION]...\n"
	"       fairtraffic sink   --port N [OPTION]...\n"
	"       fairtraffic plan   --load BITS --mean BYTES --time SECONDS [OPTION]...\n"
	"\n"
	"Many short flows, or single packets, at the times of a Poisson process.\n"
	"\n"
	"  --kind flows|packets    TCP flows (default), or UDP packets\n"
	"  --output FILE           where the result goes, as JSON (plan: CSV); default: stdout\n"
	"source and plan:\n"
	"  --load BITS             bit/s offered on average, without headers\n"
	"  --mean BYTES            mean size of a flow; size of every packet\n"
	"  --sizes exp|pareto:A    distribution of a flow's size; exponential (default), or\n"
	"                          Pareto's with shape A > 1\n"
	"  --seed N                decides when what arrives (1)\n"
	"  --time SECONDS          how long (source: until it gets SIGTERM or SIGINT)\n"
	"source:\n"
	"  --to ADDRESS            the sink's IPv4 address\n"
	"  --port N                and its port\n"
	"  --peak BITS             no flow sends faster, in bit/s (no limit)\n"
	"  --ports N               how many flows packets belong to (256)\n"
	"sink:\n"
	"  --port N                where to listen\n"
	"  --bind ADDRESS          only on this IPv4 address\n"
	"\n"
	"exit status: 0 done, 1 broken, 2 wrong arguments\n";

enum command {
	SOURCE,
	SINK,
	PLAN
};

static const char *const commands[] = { "source", "sink", "plan" };

enum which {
	O_HELP,
	O_KIND,
	O_OUTPUT,
	O_LOAD,
	O_MEAN,
	O_SIZES,
	O_SEED,
	O_TIME,
	O_TO,
	O_PORT,
	O_PEAK,
	O_PORTS,
	O_BIND,
	OPTIONS,
};

static const struct option names[] = {
	{ "help", no_argument, NULL, O_HELP },
	{ "kind", required_argument, NULL, O_KIND },
	{ "output", required_argument, NULL, O_OUTPUT },
	{ "load", required_argument, NULL, O_LOAD },
	{ "mean", required_argument, NULL, O_MEAN },
	{ "sizes", required_argument, NULL, O_SIZES },
	{ "seed", required_argument, NULL, O_SEED },
	{ "time", required_argument, NULL, O_TIME },
	{ "to", required_argument, NULL, O_TO },
	{ "port", required_argument, NULL, O_PORT },
	{ "peak", required_argument, NULL, O_PEAK },
	{ "ports", required_argument, NULL, O_PORTS },
	{ "bind", required_argument, NULL, O_BIND },
	{},
};

/* Which options a command has, and which it cannot do without. */
#define BIT(option) (1U << (option))
#define ALWAYS (BIT(O_HELP) | BIT(O_KIND) | BIT(O_OUTPUT))
#define A_PLAN \
	(BIT(O_LOAD) | BIT(O_MEAN) | BIT(O_SIZES) | BIT(O_SEED) | BIT(O_TIME))

static const unsigned int allowed[] = {
	[SOURCE] = ALWAYS | A_PLAN | BIT(O_TO) | BIT(O_PORT) | BIT(O_PEAK) |
		   BIT(O_PORTS),
	[SINK] = ALWAYS | BIT(O_PORT) | BIT(O_BIND),
	[PLAN] = ALWAYS | A_PLAN,
};

static const unsigned int needed[] = {
	[SOURCE] = BIT(O_TO) | BIT(O_PORT) | BIT(O_LOAD) | BIT(O_MEAN),
	[SINK] = BIT(O_PORT),
	[PLAN] = BIT(O_LOAD) | BIT(O_MEAN) | BIT(O_TIME),
};

static enum kind kind_named(const char *text)
{
	if (!strcmp(text, kinds[FLOWS]))
		return FLOWS;
	if (!strcmp(text, kinds[PACKETS]))
		return PACKETS;
	refuse("--kind '%s': must be flows or packets", text);
}

/* The shape of Pareto's distribution, or 0 for the exponential one. */
static double shape_named(const char *text)
{
	double shape;

	if (!strcmp(text, "exp"))
		return 0;
	if (strncmp(text, "pareto:", 7))
		refuse("--sizes '%s': must be exp or pareto:SHAPE", text);
	shape = number("--sizes pareto", text + 7, 0, 100);
	/* Near 1 nearly all of the mean is in flows that never happen. */
	if (shape < 1.01)
		refuse("--sizes %s: the mean is finite only for a shape above 1 (at least 1.01, please)",
		       text);
	return shape;
}

static void take_option(struct options *o, int which, const char *text)
{
	switch (which) {
	case O_KIND:
		o->kind = kind_named(text);
		break;
	case O_OUTPUT:
		o->output = text;
		break;
	case O_LOAD:
		o->load = number("--load", text, 1, 1e12);
		break;
	case O_MEAN:
		o->mean = whole_number("--mean", text, MIN_PACKET, 1e12);
		break;
	case O_SIZES:
		o->shape = shape_named(text);
		break;
	case O_SEED:
		o->seed = seed_number(text);
		break;
	case O_TIME:
		o->seconds = number("--time", text, 0.001, 86400);
		break;
	case O_TO:
		o->address = address_named("--to", text);
		break;
	case O_BIND:
		o->address = address_named("--bind", text);
		break;
	case O_PORT:
		o->port = whole_number("--port", text, 1, 65535);
		break;
	case O_PEAK:
		o->peak = number("--peak", text, 8, 1e12);
		break;
	case O_PORTS:
		o->ports = whole_number("--ports", text, 1, MAX_PORTS);
		break;
	}
}

static enum command command_named(const char *text)
{
	int n;

	for (n = SOURCE; n <= PLAN; n++)
		if (!strcmp(text, commands[n]))
			return n;
	refuse("no command '%s': source, sink or plan", text);
}

static void show_usage(void)
{
	fputs(usage, stdout);
	exit(fclose(stdout) ? 1 : 0);
}

static enum command parse(struct options *o, int argc, char **argv)
{
	enum command command;
	unsigned int given = 0;
	int which;

	if (argc < 2)
		refuse("no command: source, sink or plan; see --help");
	if (!strcmp(argv[1], "--help"))
		show_usage();
	command = command_named(argv[1]);
	argv++;
	argc--;
	opterr = 0;
	while ((which = getopt_long(argc, argv, "+:", names, NULL)) != -1) {
		if (which == ':')
			refuse("%s needs a value", argv[optind - 1]);
		if (which == '?')
			refuse("unknown option %s; see --help",
			       argv[optind - 1]);
		if (which == O_HELP)
			show_usage();
		if (!(allowed[command] & BIT(which)))
			refuse("%s has no --%s", commands[command],
			       names[which].name);
		given |= BIT(which);
		take_option(o, which, optarg);
	}
	if (optind < argc)
		refuse("unexpected '%s'", argv[optind]);
	for (which = 0; which < OPTIONS; which++)
		if (needed[command] & ~given & BIT(which))
			refuse("%s needs --%s", commands[command],
			       names[which].name);
	if (o->kind == PACKETS && command != SINK) {
		if (o->mean > MAX_PACKET)
			refuse("--mean %.0f: a packet has at most %u bytes",
			       o->mean, MAX_PACKET);
		if (given & (BIT(O_SIZES) | BIT(O_PEAK)))
			refuse("packets have neither --sizes nor --peak");
	} else if (given & BIT(O_PORTS)) {
		refuse("--ports is for packets: each flow has its own");
	}
	return command;
}

int main(int argc, char **argv)
{
	struct options options = { .seed = 1, .ports = 256 };

	switch (parse(&options, argc, argv)) {
	case SOURCE:
		source(&options);
		break;
	case SINK:
		sink(&options);
		break;
	case PLAN:
		plan(&options);
		break;
	}
	return 0;
}
