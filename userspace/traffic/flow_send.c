// SPDX-License-Identifier: GPL-2.0
/*
 * fairflow's flows, each in a thread
 */
#define _GNU_SOURCE

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fairflow.h"

#define CHUNK (4 << 20)

struct flow flows[FLOWS_MAX];
unsigned int flow_count;
uint64_t begin;

static char data[CHUNK];

uint64_t elapsed(void)
{
	uint64_t time = now();

	return time > begin ? time - begin : 0;
}

uint64_t nanoseconds(double seconds)
{
	return seconds * (double)NSEC_PER_SEC;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void sleep_until(uint64_t time)
{
	struct timespec when = {
		.tv_sec = (begin + time) / NSEC_PER_SEC,
		.tv_nsec = (begin + time) % NSEC_PER_SEC,
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) ==
		       EINTR &&
	       !stopped)
		;
}

static uint64_t draw_duration(struct flow *flow, const struct duration *wanted)
{
	double seconds = wanted->mean;

	if (wanted->law == EXPONENTIAL)
		seconds = draw_exponential(&flow->draw, wanted->mean);
	else if (wanted->law == PARETO)
		seconds = draw_pareto(&flow->draw, wanted->mean, wanted->shape);
	return nanoseconds(seconds < SECONDS_MAX ? seconds : SECONDS_MAX);
}

static unsigned int number_of(const struct flow *flow)
{
	return flow - flows + 1;
}

#define flow_broken(flow, what) broken("flow %u: %s: %m", number_of(flow), what)

static void set_option(struct flow *flow, int level, int option,
		       const void *value, socklen_t size, const char *name)
{
	if (setsockopt(flow->fd, level, option, value, size))
		flow_broken(flow, name);
}

/* Let the next send take until TIME. Return: false if TIME has passed. */
static bool set_send_timeout(struct flow *flow, uint64_t time)
{
	uint64_t at = elapsed();
	uint64_t left = time > at ? time - at : 0;
	struct timeval limit = {
		.tv_sec = left / NSEC_PER_SEC,
		.tv_usec = left % NSEC_PER_SEC / 1000,
	};

	if (!limit.tv_sec && !limit.tv_usec)
		return false;
	set_option(flow, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit),
		   "SO_SNDTIMEO");
	return true;
}

static bool timed_out(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ||
	       errno == EINPROGRESS;
}

/* The congestion control in use. */
static void read_congestion_control(struct flow *flow)
{
	socklen_t size = sizeof(flow->ran);

	if (!flow->udp &&
	    getsockopt(flow->fd, IPPROTO_TCP, TCP_CONGESTION, flow->ran, &size))
		flow_broken(flow, "TCP_CONGESTION");
}

/* Connect until TIME. Return: false if it has not. */
static bool open_flow(struct flow *flow, uint64_t time)
{
	struct sockaddr_in own = {
		.sin_family = AF_INET,
		.sin_port = htons(flow->from),
		.sin_addr = flow->bind,
	};
	unsigned long pace = flow->rate / 8;
	int one = 1;

	flow->fd = socket(AF_INET,
			  (flow->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC,
			  0);
	if (flow->fd < 0)
		flow_broken(flow, "socket");
	set_option(flow, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one),
		   "SO_REUSEADDR");
	/* Let connect() choose a port that is free for this destination. */
	if (flow->bind.s_addr && !flow->from)
		set_option(flow, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one,
			   sizeof(one), "IP_BIND_ADDRESS_NO_PORT");
	if ((flow->from || flow->bind.s_addr) &&
	    bind(flow->fd, (struct sockaddr *)&own, sizeof(own)))
		flow_broken(flow, "bind");
	if (*flow->cc)
		set_option(flow, IPPROTO_TCP, TCP_CONGESTION, flow->cc,
			   strlen(flow->cc), flow->cc);
	if (pace && !flow->udp)
		set_option(flow, SOL_SOCKET, SO_MAX_PACING_RATE, &pace,
			   sizeof(pace), "SO_MAX_PACING_RATE");
	if (!set_send_timeout(flow, time) ||
	    connect(flow->fd, (struct sockaddr *)&flow->to, sizeof(flow->to))) {
		if (!stopped && elapsed() < time && !timed_out())
			flow_broken(flow, "connect");
		read_congestion_control(flow);
		close(flow->fd);
		return false;
	}
	read_congestion_control(flow);
	/* A route or a BPF program may have replaced it. */
	if (*flow->cc && strcmp(flow->ran, flow->cc))
		broken("flow %u: asked for %s, got %s", number_of(flow),
		       flow->cc, flow->ran);
	return true;
}

