// SPDX-License-Identifier: GPL-2.0
/*
 * fairtraffic's source: flows or packets at the times of a Poisson process
 */
#define _GNU_SOURCE

#include <endian.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fairtraffic.h"

/* How much later than planned flows or packets start. */
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

/* The result of a flow. Times in ns since the start. */
struct record {
	uint64_t due;
	uint64_t began;
	uint64_t size;
	uint64_t took; /* until the answer arrived; 0: in progress */
	uint32_t segments; /* data segments sent, with retransmissions */
	uint32_t retransmits;
	uint32_t arrived; /* data segments at the sink */
};

/* A flow in progress. */
struct flow {
	struct flow *next, **link;
	size_t record;
	uint64_t left; /* bytes to send */
	int fd;
	bool all_sent;
	struct answer answer;
	size_t answered; /* bytes of the answer received */
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

/* Time since the start [ns]. */
static uint64_t elapsed(const struct source *s)
{
	return now() - s->start;
}

static void read_tcp_info(const struct flow *flow, struct record *record)
{
	struct tcp_info info = {};
	socklen_t size = sizeof(info);

	if (getsockopt(flow->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		broken("TCP_INFO: %m");
	record->segments = info.tcpi_data_segs_out;
	record->retransmits = info.tcpi_total_retrans;
}

static void free_flow(struct flow *flow)
{
	*flow->link = flow->next;
	if (flow->next)
		flow->next->link = flow->link;
	close(flow->fd);
	free(flow);
}

/* Fill the send buffer; the FIN is sent with the last segment. */
static void send_more(const struct source *s, struct flow *flow)
{
	while (flow->left) {
		bool last = flow->left <= sizeof(payload);
		ssize_t sent = send(flow->fd, payload,
				    last ? flow->left : sizeof(payload),
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

/* Read the answer. Return: true if the flow is complete. */
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
			       got ? strerror(errno) : "the sink closed early");
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
	/* 0 is a flow in progress; in virtual time one may take no time. */
	record->took = elapsed(s) - record->began ?: 1;
	record->arrived = be64toh(flow->answer.segments);
	read_tcp_info(flow, record);
	free_flow(flow);
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

/* Time until the next arrival or the end [ns]. */
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

/* Reset the flows in progress, so that none continues in the kernel. */
static void abort_flows(struct source *s)
{
	struct linger at_once = { .l_onoff = 1 };

	while (s->flows) {
		read_tcp_info(s->flows, &s->records[s->flows->record]);
		setsockopt(s->flows->fd, SOL_SOCKET, SO_LINGER, &at_once,
			   sizeof(at_once));
		free_flow(s->flows);
	}
}

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
			memcpy(payload, &stamp, sizeof(stamp));
			n = draw_below(&which, s->o->ports);
			if (send(sockets[n], payload, size, 0) < 0)
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

void start_arrivals(struct arrivals *arrivals, const struct options *o)
{
	arrivals_start(arrivals, o->seed, o->load / 8, o->mean,
		       o->kind == PACKETS ? -1 : o->shape);
}

static void write_plan(FILE *file, const struct options *o)
{
	fprintf(file,
		",\n \"load\": %.0f, \"mean\": %.0f, \"shape\": %g,"
		" \"peak\": %.0f, \"seed\": %llu",
		o->load, o->mean, o->shape, o->peak,
		(unsigned long long)o->seed);
}

void source(const struct options *o)
{
	FILE *file = open_output(o->output);
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
	close_output(o->output, file);
	free(s.records);
	free(bins.bin);
	close(s.set);
}
