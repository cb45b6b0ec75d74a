/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libslbn: a program asks for a rate, and is told what it may send.
 *
 * The paper's four primitives (NCA 2012, section II): Join, Leave and Change ask;
 * Rate is told. slbnd, the agent of this access router, speaks to the network.
 *
 *	struct slbn *slbn = slbn_open(NULL);
 *	struct slbn_flow flow = { .family = AF_INET, … };
 *	struct slbn_session now;
 *	uint64_t id;
 *
 *	slbn_join(slbn, &flow, 10000000, 0, &id);
 *	while (slbn_next(slbn, -1, &now) == 1)
 *		printf("%llu bit/s\n", (unsigned long long)now.rate);
 *
 * A connection's sessions end with it, but those that are told to stay. One
 * connection may be used by one thread at a time. Functions that can fail return
 * a negative error of errno.h; slbn_reason() has more to say of it.
 */
#ifndef LIBSLBN_H
#define LIBSLBN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As a demand: whatever the network can give. */
#define SLBN_UNLIMITED 1000000000000000ULL

/* Flags of a session. */
#define SLBN_STAYS 1 /* it goes on when the connection that joined it ends */
#define SLBN_DETECTED 2 /* slbnd found it by itself */
#define SLBN_STALLED 4 /* the network has not answered for some seconds */
#define SLBN_LEAVING 8 /* its Leave is on the way */
#define SLBN_MEASURED 16 /* what its packets use is known */

/**
 * struct slbn_flow - which packets a session is about
 * @source: IPv6 address, or IPv4 address in the first four octets; all zeros: any
 * @destination: the same; the session's path is the way to it
 * @family: AF_INET or AF_INET6
 * @protocol: IPPROTO_TCP and so on; 0: all
 * @source_port: in the host's byte order; 0: all
 * @destination_port: the same
 * @reserved: 0
 */
struct slbn_flow {
	uint8_t source[16];
	uint8_t destination[16];
	uint16_t family;
	uint16_t source_port;
	uint16_t destination_port;
	uint8_t protocol;
	uint8_t reserved;
};

/**
 * struct slbn_session - a session as it is now
 * @id: its number at slbnd
 * @demand: what it asks for, bit/s
 * @rate: what it may send, bit/s; 0: not known yet
 * @cycles: how often the network has told its rate
 * @retries: packets that were sent again
 * @rtt: of its control packets, ns; 0: not known yet
 * @flow: which packets it is about
 * @flags: SLBN_STAYS and so on
 * @hops: links on its path
 * @bottleneck: the hop that restricts it, from 0; 255: its own demand does
 * @reserved: 0
 * @used: what its packets took lately, bit/s; only with SLBN_MEASURED
 * @device: where its path begins: index of the device by which the network's
 *	answers come, in slbnd's network namespace; 0: not known yet
 * @later: 0; for later versions
 */
struct slbn_session {
	uint64_t id;
	uint64_t demand;
	uint64_t rate;
	uint64_t cycles;
	uint64_t retries;
	uint64_t rtt;
	struct slbn_flow flow;
	uint32_t flags;
	uint8_t hops;
	uint8_t bottleneck;
	uint8_t reserved[2];
	uint64_t used;
	uint32_t device;
	uint32_t later[5];
};

struct slbn;

/**
 * slbn_open() - connect to slbnd
 * @path: its socket; NULL: where it is by default
 *
 * Return: the connection; NULL with errno set.
 */
struct slbn *slbn_open(const char *path);

/**
 * slbn_close() - end a connection, and its sessions
 * @slbn: the connection, or NULL
 */
void slbn_close(struct slbn *slbn);

/**
 * slbn_reason() - what was wrong
 * @slbn: the connection
 *
 * Return: a line for a person about the last function that failed; never NULL.
 */
const char *slbn_reason(const struct slbn *slbn);

/**
 * slbn_join() - begin a session
 * @slbn: the connection
 * @flow: which packets it is about; a destination is needed
 * @demand: bit/s, 1 to SLBN_UNLIMITED
 * @flags: 0 or SLBN_STAYS
 * @id: set to its number
 *
 * Its first rate comes as an event.
 *
 * Return: 0 or an error.
 */
int slbn_join(struct slbn *slbn, const struct slbn_flow *flow, uint64_t demand,
	      uint32_t flags, uint64_t *id);

/**
 * slbn_change() - ask for another rate
 * @slbn: the connection
 * @id: the session
 * @demand: bit/s, 1 to SLBN_UNLIMITED
 *
 * Return: 0 or an error; -ENOENT: there is no such session.
 */
int slbn_change(struct slbn *slbn, uint64_t id, uint64_t demand);

/**
 * slbn_leave() - end a session
 * @slbn: the connection
 * @id: the session
 *
 * Return: 0 or an error; -ENOENT: there is no such session.
 */
int slbn_leave(struct slbn *slbn, uint64_t id);

/**
 * slbn_watch() - be told of all sessions, others' too
 * @slbn: the connection
 *
 * Return: 0 or an error.
 */
int slbn_watch(struct slbn *slbn);

/**
 * slbn_list() - all sessions as they are now
 * @slbn: the connection
 * @each: called for each of them
 * @context: handed to it
 *
 * Return: 0 or an error.
 */
int slbn_list(struct slbn *slbn,
	      void (*each)(const struct slbn_session *session, void *context),
	      void *context);

/**
 * slbn_fd() - what to poll for
 * @slbn: the connection
 *
 * When it is readable, slbn_next() may have an event. Events that came between
 * request and answer are kept, so ask slbn_next() once before the first poll, and
 * after each request.
 *
 * Return: a file descriptor, which stays the connection's.
 */
int slbn_fd(const struct slbn *slbn);

/**
 * slbn_next() - the next event
 * @slbn: the connection
 * @timeout: how long to wait for it, ms; 0: not at all; -1: for ever
 * @session: set to the session that it is about; the rate of one that is over is 0
 *	and its flag SLBN_LEAVING is set
 *
 * Return: 1; 0 if there was none; or an error: -EINTR if a signal was caught.
 */
int slbn_next(struct slbn *slbn, int timeout, struct slbn_session *session);

#ifdef __cplusplus
}
#endif

#endif /* LIBSLBN_H */