/* Send until TIME, BYTES in all (0: any). Return: true if these were sent. */
static bool send_bytes(struct flow *flow, uint64_t bytes, uint64_t time)
{
	while (!stopped && (!bytes || flow->sent < bytes)) {
		uint64_t left = bytes - flow->sent;
		ssize_t sent;

		if (!set_send_timeout(flow, time))
			return false;
		sent = send(flow->fd, data,
			    bytes && left < CHUNK ? left : CHUNK, MSG_NOSIGNAL);
		if (sent < 0 && !timed_out())
			flow_broken(flow, "send");
		if (sent > 0)
			flow->sent += sent;
	}
	return bytes && flow->sent == bytes;
}

/* Send packets at the flow's rate until TIME. */
static void send_packets(struct flow *flow, uint64_t time)
{
	double interval = flow->size * 8e9 / flow->rate;
	double due = elapsed();

	while (!stopped && (uint64_t)due < time) {
		uint64_t stamp;
		char packet[PACKET_MAX] = "";

		sleep_until(due);
		stamp = htobe64(now());
		memcpy(packet, &stamp, sizeof(stamp));
		/* Ignore errors of a sink that has ended. */
		if (send(flow->fd, packet, flow->size, 0) > 0)
			flow->sent += flow->size;
		due += interval;
	}
}

/* All was sent: wait for the sink's answer. */
static void finish(struct flow *flow)
{
	struct answer answer;

	if (shutdown(flow->fd, SHUT_WR))
		flow_broken(flow, "shutdown");
	if (recv(flow->fd, &answer, sizeof(answer), MSG_WAITALL) !=
	    sizeof(answer)) {
		if (stopped)
			return;
		broken("flow %u: the sink closed early", number_of(flow));
	}
	if (be64toh(answer.bytes) != flow->bytes)
		broken("flow %u: the sink got %llu bytes of %llu",
		       number_of(flow),
		       (unsigned long long)be64toh(answer.bytes),
		       (unsigned long long)flow->bytes);
	flow->complete = true;
	flow->segments = be64toh(answer.segments);
}

void read_tcp_info(struct flow *flow, struct tcp_info *info)
{
	socklen_t size = sizeof(*info);

	memset(info, 0, sizeof(*info));
	if (!flow->udp &&
	    getsockopt(flow->fd, IPPROTO_TCP, TCP_INFO, info, &size))
		flow_broken(flow, "TCP_INFO");
}

void close_flow(struct flow *flow)
{
	struct linger reset = { .l_onoff = 1 };

	pthread_mutex_lock(&flow->lock);
	if (flow->state == OPEN) {
		read_tcp_info(flow, &flow->last);
		read_congestion_control(flow);
		flow->ended = elapsed();
		if (flow->complete)
			flow->lost =
				flow->last.tcpi_data_segs_out - flow->segments;
		else
			setsockopt(flow->fd, SOL_SOCKET, SO_LINGER, &reset,
				   sizeof(reset));
		close(flow->fd);
	}
	flow->state = ENDED;
	pthread_mutex_unlock(&flow->lock);
}

void *run_flow(void *argument)
{
	struct flow *flow = argument;
	uint64_t last = nanoseconds(flow->stop);
	bool connected, done = false;

	sleep_until(nanoseconds(flow->first ? flow->open : flow->start));
	if (stopped)
		return NULL;
	connected = open_flow(flow, last);
	pthread_mutex_lock(&flow->lock);
	flow->began = flow->ended = elapsed();
	flow->state = connected ? OPEN : ENDED;
	pthread_mutex_unlock(&flow->lock);
	if (!connected)
		return NULL;
	if (flow->first && send_bytes(flow, flow->first, last))
		sleep_until(nanoseconds(flow->start));

	while (!done && !stopped && elapsed() < last) {
		uint64_t until = last, pause = 0;

		if (flow->on.mean) {
			until = earlier(last,
					elapsed() +
						draw_duration(flow, &flow->on));
			pause = draw_duration(flow, &flow->off);
		}
		if (flow->udp)
			send_packets(flow, until);
		else
			done = send_bytes(flow, flow->bytes, until);
		/* Also if too little time is left for another send. */
		if (!done)
			sleep_until(earlier(last, until + pause));
	}
	if (done)
		finish(flow);
	close_flow(flow);
	return NULL;
}
