/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections, as the kernel's connection tracking (conntrack) tells of them.
 *
 * Events come when a connection is new, changes its state, or ends; and the whole
 * table can be asked for, which says more (what was sent) and is also what remains
 * when events were lost. Nobody waits for either.
 *
 * Conntrack looks at packets only if some rule has a use for that. So there is one
 * of ours, in a table "inet slbnd" of nftables: "ct bytes > 0" makes conntrack
 * watch IPv4 and IPv6, and count. It stands in a chain that no packet goes through,
 * for it is not to do anything. The table has an owner (flags owner): it goes with
 * the socket that made it, whatever becomes of slbnd, and "nft flush ruleset" by
 * others does not touch it.
 *
 * A connection has two halves, packets in the original direction and replies. A
 * half's flow is that of its packets as they leave this router: after address
 * translation. Where they leave is the inverse of how the other half comes in:
 *
 *	conntrack's tuples		halves as they leave
 *	original  A:1 > V:80		original  W:9 > B:80	translated
 *	reply     B:80 > W:9		reply	  V:80 > A:1	translated back
 *
 * So the true ends are what the halves are sent to, here B and A.
 */
#ifndef SLBND_TRACK_H
#define SLBND_TRACK_H

#include <stdbool.h>
#include <stddef.h>

#include <fairpath/core.h>

#include "../libslbn/libslbn.h"

/* Nothing counts what it sends: it is older than our rule. */
#define TRACK_UNCOUNTED (~0ULL)

enum {
	TRACK_ORIGINAL,
	TRACK_REPLY,
	TRACK_HALVES
};

/**
 * struct track_half - packets in one direction
 * @flow: these packets as they leave; ports only of protocols that have such
 * @started: there were some
 * @ended: its sender will send no more (TCP)
 * @bytes: sent so far, with IP headers; TRACK_UNCOUNTED: this is not told
 */
struct track_half {
	struct slbn_flow flow;
	bool started;
	bool ended;
	u64 bytes;
};

/**
 * struct track_connection - a connection
 * @id: tells it from others of the same addresses and ports
 * @gone: conntrack has forgotten it
 * @halves: its directions
 */
struct track_connection {
	u32 id;
	bool gone;
	struct track_half halves[TRACK_HALVES];
};

/**
 * struct track_events - who is told, of what
 * @seen: a connection as it is
 * @listed: all of the table has been told, since track_list()
 * @lost: events were lost: nothing is certain before the next table
 */
struct track_events {
	void (*seen)(void *context, const struct track_connection *connection);
	void (*listed)(void *context);
	void (*lost)(void *context);
};

/**
 * struct track - connection tracking
 * @events: who is told
 * @context: handed to them
 * @news: events
 * @table: the table
 * @listing: it is being told
 * @rule: who owns our rule; NULL: there is none
 */
struct track {
	const struct track_events *events;
	void *context;
	struct mnl_socket *news;
	struct mnl_socket *table;
	bool listing;
	struct nft_ctx *rule;
};

int track_open(struct track *track, const struct track_events *events,
	       void *context);
void track_close(struct track *track);
void track_list(struct track *track);
void track_serve(struct track *track);
int track_fd(const struct track *track, bool table);

#endif /* SLBND_TRACK_H */
