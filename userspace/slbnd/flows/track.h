/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connection tracking: events, dumps and look-ups in the kernel's conntrack.
 *
 * Events report new, changed and destroyed connections. A dump of the table has
 * counters, too, and replaces lost events. Neither blocks. Look-ups read the
 * counters of single connections, in batches.
 *
 * Conntrack is active only if a rule uses it. So there is one in our own nftables
 * table, "inet slbnd": "ct bytes > 0" activates tracking of IPv4 and IPv6, and the
 * counters. Its chain has no hook, so no packet passes it. The table has the flag
 * owner: it is deleted with our socket, even after a crash, and "nft flush ruleset"
 * does not delete it.
 *
 * A connection has two directions, original and reply. The flow of a direction
 * has the addresses of its packets when they leave this router, after address
 * translation: the inverse of those of the other direction's packets as they
 * arrive:
 *
 *	conntrack's tuples		flows
 *	original  A:1 > V:80		original  W:9 > B:80	translated
 *	reply     B:80 > W:9		reply	  V:80 > A:1	translated back
 *
 * So the real endpoints are the destinations of the flows, here B and A.
 */
#ifndef SLBND_TRACK_H
#define SLBND_TRACK_H

#include <stdbool.h>
#include <stddef.h>

#include <fairpath/core.h>

#include "../../libslbn/libslbn.h"

/* No counter: the connection is older than our rule. */
#define TRACK_UNCOUNTED (~0ULL)

enum {
	TRACK_ORIGINAL,
	TRACK_REPLY,
	TRACK_DIRECTIONS
};

/**
 * struct track_direction - one direction of a connection
 * @flow: its packets as they leave; ports 0 if the protocol has none
 * @started: packets were sent
 * @ended: its sender has finished (TCP)
 * @bytes: sent, with IP headers; TRACK_UNCOUNTED: unknown
 * @packets: sent, if @bytes is known. Packets that the receiving device has merged
 *	(GRO) count as one
 */
struct track_direction {
	struct slbn_flow flow;
	bool started;
	bool ended;
	u64 bytes;
	u64 packets;
};

/**
 * struct track_connection - a connection
 * @id: differs from that of other connections with the same addresses and ports,
 *	earlier ones and those in other zones
 * @zone: conntrack's zone
 * @event: this is an event, which has no counters
 * @marked: @mark is known; events report it only when it changes
 * @mark: conntrack's mark; 0: none
 * @destroyed: conntrack deleted it
 * @directions: TRACK_ORIGINAL and TRACK_REPLY
 */
struct track_connection {
	u32 id;
	u16 zone;
	bool event;
	bool marked;
	u32 mark;
	bool destroyed;
	struct track_direction directions[TRACK_DIRECTIONS];
};

/* Connections of a batch of look-ups. */
#define TRACK_LOOKUPS 64

/**
 * struct track_lookup - a connection to look up
 * @flow: of one of its directions; a protocol with ports
 * @direction: which: TRACK_ORIGINAL or TRACK_REPLY
 * @zone: conntrack's zone
 */
struct track_lookup {
	struct slbn_flow flow;
	u8 direction;
	u16 zone;
};

/**
 * struct track_callbacks - notifications
 * @update: the state of a connection
 * @dump_done: the dump of track_dump() is complete
 * @events_lost: a dump is needed
 */
struct track_callbacks {
	void (*update)(void *context,
		       const struct track_connection *connection);
	void (*dump_done)(void *context);
	void (*events_lost)(void *context);
};

/**
 * struct track - connection tracking
 * @callbacks: notifications
 * @context: passed to @callbacks
 * @events: socket of events, if they are wanted
 * @table: socket of dumps
 * @single: socket of look-ups
 * @dumping: a dump is in progress
 * @in_events: messages that are being read are events
 * @failed: the last look-up failed
 * @rule: owns our nftables table; NULL: there is none
 */
struct track {
	const struct track_callbacks *callbacks;
	void *context;
	struct mnl_socket *events;
	struct mnl_socket *table;
	struct mnl_socket *single;
	bool dumping;
	bool in_events;
	bool failed;
	struct nft_ctx *rule;
};

int track_open(struct track *track, const struct track_callbacks *callbacks,
	       void *context, bool events);
void track_close(struct track *track);
void track_dump(struct track *track);
void track_receive(struct track *track);
bool track_can_look_up(u8 protocol);
bool track_look_up(struct track *track, const struct track_lookup *lookups,
		   u32 count);
void track_read_table(u32 *entries, u32 *most);
int track_fd(const struct track *track, bool table);

#endif /* SLBND_TRACK_H */
