/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FAIRFLOW_H
#define FAIRFLOW_H

#include <linux/tcp.h>
#include <pthread.h>
#include <stdbool.h>

#include "common.h"
#include "draw.h"

#define FLOWS_MAX 1024
#define CC_NAME_MAX 16
#define PACKET_MIN 8
#define PACKET_MAX 65507
#define SECONDS_MAX 86400.0

enum law {
	FIXED,
	EXPONENTIAL,
	PARETO
};

/* A duration in seconds, and its distribution. */
struct duration {
	enum law law;
	double mean; /* 0: none */
	double shape;
};

enum state {
	WAITING,
	OPEN,
	ENDED
};

/* A flow: its parameters, and its result. Times in ns since the start. */
struct flow {
	struct sockaddr_in to;
	struct in_addr bind; /* source address; 0: that of the route */
	uint16_t from;
	bool udp;
	char cc[CC_NAME_MAX]; /* asked for; empty: the default */
	double start, stop;
	uint64_t bytes; /* TCP: bytes to send; 0: until @stop */
	double open; /* of TCP, if @first: when it connects */
	uint64_t first; /* of @bytes, sent when it has connected; 0: none */
	double rate; /* payload in bit/s: of UDP, or TCP's limit; 0: no limit */
	unsigned int size; /* of a UDP packet */
	struct duration on, off;

	struct draw draw;
	pthread_t thread;
	pthread_mutex_t lock; /* protects the following */
	enum state state;
	int fd;
	char ran[CC_NAME_MAX]; /* the congestion control at its end */
	uint64_t began, ended;
	uint64_t sent; /* bytes handed to the kernel */
	bool complete; /* all bytes were received */
	uint64_t segments, lost; /* if complete */
	struct tcp_info last;
};

extern struct flow flows[FLOWS_MAX];
extern unsigned int flow_count;
extern uint64_t begin; /* the start by CLOCK_MONOTONIC [ns] */

/* Time since the start [ns]. */
uint64_t elapsed(void);
uint64_t nanoseconds(double seconds);

/* Sleep until so many ns after the start, or a signal. */
void sleep_until(uint64_t time);

/* The thread of a flow. */
void *run_flow(void *argument);

/* End a flow unless it has ended; a flow that is not complete is reset. */
void close_flow(struct flow *flow);

/* TCP_INFO of an open flow; zeros for UDP. */
void read_tcp_info(struct flow *flow, struct tcp_info *info);

struct samples {
	struct sample *sample;
	size_t count;
};

/* Sample all flows every so many seconds, until all have ended. */
void sample_flows(struct samples *samples, double every);

/* Write flows and samples. */
void write_result(FILE *file, const struct samples *samples, double every);

#endif /* FAIRFLOW_H */
