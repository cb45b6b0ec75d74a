/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internals of flow detection, for flows.c and counted.c.
 */
#ifndef SLBND_FLOWS_INTERNAL_H
#define SLBND_FLOWS_INTERNAL_H

#include "flows.h"

/* Idle times after which a TCP connection is assumed to be dead. */
#define TCP_IDLE 30

/**
 * struct direction_key - a direction of a connection
 * @flow: its packets as they leave
 * @id: conntrack's ID of the connection
 */
struct direction_key {
	struct slbn_flow flow;
	u32 id;
};

/**
 * struct connection - a connection of a local host
 * @key: the direction from the local host; first member, for lookups
 * @list: list of all connections
 * @sender: the local host
 * @host: the same, counted
 * @mark: conntrack's mark
 * @zone: conntrack's zone
 * @direction: TRACK_ORIGINAL or TRACK_REPLY
 * @detected: its flow; NULL: it has sent too little, or is idle
 * @joined: it has had a flow
 * @closing: its sender has finished, or says so
 * @bytes: sent, when last read
 * @packets: the same
 * @sent: what it has sent since it was idle
 * @speed: at which it has sent when it was last read, bit/s
 * @read_at: time of that, or of the first answer, ns
 * @began: time of its first event, until there is an answer, ns; 0: unknown
 * @check: in the queue of its next look-up
 * @queue: number of this queue
 * @checked: look-ups so far, without that after the handshake; FLOWS_CHECKS: no more
 * @check_at: time of the next look-up, ns; 0: it is in no queue
 * @active: when it last sent, as far as known, ns
 * @dump: dump that it was last in, or the one before its last event
 * @place: in the BPF program's table, if that counts it
 * @tracked: conntrack knew it when it was last looked up
 * @looked_up: time of that, ns
 */
struct connection {
	struct direction_key key;

	LIST_ENTRY(connection) list;
	u8 sender[16];
	struct admit_host *host;
	u32 mark;
	u16 zone;
	u8 direction;
	struct detected_flow *detected;
	bool joined;
	bool closing;
	u64 bytes;
	u64 packets;
	struct agent_credit sent;
	u64 speed;
	u64 read_at;
	u64 began;

	TAILQ_ENTRY(connection) check;
	u8 queue;
	u8 checked;
	u64 check_at;
	u64 active;
	u32 dump;
	u32 place;
	bool tracked;
	u64 looked_up;
};

bool flows_is_orphan(const struct session *session);
void flows_release_orphans(struct flows *flows);
void flows_leave_first(struct flows *flows, struct detected_flow *detected);
void flows_attach(struct flows *flows, struct connection *connection);
void flows_detach(struct flows *flows, struct connection *connection);
void flows_add_check(struct flows *flows, struct connection *connection,
		     u32 queue);
void flows_queue_check(struct flows *flows, struct connection *connection);
u32 flows_check_queue(u64 wait);
void flows_end_checks(struct flows *flows, struct connection *connection);
void flows_restart_checks(struct flows *flows, struct connection *connection);
void flows_check_end(struct flows *flows, struct connection *connection);
bool flows_wait(struct flows *flows, struct connection *connection);
struct connection *flows_next_check(struct flows *flows);
struct connection *flows_find_connection(const struct flows *flows,
					 const struct direction_key *key);
struct connection *flows_insert_connection(struct flows *flows,
					   const struct direction_key *key,
					   const u8 *sender);
void flows_remove_connection(struct flows *flows,
			     struct connection *connection);
void flows_rejoin(struct flows *flows, struct connection *connection);
void flows_yield_share(struct flows *flows,
		       const struct connection *connection);

#endif /* SLBND_FLOWS_INTERNAL_H */
