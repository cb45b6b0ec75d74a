/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FAIRTRAFFIC_H
#define FAIRTRAFFIC_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "common.h"
#include "draw.h"

#define BIN_NSEC (NSEC_PER_SEC / 10)
#define MAX_EVENTS 64
/* A packet must hold a time stamp, and fit into one IPv4 packet. */
#define MIN_PACKET 8
#define MAX_PACKET 65507

enum kind {
	FLOWS,
	PACKETS
};

extern const char *const kinds[];

/* The command line. Rates in bit/s, sizes in bytes. */
struct options {
	enum kind kind;
	struct in_addr address;
	uint16_t port;
	double load;
	double mean;
	double shape; /* of the Pareto distribution; 0: exponential */
	double peak; /* 0: no limit */
	uint64_t seed;
	double seconds; /* 0: until a signal */
	unsigned int ports;
	double delays_from; /* s, CLOCK_MONOTONIC */
	const char *output;
};

/* Packets of a time interval of BIN_NSEC, by their sending time. */
struct bin {
	uint64_t packets;
	uint64_t delay; /* sum over the packets [ns] */
	uint64_t longest;
};

struct bins {
	uint64_t first; /* the first bin's number: its time / BIN_NSEC */
	struct bin *bin;
	size_t count;
};

/* The bin of a packet sent at time @sent [ns]. */
struct bin *bin_of(struct bins *bins, uint64_t sent);

/* The payload of all sends and receives. */
extern char payload[256 << 10];

int new_set(void);
int new_socket(int type);
struct sockaddr_in address_of(const struct options *o);

/* Watch @fd for any change, edge-triggered; @what is the event's data. */
void watch(int set, int fd, void *what);

/*
 * Wait for events for at most @time [ns]. Return: their number; 0 after the
 * time or a signal.
 */
int wait_for(int set, struct epoll_event *events, uint64_t time);

/* Does errno ask to retry a non-blocking call later? */
bool try_again(void);

/* The result: one JSON document. write_head() calls begin_output(). */
void write_head(FILE *file, const struct options *o, const char *role,
		uint64_t began);
void write_bins(FILE *file, const struct bins *bins, bool delays);

void start_arrivals(struct arrivals *arrivals, const struct options *o);
void source(const struct options *o);
void sink(const struct options *o);

#endif /* FAIRTRAFFIC_H */
